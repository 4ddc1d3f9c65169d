"""What a model is shown of an operation: names of every script, a bounded size, only what can be filled and sent."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.agent.ask.transcript import _listed
from proxy.agent.tools.operation_tool import OperationTool
from proxy.apis.call import Api
from proxy.apis.openapi.operation import Operation, Uncallable
from proxy.apis.openapi.operations import operations_of
from proxy.apis.openapi.size import MOST_BYTES, fitted
from tests.support.rows import all_rows


def read(
    path: str, *rows: dict[str, Any], method: str = "get", **more: Any
) -> tuple[list[Operation], list[Uncallable]]:
    return operations_of({"openapi": "3.1.0", "paths": {path: {method: {"parameters": list(rows), **more}}}})


def query(name: str, schema: Any = True, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema, **more}


@pytest.mark.parametrize(
    ("name", "argument"),
    [("编号", "value"), ("straße", "strasse"), ("größe", "grosse"), ("идентификатор", "value"), ("señal", "senal"),
     ("番号id", "id"), ("המספר", "value")],
)  # fmt: skip
def test_an_argument_keeps_a_name_that_has_no_latin_letters(name: str, argument: str) -> None:
    for more, description in (({}, name), ({"description": "The number"}, f"{name}: The number")):
        for schema in ({"type": "string"}, True, {"$ref": "#/components/schemas/A"}):
            document = {
                "openapi": "3.1.0",
                "paths": {"/x": {"get": {"parameters": [query(name, schema, **more)]}}},
                "components": {"schemas": {"A": {"type": "string"}}},
            }
            (one,), _ = operations_of(document)
            assert one.schema["properties"][argument]["description"] == description
            assert one.parameters[0].name == name, "as sent"


def test_a_plain_name_stays_without_words() -> None:
    (one,), _ = read("/x", query("$filter"), query("ids[]"))
    assert one.schema["properties"] == {"filter": {}, "ids": {}}


@pytest.mark.parametrize(
    ("id", "name"), [("Übersicht", "Ubersicht"), ("listaDeAños", "listaDeAnos"), ("获取用户", "get_x")]
)
def test_an_operation_has_a_name_in_latin_letters(id: str, name: str) -> None:
    (one,), _ = read("/x", operationId=id)
    assert (one.name, one.operation_id) == (name, id)


@all_rows("path", ["/tugs/:id", "/tugs/<id>", "/tugs/<int:id>/crew", "/tugs/[id]", "/tugs/{id", "/:id", "/tugs/{{id}}"])
@all_rows("named", [True, False])
def test_a_path_that_cannot_be_filled_is_listed_with_the_reason(path: str, named: bool) -> None:
    row = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    operations, (bad,) = read(path, *([row] if named else []))
    assert operations == []
    assert "cannot be filled: OpenAPI writes a parameter as {name}" in bad.reason


@pytest.mark.parametrize("path", ["/v1/tugs:search", "/v1/tugs/x:cancel", "/tugs/$metadata", "/a:b/c", "/tugs('x')"])
def test_other_signs_of_a_path_are_letters_of_the_path(path: str) -> None:
    assert [one.path for one in read(path)[0]] == [path]


def test_a_custom_method_behind_a_parameter_is_a_part_of_the_path() -> None:
    row = {"name": "name", "in": "path", "required": True}
    assert len(read("/v1/{name}:cancel", row)[0]) == 1


@pytest.mark.parametrize(
    "url", ["https://a.example/v3 ", " https://a.example/v3", "https://a.example/v3#top", "https://a.example/v3\t\n# x"]
)
def test_the_address_of_a_server_has_neither_blanks_nor_a_fragment(url: str) -> None:
    (one,), _ = read("/x", servers=[{"url": url}])
    assert one.server.strip() == "https://a.example/v3"


def test_the_parts_of_an_older_address_have_no_blanks() -> None:
    from proxy.apis.openapi.swagger import upgraded

    made = upgraded({"swagger": "2.0", "host": "a.example ", "basePath": "/v3 ", "paths": {}})
    assert made["servers"] == [{"url": "https://a.example/v3"}]


def many(number: int, words: int, *, required: bool = False) -> list[dict[str, Any]]:
    return [
        query(f"parameter{one}", {"type": "string"}, description="w" * words, required=required)
        for one in range(number)
    ]


@all_rows("words", [0, 30, 300, 3_000])
@all_rows("number", [3, 60, 300, 2_000])
def test_a_tool_has_a_bound_in_bytes(number: int, words: int) -> None:
    (one,), _ = read("/x", *many(number, words), query("needed", {"enum": ["a"]}, required=True))
    schema = one.schema
    assert len(orjson.dumps(schema)) <= MOST_BYTES
    assert schema["required"] == ["needed"]
    assert {parameter.argument for parameter in one.parameters} == schema["properties"].keys()
    if number <= 300:
        assert len(schema["properties"]) == number + 1, "descriptions go first"


def test_an_operation_whose_required_arguments_are_too_large_is_listed_with_the_reason() -> None:
    operations, (bad,) = read("/x", *many(2_000, 0, required=True))
    assert operations == []
    assert "the required arguments take more than 16,000 bytes" in bad.reason


@given(st.dictionaries(st.text(max_size=5), st.dictionaries(st.text(max_size=3), st.text(max_size=40)), max_size=8))
def test_a_smaller_schema_has_the_required_arguments_and_no_unused_definitions(properties: Any) -> None:
    required = [name for name in properties if len(name) % 2]
    schema = {
        "type": "object",
        "properties": {**properties, "ref": {"$ref": "#/$defs/A"}},
        "required": required,
        "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"description": "w" * 100}, "C": {}},
    }
    for most in (150, 250, 400):
        made = fitted(schema, most)
        if made is None or made == schema:
            continue
        assert len(orjson.dumps(made)) <= most
        assert set(required) <= made["properties"].keys()
        if "ref" in made["properties"]:
            assert {"A", "B"} <= made["$defs"].keys()


EMPTY = {"application/x-www-form-urlencoded": {"schema": {"properties": {}, "type": "object"}, "encoding": {}}}


@pytest.mark.parametrize(
    ("method", "content", "required", "kept"),
    [
        ("get", EMPTY, False, False),
        ("post", EMPTY, False, False),
        ("post", EMPTY, True, True),
        ("get", {"application/json": {"schema": {"type": "object"}}}, False, False),
        ("post", {"application/json": {"schema": {"type": "object"}}}, False, True),
        ("post", {"application/json": {"schema": {}}}, False, True),
        ("post", {"application/json": {"schema": {"properties": {}, "additionalProperties": {}}}}, False, False),
        ("post", {"application/json": {"schema": {"properties": {}, "additionalProperties": True}}}, False, True),
        ("get", {"application/json": {"schema": {"properties": {"a": {}}}}}, False, True),
    ],
)
def test_an_optional_body_without_members_is_left_out(method: str, content: Any, required: bool, kept: bool) -> None:
    (one,), _ = read("/x", method=method, requestBody={"content": content, "required": required})
    assert (one.body is not None) == kept
    assert ("body" in one.schema["properties"]) == kept


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"anyOf": [{"type": "number"}, {"type": "null"}], "title": "Max Price"}, "(number)"),
        ({"oneOf": [{"type": "null"}, {"type": "string"}]}, "(string)"),
        ({"type": ["integer", "null"]}, "(integer)"),
        ({"anyOf": [{"enum": ["a", "b"]}, {"type": "null"}]}, '(one of "a", "b")'),
        ({"type": "string", "enum": ["a", None]}, '(one of "a")'),
        ({"type": ["integer", "string"]}, '(as the JSON Schema {"type":["integer","string"]})'),
    ],
)
def test_a_type_is_listed_without_null(schema: Any, kind: str) -> None:
    (one,), _ = read("/x", query("a", schema))
    tool = OperationTool(one, Api("atlas", "https://x.example"))
    assert f"  a {kind}" in _listed({"name": "x", "description": "", "parameters": one.schema}, tool)
