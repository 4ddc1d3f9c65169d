"""`ragway bench report` and `ragway bench diff` on folders."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from cli import ragway
from tests.evaluation.answers import made
from tests.support.kept_logging import kept_logging


def bench(*arguments: str | Path) -> Result:
    with kept_logging():
        return CliRunner().invoke(ragway, ["bench", *map(str, arguments)])


def test_report_writes_three_files_and_prints_the_verdicts(tmp_path: Path) -> None:
    folder = made.folder(tmp_path / "run", made.harmed_by_it)
    done = bench("report", folder)
    assert done.exit_code == 0
    assert "m rag docs against m raw: it makes answers worse" in done.stdout
    assert {file.name for file in folder.glob("report.*")} == {"report.html", "report.json", "report.md"}


def test_diff_prints_tables_or_json(tmp_path: Path) -> None:
    before = made.folder(tmp_path / "before", made.only_with_the_passage, count=10)
    after = made.folder(tmp_path / "after", made.harmed_by_it, count=10)
    assert "before: before; after: after" in bench("diff", before, after).stdout
    assert "| ---" in bench("diff", before, after, "--markdown").stdout
    told = json.loads(bench("diff", before, after, "--json").stdout)
    assert [one["variant"] for one in told["variants"]] == ["m raw", "m rag docs"]


def test_a_folder_that_is_no_run_is_one_line(tmp_path: Path) -> None:
    done = bench("report", tmp_path)
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: ")
    assert "is not a run of ragway bench" in done.stderr
    done = bench("report", "nowhere", "--data", tmp_path)
    assert (done.exit_code, done.stderr) == (
        1,
        f"Error: neither nowhere nor {tmp_path}/bench/nowhere is a folder: name the folder of a run\n",
    )


def test_a_run_is_named_by_its_folder_in_the_data_folder(tmp_path: Path) -> None:
    made.folder(tmp_path / "bench" / "mine", made.only_with_the_passage, count=10)
    assert "it helps" in bench("report", "mine", "--data", tmp_path).stdout
    assert "mine" in bench("diff", "mine", "mine", "--data", tmp_path).stdout


def test_a_judge_that_judged_nothing_is_one_line(tmp_path: Path) -> None:
    done = bench("report", made.folder(tmp_path / "run", made.harmed_by_it, count=2), "--judge", "j")
    assert (done.exit_code, done.stderr) == (1, "Error: j has judged nothing of this run; no model has\n")


def test_a_folder_of_drafts_has_no_report(tmp_path: Path) -> None:
    folder = made.folder(tmp_path / "run", made.only_with_the_passage, count=2)
    manifest = json.loads((folder / "run.json").read_text("utf-8"))
    (folder / "run.json").write_text(json.dumps(manifest | {"draft": {"collection": "docs"}}), "utf-8")
    assert "holds drafted questions" in bench("report", folder).stderr
