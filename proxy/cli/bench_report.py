"""ragway bench report, ragway bench diff: what comes after the questions were asked."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

if TYPE_CHECKING:
    from proxy.bench.report import Report

_RUN = click.Path(path_type=Path, exists=True, file_okay=False)


@click.command("report")
@click.argument("folder", metavar="RUN", type=_RUN)
def report_command(folder: Path) -> None:
    """Compute scores and verdicts of a run's folder anew, and write report.html, report.md and report.json into it."""
    write_report(folder)


def write_report(folder: Path) -> None:
    """Write the report of a run's folder into it, and print its verdicts. Raises click.ClickException."""
    from proxy.bench import pages

    made = _read(folder)
    files = pages.write(made, folder)
    for line in pages.summary(made):
        click.echo(line)
    click.echo(f"written: {', '.join(str(file) for file in files)}", err=True)


@click.command("diff")
@click.argument("before", type=_RUN)
@click.argument("after", type=_RUN)
@click.option("--json", "as_json", is_flag=True, help="Print JSON in place of tables.")
@click.option("--markdown", is_flag=True, help="Print the tables as Markdown.")
def diff_command(before: Path, after: Path, as_json: bool, markdown: bool) -> None:
    """Compare two runs, variant by variant and question by question."""
    from proxy.bench import diff

    found = diff.diff(_read(before), _read(after))
    if as_json:
        click.echo(orjson.dumps(diff.as_json(found), option=orjson.OPT_INDENT_2))
    else:
        click.echo(diff.text(found, markdown=markdown), nl=False)


def _read(folder: Path) -> "Report":
    from proxy.bench.judgements import judgements_of
    from proxy.bench.records import BenchError
    from proxy.bench.report import report
    from proxy.bench.runs import Run

    try:
        run = Run.read(folder)
        return report(run.head, run.questions, list(run.replies().values()), judgements_of(folder))
    except BenchError as error:
        raise click.ClickException(str(error)) from error
