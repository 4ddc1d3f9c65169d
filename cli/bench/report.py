"""ragway bench report, ragway bench diff: results of finished runs."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from cli.bench.shared import FAILURES
from cli.common import echo, echo_json, errors_as, settings_of
from cli.options import options
from config.sections import Settings

if TYPE_CHECKING:  # imported on use
    from evaluation.answers.reports.report import BenchReport

Made = TypeVar("Made")


@click.command("report")
@click.argument("run", metavar="RUN")
@click.option("--judge", metavar="MODEL", help="Judge model whose judgements count (default: the latest judge).")
@options
def report_command(run: str, judge: str | None, config_file: Path | None, data: str | None) -> None:
    """Compute scores and verdicts of a run again, and write report.html, report.md and report.json into the run's
    folder.

    RUN is the folder of the run, or a name in bench/ of the data folder. Exit codes: see `ragway bench run`. An
    incomplete run has no verdict.
    """
    folder = folder_of(run, lambda: settings_of(config_file, data=data))
    sys.exit(code_of_report(write_report(folder, judge=judge)))


def folder_of(run: str, settings: Callable[[], Settings]) -> Path:
    """A run's folder, by path or by name in the data folder. Raises click.ClickException."""
    folder = Path(run)
    if folder.is_dir():
        return folder
    named = Path(settings().data) / "bench" / run
    if not named.is_dir():
        raise click.ClickException(f"neither {folder} nor {named} is a folder: name the folder of a run")
    return named


def write_report(folder: Path, *, judge: str | None = None) -> "BenchReport":
    """Write a report into a run's folder and print its verdicts. Raises click.ClickException."""
    from evaluation.answers.reports import pages
    from evaluation.answers.reports.report import report
    from evaluation.answers.reports.view import view

    made = _read(report, folder, judge)
    shown = view(made)
    files = pages.write(made, shown, folder)
    for line in pages.summary(made, shown):
        echo(line)
    click.echo(f"written: {', '.join(str(file) for file in files)}", err=True)
    return made


def code_of_report(made: "BenchReport") -> int:
    """The exit code of a command that wrote a report."""
    if made.unasked:
        return 1
    return FAILURES if made.many_failures else 0


@click.command("diff")
@click.argument("before")
@click.argument("after")
@click.option("--json", "as_json", is_flag=True, help="Print JSON in place of tables.")
@click.option("--markdown", is_flag=True, help="Print the tables as Markdown.")
@options
def diff_command(
    before: str, after: str, as_json: bool, markdown: bool, config_file: Path | None, data: str | None
) -> None:
    """Compare two runs: verdicts, changed settings, and the questions that went from right to wrong and back.

    BEFORE and AFTER are folders of runs, or names in bench/ of the data folder.
    """
    from evaluation.answers.reports import diff
    from evaluation.answers.reports.report import measured

    folders = [folder_of(run, lambda: settings_of(config_file, data=data)) for run in (before, after)]
    found = diff.diff(*(_read(measured, folder) for folder in folders))
    if as_json:
        echo_json(diff.as_json(found))
    else:
        echo(diff.text(found, markdown=markdown), nl=False)


def _read(make: Callable[..., Made], folder: Path, judge: str | None = None) -> Made:
    """Apply `make` to what a run's folder contains. Raises click.ClickException."""
    from evaluation.answers.judges.judgement_files import attempts
    from evaluation.answers.records import BenchError
    from evaluation.answers.run_folder import Run

    with errors_as(click.ClickException, BenchError):
        run = Run.read_answers(folder)
        replies = list(run.replies().values())
        return make(run.manifest, run.questions, replies, list(attempts(folder)), judge=judge)
