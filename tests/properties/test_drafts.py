"""Whatever a model replies when it is to draft a question: what is kept is in the passage, all else is dropped."""

import json
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from evaluation.answers.drafted.drafts import Draft, Dropped, read_reply
from evaluation.answers.scoring.scores import answer_scores

PASSAGE = (
    "The Zephyr daemon listens on port 5123.\nIts dog is called Bruno, « naïve » and 日本: --fast 1,000 </passage>"
)
AROUND = [("", ""), ("```json\n", "\n```"), ("```\n", "\n```"), ("Here:", "!"), ("[", "]")]
PIECES = [
    *PASSAGE.split(), "Which port does the daemon listen on?", "Who is the dog?", "", " ", "```json", "\n", "{", "null",
    "\ud800", "\x00", "5,123", "Bruno Bruno", "{question}",
]  # fmt: skip

texts = st.lists(st.sampled_from(PIECES), max_size=6).map(" ".join) | st.text(max_size=12)
leaves = st.none() | st.booleans() | st.integers() | st.floats() | texts
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=2))
members = st.fixed_dictionaries(
    {},
    optional={
        "question": texts | values, "reference": st.just(PASSAGE) | texts | values,
        "facts": st.lists(st.sampled_from(PIECES), max_size=3) | values, "more": values,
    },
)  # fmt: skip


@st.composite
def replies(draw: st.DrawFn) -> str:
    """JSON of nearly the right form: whole or cut, fenced or bare, with words around it or a name that stands twice."""
    text = json.dumps(draw(members), ensure_ascii=draw(st.booleans()))
    text = text[: draw(st.integers(0, len(text)))] if draw(st.booleans()) else text
    before, after = draw(st.sampled_from(AROUND))
    twice = '{"facts": [], ' + text[1:] if text[:1] == "{" and draw(st.booleans()) else text
    return before + draw(st.sampled_from([text, text, twice, text + text])) + after


def read(text: str) -> Draft | None:
    try:
        return read_reply(text, PASSAGE)
    except Dropped:
        return None


@given(replies() | st.text())
def test_a_question_that_is_kept_can_be_written_and_its_facts_are_in_the_passage(text: str) -> None:
    draft = read(text)
    if draft is None:
        return
    assert draft.question.strip()
    assert draft.facts
    for held, all_there in ((PASSAGE, 1.0), (draft.reference, 1.0)):
        scores = answer_scores(held, reference=None, must=draft.facts, must_not=(), answerable=None)
        assert scores["must"] == all_there
    asked = answer_scores(draft.question, reference=None, must=draft.facts, must_not=(), answerable=None)
    assert asked["must"] == 0.0
    assert orjson.loads(orjson.dumps(draft))["question"] == draft.question


good: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"question": st.just("Which one?"), "reference": st.just(PASSAGE),
     "facts": st.lists(st.sampled_from(["5123", "Bruno", "port 5123", "1000"]), min_size=1)}
)  # fmt: skip


@given(good, st.sampled_from(["%s", " \n%s\n", "```json\n%s\n```", "```\n%s\n```\n"]), st.booleans())
def test_what_was_asked_for_is_kept_also_in_a_fence(row: dict[str, Any], form: str, plain: bool) -> None:
    draft = read(form % json.dumps(row, ensure_ascii=plain, indent=1))
    assert draft is not None
    assert draft.facts == tuple(dict.fromkeys(row["facts"]))


@given(good, st.data())
def test_a_part_of_a_reply_is_none(row: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(row)
    assert read(text[: data.draw(st.integers(0, len(text) - 1))]) is None
