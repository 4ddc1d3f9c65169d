"""The OpenAPI document is fit for generators of clients. `tests/wire/test_generated_clients.py` runs generators."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any, get_args

import pytest

from proxy.api.knowledge.description import whole_document
from proxy.exchange import CallOutcome, FoundOperation, FoundOutcome, OfferResult, OperationSearch

Schema = dict[str, Any]


def schemas(node: Any, inside: str = "") -> Iterator[tuple[str, Schema]]:
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
DOCUMENT = whole_document()
SCHEMAS = dict(schemas(DOCUMENT))
COMPONENTS: dict[str, Schema] = DOCUMENT["components"]["schemas"]
OPERATIONS = [
    (item, operation)
    for item in DOCUMENT["paths"].values()
    for method, operation in item.items()
    if method != "parameters"
]
# Types of the languages: a generator renames a schema of the same name, or hides the type.
TAKEN = frozenset("Array Boolean Class Date Double Enum Error File Float Function Integer List Long Map Module Number "
                  "Object Option Record Response Result Request Set String Type Uri Vec Void".split())  # fmt: skip


def types(schema: Schema) -> list[str]:
    """The types of a schema without null."""
    kind = schema.get("type", [])
    return [one for one in ([kind] if isinstance(kind, str) else kind) if one != "null"]


def resolved(schema: Schema) -> Schema:
    return COMPONENTS[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def alternatives(schema: Schema) -> list[Schema]:
    """The alternatives of a union without null."""
    return [one for one in [*schema.get("anyOf", ()), *schema.get("oneOf", ())] if one != NULL]


def distinct(objects: list[Schema]) -> bool:
    """Whether each object requires a property that no other object has."""
    return len(objects) < 2 or all(
        set(one["required"]).difference(*(set(other["properties"]) for other in objects if other is not one))
        for one in objects
    )


# What a schema must not be -> whether a schema is.
BROKEN: Mapping[str, Callable[[Schema], bool]] = {
    # oapi-codegen ends with an error; a type or null passes.
    "of several types": lambda schema: len(types(schema)) > 1,
    # OpenAPI Generator takes each `{"type": "string"}` of the document for the nullable string.
    "a type or null as a union": lambda schema: NULL in schema.get("anyOf", ()) and "type" in schema["anyOf"][0],
    # OpenAPI Generator writes no Python.
    "null alone": lambda schema: schema.get("type") == "null",
    # oapi-codegen makes `interface{}` of an enum without a type; OpenAPI Generator compares true with 'true'.
    "a choice of other values than texts": lambda schema: (
        any(
            not isinstance(one, str) and (one is not None or "null" not in schema["type"])
            for one in [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())]
        )
        or (("enum" in schema or "const" in schema) and types(schema) != ["string"])
    ),
    # oapi-codegen makes float32 of a number: a time put and read back is 62 s off.
    "a number without a format": lambda schema: types(schema) in (["integer"], ["number"]) and "format" not in schema,
    # OpenAPI Generator names the alternative by its type, as `List<String>`: the Go does not compile.
    "a union of an array or object without a name": lambda schema: (
        len(alternatives(schema)) > 1 and any(one.get("type") in ("array", "object") for one in alternatives(schema))
    ),
    # OpenAPI Generator's TypeScript finds the alternative by its required properties.
    "a union of objects that look alike": lambda schema: (
        not distinct([one for one in map(resolved, alternatives(schema)) if one.get("type") == "object"])
    ),
    # oapi-codegen writes one value of the mapping over the others.
    "a union by a discriminator": lambda schema: "discriminator" in schema,
    # openapi-python-client leaves out what stands beside `allOf` with a single schema.
    "allOf with properties beside it": lambda schema: (
        "allOf" in schema and (len(schema["allOf"]) < 2 or not set(schema) <= {"allOf", "description"})
    ),
    # OpenAPI Generator's Go counts the files by a pointer to them, and does not compile.
    "a bounded list of files": lambda schema: (
        schema.get("items", {}).get("format") == "binary" and not schema.keys().isdisjoint(("minItems", "maxItems"))
    ),
}


def test_the_walk_finds_schemas() -> None:
    assert sum("type" in schema for schema in SCHEMAS.values()) > 300
    assert "/components/schemas/Passage/properties/type" not in SCHEMAS


@pytest.mark.parametrize("what", BROKEN)
def test_no_schema_is(what: str) -> None:
    found = [place for place, schema in SCHEMAS.items() if BROKEN[what](schema)]
    assert [place for place in found if SCHEMAS[place] != NULL or "/anyOf/" not in place] == []


@pytest.mark.parametrize(
    ("what", "schema"),
    [
        ("of several types", {"type": ["string", "number"]}),
        ("a type or null as a union", {"anyOf": [{"type": "string"}, NULL]}),
        ("null alone", NULL),
        ("a choice of other values than texts", {"const": True, "type": "boolean"}),
        ("a choice of other values than texts", {"enum": ["a"]}),
        ("a number without a format", {"type": ["number", "null"]}),
        ("a union of an array or object without a name", {"oneOf": [{"type": "string"}, {"type": "array"}]}),
        ("a union of objects that look alike", {"oneOf": [COMPONENTS["TextPart"], COMPONENTS["GivenDocument"]]}),
        ("a union by a discriminator", {"discriminator": {}}),
        ("allOf with properties beside it", {"allOf": [{}], "properties": {}}),
        ("a bounded list of files", {"type": "array", "minItems": 1, "items": {"format": "binary"}}),
    ],
)  # fmt: skip
def test_the_rule_finds_a_schema_that_is(what: str, schema: Schema) -> None:
    assert BROKEN[what](schema)


def test_names_differ_by_more_than_case_or_section() -> None:
    names = [name.lower() for section in DOCUMENT["components"].values() for name in section]
    names += [operation["operationId"].lower() for _, operation in OPERATIONS]
    names += [f"new{name}" for name in names]  # Go's function that makes a value
    assert sorted(name for name in set(names) if names.count(name) > 1) == []


def test_no_schema_has_the_name_of_a_languages_own_type() -> None:
    assert TAKEN.isdisjoint(COMPONENTS)


def test_a_reply_has_a_named_schema() -> None:
    """Else generators name the schema InlineObject2."""
    replies = [response for _, operation in OPERATIONS for response in operation["responses"].values()]
    replies += DOCUMENT["components"]["responses"].values()
    contents = [content for reply in replies for content in reply.get("content", {}).values()]
    assert len(contents) > 30
    assert [one["schema"] for one in contents if "properties" in one.get("schema", {})] == []


def test_a_schema_that_others_extend_has_no_inner_object_without_a_name() -> None:
    """openapi-python-client reads the schema twice, and refuses two classes of the same name."""
    bases = {
        part["$ref"].rpartition("/")[2]
        for one in COMPONENTS.values()
        for part in one.get("allOf", ())
        if "$ref" in part
    }
    inner = {f"{base}.{name}": one for base in bases for name, one in COMPONENTS[base]["properties"].items()}
    assert len(inner) > 20
    assert [name for name, one in inner.items() if "object" in types(one)] == []


def test_a_parameter_and_a_field_of_the_form_have_different_names() -> None:
    """Else generators make `background2`."""
    for item, operation in OPERATIONS:
        given = [one.get("name", "name") for one in [*item.get("parameters", ()), *operation.get("parameters", ())]]
        form = operation.get("requestBody", {}).get("content", {}).get("multipart/form-data", {}).get("schema", {})
        assert set(given).isdisjoint(form.get("properties", ()))


@pytest.mark.parametrize(
    ("schema", "keywords"),
    [
        ("SearchRequest", {"k": {"format": "int64", "type": "integer", "minimum": 1, "maximum": 100}}),
        ("SearchRequest", {"mode": {"type": ["string", "null"], "enum": ["hybrid", "dense", "bm25", None]}}),
        ("Found", {"relevance": {"format": "double", "type": ["number", "null"]}}),
        ("Found", {"object": {"type": "string", "const": "knowledge.search"}}),
    ],
)
def test_short_forms_are_written_out(schema: str, keywords: dict[str, Schema]) -> None:
    properties = COMPONENTS[schema]["properties"]
    for name, expected in keywords.items():
        assert {key: value for key, value in properties[name].items() if key != "description"} == expected


def test_a_receipt_may_have_each_word_of_a_trace() -> None:
    actions = COMPONENTS["Receipt"]["properties"]["actions"]["properties"]
    found = actions["searches"]["items"]["properties"]["found"]["items"]["properties"]
    call = actions["calls"]["items"]["properties"]
    assert set(actions["offer"]["enum"]) == {"", *get_args(OfferResult)}
    assert set(found["outcome"]["enum"]) == set(get_args(FoundOutcome))
    assert set(call["outcome"]["enum"]) == set(get_args(CallOutcome))
    assert actions["searches"]["items"]["properties"].keys() == {one.name for one in fields(OperationSearch)}
    assert found.keys() == {one.name for one in fields(FoundOperation)}
