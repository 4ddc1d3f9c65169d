"""How many chunks an ingest expects."""

import pytest

from retrieval.ingest.ingester import Tally


@pytest.mark.parametrize(
    ("total", "done", "chunks", "documents", "more", "expected"),
    [
        (100, 0, 0, 10, 96, 864),  # new ones: the rest are like the first
        (100, 90, 0, 1, 96, 9),  # ninety unchanged: so will the rest be, most of them
        (100, 40, 400, 10, 100, 500),
        (10, 0, 0, 10, 96, 0),
        (0, 0, 0, 0, 0, 0),
    ],
)
def test_the_rest_are_taken_to_be_as_those_so_far(
    total: int, done: int, chunks: int, documents: int, more: int, expected: int
) -> None:
    tally = Tally(total, lambda *_: None, done=done, chunks=chunks)
    assert tally.expected_chunks(documents, more) == expected
