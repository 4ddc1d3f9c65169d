"""Parts of OpenAPI: requests that must be sent, calls that must send nothing, and values that a schema must judge."""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.conformance.reference_request import HttpRequest, reference_request

Json = dict[str, Any]
_TEXT, _LIST, _OBJECT = "b ä;é&", ["x", "y z", "1,2"], {"a": 1, "b c": "d&e"}
_OF_TEXT, _OF_LIST = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
_OF_OBJECT: Json = {"type": "object", "properties": {"a": {"type": "integer"}, "b c": {"type": "string"}}}
_VALUES: Sequence[tuple[Any, Json]] = ((_TEXT, _OF_TEXT), (_LIST, _OF_LIST), (_OBJECT, _OF_OBJECT))
_PLAIN_LIST = ["x", "yz"]  # for headers and cookies, which have no percent-encoding
_PLAIN_OBJECT = {"a": 1, "b": "de"}
_FILE = bytes(range(8))
_ATLAS = "application/vnd.atlas.2023-02-01+json"


@dataclass(frozen=True, slots=True)
class RequestCase:
    """A call, and the one request that must be sent."""

    part: str
    document: Json  # with one operation
    arguments: Json
    expected: HttpRequest | None  # None: nothing may be sent
    decoded: bool = False  # compare the query after percent-decoding


@dataclass(frozen=True, slots=True)
class SchemaCase:
    """A schema of a parameter or body: the schema that a model gets must accept and refuse the same values."""

    part: str
    document: Json  # with one operation, whose argument is `v` or `body`
    argument: str
    right: Sequence[Any]
    wrong: Sequence[Any]


def operation_of(document: Json) -> tuple[str, str]:
    """Method and path of the one operation."""
    ((path, item),) = document["paths"].items()
    (method,) = (name for name in item if name in ("get", "post"))
    return method, path


def request_cases() -> Iterator[RequestCase]:
    """All requests, part after part."""
    yield from _paths()
    yield from _queries()
    yield from _headers_and_cookies()
    yield from _empty_values()
    yield from _bodies()
    yield from _references()
    yield from _swagger()
    yield from _refused()


def _document(*parameters: Json, path: str = "/p", body: Json | None = None, **more: Any) -> Json:
    """more: further members of the document, such as `components`."""
    operation: Json = {"operationId": "op", "parameters": list(parameters), "responses": {"200": {"description": "OK"}}}
    if body is not None:
        operation["requestBody"] = {"required": True, "content": body}
    info = {"title": "cases", "version": "1"}
    return {"openapi": "3.1.0", "info": info, "paths": {path: {"post" if body else "get": operation}}, **more}


def _parameter(place: str, schema: Json, name: str = "v", **more: Any) -> Json:
    return {"name": name, "in": place, "required": place == "path", "schema": schema, **more}


def _case(
    part: str, document: Json, arguments: Json, same: Json | None = None, *, decoded: bool = False
) -> RequestCase:
    """A request as the reference writes the request. same: a plainer document that means the same."""
    method, path = operation_of(document)
    expected = reference_request(same or document, method.upper(), path, arguments)
    return RequestCase(part, document, arguments, expected, decoded)


def _paths() -> Iterator[RequestCase]:
    for style in ("simple", "label", "matrix"):
        for explode in (False, True):
            for value, schema in _VALUES:
                given = _parameter("path", schema, style=style, explode=explode)
                yield _case(f"path: `{style}`", _document(given, path="/p/{v}/q"), {"v": value})


def _queries() -> Iterator[RequestCase]:
    for explode in (True, False):
        for value, schema in _VALUES:
            part = f"query: `form`, {'exploded' if explode else 'not exploded'}"
            yield _case(part, _document(_parameter("query", schema, explode=explode)), {"v": value})
    for style in ("spaceDelimited", "pipeDelimited"):
        given = _parameter("query", _OF_LIST, style=style, explode=False)
        yield _case("query: `spaceDelimited`, `pipeDelimited`", _document(given), {"v": _LIST})
    deep = _parameter("query", _OF_OBJECT, style="deepObject", explode=True)
    yield _case("query: `deepObject`", _document(deep), {"v": _OBJECT})
    reserved = _parameter("query", _OF_TEXT, allowReserved=True)
    yield _case("query: `allowReserved`", _document(reserved), {"v": "a/b:c?d@e"}, decoded=True)
    for value, schema in _VALUES:
        given = {"name": "v", "in": "query", "content": {"application/json": {"schema": schema}}}
        yield _case("query: a value as JSON (`content`)", _document(given), {"v": value})
    yield _case("query: names with signs", _document(_parameter("query", _OF_TEXT, "page[size]")), {"page[size]": "5"})


def _headers_and_cookies() -> Iterator[RequestCase]:
    for explode in (False, True):
        for value, schema in (("text", _OF_TEXT), (_PLAIN_LIST, _OF_LIST), (_PLAIN_OBJECT, _OF_OBJECT)):
            given = _parameter("header", schema, "X-V", explode=explode)
            yield _case("header: `simple`", _document(given), {"X-V": value})
    for value, schema in (("text", _OF_TEXT), (_PLAIN_LIST, _OF_LIST)):
        given = _parameter("cookie", schema, explode=False)
        yield _case("cookie: `form`", _document(given), {"v": value})


def _empty_values() -> Iterator[RequestCase]:
    values = ((0, {"type": "integer"}), (False, {"type": "boolean"}), ("", _OF_TEXT))
    for place, name in (("query", "v"), ("header", "X-V")):
        for value, schema in values:
            yield _case('`0`, `false` and `""`', _document(_parameter(place, schema, name)), {name: value})
    for value, schema in values:
        body = {"application/json": {"schema": {"type": "object", "properties": {"v": schema}}}}
        yield _case('`0`, `false` and `""`', _document(body=body), {"body": {"v": value}})
    nothing = {"application/json": {"schema": {"type": "object", "properties": {"v": {"type": ["string", "null"]}}}}}
    yield _case("`null` in a body", _document(body=nothing), {"body": {"v": None}})


def _bodies() -> Iterator[RequestCase]:
    for value, schema in _VALUES:
        yield _case("body: JSON", _document(body={"application/json": {"schema": schema}}), {"body": value})
    vendor = "application/vnd.api+json"
    yield _case("body: JSON of a vendor", _document(body={vendor: {"schema": _OF_OBJECT}}), {"body": _OBJECT})
    for part, media in (
        ("body: form", "application/x-www-form-urlencoded"),
        ("body: multipart", "multipart/form-data"),
    ):
        members = {"name": _OF_TEXT, "age": {"type": "integer"}, "tags": _OF_LIST}
        schema = {"type": "object", "properties": members}
        for value in ({"name": _TEXT, "age": 0}, {"tags": ["x", "y z"]}):
            yield _case(part, _document(body={media: {"schema": schema}}), {"body": value})
    for media in ("application/octet-stream", "text/plain"):
        binary = media != "text/plain"
        schema = {"type": "string", "format": "binary"} if binary else _OF_TEXT
        given = base64.b64encode(_FILE).decode() if binary else _TEXT
        sent = HttpRequest("POST", "/p", (), (), (), media, _FILE if binary else _TEXT.encode())
        document = _document(body={media: {"schema": schema}})
        yield RequestCase("body: bytes and text", document, {"body": given}, sent)
    answered = _document()
    answered["paths"]["/p"]["get"]["responses"]["200"]["content"] = {_ATLAS: {"schema": {"type": "object"}}}
    yield _case("`Accept` with a version of a vendor", answered, {})


def _references() -> Iterator[RequestCase]:
    part, plain = "references and parameters of the path", _parameter("query", _OF_LIST, explode=False)
    components = {"parameters": {"V": plain}, "schemas": {"Names": _OF_LIST}}
    yield _case(
        part, _document({"$ref": "#/components/parameters/V"}, components=components), {"v": _LIST}, _document(plain)
    )
    by_schema = {**plain, "schema": {"$ref": "#/components/schemas/Names"}}
    yield _case(part, _document(by_schema, components=components), {"v": _LIST}, _document(plain))
    of_path = _document(path="/p/{id}")
    of_path["paths"]["/p/{id}"]["parameters"] = [_parameter("path", _OF_TEXT, "id")]
    yield _case(part, of_path, {"id": "a b"})
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Names"}}}
    by_body = _document(body=content, components={**components, "requestBodies": {"B": {"content": content}}})
    by_body["paths"]["/p"]["post"]["requestBody"] = {"$ref": "#/components/requestBodies/B"}
    yield _case(part, by_body, {"body": _LIST}, _document(body={"application/json": {"schema": _OF_LIST}}))


def _swagger() -> Iterator[RequestCase]:
    part = "Swagger 2.0: `collectionFormat`, `body`, `formData`"
    for written, same in (
        ("csv", {"explode": False}),
        ("multi", {"explode": True}),
        ("ssv", {"style": "spaceDelimited", "explode": False}),
        ("pipes", {"style": "pipeDelimited", "explode": False}),
    ):
        given: Json = {"name": "v", "in": "query", **_OF_LIST, "collectionFormat": written}
        yield _case(part, _swagger_document(given), {"v": _LIST}, _document(_parameter("query", _OF_LIST, **same)))
    given = {"name": "body", "in": "body", "required": True, "schema": _OF_OBJECT}
    json = _document(body={"application/json": {"schema": _OF_OBJECT}})
    yield _case(part, _swagger_document(given, method="post"), {"body": _OBJECT}, json)
    fields = [
        {"name": "name", "in": "formData", "type": "string"},
        {"name": "age", "in": "formData", "type": "integer"},
    ]
    form: Json = {"application/x-www-form-urlencoded": {"schema": {"type": "object"}}}
    yield _case(
        part, _swagger_document(*fields, method="post"), {"body": {"name": _TEXT, "age": 0}}, _document(body=form)
    )


def _swagger_document(*parameters: Json, method: str = "get") -> Json:
    operation = {"operationId": "op", "parameters": [*parameters], "responses": {"200": {"description": "OK"}}}
    info = {"title": "cases", "version": "1"}
    return {"swagger": "2.0", "info": info, "host": "api.example.com", "paths": {"/p": {method: operation}}}


def _refused() -> Iterator[RequestCase]:
    one = _document(_parameter("path", _OF_TEXT), path="/p/{v}")
    yield RequestCase("a missing argument: nothing is sent", one, {}, None)
    required = _document({**_parameter("query", _OF_TEXT), "required": True})
    yield RequestCase("a missing argument: nothing is sent", required, {}, None)
    for value in ("../admin", "..", "a/../../b", "%2e%2e%2fadmin", "..\\admin", "..;/admin"):
        yield RequestCase("a value that names another path: nothing is sent", one, {"v": value}, None)
    number = _document(_parameter("query", {"type": "integer", "minimum": 1}))
    for wrong in ("seven", 0, 1.5, [1]):
        yield RequestCase("a value of another type or range: nothing is sent", number, {"v": wrong}, None)
    yield RequestCase("an unknown argument: nothing is sent", number, {"v": 1, "w": 2}, None)


def schema_cases() -> Iterator[SchemaCase]:
    """All schemas, part after part."""
    yield _schema("`enum`, `const`", {"enum": ["up", "down"]}, ["up"], ["left", 1])
    yield _schema("`enum`, `const`", {"const": 5}, [5], [6])
    yield _schema("`items` of a list", {"type": "array", "items": {"type": "integer"}}, [[1, 2], []], [["a"], 1])
    point: Json = {
        "type": "object",
        "required": ["x"],
        "properties": {"x": {"type": "number"}},
        "additionalProperties": False,
    }
    yield _schema("members, `required`, `additionalProperties`", point, [{"x": 1}], [{}, {"x": "a"}, {"x": 1, "y": 2}])
    yield _schema("minimum, maximum, lengths", {"type": "integer", "minimum": 1, "maximum": 9}, [1, 9], [0, 10])
    yield _schema(
        "minimum, maximum, lengths", {"type": "string", "minLength": 2, "maxLength": 3}, ["ab"], ["a", "abcd"]
    )
    old = {"type": "integer", "minimum": 1, "exclusiveMinimum": True}
    yield _schema("`nullable`, `exclusiveMinimum: true` of 3.0", old, [2], [1], version="3.0.3")
    yield _schema(
        "`nullable`, `exclusiveMinimum: true` of 3.0",
        {"type": "string", "nullable": True},
        ["a", None],
        [1],
        version="3.0.3",
    )
    yield _schema("several types of 3.1", {"type": ["string", "null"]}, ["a", None], [1])
    whole = {
        "allOf": [point | {"additionalProperties": True}, {"required": ["y"], "properties": {"y": {"type": "string"}}}]
    }
    yield _schema("`allOf`, `anyOf`, `oneOf`", whole, [{"x": 1, "y": "a"}], [{"x": 1}, {"y": "a"}, {"x": 1, "y": 2}])
    for word in ("anyOf", "oneOf"):
        either = {word: [{"type": "integer"}, {"type": "string", "maxLength": 3}]}
        yield _schema("`allOf`, `anyOf`, `oneOf`", either, [1, "abc"], ["abcd", []])
    cat = {
        "type": "object",
        "required": ["kind", "lives"],
        "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}},
    }
    dog = {
        "type": "object",
        "required": ["kind"],
        "properties": {"kind": {"const": "dog"}, "breed": {"type": "string"}},
    }
    pets = {
        "oneOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}],
        "discriminator": {"propertyName": "kind"},
    }
    right, wrong = [{"kind": "cat", "lives": 9}, {"kind": "dog", "breed": "pug"}], [{"kind": "cat"}, {"kind": "cow"}]
    yield _schema("`discriminator`", pets, right, wrong, components={"schemas": {"Cat": cat, "Dog": dog}})
    tree = {
        "type": "object",
        "required": ["n"],
        "properties": {"n": {"type": "integer"}, "next": {"$ref": "#/components/schemas/Tree"}},
        "additionalProperties": False,
    }
    deep, bad = {"n": 1, "next": {"n": 2, "next": {"n": 3}}}, {"n": 1, "next": {"n": "a"}}
    yield _schema(
        "`$ref`, in a circle",
        {"$ref": "#/components/schemas/Tree"},
        [deep],
        [bad, {"next": {}}],
        components={"schemas": {"Tree": tree}},
    )
    read = {
        "type": "object",
        "properties": {"id": {"type": "integer", "readOnly": True}, "name": _OF_TEXT},
        "required": ["id", "name"],
        "additionalProperties": False,
    }
    content = {"application/json": {"schema": read}}
    yield SchemaCase(
        "`readOnly` is left out", _document(body=content), "body", [{"name": "a"}], [{"id": 1, "name": "a"}, {}]
    )


def _schema(
    part: str, schema: Json, right: Sequence[Any], wrong: Sequence[Any], *, version: str = "3.1.0", **more: Any
) -> SchemaCase:
    document = _document(_parameter("query", schema), **more) | {"openapi": version}
    return SchemaCase(part, document, "v", right, wrong)
