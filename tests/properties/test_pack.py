"""Packing, for any hits: never over the budget, never more than k, always the best that fit."""

import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from retrieval.lexical.terms import visible
from retrieval.records.documents import Passage, shown_text
from retrieval.records.search import Hit
from retrieval.search.pack import pack, word_set

texts = st.lists(st.sampled_from("alpha beta gamma delta epsilon zeta".split()) | st.text(max_size=5), max_size=12).map(
    " ".join
)


def passage(ordinal: int, title: str, text: str) -> Passage:
    tokens = len(shown_text("a.md", title, (), text).split())
    return Passage("d", 1, ordinal, title, "a.md", 0.0, (), 0, len(text), text, tokens)


@st.composite
def found(draw: st.DrawFn) -> list[Hit]:
    return [
        Hit(str(i), 1 / (i + 1), passage(i, draw(texts), text))
        for i, text in enumerate(draw(st.lists(texts, max_size=10)))
    ]


@given(found(), st.integers(1, 12), st.integers(1, 60))
def test_keeps_to_k_and_budget_and_accounts_for_every_hit(hits: list[Hit], k: int, budget_tokens: int) -> None:
    context = pack(hits, k=k, budget_tokens=budget_tokens)
    assert len(context.passages) <= k
    assert context.tokens == sum(passage.tokens for passage in context.passages) <= budget_tokens
    assert context.dropped == len(hits) - len(context.passages)


@given(found(), st.integers(1, 12), st.integers(1, 60))
def test_keeps_the_order_and_starts_with_the_first_that_fits(hits: list[Hit], k: int, budget_tokens: int) -> None:
    chosen = [p.ordinal for p in pack(hits, k=k, budget_tokens=budget_tokens).passages]
    assert chosen == sorted(set(chosen))
    fitting = [hit.passage.ordinal for hit in hits if hit.passage.tokens <= budget_tokens]
    assert chosen[:1] == fitting[:1]


@given(found())
def test_no_two_passages_say_the_same_words_under_one_title(hits: list[Hit]) -> None:
    chosen = pack(hits, k=100, budget_tokens=10**6).passages
    said = [(passage.title.lower(), passage.text.lower().split()) for passage in chosen]
    assert all(one not in said[:number] for number, one in enumerate(said))


@given(found())
def test_packing_again_what_was_packed_changes_nothing(hits: list[Hit]) -> None:
    once = pack(hits, k=5, budget_tokens=40)
    again = pack([Hit(str(i), 1.0, p) for i, p in enumerate(once.passages)], k=5, budget_tokens=40)
    assert (again.passages, again.tokens, again.dropped) == (once.passages, once.tokens, 0)


@given(texts | st.text() | st.text(st.characters(max_codepoint=127)))
def test_words_are_those_of_the_pattern_in_the_visible_text(text: str) -> None:
    shown = re.sub("[*`~]", "", text.lower())
    if not shown.isascii():
        shown = visible(unicodedata.normalize("NFKC", shown))
    assert word_set(text) == frozenset(re.findall(r"\w+", shown))
