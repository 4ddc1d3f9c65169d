"""An OpenAPI document to operations, and reasons for those that cannot be called.

A fault in an operation makes only that operation uncallable.
"""

import contextlib
import re
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

import msgspec
import orjson

from proxy.apis.openapi.effects import with_effects
from proxy.apis.openapi.keywords import names_in, without_circles
from proxy.apis.openapi.names import FreeNames, in_latin
from proxy.apis.openapi.operation import (
    ANY_METHOD,
    FORM,
    MULTIPART,
    READING_METHODS,
    Body,
    Encoding,
    Operation,
    Parameter,
    Uncallable,
    bare_type,
    is_json,
    names_method,
)
from proxy.apis.openapi.producers import with_producers
from proxy.apis.openapi.references import BadReference, DocumentTooLarge, ReadBudget, path_item, resolved
from proxy.apis.openapi.schemas import SchemaReader, SchemaTooLarge
from proxy.apis.openapi.size import MOST_BYTES, fitted
from proxy.dialects.quoting import quoted

_METHODS = ("get", "head", "options", "post", "put", "patch", "delete", "trace")
_STYLES = {  # place -> styles, default first
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
# Headers for the connection and credentials, which only the gateway writes, and headers that name another call.
_OWN_HEADERS = frozenset({
    "accept", "content-type", "authorization", "host", "cookie", "content-length", "connection", "transfer-encoding",
    "upgrade", "te", "trailer", "expect", "proxy-authorization", "forwarded",
    "accept-encoding", "user-agent", "keep-alive", "proxy-connection", "x-original-url", "x-rewrite-url",
})  # fmt: skip
# Headers in which proxies tell servers who calls, as whom, and what: servers trust them.
_OF_PROXIES = re.compile(
    r"x-forwarded.*|x-original-.*|x-rewrite-.*|(?:x-)?impersonate-.*|x-remote-.*|remote-(?:user|groups?|name|email)"
    r"|x-http-.*|(?:.*-)?(?:client-ip|connecting-ip|real-ip|cluster-ip)|x-(?:proxy|auth-request|ssl|client-cert)-.*"
)
UNSAFE_NAME = re.compile(r"[^a-zA-Z0-9_-]+")
UNSAFE_ARGUMENT = re.compile(r"[^a-zA-Z0-9_.-]+")
_TEMPLATE = re.compile(r"\{([^{}]*)\}")
# Parameters as other tools write them: /:id, /<id>, /<int:id>, /[id]; and an unpaired brace.
_UNFILLED = re.compile(r"/(:[a-zA-Z_]\w*|<[^/<>]+>|\[[^/\[\]]+\])(?=/|$)|[{}]")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_MEDIA_TYPE = re.compile(r"[\w!#$&^.+*-]+/[\w!#$&^.+*-]+( *;[ -+\--~]*)?", re.ASCII)
_ASK = "x-ragway-ask"
MOST_NAME_CHARS = 64
_VALUES_OF_OPERATION = 20  # budget for even the smallest operation, by time and memory
_BINARY = ("image/", "audio/", "video/", "application/zip", "application/pdf")
OCTETS = "application/octet-stream"

_LEVELS_AROUND = 20  # of a request, around an operation's schema

Values = dict[str, Any]


def operations_of(document: Mapping[str, Any], *, most: int = sys.maxsize) -> tuple[list[Operation], list[Uncallable]]:
    """Callable operations in document order, and uncallable ones.

    Raises DocumentTooLarge, also for more than `most` operations.
    """
    callable_, uncallable, budget = list[Operation](), list[Uncallable](), ReadBudget()
    names = FreeNames(MOST_NAME_CHARS)
    for path, item, method, operation in _items(document, uncallable, budget):
        budget.take(_VALUES_OF_OPERATION)
        if len(callable_) + len(uncallable) >= most:
            raise DocumentTooLarge(
                f"the document has more than {most:,} operations, the most here: split the document into several sets, "
                "or leave out operations that no chat needs"
            )
        try:
            made = _operation(document, path, item, method, operation, names, budget)
        except (BadReference, BadServer, SchemaTooLarge, _Unsupported) as error:
            uncallable.append(Uncallable(method.upper(), path, str(error)))
        except (TypeError, AttributeError, KeyError, RecursionError) as error:  # a value has an unexpected type
            uncallable.append(Uncallable(method.upper(), path, f"the operation is not written as OpenAPI ({error})"))
        else:
            callable_.append(made)
    return with_effects(with_producers(callable_)), uncallable


class BadServer(ValueError):
    """A server whose address the document does not tell."""


class _Unsupported(ValueError):
    """Part of an operation that the gateway cannot build a request for."""


class _Arguments(SchemaReader):
    """One operation's arguments, as far as they are read."""

    def __init__(self, document: Mapping[str, Any], budget: ReadBudget) -> None:
        super().__init__(document, budget)
        self._argument_names = FreeNames(MOST_NAME_CHARS)
        self._schemas: Values = {}
        self._required: list[str] = []

    def add(self, base: str, schema: Any, *, required: bool) -> str:
        """Add an argument; returns its name, which is free."""
        name = self._argument_names.take(base)
        self._schemas[name] = schema
        self._required += [name] if required else []
        return name

    def schema(self) -> Values:
        """All arguments' schema. Raises SchemaTooLarge if no request can hold it: orjson writes 254 levels."""
        schema: Values = {"type": "object", "properties": self._schemas, "required": self._required}
        schema["additionalProperties"] = False
        if self.defs:
            without_circles(self.defs)
            schema["$defs"] = self.defs
        within: Any = schema
        for _ in range(_LEVELS_AROUND):
            within = [within]
        try:
            orjson.dumps(within)
        except orjson.JSONEncodeError as error:
            raise SchemaTooLarge(f"the argument schema cannot be written as JSON ({error})") from error
        return schema


def _items(
    document: Mapping[str, Any], uncallable: list[Uncallable], budget: ReadBudget
) -> Iterator[tuple[str, Values, str, Any]]:
    """Each operation's path, path item, method and definition; notes path items with a fault."""
    for path, given in document.get("paths", {}).items():
        item, reason = path_item(document, given)
        budget.take(1 + len(item))
        if reason and not path.startswith("x-"):
            uncallable.append(Uncallable(ANY_METHOD, path, reason))
        for method in _METHODS:
            if method in item:
                yield path, item, method, item[method]


def _operation(
    document: Mapping[str, Any], path: str, item: Values, method: str, given: Any, names: FreeNames, budget: ReadBudget
) -> Operation:
    if not isinstance(given, dict):
        raise _Unsupported((isinstance(given, str) and given) or "the operation is not an object")
    if method == "trace":
        raise _Unsupported("TRACE is not called")
    if not path.startswith("/"):
        raise _Unsupported("the path does not begin with /")
    made = _Arguments(document, budget)
    for part in (item, given):
        budget.take_size(*(part.get(name) for name in ("parameters", "summary", "description", "operationId")))
    templates = set(_TEMPLATE.findall(path))
    listed = [*(item.get("parameters") or []), *(given.get("parameters") or [])]
    asked = {name for part in (document, item, given) for name in names_in(part.get(_ASK))}
    parameters = tuple(
        msgspec.structs.replace(one, ask=True) if one.name in asked else one
        for one in _parameters(made, listed, templates)
    )
    if unfilled := _UNFILLED.search(_TEMPLATE.sub("_", path)):
        raise _Unsupported(
            f"the path's {unfilled[0].strip('/')} cannot be filled: OpenAPI writes a parameter as {{name}}"
        )
    if missing := sorted(templates - {one.name for one in parameters if one.place == "path"}):
        raise _Unsupported(f"the path's {{{missing[0]}}} is not a parameter of the operation")
    body = _body(made, given, method)
    schema = made.schema()
    if method.upper() in READING_METHODS:  # others are not tools
        if (smaller := fitted(schema)) is None:
            raise SchemaTooLarge(f"the required arguments take more than {MOST_BYTES:,} bytes, the most for a tool")
        schema = smaller
        parameters = tuple(one for one in parameters if one.argument in schema["properties"])
        body = body if body is not None and body.argument in schema["properties"] else None
    return Operation(
        method=method.upper(),
        path=path,
        schema=schema,
        summary=_text(given.get("summary") or item.get("summary")),
        description=_text(given.get("description") or item.get("description")),
        operation_id=_text(given.get("operationId")),
        parameters=parameters,
        body=body,
        accept=_accept(made, given),
        server=server_of(given.get("servers"), budget) or server_of(item.get("servers"), budget),
        confirm=given.get("x-ragway-confirm") is True,
        name=names.take(_name(given, method, path)),  # comes last, so that a faulty operation takes no name
    )


def _name(given: Values, method: str, path: str) -> str:
    """A name for the model: operationId in Latin letters, else method and path."""
    words = map(in_latin, (_text(given.get("operationId")), f"{method} {path}"))
    return next(filter(None, (UNSAFE_NAME.sub("_", one).strip("_") for one in words)))[:MOST_NAME_CHARS]


def _parameters(made: _Arguments, listed: Iterable[Any], templates: Container[str]) -> Iterator[Parameter]:
    """Parameters, each added as an argument. A path parameter that is not in the path is left out."""
    merged: dict[tuple[str, str], Values] = {}
    for one in listed:
        parameter = resolved(made.document, one)
        if isinstance(parameter.get("name"), str) and parameter.get("in") in _STYLES:
            merged[parameter["name"], parameter["in"]] = parameter
        else:
            raise _Unsupported(f"a parameter has no name, or stands in {parameter.get('in')!r}")
    for (name, place), parameter in merged.items():
        made.budget.take_size(parameter.get("description"))
        if (place == "path" and name not in templates) or (place == "header" and _is_own_header(name)):
            continue
        if place == "header" and not _HEADER_NAME.fullmatch(name):
            raise _Unsupported(f"the header {name!r} cannot be sent")
        media_type, schema = "", parameter.get("schema", {})
        if isinstance(content := parameter.get("content"), dict) and content:
            media_type, row = next(iter(content.items()))
            schema = row.get("schema", {})
            if not is_json(media_type):
                raise _Unsupported(f"the parameter {name!r} is written as {media_type}")
        style = parameter.get("style") or _STYLES[place][0]
        if style not in _STYLES[place]:
            raise _Unsupported(f"the parameter {name!r} has the style {style!r}, which a {place} does not have")
        explode = parameter.get("explode")
        needed = place == "path" or parameter.get("required") is True
        plain = UNSAFE_ARGUMENT.sub("_", in_latin(name)).strip("_")[:MOST_NAME_CHARS] or "value"
        described = _named(_described(made.read(schema), parameter.get("description")), name)
        yield Parameter(
            name=name,
            argument=made.add(plain, described, required=needed),
            place=place,  # type: ignore[arg-type]  # checked above
            style=style,  # type: ignore[arg-type]  # checked above
            explode=explode if isinstance(explode, bool) else style == "form",
            required=needed,
            allow_reserved=parameter.get("allowReserved") is True,
            media_type=media_type,
            ask=any(part.get(_ASK) is True for part in (parameter, schema) if isinstance(part, dict)),
        )


def _is_own_header(name: str) -> bool:
    """Whether only the gateway may write a header. Some servers read _ as -."""
    dashed = name.lower().replace("_", "-")
    return dashed in _OWN_HEADERS or bool(_OF_PROXIES.fullmatch(dashed)) or names_method(name)


def _described(schema: Any, description: object) -> Any:
    schema = {} if isinstance(schema, bool) else schema  # some providers take objects alone
    words = description.split() if isinstance(description, str) else []
    if not words or not isinstance(schema, dict) or schema.get("description"):
        return schema
    return {**schema, "description": quoted(" ".join(words)[:600])}


def _named(schema: Any, name: str) -> Any:
    """The schema with its name in the description, if that is not ASCII."""
    if name.isascii():
        return schema
    given = schema if isinstance(schema, dict) else {}
    words = filter(None, (name[:MOST_NAME_CHARS], given.get("description")))
    return {**given, "description": quoted(": ".join(words))}


def _body(made: _Arguments, given: Values, method: str) -> Body | None:
    """The body that is easiest to write: JSON, else a form, text or bytes."""
    if given.get("requestBody") is None:
        return None
    row = resolved(made.document, given["requestBody"])
    content = row.get("content") or {}
    made.budget.take_size(content, row.get("description"))
    found = _best(content)
    if not found:
        if row.get("required") is True or method not in ("get", "head", "delete"):
            raise _Unsupported(f"the body can only be written as {', '.join(content) or 'nothing'}")
        return None
    schema = content[found].get("schema", {}) if isinstance(content[found], dict) else {}
    plain = resolved(made.document, schema) if isinstance(schema, dict) else {}
    if row.get("required") is not True and _has_no_members(plain, bare=method in ("get", "head", "delete")):
        return None
    media_type = _sent(found, plain) if "*" in found else found
    described = _described(made.read(schema), row.get("description"))
    bare, needed = bare_type(media_type), row.get("required") is True
    octets = not is_json(bare) and not bare.startswith("text/") and bare not in (FORM, MULTIPART)
    if octets:
        described = {"type": "string", "contentEncoding": "base64", "description": "The bytes, as base64."}
    return Body(
        argument=made.add("body", described, required=needed),
        media_type=media_type,
        required=needed,
        base64=octets,
        encodings=_encodings(content[found], made.budget),
        binary=tuple(_binary(made, schema)) if bare == MULTIPART else (),
    )


def _has_no_members(schema: Any, *, bare: bool) -> bool:
    """Whether a schema allows only an empty object. bare: so does an object that lists no members."""
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return False
    lists = "properties" in schema or (bare and "type" in schema)
    further = ("properties", "additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref")
    return lists and not any(schema.get(name) for name in further)


def _best(content: Mapping[str, Any]) -> str:
    """The media type to write; "" if the gateway can write none."""
    kinds = (
        lambda one: one == "application/json",
        is_json,
        lambda one: one == FORM,
        lambda one: one == MULTIPART,
        lambda one: one.startswith("text/"),
        lambda one: one == OCTETS or one.startswith(_BINARY),
        lambda one: one in ("*/*", "application/*"),
    )
    for kind in kinds:
        for media_type in sorted(content, key=lambda one: "*" in one):
            if kind(bare_type(media_type)):
                return media_type
    return ""


def _sent(media_range: str, schema: Any) -> str:
    """The media type to send for a range, such as `application/*+json`."""
    if is_json(media_range) or (isinstance(schema, dict) and schema.get("type") in ("object", "array")):
        return "application/json"
    return "text/plain" if media_range.startswith("text/") else OCTETS


def _encodings(row: Any, budget: ReadBudget) -> dict[str, Encoding]:
    given = row.get("encoding") if isinstance(row, dict) else None
    budget.take_size(given)
    made = {}
    for name, one in (given if isinstance(given, dict) else {}).items():
        style = one.get("style", "form")
        made[name] = Encoding(
            media_type=str(one.get("contentType", "")).partition(",")[0].strip(),
            style=style if style in _STYLES["query"] else "form",
            explode=one.get("explode", style == "form") is True,
            allow_reserved=one.get("allowReserved") is True,
            by_style="style" in one or "explode" in one,
        )
    return made


def _binary(made: _Arguments, form: Any, levels: int = 5) -> Iterator[str]:
    """File properties of a form, also of one that combines others (`allOf`)."""
    schema = resolved(made.document, form)
    if not levels or not isinstance(schema, dict):
        return
    made.budget.take_size(schema.get("properties"), schema.get("allOf"))
    for part in schema.get("allOf") or []:
        yield from _binary(made, part, levels - 1)
    for name, given in (schema.get("properties") or {}).items():
        one = resolved(made.document, given)
        items = resolved(made.document, one.get("items")) if isinstance(one, dict) else None
        for each in (one, items):
            if isinstance(each, dict) and (each.get("format") == "binary" or "contentMediaType" in each):
                yield name


def _successes(made: _Arguments, given: Values) -> Iterator[Values]:
    """Content of successful responses, lowest status first.

    The default response counts only if no success is listed: beside a success, it is an error.
    """
    responses = given["responses"] if isinstance(given.get("responses"), dict) else {}
    made.budget.take_size(responses)
    for status in [one for one in sorted(responses, key=str) if str(one).startswith("2")] or ["default"]:
        response = None
        with contextlib.suppress(BadReference):  # a request needs no response
            response = resolved(made.document, responses.get(status))
        if isinstance(response, dict) and isinstance(response.get("content"), dict):
            made.budget.take_size(response["content"])
            yield response["content"]


def _accept(made: _Arguments, given: Values) -> str:
    """JSON, in its newest version, if a successful response can be JSON; else up to five media types."""

    def numbered(text: str) -> str:  # v10 comes after v9
        return re.sub("[0-9]+", lambda number: number[0].zfill(12), text)

    named = (one for content in _successes(made, given) for one in content)
    media_types = [one for one in dict.fromkeys(named) if _MEDIA_TYPE.fullmatch(one)]
    versions = sorted((one for one in media_types if is_json(one)), key=numbered, reverse=True)
    plain = [one for one in versions if one == "application/json"]
    return ", ".join((plain or versions or media_types)[: 1 if versions else 5])


def server_of(servers: Any, budget: ReadBudget) -> str:
    """The first server's URL, with its variables' defaults; "" without a server.

    Raises BadServer for a variable without a default, or with one that the document does not list.
    """
    first = servers[0] if isinstance(servers, list) and servers else None
    if not isinstance(first, dict) or not isinstance(url := first.get("url"), str):
        return ""
    rows = first["variables"] if isinstance(first.get("variables"), dict) else {}
    budget.take_size(url, rows, *(row.get("enum") for row in rows.values() if isinstance(row, dict)))

    def default(match: re.Match[str]) -> str:
        row = rows.get(match[1])
        if not isinstance(row, dict) or "default" not in row:
            raise BadServer(f"the server's variable {match[1]!r} has no default")
        chosen = str(row["default"])
        listed = row.get("enum") or [chosen]
        if not isinstance(listed, list):
            raise BadServer(f"the server's variable {match[1]!r} has no list of values")
        if chosen not in map(str, listed):
            raise BadServer(f"the server's variable {match[1]!r} is one of {', '.join(map(str, listed))}")
        return chosen

    return _TEMPLATE.sub(default, url).strip().partition("#")[0]


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
