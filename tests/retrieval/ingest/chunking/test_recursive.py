"""Chunks by size alone: where they are cut, how long they are, and what is repeated."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from retrieval.ingest.chunking.boundaries import TokenIndex
from retrieval.ingest.chunking.chunk import chunk
from retrieval.ingest.chunking.recursive import fixed, recursive
from retrieval.records.documents import Document
from tests.support.minilm import minilm

SENTENCE = "The quick brown fox jumps over the lazy dog near the river bank. "  # 14 tokens


def test_recursive_cuts_at_paragraphs_first() -> None:
    text = "\n\n".join([SENTENCE * 2] * 6)
    spans = recursive(text, TokenIndex(text, minilm()), limit_tokens=60, overlap_tokens=0)
    assert [text[start:end].strip() for start, end in spans] == [(SENTENCE * 2 + "\n\n" + SENTENCE * 2).strip()] * 3


def test_recursive_cuts_what_does_not_fit_at_finer_separators() -> None:
    text = "Short.\n\n" + SENTENCE * 9 + "\n\nShort."
    spans = recursive(text, TokenIndex(text, minilm()), limit_tokens=30, overlap_tokens=0)
    pieces = [text[start:end].strip() for start, end in spans]
    assert len(pieces) > 5
    assert all(piece == "" or piece[-1] == "." for piece in pieces)


def test_recursive_repeats_whole_pieces() -> None:
    text = "\n".join([SENTENCE.strip()] * 9)
    spans = recursive(text, TokenIndex(text, minilm()), limit_tokens=45, overlap_tokens=15)
    assert all(before[1] - after[0] == len(SENTENCE) for before, after in itertools.pairwise(spans))


def test_fixed_cuts_after_so_many_tokens_wherever_that_is() -> None:
    text = "word " * 100
    spans = fixed(text, TokenIndex(text, minilm()), limit_tokens=30, overlap_tokens=10)
    assert [len(text[start:end].split()) for start, end in spans] == [30, 30, 30, 30, 20]
    assert spans[1][0] == 20 * len("word ")


def test_neither_reads_headings() -> None:
    document = Document("a.md", "Guide", f"# Guide\n\n## TLS\n\n{SENTENCE * 9}", "markdown", 0.0)
    for chunking in ("recursive", "fixed"):
        chunks = chunk(document, tokens=minilm(), chunk_tokens=64, overlap_tokens=0, chunking=chunking)
        assert {piece.headings for piece in chunks} == {()}


@given(
    st.lists(st.sampled_from(["a word. ", "x", "\n", "\n\n", "漢字。", "?! ", " ", "\r\n", "e\u0301"]), max_size=200)
    .map("".join),
    st.integers(3, 40), st.integers(0, 10),
)  # fmt: skip
def test_spans_cover_the_text_in_order_within_the_limit(text: str, limit: int, overlap: int) -> None:
    measure = TokenIndex(text, minilm())
    for cut in (recursive, fixed):
        spans = cut(text, measure, limit_tokens=limit, overlap_tokens=min(overlap, limit // 2))
        covered = {at for start, end in spans for at in range(start, end)}
        assert covered == set(range(len(text)))
        assert all(a[0] < b[0] and a[1] < b[1] for a, b in itertools.pairwise(spans))
        assert all(end - start == 1 or measure.between(start, end) <= limit for start, end in spans)
