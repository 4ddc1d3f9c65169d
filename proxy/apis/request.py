"""An operation and arguments to the bytes of an HTTP request, as OpenAPI 3.1 describes (RFC 6570 for the styles).

Base URL, method, header names and media types come from settings and document; only values come from the model. Path
values are percent-encoded whole, so none leaves its segment.
"""

import base64
import functools
import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, unquote_plus

import msgspec
import orjson

from proxy.apis.openapi.operation import (
    FORM,
    MULTIPART,
    Body,
    Encoding,
    Operation,
    Parameter,
    Style,
    bare_type,
    is_json,
    name_parts,
    names_method,
    query_names,
)

_RESERVED = ":/?#[]@!$&'()*+,;="
_RESERVED_IN_VALUES = ":/?@!$'()*,="  # others would end a value, be read as a space, or start a fragment
_UNRESERVED = "-._~"
_DOTS = re.compile(r"\.+")
_TEMPLATE = re.compile(r"\{([^{}]*)\}")
_MOST_LEVELS = 100  # of a value
_DECODED = 4  # forms of a value: as sent, as the model wrote it, and decoded twice
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_ONE_SEGMENT = 'must not be "." or "..", have these between slashes, or have a line break: another path would be called'
_SEPARATORS: Mapping[Style, str] = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}


class BadArgument(ValueError):
    """A value that cannot be written into a request; the message is for the model."""


class ApiRequest(msgspec.Struct, frozen=True):
    """The bytes to send, without credentials."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""


def build_request(
    operation: Operation,
    arguments: Mapping[str, Any],
    base_url: str,
    *,
    fixed: Collection[str] = (),
    key: tuple[str, str] | None = None,
) -> ApiRequest:
    """A call's request. arguments: as the operation's schema has them. Raises BadArgument.

    fixed: arguments that no model gives. key: place and name of a key that is added later.
    """
    parts = _Parts()
    for parameter in operation.parameters:
        given = arguments.get(parameter.argument)
        value = given if parameter.media_type else _without_null(given)
        if parameter.place != "path" and given and not parameter.media_type and value in ([], {}):
            value = None  # a list of nulls alone
        if value is not None or (parameter.place == "path" and parameter.argument in arguments):
            parts.add(parameter, value)
        elif parameter.required:  # null is not a value (RFC 6570 §2.3)
            raise BadArgument(f"{parameter.argument} is missing")
    headers = parts.headers
    if parts.cookies:
        headers.append(("cookie", "; ".join(parts.cookies)))
    if operation.accept:
        headers.append(("accept", operation.accept))
    path = _path(operation.path, parts.path)
    content, fields = b"", list[str]()
    body = operation.body
    if body is not None and body.argument in arguments:
        media_type, content = _body(body, arguments[body.argument])
        headers.append(("content-type", media_type))
        fields = _fields_of(body, arguments[body.argument], content)
    elif body is not None and body.required:
        raise BadArgument(f"{body.argument} is missing")
    base, _, own_query = base_url.partition("?")
    path, _, path_query = path.partition("#")[0].partition("?")  # some documents tell operations apart by a fragment
    url = base.rstrip("/") + quote(path, safe=_RESERVED + _UNRESERVED + "%")
    own = [one for one in (own_query, path_query) if one]
    url += f"?{'&'.join([*own, *parts.query])}" if own or parts.query else ""
    override = next(filter(names_method, query_names(url) if "?" in url else ()), "")
    if override and not operation.takes_method:
        raise BadArgument(f"the query must not have the name {override}, which names another method")
    taken = [_Taken("query", name) for one in own for name in query_names(f"?{one}")]
    taken += [_Taken(*key)] if key else []
    _check_names(operation, parts.names, fields, fixed, taken)
    return ApiRequest(operation.method, url, tuple(headers), content)


def tool_request(operation: Operation, arguments: Mapping[str, Any], url: str) -> ApiRequest:
    """A call of an MCP server's tool: the parameters of `tools/call` as the body. Raises BadArgument."""
    content = _dumps({"name": operation.operation_id, "arguments": arguments})
    base, mark, query = url.partition("?")
    shown = f"{base.rstrip('/')}/{operation.path}{mark}{query}"  # for people: the session knows the address
    return ApiRequest(operation.method, shown, (("content-type", "application/json"),), content.encode())


class _Parts:
    """What a request's parameters write, and the names in each."""

    def __init__(self) -> None:
        self.path: dict[str, str] = {}
        self.query: list[str] = []
        self.headers: list[tuple[str, str]] = []
        self.cookies: list[str] = []
        self.names: list[tuple[Parameter, Sequence[str]]] = []

    def add(self, parameter: Parameter, value: Any) -> None:
        """Raises BadArgument."""
        names: list[str] = [parameter.name]
        match parameter.place:
            case "path":
                self.path[parameter.name] = _path_value(parameter, value)
                names += map(str, value) if isinstance(value, dict) and parameter.explode else ()
            case "header":
                self.headers.append((parameter.name, _header_value(parameter, value)))
            case place:
                if parameter.media_type:
                    pairs = [f"{_encoded(parameter.name)}={_encoded(_dumps(value))}"]
                else:
                    pairs = [*_styled(parameter.name, value, parameter)]
                (self.query if place == "query" else self.cookies).extend(pairs)
                names = _names_of(pairs)
        self.names.append((parameter, names))


# --- names -----------------------------------------------------------------------------------------------------------


class _Taken(NamedTuple):
    """A name that a model's argument must not write."""

    place: str
    name: str
    owner: str = ""  # argument that writes the name; "": the address, or a key
    hard: bool = True  # fixed, or a key; else another parameter, which only object members must not write

    @property
    def parts(self) -> Sequence[str]:
        return name_parts(self.name)


def _check_names(
    operation: Operation,
    written: Sequence[tuple[Parameter, Sequence[str]]],
    fields: Sequence[str],
    fixed: Collection[str],
    taken: list[_Taken],
) -> None:
    """Raise BadArgument if the model's arguments write a name that servers may read as another's.

    A server may take the first value or the last, and many read several spellings as one name. written: each
    parameter's names in the request. fields: names in a form. taken: by the address and a key.
    """
    taken = taken + [_Taken(one.place, one.name, one.argument, hard=False) for one in operation.parameters]
    for parameter, names in written:
        if parameter.argument in fixed:
            taken += [_Taken(parameter.place, name, parameter.argument) for name in {parameter.name, *names}]
    for parameter, names in written:
        if parameter.argument not in fixed:
            for name in names:
                member = name != parameter.name
                others = (one for one in taken if one.owner != parameter.argument and (member or one.hard))
                _check_name(parameter.argument, parameter.place, name, others, member=member)
    for name in fields:
        _check_name(name, "query", name, (one for one in taken if one.hard), member=False)


def _check_name(argument: str, place: str, name: str, others: Iterable[_Taken], *, member: bool) -> None:
    parts = name_parts(name)
    for one in others:
        if one.place == place and _is_same(parts, one.parts):
            if member:
                raise BadArgument(f"{argument} must not have the member {name}, which is another parameter")
            raise BadArgument(f"{argument} must not be sent: servers may read the name as {one.name}, which is set")


def _is_same(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two names may be read as one, or one as a list or an object that has the other."""
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared] or "_".join(one) == "_".join(other)


def _names_of(pairs: Iterable[str]) -> list[str]:
    return [unquote_plus(one.partition("=")[0]) for one in pairs]


def _fields_of(body: Body, value: Any, content: bytes) -> list[str]:
    """A form's names, which some servers mix with those of the query."""
    if not isinstance(value, dict) or bare_type(body.media_type) not in (FORM, MULTIPART):
        return []
    return _names_of(content.decode("ascii").split("&")) if bare_type(body.media_type) == FORM else list(value)


# --- values ----------------------------------------------------------------------------------------------------------


def _plain(value: Any) -> str:
    """A primitive value as JSON writes it; a text is itself."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e16:
        return str(int(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # also beyond 64 bits
    return _dumps(value)


def _dumps(value: Any) -> str:
    """A value as JSON. Raises BadArgument."""
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError as error:  # half a surrogate pair, an integer beyond 64 bits, too many levels
        raise BadArgument(f"a value cannot be written as JSON ({error})") from error


def _encoded(value: Any, *, reserved: bool = False) -> str:
    return quote(_utf8(_plain(value)), safe=_UNRESERVED + (_RESERVED_IN_VALUES if reserved else ""))


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BadArgument("a text has half of a surrogate pair") from error


def _flat(value: Any, written: Callable[[Any], str], *, explode: bool) -> list[str]:
    """The value, or parts of a list or object (RFC 6570). explode: each member is name=value."""
    if isinstance(value, list):
        return [written(one) for one in value]
    if not isinstance(value, dict):
        return [written(value)]
    pairs = [(written(name), written(one)) for name, one in value.items()]
    return [f"{name}={one}" for name, one in pairs] if explode else [part for pair in pairs for part in pair]


# --- the path --------------------------------------------------------------------------------------------------------


def _path(template: str, values: Mapping[str, str]) -> str:
    """The path with its values. Raises BadArgument if values that share a segment leave it together."""
    path = _TEMPLATE.sub(lambda match: values[match[1]], template)
    plain = _TEMPLATE.sub("{}", template)  # a name may have a slash, and a value has none
    for written, segment in zip(*(one.partition("?")[0].split("/") for one in (plain, path)), strict=True):
        if written != segment and _leaves_segment(segment):
            raise BadArgument(f"the values of the path {_ONE_SEGMENT}")
    return path


def _path_value(parameter: Parameter, value: Any) -> str:
    """A path value. An empty value or a dot segment would name another path."""
    if not parameter.media_type and (value in ("", [], {}) or value is None):
        raise BadArgument(f"{parameter.argument} must not be empty")
    text = _encoded(_dumps(value)) if parameter.media_type else _styled_path(parameter, value)
    if not text:  # a list with one empty text
        raise BadArgument(f"{parameter.argument} must not be empty")
    if any(map(_leaves_segment, (text, *_values(value)))):
        raise BadArgument(f"{parameter.argument} {_ONE_SEGMENT}")
    return text


def _styled_path(parameter: Parameter, value: Any) -> str:
    before, joint = {"simple": ("", ","), "label": (".", "."), "matrix": (";", ";")}[parameter.style]
    name = f"{quote(parameter.name, safe=_UNRESERVED)}=" if parameter.style == "matrix" else ""
    parts = _flat(value, _encoded, explode=parameter.explode)
    if not parameter.explode:
        return f"{before}{name}{','.join(parts)}"
    return before + joint.join(parts if isinstance(value, dict) else (name + part for part in parts))


def _values(value: Any) -> Iterable[Any]:
    """A list's elements, an object's names and members, or the value."""
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else [value]


def _leaves_segment(value: Any) -> bool:
    """Whether a server that decodes before it splits the path could read another path.

    Some servers decode twice, leave out what follows a ";", or replace full-width signs.
    """
    if not isinstance(value, str):
        return False
    for _ in range(_DECODED):
        parts = re.split(r"[/\\]", unicodedata.normalize("NFKC", value))
        if _CONTROL.search(value) or any(_DOTS.fullmatch(_without_blanks(part.partition(";")[0])) for part in parts):
            return True
        value = unquote(value)
    return False


def _without_blanks(text: str) -> str:
    """Text without spaces and invisible characters, which some servers trim around dots."""
    return text if text.isalnum() else "".join(one for one in text if unicodedata.category(one)[0] not in "CZ")


# --- query, cookies, forms -------------------------------------------------------------------------------------------


def _styled(name: str, value: Any, how: Parameter | Encoding) -> Iterator[str]:
    """name=value pairs of a query or form, without null: a server would read the text "null"."""
    if value is None:
        return
    explode, reserved = how.explode, how.allow_reserved
    if how.style == "deepObject" and isinstance(value, dict | list):
        yield from _deep(name, value, reserved)
    elif isinstance(value, dict) and explode:
        for inner, one in value.items():
            yield from _exploded(inner, one, reserved)
    else:
        parts = _flat(value, functools.partial(_encoded, reserved=reserved), explode=False)
        if explode or not isinstance(value, dict | list):
            yield from (f"{_encoded(name)}={part}" for part in parts)
        elif parts:
            yield f"{_encoded(name)}={_SEPARATORS.get(how.style, ',').join(parts)}"


def _exploded(name: str, value: Any, reserved: bool) -> Iterator[str]:
    """A member's pairs: a list repeats its name, and an object has a.b, as Spring reads a Pageable."""
    if isinstance(value, dict):
        for inner, one in value.items():
            yield from _exploded(f"{name}.{inner}", one, reserved)
    elif isinstance(value, list) and not any(isinstance(one, dict | list) for one in value):
        for one in value:
            yield f"{_encoded(name)}={_encoded(one, reserved=reserved)}"
    else:
        yield f"{_encoded(name)}={_encoded(value, reserved=reserved)}"


def _without_null(value: Any, level: int = 0) -> Any:
    if level > _MOST_LEVELS:
        raise BadArgument("a value has too many levels")
    if isinstance(value, dict):
        return {name: _without_null(one, level + 1) for name, one in value.items() if one is not None}
    return [_without_null(one, level + 1) for one in value if one is not None] if isinstance(value, list) else value


def _deep(name: str, value: Mapping[str, Any] | list[Any], reserved: bool) -> Iterator[str]:
    """name[member]=value; members of members as name[member][member], list elements as name[]."""
    members: Iterable[tuple[Any, Any]] = enumerate(value) if isinstance(value, list) else value.items()
    for inner, one in members:
        if isinstance(one, dict | list):
            yield from _deep(f"{name}[{inner}]", one, reserved)
        else:
            path = f"{name}[]" if isinstance(value, list) else f"{name}[{inner}]"
            yield f"{_encoded(path)}={_encoded(one, reserved=reserved)}"


def _header_value(parameter: Parameter, value: Any) -> str:
    if parameter.media_type:
        text = json.dumps(orjson.loads(_dumps(value)), separators=(",", ":"))  # in ASCII
    else:
        text = ",".join(_flat(value, _plain, explode=parameter.explode))
    _utf8(text)  # not half a surrogate pair
    if _CONTROL.search(text):
        raise BadArgument(
            f"{parameter.argument} must not have line breaks or control characters: it is sent in a header"
        )
    return text.strip(" ")  # not part of a header value (RFC 9110 §5.5): h11 refuses spaces at its ends


# --- the body --------------------------------------------------------------------------------------------------------


def _body(body: Body, value: Any) -> tuple[str, bytes]:
    """Content-Type and bytes."""
    bare = bare_type(body.media_type)
    if body.base64:
        return body.media_type, _bytes_of(value, body.argument)
    if is_json(body.media_type):
        return body.media_type, _dumps(value).encode()
    if bare in (FORM, MULTIPART) and not isinstance(value, dict):
        raise BadArgument(f"{body.argument} must be an object: the fields of a form")
    if bare == FORM:
        return body.media_type, "&".join(_form_pairs(body, value)).encode()
    if bare == MULTIPART:
        return _multipart(body, value)
    return body.media_type, _utf8(_plain(value))


def _bytes_of(value: Any, argument: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError) as error:
        raise BadArgument(f"{argument} must be base64") from error


def _form_pairs(body: Body, value: Mapping[str, Any]) -> Iterator[str]:
    for name, one in _without_null(value).items():
        encoding = body.encodings.get(name, Encoding())
        if is_json(encoding.media_type) or (isinstance(one, dict) and not encoding.by_style):
            yield f"{_encoded(name)}={_encoded(_dumps(one))}"
        else:
            yield from _styled(name, one, encoding)


def _multipart(body: Body, value: Mapping[str, Any]) -> tuple[str, bytes]:
    """A part for each field, and for each list element (RFC 7578)."""
    parts: list[bytes] = []
    for name, one in _without_null(value).items():
        encoding = body.encodings.get(name, Encoding())
        whole = is_json(encoding.media_type)
        for each in one if isinstance(one, list) and not whole else [one]:
            head = f'Content-Disposition: form-data; name="{_quoted(name)}"'
            if name in body.binary:
                content = _bytes_of(each, name)
                head += f'; filename="{_quoted(name)}"'
                media_type = encoding.media_type or "application/octet-stream"
            elif whole or isinstance(each, dict | list):
                content, media_type = _dumps(each).encode(), encoding.media_type or "application/json"
            else:
                content, media_type = _utf8(_plain(each)), encoding.media_type
            head += f"\r\nContent-Type: {media_type}" if media_type else ""
            parts.append(_utf8(head) + b"\r\n\r\n" + content)
    # The same form has the same bytes, by which a call is known again.
    boundary = hashlib.sha256(b"\0".join(parts)).hexdigest()[:32]
    while any(boundary.encode() in part for part in parts):
        boundary = hashlib.sha256(boundary.encode()).hexdigest()[:32]
    mark = b"--" + boundary.encode()
    joined = b"".join(mark + b"\r\n" + part + b"\r\n" for part in parts) + mark + b"--\r\n"
    return f"multipart/form-data; boundary={boundary}", joined


def _quoted(name: str) -> str:
    """A name in a part's head: quotes and line breaks percent-encoded, as browsers do."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
