"""Does `ragway bench` report the truth about models with known behaviour, on your own pages and questions?

    python benchmarks/verdicts/verdicts.py PAGES [--judged DIR] [--chats FILE] [--gaps N] [--folder DIR]

PAGES is a folder of Markdown. The questions come from the pages (sentences with a gap), from a judged set in BEIR's
form whose ids are the paths of pages, and from a YAML file of conversations. The pages become a collection. The command
asks four models every question raw and with passages, through a real gateway and a scripted upstream:

    reader    repeats a page's fact only if the prompt contains the passage
    deaf      answers half of the questions, with or without passages
    misled    knows everything, but answers half of the questions wrong if the prompt contains passages
    dice      is right by chance, one time in two

Each model records its answers. The verdicts, and the helped and harmed questions, must agree with the record.
"""

import argparse
import contextlib
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common.output import say, table
from benchmarks.common.processes import ROOT, Unmeasurable, environment
from benchmarks.verdicts.questions import Known, chats, conversation, gaps, judged
from tests.support.completions import asked_of, streamed
from tests.support.recording_upstream import recording
from tests.support.upstream_servers import Received, Wire

COLLECTION = "pages"
LOST = "I do not know."
DUE: Mapping[str, Sequence[str]] = {
    "reader": ("better",), "deaf": ("no better",), "misled": ("worse",), "dice": ("no better", "undecided"),
}  # fmt: skip
_PRICE = "0.15,0.6"


@dataclass(slots=True)
class Models:
    """The scripted models, and whether each was right: (model, question) -> by whether passages were in front."""

    known: Mapping[str, Known]  # by the conversation
    right: dict[tuple[str, str], dict[bool, bool]] = field(default_factory=lambda: defaultdict(dict))

    async def answer(self, wire: Wire, received: Received) -> None:
        """Reply to one request."""
        body = asked_of(received)
        messages = body["messages"]
        # the gateway puts passages in the system message
        passages = messages[0]["content"] if messages[0]["role"] == "system" else ""
        known = self.known[conversation(messages[1:] if passages else messages)]
        right = is_right(body["model"], known, passages)
        self.right[body["model"], known.question.id][bool(passages)] = right
        said = known.right if right else LOST
        usage = {"prompt_tokens": len(json.dumps(messages)) // 4, "completion_tokens": len(said) // 4 + 1}
        await wire.send(streamed(said[:8], said[8:], usage=usage))

    def changes(self, model: str) -> dict[str, int]:
        """Question -> 1: passages helped, -1: passages harmed, 0: no change (also without passages)."""
        asked = {question: by for (one, question), by in self.right.items() if one == model}
        return {question: by.get(True, by[False]) - by[False] for question, by in asked.items()}


def is_right(model: str, known: Known, passages: str) -> bool:
    """Whether a model answers a question rightly with these passages; "": no passages."""
    if model == "reader":
        return not known.evidence or any(each in passages for each in known.evidence)
    if model == "misled":
        return not passages or _coin(known.question.id)
    return _coin(known.question.id) if model == "deaf" else _coin(f"{known.question.id} {bool(passages)}")


def _coin(text: str) -> bool:
    return hashlib.blake2b(text.encode(), digest_size=1).digest()[0] % 2 == 0


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on one model, and whether the verdict is right."""

    row: Sequence[str]
    wrong: Sequence[str]


def findings(report: Mapping[str, Any], models: Models) -> list[Finding]:
    """The report's verdicts compared with the truth."""
    by_name = {one["variant"]["name"]: one for one in report["variants"]}
    own = {one["variant"].partition(" ")[0]: one for one in report["verdicts"] if one["own"]}
    return [_finding(model, own[model], by_name[own[model]["variant"]], models.changes(model)) for model in DUE]


def _finding(model: str, verdict: Mapping[str, Any], variant: Mapping[str, Any], true: Mapping[str, int]) -> Finding:
    main = verdict["main"]
    change = main["change"]
    wrong = [] if main["word"] in DUE[model] else [f"{model}: {main['word']} is not {' or '.join(DUE[model])}"]
    for what, sign in (("helped", 1), ("harmed", -1)):
        due = {question for question, each in true.items() if each == sign}
        if due != set(main[what]):
            wrong.append(f"{model}: {what} are {len(main[what])} questions, true are {len(due)}")
    spent, more = variant["costs"]["spent"], verdict["more"]
    row = [
        model, main["word"], f"{main['before']:.3f}", f"{main['after']:.3f}",
        f"{change['mean']:+.3f} [{change['low']:+.3f}, {change['high']:+.3f}]",
        *(str(len(main[part])) for part in ("harmed", "unchanged", "helped")), f"{main['detectable']:.2f}",
        f"{spent['injected']['mean']:.0f}" if "injected" in spent else "", f"{more['first_ms']['mean']:+.1f}",
        f"{more['cost_usd']['mean']:+.6f}",
    ]  # fmt: skip
    return Finding(row, wrong)


def told(found: Sequence[Finding], report: Mapping[str, Any]) -> str:
    """The table, and the retrieval scores."""
    head = ("model", "verdict", "raw", "with passages", "difference", "harmed", "unchanged", "helped", "detectable",
            "injected tokens", "first token, ms", "$ a question")  # fmt: skip
    reader = next(one for one in report["variants"] if one["variant"]["name"].startswith("reader rag"))
    scores = ", ".join(
        f"{name} {reader['scores'][name]:.3f}" for name in ("context_precision", "context_recall", "ndcg")
    )
    tags = next(one for one in report["verdicts"] if one["own"] and one["variant"] == reader["variant"]["name"])["tags"]
    by_tag = ", ".join(f"{tag}: {one['word']} ({one['change']['questions']})" for tag, one in tags.items())
    return f"{table(head, [one.row for one in found])}\nretrieval: {scores}\n\nreader by tag: {by_tag}\n"


def measured(known: Sequence[Known], pages: Path, folder: Path) -> tuple[Mapping[str, Any], Models]:
    """The report of the run, and the models with their records."""
    models = Models({one.asked: one for one in known})
    run, file = folder / f"run-{time.strftime('%H%M%S')}", folder / "questions.jsonl"
    file.write_text("".join(json.dumps(one.row) + "\n" for one in known), "utf-8")
    with recording() as upstream:
        upstream.answer = models.answer
        rows = "".join(f"  {name}: {{api_base: '{upstream.url}/v1'}}\n" for name in DUE)
        (folder / "ragway.yaml").write_text(f"models:\n{rows}", "utf-8")
        _ragway(folder, "ingest", str(pages), "--collection", COLLECTION)
        asked = [part for name in DUE for part in ("--model", name, "--price", f"{name}={_PRICE}")]
        begun = time.monotonic()
        _ragway(folder, "bench", str(file), *asked, "--collection", COLLECTION, "--run", str(run), "--yes")
        say(f"{len(upstream.requests)} requests and the report in {time.monotonic() - begun:.0f} s: {run}/report.html")
    report: Mapping[str, Any] = json.loads((run / "report.json").read_text("utf-8"))
    return report, models


def _ragway(folder: Path, *command: str) -> None:
    """Run a command of ragway in a folder. Raises Unmeasurable."""
    done = subprocess.run(
        [sys.executable, "-m", "cli", *command, "--data", str(folder / "data")],
        check=False,
        cwd=folder,
        env=environment({"PYTHONPATH": str(ROOT)}),
        stdout=sys.stderr,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        raise Unmeasurable(f"ragway {command[0]} failed (see above)")


def main() -> int:
    """Run, report and compare with the truth; exit code 1: a wrong verdict."""
    options = argparse.ArgumentParser(description="Whether ragway bench says the truth of models whose truth is known.")
    options.add_argument("pages", type=Path, help="a folder of Markdown")
    options.add_argument("--judged", type=Path, metavar="DIR", help="a judged set in BEIR's form on these pages")
    options.add_argument("--chats", type=Path, metavar="FILE", help="conversations: name, expectation, messages")
    options.add_argument("--gaps", type=int, default=100, help="sentences with a gap, at most (default: 100)")
    options.add_argument("--folder", type=Path, help="where all of it is kept (default: nowhere)")
    wanted = options.parse_args()
    known = [
        *(judged(wanted.judged) if wanted.judged else ()),
        *(chats(wanted.chats) if wanted.chats else ()),
        *gaps(wanted.pages, wanted.gaps),
    ]
    with contextlib.ExitStack() as stack:
        folder = wanted.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        try:
            report, models = measured(known, wanted.pages.resolve(), folder.resolve())
        except Unmeasurable as error:
            say(str(error))
            return 2
    found = findings(report, models)
    print(told(found, report))
    wrong = [text for one in found for text in one.wrong]
    say("\n".join(wrong) or f"every verdict on {len(known)} questions is due")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
