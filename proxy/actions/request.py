"""An operation and arguments to the bytes of an HTTP request, as OpenAPI 3.1 describes (RFC 6570 for the styles).

The base URL, the method, the names of headers and the media types come from the configuration and the document; only
values come from the model. A value of a path is percent-encoded whole: no value leaves its segment.
"""

import base64
import json
import re
import secrets
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote

import msgspec
import orjson

from proxy.actions.openapi.operation import (
    Body,
    Encoding,
    Operation,
    Parameter,
    Style,
    names_method,
    plain_name,
    query_names,
)
from proxy.actions.openapi.operations import FORM, MULTIPART, bare_type, is_json

_RESERVED = ":/?#[]@!$&'()*+,;="
_RESERVED_IN_VALUES = ":/?@!$'()*,="  # the others would end the value, be read as a space, or start a fragment
_UNRESERVED = "-._~"
_TEMPLATE = re.compile(r"\{([^{}]*)\}")
_MOST_LEVELS = 100  # of a value in the style deepObject
_DECODED = 4  # forms of a value: as sent, as the model wrote the value, and decoded twice
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SEPARATORS: Mapping[Style, str] = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}


class BadArgument(ValueError):
    """A value that cannot be written into the request; the text is for the model."""


class ActionRequest(msgspec.Struct, frozen=True):
    """The bytes to send, without credentials."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""


def build_request(operation: Operation, arguments: Mapping[str, Any], base_url: str) -> ActionRequest:
    """The request for a call. arguments: as the operation's schema has them. Raises BadArgument."""
    path_values: dict[str, str] = {}
    query: list[str] = []
    headers: list[tuple[str, str]] = []
    cookies: list[str] = []
    _check_members(operation, arguments, base_url)
    for parameter in operation.parameters:
        if parameter.argument not in arguments:
            if parameter.required:
                raise BadArgument(f"{parameter.argument} is missing")
            continue
        value = arguments[parameter.argument]
        match parameter.place:
            case "path":
                path_values[parameter.name] = _path_value(parameter, value)
            case "query":
                query += _query_pairs(parameter, value)
            case "header":
                headers.append((parameter.name, _header_value(parameter, value)))
            case "cookie":
                cookies += _query_pairs(parameter, value)
    if cookies:
        headers.append(("cookie", "; ".join(cookies)))
    if operation.accept:
        headers.append(("accept", operation.accept))
    path = _path(operation.path, path_values)
    content = b""
    body = operation.body
    if body is not None and body.argument in arguments:
        media_type, content = _body(body, arguments[body.argument])
        headers.append(("content-type", media_type))
    elif body is not None and body.required:
        raise BadArgument(f"{body.argument} is missing")
    base, _, own_query = base_url.partition("?")
    path, _, path_query = path.partition("#")[0].partition("?")  # some documents tell operations apart by a fragment
    url = base.rstrip("/") + quote(path, safe=_RESERVED + _UNRESERVED + "%")
    pairs = [*(one for one in (own_query, path_query) if one), *query]
    url += f"?{'&'.join(pairs)}" if pairs else ""
    _check_method(operation, url)
    return ActionRequest(operation.method, url, tuple(headers), content)


def _check_method(operation: Operation, url: str) -> None:
    """Raise BadArgument where the query of a call that only reads names another method."""
    override = next(filter(names_method, query_names(url)), "")
    if override and operation.reads:
        raise BadArgument(f"the query must not have the name {override}, which names another method")


def _check_members(operation: Operation, arguments: Mapping[str, Any], base_url: str) -> None:
    """Raise BadArgument for a member of an object that would be sent as another parameter, which may be fixed.

    Some servers read several names as one name.
    """
    for parameter in operation.parameters:
        value = arguments.get(parameter.argument)
        if parameter.place not in ("query", "cookie") or not isinstance(value, dict):
            continue
        if parameter.media_type or parameter.style == "deepObject" or not parameter.explode:
            continue
        others = {one.name for one in operation.parameters if one.place == parameter.place and one is not parameter}
        if parameter.place == "query":
            others |= query_names(base_url) | query_names(operation.path)
        names = set(map(plain_name, others))
        for inner in value:
            if plain_name(str(inner)) in names:
                raise BadArgument(f"{parameter.argument} must not have the member {inner}, which is another parameter")


# --- values ----------------------------------------------------------------------------------------------------------


def _plain(value: Any) -> str:
    """A primitive value as text, as JSON writes the value; a text is itself."""
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
    except orjson.JSONEncodeError as error:  # half of a surrogate pair, a whole number beyond 64 bits, too many levels
        raise BadArgument(f"a value cannot be written as JSON ({error})") from error


def _encoded(value: Any, *, reserved: bool = False) -> str:
    return quote(_utf8(_plain(value)), safe=_UNRESERVED + (_RESERVED_IN_VALUES if reserved else ""))


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BadArgument("a text has half of a surrogate pair") from error


def _pairs(value: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    return ((str(name), one) for name, one in value.items())


# --- the path --------------------------------------------------------------------------------------------------------


def _path(template: str, values: Mapping[str, str]) -> str:
    """The path with the values. Raises BadArgument where values that share a segment leave the segment together."""
    path = _TEMPLATE.sub(lambda match: values[match[1]], template)
    plain = _TEMPLATE.sub("{}", template)  # a name may have a slash, and a value has none
    for written, segment in zip(*(one.partition("?")[0].split("/") for one in (plain, path)), strict=True):
        if written != segment and _leaves_segment(segment):
            raise BadArgument("the values of the path must be the values alone, without dots or line breaks")
    return path


def _path_value(parameter: Parameter, value: Any) -> str:
    """A value of a path. An empty value and a dot segment would name another path."""
    if not parameter.media_type and (value in ("", [], {}) or value is None):
        raise BadArgument(f"{parameter.argument} must not be empty")
    text = _encoded(_dumps(value)) if parameter.media_type else _styled_path(parameter, value)
    if not text:  # of a list with one empty text
        raise BadArgument(f"{parameter.argument} must not be empty")
    if any(map(_leaves_segment, (text, *_values(value)))):
        raise BadArgument(f"{parameter.argument} must be the value alone, without dots or line breaks")
    return text


def _styled_path(parameter: Parameter, value: Any) -> str:
    """A value in the parameter's style."""
    name = quote(parameter.name, safe=_UNRESERVED)
    joint = {"simple": ",", "label": ".", "matrix": ";"}[parameter.style] if parameter.explode else ","
    if isinstance(value, list):
        parts = [_encoded(one) for one in value]
        if parameter.style == "matrix":
            text = ";".join(f"{name}={part}" for part in parts) if parameter.explode else f"{name}={','.join(parts)}"
        else:
            text = joint.join(parts)
    elif isinstance(value, dict):
        sign = "=" if parameter.explode else ","
        text = joint.join(f"{_encoded(key)}{sign}{_encoded(one)}" for key, one in _pairs(value))
        if parameter.style == "matrix" and not parameter.explode:
            text = f"{name}={text}"
    else:
        text = f"{name}={_encoded(value)}" if parameter.style == "matrix" else _encoded(value)
    return {"simple": "", "label": ".", "matrix": ";"}[parameter.style] + text


def _values(value: Any) -> Iterable[Any]:
    """The elements of a list, the names and members of an object, or the value."""
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else [value]


def _leaves_segment(value: Any) -> bool:
    """Whether a server that decodes before the server splits the path could read another path.

    Some servers decode twice, leave out what follows a ";", or replace full-width signs.
    """
    if not isinstance(value, str):
        return False
    for _ in range(_DECODED):
        parts = re.split(r"[/\\]", unicodedata.normalize("NFKC", value))
        if _CONTROL.search(value) or any(part.partition(";")[0] in (".", "..") for part in parts):
            return True
        value = unquote(value)
    return False


# --- query, cookies, forms -------------------------------------------------------------------------------------------


def _query_pairs(parameter: Parameter, value: Any) -> Iterator[str]:
    if parameter.media_type:
        yield f"{_encoded(parameter.name)}={_encoded(_dumps(value))}"
        return
    yield from _styled(parameter.name, value, parameter.style, parameter.explode, parameter.allow_reserved)


def _styled(name: str, value: Any, style: Style, explode: bool, reserved: bool) -> Iterator[str]:
    """The pairs name=value of a query or a form."""
    key = _encoded(name)
    if style == "deepObject" and isinstance(value, dict | list):
        yield from _deep(name, value, reserved)
    elif isinstance(value, dict):
        if explode:
            for inner, one in _pairs(value):
                yield f"{_encoded(inner)}={_encoded(one, reserved=reserved)}"
        elif value:
            flat = [part for inner, one in _pairs(value) for part in (inner, one)]
            yield f"{key}={_SEPARATORS.get(style, ',').join(_encoded(part, reserved=reserved) for part in flat)}"
    elif isinstance(value, list):
        parts = [_encoded(one, reserved=reserved) for one in value]
        if explode:
            for part in parts:
                yield f"{key}={part}"
        elif parts:
            yield f"{key}={_SEPARATORS.get(style, ',').join(parts)}"
    else:
        yield f"{key}={_encoded(value, reserved=reserved)}"


def _deep(name: str, value: Mapping[str, Any] | list[Any], reserved: bool) -> Iterator[str]:
    """name[member]=value; members of members as name[member][member], and the elements of a list as name[]."""
    if name.count("[") > _MOST_LEVELS:
        raise BadArgument("a value has too many levels")
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
    elif isinstance(value, list):
        text = ",".join(_plain(one) for one in value)
    elif isinstance(value, dict):
        sign = "=" if parameter.explode else ","
        text = ",".join(f"{key}{sign}{_plain(one)}" for key, one in _pairs(value))
    else:
        text = _plain(value)
    if _CONTROL.search(text) or not text.isascii():
        raise BadArgument(f"{parameter.argument} must be printable ASCII: the value is sent in a header")
    return text.strip(" ")  # no part of a header's value (RFC 9110 §5.5): h11 refuses spaces at the ends


# --- the body --------------------------------------------------------------------------------------------------------


def _body(body: Body, value: Any) -> tuple[str, bytes]:
    """The Content-Type and the bytes."""
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
    for name, one in _pairs(value):
        encoding = body.encodings.get(name, Encoding())
        if is_json(encoding.media_type) or (isinstance(one, dict) and not encoding.by_style):
            yield f"{_encoded(name)}={_encoded(_dumps(one))}"
        else:
            yield from _styled(name, one, encoding.style, encoding.explode, encoding.allow_reserved)


def _multipart(body: Body, value: Mapping[str, Any]) -> tuple[str, bytes]:
    """A part for each field, and for each element of a list (RFC 7578)."""
    parts: list[bytes] = []
    for name, one in _pairs(value):
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
    boundary = secrets.token_hex(16)
    while any(boundary.encode() in part for part in parts):
        boundary = secrets.token_hex(16)
    mark = b"--" + boundary.encode()
    joined = b"".join(mark + b"\r\n" + part + b"\r\n" for part in parts) + mark + b"--\r\n"
    return f"multipart/form-data; boundary={boundary}", joined


def _quoted(name: str) -> str:
    """A name in a part's head: quotes and line breaks percent-encoded, as browsers do."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
