"""compose.yaml, read by Docker Compose. The tests start no container."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import ROOT

BESIDE_PYTHON = Path(sys.executable).with_name("docker-compose")
COMPOSE = str(BESIDE_PYTHON) if BESIDE_PYTHON.exists() else shutil.which("docker-compose")
pytestmark = pytest.mark.skipif(COMPOSE is None, reason="Docker Compose is not installed: `make test` installs it")


def compose(file: Path, *options: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """`docker compose config` on a file, in an environment of these variables alone."""
    return subprocess.run(
        [str(COMPOSE), *options, "--project-directory", ROOT, "--file", file, "config", "--format", "json"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": os.environ["PATH"], "HOME": str(file.parent), **environ},
    )


def services(*options: str, **environ: str) -> dict[str, Any]:
    """Name -> service, as Docker Compose understands compose.yaml."""
    done = compose(ROOT / "compose.yaml", "--env-file", os.devnull, *options, **environ)
    assert (done.returncode, done.stderr) == (0, "")
    read: dict[str, Any] = json.loads(done.stdout)["services"]
    return read


def test_the_gateway_waits_for_a_healthy_qdrant_and_answers_on_loopback_only() -> None:
    read = services()
    assert set(read) == {"gateway", "qdrant"}
    assert read["gateway"]["depends_on"]["qdrant"]["condition"] == "service_healthy"
    assert [(port["host_ip"], port["target"]) for port in read["gateway"]["ports"]] == [("127.0.0.1", 8000)]
    assert "ports" not in read["qdrant"]
    assert read["gateway"]["environment"]["RAGWAY_QDRANT__URL"] == "http://qdrant:6333"
    assert read["gateway"]["build"]["context"] == str(ROOT)


def test_the_variables_of_the_example_reach_the_gateway(tmp_path: Path) -> None:
    example = (ROOT / ".env.example").read_text("utf-8")
    assert {"#OPENAI_API_KEY=", "#TORCH_INDEX=", "#EXTRAS="} <= set(example.splitlines())
    variables = tmp_path / ".env"
    variables.write_text(re.sub(r"^#(OPENAI_API_KEY|TORCH_INDEX|EXTRAS)=$", r"\1=given", example, flags=re.MULTILINE))
    gateway = services("--env-file", str(variables))["gateway"]
    assert gateway["environment"]["OPENAI_API_KEY"] == "given"
    assert gateway["build"]["args"] == {"TORCH_INDEX": "given", "EXTRAS": "given"}


def test_the_qdrant_image_has_the_minor_version_of_the_client() -> None:
    pinned = (ROOT / "requirements" / "runtime.txt").read_text("utf-8")
    (minor,) = re.findall(r"^qdrant-client==(\d+\.\d+)\.", pinned, re.MULTILINE)
    assert services()["qdrant"]["image"].startswith(f"qdrant/qdrant:v{minor}.")


def test_docker_compose_refuses_an_unknown_option(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text((ROOT / "compose.yaml").read_text("utf-8").replace("    restart:", "    restarts:", 1))
    done = compose(wrong)
    assert done.returncode != 0
    assert "restarts" in done.stderr
