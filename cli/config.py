"""ragway config: effective settings, and where each came from."""

import dataclasses
import os
import re
from collections.abc import Iterator
from typing import Any

import click
import orjson

from cli.common import with_settings
from config.sections import ActionsApi, DeclaredSource, Model, Settings, TableSource

_PASSWORD = re.compile(r"://[^/\s]+@")  # user:password in a URL, up to the last @, which passwords may contain
_PARAMETER = re.compile(r"([?&](?!api-version=)[^=&\s]+=)[^&\s]+")  # in a URL's query, which may hold a key


@click.command("config")
@click.option("--json", "as_json", is_flag=True, help="A JSON object: key -> value and origin.")
@with_settings
def command(as_json: bool, settings: Settings) -> None:
    """Print every setting with the value and the origin (default, file, environment, command line).

    Keys come from environment variables. The command prints whether a key is set, never the key.
    """
    rows = list(_rows(settings))
    if as_json:
        click.echo(orjson.dumps({key: {"value": value, "origin": origin} for key, value, origin in rows}))
        return
    width = max(len(key) for key, _, _ in rows)
    for key, value, origin in rows:
        click.echo(f"{key:<{width}}  {value}  [{origin}]")


def shown_settings(settings: Settings) -> dict[str, str]:
    """Every setting as printed, without secrets."""
    return {key: value for key, value, _ in _rows(settings)}


def _rows(settings: Settings) -> Iterator[tuple[str, str, str]]:
    for field in dataclasses.fields(settings):
        section = getattr(settings, field.name)
        if field.name in ("models", "actions", "tables"):
            origin = settings.origins[field.name]
            for name, row in section.items():
                yield f"{field.name}.{name}", _row_text(row), origin
            if not section:
                yield field.name, _upstream_by_environment() if field.name == "models" else "none", origin
        elif field.name == "sources":
            for collection, rows in section.items():
                for number, row in enumerate(rows):
                    yield f"sources.{collection}[{number}]", _row_text(row), settings.origins["sources"]
            if not section:
                yield "sources", "none", settings.origins["sources"]
        elif dataclasses.is_dataclass(section):
            for entry in dataclasses.fields(section):
                key = f"{field.name}.{entry.name}"
                yield key, _value_text(getattr(section, entry.name), entry.name), settings.origins[key]
        elif field.name != "origins":
            yield field.name, _value_text(section, field.name), settings.origins[field.name]


def _row_text(row: Model | ActionsApi | TableSource | DeclaredSource) -> str:
    fields = {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
    return ", ".join(f"{name}={_value_text(value, name)}" for name, value in fields.items() if value is not None)


def _value_text(value: Any, name: str) -> str:
    if name.endswith("_env"):
        return f"{value} ({'set' if os.environ.get(value) else 'not set'})"
    if name == "url":  # also a database URL, whose password may contain a slash
        urls = [value] if isinstance(value, str) else value
        shown = [re.sub("://.*@", "://***@", _without_secrets(url)) for url in urls]
        value = tuple(shown) if isinstance(value, tuple) else shown[0]
    if name == "fixed":
        value = tuple(f"{argument}: ***" for argument in value)
    if name == "tools":
        value = tuple(f"{tool}: {offer}" for tool, offer in value.items())
    if isinstance(value, tuple):
        return "[" + ", ".join(value) + "]"
    return _without_secrets(str(value)) or '""'


def _without_secrets(address: str) -> str:
    return _PARAMETER.sub(r"\1***", _PASSWORD.sub("://***@", address))


def _upstream_by_environment() -> str:
    base, key = os.environ.get("OPENAI_BASE_URL"), os.environ.get("OPENAI_API_KEY")
    if not base and not key:
        return "* -> echo (neither OPENAI_API_KEY nor OPENAI_BASE_URL is set)"
    where = _without_secrets(base) if base else "OpenAI"
    return f"* -> {where} (OPENAI_API_KEY {'set' if key else 'not set'})"
