"""Rewriting: a question that stands alone stays, one that leans on history carries it at low weight."""

from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.records.search import Query, Turn
from retrieval.search.rewrite import (
    EARLIER_ANSWER_WEIGHT,
    EARLIER_QUESTION_WEIGHT,
    FIRST_QUESTION_WEIGHT,
    QUESTION_WEIGHT,
    depends_on_history,
    history_similarity,
    latest_question,
    rewrite,
    verbatim,
)
from tests.support.rows import all_rows

KOTLIN = "How do I use MongoDB from a Kotlin application?"
ANSWER = "Add the coroutine driver to your build."
JAVA = "can I do the same in Java?"
OTHER = "Which port does the Zephyr server listen on after installation from the package?"


def user(text: str) -> Turn:
    return Turn("user", text)


def assistant(text: str) -> Turn:
    return Turn("assistant", text)


def rewritten(*turns: Turn, near: float = 0.5) -> Query:
    return rewrite(latest_question(turns), near)


@all_rows("question", [KOTLIN, JAVA, "And it?", "", "  Größe?  "])
@all_rows("before", [[], [assistant("Hello! How can I help?")], [user(" ")]])
def test_the_first_question_is_searched_as_it_was_asked(question: str, before: list[Turn]) -> None:
    query = rewritten(*before, user(question))
    assert query.text == question
    assert query.terms == query.vectors == ((question, QUESTION_WEIGHT),)
    assert query.reason == "first question"


def test_a_question_far_from_what_was_said_is_searched_as_it_was_asked() -> None:
    query = rewritten(user(KOTLIN), assistant(ANSWER), user(OTHER), near=0.0)
    assert query.text == OTHER
    assert query.terms == query.vectors == ((OTHER, 1.0),)
    assert query.reason == "stands alone"


@pytest.mark.parametrize("question", [JAVA, "Why?", "In Java?", "und in Java?", "Java では？", "¿Y en Java?"])
def test_a_short_question_leans_on_what_was_said_in_any_language(question: str) -> None:
    query = rewritten(user(KOTLIN), assistant(ANSWER), user(question), near=0.02)
    assert [text for text, _ in query.terms] == [question, KOTLIN, ANSWER]
    assert query.reason == "leans on the conversation"


def test_a_long_question_leans_on_what_was_said_where_it_is_close_to_it() -> None:
    query = rewritten(user(KOTLIN), assistant(ANSWER), user(OTHER), near=0.6)
    assert query.vectors == (
        (OTHER, QUESTION_WEIGHT),
        (KOTLIN, EARLIER_QUESTION_WEIGHT),
        (ANSWER, EARLIER_ANSWER_WEIGHT),
    )


@pytest.mark.parametrize(
    ("question", "near", "does"),
    [
        ("Java?", 0.0, True),
        ("x" * 27, 0.01, True),
        ("x" * 27, -0.01, False),
        ("x" * 60, 0.1, False),
        ("x" * 60, 0.2, True),
        ("x" * 150, 0.3, False),
        ("x" * 150, 0.4, True),
        ("数" * 12, 0.01, False),  # says as much as thirty letters
        ("数" * 10, 0.01, True),
        ("", 0.0, True),
        ("x" * 60, float("nan"), False),
    ],
)
def test_the_longer_a_question_the_closer_must_it_be(question: str, near: float, does: bool) -> None:
    assert depends_on_history(question, near) is does


def test_what_it_searches_for_reads_as_the_question() -> None:
    query = rewritten(user("How do I use\n\n  MongoDB from Kotlin?"), assistant(ANSWER), user(JAVA))
    assert query.text == "can I do the same in Java? (after: How do I use MongoDB from Kotlin?)"


@pytest.mark.parametrize(
    ("earlier", "subject"),
    [
        (["Really? I see. What does a licence for the server cost?"], "What does a licence for the server cost?"),
        ([KOTLIN, "And in Scala?"], f"{KOTLIN} And in Scala?"),
        (["And in Scala?"], "And in Scala?"),
        ([KOTLIN, OTHER], OTHER),
        (["これは何ですか。ライセンスはいくらですか？"], "ライセンスはいくらですか？"),
        (["word " * 100], ("word " * 100)[:198] + " …"),
    ],
)
def test_the_earlier_question_is_told_in_one_sentence(earlier: list[str], subject: str) -> None:
    query = rewritten(*map(user, earlier), user("Why?"))
    assert query.text == f"Why? (after: {subject})"


def test_history_is_never_searched_at_full_weight() -> None:
    assert 0 < FIRST_QUESTION_WEIGHT < EARLIER_ANSWER_WEIGHT <= EARLIER_QUESTION_WEIGHT < QUESTION_WEIGHT / 2
    query = rewritten(user(KOTLIN), assistant(ANSWER), user(JAVA))
    for text, weight in (*query.terms, *query.vectors):
        assert weight < QUESTION_WEIGHT / 2 or text == JAVA


def test_the_words_of_a_long_answer_weigh_less_than_those_of_a_short_one() -> None:
    long, short = (rewritten(user(KOTLIN), assistant("word " * n), user(JAVA)) for n in (60, 6))
    assert long.vectors[2][1] == short.vectors[2][1]
    assert long.terms[2][1] < short.terms[2][1] / 2


def test_the_nearest_question_and_answer_and_the_first_question_are_carried_along() -> None:
    turns = [user("oldest"), assistant("old answer"), user("older"), assistant("x"), user(KOTLIN), assistant(ANSWER)]
    query = rewritten(*turns, user(JAVA))
    assert [text for text, _ in query.terms] == [JAVA, KOTLIN, ANSWER, "oldest"]
    assert dict(query.vectors)["oldest"] == FIRST_QUESTION_WEIGHT


def test_empty_turns_are_passed_over() -> None:
    query = rewritten(user(KOTLIN), assistant(ANSWER), user(" "), assistant("\n"), user(JAVA))
    assert [text for text, _ in query.terms] == [JAVA, KOTLIN, ANSWER]


def test_a_question_asked_again_leans_on_what_it_leaned_on_before() -> None:
    query = rewritten(user(KOTLIN), assistant(ANSWER), user(JAVA), assistant(ANSWER), user(JAVA))
    assert [text for text, _ in query.terms] == [JAVA, KOTLIN, ANSWER]
    assert rewritten(user(JAVA), user(JAVA)).reason == "first question"


def test_what_was_said_twice_is_carried_once() -> None:
    query = rewritten(user(KOTLIN), assistant(KOTLIN), user(OTHER), assistant(OTHER), user(JAVA))
    assert [text for text, _ in query.vectors] == [JAVA, OTHER, KOTLIN]


def test_of_a_pasted_log_head_and_end_are_searched() -> None:
    log = "Why does this fail? " + "x" * 100_000 + " The last line."
    query = rewritten(user(log), assistant(log), user(log + " Why?"), near=1.0)
    (question, _), (earlier, _), (answer, _) = query.terms
    assert question.endswith(" Why?")
    assert earlier.endswith(" The last line.")
    assert max(len(question), len(earlier)) < 2100
    assert len(answer) <= 400
    assert len(query.text) < 2500


def test_a_long_question_is_clipped_when_it_is_searched_as_asked() -> None:
    query = verbatim([user("Q? " + "x" * 100_000)], reason="rewriting is off")
    assert query.text == query.terms[0][0]
    assert len(query.text) < 2100
    assert query.reason == "rewriting is off"


def test_off_ignores_history() -> None:
    assert verbatim([user(KOTLIN), assistant(ANSWER), user(JAVA)], reason="r").terms == ((JAVA, 1.0),)


@pytest.mark.parametrize("roles", [[], ["assistant"], ["user", "assistant"]])
def test_a_conversation_that_does_not_end_with_a_question_is_the_callers_mistake(
    roles: list[Literal["user", "assistant"]],
) -> None:
    with pytest.raises(ValueError, match="must be the user's"):
        latest_question([Turn(role, "hi") for role in roles])


# Similarity to the history


def test_similarity_to_the_history_is_measured_from_what_the_embedder_calls_unrelated() -> None:
    probes = np.array([[1, 0], [0.8, 0.6]], np.float32)  # an embedder for which unrelated texts have .8
    question = np.array([1, 0], np.float32)
    for cosine, expected in ((1.0, 1.0), (0.9, 0.5), (0.8, 0.0), (0.7, -0.5)):
        other = np.array([cosine, (1 - cosine**2) ** 0.5], np.float32)
        assert history_similarity(np.stack([question, other]), probes) == pytest.approx(expected, abs=1e-5)


def test_the_closest_of_what_was_said_counts() -> None:
    probes = np.eye(3, dtype=np.float32)
    vectors = np.array([[1, 0, 0], [0, 1, 0], [0.6, 0.8, 0], [0, 0, 1]], np.float32)
    assert history_similarity(vectors, probes) == pytest.approx(0.6)
    assert history_similarity(vectors[:1], probes) == 0.0
    assert history_similarity(vectors[:2], probes[:1]) == 0.0


# Whatever was said

TURNS = st.lists(
    st.builds(Turn, st.sampled_from(["user", "assistant"]), st.text(max_size=300) | st.text("? \n.。？a", max_size=80)),
    max_size=8,
)


@given(TURNS, st.text(max_size=200) | st.text("ab ?？", max_size=120), st.floats(-1, 1))
def test_any_conversation_gives_a_query(before: list[Turn], question: str, near: float) -> None:
    query = rewrite(latest_question([*before, user(question)]), near)
    assert query.terms[0] == query.vectors[0] == (question, QUESTION_WEIGHT)
    assert question.strip() in query.text
    assert [text for text, _ in query.terms] == [text for text, _ in query.vectors]
    assert len(dict(query.vectors)) == len(query.vectors) <= 4
    assert all(0 < weight <= QUESTION_WEIGHT for _, weight in (*query.terms, *query.vectors))
    for part in query.parts:
        assert part.strip() == part
        assert part
    assert "".join("".join(query.parts).split()) in ("", "".join(question.split()))


@given(st.integers(1, 12), st.sampled_from("x?. \n数"), st.floats(-1, 1))
def test_any_amount_of_text_is_clipped(turns: int, character: str, near: float) -> None:
    text = "a" + character * 20_000
    said = latest_question(
        [user(text + str(n)) if n % 2 else assistant(text + str(n)) for n in range(turns)] + [user(text)]
    )
    query = rewrite(said, near)
    assert sum(len(piece) for piece, _ in query.terms) < 3 * 2100 + 400
    assert len(query.text) < 2600
