"""Two runs compared, by question."""

from collections.abc import Sequence
from dataclasses import replace

from evaluation.answers.records import Question, Variant
from evaluation.answers.reports import diff
from evaluation.answers.reports.report import Measured, measured
from tests.evaluation.answers import made
from tests.evaluation.answers.made import DOCS, RAW, Model

QUESTIONS = [made.question(number) for number in range(30)]


def run_of(
    model: Model,
    *,
    questions: Sequence[Question] = QUESTIONS,
    variants: Sequence[Variant] = (RAW, DOCS),
    name: str = "a",
) -> Measured:
    rows = made.replies(model, questions=questions, variants=variants)
    return measured(made.manifest(variants, name=name), questions, rows, [])


def test_a_run_beside_itself_differs_in_nothing() -> None:
    one = run_of(made.by_chance)
    found = diff.diff(one, one)
    assert [each.variant for each in found.variants] == [RAW.name, DOCS.name]
    for each in found.variants:
        assert each.main is not None
        assert (each.main.helped, each.main.harmed, each.main.change.mean) == ((), (), 0.0)


def test_what_changed_is_told_by_variant_and_question() -> None:
    found = diff.diff(run_of(made.only_with_the_passage), run_of(made.harmed_by_it, name="b"))
    raw, docs = found.variants
    assert raw.main is not None
    assert docs.main is not None
    assert (raw.main.word, docs.main.word) == ("better", "worse")
    told = diff.text(found)
    assert "before: a; after: b" in told
    assert f"{DOCS.name}: harmed (score): {docs.main.harmed[0]} -1.00" in told


def test_questions_that_turned_and_settings_that_differ_are_told_each_on_a_line() -> None:
    old, new = run_of(made.ignoring_the_passage), run_of(made.only_with_the_passage, name="b")
    old = replace(old, manifest=replace(old.manifest, gateway={"version": "1", "settings": {"retrieval.k": "5"}}))
    docs = [{"id": "docs", "object": "knowledge.collection", "documents": 7}]
    gateway = {"version": "1", "settings": {"retrieval.k": "8"}, "collections": docs}
    new = replace(new, manifest=replace(new.manifest, seed=3, gateway=gateway))
    found = diff.diff(old, new)
    assert found.settings == (
        "seed: 0 before, 3 after",
        "gateway.settings.retrieval.k: 5 before, 8 after",
        "gateway.collections.docs.documents: not known before, 7 after",
    )
    raw, rag = found.variants
    assert {name: len(rows) for name, rows in raw.turned.items()} == {"right before, wrong after": 15}
    assert {name: len(rows) for name, rows in rag.turned.items()} == {"wrong before, right after": 15}
    told = diff.text(found).splitlines()
    assert "differs: seed: 0 before, 3 after" in told
    at = told.index("m raw: right before, wrong after (15, score):")
    assert told[at + 1] == "    q001 1.00 -> 0.00  What is the port of service 1?"
    at = told.index("m rag docs: wrong before, right after (15, score):")
    assert told[at + 1] == "    q000 0.00 -> 1.00  What is the port of service 0?"
    assert "settings: no difference in what the runs keep of them" in diff.text(diff.diff(old, old))


def test_failures_of_a_run_come_first_and_verdicts_depend_on_them() -> None:
    rows = [made.reply(of, variant, f"It is {of.must[0]}.") for of in QUESTIONS for variant in (RAW, DOCS)]
    old = measured(made.manifest(), QUESTIONS, rows, [])
    failed = [replace(one, error="400: too long", answer=None, status=400) for one in rows[1:24:2]]
    new = measured(made.manifest(name="b"), QUESTIONS, [*rows[0:24:2], *failed, *rows[24:]], [])
    found = diff.diff(old, new)
    _, rag = found.variants
    assert rag.main is not None
    assert rag.main.word == "depends"
    assert len(rag.turned["an answer before, none or a failure after"]) == 12
    assert diff.text(found).splitlines()[0] == "after: m rag docs: 12 failed"
    part = measured(made.manifest(name="b"), QUESTIONS, rows[:-3], [])
    found = diff.diff(old, part)
    assert [one.scores for one in found.variants] == [{}, {}]
    assert diff.text(found).startswith("after: 3 replies are missing, so there is no verdict\n")


def test_only_questions_and_variants_of_both_are_compared_and_the_others_named() -> None:
    changed = [replace(QUESTIONS[0], must=["other"]), *QUESTIONS[2:], made.question(77)]
    other = Variant("n raw", "n", "raw")
    found = diff.diff(run_of(made.by_chance), run_of(made.by_chance, questions=changed, variants=(RAW, other)))
    (only,) = found.variants
    assert only.main is not None
    assert only.main.change.questions == 28
    assert found.only_before == (DOCS.name, "q001")
    assert found.only_after == ("n raw", "q077")
    assert found.changed_questions == ("q000",)
    assert "q000" in diff.text(found)


def test_runs_with_nothing_in_common_say_so() -> None:
    other = run_of(made.by_chance, variants=(Variant("n raw", "n", "raw"),))
    assert "nothing to compare" in diff.text(diff.diff(run_of(made.by_chance), other))


def test_the_scores_of_two_judges_are_not_compared() -> None:
    def judged_by(model: str) -> Measured:
        one = run_of(made.by_chance)
        values = {name: {**scores, "relevance": scores["score"]} for name, scores in one.values.items()}
        return replace(one, values=values, wrong=values, judges=[model])

    same = diff.diff(judged_by("j"), judged_by("j"))
    assert "relevance" in same.variants[0].scores
    other = diff.diff(judged_by("j"), judged_by("k"))
    assert "relevance" not in other.variants[0].scores
    assert "the judges differ, so no judged score is compared: j, k" in diff.text(other)
