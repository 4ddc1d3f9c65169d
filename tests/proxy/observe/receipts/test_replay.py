"""What changed between a receipt and today: each passage is told once, as what became of it."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxy.dialects.quoting import Template
from proxy.observe.receipts.receipt import Versions, sha256_of
from proxy.observe.receipts.replay import differences, today
from retrieval.records.documents import DocumentLocation, Passage
from retrieval.records.search import Context, Query, Retrieved

VERSIONS = Versions("1", "aa", "best_first", {"retrieval.k": 12})
TEMPLATE = Template("{passages}")


def passage(document: str, text: str, *, revision: int = 1, start: int = 0, headings: tuple[str, ...] = ()) -> Passage:
    return Passage(
        document, revision, 0, "T", f"{document}.md", 0.0, headings, start, start + len(text), text, len(text)
    )


def made(*passages: Passage, versions: Versions = VERSIONS) -> dict[str, Any]:
    query = Query("What?", (), (), "first question")
    return dict(today(Retrieved(query, (), Context(passages, 7, 0), {}), ["docs"], TEMPLATE, versions))


def changed(was: dict[str, Any], now: dict[str, Any]) -> list[tuple[str, str, int | None, int | None]]:
    return [(one["change"], one["document"], one["was"], one["now"]) for one in differences(was, now, [])["passages"]]


A, B, C = passage("a", "alpha"), passage("b", "beta"), passage("c", "gamma")


def test_the_same_again_is_no_change() -> None:
    there = [DocumentLocation("a", "docs", 1), DocumentLocation("b", "docs", 1)]
    found = differences(made(A, B), made(A, B), there)
    assert {name: value for name, value in found.items() if value} == {}


def test_passages_are_added_removed_moved_and_changed() -> None:
    assert changed(made(A, B), made(A, B, C)) == [("added", "c", None, 3)]
    assert changed(made(A, B), made(B)) == [("removed", "a", 1, None)]
    (moved,) = changed(made(A, B), made(B, A))
    assert moved in [("moved", "a", 1, 2), ("moved", "b", 2, 1)]
    assert changed(made(A), made(passage("a", "alpha two", revision=2))) == [("changed", "a", 1, 1)]
    assert changed(made(A), made()) == [("removed", "a", 1, None)]


def test_of_one_document_what_has_nothing_in_common_is_another_passage() -> None:
    one = passage("a", "alpha", headings=("TLS",))
    other = passage("a", "other", start=100, headings=("Pool",))
    assert changed(made(one), made(other)) == [("removed", "a", 1, None), ("added", "a", None, 1)]
    grown = passage("a", "alpha and more", start=2, headings=("Later",))
    assert changed(made(one), made(grown)) == [("changed", "a", 1, 1)]


def test_documents_settings_template_and_collections_are_compared() -> None:
    later = Versions("2", "bb", "best_first", {"retrieval.k": 6, "retrieval.mode": "auto"})
    was, now = made(A, B), made(A, versions=later)
    was["collections"] = [{"name": "docs", "generation": 1, "embedder": "m", "language": "en"}]
    now["collections"] = [{"name": "docs", "generation": 2, "embedder": "m", "language": "en"}]
    found = differences(was, now, [DocumentLocation("a", "docs", 3)])
    assert [(one["document"], one["change"], one["was"], one["now"]) for one in found["documents"]] == [
        ("a", "replaced", 1, 3),
        ("b", "deleted", 1, None),
    ]
    assert [(one["name"], one["was"], one["now"]) for one in found["settings"]] == [
        ("retrieval.k", 12, 6),
        ("retrieval.mode", None, "auto"),
    ]
    assert (found["template"], found["gateway"]) == ({"was": "aa", "now": "bb"}, {"was": "1", "now": "2"})
    ((name, generations),) = [
        (one["name"], (one["was"]["generation"], one["now"]["generation"])) for one in found["collections"]
    ]
    assert (name, generations) == ("docs", (1, 2))
    assert found["injected"] == {"was": sha256_of(was["injected"]), "now": sha256_of(now["injected"])}


passages = st.lists(
    st.builds(passage, st.sampled_from("ab"), st.sampled_from(["x", "yy", "zzz"]), start=st.integers(0, 4)), max_size=6
)


@given(passages, passages)
def test_each_passage_is_told_at_most_once(before: list[Passage], after: list[Passage]) -> None:
    was, now = made(*before), made(*after)
    told = changed(was, now)
    for side, count in ((2, len(before)), (3, len(after))):
        numbers = [one[side] for one in told if one[side] is not None]
        assert len(set(numbers)) == len(numbers)
        assert set(numbers) <= set(range(1, count + 1))
    added = sum(one[0] == "added" for one in told)
    removed = sum(one[0] == "removed" for one in told)
    assert added - removed == len(after) - len(before)
    if was["passages"] == now["passages"]:
        assert told == []
