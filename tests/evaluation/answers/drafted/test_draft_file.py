"""Replies to the file that a person edits: every question written once, and nothing of theirs touched."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from config.settings import PROMPTS
from evaluation.answers.drafted import drafts
from evaluation.answers.drafted.draft_file import FILE, DraftFile
from evaluation.answers.drafted.drafts import PLACES, asking
from evaluation.answers.prompts import PromptTemplate
from evaluation.answers.question_file import read
from evaluation.answers.records import BenchError, Question, Rag, Reply, ShownPassage, Variant
from evaluation.answers.run_folder import JsonLinesFile, Run, RunManifest

PROMPT = PromptTemplate.read(PROMPTS / "draft.txt", PLACES)
PASSAGES = [
    ShownPassage(f"{n}.md", f"Service {n}", f"Service {n} listens on port {5000 + n}.", f"d{n}") for n in range(4)
]
ASKED = [asking(passage, "docs", PROMPT) for passage in PASSAGES]
DRAFTS = Variant("m drafts docs", "m", "raw")


def begun(folder: Path) -> Run:
    return Run.create(folder / "run", RunManifest("r", 0.0, "q.jsonl", None, 1, 0, [DRAFTS], draft={"count": 4}), ASKED)


def reply(number: int, answer: str | None = None, *, error: str | None = None, finish: str = "stop") -> Reply:
    """A model's reply about a passage: by default a good one."""
    good = {
        "question": f"Where is service {number} to be reached?",
        "reference": f"On port {5000 + number}.",
        "facts": [str(5000 + number)],
    }
    return Reply(
        ASKED[number].id,
        DRAFTS.name,
        0,
        1_700_000_000.0,
        200 if error is None else 400,
        json.dumps(good) if answer is None else answer,
        finish,
        error,
        Rag(),
        None,
        None,
        None,
        None,
        {},
        {},
        "",
    )


def kept(run: Run, *replies: Reply) -> None:
    """Have replies in the folder, as if a crash had come before they were looked at."""
    with JsonLinesFile(run.replies_path()) as lines:
        for each in replies:
            lines.append(each)


def drafted(run: Run, out: Path, replies: Sequence[Reply] = ()) -> str:
    with DraftFile(run, out) as drafting:
        for each in replies:
            kept(run, each)
            drafting.take(each)
        return drafting.describe()


def numbers(out: Path) -> list[int]:
    """The passages whose questions are in a file."""
    return [int(question.gold[0].removesuffix(".md")) for question in read(out)]


def test_a_question_is_written_as_the_bench_reads_it_and_marked(tmp_path: Path) -> None:
    run, out = begun(tmp_path), tmp_path / "q.jsonl"
    assert drafted(run, out, [reply(1)]) == f"{out}: 1 questions drafted of 1 passages"
    (question,) = read(out)
    assert question == Question(
        ASKED[1].id,
        ({"role": "user", "content": "Where is service 1 to be reached?"},),
        "On port 5001.",
        ("5001",),
        gold=("1.md",),
        drafted={"by": "m", "at": "2023-11-14T22:13:20+00:00", "passage": PASSAGES[1].text},
    )


def test_what_is_dropped_is_counted_by_its_reason(tmp_path: Path) -> None:
    again = json.dumps({"question": "where is Service 0 to be reached", "reference": "5001", "facts": ["5001"]})
    given = [reply(0), reply(1, again), reply(2, "{", finish="length"), reply(3, error="400: no")]
    told = drafted(begun(tmp_path), tmp_path / "q.jsonl", given)
    assert "1 questions drafted of 4 passages" in told
    for why in (drafts.ALIKE, drafts.CUT_OFF, "the model refused: 400: no"):
        assert f"  1 dropped: {why}" in told
    assert numbers(tmp_path / "q.jsonl") == [0]


def test_what_a_person_changed_took_out_or_added_stays_as_it_is(tmp_path: Path) -> None:
    run, out = begun(tmp_path), tmp_path / "q.jsonl"
    drafted(run, out, [reply(0), reply(1)])
    first, _ = out.read_text("utf-8").splitlines()
    mine = first.replace("to be reached", "listening") + '\n\n{"question": "Mine?", "gold": ["9.md"]}'
    out.write_text(mine, "utf-8")
    kept(run, reply(2))
    drafted(run, out, [reply(3)])
    assert out.read_text("utf-8").startswith(mine + "\n")
    assert numbers(out) == [0, 9, 2, 3]
    assert read(out)[0].messages[0]["content"] == "Where is service 0 listening?"


def test_a_file_that_is_gone_is_written_anew_from_the_replies(tmp_path: Path) -> None:
    run, out = begun(tmp_path), tmp_path / "q.jsonl"
    drafted(run, out, [reply(0), reply(1, "no"), reply(2)])
    before = out.read_bytes()
    out.unlink()
    assert "1 dropped" in drafted(run, out)
    assert out.read_bytes() == before


@pytest.mark.parametrize("left", [0, 1, 30, -1, None])
def test_after_a_crash_within_a_line_the_line_stands_once(left: int | None, tmp_path: Path) -> None:
    """left: how much of the last line is on the disk; None: all of it, and only the folder does not know."""
    run, out = begun(tmp_path), tmp_path / "q.jsonl"
    drafted(run, out, [reply(0), reply(1)])
    whole = out.read_bytes()
    first, last = whole.splitlines(keepends=True)
    out.write_bytes(first + last[:left])
    log = run.folder / FILE
    log.write_bytes(log.read_bytes().splitlines(keepends=True)[0])
    drafted(run, out)
    assert out.read_bytes() == whole


def test_an_editor_that_ends_no_line_loses_none_while_it_runs(tmp_path: Path) -> None:
    run, out = begun(tmp_path), tmp_path / "q.jsonl"
    with DraftFile(run, out) as drafting:
        drafting.take(reply(0))
        other = tmp_path / "saved"
        other.write_bytes(out.read_bytes().rstrip(b"\n"))
        other.replace(out)
        drafting.take(reply(1))
    assert numbers(out) == [0, 1]


def test_a_line_that_cannot_be_read_is_told_before_anything_is_asked_and_lost_no_reply(tmp_path: Path) -> None:
    run, out = begun(tmp_path), tmp_path / "q.jsonl"
    drafted(run, out, [reply(0)])
    kept(run, reply(1))
    whole = out.read_text("utf-8")
    out.write_text(whole + "{half", "utf-8")
    with pytest.raises(BenchError, match=r"q\.jsonl, line 2: not JSON"):
        DraftFile(run, out)
    out.write_text(whole, "utf-8")
    drafted(run, out)
    assert numbers(out) == [0, 1]


def test_one_process_has_it(tmp_path: Path) -> None:
    run, out = begun(tmp_path), tmp_path / "q.jsonl"
    with DraftFile(run, out), pytest.raises(BenchError, match="another process uses"):
        DraftFile(run, out)
