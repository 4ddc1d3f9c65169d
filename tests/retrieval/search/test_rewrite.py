"""Rewriting: a question that stands alone stays, one that leans on history carries it at low weight."""

from typing import Literal

import pytest

from retrieval.records import Turn
from retrieval.search.rewrite import (
    EARLIER_ANSWER_WEIGHT,
    EARLIER_QUESTION_WEIGHT,
    QUESTION_WEIGHT,
    leans_on_history,
    rewrite,
    verbatim,
)

KOTLIN = "How do I use MongoDB from a Kotlin application?"
ANSWER = "Add the coroutine driver to your build."
JAVA = "can I do the same in Java?"


def user(text: str) -> Turn:
    return Turn("user", text)


def assistant(text: str) -> Turn:
    return Turn("assistant", text)


@pytest.mark.parametrize("question", [KOTLIN, JAVA, "And it?", "", "  Größe?  "])
@pytest.mark.parametrize("before", [[], [assistant("Hello! How can I help?")], [user(" ")]])
def test_the_first_question_is_searched_as_it_was_asked(question: str, before: list[Turn]) -> None:
    query = rewrite([*before, user(question)])
    assert query.text == question
    assert query.terms == query.vectors == ((question, QUESTION_WEIGHT),)
    assert query.reason == "first question"


@pytest.mark.parametrize(
    "question",
    [
        "Which port does the Zephyr server listen on after installation from the package?",
        "What does the error EADDRNOTAVAIL mean for a client behind NAT?",
        "Explain how connection pooling works in the Node.js driver version 6.",
    ],
)
def test_a_question_that_stands_alone_is_searched_as_it_was_asked(question: str) -> None:
    query = rewrite([user(KOTLIN), assistant(ANSWER), user(question)])
    assert query.text == question
    assert query.terms == query.vectors == ((question, 1.0),)
    assert query.reason == "stands alone"


@pytest.mark.parametrize(
    "question",
    [
        JAVA,
        "And how would I configure connection pooling for a replica set in production?",
        "What about connection pooling for a replica set in a production deployment?",
        "Does it support connection pooling for a replica set in a production deployment?",
        "Why?",
        "In Java?",
        "so what are the defaults for connection pooling in a production deployment",
        "Which of those options should I change for a production deployment of the server?",
    ],
)
def test_a_question_that_points_back_leans_on_history(question: str) -> None:
    query = rewrite([user(KOTLIN), assistant(ANSWER), user(question)])
    pieces = (
        (question, QUESTION_WEIGHT),
        (KOTLIN, EARLIER_QUESTION_WEIGHT),
        (ANSWER, EARLIER_ANSWER_WEIGHT),
    )
    assert query.terms == query.vectors == pieces
    assert query.reason == "leans on the conversation"


def test_what_it_searches_for_reads_as_the_question() -> None:
    query = rewrite([user("How do I use\n\n  MongoDB from Kotlin?"), assistant(ANSWER), user(JAVA)])
    assert query.text == "can I do the same in Java? (after: How do I use MongoDB from Kotlin?)"


def test_history_is_never_searched_at_full_weight() -> None:
    assert 0 < EARLIER_ANSWER_WEIGHT <= EARLIER_QUESTION_WEIGHT < QUESTION_WEIGHT / 2
    query = rewrite([user(KOTLIN), assistant(ANSWER), user(JAVA)])
    for text, weight in (*query.terms, *query.vectors):
        assert weight < QUESTION_WEIGHT or text == JAVA


def test_only_the_nearest_question_and_answer_are_carried_along() -> None:
    turns = [user("oldest"), assistant("old answer"), user(KOTLIN), assistant(ANSWER), user(JAVA)]
    assert [text for text, _ in rewrite(turns).terms] == [JAVA, KOTLIN, ANSWER]


def test_empty_turns_are_passed_over() -> None:
    turns = [user(KOTLIN), assistant(ANSWER), user(" "), assistant("\n"), user(JAVA)]
    assert [text for text, _ in rewrite(turns).terms] == [JAVA, KOTLIN, ANSWER]


def test_without_an_answer_only_the_question_is_carried_along() -> None:
    assert [text for text, _ in rewrite([user(KOTLIN), user(JAVA)]).terms] == [JAVA, KOTLIN]


def test_of_a_pasted_log_head_and_end_are_searched() -> None:
    log = "Why does this fail? " + "x" * 100_000 + " The last line."
    query = rewrite([user(log), assistant(log), user(log)])
    assert query.text.startswith("Why does this fail? ")
    (question, _), (earlier, _), (answer, _) = query.terms
    for text in (question, earlier):
        assert len(text) < 2100
        assert text.endswith(" The last line.")
    assert len(query.vectors[2][0]) < len(answer) < 1000
    assert answer.startswith("Why does this fail? ")
    assert len(query.text) < 5000


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
        rewrite([Turn(role, "hi") for role in roles])


@pytest.mark.parametrize(
    ("question", "leans"),
    [
        ("", True),
        ("Java", True),
        ("one two three four five six", True),
        ("alpha beta gamma delta epsilon zeta eta", False),
        ("alpha beta gamma delta epsilon zeta ITS", True),
        ("alpha beta gamma delta epsilon zeta bits", False),
        ("Android beta gamma delta epsilon zeta eta", False),
        ("– And beta gamma delta epsilon zeta eta", True),
        ("gib mir bitte alle Treiber für Kotlin und Java", False),
    ],
)
def test_tells_a_question_that_leans_from_one_that_stands(question: str, leans: bool) -> None:
    assert leans_on_history(question) is leans
