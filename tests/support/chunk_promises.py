"""What every way of chunking promises, whatever the document."""

import itertools
from collections.abc import Sequence

from retrieval.records.documents import Chunk, Document, indexed_text
from tests.support.minilm import minilm


def assert_exact_complete_in_order_and_within_budget(
    chunks: Sequence[Chunk], document: Document, *, size_tokens: int
) -> None:
    """Each chunk is its span of the text, together they hold all that is not blank, none is over its budget."""
    text = document.text
    covered = bytearray(len(text))
    for ordinal, piece in enumerate(chunks):
        assert piece.ordinal == ordinal
        assert piece.text == text[piece.start : piece.end]
        assert piece.text.strip()
        covered[piece.start : piece.end] = b"\1" * (piece.end - piece.start)
    assert [letter for at, letter in enumerate(text) if not covered[at] and not letter.isspace()] == []
    assert all(before.start < after.start for before, after in itertools.pairwise(chunks))
    counts = minilm().counts([indexed_text(document.title, piece.headings, piece.text) for piece in chunks])
    assert all(count <= size_tokens for count in counts)
