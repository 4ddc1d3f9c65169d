"""The benchmark of stages: the questions that it makes, its sums, and a run on small sets of its own."""

import json
from pathlib import Path
from pkgutil import resolve_name

import pytest

from benchmarks.retrieval.docstrings import write as write_docstrings
from benchmarks.retrieval.stages import IDENTIFIERS, JUDGED, PAIRS, STAGES, Loss, Stage, named, page, paired
from evaluation.retrieval.judged import JudgedQuestion, JudgedSet
from retrieval.records.documents import Document
from retrieval.records.search import Turn
from tests.benchmarks.test_actions import judged as write_operations
from tests.benchmarks.test_actions import printed

OLD = (Turn("user", "How do I pay?"), Turn("assistant", "By card."))


def asked(text: str, *gold: str, before: tuple[Turn, ...] = (), rewrite: str = "") -> JudgedQuestion:
    return JudgedQuestion(text, (*before, Turn("user", text)), rewrite, dict.fromkeys(gold, 1))


def judged(*questions: JudgedQuestion) -> JudgedSet:
    return JudgedSet("a", Path("a"), questions, (), ())


def test_two_questions_that_stand_alone_are_one_message() -> None:
    following = asked("And there?", "c", before=OLD)
    rewritten = asked("And here?", "b", before=OLD, rewrite="How do I pay in the shop here?")
    one, other = paired(judged(asked("what is sold in the shop .", "a"), following, rewritten), limit=9)
    texts = {
        "what is sold in the shop? How do I pay in the shop here?",
        "How do I pay in the shop here? what is sold in the shop?",
    }
    assert {one.text, other.text} == texts
    assert one.gold == other.gold == {"a": 1, "b": 1}
    assert paired(judged(following, rewritten), limit=9) == []


def test_an_identifier_of_few_documents_is_asked_for() -> None:
    texts = ["Set max_pool_size to 5.", "Call open_door() often.", *["Call close_door() now."] * 4]
    documents = [Document(f"{n}", "", text, "text", 0.0) for n, text in enumerate(texts)]
    found = {one.text: one.gold for one in named(judged(asked("?", "0")), documents, limit=9)}
    assert found == {"What is max_pool_size?": {"0": 1}, "What is open_door?": {"1": 1}}


def test_the_mean_gives_each_set_the_same_weight() -> None:
    few = Loss("exact match", JUDGED, "few", [(1.0, 1.0, 1.0)], [(0.5, 1.0, 1.0)], 1)
    many = Loss("exact match", JUDGED, "many", [(0.5, 0.5, 0.5)] * 3, [(0.5, 0.5, 0.5)] * 3, 0)
    lines = page([few, many]).splitlines()
    assert lines[0] == "## exact match: judged"
    assert lines[4].startswith("| few | 1 | 1 | 1.000 | +0.500 [")
    assert lines[6].startswith("| mean of 2 sets | 4 | 1 |  | +0.250 [")
    assert lines[7] == "| one set left out |  |  |  | +0.000 to +0.500 | +0.000 to +0.000 | +0.000 to +0.000 |"


@pytest.fixture
def keepers(tmp_path: Path) -> Path:
    rows = [
        {"_id": f"{n}", "text": f"The {one} is about get_{one}() and its keeper."}
        for n, one in enumerate(("cat", "dog"))
    ]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    texts = [{"_id": f"{n}", "text": f"Who keeps the {one} at home?"} for n, one in enumerate(("cat", "dog"))]
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts))
    (tmp_path / "qrels.tsv").write_text("0\t0\t1\n1\t1\t1\n")
    return tmp_path


def test_a_run_leaves_out_each_stage_of_documents(keepers: Path) -> None:
    heads = [line for line in printed("stages.py", str(keepers), folder=keepers) if line.startswith("## ")]
    kinds = [f"## {stage.name}: {kind}" for stage in STAGES if not stage.of_operations for kind in stage.kinds]
    assert sorted(heads) == sorted(kinds)
    assert {PAIRS, IDENTIFIERS} <= {head.partition(": ")[2] for head in heads}


def test_a_run_takes_other_values_of_a_setting_and_of_a_constant(keepers: Path) -> None:
    values = ("--instead", "rrf_k=5,60", "--instead", "retrieval.search.ranking._MATCH_WORTH=9.0", "--limit", "0")
    lines = printed("stages.py", str(keepers), *values, folder=keepers)
    assert [line for line in lines if line.startswith("## ")] == [
        f"## {name}: judged" for name in ("rrf_k = 5", "rrf_k = 60", "_MATCH_WORTH = 9.0")
    ]


def test_a_docstring_that_one_definition_has_asks_for_its_file(tmp_path: Path) -> None:
    code = tmp_path / "package" / "shop.py"
    code.parent.mkdir()
    same, short = '"""Say it as it is."""', '"""Pay."""'
    code.write_text(
        f'class Shop:\n    """Where cats of every colour are sold.\n\n    é"""\n    def pay(self): {short}\n'
        f"    def a(self): {same}\n    def b(self):\n        {same}\n"
    )
    out = tmp_path / "out"
    assert write_docstrings(out, [code.parent], limit=9) == 1
    assert json.loads((out / "queries.jsonl").read_text())["text"] == "Where cats of every colour are sold."
    assert (out / "qrels.tsv").read_text() == "0\tpackage/shop.py\t1"
    left = (out / "docs" / "package" / "shop.py").read_text()
    assert (
        left
        == f"class Shop:\n    ...\n    def pay(self): {short}\n    def a(self): ...\n    def b(self):\n        ...\n"
    )


def test_without_producers_an_operation_comes_alone(tmp_path: Path) -> None:
    paths: dict[str, object] = {
        "/person/{person_id}/credits": {"get": {"summary": "Films of an actor", "parameters": [
            {"name": "person_id", "in": "path", "required": True, "schema": {"type": "string"}}]}},
        "/search/person": {"get": {"summary": "Look up", "parameters": [{"name": "query", "in": "query"}]}},
    }  # fmt: skip
    write_operations(tmp_path, paths, "films of an actor", "GET /search/person")
    lines = printed("stages.py", str(tmp_path), "--operations", "--stages", "producers", folder=tmp_path)
    assert lines[0] == "## producers: judged"
    assert float(lines[-1].split(" | ")[3]) > 0
    assert lines[-1].split(" | ")[4].startswith("+")


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: str(stage.name))
def test_what_a_stage_replaces_is_there(stage: Stage) -> None:
    assert callable(resolve_name(stage.function))
