"""Arguments of a model's call: by the schema, and by where the values come from."""

import time
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from proxy.agent.grounding.arguments import TooManyValues, ungrounded
from proxy.apis.call import Api
from proxy.apis.openapi.operation import Operation, Parameter
from proxy.apis.schema_check import problems, turned
from tests.support.rows import all_rows

# --- by the schema ---------------------------------------------------------------------------------------------------

USERS = {
    "type": "object",
    "properties": {
        "groupId": {"type": "string", "description": "Unique 24-hexadecimal digit\n string of your project."},
        "limit": {"type": "integer", "minimum": 1, "maximum": 500},
        "state": {"enum": ["ACTIVE", "PENDING"]},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        "filter": {"$ref": "#/$defs/Filter"},
    },
    "required": ["groupId"],
    "additionalProperties": False,
    "$defs": {
        "Filter": {
            "type": "object",
            "properties": {"name": {"type": "string", "minLength": 2}, "either": {"$ref": "#/$defs/Filter"}},
            "required": ["name"],
        }
    },
}


@all_rows(
    ("arguments", "expected"),
    [
        ({}, ["groupId is missing (Unique 24-hexadecimal digit string of your project.)"]),
        ({"groupId": 5}, ["groupId must be a text, not 5"]),
        ({"groupId": "a", "limit": "10"}, ['limit must be a whole number, not "10"']),
        ({"groupId": "a", "limit": 0}, ["limit must be at least 1, not 0"]),
        ({"groupId": "a", "limit": True}, ["limit must be a whole number, not true"]),
        ({"groupId": "a", "state": "active"}, ['state must be one of "ACTIVE", "PENDING", not "active"']),
        ({"groupId": "a", "tags": "x"}, ['tags must be a list, not "x"']),
        ({"groupId": "a", "tags": ["x", 1]}, ["tags.1 must be a text, not 1"]),
        ({"groupId": "a", "tags": ["x", "y", "z"]}, ['tags must be a list of at most 2 elements, not ["x","y","z"]']),
        ({"groupId": "a", "groupid": "a"}, ["groupid is unknown (did you mean groupId?)"]),
        ({"groupId": "a", "zzz": 1}, ["zzz is unknown (known: groupId, limit, state, tags, filter)"]),
        ({"groupId": "a", "filter": {"either": {"name": "x"}}}, [
            "filter.name is missing", "filter.either.name must be a text of at least 2 characters, not \"x\"",
        ]),
        ([], ["the arguments must be an object, not []"]),
        ({"groupId": "a", "limit": 500.0, "state": "ACTIVE", "tags": [], "filter": {"name": "ab"}}, []),
    ],
)  # fmt: skip
def test_a_problem_says_what_is_wrong_and_what_is_expected(arguments: Any, expected: list[str]) -> None:
    assert problems(USERS, arguments) == expected


CIRCLE = {
    "type": "object",
    "properties": {"pet": {"$ref": "#/$defs/Pet"}},
    "$defs": {
        "Pet": {"type": "object", "required": ["name"], "oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]},
        "Cat": {"allOf": [{"$ref": "#/$defs/Pet"}, {"properties": {"lives": {"type": "integer"}}}]},
        "Dog": {"allOf": [{"$ref": "#/$defs/Pet"}, {"properties": {"lives": {"enum": [1]}}}]},
    },
}


@pytest.mark.parametrize(
    ("pet", "expected"),
    [
        ({"name": "Tom", "lives": 9}, []),
        ({"lives": 9}, ["pet.name is missing"]),
        ({"name": "Tom", "lives": "9"}, ['pet.lives must be a whole number, not "9"']),
    ],
)
def test_a_schema_that_contains_the_schema_itself_is_checked_once(pet: Any, expected: list[str]) -> None:
    assert problems(CIRCLE, {"pet": pet}) == expected


def test_the_problems_of_alternatives_are_by_the_nearest_schema() -> None:
    cat = {"type": "object", "properties": {"lives": {"type": "integer"}}, "required": ["lives"]}
    schema = {"oneOf": [{"type": "string"}, {"allOf": [cat, {"required": ["lives", "name"]}]}]}
    assert problems(schema, {"lives": 9, "name": "Tom"}) == []
    assert problems(schema, {"lives": 9}) in (['the arguments must be a text, not {"lives":9}'], ["name is missing"])


TURNED: list[tuple[Any, Any, Any]] = [
    ({"type": "integer"}, "17", 17),
    ({"type": "integer"}, "-3", -3),
    ({"type": "integer", "maximum": 9}, "17", "17"),
    ({"type": "number"}, "4.5", 4.5),
    ({"type": "boolean"}, "true", True),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "17", 17),
    ({"$ref": "#/$defs/n"}, "17", 17),
    ({"type": ["string", "integer"]}, "17", "17"),
    ({"type": "string"}, "17", "17"),
    ({"type": "string"}, 17, 17),
    ({"type": "integer"}, "017", "017"),
    ({"type": "integer"}, "4.5", "4.5"),
    ({"type": "integer"}, "seventeen", "seventeen"),
    ({"type": "boolean"}, "yes", "yes"),
    ({"type": "array", "items": {"type": "string"}}, "x", ["x"]),
    ({"type": "array", "items": {"type": "integer"}}, "5", [5]),
    ({"type": "array", "items": {"type": "integer"}}, ["5", 6], [5, 6]),
    ({"type": "array", "items": {"type": "string"}}, "x,y", "x,y"),
    ({"type": "array", "items": {"enum": ["a", "b"]}}, "a", ["a"]),
    ({"type": "array", "items": {"enum": ["a", "b"]}}, "c", "c"),
    ({"type": "object", "properties": {"n": {"type": "integer"}}}, {"n": "5"}, {"n": 5}),
    ({}, "17", "17"),
]


@all_rows(("schema", "value", "made"), TURNED)
def test_a_value_of_the_wrong_type_is_turned_where_it_means_one_value(schema: Any, value: Any, made: Any) -> None:
    whole = {
        "type": "object",
        "properties": {"v": schema, "w": {"type": "integer"}},
        "$defs": {"n": {"type": "integer"}},
    }
    result = turned(whole, {"v": value, "w": None})
    assert result == {"v": made}
    assert type(result["v"]) is type(made)
    assert turned({**whole, "required": ["w"]}, {"v": value, "w": None}) == {"v": made, "w": None}


@pytest.mark.parametrize("part", ["x", "a", "1,", "ab12", "["])
def test_a_long_value_is_no_pattern_and_is_shown_short(part: str) -> None:
    value = part * 500_000
    schema = {"type": "object", "properties": {"id": {"type": "string", "description": "an id"}}}
    found = ungrounded(Operation("x", "GET", "/", schema), schema, {"id": value}, ["hello", value[:-9]])
    assert all(len(text) < 200 for text in found)


def test_at_most_five_problems_are_named() -> None:
    required = [f"p{number}" for number in range(50)]
    assert len(problems({"required": required}, {})) == 5


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from([0.5, 1.0, 1e300])
    | st.sampled_from(["", "a", "ab", "abc"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)
KINDS = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"])


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas of the words that are checked as JSON Schema says; `anyOf` for `oneOf`."""
    return st.fixed_dictionaries(
        {},
        optional={
            "type": KINDS | st.lists(KINDS, min_size=1, max_size=3, unique=True),
            "enum": st.lists(JSON_VALUES, min_size=1, max_size=3),
            "const": JSON_VALUES,
            "minimum": st.integers(-3, 3),
            "exclusiveMaximum": st.integers(-3, 3),
            "minLength": st.integers(0, 3),
            "maxItems": st.integers(0, 3),
            "minProperties": st.integers(0, 3),
            "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            "additionalProperties": st.booleans() | inner,
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "$ref": st.just("#/$defs/D"),
        },
    )


SCHEMAS = st.recursive(st.booleans() | schemas(st.just(True)), schemas, max_leaves=8)


def without_references(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: without_references(one) for name, one in schema.items() if name != "$ref"}
    return [without_references(one) for one in schema] if isinstance(schema, list) else schema


@given(JSON_VALUES)
def test_no_value_that_a_schema_takes_is_turned(value: Any) -> None:
    assert turned({"type": "object", "properties": {"a": {}}}, {"a": value, "b": value}) == {"a": value, "b": value}
    assert turned(CIRCLE, value) is not ...


@given(schema=schemas(SCHEMAS), definition=SCHEMAS, value=JSON_VALUES)
def test_a_value_has_problems_exactly_where_json_schema_says(schema: Any, definition: Any, value: Any) -> None:
    whole = {**schema, "$defs": {"D": without_references(definition)}}
    assert (problems(whole, value) == []) == Draft202012Validator(whole).is_valid(value)


WORDS = st.sampled_from(
    "type enum const minimum required properties additionalProperties items allOf anyOf oneOf $ref $defs pattern "
    "patternProperties format default description not if then prefixItems maxLength".split()
)
ODD = st.recursive(
    JSON_VALUES | KINDS | st.sampled_from(["#/$defs/a", "#/$defs/%zz", "(a+)+$", "uuid", "http://x/y#"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.sampled_from("abc"), inner, max_size=5),
    max_leaves=25,
)


@given(schema=st.dictionaries(WORDS, ODD, max_size=6), value=JSON_VALUES)
def test_no_schema_and_no_value_raises(schema: Any, value: Any) -> None:
    problems(schema, value)
    offered = {"properties": {}, **schema}
    ungrounded(Operation("x", "GET", "/", offered), offered, value if isinstance(value, dict) else {"a": value}, ["a"])


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/D", "$defs": {"D": {"$ref": "#/$defs/D"}}},
        {"$ref": "#/$defs/D", "$defs": {"D": {"anyOf": [{"$ref": "#/$defs/D"}, {"$ref": "#/$defs/D"}]}}},
        {
            "$ref": "#/$defs/D",
            "$defs": {
                "D": {"properties": {"a": {"anyOf": [{"$ref": "#/$defs/D"}, {"type": "null"}, {"$ref": "#/$defs/D"}]}}}
            },
        },
        {"pattern": "^(a+)+$", "patternProperties": {"^(a+)+$": {}}, "properties": {"a": {"pattern": "(a|a)*b"}}},
    ],
)
def test_a_hostile_schema_ends(schema: dict[str, Any]) -> None:
    deep: Any = "a" * 5000
    for _ in range(500):
        deep = {"a": deep}
    for value in (deep, {"a": ["a" * 100_000] * 100}, {"a" * 5000 + "!": 1}):
        problems({"type": "object", **schema}, value)


STRICT = {"type": "object", "properties": {f"name{n}": {} for n in range(200)}, "additionalProperties": False}
UNKNOWN = {f"nome{n}": n for n in range(2000)}
ENUM = {"enum": [f"value{n}" for n in range(5000)]}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (STRICT, UNKNOWN),
        ({"items": STRICT}, [{name: 1} for name in UNKNOWN]),
        ({"anyOf": [STRICT] * 500}, UNKNOWN),
        ({"items": ENUM}, ["other"] * 2000),
        ({"items": ENUM}, ["value4999"] * 5000),
        ({"anyOf": [ENUM] * 5000}, "other"),
    ],
)
def test_a_check_of_many_names_or_listed_values_ends_soon(schema: dict[str, Any], value: Any) -> None:
    began_s = time.process_time()
    assert 0 < len(problems(schema, value)) <= 5
    assert time.process_time() - began_s < 0.5


def test_the_fixed_arguments_are_not_offered() -> None:
    api = Api("things", "https://x.example", fixed={"groupId": "secret", "other": "x"})
    offered = api.schema_of(Operation("x", "GET", "/", USERS))
    assert "groupId" not in offered["properties"]
    assert offered["required"] == []
    assert "secret" not in orjson.dumps(offered).decode()


# --- by where the values come from -----------------------------------------------------------------------------------


def invented_in(arguments: dict[str, Any], *known: str, path: tuple[str, ...] = (), **schemas: Any) -> list[str]:
    """The names of the arguments with an ungrounded value."""
    schema = {"type": "object", "properties": schemas, "required": []}
    parameters = tuple(Parameter(name, name, "path", "simple", explode=False) for name in path)
    found = ungrounded(Operation("x", "GET", "/", schema, parameters=parameters), schema, arguments, known)
    return [text.partition(":")[0] for text in found]


@all_rows(
    "value",
    [
        *"your_organization_id YOUR_ORG_ID yourOrganizationId your-org <id> {orgId} ${ORG_ID} [ORG_ID] string".split(),
        *"example example_id 12345 123456789 xxx xxxxxxxx ... … unknown null N/A TBD id orgId org_id some_id".split(),
        *"abc123 placeholder 1 org-123 5f0c1e2d3b4a5f6e7d8c9b0a 00000000-0000-0000-0000-000000000000".split(),
        *("insert_id_here", "default", "<your organization id>", "the organization"),
    ],
)
def test_an_identifier_that_stands_nowhere_is_invented(value: str) -> None:
    assert invented_in({"orgId": value}, "Who are the users in my organization?") == ["orgId"]
    assert invented_in({"organization": value}, "Who are the users?", path=("organization",)) == ["organization"]


@pytest.mark.parametrize(
    "value", ["your_city", "your_X-City", "<city>", "{city}", "string", "...", "YOUR_NAME_HERE", "$CITY"]
)
def test_a_placeholder_is_invented_in_an_argument_of_any_name(value: str) -> None:
    assert invented_in({"q": value, "body": {"title": [value]}}, "What is the weather?") == ["q", "body.title"]


@all_rows(
    ("value", "text"),
    [
        ("5f0c1e", "The organization is 5f0c1e."),
        ("5F0C1E", "organization 5f0c1e"),
        (42, "organization 42, please"),
        ("42", "organization 42"),
        ("ann@example.com", "Write to Ann@Example.com!"),
        ("acme-corp", "the users of Acme Corp"),
        ("A1,B2", "compare A1 and B2"),
        ("A1,", "A1"),
        ("Zürich", "in zürich"),
        ("订单A123", "查询订单A123的状态"),
        ("123456", "order 123456"),
        ("your_dataset_name", "the table your_dataset_name"),
        ("a/b", '{"full_name": "a/b"}'),
        ("LH123", "Is LH 123 on time?"),
        ("A-1047", "order A 1047"),
        ("INV88", "the invoice INV-88"),
        ("9783161484100", "the book 978-3-16-148410-0"),
        ("978-3-16-148410-0", "the book 9783161484100"),
        ("+4791234567", "the orders of +47 912 34 567"),
        ("São Paulo", "in Sao Paulo"),
        ("Zurich", "prévisions pour Zürich"),
        ("Tromso", "in Tromsø"),
        ("https://example.com/a", "Is example.com/a up?"),
        ("https://example.com", "Is www.example.com up?"),
    ],
)
def test_an_identifier_that_stands_in_a_text_is_not_invented(value: Any, text: str) -> None:
    assert invented_in({"orgId": value}, "Hello", text) == []


@all_rows(
    ("value", "text"),
    [
        *[("5", "in 2015"), (1, "10 users"), ("ann", "anna"), ("A1,B2", "only A1"), ("5f", "5f0c1e"), ("", "")],
        *[("--", ""), ("1234", "1, 2, 3, 4"), ("ann", "a n n"), ("LH123", "LH 1234"), ("LH123", "ALH 123")],
        ("https://", "https://"),
    ],
)
def test_a_part_of_a_word_is_not_the_value(value: Any, text: str) -> None:
    assert invented_in({"userId": value}, text) == ["userId"]


@pytest.mark.parametrize(
    ("value", "said", "refused"),
    [
        ("#W9502127", ["my order is 9502127", "I forgot the 'W' at the beginning"], False),
        ("W9502127", ["9502127", "with a w in front"], False),
        ("DE-4711-B", ["The number is 4711, of DE", "and then B."], False),
        ("#W9502127", ["my order is 9502127"], True),
        ("#W9502128", ["my order is 9502127, with a W"], True),
        ("W950", ["It is 950, with a W"], True),
        ("W9502127", ["95021 and 27", "with a W"], True),
        ("W9502127", ["It is 9502127", "We are waiting"], True),
    ],
)
def test_a_person_gives_an_identifier_in_pieces(value: str, said: list[str], refused: bool) -> None:
    schema = {"type": "object", "properties": {"orderId": {"type": "string"}}, "required": []}
    one = Operation("x", "GET", "/", schema)
    assert bool(ungrounded(one, schema, {"orderId": value}, said, said=said)) == refused
    assert ungrounded(one, schema, {"orderId": value}, said), "pieces of other texts are no source"


LOOK_ALIKES = [
    *(
        "аcme-77",
        "ａcme-77",
        "acme-７７",
        "acme-٧٧",
        "acme-77\u200b",
        "\ufeffacme-77",
        "ac\u200dme-77",
        "acme\u00ad-77",
    ),
    *("acme-77\u3164", "acme\u2800-77", "a\u0338cme-77", "acme-77\x00", "acme-77\ufe0f", "acme-\U0001d7f5\U0001d7f5"),
]


@pytest.mark.parametrize("value", LOOK_ALIKES, ids=ascii)
def test_a_value_in_characters_that_look_alike_is_invented(value: str) -> None:
    assert invented_in({"orgId": value}, "the users of acme-77") == ["orgId"]
    assert invented_in({"orgId": value}, f"the users of {value}") == []
    assert invented_in({"org": value}, "the users of acme-77", path=("org",)) == ["org"]


@pytest.mark.parametrize("text", ["the users of ａｃｍｅ－７７", "the users of ac\u00adme-77\u200b", "„acme—77“"])
def test_a_value_may_stand_in_a_text_in_other_characters(text: str) -> None:
    assert invented_in({"orgId": "acme-77"}, text) == []


def test_an_enum_and_a_default_need_no_text() -> None:
    assert invented_in({"keyId": "main"}, "", keyId={"enum": ["main", "other"]}) == []
    assert invented_in({"keyId": "main"}, "", keyId={"default": "main"}) == []
    assert invented_in({"keyId": "other"}, "", keyId={"default": "main"}) == ["keyId"]


def test_a_word_that_the_description_quotes_needs_no_text() -> None:
    calendar = {"type": "string", "description": 'Use the "primary" keyword for your calendar, such as "c_77".'}
    assert invented_in({"calendarId": "primary"}, "my events", path=("calendarId",), calendarId=calendar) == []
    for value in ("c_77", "keyword", "calendar", "prim", "string"):
        assert invented_in({"calendarId": value}, "my events", calendarId=calendar) == ["calendarId"]


SORT = {"$ref": "#/$defs/Sort"}


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [SORT, {"type": "null"}]},
        {"allOf": [SORT], "nullable": True},
        {"oneOf": [{"allOf": [SORT]}, {"const": "other"}]},
        {"anyOf": [{"const": "main"}, {"const": "other"}]},
        {"anyOf": [{"type": "string", "default": "main"}, {"type": "null"}]},
        {"type": "array", "items": {"anyOf": [SORT, {"type": "null"}]}},
        {"anyOf": [{"type": "array", "items": SORT}, {"type": "null"}]},
        {"allOf": [{"type": "array"}, {"items": {"allOf": [SORT]}}]},
    ],
)
def test_a_listed_value_needs_no_text_wherever_the_list_stands(schema: dict[str, Any]) -> None:
    whole = {"type": "object", "properties": {"keyId": schema}, "$defs": {"Sort": {"enum": ["main", "1"]}}}
    operation = Operation("x", "GET", "/{keyId}", whole)
    listed, unlisted = [["main"], ["zzz-9"]] if "array" in str(schema) else ["main", "zzz-9"]
    assert ungrounded(operation, whole, {"keyId": listed}, [""]) == []
    assert ungrounded(operation, whole, {"keyId": unlisted}, [""]) == ["keyId: 'zzz-9'"]


def test_a_format_makes_an_identifier_wherever_the_format_stands() -> None:
    schema = {"anyOf": [{"type": "string", "format": "uuid"}, {"type": "null"}]}
    assert invented_in({"owner": "0b7a"}, "", owner=schema) == ["owner"]
    assert invented_in({"owner": ["0b7a"]}, "", owner={"anyOf": [{"items": {"allOf": [schema]}}]}) == ["owner"]


def test_a_schema_that_branches_without_an_end_is_read_in_part() -> None:
    wide: dict[str, Any] = {"anyOf": [{"$ref": "#/$defs/W"}] * 1000}
    schema = {"properties": {"keyId": wide}, "$defs": {"W": wide}}
    assert ungrounded(Operation("x", "GET", "/", schema), schema, {"keyId": "a1"}, []) == ["keyId: 'a1'"]


def test_identifiers_within_bodies_and_lists_are_found() -> None:
    body = {"owner": {"id": 77, "name": "Ann"}, "memberIds": ["a1", "b2"], "emails": [{"email": "x@y.example"}], "n": 5}
    assert invented_in({"body": body}, "Ann, a1") == ["body.owner.id", "body.memberIds", "body.emails.email"]
    kinds = {"type": "object", "properties": {"typeId": {"$ref": "#/$defs/Kind"}}}
    schema = {"properties": {"body": {"allOf": [kinds]}}, "$defs": {"Kind": {"enum": ["basic"]}}}
    assert ungrounded(Operation("x", "POST", "/", schema), schema, {"body": {"typeId": "basic"}}, []) == []


def test_a_part_of_a_name_that_looks_like_a_placeholder_is_invented() -> None:
    assert invented_in({"table": "your_dataset"}, "the table your_dataset_name") == ["table"]
    assert invented_in({"table": "your_dataset"}, "the table Your_Dataset.") == []


def test_a_proper_name_with_an_article_may_stand_in_a_text() -> None:
    for name in ("The Plaza", "A Suivre", "the Weeknd", "The 1975"):
        assert invented_in({"artist": name}, f"concerts of {name}?", path=("artist",)) == []
        assert invented_in({"artist": name}, f"concerts of {name.lower()}s", path=("artist",)) == ["artist"]
    assert invented_in({"orgId": "The organization"}, "The organization has users.") == ["orgId"]


def test_a_short_code_in_other_letters_is_invented() -> None:
    assert invented_in({"of": "iсе"}, "ice", path=("of",)) == ["of"]


@all_rows(
    ("name", "value"),
    [
        ("q", "weather in Paris"),
        ("text", "my name is Ann"),
        ("title", "test-driven development"),
        ("note", ""),
        ("sort", "name"),
        ("order_by", "id"),
        ("city", "Paris"),
        ("status", "unknown"),
        ("type", "default"),
        ("limit", 5),
        ("page", 1),
        ("itemsPerPage", 100),
        ("radius", 12345),
        ("width", 12345.5),
        ("dice_number", 2),
        ("date", "2024-06-01"),
        ("unit", "celsius"),
        ("language_code", "en"),
        ("currencyCode", "EUR"),
        ("languageCode", "pt-BR"),
        ("includeCount", True),
        ("pretty", "true"),
    ],
)
def test_an_ordinary_value_may_be_the_models_own(name: str, value: Any) -> None:
    assert invented_in({name: value}, "Hello") == []


def test_a_date_or_a_short_code_in_a_path_may_be_the_models_own() -> None:
    for value in ("2024-06-01", "2024-06", "2024-06-01T10:00:00Z", "en", "EUR"):
        assert invented_in({"of": value}, "in June", path=("of",)) == []


@pytest.mark.parametrize("name", ["season_number", "episodeNumber", "season", "page", "week"])
def test_an_ordinal_in_a_path_may_be_the_models_own(name: str) -> None:
    assert invented_in({name: 2}, "the second season", path=(name,)) == []
    assert invented_in({name: 20_000}, "the second season", path=(name,)) == [name]


def test_a_year_in_a_path_may_be_the_models_own() -> None:
    assert invented_in({"releaseYear": 2025}, "films of last year", path=("releaseYear",)) == []


@pytest.mark.parametrize("name", ["order_number", "number", "show_id", "order"])
def test_another_number_in_a_path_is_an_identifier(name: str) -> None:
    assert invented_in({name: 2}, "the second season", path=(name,)) == [name]


@given(value=JSON_VALUES, texts=st.lists(st.text(max_size=50), max_size=3))
def test_the_search_for_invented_values_never_raises(value: Any, texts: list[str]) -> None:
    schema: dict[str, Any] = {"properties": {"id": {}}}
    operation = Operation(
        "x", "GET", "/{id}", schema, parameters=(Parameter("id", "id", "path", "simple", explode=False),)
    )
    ungrounded(operation, schema, {"id": value}, texts)


def test_a_large_body_and_a_long_conversation_are_searched_once() -> None:
    body = {"rows": [{"id": f"i{number}"} for number in range(500)]}
    assert len(invented_in({"body": body}, "word " * 200_000)) == 500


def test_values_that_cannot_all_be_checked_are_refused() -> None:
    deep: Any = {"id": "i1"}
    for _ in range(10):
        deep = {"of": deep}
    for body in ({"rows": [{"n": number} for number in range(100_000)]}, deep):
        with pytest.raises(TooManyValues, match="more than 500 values or 10 levels"):
            invented_in({"body": body}, "")


@pytest.mark.parametrize("value", [98765.0, 123456789012345678901234567890.0, -98765.0])
def test_an_identifier_written_with_a_point_is_checked(value: float) -> None:
    assert invented_in({"person_id": value}, "Who is it?", path=("person_id",)) == ["person_id"]
    assert invented_in({"userId": value}, "Who is it?") == ["userId"]
    assert invented_in({"userId": 98765.0}, "user 98765") == []
