"""Text to BM25 terms, the same at index and at query time: the one door to Qdrant's own BM25.

A term is a word, lower-cased, without English stop words, stemmed, and hashed to 32 bits by the engine; a Qdrant
server makes the same ids. A document's value of a term is the BM25 saturation of its frequency; the inverse
document frequency is applied by the store at query time, over one tenant's points.

The tokenizer is the engine's `Word`: it splits at everything that is neither letter nor digit, so that
`mongodb-driver-kotlin-coroutine` is found by each of its parts, `insertMany()` and `EADDRNOTAVAIL (99)` by what they
say. `Code` also splits camelCase, which finds JavaScript pages for "Java"; `Multilingual` drops numbers; `Whitespace`
keeps the brackets. What `Word` cannot do: a run of Chinese, Japanese or Thai is one word.
"""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from retrieval.records import Sparse

if TYPE_CHECKING:
    from qdrant_edge import Bm25

# Okapi's usual saturation and length normalisation (Robertson & Zaragoza 2009), the engine's defaults as well.
K1 = 1.2
B = 0.75
# Words of an average chunk once stop words are gone. The formula needs a constant, because a point's values are fixed
# when it is written. Chunks of 170 English words have 64 to 143 on seven collections of manuals and web pages;
# nDCG@10 of the BM25 arm with 100 is at least that with 150 or the engine's 256 on eight of nine (-.002 on the ninth).
AVERAGE_WORDS = 100.0


def document_vector(text: str) -> Sparse:
    """The BM25 vector of a text to be indexed; empty where the text has no word."""
    vector = _model().embed_document(_encodable(text))
    pairs = sorted(zip(vector.indices, vector.values, strict=True))
    return Sparse(tuple(i for i, _ in pairs), tuple(v for _, v in pairs))


def query_vector(pieces: Sequence[tuple[str, float]]) -> Sparse:
    """The BM25 vector that searches for the words of (text, weight) pieces.

    A word has the weight of its heaviest piece, however often it is said: repeating the subject of a conversation
    must not make it outweigh the question. Pieces without a positive weight are left out.
    """
    weights: dict[int, float] = {}
    for text, weight in pieces:
        if not weight > 0:
            continue
        for index in _model().embed_query(_encodable(text)).indices:
            weights[index] = max(weight, weights.get(index, 0.0))
    ordered = sorted(weights.items())
    return Sparse(tuple(i for i, _ in ordered), tuple(w for _, w in ordered))


def words(text: str) -> list[str]:
    """The terms of a text with their repetitions, each written as the decimal number of its id.

    Not for people: for counting. They are exactly the terms of `document_vector` and `query_vector`, so that another
    lexical ranking differs by its formula alone. The order is not the text's.
    """
    vector = _counter().embed_document(_encodable(text))
    counted: list[str] = []
    for index, value in sorted(zip(vector.indices, vector.values, strict=True)):
        counted += [str(index)] * round(value * _COUNTING_K1 / (_COUNTING_K1 + 1 - value))
    return counted


@cache
def _model() -> "Bm25":
    from qdrant_edge import Bm25, Bm25Config, TokenizerType

    return Bm25(Bm25Config(k=K1, b=B, avg_len=AVERAGE_WORDS, tokenizer=TokenizerType.Word))


# With b = 0 a value is tf * (k1 + 1) / (tf + k1), whatever the length: it can be solved for tf. The larger k1, the
# closer to a straight line, and the further a count survives 32-bit floats (tested up to 100,000).
_COUNTING_K1 = 1e6


@cache
def _counter() -> "Bm25":
    from qdrant_edge import Bm25, Bm25Config, TokenizerType

    return Bm25(Bm25Config(k=_COUNTING_K1, b=0.0, tokenizer=TokenizerType.Word))


def _encodable(text: str) -> str:
    """Half a surrogate pair is valid in a JSON string and cannot be handed to the engine: it becomes "?"."""
    return text.encode("utf-8", "replace").decode("utf-8")
