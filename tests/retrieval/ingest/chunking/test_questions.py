"""Questions with their answers: one pair a chunk, and the question with every part of its answer."""

import json

import pytest

from retrieval.errors import Unreadable
from retrieval.ingest.chunking.chunk import chunk
from retrieval.ingest.chunking.questions import looks_like_pairs, pairs_from_json
from retrieval.records.documents import Chunk, Document, Format
from tests.support.minilm import minilm
from tests.support.rows import all_rows

ANSWER = "Send it back to us within thirty days and we return the money. "


def split(text: str, *, format: Format = "markdown", size: int = 64) -> list[Chunk]:
    document = Document("faq.md", "Help", text, format, 0.0)
    chunks = chunk(document, tokens=minilm(), chunk_tokens=size, overlap_tokens=0)
    assert all(piece.text == text[piece.start : piece.end] for piece in chunks)
    covered = {at for piece in chunks for at in range(piece.start, piece.end)}
    assert all(at in covered for at, letter in enumerate(text) if not letter.isspace())
    return chunks


def test_each_heading_that_asks_is_a_chunk_with_its_answer() -> None:
    text = "## Returns\n\n### Can I send it back?\n\nYes.\n\n### Who pays?\n\nYou do.\n\n### When?\n\nSoon.\n"
    assert [piece.text.split("\n")[0] for piece in split(text)] == ["## Returns", "### Who pays?", "### When?"]
    assert split(text)[1].headings == ("Returns", "Who pays?")


def test_other_short_sections_still_share_a_chunk() -> None:
    assert len(split("## Returns\n\n### By post\n\nYes.\n\n### In a shop\n\nNo.\n")) == 1


@all_rows(
    ("q", "a"),
    [("Q:", "A:"), ("**Q:**", "**A:**"), ("Question 1:", "Answer:"), ("- Q:", "  A:"), ("Frage:", "Antwort:"),
     ("问：", "答："), ("q:", "a:"), ("### Q3:", "A:")],
)  # fmt: skip
@all_rows("format", ["markdown", "text"])
def test_lines_marked_as_question_and_answer_are_pairs(q: str, a: str, format: Format) -> None:
    text = "Before.\n\n" + "\n\n".join(f"{q} How much is lamp {n}?\n{a} It costs {n}." for n in range(3))
    chunks = split(text, format=format)
    assert [piece.text.count("How much") for piece in chunks] in ([0, 1, 1, 1], [1, 1, 1])
    assert all(f"lamp {n}" in chunks[n - 3].text and f"costs {n}" in chunks[n - 3].text for n in range(3))


def test_a_long_answers_parts_all_carry_the_question() -> None:
    chunks = split(f"Q: Can I send a lamp back?\nA: {ANSWER * 20}\n\nQ: Who pays?\nA: You do.\n", format="text")
    assert len(chunks) > 4
    assert {piece.headings for piece in chunks[:-1]} == {("Can I send a lamp back?",)}


def test_pairs_stand_under_the_headings_of_the_document() -> None:
    chunks = split("# Help\n\n## Returns\n\nQ: Who pays?\nA: You do.\n\n## Orders\n\nQ: When?\nA: Soon.\n")
    assert [piece.headings for piece in chunks] == [("Returns", "Who pays?"), ("Orders", "When?")]
    assert chunks[0].text.startswith("# Help\n\n## Returns\n\nQ:")


def test_a_question_without_an_answer_is_text() -> None:
    assert len(split("Q: is the letter before R.\n\nIt is.\n", format="text")) == 1


def test_questions_in_code_are_code() -> None:
    assert len(split("Write:\n\n```\nQ: What?\nA: That.\nQ: Who?\nA: You.\n```\n")) == 1


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([{"question": "Who pays?", "answer": "You."}, {"id": 2, "question": "When?", "answer": "Soon."}]),
        json.dumps({"faq": [{"Q": "Who pays?", "A": "You."}, {"q": "When?", "a": "Soon."}]}),
        '{"question": "Who pays?", "answer": "You."}\n\n{"prompt": "When?", "response": ["Soon."]}\n',
    ],
    ids=["list", "nested", "lines"],
)
def test_json_becomes_pairs_in_order(text: str) -> None:
    assert pairs_from_json(text) == "Q: Who pays?\nA: You.\n\nQ: When?\nA: Soon.\n"
    assert looks_like_pairs(text.encode())


@pytest.mark.parametrize(
    ("text", "reason"),
    [("{}", "without questions"), ('{"question": 1, "answer": 2}', "without questions"),
     ("[1,", "line 1, column 4: Expecting value"),
     ("x", "not JSON"), ("[" * 100_000, "nested too deeply|not JSON"),
     ('{"question": "a", "answer": "b"}\n{',
      "^not JSON: line 2, column 2: Expecting property name"),
     ('{"question": "a", "answer": "b"\n{"question": "c", "answer": "d"}\n',  # a line that ends too soon
      "^not JSON: line 1, column 32: Expecting ',' delimiter"),
     ('{"question": "a" "answer": "b"}\n\n{"question": "c", "answer": "d"}\n',
      "^not JSON: line 1, column 18: Expecting ',' delimiter"),
     ('{"question": "a",\n"answer" "b"}\n', "^not JSON: line 2, column 10: Expecting ':'"),
     ('{"question": "a"}\n' + "9" * 5000, "^not JSON: Exceeds"),
     ('{"question": "a"}\n' + "[" * 100_000, "nested too deeply")],
)  # fmt: skip
def test_json_without_pairs_is_unreadable(text: str, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        pairs_from_json(text)


def test_other_json_does_not_look_like_pairs() -> None:
    assert not looks_like_pairs(b'{"name": "x", "question": "y"}')
