"""What an earlier answer said goes behind the other passages, and never away."""

from collections.abc import Sequence
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.index.vector_spaces import IndexSearch, VectorSpaces
from retrieval.knowledge import DEFAULT_HIT_OPTIONS, SearchRequest
from retrieval.records.documents import Passage
from retrieval.records.search import Context, Hit, Query, Retrieved, Turn
from retrieval.search.pack import unsaid_first
from tests.retrieval.search.library import OPTIONS, Library, texts, texts_of

QUESTION = "use tls with the java driver"
TEXTS = [f"use tls with the java driver of page{number}" for number in range(5)]
words = st.lists(st.sampled_from("alpha beta gamma delta".split()), max_size=4).map(" ".join)


def user(text: str) -> Turn:
    return Turn("user", text)


def assistant(text: str) -> Turn:
    return Turn("assistant", text)


def passage(ordinal: int, text: str) -> Passage:
    return Passage("d", 1, ordinal, "", "a.md", 0.0, (), 0, len(text), text, 1)


def ordered(texts: list[str], *turns: Turn, k: int = 12) -> tuple[list[str], int]:
    passages = [passage(number, text) for number, text in enumerate(texts)]
    hits = [Hit(f"{one.ordinal}", 1.0, one) for one in passages]
    context, hits, count = unsaid_first(Context(tuple(passages), 9, 3), hits, [*turns, user("Why?")], k=k)
    assert (context.tokens, context.dropped) == (9, 3)
    assert list(context.passages) == [hit.passage for hit in hits]
    return [one.text for one in context.passages], count


def test_a_quoted_passage_goes_behind_the_others() -> None:
    answer = assistant("As the page says: **Add the driver**, and then open a session.")
    assert ordered(["Add the driver", "Close it", "Open a session!", "Pay"], user("How?"), answer) == (
        ["Close it", "Pay", "Add the driver", "Open a session!"],
        2,
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("the tur\u00adpen\u00adtine store", "the turpentine store"),
        ("the turpentine store", "the tur\u200bpentine store"),
        ("the **tur**pentine store", "the turpentine store"),
        ("the **tur**pentine café", "the turpentine cafe\u0301"),
        ("שָׁלוֹם", "שלום"),
        ("İstanbul evi", "istanbul evi"),
        ("the \ufb01rst", "the first"),
        ("a bell\x07 rings", "a bell rings"),
    ],
)
def test_what_no_reader_sees_makes_no_other_word(text: str, said: str) -> None:
    assert ordered([text, "other"], user("How?"), assistant(said)) == (["other", text], 1)


@pytest.mark.parametrize(("missing", "said"), [(0, True), (1, True), (2, False)])
def test_one_word_in_twenty_may_be_missing(missing: int, said: bool) -> None:
    text = " ".join(f"w{number}" for number in range(20))
    answer = assistant(text.rsplit(" ", missing)[0])
    assert ordered([text, "other"], answer) == (["other", text] if said else [text, "other"], int(said))


def test_a_passage_that_two_answers_say_together_stays() -> None:
    turns = [assistant("add the driver"), user("And?"), assistant("open a session")]
    assert ordered(["add the driver, open a session", "other"], *turns)[1] == 0


def test_what_a_person_said_and_what_has_no_words_stays() -> None:
    assert ordered(["add it", "…", "other"], user("Add it"), assistant("No … other words")) == (
        ["add it", "…", "other"],
        1,
    )


@given(st.lists(words, max_size=9), st.lists(st.builds(Turn, st.sampled_from(["user", "assistant"]), words)), st.data())
def test_what_was_said_goes_behind_within_k_and_nothing_else_changes(
    texts: list[str], turns: list[Turn], data: st.DataObject
) -> None:
    k = data.draw(st.integers(0, len(texts)))
    after, count = ordered(texts, *turns, k=k)
    answers = [set(turn.text.split()) for turn in turns if turn.role == "assistant"]
    said = [bool(text) and any(set(text.split()) <= answer for answer in answers) for text in texts[:k]]
    first = list(zip(said, texts, strict=False))
    assert after[:k] == [text for one, text in first if not one] + [text for one, text in first if one]
    assert after[k:] == texts[k:]
    assert count == sum(said)


@given(st.lists(words, max_size=9), st.lists(st.builds(user, words)))
def test_without_an_earlier_answer_nothing_changes(texts: list[str], turns: list[Turn]) -> None:
    assert ordered(texts, *turns) == (texts, 0)


async def test_a_chat_gets_the_same_passages_in_another_order(library: Library) -> None:
    await library.put(TEXTS)
    for rewrite in ("local", "off"):
        retriever = library.retriever(rewrite=rewrite)
        before = await retriever.retrieve(SearchRequest([user("Hi"), assistant("Hello"), user(QUESTION)], ["docs"]))
        first, *others = texts(before)
        turns = [user("Hi"), assistant(f"I know: {first}."), user(QUESTION)]
        found = await retriever.retrieve(SearchRequest(turns, ["docs"]))
        if rewrite == "off":
            assert texts(found) == texts_of(list(found.hits)) == [*others, first]
        assert texts(found)[-1] == first
        assert found.query.reason.endswith(", 1 said before")
        assert found.context.tokens == before.context.tokens


async def test_a_deeper_search_keeps_it_among_the_first(library: Library) -> None:
    await library.put(TEXTS)
    retriever = library.retriever(rewrite="off")
    first, *others = texts(await retriever.retrieve(SearchRequest([user(QUESTION)], ["docs"], k=5)))
    turns = [user("Hi"), assistant(first), user(QUESTION)]
    found = await retriever.retrieve(SearchRequest(turns, ["docs"], k=5))
    assert texts(found) == [*others[:2], first, *others[2:]]
    listed = await retriever.retrieve(SearchRequest(turns, ["docs"], k=5, hit_options=DEFAULT_HIT_OPTIONS))
    assert texts_of(list(listed.hits))[0] == first


class _Space:
    """A vector space that always finds the same."""

    def __init__(self, *texts: str, first: int) -> None:
        passages = tuple(passage(first + number, text) for number, text in enumerate(texts))
        self._hits = tuple(Hit(f"{one.ordinal}", 1.0 / (1 + one.ordinal), one) for one in passages)
        self.retriever = self

    async def retrieve(self, _: SearchRequest) -> Retrieved:
        query = Query("", (), (), "")
        return Retrieved(query, self._hits, Context(tuple(hit.passage for hit in self._hits), 0, 0), {})


class _Spaces:
    def by_space(self, _: Sequence[str]) -> list[tuple[_Space, list[str]]]:
        return [(_Space("add it", "close it", first=0), ["a"]), (_Space("open it", first=2), ["b"])]


async def test_what_was_said_goes_behind_what_another_embedder_found(library: Library) -> None:
    search = IndexSearch(library.catalog, cast(VectorSpaces, _Spaces()), OPTIONS)
    turns = [user("How?"), assistant("Add it."), user("And then?")]
    found = await search.retrieve(SearchRequest(turns, ["a", "b"]))
    assert texts(found) == ["open it", "close it", "add it"]
    assert texts_of(list(found.hits)) == ["close it", "open it", "add it"]
    listed = await search.retrieve(SearchRequest(turns, ["a", "b"], hit_options=DEFAULT_HIT_OPTIONS))
    assert texts_of(list(listed.hits)) == ["add it", "close it", "open it"]
