"""The OpenAPI document is fit for generators of clients."""

from collections.abc import Iterator
from typing import Any

import pytest

from proxy.api.knowledge.description import whole_document


def schemas(node: Any, inside: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of the document with its place, but for maps from names to schemas."""
    if isinstance(node, dict):
        if not inside.endswith(("/properties", "/schemas", "/responses", "/parameters")):
            yield inside, node
        for key, value in node.items():
            yield from schemas(value, f"{inside}/{key}")
    elif isinstance(node, list):
        for place, value in enumerate(node):
            yield from schemas(value, f"{inside}/{place}")


NULL = {"type": "null"}
SCHEMAS = dict(schemas(whole_document()))


def test_the_walk_finds_schemas() -> None:
    assert sum("type" in schema for schema in SCHEMAS.values()) > 300
    assert "/components/schemas/Passage/properties/type" not in SCHEMAS


def test_a_schema_has_one_type() -> None:
    assert [place for place, schema in SCHEMAS.items() if isinstance(schema.get("type"), list)] == []


def test_enums_and_constants_have_a_type_and_no_null() -> None:
    chosen = {place: schema for place, schema in SCHEMAS.items() if "enum" in schema or "const" in schema}
    assert len(chosen) > 30
    assert [place for place, schema in chosen.items() if "type" not in schema or None in schema.get("enum", ())] == []


def test_numbers_have_a_format() -> None:
    numbers = {place: schema for place, schema in SCHEMAS.items() if schema.get("type") in ("integer", "number")}
    assert len(numbers) > 50
    assert [place for place, schema in numbers.items() if "format" not in schema] == []


def test_names_differ_by_more_than_case_or_section() -> None:
    document = whole_document()
    names = [name.lower() for section in document["components"].values() for name in section]
    names += [
        operation["operationId"].lower()
        for item in document["paths"].values()
        for method, operation in item.items()
        if method != "parameters"
    ]
    assert sorted(name for name in set(names) if names.count(name) > 1) == []


@pytest.mark.parametrize(
    ("schema", "keywords"),
    [
        ("SearchRequest", {"k": {"format": "int64", "type": "integer", "minimum": 1, "maximum": 100}}),
        (
            "SearchRequest",
            {"mode": {"anyOf": [{"type": "string", "enum": ["hybrid", "dense", "bm25"]}, {"type": "null"}]}},
        ),
        ("Found", {"relevance": {"anyOf": [{"format": "double", "type": "number"}, NULL]}}),
        ("Found", {"object": {"type": "string", "const": "knowledge.search"}}),
    ],
)
def test_short_forms_are_written_out(schema: str, keywords: dict[str, dict[str, Any]]) -> None:
    properties = whole_document()["components"]["schemas"][schema]["properties"]
    for name, expected in keywords.items():
        assert {key: value for key, value in properties[name].items() if key != "description"} == expected
