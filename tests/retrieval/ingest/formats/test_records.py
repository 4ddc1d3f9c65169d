"""JSON and JSON lines: sections of one document, or a document for each record."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.sections import IngestRule, RecordFields
from retrieval.errors import Unreadable, UnreadableRights
from retrieval.ingest.containers import Packed, container_of, unpack
from retrieval.ingest.formats.registry import why_unused
from retrieval.ingest.load import parse
from retrieval.ingest.rules import attributes_of, fields_of
from retrieval.records.documents import Document

LONG = "The crane is broken, and nobody knows when the company will send the part. " * 2
TICKETS = [
    {"key": "P-1", "fields": {"subject": "Crane", "team": "pier"}, "body": LONG, "at": "2024-05-03T08:00:00Z", "x": 1},
    {"key": "P-2", "fields": {"subject": 'A "new" part'}, "body": "<p>It <b>came</b>.</p>", "at": 1714723200},
]
FIELDS = RecordFields(("body",), "fields.subject", "key", date="at", attributes=("fields.team",))


def read(value: object, fields: RecordFields | None = None, name: str = "a.json") -> Document:
    text = value if isinstance(value, str) else json.dumps(value)
    return parse(text.encode(), Path(name), name, 1.0, fields=fields)


def test_records_are_sections_with_titles_fields_and_texts() -> None:
    text = read([{"id": 7, "title": "Crane", "body": LONG, "tags": ["a", "b"]}, {"name": "Boat", "note": LONG}]).text
    assert text == f"# Crane\n\n- id: 7\n\n{LONG.strip()}\n\n- tags: a, b\n\n# Boat\n\n{LONG.strip()}\n"


def test_flat_records_within_are_a_table() -> None:
    document = read({"name": "Pier", "about": LONG, "tolls": [{"boat": "small", "crowns": 20}, {"boat": "big"}]})
    assert document.title == "Pier"
    assert document.format == "markdown"
    assert document.text.endswith("## tolls\n\n| boat | crowns |\n| --- | --- |\n| small | 20 |\n| big |  |\n")


def test_lines_are_read_as_records_are() -> None:
    assert read("\n".join(map(json.dumps, TICKETS)), name="a.jsonl").text == read(TICKETS).text


def test_chosen_fields_alone_are_read() -> None:
    text = read(TICKETS, RecordFields(("body",), "fields.subject", attributes=("key",))).text
    assert text.startswith(f'## Crane\n\n- key: P-1\n\n{LONG.strip()}\n\n## A "new" part\n\n- key: P-2\n\nIt **came**.')
    assert "team" not in text


def test_with_an_id_each_record_is_a_document() -> None:
    data = json.dumps({"issues": TICKETS}).encode()
    fields = RecordFields(("body",), "fields.subject", "key", date="at", attributes=("fields.team",), records="issues")
    members = unpack(Packed("a.json", data, 2.5, 2**20, 2**23, fields)).members
    assert [(member.name, member.modified_s) for member in members] == [("P-1.md", 1714723200), ("P-2.md", 1714723200)]
    first, second = (parse(member.data, Path(member.name), member.name, 1.0) for member in members)
    assert (first.title, first.text.strip()) == ("Crane", LONG.strip())
    assert first.attributes == {"team": "pier", "modified": "2024-05-03T08:00:00Z"}
    assert second.title == "A 'new' part"
    assert container_of("/srv/a.json!/P-1.md") == "/srv/a.json"


def test_groups_of_a_record_are_its_readers_or_close_it() -> None:
    rows = [{"key": n, "body": "Text.", "groups": groups} for n, groups in enumerate([["hr"], "not valid!", [1]], 1)]
    first, *others = unpack(Packed("a.jsonl", json.dumps(rows).encode(), 0, 2**20, 2**23, FIELDS)).members
    assert parse(first.data, Path("a.md"), "a.md", 1.0).groups == ("hr",)
    for member in others:
        with pytest.raises(UnreadableRights):
            parse(member.data, Path("a.md"), "a.md", 1.0)
    with pytest.raises(UnreadableRights):
        read({"a": [{"text": LONG, "Groups": ["hr"]}]})


@pytest.mark.parametrize("text", ['{"a": ', "[" * 100_000, '{"a":' * 200 + '"x"' + "}" * 200, "a\nb"])
def test_what_is_not_json_says_so(text: str) -> None:
    with pytest.raises(Unreadable):
        read(text)


def test_json_without_text_is_passed_over() -> None:
    def why(text: bytes) -> str:
        return why_unused(Path("a.json"), lambda _: text)

    assert why(b'{"name": "x", "dependencies": {"left-pad": "^1.0.0"}}') == "JSON without text"
    assert why(b'{"body": "One two\\nthree four five."}') == ""
    assert why(b'{"question": "a", "answer": "b"}') == ""


def test_rules_match_by_end_of_path_and_later_ones_win() -> None:
    rules = (
        IngestRule("legal/**", {"team": "legal", "secret": True}),
        IngestRule("*.jsonl", {"team": "data"}, FIELDS),
    )
    assert attributes_of(rules, "docs/legal/a/b.md") == {"team": "legal", "secret": True}
    assert attributes_of(rules, "legal/t.jsonl") == {"team": "data", "secret": True}
    assert attributes_of(rules, "illegal.md") == {}
    assert fields_of(rules, "x/t.jsonl") == FIELDS
    assert fields_of(rules, "x/t.md") is None


SCALARS = st.none() | st.booleans() | st.integers() | st.text("aé\n \"'<#-", max_size=120)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abz", max_size=5), inner, max_size=4)
)


@given(st.dictionaries(st.text("abz", max_size=5), VALUES, min_size=1, max_size=3))
def test_each_word_is_kept(value: object) -> None:
    counted: list[str] = []

    def marked(one: object) -> object:
        if isinstance(one, dict):
            return {key: marked(item) for key, item in one.items()}
        if isinstance(one, list):
            return [marked(item) for item in one]
        counted.append(f"w{len(counted)}w")
        return f"{counted[-1]} {one}"

    text = json.dumps(marked(value))
    if not counted:
        return
    document = read(text)
    assert [word for word in counted if word not in document.title + document.text] == []
