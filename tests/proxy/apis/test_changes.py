"""What a write changed, from two readings."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.agent.writes.sentences import sentences
from proxy.apis import changes as compared

ENGLISH = sentences("en").changes
NOTHING = ENGLISH.nothing


def changes(before: str | None, after: str | None) -> list[str]:
    return compared.changes(before, after, ENGLISH)


CASES: list[tuple[Any, Any, list[str]]] = [
    ({"id": 1, "state": "open"}, {"id": 1, "state": "cancelled"}, ["state: open → cancelled"]),
    ({"a": 1}, {"a": 1}, [NOTHING]),
    ({"a": True}, {"a": 1}, ["a: true → 1"]),
    ({"a": "1"}, {"a": 1}, ['a: "1" → 1']),
    ({"updatedAt": "x", "n": {"m": 1}}, {"updatedAt": "y", "n": {"m": 2}}, ["n.m: 1 → 2", "updatedAt: x → y"]),
    ({"a": 1}, {"b": 2}, ["a: removed 1", "b: added 2"]),
    ({"tags": ["a", "b"]}, {"tags": ["b", "c"]}, ["tags: removed a", "tags: added c"]),
    ({"tags": ["a", "b"]}, {"tags": ["b", "a"]}, ["tags: in another order"]),
    (
        [{"id": 1, "n": 1}, {"id": 2, "n": 2}],
        [{"id": 3, "n": 3}, {"id": 1, "n": 9}],
        ["[id=1].n: 1 → 9", '[id=2]: removed {"id": 2, "n": 2}', '[id=3]: added {"id": 3, "n": 3}'],
    ),
    ([{"v": 1}, {"v": 1}], [{"v": 1}, {"v": 2}], ["[1].v: 1 → 2"]),
]


@pytest.mark.parametrize(("before", "after", "lines"), CASES)
def test_changes_are_named(before: Any, after: Any, lines: list[str]) -> None:
    assert changes(json.dumps(before), json.dumps(after)) == lines


def test_a_thing_that_came_or_went_is_said() -> None:
    assert changes('{"id": 1}', None) == ['gone: was {"id": 1}']
    assert changes(None, '{"id": 1}') == ['created: {"id": 1}']
    assert changes(None, None) == ["not there before, and not there now"]
    assert changes("", None) == ['gone: was ""']
    assert changes("one text", "other text") == ["one text → other text"]


def test_the_words_are_those_of_the_language() -> None:
    say = sentences("de").changes
    before, after = {"a": 1, "tags": ["x"], "n": [1, 2]}, {"b": "y" * 5_000, "tags": ["z"], "n": [2, 1]}
    lines = compared.changes(json.dumps(before), json.dumps(after), say, most=5)
    assert lines[:2] == ["a: 1 entfernt", "tags: x entfernt"]
    assert lines[2:4] == ["tags: z hinzugefügt", "n: in anderer Reihenfolge"]
    assert lines[4].endswith("(5,002 Zeichen) hinzugefügt")
    assert compared.changes('{"a": 1}', None, say) == ['nicht mehr da; vorher: {"a": 1}']
    assert compared.changes(json.dumps([1, 2, 3]), "[]", say, most=1)[1] == "… 2 weitere Änderungen"


def test_large_documents_are_counted_and_long_values_cut() -> None:
    lines = changes(json.dumps({f"m{n}": n for n in range(5_000)}), json.dumps({f"m{n}": n + 1 for n in range(5_000)}))
    assert lines[0] == "m0: 0 → 1"
    assert lines[-1] == "… 4,980 more changes"
    assert len(changes('{"a": ""}', json.dumps({"a": "x" * 10_000}))[0]) < 300


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.text("ab→\n", max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["id", "a", "b"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(VALUES, VALUES)
def test_nothing_changed_is_said_exactly_if_nothing_changed(before: Any, after: Any) -> None:
    one, other = json.dumps(before, sort_keys=True), json.dumps(after, sort_keys=True)
    assert (changes(one, other) == [NOTHING]) == (one == other)
