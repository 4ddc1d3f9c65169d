"""The user's file of questions: what is read, and how what is wrong is told."""

from pathlib import Path

import pytest

from evaluation.answers.question_file import about_drafted, are_mixed, read
from evaluation.answers.records import BenchError, Question


def written(folder: Path, text: str) -> Path:
    path = folder / "questions.jsonl"
    path.write_text(text, "utf-8")
    return path


def test_a_question_is_a_conversation_of_one_message_named_by_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, '\ufeff\n{"question": "How many?"}\r\n\n{"question": "Why?", "id": 7}')
    assert read(path) == [
        Question("2", ({"role": "user", "content": "How many?"},)),
        Question("7", ({"role": "user", "content": "Why?"},)),
    ]


def test_everything_that_is_known_of_an_answer_is_kept(tmp_path: Path) -> None:
    part = {"type": "text", "text": "x"}
    messages: tuple[dict[str, object], ...]
    messages = ({"role": "system", "content": "Be brief."}, {"role": "user", "content": [part]})
    row = (
        '{"id": "q", "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": '
        '[{"type": "text", "text": "x"}]}], "reference": "42", "facts": ["42", "forty"], "must_not": "41", '
        '"gold": ["docs/a.md"], "tags": ["numbers"], "answerable": false, "group": 7}'
    )
    (question,) = read(written(tmp_path, row))
    assert question == Question(
        "q", messages, "42", ("42", "forty"), ("41",), ("docs/a.md",), ("numbers",), answerable=False, group="7"
    )


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "not JSON"), ("[]", "a JSON object"), ("{}", "needs either"), ('{"question": " "}', "not empty"),
        ('{"question": "a", "messages": []}', "needs either"), ('{"messages": []}', "no message with the role"),
        ('{"messages": ["a"]}', "'role' and 'content'"), ('{"question": "a", "refrence": "b"}', "'refrence'"),
        ('{"question": "a", "must": [""]}', "'must'"), ('{"question": "a", "gold": 1}', "'gold'"),
        ('{"question": "a", "must": [], "facts": []}', "the same"), ('{"question": "a", "answerable": 1}', "true or"),
        ('{"question": "a", "drafted": true}', "'by' (the model)"), ('{"question": "a", "drafted": {}}', "'drafted'"),
        ('{"question": "a", "reference": 3}', "'reference'"), ('{"question": "a", "id": ""}', "'id'"),
        ('{"question": "a", "group": ["x"]}', "'group'"), ('{"question": "a", "group": ""}', "'group'"),
        ('{"question": "a", "id": "first"}', "already in line 1"), (r'{"question": "\ud800"}', "not JSON"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(line: str, why: str, tmp_path: Path) -> None:
    path = written(tmp_path, f'{{"question": "a", "id": "first"}}\n\n{line}\n')
    with pytest.raises(BenchError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}, line 3: ")
    assert why in str(error.value)


def test_a_file_without_questions_and_a_file_that_is_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="has no questions"):
        read(written(tmp_path, "\n \n"))
    with pytest.raises(BenchError, match=r"gone\.jsonl: No such file"):
        read(tmp_path / "gone.jsonl")


def test_questions_that_a_model_drafted_are_told_until_their_mark_is_taken_out(tmp_path: Path) -> None:
    mark = ', "drafted": {"by": "m", "at": "2026-01-01", "passage": "p"}'
    questions = read(written(tmp_path, f'{{"question": "a"{mark}}}\n{{"question": "b", "drafted": null}}'))
    assert questions[0].drafted == {"by": "m", "at": "2026-01-01", "passage": "p"}
    assert (about_drafted(questions[:1]), are_mixed(questions[:1])) == (
        "Drafted by a model (m), not checked by a person: 1 of 1 questions.",
        False,
    )
    assert about_drafted(questions).endswith(": 1 of 2 questions.")
    assert are_mixed(questions)
    assert (about_drafted(questions[1:]), are_mixed(questions[1:])) == ("", False)
