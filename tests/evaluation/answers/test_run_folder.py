"""A run's folder: what was written is read again, whatever cut it off."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evaluation.answers.records import BenchError, MaxCost, Question, Rag, Reply, ShownPassage, Variant
from evaluation.answers.run_folder import JsonLinesFile, Run, RunManifest, differences, rows_of
from proxy.dialects.replies import Tokens

QUESTIONS = [Question("1", [{"role": "user", "content": "Why?"}], must=["because"]), Question("2", [{"role": "user"}])]
RAW, RAG = Variant("m raw", "m", "raw"), Variant("m rag docs k=3", "m", "rag", ["docs"], {"k": 3})
HEAD = RunManifest("run-1", 1.5, "questions.jsonl", None, 1, 0, [RAW, RAG], gateway={"version": "0"})

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
some = st.none() | texts
numbers = st.none() | st.floats(0, 1e6)
rags = st.builds(
    Rag,
    texts,
    texts,
    texts,
    st.lists(texts, max_size=2),
    st.none() | st.lists(st.builds(ShownPassage, *[texts] * 4), max_size=2),
    st.none(),
)
replies = st.builds(
    Reply, st.sampled_from("12"), texts, st.integers(0, 3), st.floats(0, 1e9), st.integers(0, 599), some, some, some,
    rags, st.none() | st.builds(Tokens, *[st.integers(0, 9)] * 4, st.booleans()), numbers, numbers, numbers,
    st.dictionaries(texts, st.floats(0, 9), max_size=2), st.dictionaries(texts, texts, max_size=2), texts,
)  # fmt: skip


def a_reply(question: str = "1", *, at_s: float = 1.0, error: str | None = None, status: int = 200) -> Reply:
    answer = None if error else "yes"
    return Reply(
        question, "m raw", 0, at_s, status, answer, None, error, Rag(sources=[]), None, None, None, None, {}, {}, ""
    )


@given(rows=st.lists(replies, max_size=4), cut=st.integers(0))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_was_appended_whole_is_read_again_wherever_the_file_was_cut(
    rows: list[Reply], cut: int, tmp_path: Path
) -> None:
    run = Run(tmp_path, HEAD, QUESTIONS)
    run.replies_path().unlink(missing_ok=True)
    with JsonLinesFile(run.replies_path()) as file:
        for row in rows:
            file.append(row)
    assert list(run.attempts()) == rows
    written = run.replies_path().read_bytes()
    cut %= len(written) + 1
    run.replies_path().write_bytes(written[:cut])
    whole = written[:cut].count(b"\n")
    assert list(run.attempts()) == rows[:whole]
    with JsonLinesFile(run.replies_path()) as file:
        file.append(a_reply())
    assert list(run.attempts()) == [*rows[:whole], a_reply()]


def test_a_run_that_was_begun_is_read_again(tmp_path: Path) -> None:
    begun = Run.create(tmp_path / "new", HEAD, QUESTIONS)
    read = Run.read(begun.folder)
    assert differences(read, HEAD, QUESTIONS) == []
    assert (read.manifest.id, read.manifest.variants[1].settings, read.questions[0].must) == (
        "run-1",
        {"k": 3},
        ["because"],
    )
    replace(read, manifest=replace(read.manifest, ceiling_usd=2.5)).write_manifest()
    assert Run.read(begun.folder).manifest.ceiling_usd == 2.5
    assert read.replies() == {}


def test_the_last_attempt_stands_and_each_that_was_sent_is_known(tmp_path: Path) -> None:
    run, max_cost = Run.create(tmp_path, HEAD, QUESTIONS), MaxCost(10, None, 0.5)
    with JsonLinesFile(run.sent_path()) as asked, JsonLinesFile(run.replies_path()) as file:
        for at_s in (1.0, 2.0, 3.0):
            asked.append({"question": "1", "variant": "m raw", "repeat": 0, "at_s": at_s, **asdict(max_cost)})
        file.append(a_reply(at_s=1.0, error="busy", status=503))
        file.append(a_reply(at_s=3.0))
    assert run.replies() == {("1", "m raw", 0): a_reply(at_s=3.0)}
    assert list(run.sent_requests()) == [(("1", "m raw", 0), at_s, max_cost) for at_s in (1.0, 2.0, 3.0)]


@pytest.mark.parametrize(("status", "done"), [(0, False), (429, False), (401, False), (200, False), (400, True)])
def test_an_error_stands_only_where_it_would_be_the_same_again(status: int, done: bool) -> None:
    assert a_reply(error="no", status=status).done is done
    assert a_reply().done


def test_what_differs_from_a_run_is_told(tmp_path: Path) -> None:
    run = Run.create(tmp_path, HEAD, QUESTIONS)
    other = replace(HEAD, seed=1, variants=[replace(RAG, settings={"k": 4}), Variant("n raw", "n", "raw")])
    asked = [replace(QUESTIONS[0], must=["why"], tags=["t"]), Question("3", [])]
    assert differences(run, other, asked) == [
        "--seed was 0, now 1", "variant 'm raw' is gone", "variant 'n raw' is new",
        "variant 'm rag docs k=3' has another settings", "question '2' is gone", "question '3' is new",
        "question '1' has another must", "question '1' has another tags",
    ]  # fmt: skip


def test_a_folder_that_is_no_run_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine", "utf-8")
    with pytest.raises(BenchError, match="not empty"):
        Run.create(tmp_path, HEAD, QUESTIONS)
    with pytest.raises(BenchError, match="not a run of ragway bench"):
        Run.read(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_folder_left_by_a_crash_before_the_run_began_is_taken(tmp_path: Path) -> None:
    (tmp_path / "questions.jsonl").write_text("{", "utf-8")
    assert Run.create(tmp_path, HEAD, QUESTIONS).folder == tmp_path
    assert len(Run.read(tmp_path).questions) == 2


def test_a_run_of_a_later_format_and_a_damaged_one_are_refused(tmp_path: Path) -> None:
    Run.create(tmp_path, HEAD, QUESTIONS)
    manifest = (tmp_path / "run.json").read_text("utf-8")
    (tmp_path / "run.json").write_text(manifest.replace('"ragway_bench": 1', '"ragway_bench": 2'), "utf-8")
    with pytest.raises(BenchError, match="format 2"):
        Run.read(tmp_path)
    (tmp_path / "run.json").write_text(manifest.replace('"seed"', '"sead"'), "utf-8")
    with pytest.raises(BenchError, match="seed"):
        Run.read(tmp_path)


def test_a_line_in_the_middle_that_is_damaged_is_named(tmp_path: Path) -> None:
    (tmp_path / "replies.jsonl").write_text("{}\n{\n{}\n", "utf-8")
    with pytest.raises(BenchError, match=r"replies\.jsonl, line 2 "):
        list(rows_of(tmp_path / "replies.jsonl"))


def test_two_processes_do_not_write_one_run(tmp_path: Path) -> None:
    with JsonLinesFile(tmp_path / "replies.jsonl"), pytest.raises(BenchError, match="another process"):
        JsonLinesFile(tmp_path / "replies.jsonl")
    JsonLinesFile(tmp_path / "replies.jsonl").close()
