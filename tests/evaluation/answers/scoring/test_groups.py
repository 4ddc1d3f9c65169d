"""Which questions count as one."""

import random
import string
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.answers.records import Question
from evaluation.answers.scoring.costs import extra
from evaluation.answers.scoring.groups import _alike as alike
from evaluation.answers.scoring.groups import groups_of
from evaluation.answers.scoring.verdict import by_tag, compared


def asks(id: str, text: str, *, reference: str | None = None, group: str | None = None) -> Question:
    return Question(id, [{"role": "user", "content": text}], reference, group=group)


def firsts(*questions: Question) -> list[str]:
    return list(groups_of(questions).values())


@pytest.mark.parametrize(
    "other", ["how long is the WARRANTY", "How long is the warranty ?!", "How  long is\nthe warranty?"]
)
def test_the_same_words_are_one_question_whatever_is_expected(other: str) -> None:
    assert firsts(asks("a", "How long is the warranty?", reference="2 years"), asks("b", other)) == ["a", "a"]


@pytest.mark.parametrize(
    "other",
    ["How long is the warranty? (17)", "How long is the warranty, please?", "17. The warranty: how long is it?"],
)
def test_most_of_the_words_and_the_same_answer_are_one_question(other: str) -> None:
    one, two = asks("a", "How long is the warranty?", reference="2 years"), asks("b", other, reference="2 years")
    assert firsts(one, two) == ["a", "a"]
    assert firsts(one, replace(two, reference="3 years")) == ["a", "b"], "another answer is expected"
    assert firsts(replace(one, reference=None), replace(two, reference=None)) == ["a", "b"], "no answer is known"


WORDINGS = ("How long is the warranty?", "Until when may I send it back?", "Wie lange gilt die Garantie?", "Coverage?")


@pytest.mark.parametrize(
    "expects",
    [
        {"must": ["24 months"]},
        {"must": ["24 months"], "reference": "It holds 24 months."},
        {"reference": "24 months"},
        {"must": ["24", "months"]},
        {"must": ["K00017"], "gold": ["a.md"]},
        {"gold": ["handbook/warranty.md"]},
        {"gold": ["a.md", "b.md"]},
    ],
)
def test_paraphrases_of_one_fact_and_questions_on_one_page_are_one_question(expects: dict[str, Any]) -> None:
    asked = [replace(asks(str(at), text), **expects) for at, text in enumerate(WORDINGS)]
    assert firsts(*asked) == ["0"] * 4
    apart = [replace(one, group=one.id) for one in asked]
    assert firsts(*apart) == ["0", "1", "2", "3"], "a group of its own keeps a question apart"


def test_the_case_and_the_signs_of_an_expected_answer_tell_no_questions_apart() -> None:
    one, two = (replace(asks(id, id), must=[fact]) for id, fact in (("a", "Port 5,123."), ("b", "port 5123")))
    assert firsts(one, two) == ["a", "a"]


@pytest.mark.parametrize("answer", ["yes", "No.", "true", "B", "7", "ja", "是"])
def test_an_answer_that_many_facts_have_makes_no_questions_one(answer: str) -> None:
    asked = [replace(asks(str(at), text), must=[answer]) for at, text in enumerate(WORDINGS)]
    assert firsts(*asked) == ["0", "1", "2", "3"]


def test_groups_that_share_a_question_are_one_group() -> None:
    asked = [
        replace(asks("a", "Why?"), gold=["a.md"]),
        replace(asks("b", "How?"), must=["5123"]),
        replace(asks("c", "Which port?"), gold=["a.md"], must=["5123"]),
    ]
    assert firsts(*asked) == ["a", "a", "a"]


def test_the_interval_over_paraphrases_holds_the_truth() -> None:
    """Twenty facts in five wordings; each fact is gained or lost with 20 %, so the truth is no change."""
    chance, wrong = np.random.default_rng(9), 0
    asked = [
        replace(asks(f"{at}-{way}", f"{way} {at * 7919}"), must=[f"K{at:05}"]) for at in range(20) for way in "abcde"
    ]
    of = groups_of(asked)
    assert len(set(of.values())) == 20
    for seed in range(100):
        moves = chance.choice([-1.0, 0.0, 1.0], 20, p=[0.1, 0.8, 0.1])
        after = {one.id: 0.5 + 0.5 * moves[int(one.id.split("-")[0])] for one in asked}
        found = compared("score", dict.fromkeys(of, 0.5), after, seed=seed, groups=of)
        assert found is not None
        wrong += found.word in ("better", "worse") or not found.change.low <= 0 <= found.change.high
    assert wrong <= 5


def test_questions_of_one_form_with_answers_of_their_own_are_many() -> None:
    asked = [asks(str(at), f"What is the default port of service {at}?", reference=str(5000 + at)) for at in range(50)]
    assert firsts(*asked) == [one.id for one in asked]


def test_a_system_prompt_in_common_makes_no_questions_alike() -> None:
    prompt = {"role": "system", "content": "You answer questions about the handbook, and nothing else. " * 9}
    asked = [
        replace(asks(text, text, reference="yes"), messages=[prompt, {"role": "user", "content": text}])
        for text in ("Is coffee free?", "May dogs come along?")
    ]
    assert firsts(*asked) == ["Is coffee free?", "May dogs come along?"]


def test_a_group_is_one_question_and_keeps_apart_what_looks_alike() -> None:
    same = "How long is the warranty?"
    asked = [
        asks("a", "Why?", group="p1"),
        asks("b", "How?", group="p1"),
        asks("c", "Why?", group="p2"),
        asks("d", same),
        asks("e", same, group="p3"),
        asks("f", same),
    ]
    assert firsts(*asked) == ["a", "a", "c", "d", "e", "d"]


@given(st.lists(st.tuples(st.text(alphabet="abc 1.?", max_size=12), st.sampled_from([None, "x"])), max_size=12))
def test_the_first_of_a_group_is_its_own_and_equal_texts_are_of_one_group(rows: list[tuple[str, str | None]]) -> None:
    asked = [asks(str(at), text, reference=reference) for at, (text, reference) in enumerate(rows)]
    found = groups_of(asked)
    assert list(found) == [one.id for one in asked]
    assert all(found[first] == first and int(first) <= int(id) for id, first in found.items())
    by_text: dict[str, set[str]] = {}
    for one in asked:
        by_text.setdefault(str(one.messages[0]["content"]), set()).add(found[one.id])
    assert all(len(each) == 1 for each in by_text.values())


def test_many_questions_in_one_form_are_told_apart_without_comparing_all(monkeypatch: pytest.MonkeyPatch) -> None:
    chance, looks = random.Random(1), 0

    def counted(one: frozenset[str], other: frozenset[str]) -> bool:
        nonlocal looks
        looks += 1
        return alike(one, other)

    monkeypatch.setattr("evaluation.answers.scoring.groups._alike", counted)
    words = ["".join(chance.choices(string.ascii_lowercase, k=8)) for _ in range(5000)]
    asked = [
        asks(str(at), f"Is the feature {' '.join(chance.sample(words, 3))} supported on Windows?", reference="yes")
        for at in range(3000)
    ]
    assert len(set(groups_of(asked).values())) == 3000
    assert looks < 20 * 3000, "of four and a half million pairs"


def test_a_question_asked_a_hundred_times_is_one_question() -> None:
    before, after = {str(at): 0.0 for at in range(100)}, {str(at): 1.0 for at in range(100)}
    of = groups_of(asks(str(at), f"How long is the warranty? ({at})", reference="2 years") for at in range(100))
    found = compared("score", before, after, seed=0, groups=of)
    assert found is not None
    assert (found.change.questions, found.word, len(found.helped)) == (1, "undecided", 100)
    assert "over 1 group of 100 questions" in found.sentence()
    rows = [[(id, {"prompt": score}) for id, score in scores.items()] for scores in (before, after)]
    assert extra(*rows, seed=0, groups=of)["prompt"].questions == 1


def test_a_group_counts_once_however_large_it_is() -> None:
    of, before = {"a": "a", "b": "a", "c": "a", "d": "d"}, dict.fromkeys("abcd", 0.0)
    found = compared("score", before, {"a": 1.0, "b": 1.0, "c": 1.0, "d": 0.0}, seed=0, groups=of)
    assert found is not None
    assert (found.before, found.after, found.change.mean, found.change.questions) == (0.0, 0.5, 0.5, 2)
    parts = by_tag("score", before, dict.fromkeys("abcd", 1.0), {"b": ["x"], "c": ["x"]}, seed=0, groups=of)
    assert parts["x"].change.questions == 1


def test_without_its_groups_a_run_of_grouped_questions_would_be_called_help_by_chance() -> None:
    """Forty groups of five of which half gain and half lose: the truth is no change."""
    chance, said, alone = np.random.default_rng(3), list[bool](), list[bool]()
    of = {f"{at}": f"{at - at % 5}" for at in range(200)}
    for seed in range(40):
        moves = chance.choice([-1.0, 1.0], 40).repeat(5)
        after = {id: 0.5 + 0.5 * moves[int(id)] for id in of}
        for kept, known in ((said, of), (alone, {})):
            found = compared("score", dict.fromkeys(of, 0.5), after, seed=seed, groups=known)
            assert found is not None
            kept.append(found.change.certain)
    assert sum(said) <= 0.05 * 40 + 3
    assert sum(alone) > 0.15 * 40
