"""Packing: best first, within the budget, nothing twice."""

import pytest

from retrieval.records.documents import Passage, shown_text
from retrieval.records.search import Hit
from retrieval.search.pack import pack


def passage(text: str, *, title: str = "", source: str = "a.md", headings: tuple[str, ...] = ()) -> Passage:
    tokens = words(shown_text(source, title, headings, text))
    return Passage("d", 1, 0, title, source, 0.0, headings, 0, len(text), text, tokens)


def hits(*texts: str) -> list[Hit]:
    return [Hit(f"h{i}", 1.0 / (i + 1), passage(text)) for i, text in enumerate(texts)]


def words(text: str) -> int:
    return len(text.split())


def texts(found: list[Hit], *, k: int = 8, budget_tokens: int = 1000) -> list[str]:
    return [p.text for p in pack(found, k=k, budget_tokens=budget_tokens).passages]


def numbered(count: int, *, of: str = "word") -> str:
    return " ".join(f"{of}{i}" for i in range(count))


def test_the_best_come_first() -> None:
    assert texts(hits("alpha one", "beta two", "gamma three")) == ["alpha one", "beta two", "gamma three"]


def test_at_most_k() -> None:
    context = pack(hits("alpha", "beta", "gamma"), k=2, budget_tokens=1000)
    assert [p.text for p in context.passages] == ["alpha", "beta"]
    assert context.dropped == 1


def test_nothing_found_is_an_empty_context() -> None:
    context = pack([], k=8, budget_tokens=1000)
    assert (context.passages, context.tokens, context.dropped) == ((), 0, 0)


def test_counts_the_label_with_the_text() -> None:
    found = [Hit("a", 1.0, passage("two words", title="The title", headings=("Deep", "down"), source="docs/a b.md"))]
    assert (
        shown_text("docs/a b.md", "The title", ("Deep", "down"), "two words")
        == "docs/a b.md The title > Deep > down\ntwo words"
    )
    assert pack(found, k=8, budget_tokens=1000).tokens == 10


def test_a_passage_may_fill_the_budget_exactly_and_not_by_one_word_more() -> None:
    found = hits(numbered(9))  # and one word of its label
    assert texts(found, budget_tokens=10) == [numbered(9)]
    assert texts(found, budget_tokens=9) == []


def test_a_shorter_one_takes_the_place_of_one_that_does_not_fit() -> None:
    found = hits("alpha beta", numbered(50), "gamma delta")
    context = pack(found, k=8, budget_tokens=10)
    assert [p.text for p in context.passages] == ["alpha beta", "gamma delta"]
    assert (context.tokens, context.dropped) == (6, 1)


def test_a_passage_that_does_not_fit_does_not_hide_its_duplicate() -> None:
    """The long form is passed over, so the short one is no repetition of anything shown."""
    long = passage("alpha beta gamma delta", title=numbered(50))
    found = [Hit("long", 1.0, long), *hits("alpha beta gamma delta")]
    assert [p.title for p in pack(found, k=8, budget_tokens=10).passages] == [""]


@pytest.mark.parametrize(
    ("second", "shown_too"),
    [
        (numbered(100), False),
        (numbered(100).upper(), False),
        (numbered(100).replace(" ", ",\n"), False),
        (numbered(95) + " other5.1", True),
        (" ".join(reversed(numbered(100).split())), True),
        (numbered(60) + " " + numbered(40, of="other"), True),
        (numbered(40, of="other"), True),
    ],
)
def test_copies_are_left_out(second: str, shown_too: bool) -> None:
    context = pack(hits(numbered(100), second), k=8, budget_tokens=1000)
    assert len(context.passages) == 1 + shown_too
    assert context.dropped == 1 - shown_too


def test_a_duplicate_does_not_count_towards_k() -> None:
    assert texts(hits("alpha beta", "alpha beta", "gamma"), k=2) == ["alpha beta", "gamma"]


def test_the_same_text_under_another_title_is_another_text() -> None:
    found = [Hit("a", 1.0, passage("one two three", title="A")), Hit("b", 0.5, passage("one two three", title="B"))]
    assert [p.title for p in pack(found, k=8, budget_tokens=1000).passages] == ["A", "B"]
