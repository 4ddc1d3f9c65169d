"""A folder measured from end to end: a real index, real questions, every rung."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest

from evaluation.retrieval import judged
from evaluation.retrieval.compare import against, between, earlier, run_of
from evaluation.retrieval.measure import MeasureOptions, measure
from evaluation.retrieval.results import RungResult, SetResult, as_json, averages, per_query
from evaluation.retrieval.tables import average_table, comparison_table, set_table
from retrieval.embedding.embed import probe
from retrieval.errors import RetrievalError
from retrieval.index.curves import forget_curves, write_curves
from retrieval.index.index import Index
from retrieval.knowledge import Plan, Progress
from retrieval.records.documents import CollectionInfo
from retrieval.search.ranking import Curve
from tests.evaluation.retrieval.folders import CORPUS, judged_folder, write_lines, write_qrels
from tests.support.minilm import hashing
from tests.support.plans import plan_for, silent


def unseen(_what: str, _unit: str) -> Progress:
    return silent


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    data = tmp_path_factory.mktemp("home") / "data"
    data.mkdir()
    return plan_for(data)


Measure = Callable[..., SetResult]


@pytest.fixture(scope="module")
def measured(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> Measure:
    """Measures a folder (default: the small one), with vectors kept from one test to the next."""
    home = tmp_path_factory.mktemp("measured")
    zephyr = judged_folder(home / "zephyr")

    def work(folder: Path | None = None, **how: Any) -> SetResult:
        given = replace(MeasureOptions(plan, home / "cache"), **how)
        return asyncio.run(measure(judged.read(folder or zephyr), given, unseen))

    return work


@pytest.fixture(scope="module")
def result(measured: Measure) -> SetResult:
    return measured()


def there(result: SetResult, name: str) -> RungResult:
    """The rung of that name."""
    rung = result.rung(name)
    assert rung is not None
    return rung


def mean(rung: RungResult) -> float:
    value = rung.mean("ndcg@10")
    assert value is not None
    return value


def left_behind() -> set[Path]:
    return set(Path(gettempdir()).glob("ragway-eval-*"))


def test_every_rung_is_asked_every_question(result: SetResult, plan: Plan) -> None:
    assert (result.name, result.origin, result.documents, result.questions) == ("zephyr", "corpus.jsonl", 5, 3)
    assert result.chunks == 5
    assert [rung.name for rung in result.rungs] == [
        "rank-bm25",
        "bm25",
        "dense",
        "hybrid",
        "rewriting",
        "human",
        "configured",
    ]
    for rung in result.rungs:
        assert [one.id for one in rung.outcomes] == ["q1", "q2", "q3", "u1"]
        assert all(one.ms > 0 for one in rung.outcomes)
        assert rung.outcomes[-1].scores == {}
    hybrid = there(result, "hybrid")
    assert hybrid.outcomes[2].found[0].id == "dog"
    assert hybrid.values("recall@5") == {"q1": 1.0, "q2": 1.0, "q3": 1.0}


def test_questions_in_eight_bits_are_told(
    measured: Measure, result: SetResult, tiny_model: Path, tmp_path: Path
) -> None:
    plan = plan_for(tmp_path, {"embedder.precision": "int8"}, model=str(tiny_model))
    (note,) = set(measured(plan=plan, rungs=("dense",)).notes) - set(result.notes)
    assert "int8" in note


def test_a_curve_that_was_not_measured_with_the_embedder_is_told_and_a_fitted_one_is_used(
    result: SetResult, measured: Measure, plan: Plan
) -> None:
    assert "relevance is estimated by the default embedder's curve; `ragway calibrate` fits another" in result.notes
    embedder = hashing()
    write_curves(Path(plan.data), "hash", probe(embedder), {"both": Curve(1.0, 99.0, 0.0)})
    try:
        fitted = measured(rungs=("hybrid",))
    finally:
        forget_curves(Path(plan.data), "hash", probe(embedder))
    assert "relevance is estimated by the curve that `ragway calibrate` fitted for hash" in fitted.notes
    assert {one.relevance for one in there(fitted, "hybrid").answerable} == {1.0}


def test_what_was_asked_is_what_a_chat_would_have_asked(result: SetResult) -> None:
    asked = {rung.name: rung.outcomes[1] for rung in result.rungs}
    assert {one.asked for one in asked.values()} == {"And with Kotlin?"}
    assert asked["hybrid"].rewritten == "And with Kotlin?"
    assert "Java" in asked["rewriting"].rewritten
    assert asked["rewriting"].rewritten == asked["configured"].rewritten
    assert asked["human"].rewritten == "Which Zephyr driver do Kotlin programs need?"
    assert asked["human"].found[0].id == "kotlin"


def test_a_rung_is_compared_with_the_one_before_it_and_a_reference_passed_over(
    result: SetResult,
) -> None:
    assert [rung.against for rung in result.rungs] == [
        "",
        "rank-bm25",
        "bm25",
        "dense",
        "hybrid",
        "rewriting",
        "rewriting",
    ]
    for rung in result.rungs[1:]:
        before = there(result, rung.against)
        assert rung.change is not None
        assert rung.change.mean == pytest.approx(mean(rung) - mean(before))


def test_a_passage_counts_for_its_document_and_each_document_once(measured: Measure, tmp_path: Path) -> None:
    """A document cut into many passages stands once in the ranking, where its first one stands."""
    folder = judged_folder(tmp_path / "long")
    long = " ".join(f"The office dog Bruno sleeps in room {number} of the house." for number in range(300))
    write_lines(folder / "corpus.jsonl", [*CORPUS[:-1], {"_id": "dog", "title": "Pets", "text": long}])
    result = measured(folder, rungs=("hybrid",))
    assert result.chunks > result.documents == 5
    (hybrid,) = result.rungs
    outcome = hybrid.outcomes[2]
    assert [one.id for one in outcome.found].count("dog") == 1
    assert outcome.injected.count("dog") > 1
    assert outcome.scores["ndcg@10"] == outcome.scores["context_recall"] == 1.0


def test_raw_files_are_measured_by_their_names(measured: Measure, tmp_path: Path) -> None:
    folder = judged_folder(tmp_path / "raw")
    for row in CORPUS:
        page = folder / "docs" / "en" / f"{row['_id']}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f"# {row['title']}\n\n{row['text']}\n", "utf-8")
    write_qrels(folder / "qrels.tsv", [("q1", "en/connect", 1), ("q3", "en/dog", 1)])
    result = measured(folder, rungs=("bm25", "hybrid"))
    assert (result.origin, result.documents, result.questions) == ("docs/", 5, 2)
    assert there(result, "hybrid").values("mrr") == {"q1": 1.0, "q3": 1.0}


def test_an_existing_collection_is_asked_and_stays_as_it_is(measured: Measure, plan: Plan, tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    for row in CORPUS:
        (pages / f"{row['_id']}.md").write_text(f"# {row['title']}\n\n{row['text']}\n", "utf-8")

    async def collections(*paths: Path) -> list[CollectionInfo]:
        index = await Index.open(plan, serving=False)
        try:
            if paths:
                await index.writing.ingest(paths, "mine", silent)
            return await index.library.collections()
        finally:
            await index.close()

    before = asyncio.run(collections(pages))
    result = measured(collection="mine")
    assert (result.origin, result.documents) == ("collection mine", 5)
    assert there(result, "hybrid").values("mrr")["q3"] == 1.0
    assert asyncio.run(collections()) == before


def test_a_collection_that_does_not_exist_is_named(measured: Measure) -> None:
    with pytest.raises(RetrievalError, match="'nowhere'"):
        measured(collection="nowhere")


def test_asked_again_everything_but_the_time_is_the_same(measured: Measure) -> None:
    """Ids, and with them the order of what scores alike, follow from the documents."""
    runs = [measured(timed=timed) for timed in (True, True, False)]
    found = [[[(one.id, one.score) for one in o.found] for r in run.rungs for o in r.outcomes] for run in runs]
    assert found[0] == found[1]
    assert [[id for id, _ in row] for row in found[0]] == [[id for id, _ in row] for row in found[2]]


def test_nothing_is_left_behind_however_it_ends(
    measured: Measure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # another process of the tests may measure at the same time
    before = left_behind()
    measured()
    folder = judged_folder(tmp_path / "broken")
    write_lines(folder / "corpus.jsonl", [{"_id": "a"}])
    with pytest.raises(RetrievalError):
        measured(folder)
    assert left_behind() <= before


def test_a_limit_draws_the_same_questions_for_the_same_seed(measured: Measure) -> None:
    drawn = []
    for seed in (1, 1):
        result = measured(limit=2, seed=seed, rungs=("bm25",))
        drawn.append([one.id for one in result.rungs[0].answerable])
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == 2


def test_k_bounds_what_is_injected_and_not_what_is_ranked(measured: Measure) -> None:
    result = measured(k=1, rungs=("dense",))
    for outcome in result.rungs[0].outcomes:
        assert len(outcome.injected) == 1
        assert len(outcome.found) == 5


def test_json_and_per_query_say_all_and_both_can_be_compared_with(result: SetResult, tmp_path: Path) -> None:
    whole, rows = tmp_path / "run.json", tmp_path / "rows.jsonl"
    whole.write_text(json.dumps(as_json([[result]], seed=0)), "utf-8")
    write_lines(rows, per_query([result]))
    row = json.loads(rows.read_text("utf-8").splitlines()[0])
    assert {"set", "rung", "embedder", "asked", "rewritten", "found", "expected", "injected", "scores"} <= set(row)
    assert row["expected"] == {"connect": 2, "tls": 1}
    for file in (whole, rows):
        compared = against(earlier(file), run_of([result]), seed=0)
        assert [one.rung for one in compared if one.metric == "ndcg@10"] == [rung.name for rung in result.rungs]
        assert all(one.change.mean == one.better == one.worse == 0 for one in compared)
    document = json.loads(whole.read_text("utf-8"))
    (of_set,) = document["sets"]
    hybrid = next(rung for rung in of_set["rungs"] if rung["name"] == "hybrid")
    assert hybrid["metrics"]["ndcg@10"] == pytest.approx(there(result, "hybrid").mean("ndcg@10"))
    assert hybrid["nothing_injected"]["unanswerable"]["questions"] == 1
    assert len(document["average"]) == len(result.rungs)


def test_tables_show_every_rung_and_metric_in_both_forms(result: SetResult) -> None:
    text, page = (set_table(result, markdown=markdown, seed=0) for markdown in (False, True))
    for rung in result.rungs:
        assert f"\n{rung.label} " in text
        assert f"| {rung.label} | " in page
    assert "nDCG@10" in text
    assert "hybrid to its better arm" in text
    assert "nothing injected (as configured):" in text
    assert "of 1 unanswerable" in text
    (rule,) = [line for line in page.splitlines() if line.startswith("| --- |")]
    cells = {line.count(" | ") for line in page.splitlines() if line.startswith("|")}
    assert cells == {rule.count(" | ")}
    other = replace(result, name="other")
    several = averages([result, other], seed=0)
    assert [one.sets for one in several] == [2] * len(result.rungs)
    assert "Average of 2 sets: zephyr, other" in average_table(several, [result, other], markdown=False)


def test_two_embedders_are_compared_on_what_asks_vectors(measured: Measure, result: SetResult, plan: Plan) -> None:
    worse = replace(plan.embedding, query_prompt="The office dog is called Bruno. Is the office dog called Bruno? ")
    first, second = result, measured(plan=replace(plan, embedding=worse))
    rows = between([first], [second], seed=0)
    assert {row.rung for row in rows} == {"dense", "hybrid", "rewriting", "human", "configured"}
    dense = next(row for row in rows if (row.rung, row.metric) == ("dense", "ndcg@10"))
    assert dense.before > dense.after
    assert "nothing to compare" in comparison_table("", between([first], [], seed=0), markdown=False)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"a": 1}', '{"ragway_eval": 99, "sets": []}', '{"set": "a"}\n'])
def test_a_file_that_is_no_earlier_run_is_named(text: str, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(text, "utf-8")
    with pytest.raises(RetrievalError, match=r"run\.json is not a file of `ragway eval` --json or --per-query"):
        earlier(file)


def test_an_earlier_run_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(RetrievalError, match=r"nowhere\.json cannot be read"):
        earlier(tmp_path / "nowhere.json")
