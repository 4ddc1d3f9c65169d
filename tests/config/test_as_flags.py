"""Settings travel to worker processes as JSON, and arrive as they were."""

from dataclasses import replace
from pathlib import Path

import orjson

from config.sections import Settings
from config.settings import load


def _travelled(settings: Settings) -> Settings:
    return load(environ={}, flags=orjson.loads(orjson.dumps(settings.as_flags())))


def test_the_defaults_arrive_as_they_were() -> None:
    settings = load(environ={})
    assert replace(_travelled(settings), origins={}) == replace(settings, origins={})


def test_every_kind_of_value_arrives_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "ragway.yaml"
    file.write_text(
        "server: {workers: 3, cors_origins: [https://a.example, https://b.example], shutdown_s: 2.5}\n"
        "auth: {open: true}\ndata: näme of a folder\n"
        "upstream: {paths: {/v1/files: gpt-x}}\n"
        'retrieval: {enabled: false, rewrite: off, collections: []}\ninject: {template: "a\\nb"}\n'
        "models:\n  bare:\n  gpt-*: {api_base: http://127.0.0.1:9/v1, api_key_env: K, lane: relay}\n",
        "utf-8",
    )
    settings = load(file=file, environ={"RAGWAY_SERVER__PORT": "9000"})
    assert replace(_travelled(settings), origins={}) == replace(settings, origins={})


def test_what_an_environment_variable_holds_does_not_travel() -> None:
    settings = load(environ={}, flags={"models": {"m": {"api_key_env": "KEY"}}})
    assert settings.as_flags()["models"]["m"]["api_key_env"] == "KEY"
