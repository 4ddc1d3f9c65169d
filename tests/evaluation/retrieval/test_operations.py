"""Questions that find operations of APIs: the names of operations in judgements, and the figures."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.common import knowledge
from config.settings import load
from evaluation.retrieval import judged
from evaluation.retrieval.measure import MeasureOptions, measure
from evaluation.retrieval.results import SetResult
from evaluation.retrieval.tables import set_table
from proxy.apis.library import ActionLibrary, ActionStore
from proxy.apis.specs import read_document, rows_of
from retrieval.errors import RetrievalError
from retrieval.knowledge import Plan, Progress
from tests.evaluation.retrieval.folders import judged_operations, openapi_file
from tests.support.plans import plan_for, silent


def unseen(_what: str, _unit: str) -> Progress:
    return silent


Measure = Callable[..., SetResult]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    data = tmp_path_factory.mktemp("home") / "data"
    data.mkdir()
    return plan_for(data)


@pytest.fixture
def measured(plan: Plan, tmp_path: Path) -> Measure:
    """Measures a folder of questions (default: judgements in two forms) on the API."""

    def work(*qrels: tuple[str, str, int], **how: Any) -> SetResult:
        folder = judged_operations(tmp_path / "zoo", *qrels)
        given = {"specs": (openapi_file(tmp_path / "api.json"),), "rungs": ("hybrid", "configured"), **how}
        return asyncio.run(measure(judged.read(folder), MeasureOptions(plan, tmp_path / "cache", **given), unseen))

    return work


def expected(result: SetResult) -> list[dict[str, int]]:
    return [dict(one.expected) for one in result.rungs[0].answerable]


def test_an_operation_is_judged_by_method_and_path_by_name_or_by_operation_id(measured: Measure) -> None:
    result = measured(("q1", "get_invoices", 1), ("q1", "GET /weather", 2), ("q2", "penguins/list", 1))
    assert expected(result) == [{"api/get_invoices": 1, "api/forecast": 2}, {"api/penguins_list": 1}]


def test_the_higher_grade_of_two_names_of_one_operation_counts(measured: Measure) -> None:
    result = measured(("q1", "forecast", 1), ("q1", "GET /weather", 2))
    assert expected(result) == [{"api/forecast": 2}]


def test_the_right_operations_are_found(measured: Measure) -> None:
    result = measured()
    assert (result.kind, result.origin, result.documents, result.questions) == ("operations", "api.json", 4, 2)
    for rung in result.rungs:
        assert rung.values("hit@5") == {"q1": 1.0, "q2": 1.0}
        assert rung.answerable[1].found[0].id == "api/penguins_list"


def test_the_table_shows_operations_and_how_often_none_is_offered(measured: Measure) -> None:
    title, head, *lines = set_table(measured(), markdown=False, seed=0).splitlines()
    assert title.startswith("zoo: 2 questions, 4 operations (api.json); hash; k = ")
    assert [head.split()[at] for at in (5, 6, 8)] == ["hit@5", "offer", "offer"]
    assert any(line.startswith("nothing offered (as configured): 0 of 2 answerable") for line in lines)


def test_an_operation_that_could_change_something_is_found_but_not_offered(measured: Measure) -> None:
    result = measured(("q1", "drop", 1))
    (outcome,) = result.rungs[0].answerable
    assert "api/drop" in [one.id for one in outcome.found]
    assert "api/drop" not in outcome.injected
    assert (
        result.notes[-1] == "1 of 1 judged operations could change something and are offered to no chat ('api/drop' …)"
    )


def test_k_limits_the_offer_and_not_the_ranking(measured: Measure) -> None:
    (outcome, _, _) = measured(k=1).rungs[0].outcomes
    assert (len(outcome.injected), len(outcome.found)) == (1, 4)


def test_an_unknown_operation_is_an_error(measured: Measure) -> None:
    message = (
        r"zoo: 1 of 2 judged operations are not in api \('GET /nowhere' …\): expected the name or \"METHOD /path\""
    )
    with pytest.raises(RetrievalError, match=message):
        measured(("q1", "GET /nowhere", 1), ("q2", "forecast", 0))


def test_judgements_on_several_documents_name_the_document(measured: Measure, tmp_path: Path) -> None:
    specs = (openapi_file(tmp_path / "a.json"), openapi_file(tmp_path / "b.json"))
    result = measured(("q1", "a/GET /invoices", 1), ("q2", "b/penguins_list", 1), specs=specs)
    assert expected(result) == [{"a/get_invoices": 1}, {"b/penguins_list": 1}]
    assert result.documents == 8
    with pytest.raises(RetrievalError, match=r"are not in a, b \('GET /invoices' …\): expected SET/NAME"):
        measured(("q1", "GET /invoices", 1), specs=specs)


def test_a_document_that_cannot_be_read_is_named(measured: Measure, tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(RetrievalError, match=r"broken\.json: "):
        measured(specs=(tmp_path / "broken.json",))


def test_action_sets_of_the_data_folder_give_the_figures_of_their_documents(
    measured: Measure, plan: Plan, tmp_path: Path
) -> None:
    document = read_document(openapi_file(tmp_path / "api.json").read_bytes())

    async def write() -> None:
        async with knowledge(load(flags={"data": plan.data, "embedder.model": "hash"})) as opened:
            library = ActionLibrary(ActionStore(Path(plan.data)), opened)
            for name in ("api", "other"):
                await library.write(name, rows_of(name, document, "https://api.example.com"))
            library.store.close()

    asyncio.run(write())
    stored = measured(specs=(), action_sets=("api",))
    assert (stored.origin, stored.documents) == ("action set api", 4)
    assert [rung.values("ndcg@10") for rung in stored.rungs] == [rung.values("ndcg@10") for rung in measured().rungs]
    ids = {one.id for rung in stored.rungs for outcome in rung.outcomes for one in outcome.found}
    assert {id.partition("/")[0] for id in ids} == {"api"}
