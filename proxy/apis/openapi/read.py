"""An OpenAPI document's bytes to a version 3.0 or 3.1 document, as plain values.

YAML is read by YAML 1.2's core schema (in YAML 1.1 the country code `NO` is false, and 12:30 is a number), plus the
merge key `<<`, which most tools read. Aliases stay shared values: a few lines of YAML can stand for billions of values,
which `ReadBudget` counts.
"""

import math
import re
from collections.abc import Callable
from typing import Any

import orjson
import yaml

from proxy.apis.openapi.references import BadReference, DocumentTooLarge, ReadBudget
from proxy.apis.openapi.swagger import upgraded

MAX_BYTES = 64 * 2**20
_MOST_LEVELS = 200  # of YAML values: each level takes up to four Python frames to construct
# Each event takes some 20 µs and half a kilobyte to read. The largest public documents take 3,170,000 and 1,590,000
# events, GitHub's 510,000.
_MOST_EVENTS = 750_000
_VERSIONS = re.compile(r"3\.[01](\.\d+)?(-[\w.]+)?")


class UnreadableSpec(ValueError):
    """Not an OpenAPI document; the message says where and why."""


class _Loader(yaml.CSafeLoader):
    """YAML 1.2's core schema, plus YAML 1.1's merge key `<<`; a repeated name is an error."""

    def __init__(self, text: bytes) -> None:
        super().__init__(text)
        self._budget = ReadBudget()  # for merged members, which are not shared

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        if not isinstance(node, yaml.MappingNode):
            raise _at("the value is not an object, as the tag says", node.start_mark)
        made: dict[Any, Any] = {}
        merged: dict[Any, Any] = {}
        for name_node, value_node in node.value:
            name = _name_of(name_node, self.construct_object(name_node, deep=True))
            if name_node.tag == f"{_CORE}merge":
                merged |= self._merged(value_node)
                continue
            if name is None:
                raise _at("a name must be a text or a number", name_node.start_mark)
            if name in made:
                raise _at(f"the name {name!r} occurs twice", name_node.start_mark)
            made[name] = self.construct_object(value_node, deep=True)
        return made | {name: value for name, value in merged.items() if name not in made}

    def _merged(self, node: Any) -> dict[Any, Any]:
        """Members of an object, or of a list of objects; earlier objects take precedence."""
        given = self.construct_object(node, deep=True)
        made: dict[Any, Any] = {}
        for one in given if isinstance(given, list) else [given]:
            if not isinstance(one, dict):
                raise _at("`<<` takes objects", node.start_mark)
            self._budget.take(1 + len(one))
            for name, value in one.items():
                made.setdefault(name, value)
        return made


def _at(problem: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


def _name_of(node: Any, value: object) -> str | None:
    """A name as written: status codes (200) are numbers in YAML, and 1.10 is not the same name as 1.1."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(node.value) if isinstance(value, int | float) else None


def _whole(text: str) -> int | float:
    """A whole number, read as in JSON: beyond 64 bits, a float."""
    number = int(text)
    return number if -(2**63) <= number < 2**64 else float(number)


def _add_scalar(kind: str, pattern: str, first: list[str], make: Callable[[str], Any]) -> None:
    """Read texts that fit a pattern, and values with this tag, as a kind of value."""
    fits = re.compile(rf"^(?:{pattern})$")

    def made(_: Any, node: Any) -> Any:
        value = make(node.value) if isinstance(node, yaml.ScalarNode) and fits.match(node.value) else math.inf
        if value in (math.inf, -math.inf):
            raise _at(f"the value is not a JSON {kind}", node.start_mark)
        return value

    _Loader.add_implicit_resolver(f"{_CORE}{kind}", fits, first)
    _Loader.add_constructor(f"{_CORE}{kind}", made)


def _unknown(_: Any, node: Any) -> Any:
    raise _at(f"the tag {node.tag!r} does not belong to YAML 1.2's core schema", node.start_mark)


_CORE = "tag:yaml.org,2002:"
_Loader.yaml_implicit_resolvers = {}
_Loader.yaml_constructors = {
    f"{_CORE}str": yaml.CSafeLoader.construct_yaml_str,
    f"{_CORE}seq": yaml.CSafeLoader.construct_yaml_seq,
    f"{_CORE}map": lambda loader, node: loader.construct_mapping(node, deep=True),
    None: _unknown,
}
_add_scalar("merge", "<<", ["<"], str)
_add_scalar("null", r"~|null|Null|NULL|", ["~", "n", "N", ""], lambda _: None)
_add_scalar("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF"), lambda text: text.lower() == "true")
_add_scalar("int", r"[-+]?[0-9]{1,300}", list("-+0123456789"), _whole)
_add_scalar("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789"), float)


def read_spec(raw: bytes, *, yaml_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """The document, in version 3.0 or 3.1 form. Raises UnreadableSpec, with a line if one is known.

    yaml_bytes: the most for YAML.
    """
    if len(raw) > MAX_BYTES:
        raise UnreadableSpec(f"the document is larger than {MAX_BYTES >> 20} MB")
    document: Any = _parsed(raw, yaml_bytes)
    if not isinstance(document, dict):
        raise UnreadableSpec("the document is not an object: an OpenAPI document begins with `openapi: 3.1.0`, or so")
    if "swagger" in document:
        if str(document["swagger"]) != "2.0":
            raise UnreadableSpec(f"`swagger: {document['swagger']}`: only version 2.0 of Swagger is read")
        try:
            document = upgraded(document)
        except DocumentTooLarge as error:
            raise UnreadableSpec(str(error)) from error
        except (BadReference, TypeError, AttributeError, KeyError) as error:
            raise UnreadableSpec(f"the document is not written as Swagger 2.0 ({error})") from error
    elif not _VERSIONS.fullmatch(str(document.get("openapi"))):  # YAML's `openapi: 3.1` is a number
        given = "no `openapi`" if "openapi" not in document else f"`openapi: {document['openapi']}`"
        raise UnreadableSpec(f"{given}: only OpenAPI 3.0 and 3.1 and Swagger 2.0 are read")
    if not isinstance(document.get("paths", {}), dict):
        raise UnreadableSpec("`paths` is not an object")
    return dict(document)


def _parsed(raw: bytes, yaml_bytes: int) -> Any:
    text = raw.removeprefix(b"\xef\xbb\xbf")
    if text.lstrip()[:1] in (b"{", b"["):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError as error:
            _check_utf8(text)
            json_error = UnreadableSpec(f"line {error.lineno}, column {error.colno}: {error.msg}")
            if text.lstrip()[:1] == b"[" or b'"' in text.lstrip()[:3]:
                raise json_error from error
    if len(text) > yaml_bytes:
        raise UnreadableSpec(
            f"the document is larger than {yaml_bytes >> 20} MB, the most in YAML here: write the document as JSON, or "
            "read the file with `ragway actions add`"
        )
    try:
        _check_events(text)
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark: Any = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise UnreadableSpec(f"{place}{error.problem}") from error
    except yaml.reader.ReaderError as error:
        raise UnreadableSpec(f"{_line(text, error.position)}: {error.reason}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        words = "the values are nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UnreadableSpec(words) from error


def _check_utf8(text: bytes) -> None:
    """Raise UnreadableSpec with a line, which orjson does not tell."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise UnreadableSpec(f"{_line(text, error.start)}: the text is not UTF-8") from error


def _line(text: bytes, at: int) -> str:
    number = 1 + text.count(b"\n", 0, at)
    return f"line {number}"


def _check_events(text: bytes) -> None:
    """Raise YAMLError if values are nested too deeply, or too many.

    The C parser composes values recursively and kills the process when its stack overflows; reading events needs no
    recursion.
    """
    levels = 0
    for number, event in enumerate(yaml.parse(text, Loader=yaml.CSafeLoader)):
        if number > _MOST_EVENTS:
            most = f"more than {_MOST_EVENTS:,} names, values and ends of values, the most in YAML"
            raise _at(f"the document has {most}: write the document as JSON, or split the document", event.start_mark)
        if isinstance(event, yaml.CollectionStartEvent):
            levels += 1
            if levels > _MOST_LEVELS:
                raise _at("the values are nested too deeply", event.start_mark)
        elif isinstance(event, yaml.CollectionEndEvent):
            levels -= 1
