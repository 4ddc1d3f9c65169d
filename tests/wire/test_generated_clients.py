"""Clients that generators make from the served OpenAPI document work with a served gateway.

Each program in `tests/generators/` does the same steps with a generated client. The generated code is in a temporary
folder only. `make test-all` installs the generators; Java and Go are Debian's.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from proxy.access.sql import SqlAccounts
from proxy.api.knowledge.description import PATH
from proxy.caller import EVERYTHING
from tests.support.gateway import serving

PROGRAMS = Path(__file__).resolve().parents[1] / "generators"
TOOLS = Path(sys.prefix) / "generators" / "bin"
NODE = PROGRAMS / "node_modules"

GIVEN: Mapping[str, Any] = {
    "text": "The red pump is called Oskar and runs at 40 bar.",
    "modified_at": 1763980123,  # a float32 is 37 s off
    "attributes": {"colour": "red", "bar": 40.5, "tested": True, "tags": ["hall", "north"]},
}
DONE: Mapping[str, Any] = {
    **GIVEN,
    "placed": "created",
    "found": ["pump"],
    "others": [],
    "uploaded": ["created"],
    "documents": ["pump", "valves.md"],
    "jobs": ["completed"],
    "limit": 7,
    "listed": True,
    "revoked": True,
    "missing": [404, "document_not_found"],
    "deleted": [True, True],
}


@dataclass(frozen=True, slots=True)
class Program:
    """A program with a generated client, ready to run."""

    command: Sequence[str | Path]
    environ: Mapping[str, str]


def run(*command: str | Path, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command that must succeed."""
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=280,
        env={**os.environ, "PATH": f"{TOOLS}:{os.environ['PATH']}", **environ},
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done


def openapi_python_client(document: Path, folder: Path) -> Program:
    done = run("openapi-python-client", "generate", "--path", document, "--output-path", "client", folder=folder)
    left_out = [
        line for line in done.stderr.splitlines() if line.startswith(("WARNING", "Unable", "Failure", "Skipping"))
    ]
    # the reply is in JSON Lines, for which the generator has no reader; the other parts of the document have code
    assert left_out == ["WARNING parsing GET /v1/knowledge/collections/{name}/export within documents."]
    return Program([TOOLS / "python", PROGRAMS / "openapi_python_client.py"], {"PYTHONPATH": str(folder / "client")})


def openapi_generator(language: str, document: Path, folder: Path, out: str) -> None:
    """Generate code with OpenAPI Generator into the folder `out`."""
    run("openapi-generator-cli", "generate", "-i", document, "-g", language, "-o", out, folder=folder)


def openapi_generator_python(document: Path, folder: Path) -> Program:
    openapi_generator("python", document, folder, "client")
    return Program([TOOLS / "python", PROGRAMS / "openapi_generator.py"], {"PYTHONPATH": str(folder / "client")})


def openapi_generator_go(document: Path, folder: Path) -> Program:
    """In Go's older form without modules, because the module proxy is not one of the registries of the tests."""
    sources = folder / "src"
    openapi_generator("go", document, folder, "src/generated")
    (sources / "generated" / "go.mod").unlink()
    program = sources / "program"
    program.mkdir()
    shutil.copy(PROGRAMS / "openapi_generator.go", program / "program.go")
    # the library checks rules in tags of fields; the generated code has no rules in tags
    validator = sources / "gopkg.in" / "validator.v2"
    validator.mkdir(parents=True)
    (validator / "validator.go").write_text("package validator\n\nfunc Validate(any) error { return nil }\n")
    environ = {"GO111MODULE": "off", "GOPATH": str(folder), "GOCACHE": str(folder / "cache"), "GOFLAGS": ""}
    run("go", "build", "-o", folder / "run", ".", folder=program, **environ)
    return Program([folder / "run"], {})


def compiled(folder: Path, program: str) -> Program:
    """The TypeScript program beside the generated code, strictly compiled."""
    shutil.copy(PROGRAMS / program, folder / "program.ts")
    shutil.copy(PROGRAMS / "tsconfig.json", folder)
    (folder / "package.json").write_text("{}")
    run(NODE / ".bin" / "tsc", "-p", ".", folder=folder)
    return Program(["node", folder / "out" / "program.js"], {})


def in_node(folder: Path) -> Path:
    """The folder, with the installed packages of Node."""
    (folder / "node_modules").symlink_to(NODE)
    return folder


def openapi_typescript(document: Path, folder: Path) -> Program:
    run(NODE / ".bin" / "openapi-typescript", document, "-o", "generated.ts", folder=in_node(folder))
    return compiled(folder, "openapi_fetch.ts")


def hey_api(document: Path, folder: Path) -> Program:
    run(NODE / ".bin" / "openapi-ts", "-i", document, "-o", "generated", folder=in_node(folder))
    return compiled(folder, "hey_api.ts")


def openapi_generator_typescript(document: Path, folder: Path) -> Program:
    openapi_generator("typescript-fetch", document, in_node(folder), "generated")
    return compiled(folder, "typescript_fetch.ts")


PYTHON_TOOLS = ("make test-all installs the generators", TOOLS / "openapi-python-client")
NODE_TOOLS = ("make test-all installs the generators of tests/generators, with npm", NODE / ".bin" / "tsc")
JAVA = ("no Java (Debian: apt install default-jre-headless)", "java")
GO = ("no Go (Debian: apt install golang-go)", "go")
# How a client is made -> what the test needs: the reason of a skip, and a program.
CLIENTS: Mapping[Callable[[Path, Path], Program], Sequence[tuple[str, str | Path]]] = {
    openapi_python_client: [PYTHON_TOOLS],
    openapi_generator_python: [PYTHON_TOOLS, JAVA],
    openapi_generator_go: [PYTHON_TOOLS, JAVA, GO],
    openapi_generator_typescript: [PYTHON_TOOLS, JAVA, NODE_TOOLS],
    openapi_typescript: [NODE_TOOLS],
    hey_api: [NODE_TOOLS],
}


@dataclass(frozen=True, slots=True)
class Gateway:
    """A served gateway, a key with every right, and the file with the served OpenAPI document."""

    url: str
    key: str
    document: Path


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("gateway")
    data = folder / "data"
    data.mkdir()
    key = SqlAccounts(data).create("root", EVERYTHING)[1]
    settings = "models: {echo: {lane: echo}}\nactions: {shop: {base_url: 'https://shop.example'}}"  # for all paths
    with serving(data, folder, settings) as served:
        reply = httpx.get(served.url + PATH, headers={"authorization": f"Bearer {key}"}, timeout=30)
        (folder / "openapi.json").write_bytes(reply.raise_for_status().content)
        yield Gateway(served.url, key, folder / "openapi.json")


@pytest.mark.parametrize("made", CLIENTS, ids=lambda made: made.__name__)
def test_a_generated_client_does_every_step(
    made: Callable[[Path, Path], Program], gateway: Gateway, tmp_path: Path
) -> None:
    for reason, needed in CLIENTS[made]:
        if shutil.which(needed) is None:
            pytest.skip(reason)
    name = made.__name__.replace("_", "-")
    program = made(gateway.document, tmp_path)
    steps = [gateway.url, gateway.key, name, json.dumps(GIVEN)]
    done = json.loads(run(*program.command, *steps, folder=tmp_path, **program.environ).stdout)
    assert {**done, "documents": sorted(done["documents"])} == {**DONE, "created": name}
