"""A run's replies to its report, and the report to its files."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import orjson
import pytest

from evaluation.answers.judges.judge_tasks import Judgement
from evaluation.answers.records import Question, Rag, Reply, ShownPassage, Variant
from evaluation.answers.reports import pages
from evaluation.answers.reports.plots import plots_of
from evaluation.answers.reports.report import BenchReport, as_json, report
from evaluation.answers.reports.view import view
from evaluation.answers.run_folder import Run
from evaluation.answers.scoring.scored_replies import across, baselines
from evaluation.stats.significance import interval
from proxy.dialects.replies import Tokens
from tests.evaluation.answers import made
from tests.evaluation.answers.made import DOCS, RAW, Model
from tests.support.gateway import ROOT


def report_of(model: Model, *, count: int = 80, repeats: int = 1) -> BenchReport:
    questions = [made.question(number) for number in range(count)]
    rows = made.replies(model, questions=questions, variants=(RAW, DOCS), repeats=repeats)
    return report(made.manifest(repeats=repeats), questions, rows, [])


@pytest.mark.parametrize(
    ("model", "word", "helped", "harmed"),
    [
        (made.only_with_the_passage, "better", range(80, 81), range(1)),
        (made.ignoring_the_passage, "no better", range(1), range(1)),
        (made.harmed_by_it, "worse", range(1), range(25, 56)),
        (made.by_chance, "undecided", range(10, 31), range(10, 31)),
    ],
)
def test_the_verdict_on_a_model_whose_truth_is_known_is_right(
    model: Model, word: str, helped: range, harmed: range
) -> None:
    (verdict,) = report_of(model).leading
    assert verdict.main is not None
    assert verdict.main.word == word
    assert len(verdict.main.helped) in helped
    assert len(verdict.main.harmed) in harmed


def test_repeats_make_no_more_questions() -> None:
    (verdict,) = report_of(made.by_chance, repeats=3).leading
    assert verdict.main is not None
    assert verdict.main.change.questions == 80


def test_what_a_variant_costs_more_is_told_for_a_question() -> None:
    (verdict,) = report_of(made.only_with_the_passage).leading
    assert {name: change.mean for name, change in verdict.more.items()} == pytest.approx(
        {"first_ms": 100, "total_ms": 0, "prompt": 50, "completion": 0, "injected": 50, "cost_usd": 0.001}
    )
    assert {interval(change, "+.0f") for change in verdict.more.values()} >= {"+100 [all alike]", "+0 [all alike]"}


def test_costs_of_each_variant_are_sums_and_percentiles() -> None:
    raw, docs = report_of(made.only_with_the_passage).variants
    assert docs.costs.spent["cost_usd"].total == pytest.approx(0.16)
    assert docs.costs.spent["first_ms"].p95 == 300.0
    assert docs.costs.stages_ms == {"retrieval": 12.5}
    assert raw.costs.stages_ms == {}
    assert raw.costs.spent["injected"].total == 0


def test_questions_of_one_group_count_once_and_the_report_says_so(tmp_path: Path) -> None:
    questions = [replace(made.question(number), group=f"page {number // 5}") for number in range(80)]
    rows = made.replies(made.only_with_the_passage, questions=questions, variants=(RAW, DOCS))
    found = report(made.manifest(), questions, rows, [])
    (verdict,) = found.leading
    assert verdict.main is not None
    assert (verdict.main.change.questions, len(verdict.main.helped)) == (16, 80)
    assert {change.questions for change in verdict.more.values()} == {16}
    assert "over 16 groups of 80 questions" in view(found).verdicts[0].sentence
    (note,) = (note for note in view(found).notes if "80 questions count as 16" in note)
    assert "q000 (5)" in note
    assert as_json(found)["groups"] == 16


def test_a_question_without_an_answer_in_one_variant_is_not_compared_and_is_counted() -> None:
    questions = [made.question(1), made.question(2)]
    rows = [made.reply(of, variant, f"It is {of.must[0]}.") for of in questions for variant in (RAW, DOCS)]
    rows[-1] = made.reply(questions[1], DOCS, None, error="400: too long")
    found = report(made.manifest(), questions, rows, [])
    assert found.leading[0].main is not None
    assert found.leading[0].main.change.questions == 1
    assert found.variants[1].failures == {"400: too long": 1}
    assert found.unasked == 0


def failing(times: int, *, error: str | None = "400: too long", finish_reason: str = "stop") -> BenchReport:
    """Both variants are right in all of sixty questions; so many of the answers with passages failed."""
    questions = [made.question(number) for number in range(60)]
    rows = [made.reply(of, variant, f"It is {of.must[0]}.") for of in questions for variant in (RAW, DOCS)]
    for at in range(1, 2 * times, 2):
        answer = None if error else rows[at].answer
        status = 400 if error else 200
        rows[at] = replace(rows[at], error=error, answer=answer, status=status, finish_reason=finish_reason)
    return report(made.manifest(), questions, rows, [])


@pytest.mark.parametrize(("error", "reason"), [("400: too long", "stop"), (None, "length"), (None, "content_filter")])
def test_a_verdict_holds_only_where_failures_left_out_and_counted_as_wrong_agree(
    error: str | None, reason: str
) -> None:
    found = failing(25, error=error, finish_reason=reason)
    (verdict,) = found.leading
    assert verdict.main is not None
    assert (verdict.main.word, verdict.main.change.questions) == ("depends", 35)
    (wrong,) = verdict.main.with_failures
    assert wrong.mean == pytest.approx(-25 / 60)
    assert wrong.questions == 60
    assert {one.word for one in verdict.tags.values()} == {"depends"}
    assert found.many_failures
    lines = pages.summary(found, view(found))
    assert lines[0].startswith(f"{DOCS.name}: 25 of 60 answers are failures (25 ")
    assert "no verdict, it depends on the failures" in lines[1]
    assert "counted as wrong: -0.417" in lines[2]
    for told in (pages.markdown(view(found)), pages.page(found, view(found))):
        assert "25 of 60 answers are failures" in told.partition("Verdict")[0]
    assert as_json(found)["verdicts"][0]["main"]["word"] == "depends"


def test_a_verdict_that_few_failures_cannot_change_holds() -> None:
    questions = [made.question(number) for number in range(80)]
    rows = made.replies(made.only_with_the_passage, questions=questions, variants=(RAW, DOCS))
    rows[1] = replace(rows[1], finish_reason="length")
    found = report(made.manifest(), questions, rows, [])
    (verdict,) = found.leading
    assert verdict.main is not None
    assert (verdict.main.word, found.many_failures) == ("better", False)
    assert "The verdict is the same with the failures (counted as wrong: +0.98" in view(found).verdicts[0].sentence
    assert pages.summary(found, view(found))[1].startswith(f"{DOCS.name}: 1 of 80 answers are failures (1 cut off")


def test_what_retrieval_did_not_find_and_could_not_search_is_told_first() -> None:
    questions = [made.question(number) for number in range(4)]
    rows = made.replies(made.ignoring_the_passage, questions=questions, variants=(RAW, DOCS))
    for at, status in ((1, "empty"), (3, "empty"), (5, "degraded")):
        rows[at] = replace(rows[at], rag=Rag(status, "why"))
    lines = pages.summary(found := report(made.manifest(), questions, rows, []), view(found))
    assert "1 of 4 answers are failures (1 without the search, which failed)" in lines[0]
    assert "retrieval found nothing for 2 of 4 answers" in lines[1]


def test_a_run_that_is_not_complete_says_so() -> None:
    questions = [made.question(1), made.question(2)]
    found = report(made.manifest(), questions, [made.reply(questions[0], RAW, "It is 5001.")], [])
    assert found.unasked == 3
    assert found.leading[0].main is None
    assert "3 answers are missing" in view(found).notes[0]
    told = "No verdict: the run is not complete, 3 replies are missing."
    assert view(found).verdicts[0].sentence == told
    assert as_json(found)["complete"] is False
    assert view(found).beside.rows == []


def test_each_variant_is_compared_with_its_own_model_raw_and_with_other_models_raw() -> None:
    small, large = Variant("s raw", "s", "raw"), Variant("l raw", "l", "raw")
    docs, again = Variant("s docs", "s", "rag", ["docs"]), Variant("s raw t=0", "s", "raw", settings={"temperature": 0})
    variants = [small, large, docs, again]
    assert baselines(variants) == {"s docs": "s raw", "s raw t=0": "s raw"}
    cold = Variant("s docs k=3 t=0", "s", "rag", ["docs"], {"k": 3, "temperature": 0})
    assert baselines([*variants, cold])[cold.name] == "s raw t=0"
    assert across(variants) == [("s docs", "l raw")]
    assert across([docs, Variant("s wiki", "s", "rag", ["wiki"])]) == [("s wiki", "s docs")]


def test_other_models_stand_beside_and_are_not_said_to_be_helped(tmp_path: Path) -> None:
    large = Variant("l raw", "l", "raw")
    questions = [made.question(number) for number in range(80)]
    rows = made.replies(made.only_with_the_passage, questions=questions, variants=(RAW, DOCS))
    rows += [made.reply(of, large, f"It is {of.must[0]}.") for of in questions]
    found = report(made.manifest((RAW, DOCS, large)), questions, rows, [])
    shown = view(found)
    assert [card.title for card in shown.verdicts] == ["m rag docs against m raw: it helps"]
    assert [row[:2] for row in shown.beside.rows] == [["m rag docs against l raw", "no better"]]
    assert [one["sentence"].partition(":")[0] for one in as_json(found)["verdicts"]] == ["It helps", "It is no better"]
    assert pages.summary(found, view(found))[-1].startswith("m rag docs against l raw: no better, +0.000")
    pages.write(found, view(found), tmp_path)
    for name in ("report.html", "report.md"):
        assert "Beside other models" in (tmp_path / name).read_text("utf-8")


def test_the_json_has_the_verdict_and_every_question() -> None:
    told = json.loads(orjson.dumps(as_json(report_of(made.harmed_by_it))))
    (verdict,) = told["verdicts"]
    assert verdict["main"]["word"] == "worse"
    assert verdict["sentence"].startswith("It makes the answers worse")
    assert set(told["by_question"][DOCS.name]["score"]) == {f"q{number:03}" for number in range(80)}


class Tags(HTMLParser):
    """The elements of a page, and what would ask a network."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "action", "data")]


HOSTILE = "</div></details><script>alert(1)</script><img src=x onerror=alert(1)> ```\n# heading\n{{ 7*7 }} [x](y) &amp;"


def hostile() -> BenchReport:
    """Everything that a stranger may have written is hostile."""
    asked = [
        Question(f"{HOSTILE}{number}", [{"role": "user", "content": HOSTILE}], reference="right", tags=[HOSTILE])
        for number in range(3)
    ]
    rows: list[Reply] = []
    for of in asked:
        rows.append(made.reply(of, RAW, "right"))
        passage = ShownPassage(HOSTILE, HOSTILE, HOSTILE, "d")
        rag = Rag("augmented", HOSTILE, "rag-1", [HOSTILE], [passage], 5)
        one = made.reply(Question(of.id, of.messages, gold=["x"], must=["x"]), DOCS, HOSTILE)
        rows.append(replace(one, rag=rag))
    rows.append(made.reply(asked[0], RAW, None, repeat=1, error=HOSTILE))
    return report(made.manifest(), asked, rows, [])


def test_nothing_that_was_answered_or_found_becomes_part_of_the_page() -> None:
    found = hostile()
    page = pages.page(found, view(found))
    tags = Tags(page)
    assert {"script", "img"} & set(tags.names) == set()
    assert tags.names.count("h1") == 1
    assert "&lt;script&gt;" in page
    assert "{{ 7*7 }}" in page


def test_the_page_loads_nothing() -> None:
    found = report_of(made.harmed_by_it)
    page = pages.page(found, view(found))
    assert [link for link in Tags(page).links if not link.startswith("#")] == []
    assert re.findall(r"url\((?!#)", page) == []
    assert "@import" not in page
    assert "default-src 'none'" in page
    assert "<svg" in page


def test_plots_show_points_intervals_and_every_question() -> None:
    differences, tags, changes, first, _ = plots_of(report_of(made.only_with_the_passage))
    (row,) = differences.rows
    assert row.label == f"{DOCS.name} against {RAW.name}"
    assert (row.tone, row.value) == ("good", "+1.00 [all alike: +0.91 to +1.00]")
    edge = 1.08 * 1.0
    assert row.high == row.dot == pytest.approx(50 + 50 / edge, abs=0.01)
    assert row.low == pytest.approx(50 + 50 * 0.91 / edge, abs=0.3)
    assert tags.caption.startswith("By tag")
    assert differences.ticks[len(differences.ticks) // 2] == (50, "0")
    (bar,) = changes.bars
    assert (bar.tone, bar.left, bar.width, bar.top, bar.height) == ("good", 0, 100, 0, 50)
    assert [time.value for time in first.rows] == ["200 / 200", "300 / 300"]
    assert [time.dot for time in first.rows] == pytest.approx([200 / 3.24, 100 / 1.08], abs=0.01)
    assert [time.high for time in first.rows] == [time.dot for time in first.rows]
    assert [text for _, text in first.ticks] == ["0", "100", "200", "300"]


def test_markdown_quotes_what_it_shows() -> None:
    text = pages.markdown(view(hostile()))
    outside = re.sub(r"(?ms)^(`{3,})text\n.*?^\1$", "", text)
    assert "<script>" not in outside.replace("\\<script", "")
    assert "\n# heading" not in outside
    assert "````text" in text


def test_the_harmed_come_first_with_both_answers_and_the_passages() -> None:
    found = report_of(made.harmed_by_it)
    (card,) = view(found).verdicts
    assert [said.variant for said in card.worst[0].said] == [RAW.name, DOCS.name]
    assert "9999" in card.worst[0].said[1].answer
    assert card.worst[0].passages
    page = pages.page(found, view(found))
    assert page.index("Harmed: ") < page.index("Every score")


def test_the_same_run_gives_the_same_files(tmp_path: Path) -> None:
    run = Run.read(made.folder(tmp_path / "run", made.harmed_by_it, count=10))
    contents = []
    for _ in range(2):
        rows = list(run.replies().values())
        found = report(run.manifest, run.questions, rows, [])
        files = pages.write(found, view(found), run.folder)
        assert sorted(file.name for file in files) == ["report.html", "report.json", "report.md"]
        contents.append([file.read_bytes() for file in files])
    assert contents[0] == contents[1]


def test_drafted_questions_are_told_and_where_they_are_mixed_counted_apart() -> None:
    questions = [made.question(number) for number in range(20)]
    drafted = [replace(one, drafted={"by": "gpt"}) for one in questions[15:]]

    def shown(asked: list[Question]) -> tuple[BenchReport, str]:
        rows = made.replies(made.only_with_the_passage, questions=asked, variants=(RAW, DOCS))
        found = report(made.manifest(), asked, rows, [])
        return found, "\n".join([*pages.summary(found, view(found)), pages.markdown(view(found))])

    mixed, text = shown([*questions[:15], *drafted])
    about = "Drafted by a model (gpt), not checked by a person: 5 of 20 questions."
    assert text.count(about) == 2
    assert {name: one.change.questions for name, one in mixed.leading[0].origins.items()} == {
        "drafted": 5,
        "written": 15,
    }
    assert "drafted: m rag docs" in text
    assert "- drafted: by a model, not checked by a person" in text
    assert as_json(mixed)["drafted"] == 5
    page = pages.page(mixed, view(mixed))
    assert about in page
    assert "Drafted and written" in page
    _, text = shown(drafted)
    assert "5 of 5 questions" in text
    assert "Drafted and written" not in text
    _, text = shown(questions)
    assert "rafted" not in text


def test_the_terminal_says_where_too_few_questions_tell_what_others_cost() -> None:
    few, enough = (report_of(made.ignoring_the_passage, count=count) for count in (40, 80))
    assert "Too few questions to say what other questions cost: 40 of 72." in "\n".join(pages.summary(few, view(few)))
    assert "Too few" not in next(one.price for one in view(enough).verdicts)


def test_no_number_is_shown_as_a_negative_zero() -> None:
    signed = re.compile(r"""[:"']\+[,.\d]*[fe%]""")
    for folder in ("cli", "evaluation", "proxy", "retrieval"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            assert not signed.findall(file.read_text("utf-8")), f"{file}: a format with + is one with +z"


def told(run: BenchReport) -> str:
    return "\n".join(pages.summary(run, view(run)))


def judged_first(of: Question, order: int) -> Judgement:
    """A judge that always prefers the answer it sees first."""
    return Judgement(
        of.id, DOCS.name, RAW.name, 0, "preference", order, 1.0 - order, "first", "", Tokens(9, 1), 0.0, "judge"
    )


def test_a_judge_that_prefers_a_place_is_told_with_the_judged_preference() -> None:
    questions = [made.question(number) for number in range(80)]
    rows = made.replies(made.only_with_the_passage, questions=questions, variants=(RAW, DOCS))
    judgements = [judged_first(one, order) for one in questions for order in (0, 1)]
    run = report(made.manifest(), questions, rows, judgements)
    assert "of 80 pairs shown in both orders, 80 were judged otherwise" in told(run)
    assert "a judge that prefers a place says little" in told(run)
    assert "judge judges preference: 0.500 before, 0.500 after, +0.000 [" in told(run)


def changed(change: Callable[[Reply], Reply]) -> BenchReport:
    questions = [made.question(number) for number in range(80)]
    rows = made.replies(made.only_with_the_passage, questions=questions, variants=(RAW, DOCS))
    return report(made.manifest(), questions, [change(row) for row in rows], [])


def test_estimated_tokens_make_the_cost_of_a_question_about_so_much() -> None:
    assert "A question costs +100 ms" in told(report_of(made.only_with_the_passage))
    assert "A question costs about +100 ms" in told(
        changed(lambda one: replace(one, usage=replace(one.usage or Tokens(0, 0), estimated=True)))
    )


def test_thoughts_are_scored_as_no_answer_and_told() -> None:
    run = changed(lambda one: replace(one, answer=f"<think>Perhaps {5000 + int(one.question[1:])}?</think>It is 80."))
    (verdict,) = run.leading
    assert verdict.main is not None
    assert (verdict.main.before, verdict.main.after) == (0.0, 0.0)
    assert "80 of 80 answers hold thoughts" in told(run)


def test_answers_of_thoughts_alone_are_empty() -> None:
    run = changed(lambda one: replace(one, answer="<think>I should say 5001, but"))
    assert all(variant.faults == {"empty": 80} for variant in run.variants)


def test_right_answers_that_deny_a_fact_or_repeat_a_passage_are_named() -> None:
    def doubtful(one: Reply) -> Reply:
        port = 5000 + int(one.question[1:])
        passage = " ".join(
            f"Service {n} has the port {5000 + n} on each host." for n in range(port - 5000, port - 4990)
        )
        shown = replace(one.rag, passages=[ShownPassage("a.md", "", passage, "d")] if one.rag.passages else None)
        return replace(one, answer=f"The port is not {port}." if one.variant == RAW.name else passage, rag=shown)

    lines = told(changed(doubtful))
    assert f"{RAW.name}: Right answers to 80 questions have a word of denial before a fact" in lines
    assert f"{DOCS.name}: Right answers to 80 questions repeat a passage" in lines
    assert "q000, q001" in lines
