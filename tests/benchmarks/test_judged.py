"""The comparison of a judged set's forms: what it asks for, and what its table says."""

from pathlib import Path

from benchmarks.documents.judged import asked_headings, pooled, relevant, report


def test_what_the_questions_ask_for_is_relevant(tmp_path: Path) -> None:
    (tmp_path / "docs" / "java").mkdir(parents=True)
    files = [tmp_path / "docs" / "java" / f"{number}.md" for number in range(9)]
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tjava/7\t1\n")
    assert relevant(tmp_path, files) == [files[7]]


def _form(name: str, **scores: float) -> dict[str, object]:
    rung = {"name": "bm25", "scores": {id: {"ndcg@10": score} for id, score in scores.items()}}
    return {"name": name, "documents": 2, "chunks": 9, "notes": [], "rungs": [rung]}


def test_the_table_names_the_loss_and_the_questions_that_differ() -> None:
    shown = report({"sets": [_form("markdown", q1=1.0, q2=0.5), _form("docx", q1=0.75, q2=0.5)]})
    assert "| docx | bm25 | 2 | 9 | 0.625 | -0.125 (-0.250 to +0.000) | – | – | q1 -0.25 |" in shown


def test_several_sets_are_one_with_all_questions() -> None:
    one = {"sets": [_form("markdown", q1=1.0, q2=0.5), _form("docx", q1=0.75, q2=0.5)]}
    other = {"sets": [_form("markdown", q1=0.5), _form("docx", q1=0.5)]}
    shown = report(pooled({"one": one, "other": other}))
    assert "| docx | bm25 | 4 | 18 | 0.583 | -0.083 (-0.250 to +0.000) | – | – | q1, one -0.25 |" in shown


def test_headings_of_one_page_are_asked_and_comments_in_code_are_not(tmp_path: Path) -> None:
    for name, text in (("a", "# A\n\n## Overview\n\n## Sort\n"), ("b", "## Overview\n\n```\n## Comment\n```\n")):
        (tmp_path / "java").mkdir(exist_ok=True)
        (tmp_path / "java" / f"{name}.md").write_text(text)
    assert asked_headings(tmp_path, sorted(tmp_path.rglob("*.md")), 9) == {"Sort": "java/a"}
