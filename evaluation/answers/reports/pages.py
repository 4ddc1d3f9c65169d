"""Writes a report to report.json, report.md and report.html, one page without scripts and network access.

Answers and passages are untrusted text: the page escapes everything, its policy forbids scripts and downloads, and
Markdown quotes texts in fences that they cannot close.
"""

import re
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import orjson

from evaluation.answers.question_file import about_drafted
from evaluation.answers.reports.plots import plots_of
from evaluation.answers.reports.report import BenchReport, as_json
from evaluation.answers.reports.view import ChangedQuestion, ReportView, VerdictCard, failures
from evaluation.answers.run_folder import write_atomically
from evaluation.text_tables import table

_AT_ONCE = 8  # changed questions visible before "show all"
_FENCE = re.compile(r"`{3,}")
_MARKS = re.compile(r"[\\`*_<>#!~]|\](?=[(\[:])")


def write(report: BenchReport, shown: ReportView, folder: Path) -> list[Path]:
    """Write all three files, each whole or not at all. Raises OSError."""
    contents = {
        "report.json": orjson.dumps(as_json(report), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE),
        "report.md": markdown(shown).encode("utf-8", "replace"),
        "report.html": page(report, shown).encode("utf-8", "replace"),
    }
    for name, content in contents.items():
        write_atomically(folder / name, content)
    return [folder / name for name in contents]


def summary(report: BenchReport, shown: ReportView) -> list[str]:
    """Failures, then one or two lines per verdict, for a terminal."""
    lines = failures(report) + [
        line
        for verdict in shown.verdicts
        for line in (
            verdict.title,
            *(f"    {text}" for text in (verdict.sentence, *verdict.judged, verdict.counts, verdict.price) if text),
        )
    ]
    lines += [f"{compared}: {word}, {change}" for compared, word, _, _, change, *_ in shown.beside.rows]
    about = about_drafted(report.questions.values())
    return [*lines, about] if about else lines


def page(report: BenchReport, shown: ReportView) -> str:
    """One whole page."""
    from jinja2 import Environment

    text = Path(__file__).with_name("page.html").read_text("utf-8")
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(text)
    parts = {field.name: getattr(shown, field.name) for field in fields(shown)}
    return template.render(**parts, plots=plots_of(report), at_once=_AT_ONCE)


def markdown(shown: ReportView) -> str:
    """The same without plots."""
    parts = [f"# {_line(shown.title)}", _line(shown.about), *(f"> {_line(note)}" for note in shown.notes), "## Verdict"]
    for one in shown.verdicts:
        judged = map(_line, one.judged)
        parts += [
            f"### {_line(one.title)}",
            _line(one.sentence),
            *judged,
            one.counts,
            one.price,
        ]
    for one in shown.verdicts:
        parts += _changed("Harmed", one, one.worst_of, one.worst)
    for section in (shown.beside, *shown.tables) if shown.beside.rows else shown.tables:
        rows = [[_line(cell) for cell in row] for row in section.rows]
        parts += [
            f"## {section.title}",
            _line(section.text),
            table("", section.head, rows, [], markdown=True).removeprefix("****").strip(),
        ]
    for one in shown.verdicts:
        parts += _changed("Helped", one, one.best_of, one.best)
    parts += ["## How to read this", shown.reading]
    return "\n\n".join(part for part in parts if part) + "\n"


def _changed(what: str, card: VerdictCard, of: str, rows: Sequence[ChangedQuestion]) -> list[str]:
    if not rows:
        return []
    parts = [f"## {what}: {_line(card.title)}", of]
    for each in rows:
        parts += [f"### {each.change} {_line(each.id)}", _fenced(each.asked)]
        parts += ["\n".join(f"- {name}: {_line(text)}" for name, text in each.known)]
        for said in each.said:
            parts += [f"**{_line(said.variant)}** ({said.scores})", _fenced(said.answer)]
        for number, passage in enumerate(each.passages or (), 1):
            parts += [f"[{number}] {_line(passage.title)} ({_line(passage.source)})", _fenced(passage.text)]
        if each.passages is None:
            parts.append("The passages are not known: no receipt was kept.")
    return parts


def _line(text: str) -> str:
    """Text on one line, escaped for Markdown and HTML."""
    return _MARKS.sub(r"\\\g<0>", " ".join(text.split()))


def _fenced(text: str) -> str:
    """Text in a fence longer than any fence inside."""
    fence = "`" * max(3, 1 + max((len(ticks) for ticks in _FENCE.findall(text)), default=0))
    return f"{fence}text\n{text.strip()}\n{fence}"
