"""The chunking benchmark: token recall, precision and IoU as they are defined, and what it compares."""

from pathlib import Path

import pytest

from benchmarks.retrieval.chunking import Piece, Question, Ruler, chunkers, read, scores
from retrieval.records.documents import Document
from tests.support.minilm import minilm

TEXT = "alpha beta gamma delta omega sigma theta kappa"  # each word is one token, or two
DOCUMENTS = [Document("a.md", "", TEXT, "markdown", 0.0), Document("b.md", "", TEXT, "markdown", 0.0)]
RULER = Ruler(DOCUMENTS, minilm())


def piece(document: str, words: str) -> Piece:
    start = TEXT.index(words)
    return Piece(document, start, start + len(words), words)


def question(words: str) -> Question:
    start = TEXT.index(words)
    return Question("?", "a.md", ((start, start + len(words)),))


def test_the_words_are_a_token_each() -> None:
    assert len(RULER.tokens("a.md", [(0, len(TEXT))])) == 8


@pytest.mark.parametrize(
    ("retrieved", "expected"),
    [
        ([piece("a.md", "beta gamma")], (1.0, 1.0, 1.0)),
        ([piece("a.md", "alpha beta gamma delta")], (1.0, 0.5, 0.5)),
        ([piece("a.md", "gamma delta")], (0.5, 0.5, 1 / 3)),
        ([piece("a.md", "omega")], (0.0, 0.0, 0.0)),
        ([piece("b.md", "beta gamma")], (0.0, 0.0, 0.0)),
        ([], (0.0, 0.0, 0.0)),
        ([piece("a.md", "alpha beta"), piece("a.md", "beta gamma")], (1.0, 0.5, 0.5)),  # the repeated one counts again
    ],
    ids=["exact", "more", "half", "other place", "other document", "nothing", "overlap"],
)
def test_scores_are_those_of_the_definition(retrieved: list[Piece], expected: tuple[float, float, float]) -> None:
    assert scores(retrieved, question("beta gamma"), RULER) == pytest.approx(expected)


def test_every_chunker_cuts_exact_pieces() -> None:
    text = "# Guide\n\n" + "A sentence of some words. " * 90
    document = Document("a.md", "", text, "markdown", 0.0)
    for cut in chunkers(minilm()).values():
        pieces = list(cut(document))
        assert len(pieces) > 1
        assert all(text[one.start : one.end].strip() in one.text for one in pieces)


def test_reads_questions_with_their_spans(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("Text.", "utf-8")
    line = '{"_id": "1", "text": "What?", "meta": {"doc": "a.md", "spans": [[0, 4]]}}\n'
    (tmp_path / "queries.jsonl").write_text(line, "utf-8")
    documents, questions = read(tmp_path)
    assert [one.text for one in documents] == ["Text."]
    assert questions == [Question("What?", "a.md", ((0, 4),))]
