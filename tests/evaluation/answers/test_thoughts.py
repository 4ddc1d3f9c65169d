"""The thoughts in a model's answer are no part of the answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.answers.scoring.scores import answer_scores
from evaluation.answers.thoughts import without_thoughts

THOUGHT = "Perhaps K123? No, I do not know. K00001?"
MARKS = [
    ("<think>", "</think>"),
    ("<THINK>", "</THINK>"),
    ("<thinking>\n", "\n</thinking>\n"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<analysis>", "</analysis>"),
    ("<scratchpad>", "</scratchpad>"),
    ("<seed:think>", "</seed:think>"),
    ('<think type="deep">', "</think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
    ("<unused94>thought\n", "<unused95>"),
    ("<|channel>thought\n", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
]


@pytest.mark.parametrize(("begin", "end"), MARKS, ids=[begin.strip() for begin, _ in MARKS])
def test_thoughts_of_every_family_go(begin: str, end: str) -> None:
    assert without_thoughts(f"{begin}{THOUGHT}{end}It is K00000.") == "It is K00000."
    assert without_thoughts(f"\n {begin}{THOUGHT}{end}\n\nIt is K00000.") == "It is K00000."
    assert without_thoughts(f"First.\n{begin}{THOUGHT}{end}Second.").split() == ["First.", "Second."]
    assert without_thoughts(f"{begin}{THOUGHT}") == "", "cut off among the thoughts"


@pytest.mark.parametrize("end", ["</think>", "[/THINK]", "</thinking>", "◁/think▷"])
def test_the_template_may_have_written_the_beginning(end: str) -> None:
    assert without_thoughts(f"{THOUGHT}\n{end}\n\nIt is K00000.") == "It is K00000."


def test_thoughts_may_stand_in_thoughts_and_within_a_line() -> None:
    assert without_thoughts("<think>a <think>b K1</think> c K2</think>Yes.") == "Yes."
    assert without_thoughts("So: <think>is it K123 or K124</think>it is K0.") == "So: it is K0."


@pytest.mark.parametrize(
    "answer",
    [
        "It is K00000.",
        "Write <think> and </think> around it.",
        "The mark is `<think>`, and the end is `</think>`.",
        "Think: a < b, and [x] > [y].",
        "",
    ],
)
def test_an_answer_without_thoughts_stays_as_it_is(answer: str) -> None:
    assert without_thoughts(answer) == answer


@given(st.text(alphabet="ab <>/`\n", max_size=60))
def test_a_text_without_a_mark_is_kept(text: str) -> None:
    assert without_thoughts(text) == text


def test_a_fact_in_the_thoughts_is_no_fact_of_the_answer() -> None:
    said = without_thoughts("<think>Perhaps K123? No.</think>It is K00000")
    assert answer_scores(said, reference=None, must=["K123"], must_not=[], answerable=None)["score"] == 0.0
    hesitates = without_thoughts("<think>I do not know. I cannot find it.</think>It is K123.")
    assert answer_scores(hesitates, reference=None, must=[], must_not=[], answerable=True)["refusal"] == 1.0
