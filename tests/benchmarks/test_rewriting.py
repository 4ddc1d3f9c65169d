"""The tables on rewriting: which questions are asked, behind which history, and what is told of them."""

from pathlib import Path

from benchmarks.retrieval.rewriting import changing, following, gains, losses, reasons
from evaluation.retrieval.judged import JudgedQuestion, JudgedSet
from evaluation.retrieval.results import QuestionResult, RungResult, SetResult
from retrieval.records.search import Turn

OLD = (Turn("user", "How do I pay?"), Turn("assistant", "By card."))


def judged(name: str, *, first: int, later: int) -> JudgedSet:
    alone = [JudgedQuestion(f"{name}{i}", (Turn("user", f"{name} {i}?"),), "", {"d": 1}) for i in range(first)]
    behind = [JudgedQuestion(f"{name}-{i}", (*OLD, Turn("user", f"And {i}?")), "r", {"d": 1}) for i in range(later)]
    return JudgedSet(name, Path(name), (*alone, *behind), (alone[0],), ())


def result(name: str, scores: dict[str, list[float]], reason: str = "leans on the conversation") -> SetResult:
    rungs = []
    for rung, values in scores.items():
        outcomes = tuple(
            QuestionResult(
                f"{i}", True, "q", "q", reason, (), (), {"d": 1}, {"ndcg@10": v, "recall@10": v / 2}, 1.0, {}, None
            )
            for i, v in enumerate(values)
        )
        rungs.append(RungResult(rung, rung, False, outcomes, "", None))
    return SetResult(name, "docs/", "e", 1, 1, len(values), 12, False, (0.0, 0.0), (), tuple(rungs))


def test_only_questions_that_follow_others_are_asked_as_such() -> None:
    chosen = following(judged("a", first=3, later=2))
    assert [question.id for question in chosen.questions] == ["a-0", "a-1"]
    assert chosen.unanswerable == ()


def test_a_first_question_is_put_behind_the_history_of_another_set() -> None:
    a, b = judged("a", first=5, later=0), judged("b", first=1, later=2)
    changed = changing(a, [a, b], limit=3)
    assert len(changed.questions) == 3
    for question in changed.questions:
        assert question.turns == (*OLD, Turn("user", f"a {question.id[1:]}?"))
    assert changing(b, [a, b], limit=3).questions == ()  # no other has a history
    assert changing(a, [a, b], limit=3) == changed


def test_the_share_of_the_gap_is_that_of_all_sets_together() -> None:
    one = result("one", {"hybrid": [0.2, 0.4], "rewriting": [0.4, 0.4], "human": [0.5, 0.5]})
    two = result("two", {"hybrid": [0.5], "rewriting": [0.4], "human": [0.5]})
    told = gains([one, two])
    assert "| one | 2 | ndcg@10 | 0.300 | 0.400 | 0.500 | +0.100 [-0.824, +0.856] | 50% |" in told
    assert "| two | 1 | ndcg@10 | 0.500 | 0.400 | 0.500 | -0.100 [-0.978, +0.973] |  |" in told
    assert "| all sets | 3 | ndcg@10 |  |  |  |  | 0% |" in told
    assert "| one | 0% | 100% | 0% | 0% |" in reasons([one])


def test_what_is_lost_is_told_with_the_questions_taken_to_lean() -> None:
    told = losses([result("one", {"hybrid": [0.5, 0.5], "rewriting": [0.5, 0.3]}, "stands alone")])
    assert "| one | 2 | -0.100 [-0.857, +0.823] | -0.050 [-0.848, +0.831] | 0% |" in told
