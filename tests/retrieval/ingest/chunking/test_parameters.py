"""What an operation takes stands apart from what it does, where it is more than a few words."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.ingest.chunking.chunk import chunk
from retrieval.knowledge import Chunking
from retrieval.records.documents import Chunk, Document, Format
from tests.support.minilm import minilm

DOES = "GET /films/{film_id}/reviews\nThe reviews of a film, the newest first."
TAKES = "film_id (path): which film; page (query): which page of them; language (query): a code of two letters"


def split(text: str, *, format: Format = "text", size: int = 128, chunking: Chunking = "auto") -> list[Chunk]:
    document = Document("films.md", "Reviews", text, format, 0.0)
    chunks = chunk(document, tokens=minilm(), chunk_tokens=size, overlap_tokens=0, chunking=chunking)
    assert all(piece.text == text[piece.start : piece.end] for piece in chunks)
    covered = {at for piece in chunks for at in range(piece.start, piece.end)}
    assert all(at in covered for at, letter in enumerate(text) if not letter.isspace())
    return chunks


@pytest.mark.parametrize(
    ("written", "label"),
    [("Parameters:", "Parameters"), ("Query parameters:", "Query parameters"), ("**Args:**", "Args"),
     ("**Parameters**:", "Parameters"), ("  params :", "params"), ("Keyword  arguments:", "Keyword arguments"),
     ("Paramètres :", "Paramètres"), ("引数：", "引数")],
)  # fmt: skip
def test_a_list_of_parameters_is_a_chunk_under_its_label(written: str, label: str) -> None:
    does, takes = split(f"{DOES}\n{written} {TAKES}")
    assert (does.text, does.headings) == (DOES, ())
    assert (takes.text.strip(), takes.headings) == (f"{written} {TAKES}".strip(), (label,))


def test_a_tiny_list_stays() -> None:
    assert [piece.text for piece in split(f"{DOES}\nParameters: film_id")] == [f"{DOES}\nParameters: film_id"]


def test_only_auto_cuts_there() -> None:
    for chunking in ("structure", "recursive", "fixed"):
        assert len(split(f"{DOES}\nParameters: {TAKES}", chunking=chunking)) == 1


def test_what_a_label_announces_belongs_to_it() -> None:
    items = "\n".join(f"- `{one.strip()}`" for one in TAKES.split(";"))
    text = f"# Films\n\n## Reviews\n\n{DOES}\n\n**Parameters:**\n\n{items}\n\nIt answers with a list.\n"
    does, takes, rest = split(text, format="markdown")
    assert takes.text == f"**Parameters:**\n\n{items}"
    assert [piece.headings for piece in (does, takes, rest)] == [
        ("Films", "Reviews"),
        ("Films", "Reviews", "Parameters"),
        ("Films", "Reviews"),
    ]
    assert rest.text == "It answers with a list."


def test_each_of_several_operations_has_its_own() -> None:
    chunks = split("\n\n".join(f"{DOES.replace('reviews', kind)}\nParameters: {TAKES}" for kind in ("cast", "crew")))
    assert [("The" in piece.text, "film_id (path)" in piece.text) for piece in chunks] == [
        (True, False),
        (False, True),
    ] * 2


def test_lists_that_follow_one_another_are_one() -> None:
    text = f"{DOES}\nPath parameters: film_id, the film's number\nQuery parameters: {TAKES}"
    does, takes = split(text)
    assert does.text == DOES
    assert takes.headings == ("Path parameters",)


def test_a_section_of_parameters_alone_keeps_its_headings() -> None:
    (only,) = split(f"## Parameters\n\nParameters: {TAKES}\n", format="markdown")
    assert only.headings == ("Parameters",)


def test_neither_code_nor_a_word_within_a_line_is_a_label() -> None:
    code = f"```\nParameters: {TAKES}\n```"
    assert len(split(f"{DOES}\n\n{code}\n", format="markdown")) == 1
    assert len(split(f"{DOES} Its parameters: {TAKES}")) == 1


def test_an_answers_parameters_stay_with_the_question() -> None:
    chunks = split(f"Q: What does it take?\nA: This.\nParameters: {TAKES}\n\nQ: Who pays?\nA: You do.\n")
    assert len(chunks) == 2
    assert "film_id (path)" in chunks[0].text


LINES = st.sampled_from(
    ["Parameters:", f"Args: {TAKES}", f"Parameters: {TAKES}", "- page: which page of them, from one on", "Some words.",
     "## Reviews", "```", "| a | b |", "|---|---|", "", "    page: which page", "Q: Who?", "A: You."]
)  # fmt: skip


@given(st.lists(LINES, max_size=30), st.sampled_from(["text", "markdown", "rst", "html"]))
def test_no_text_is_lost_or_shown_twice(lines: list[str], format: Format) -> None:
    chunks = split("\n".join(lines), format=format, size=48)
    assert all(before.end <= after.start for before, after in pairwise(chunks))
