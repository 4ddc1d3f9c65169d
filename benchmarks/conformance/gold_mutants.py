"""Wrong variants of a right call, each with the words that the model must read about the fault."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.conformance.reference_request import parameters_of

Json = dict[str, Any]
KINDS = (
    "missing",
    "wrong type",
    "placeholder",
    "traversal",
    "extra",
    "unknown operation",
    "look-alike name",
    "look-alike value",
    "invented identifier",
)
_CYRILLIC = str.maketrans("aceopxyABCEHKMOPTX", "асеорхуАВСЕНКМОРТХ")
_WRONG: dict[str, Any] = {"integer": "seven", "number": "seven", "boolean": "perhaps", "array": {"x": 1}, "object": "x"}
_NOT_A_TEXT = {"value": 1}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A wrong call."""

    kind: str
    tool: str
    arguments: Json
    words: str  # that the text for the model must have


@dataclass(frozen=True, slots=True)
class _Place:
    """An argument, or a member of the body."""

    keys: Sequence[str]
    schema: Json
    required: bool
    in_path: bool

    @property
    def name(self) -> str:
        return ".".join(self.keys)

    def read(self, arguments: Json) -> Any:
        found: Any = arguments
        for key in self.keys:
            found = found.get(key) if isinstance(found, dict) else None
        return found

    def written(self, arguments: Json, value: Any) -> Json:
        """The arguments with another value here; None: without a value."""
        made = copy.deepcopy(arguments)
        row = made
        for key in self.keys[:-1]:
            row = row[key]
        if value is None:
            del row[self.keys[-1]]
        else:
            row[self.keys[-1]] = value
        return made


def mutants(document: Json, method: str, path: str, tool: str, arguments: Json) -> Iterator[Mutant]:
    """The wrong variants of a call of this tool."""
    places = [one for one in _places(document, method, path) if one.read(arguments) is not None]
    for one in places:
        yield from _of_place(one, tool, arguments)
    yield Mutant("extra", tool, {**arguments, "unasked": 1}, "unasked is unknown")
    if "body" in arguments:
        body = {**arguments["body"], "unasked": 1}
        yield Mutant("extra", tool, {**arguments, "body": body}, "body.unasked is unknown")
    for name in (f"act_delete_{tool.removeprefix('act_')}"[:64], tool.removeprefix("act_"), "weather"):
        yield Mutant("unknown operation", name, arguments, f"no tool has the name {name!r}")
    for name in (*_look_alikes(tool), tool.upper()):
        yield Mutant("look-alike name", name, arguments, f"no tool has the name {name[:64]!r}")


def _places(document: Json, method: str, path: str) -> Iterator[_Place]:
    for row in parameters_of(document, method, path):
        schema = row.get("schema") or next(iter(row["content"].values()))["schema"]
        yield _Place((row["name"],), schema, bool(row.get("required")), row["in"] == "path")
    body = document["paths"][path][method.lower()].get("requestBody")
    if body:
        schema = next(iter(body["content"].values()))["schema"]
        yield _Place(("body",), schema, bool(body.get("required")), in_path=False)
        for name, row in schema["properties"].items():
            yield _Place(("body", name), row, name in schema["required"], in_path=False)


def _of_place(place: _Place, tool: str, arguments: Json) -> Iterator[Mutant]:
    value, kind = place.read(arguments), place.schema.get("type", "")

    def mutant(fault: str, wrong: Any, words: str) -> Mutant:
        return Mutant(fault, tool, place.written(arguments, wrong), words)

    if place.required:
        yield mutant("missing", None, f"{place.name} is missing")
    if kind:
        yield mutant("wrong type", _WRONG.get(kind, _NOT_A_TEXT), f"{place.name} must be")
    allowed = place.schema.get("enum")
    last = place.keys[-1]
    texts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    if texts and all(isinstance(one, str) for one in texts):
        listed = isinstance(value, list)
        for wrong in (f"<{last}>", f"your_{last}", f"{{{last}}}"):
            words = f"{place.name} must be one of" if allowed else place.name
            yield mutant("placeholder", [*texts[:-1], wrong] if listed else wrong, words)
        if allowed:
            for wrong in _look_alikes(texts[0]):
                yield mutant("look-alike value", wrong, f"{place.name} must be one of")
        if place.in_path:
            yield from (
                mutant(fault, [*texts[:-1], wrong] if listed else wrong, place.name)
                for fault, wrong in _wrong_identifiers(texts[-1])
            )
    elif place.in_path and isinstance(value, int | float):
        yield mutant("invented identifier", 738291, place.name)
        yield mutant("traversal", f"../{value}", place.name)
        yield mutant("look-alike value", "".join(chr(ord(one) + 0xFEE0) for one in str(value)), place.name)


def _wrong_identifiers(value: str) -> Iterator[tuple[str, str]]:
    for wrong in (
        f"../{value}",
        "..",
        f"{value}/..",
        f"..\\{value}",
        "%2e%2e",
        f"%2e%2e%2f{value}",
        f"..;/{value}",
        f"．．／{value}",  # full-width signs are the point
    ):
        yield "traversal", wrong
    for wrong in _look_alikes(value):
        yield "look-alike value", wrong
    for wrong in ("zq81kx7", "5f0c1e2d3b4a5f6e7d8c9b0a", "12345"):
        yield "invented identifier", wrong


def _look_alikes(text: str) -> Iterator[str]:
    """The text in Cyrillic, with zero-width characters, with a full-width character."""
    if (cyrillic := text.translate(_CYRILLIC)) != text:
        yield cyrillic
    yield text + "\u200b"
    yield text[:1] + "\u200d" + text[1:]
    wide = next((at for at, sign in enumerate(text) if sign.isascii() and sign.isalnum()), None)
    if wide is not None:
        yield text[:wide] + chr(ord(text[wide]) + 0xFEE0) + text[wide + 1 :]
