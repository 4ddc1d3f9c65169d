"""Schemas that providers refuse: mended, so that one slip in a document costs no chat the tools."""

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.apis.openapi.operations import operations_of
from tests.support.rows import all_rows

LIST = {"type": "array", "items": {}}


def read(schema: Any, **schemas: Any) -> Any:
    """The schema of the arguments of an operation with one parameter `a`, whose schema is valid."""
    row = {"name": "a", "in": "query", "schema": schema}
    document = {"openapi": "3.1.0", "paths": {"/x": {"get": {"parameters": [row]}}}, "components": {"schemas": schemas}}
    (operation,), _ = operations_of(document)
    jsonschema.Draft202012Validator.check_schema(
        operation.schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )
    return operation.schema


@all_rows(
    ("given", "made"),
    [
        ({"type": "array"}, LIST),
        ({"type": ["array", "null"]}, {**LIST, "type": ["array", "null"]}),
        ({"type": "array", "items": [{"type": "string"}]}, LIST),
        ({"type": "array", "items": True}, LIST),
        ({"type": "array", "items": None}, LIST),
        ({"type": "list"}, LIST),
        ({"type": "any"}, {}),
        ({"type": None}, {}),
        ({"type": {}}, {}),
        ({"type": ["any", "string"]}, {}),
        ({"type": []}, {}),
        ({"type": "Date"}, {"type": "string"}),
        ({"type": "int"}, {"type": "integer"}),
        ({"type": "Float"}, {"type": "number"}),
        ({"type": "BOOL"}, {"type": "boolean"}),
        ({"type": "dict"}, {"type": "object"}),
        ({"type": ["str", "string", "null"]}, {"type": ["string", "null"]}),
        ({"type": "string", "enum": []}, {"type": "string"}),
        ({"type": "string", "enum": ["a", "a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
        ({"enum": "a,b"}, {}),
        ({"type": "integer", "minimum": "1", "maximum": "9.0"}, {"type": "integer", "minimum": 1, "maximum": 9}),
        ({"minimum": "none", "maximum": None, "multipleOf": 0}, {}),
        ({"minimum": True, "exclusiveMaximum": "x"}, {}),
        ({"minLength": -1, "maxLength": "5", "maxItems": 2.0, "minItems": 1.5}, {"maxLength": 5, "maxItems": 2}),
        ({"pattern": r"^\p{L}+$"}, {}),
        ({"pattern": "^[[a-z]+$"}, {}),  # Python warns of it: `[[` may get another meaning
        ({"pattern": ["a"], "format": 5, "title": {}}, {}),
        ({"uniqueItems": "true", "deprecated": "no"}, {"uniqueItems": True}),
        ({"examples": {"a": 1}}, {}),
        ({"anyOf": [], "allOf": {}, "oneOf": "x"}, {"allOf": [{}]}),
        ({"required": ["b", "b", "c"], "properties": {"b": {}}}, {"required": ["b"], "properties": {"b": {}}}),
        ({"properties": {"b": True, "c": False, "d": None}}, {"properties": {"b": {}, "d": {}}}),
        ({"properties": ["b"]}, {"properties": {}}),
        ({"dependencies": {"a": {"$ref": "#/components/schemas/gone"}}, "unknown": {"$ref": "#/x"}}, {}),
        ({"patternProperties": {"(": {}, "^a": {}}}, {"patternProperties": {"^a": {}}}),
    ],
)  # fmt: skip
def test_a_keyword_gets_the_value_that_was_meant_or_goes(given: Any, made: Any) -> None:
    assert read(given)["properties"]["a"] == made


def refer(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


@pytest.mark.parametrize(
    "schemas",
    [
        {"A": refer("A")},
        {"A": refer("B"), "B": refer("A")},
        {"A": {"allOf": [refer("B"), {"type": "object"}]}, "B": {"allOf": [refer("A")]}},
        {"A": {"oneOf": [refer("B"), refer("C")]}, "B": {"allOf": [refer("A")]}, "C": {"allOf": [refer("A")]}},
        {"A": {"properties": {"x": refer("B")}, "allOf": [refer("B")]}, "B": {"allOf": [refer("A")]}},
        {"A": {"not": refer("A")}},
    ],
)
def test_a_circle_of_references_that_ends_at_no_value_is_opened(schemas: Any) -> None:
    jsonschema.Draft202012Validator(read(refer("A"), **schemas)).is_valid({"a": {"x": {}}})  # no endless recursion


def test_a_circle_through_properties_stays() -> None:
    tree = {"type": "object", "properties": {"children": {"type": "array", "items": refer("Tree")}}}
    validator = jsonschema.Draft202012Validator(read(refer("Tree"), Tree=tree))
    assert validator.is_valid({"a": {"children": [{"children": []}]}})
    assert not validator.is_valid({"a": {"children": [{"children": 5}]}})


NAMES = [
    "type", "enum", "items", "properties", "required", "minimum", "exclusiveMinimum", "maxLength", "multipleOf",
    "pattern", "format", "anyOf", "allOf", "oneOf", "not", "additionalProperties", "$ref", "nullable", "description",
    "default",
    "uniqueItems", "patternProperties", "prefixItems", "examples", "dependentRequired", "title", "const", "if",
]  # fmt: skip
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.floats(-2, 2),
    st.sampled_from(["", "array", "list", "any", "Date", "int", "5", "(", "a", "#/components/schemas/A"]),
)  # fmt: skip
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*NAMES, "a"]), inner, max_size=4),
)


@given(SCHEMAS, SCHEMAS)
def test_every_schema_becomes_a_valid_schema_or_costs_its_operation(schema: Any, other: Any) -> None:
    row = {"name": "a", "in": "query", "schema": schema}
    for version in ("3.0.3", "3.1.0"):
        document = {
            "openapi": version,
            "paths": {"/x": {"get": {"parameters": [row]}}, "/y": {"get": {}}},
            "components": {"schemas": {"A": other}},
        }
        operations, uncallable = operations_of(document)
        assert len(operations) + len(uncallable) == 2
        for one in operations:
            jsonschema.Draft202012Validator.check_schema(one.schema)


def test_a_schema_that_is_false_is_an_object() -> None:
    assert read({"type": "array", "items": False})["properties"]["a"] == LIST
    assert read(False)["properties"]["a"] == {}


def test_values_of_another_type_become_values_of_the_type() -> None:
    made = read({"type": "string", "enum": [1, "a", None, True]})["properties"]["a"]
    assert made == {"type": "string", "enum": ["1", "a", "true"]}
