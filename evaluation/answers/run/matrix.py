"""Makes a run's variants from models, modes, collections, dialects and settings, each with each."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from evaluation.answers.client.request_bodies import BODIES
from evaluation.answers.records import BenchError, DialectName, Mode, Variant

# The bench itself sets these request members.
_OURS = ("model", "messages", "input", "system", "stream", "stream_options", "rag", "n")
_OF_RETRIEVAL = ("k",)
_MOST_K = 100
MODES: Sequence[Mode] = ("raw", "rag", "whole")

Settings = Mapping[str, Any]


def variants(
    models: Sequence[str],
    modes: Sequence[Mode],
    collections: Sequence[str],
    settings: Sequence[str],
    dialects: Sequence[DialectName] = (),
) -> list[Variant]:
    """Every combination; for each model, raw variants come first. Raises BenchError.

    collections: each "a" or "a,b" (searched together); empty: the gateway's default. settings: each
    "name=value,name=value", for one variant; empty: the gateway's default. dialects: empty: chat completions.
    """
    chosen: Sequence[Sequence[str] | None] = [names_of(collection) for collection in collections] or [None]
    sets: Sequence[Settings] = [settings_of(each) for each in settings] or [{}]
    found: dict[str, Variant] = {}
    for model in models:
        _check_model(model)
        for mode in (mode for mode in MODES if mode in modes):
            for one in _of(model, mode, chosen, sets, dialects or ("chat",)):
                found.setdefault(one.name, one)
    return list(found.values())


def _of(
    model: str,
    mode: Mode,
    collections: Sequence[Sequence[str] | None],
    sets: Sequence[Settings],
    dialects: Sequence[DialectName],
) -> Iterator[Variant]:
    if mode == "raw":
        collections = [None]
    for names, dialect, settings in itertools.product(collections, dialects, sets):
        kept = settings if mode == "rag" else {k: v for k, v in settings.items() if k not in _OF_RETRIEVAL}
        kept = {**BODIES[dialect].required, **kept}
        parts = [model, mode, *([",".join(names)] if names else [])]
        parts += [] if dialect == "chat" else [f"dialect={dialect}"]
        parts += [f"{name}={_setting_text(value)}" for name, value in kept.items()]
        yield Variant(" ".join(parts), model, mode, names, kept, dialect)


def names_of(collections: str) -> list[str]:
    """The collections in "a,b". Raises BenchError."""
    names = [name.strip() for name in collections.split(",")]
    if not all(name and name.isprintable() for name in names):
        raise BenchError(f"--collection {collections!r}: write a name, or several names with commas")
    return list(dict.fromkeys(names))


def settings_of(text: str) -> Settings:
    """Parse "k=3,temperature=0". A value is JSON if possible, else text.

    A comma in brackets, braces or quotes belongs to the value. Raises BenchError.
    """
    found: dict[str, Any] = {}
    for part in _parts(text):
        name, equals, value = (each.strip() for each in part.partition("="))
        if not equals or not name or not value:
            raise BenchError(f"--set {text!r}: write name=value, several settings with commas")
        if name in _OURS:
            raise BenchError(f"--set {text!r}: the bench sets {name} itself: leave {name} out")
        if name in found:
            raise BenchError(f"--set {text!r} sets {name} twice")
        found[name] = _value(value)
    k = found.get("k")
    if "k" in found and (not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= _MOST_K):
        raise BenchError(f"--set {text!r}: k must be a whole number from 1 to {_MOST_K}")
    return found


def _parts(text: str) -> Iterator[str]:
    """Split a text at commas outside JSON brackets and quotes."""
    depth, quoted, escaped, part = 0, False, False, ""
    for char in text:
        if char == "," and not depth and not quoted:
            yield part
            part = ""
            continue
        part += char
        if char == '"' and not escaped:
            quoted = not quoted
        elif not quoted:
            depth += (char in "[{") - (char in "]}")
        escaped = char == "\\" and not escaped
    yield part


def _value(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _setting_text(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def raw_variant(name: str, model: str, settings: str | None) -> Variant:
    """A variant without passages, with settings "name=value,name=value". Raises BenchError."""
    return Variant(name, model, "raw", None, settings_of(settings) if settings else {})


def _check_model(model: str) -> None:
    if not model or not model.isprintable() or " " in model:
        raise BenchError(f"--model {model!r} is not a model name: write a name without spaces")
    if model.startswith(("raw/", "rag/")):
        raise BenchError(f"--model {model!r}: give the name alone, and use --mode and --collection")


def request_of(variant: Variant, messages: Sequence[Mapping[str, Any]], *, usage: bool) -> dict[str, Any]:
    """A variant's request body. usage: whether to ask for token usage.

    messages: in chat completion form. Raises BenchError: the variant's dialect has no form for one.
    """
    settings = {name: value for name, value in variant.settings.items() if name not in _OF_RETRIEVAL}
    body = {"model": variant.model, **BODIES[variant.dialect].body(messages, settings, usage=usage)}
    if variant.mode == "rag":
        rag: dict[str, Any] = {"enabled": True}
        if variant.collections is not None:
            rag["collections"] = list(variant.collections)
        body["rag"] = rag | {name: variant.settings[name] for name in _OF_RETRIEVAL if name in variant.settings}
    return body


def headers_of(variant: Variant) -> dict[str, str]:
    """A variant's request headers."""
    return {"x-rag": "on" if variant.mode == "rag" else "off", **BODIES[variant.dialect].headers}
