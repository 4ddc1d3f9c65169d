"""Settings as a person meets them: `ragway config`, and one line for whatever in them is wrong."""

import json
import re
from pathlib import Path

import pytest

from cli import COMMANDS
from config.settings import load
from tests.support.gateway import embedder, ragway, refused


def test_config_shows_every_setting_with_its_origin(tmp_path: Path) -> None:
    (tmp_path / "ragway.yaml").write_text("server: {port: 9000}\nretrieval: {k: 3}\n", "utf-8")
    done = ragway("config", "--data", "elsewhere", folder=tmp_path, environ={"RAGWAY_RETRIEVAL__K": "5"})
    assert (done.returncode, done.stderr) == (0, "")
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert set(lines) == set(load(environ={}).origins)
    assert re.search(r" 9000 .*\[ragway\.yaml\]$", lines["server.port"])
    assert re.search(r" 5 .*\[RAGWAY_RETRIEVAL__K\]$", lines["retrieval.k"])
    assert re.search(r" elsewhere .*\[command line\]$", lines["data"])
    assert re.search(r" 127\.0\.0\.1 .*\[default\]$", lines["server.host"])
    as_json = ragway("config", "--json", folder=tmp_path)
    assert json.loads(as_json.stdout)["server.port"] == {"value": "9000", "origin": "ragway.yaml"}


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_config_hides_every_secret(flags: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "ragway.yaml").write_text(
        """
        models:
          one: {api_base: "https://one.example/v1?api-version=1&key=s3cret-one", api_key_env: KEY_OF_ONE}
        qdrant: {url: "http://anna:s3cret-three@localhost:6333"}
        """,
        "utf-8",
    )
    secrets = {
        "OPENAI_API_KEY": "sk-s3cret-four",
        "OPENAI_BASE_URL": "http://anna:s3cret-five@localhost/v1",
        "QDRANT_API_KEY": "s3cret-six",
        "KEY_OF_ONE": "s3cret-seven",
        "RAGWAY_CATALOG__URL": "postgresql://anna:s3cret/eight@[::1]:5432/ragway?sslpassword=s3cret-nine&connect_timeout=3",
    }
    done = ragway("config", *flags, folder=tmp_path, environ=secrets)
    assert done.returncode == 0
    assert "https://one.example/v1?api-version=1&key=***" in done.stdout
    assert "://***@localhost:6333" in done.stdout
    assert "postgresql://***@[::1]:5432/ragway?sslpassword=***" in done.stdout
    assert "KEY_OF_ONE (set)" in done.stdout
    (tmp_path / "ragway.yaml").unlink()
    by_environment = ragway("config", *flags, folder=tmp_path, environ=secrets)
    assert "OPENAI_API_KEY set" in by_environment.stdout
    for said in (done, by_environment):
        assert "s3cret" not in said.stdout + said.stderr


@pytest.mark.parametrize(
    ("settings", "environ", "told"),
    [
        ("server: {prot: 1}", {}, ("server.prot", "ragway.yaml", "'server.port'")),
        ("servers: {}", {}, ("'servers'", "'server'")),
        ("server: {port: eighty}", {}, ("server.port", "a whole number", "'eighty'")),
        ("server: {port: 99999}", {}, ("server.port", "65535")),
        ("server: [", {}, ("not valid YAML",)),
        ("- server", {}, ("sections",)),
        ("retrieval: {lexical: bm26}", {}, ("retrieval.lexical", "bm25, okapi")),
        ("models: {a: {api_base: localhost}}", {}, ("models.a.api_base", "http://")),
        ("", {"RAGWAY_SERVER__PROT": "1"}, ("RAGWAY_SERVER__PROT", "'server.port'")),
        ("", {"RAGWAY_RETRIEVAL__K": "0"}, ("RAGWAY_RETRIEVAL__K", "at least 1")),
    ],
)
def test_a_wrong_setting_is_named_with_its_place_and_what_was_expected(
    settings: str, environ: dict[str, str], told: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "ragway.yaml").write_text(settings, "utf-8")
    line = refused(ragway("config", folder=tmp_path, environ=environ))
    assert all(part in line for part in told), line


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("server: {host: 0.0.0.0}", ("'0.0.0.0'", "auth.open")),
        ("server: {host: no.such.host.invalid}\nauth: {open: true}", ("no.such.host.invalid",)),
        ("models: {a: {api_key_env: NO_SUCH_KEY}}", ("models.a.api_key_env", "NO_SUCH_KEY", "not set")),
        ("inject: {template: no-such-file.txt}", ("inject.template", "no-such-file.txt")),
        ("", ("no-such-model", "embedder.model")),
        ("models: {a: {}}", ("OPENAI_BASE_URL", "http://", "'localhost:1'")),
        ("", ("OPENAI_BASE_URL", "http://", "'localhost:1'")),
    ],
)
def test_serve_refuses_in_one_line_what_it_cannot_use(settings: str, told: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "ragway.yaml").write_text(settings, "utf-8")
    environ = {"OPENAI_BASE_URL": "localhost:1"} if "OPENAI_BASE_URL" in told else {}
    environ |= embedder("./no-such-model") if "no-such-model" in told else {}
    line = refused(ragway("serve", "--port", "0", folder=tmp_path, environ=environ))
    assert all(part in line for part in told), line


def test_a_settings_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for name in COMMANDS:
        given = {
            "delete": ["x", "--yes"],
            "keys": ["list"],
            "actions": ["list"],
            "tools": ["list"],
            "tables": ["list"],
            "ingest": ["x.md"],
            "search": ["x"],
            "rebuild": ["x"],
        }
        args = {**given, "eval": ["."], "bench": ["x.jsonl", "--model", "m"], "replay": ["rag-1"]}.get(name, [])
        line = refused(ragway(name, *args, "--config", "other.yaml", folder=tmp_path))
        assert "other.yaml" in line
