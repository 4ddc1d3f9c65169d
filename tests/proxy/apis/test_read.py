"""OpenAPI documents: what is read, what is refused with the place, and what no document can do."""

import json
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.api.knowledge.description import whole_document
from proxy.apis.library import ActionLibrary, ActionStore
from proxy.apis.openapi import references
from proxy.apis.openapi.operations import operations_of
from proxy.apis.openapi.read import UnreadableSpec, read_spec
from proxy.apis.specs import SpecReader, read_document
from tests.support.plans import READING
from tests.support.rows import all_rows
from tests.support.unasked import Unasked


def document(**more: Any) -> dict[str, Any]:
    return {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {}, **more}


@all_rows(
    ("raw", "words"),
    [
        (b'{"openapi": "3.1.0",\n "paths": {]}', "line 2, column"),
        (b"openapi: 3.1.0\npaths:\n  /a: {get: [}", "line 3, column"),
        (b"openapi: 3.1.0\nopenapi: 3.0.0\n", "line 2, column 1: the name 'openapi' occurs twice"),
        (b"openapi: 3.1.0\nx: &a [*a]\n", "recursive"),
        (b"just words", "is not an object"),
        (b"[1]", "is not an object"),
        (b"{}", "no `openapi`"),
        (b"openapi: 4.0.0", "`openapi: 4.0.0`"),
        (b"swagger: '1.2'", "only version 2.0"),
        (b"openapi: 3.1.0\npaths: []", "`paths` is not an object"),
        (b"\xff\xfe\x00", ""),
        (b"", "is not an object"),
        (b"[" * 100_000, ""),
        (b"x: 1\na: " + b"[" * 50_000, "line 2, column 203: the values are nested too deeply"),
        (b"- " * 50_000, "line 1, column 401: the values are nested too deeply"),
        (b"x: 1\na: " + b"{a: " * 50_000, "line 2, column"),
        (b"x:\n  - !!bool maybe", "line 2, column 5: the value is not a JSON bool"),
        (b"x:\n  - !!int [a]", "line 2, column 5: the value is not a JSON int"),
        (b"x:\n  - !!float .inf", "line 2, column 5: the value is not a JSON float"),
        (b"x:\n  - !!map [a]", "line 2, column 5: the value is not an object"),
        (b"x:\n  - !!seq {a: b}", "line 2, column 5: expected a sequence node"),
        (b"x:\n  - !!timestamp abc", "line 2, column 5: the tag 'tag:yaml.org,2002:timestamp' does not belong"),
        (b"x:\n  - <<: 1", "line 2, column 9: `<<` takes objects"),
        (b"openapi: 3.1.0\nx: \xff\n", "line 2: invalid leading UTF-8 octet"),
        (b'{"openapi": "3.1.0",\n"x": "\xff"}', "line 2: the text is not UTF-8"),
        (b"openapi: 3.1.0\nx: \x00\n", "line 2: control characters are not allowed"),
        ("openapi: 3.1.0\nx: \x01\n".encode("utf-16"), "line 2: control characters are not allowed"),
        (b"x:\n  - -1e999", "line 2, column 5: the value is not a JSON float"),
        (b"x:\n  - " + b"9" * 400, "line 2, column 5: the value is not a JSON float"),
    ],
)
def test_a_document_that_cannot_be_read_is_refused_with_place_and_reason(raw: bytes, words: str) -> None:
    with pytest.raises(UnreadableSpec) as refused:
        read_spec(raw)
    assert words in str(refused.value)


@pytest.mark.parametrize("version", ["3.0", "3.1", "'3.1'", "3.0.4"])
def test_a_version_may_be_a_number(version: str) -> None:
    assert read_spec(f"openapi: {version}\npaths: {{}}\n".encode())["paths"] == {}


def test_yaml_means_what_json_means() -> None:
    text = "openapi: 3.0.3\npaths: {/x: {get: {responses: {200: {description: no}}, x: [NO, 12:30, on, 1e3]}}}\n"
    operation = read_spec(text.encode())["paths"]["/x"]["get"]
    assert operation == {"responses": {"200": {"description": "no"}}, "x": ["NO", "12:30", "on", 1000.0]}


def test_a_merge_key_of_yaml_adds_the_members_that_are_missing() -> None:
    text = """openapi: 3.1.0
x:
  - &a {a: 1, b: 1}
  - &b {b: 2, c: 2}
  - {<<: *a, b: 3}
  - <<: [*a, *b]
  - {"<<": 4, d: <<}
"""
    made = [{"b": 3, "a": 1}, {"a": 1, "b": 1, "c": 2}, {"<<": 4, "d": "<<"}]
    assert read_spec(text.encode())["x"][2:] == made


def test_merge_keys_cannot_grow_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "_MOST_VALUES", 200_000)
    names = ", ".join(f"n{number}: 0" for number in range(1_000))
    text = "openapi: 3.1.0\nx:\n  - &a {" + names + "}\n" + "  - <<: *a\n" * 300
    with pytest.raises(UnreadableSpec, match="more than 200,000 values"):
        read_spec(text.encode())


@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ("{a: ", "}")])
def test_yaml_of_two_hundred_levels_is_read(opened: str, closed: str) -> None:
    read_spec(f"openapi: 3.1.0\nx: {opened * 199}{closed * 199}".encode())


@pytest.mark.parametrize("number", [2**63 - 1, 2**64 - 1, 2**64, 2**256 - 1, -(2**63), -(2**63) - 1, 10**299])
def test_a_whole_number_of_yaml_is_the_number_that_json_reads(number: int) -> None:
    read = read_spec(f"openapi: 3.1.0\nx: {number}\n".encode())["x"]
    same = json.loads(orjson.dumps(orjson.loads(str(number))))
    assert (type(read), read) == (type(same), same)
    assert orjson.loads(orjson.dumps(read)) == same


def test_a_whole_number_beyond_64_bits_stays_a_name_of_its_own() -> None:
    read = read_spec(f"openapi: 3.1.0\nx: {{{2**70}: a, {2**70 + 1}: b}}\n".encode())["x"]
    assert read == {str(2**70): "a", str(2**70 + 1): "b"}


def test_a_number_as_a_name_is_the_name_as_written() -> None:
    read = read_spec(b"openapi: 3.1.0\nx: {1.1: a, 1.10: b, 007: c, 2e3: d, 200: e, True: f}\n")["x"]
    assert read == {"1.1": "a", "1.10": "b", "007": "c", "2e3": "d", "200": "e", "true": "f"}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@example({"get": ""}, False)
@given(st.dictionaries(st.sampled_from(["get", "post", "parameters", "x"]), JSON, max_size=4), st.booleans())
def test_any_path_item_is_callable_or_named_with_a_reason(item: dict[str, Any], swagger: bool) -> None:
    made = {"swagger": "2.0", "paths": {"/p": item}} if swagger else document(paths={"/p": item})
    operations, uncallable = operations_of(read_spec(json.dumps(made).encode()))
    methods = [one.method for one in operations] + [one.method for one in uncallable]
    assert {method.lower() for method in methods} == set(item) & {"get", "post"}
    assert all(one.reason for one in uncallable)


def test_shared_values_of_yaml_cannot_grow_without_bound() -> None:
    rows = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    rows += [
        f"{name}: &{name} [{', '.join(['*' + before] * 10)}]" for before, name in zip("abcdefg", "bcdefgh", strict=True)
    ]
    paths = {"/p": {"get": {"parameters": [{"name": "q", "in": "query", "schema": {"default": "HERE"}}]}}}
    text = "\n".join(rows) + "\n" + yaml.safe_dump(document(paths=paths)).replace("HERE", "*h")
    operations, uncallable = operations_of(read_spec(text.encode()))
    assert operations == []
    assert uncallable[0].reason == "the argument schema is too large for a model"


@pytest.mark.parametrize("levels", [100, 240, 250, 260, 400])
def test_a_schema_that_is_nested_too_deeply_costs_one_operation_or_can_be_offered(levels: int) -> None:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    deep = {"get": {"parameters": [{"name": "a", "in": "query", "schema": {"default": value}}]}}
    operations, uncallable = operations_of(document(paths={"/deep": deep, "/flat": {"get": {}}}))
    assert [one.path for one in operations if one.path == "/flat"] == ["/flat"]
    for one in operations:
        assert orjson.dumps(one.schema)
    assert len(operations) + len(uncallable) == 2
    assert (levels > 230) == bool(uncallable)


LARGE_SCHEMA: dict[str, Any] = {"properties": {f"p{number}": {} for number in range(19_000)}}
MANY = [{"name": "a", "in": "query"}] * 20_000


@pytest.mark.parametrize(
    "made",
    [
        document(
            paths={"/x": {"get": {"parameters": [{"name": "a", "in": "query", "schema": LARGE_SCHEMA}]}}},
        ),
        document(paths={"/x": {"get": {"parameters": MANY}}}),
        document(paths={"/x": {"get": {"description": "words " * 200_000}}}),
        document(paths={"/x": {"get": {"responses": {"200": {"content": {f"a/{n}": {} for n in range(20_000)}}}}}}),
        {"swagger": "2.0", "paths": {"/x": {"get": {"parameters": MANY}}}},
    ],
)
def test_a_path_that_is_used_again_and_again_refuses_the_document(
    made: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(references, "_MOST_VALUES", 200_000)
    read_document(json.dumps(made).encode())
    aliases = {f"/a{number}": {"$ref": "#/paths/~1x"} for number in range(20)}
    raw = json.dumps({**made, "paths": {**made["paths"], **aliases}}).encode()
    with pytest.raises(UnreadableSpec, match="more than 200,000 values"):
        read_document(raw)


def test_two_thousand_operations_with_large_schemas_are_read() -> None:
    schema = {"properties": {f"p{number}": {"type": "string", "description": "words"} for number in range(100)}}
    get = {"parameters": [{"name": "a", "in": "query", "schema": schema}]}
    operations, uncallable = operations_of(document(paths={f"/{number}": {"get": get} for number in range(2_000)}))
    assert (len(operations), uncallable) == (2_000, [])


def test_a_body_may_be_of_any_schema() -> None:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Any"}}}
    made = document(
        paths={"/t": {"post": {"requestBody": {"content": content}}}}, components={"schemas": {"Any": True}}
    )
    (operation,), _ = operations_of(made)
    assert operation.schema["$defs"]["Any"] is True


def test_a_schema_may_refer_to_itself() -> None:
    tree = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}}},
    }
    body = {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Tree"}}}}
    made = document(paths={"/t": {"post": {"requestBody": body}}}, components={"schemas": {"Tree": tree}})
    (operation,), _ = operations_of(made)
    assert operation.schema["properties"]["body"] == {"$ref": "#/$defs/Tree"}
    assert operation.schema["$defs"]["Tree"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}


@all_rows(
    ("given", "made"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": True, "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        (
            {"nullable": True, "allOf": [{"type": "string"}]},
            {"anyOf": [{"allOf": [{"type": "string"}]}, {"type": "null"}]},
        ),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, {"type": "integer", "exclusiveMinimum": 1}),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": False}, {"type": "integer", "minimum": 1}),
        ({"type": "string", "example": "x", "x-internal": 1, "xml": {}}, {"type": "string"}),
        ({"type": "string", "enum": [1, True, 2.5]}, {"type": "string", "enum": ["1", "true", "2.5"]}),
        ({"type": "string", "enum": ["a", 1]}, {"type": "string", "enum": ["a", "1"]}),
        ({"type": "integer", "enum": ["1", "2", "x"]}, {"type": "integer", "enum": [1, 2]}),
        ({"type": "boolean", "enum": ["true", "false"]}, {"type": "boolean", "enum": [True, False]}),
        ({"type": "object", "enum": ["CAR", "VAN"]}, {"enum": ["CAR", "VAN"]}),
        (
            {"type": "array", "items": {"type": "string"}, "enum": ["pc", "phone"]},
            {"type": "array", "items": {"type": "string", "enum": ["pc", "phone"]}},
        ),
        (
            {
                "type": "object",
                "required": ["id", "n"],
                "properties": {"id": {"readOnly": True}, "n": {"type": "number"}},
            },
            {"type": "object", "required": ["n"], "properties": {"n": {"type": "number"}}},
        ),
    ],
)
def test_words_of_openapi_become_words_of_json_schema(given: dict[str, Any], made: dict[str, Any]) -> None:
    content = {"requestBody": {"content": {"application/json": {"schema": given}}}}
    (operation,), _ = operations_of(document(openapi="3.0.3", paths={"/p": {"post": content}}))
    assert operation.schema["properties"]["body"] == made


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        ({"parameters": [{"$ref": "https://example.com/p.json"}]}, "another document"),
        ({"parameters": [{"$ref": "#/nowhere"}]}, "leads nowhere"),
        ({"parameters": [{"name": "a", "in": "query", "schema": {"$ref": "#Pet"}}]}, "'#Pet' is an anchor"),
        ({"parameters": [{"$ref": "#/" + "a" * 5_000}]}, "longer than 4,000 characters"),
        ({"parameters": [{"name": "a", "in": "nowhere"}]}, "stands in 'nowhere'"),
        ({"parameters": [{"name": "a", "in": "header", "style": "form"}]}, "does not have"),
        ({"parameters": [{"name": "a b", "in": "header"}]}, "cannot be sent"),
        ({"requestBody": {"required": True, "content": {"application/xml": {}}}}, "application/xml"),
        (1, "not an object"),
    ],
)
def test_a_fault_costs_one_operation_alone(operation: Any, reason: str) -> None:
    good: dict[str, Any] = {"responses": {}}
    operations, uncallable = operations_of(document(paths={"/bad": {"post": operation}, "/good": {"get": good}}))
    assert [one.path for one in operations] == ["/good"]
    assert reason in uncallable[0].reason


@pytest.mark.parametrize("version", [{"openapi": "3.1.0"}, {"swagger": "2.0"}])
def test_a_response_in_another_document_leaves_the_operation_callable(version: dict[str, str]) -> None:
    responses = {"200": {"$ref": "common.yaml#/ok"}, "404": {"$ref": "#/nowhere"}}
    made = {**version, "paths": {"/a": {"get": {"responses": responses}}}}
    operations, uncallable = operations_of(read_spec(json.dumps(made).encode()))
    assert [one.path for one in operations] == ["/a"]
    assert uncallable == []


@pytest.mark.parametrize("version", [{"openapi": "3.1.0"}, {"swagger": "2.0"}])
@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ({"$ref": "./users.yaml"}, "the reference './users.yaml' leads to another document"),
        ({"$ref": "#/nowhere"}, "leads nowhere"),
        ({"$ref": "#/paths/~1bad"}, "has no end"),
        ({"$ref": "#/info/title"}, "the path item is not an object"),
        (["get"], "the path item is not an object"),
    ],
)
def test_a_path_that_cannot_be_read_is_named_with_the_reason(version: dict[str, str], item: Any, reason: str) -> None:
    made = {**version, "info": {"title": "t"}, "paths": {"/bad": item, "/good": {"get": {}}, "x-more": "words"}}
    operations, uncallable = operations_of(read_spec(json.dumps(made).encode()))
    assert [one.path for one in operations] == ["/good"]
    assert [(one.method, one.path) for one in uncallable] == [("*", "/bad")]
    assert reason in uncallable[0].reason


@pytest.mark.parametrize("version", [{"openapi": "3.1.0"}, {"swagger": "2.0"}])
def test_a_path_has_the_operations_at_a_reference_and_beside_the_reference(version: dict[str, str]) -> None:
    shared = {
        "parameters": [{"name": "id", "in": "query", "type": "string", "schema": {"type": "string"}}],
        "get": {"summary": "shared"},
    }
    paths = {
        "/a": {"$ref": "#/x-items/shared"},
        "/b": {"$ref": "#/paths/~1a", "post": {"summary": "beside"}},
        "/d": {"$ref": "#/paths/~1b"},
        "/c": {"$ref": "./c.yaml", "put": {"summary": "beside"}},
    }
    made = {**version, "info": {"title": "t"}, "paths": paths, "x-items": {"shared": shared}}
    operations, uncallable = operations_of(read_spec(json.dumps(made).encode()))
    assert [(one.method, one.path, one.summary, len(one.parameters)) for one in operations] == [
        ("GET", "/a", "shared", 1),
        ("GET", "/b", "shared", 1),
        ("POST", "/b", "beside", 1),
        ("GET", "/d", "shared", 1),
        ("POST", "/d", "beside", 1),
        ("PUT", "/c", "beside", 0),
    ]
    assert [(one.method, one.path) for one in uncallable] == [("*", "/c")]


def test_the_time_for_equal_names_does_not_grow_with_the_square() -> None:
    began = time.process_time()
    paths = {f"/{number}": {"get": {"operationId": "list" * 20}} for number in range(30_000)}
    operations, _ = operations_of(document(paths=paths))
    names = [one.name for one in operations]
    assert (names[0], names[1], names[9]) == (("list" * 16), ("list" * 16)[:62] + "_2", ("list" * 16)[:61] + "_10")
    assert len(set(names)) == 30_000
    assert time.process_time() - began < 30


def test_an_operation_id_without_latin_letters_leaves_the_name_to_the_path() -> None:
    paths = {
        "/users": {"get": {"operationId": "ユーザー一覧"}},
        "/größe": {"get": {"operationId": "Größe"}},
        "/名": {"get": {}},
    }
    assert [one.name for one in operations_of(document(paths=paths))[0]] == ["get_users", "Grosse", "get"]


def test_equal_names_get_the_lowest_free_number() -> None:
    names = ["list", "list_2", "list", "list", "list_3", "list"]
    paths: dict[str, Any] = {f"/{number}": {"get": {"operationId": name}} for number, name in enumerate(names)}
    paths["/1a"] = {"get": {"operationId": "fault", "servers": [{"url": "{x}"}]}}
    paths["/2a"] = {"get": {"operationId": "fault"}}
    operations, _ = operations_of(document(paths=paths))
    assert [one.name for one in operations] == ["list", "list_2", "list_3", "list_4", "list_3_2", "list_5", "fault"]


def test_a_path_without_its_parameter_cannot_be_called() -> None:
    _, uncallable = operations_of(document(paths={"/a/{id}": {"get": {}}}))
    assert uncallable[0].reason == "the path's {id} is not a parameter of the operation"


def test_a_parameter_that_the_path_does_not_have_is_no_argument() -> None:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {}} for name in ("id", "group")
    ]
    made = document(paths={"/users/{id}": {"parameters": parameters, "get": {}}})
    (operation,), _ = operations_of(made)
    assert list(operation.schema["properties"]) == operation.schema["required"] == ["id"]
    assert [one.name for one in operation.parameters] == ["id"]


def test_swagger_2_reads_like_version_3() -> None:
    old = {
        "swagger": "2.0",
        "host": "api.example.com",
        "basePath": "/v2",
        "schemes": ["http", "https"],
        "consumes": ["application/json"],
        "produces": ["application/json"],
        "parameters": {"id": {"name": "id", "in": "path", "required": True, "type": "integer"}},
        "definitions": {"Pet": {"type": "object", "properties": {"name": {"type": "string"}}}},
        "paths": {
            "/pets/{id}": {
                "parameters": [{"$ref": "#/parameters/id"}],
                "put": {"parameters": [{"name": "pet", "in": "body", "schema": {"$ref": "#/definitions/Pet"}}]},
                "get": {
                    "parameters": [
                        {
                            "name": "t",
                            "in": "query",
                            "type": "array",
                            "items": {"type": "string"},
                            "collectionFormat": "pipes",
                        }
                    ]
                },
            },
            "/photo": {"post": {"parameters": [{"name": "file", "in": "formData", "type": "file", "required": True}]}},
        },
    }
    made = read_spec(json.dumps(old).encode())
    assert made["servers"] == [{"url": "https://api.example.com/v2"}]
    operations = {one.method + one.path: one for one in operations_of(made)[0]}
    get, put, photo = operations["GET/pets/{id}"], operations["PUT/pets/{id}"], operations["POST/photo"]
    assert [(one.name, one.style, one.explode) for one in get.parameters] == [
        ("id", "simple", False),
        ("t", "pipeDelimited", False),
    ]
    assert put.schema["properties"]["body"] == {"$ref": "#/$defs/Pet"}
    assert photo.body is not None
    assert (photo.body.media_type, photo.body.binary) == ("multipart/form-data", ("file",))


def test_a_reference_of_swagger_2_may_lead_to_any_part_of_the_document() -> None:
    item = {"parameters": [{"name": "q", "in": "query", "type": "array", "items": {"$ref": "#/x-shared/Pet"}}]}
    old = {"swagger": "2.0", "paths": {"/pets": {"get": item}}, "x-shared": {"Pet": {"type": "integer"}}}
    (operation,), _ = operations_of(read_spec(json.dumps(old).encode()))
    assert operation.schema["$defs"] == {"Pet": {"type": "integer"}}


@pytest.mark.parametrize(
    ("more", "address"),
    [
        ({"basePath": "v1"}, "https://api.example.com/v1"),
        ({"host": "api.example.com/", "basePath": "/v1"}, "https://api.example.com/v1"),
        ({"schemes": ["ws", "http"]}, "http://api.example.com"),
        ({"basePath": "/"}, "https://api.example.com/"),
    ],
)
def test_a_base_path_of_swagger_2_never_becomes_a_part_of_the_host(more: dict[str, Any], address: str) -> None:
    made = read_spec(json.dumps({"swagger": "2.0", "host": "api.example.com", **more}).encode())
    assert made["servers"] == [{"url": address}]


@pytest.mark.parametrize(
    ("place", "written"),
    [("query", "tsv"), ("path", "tsv"), ("path", "pipes"), ("path", "ssv"), ("header", "pipes"), ("formData", "tsv")],
)
def test_a_list_of_swagger_2_that_cannot_be_written_costs_one_operation_alone(place: str, written: str) -> None:
    listed = {"name": "t", "in": place, "required": True, "type": "array", "items": {}, "collectionFormat": written}
    paths = {"/bad/{t}": {"post": {"parameters": [listed]}}, "/good": {"get": {}}}
    operations, uncallable = operations_of(read_spec(json.dumps({"swagger": "2.0", "paths": paths}).encode()))
    assert [one.path for one in operations] == ["/good"]
    assert [(one.method, one.reason) for one in uncallable] == [
        ("POST", f"the parameter 't' has the collectionFormat '{written}', which cannot be written in a {place}")
    ]


def test_every_operation_of_the_gateways_own_document_can_be_called() -> None:
    served = read_spec(json.dumps(whole_document()).encode())
    operations, uncallable = operations_of(served)
    assert uncallable == []
    assert {one.path for one in operations} == set(served["paths"])


ODD_VARIABLES: list[Any] = [
    {"region": {"default": "mars", "enum": ["eu"]}},
    {"region": "eu"},
    {"region": [1]},
    {"region": {"default": "eu", "enum": 5}},
]


@pytest.mark.parametrize("variables", ODD_VARIABLES)
def test_an_odd_variable_of_a_server_costs_one_operation_alone(variables: Any) -> None:
    servers = [{"url": "https://{region}.example.com", "variables": variables}]
    paths = {"/bad": {"get": {"servers": servers}}, "/good": {"get": {}}}
    operations, uncallable = operations_of(document(paths=paths))
    assert [one.path for one in operations] == ["/good"]
    assert "region" in uncallable[0].reason


@pytest.mark.parametrize("variables", ODD_VARIABLES)
async def test_an_odd_variable_of_the_documents_server_refuses_the_document(variables: Any, tmp_path: Path) -> None:
    servers = [{"url": "https://{region}.example.com", "variables": variables}]
    raw = json.dumps(document(paths={"/p": {"get": {}}}, servers=servers)).encode()
    store = ActionStore(tmp_path)
    with pytest.raises(UnreadableSpec, match="region"):
        await ActionLibrary(store, Unasked(), SpecReader(READING)).add("set", raw)
    assert store.sets() == []
