"""Text to BM25 terms, the same at index and at query time, in the language of the collection.

A term is a word, lower-cased, without the language's stop words, stemmed, and hashed to 32 bits by Qdrant's engine
(`language` has its door): the ids of an English text are those that a Qdrant server makes. A document's value of a
term is the BM25 saturation of its frequency; the inverse document frequency is applied by the store at query time,
over one tenant's points. The tokenizer is the engine's `Word`: it splits at everything that is neither letter nor
digit, so that `mongodb-driver-kotlin-coroutine` is found by each of its parts.

Three kinds of terms stand beside the words, so that what people search for literally stays findable:

identifiers   neighbours inside one: `fancy-printer-A300` is also "printer a300", `1.2.3` also "1 2" and "2 3",
              `EADDRNOTAVAIL (99)` also "eaddrnotavail 99", `maxPoolSize` and `max_pool_size` also "max pool" and
              "pool size", `--verbose` also "-- verbose". Whoever has the same words in another order has not these.
pairs         of characters where no spaces stand between words (Chinese, Japanese, Korean, Thai …), as Lucene's
              CJKAnalyzer has them: no dictionary that is older than the text, and the same cut on both sides
characters    one by one, for Chinese characters and Korean syllables: a word may be one
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from zlib import crc32

from retrieval.lexical.language import DEFAULT, LANGUAGES, counted
from retrieval.records.points import Sparse

VERSION = 2  # part of how a document is indexed: whoever changes its terms changes this

# Okapi's usual saturation and length normalisation (Robertson & Zaragoza 2009), the engine's defaults as well.
K1 = 1.2
B = 0.75
# Words of an average chunk once stop words are gone. The formula needs a constant, because a point's values are fixed
# when it is written. Chunks of 170 English words have 64 to 143 on seven collections of manuals and web pages;
# nDCG@10 of the BM25 arm with 100 is at least that with 150 or the engine's 256 on eight of nine (-.002 on the ninth).
AVERAGE_WORDS = 100.0
# What a question's term that stands beside its words weighs, a word being 1: their words count already. nDCG@10 of the
# BM25 arm on nine sets with .5 against none: +.008, +.004, +.002, +.001, four unchanged, -.001; with 1 -.008 on one.
BESIDE = 0.5


def document_vector(text: str, language: str = DEFAULT) -> Sparse:
    """The BM25 vector of a text to be indexed; empty where the text has no word."""
    said = _said(text, language)
    # What stands beside the words makes no text longer.
    norm = K1 * (1 - B + B * sum(said.words.values()) / AVERAGE_WORDS)
    counts = said.counts()
    return Sparse(tuple([i for i, _ in counts]), tuple([tf * (K1 + 1) / (tf + norm) for _, tf in counts]))


def query_vector(pieces: Sequence[tuple[str, float]], language: str = DEFAULT) -> Sparse:
    """The BM25 vector that searches for the words of (text, weight) pieces.

    A word has the weight of its heaviest piece, however often it is said: repeating the subject of a conversation
    must not make it outweigh the question. Pieces without a positive weight are left out.
    """
    weights: dict[int, float] = {}
    for text, weight in pieces:
        if not weight > 0:
            continue
        said = _asked(text, language)
        for index in said.words:
            weights[index] = max(weight, weights.get(index, 0.0))
        for index in said.beside:
            weights[index] = max(weight * BESIDE, weights.get(index, 0.0))
    ordered = sorted(weights.items())
    return Sparse(tuple(i for i, _ in ordered), tuple(w for _, w in ordered))


def words(text: str, language: str = DEFAULT) -> list[str]:
    """The terms of a text with their repetitions, each written as the decimal number of its id.

    Not for people: for counting. They are exactly the terms of `document_vector` and `query_vector`, so that another
    lexical ranking differs by its formula alone. The order is not the text's.
    """
    said = _said(text, language)
    return [word for index, n in said.counts() for word in [str(index)] * n]


@dataclass(frozen=True, slots=True)
class _Said:
    """The terms of a text with their repetitions: its words, and what stands beside them."""

    words: Counter[int]
    beside: Counter[int]

    def counts(self) -> list[tuple[int, int]]:
        """Id and number of both together, by id."""
        together = self.words.copy()
        together.update(self.beside)
        return sorted(together.items())


def _said(text: str, language: str) -> _Said:
    unspaced: list[str] = []
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)  # one way to write é, full-width Latin, half-width kana

        def apart(found: re.Match[str]) -> str:
            unspaced.append(found[0])
            return " "

        text = _UNSPACED.sub(apart, text)
    spoken = Counter(counted(text, LANGUAGES[language]))
    beside = Counter(_id(*pair) for pair in _identified(text))
    for run in unspaced:
        whole, single = _cut(run)
        spoken.update(_id(gram) for gram in whole)
        beside.update(_id(gram) for gram in single)
    return _Said(spoken, beside)


# Of questions: each is read for the search and again for what its scores mean, and a conversation says its turns again.
_asked = lru_cache(maxsize=256)(_said)


def _id(*parts: str) -> int:
    """Our own terms have the upper half of the ids: the engine's hash leaves it free."""
    return crc32("\x1f".join(parts).encode("utf-8", "replace")) | 0x8000_0000


# Identifiers

_WORD = r"[^\W_]+"
# A word with what joins it to the next ones: "a.b", "a::b", "a->b", "a (99)"; and the sign it begins with.
_TOKEN = re.compile(rf"((?<![^\W_])(?:--?|[.@$#%]))?({_WORD}(?:[-_./:@&+=\\#>]{{1,3}}{_WORD})*)(\(\d+\)|\+\+|#(?!\w))?")
_SEPARATED = re.compile(r"[\W_]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
# "real-time" and "AT&T" are how people write; a digit, a dot or a capital within makes a name of it. Taking the first
# for names too changed nDCG@10 of the BM25 arm by -.014 and -.005 on two sets, and by +.001 or less on the others.
_EXACT = re.compile(r"\d|[_@/\\=.:>]|[a-z0-9][A-Z]|[A-Z]{2}[a-z]{2}")
_BRACKETED = re.compile(rf"({_WORD}) \((\d+)\)")
_AROUND, _BEHIND = "([{<\"'`*", ")]}>\"'`*.,;:!?"
_MOST_PARTS = 32  # of one identifier: a line of base64 has hundreds


def _identified(text: str) -> Iterator[tuple[str, str]]:
    """The neighbours inside each identifier of a text, lower-cased."""
    for piece in text.split():
        if piece.isalpha() and piece.islower():  # this and the next take away nearly all, at a tenth of the time
            continue
        bare = piece.lstrip(_AROUND).rstrip(_BEHIND)
        if bare.isdecimal() or (bare.isalpha() and (bare[1:].islower() or bare.isupper())):
            continue
        for sign, token, end in _TOKEN.findall(piece):
            parts = [part.lower() for part in _SEPARATED.split(token) if part][:_MOST_PARTS]
            if sign:
                yield sign, parts[0]
            if sign or len(parts) > 2 or _EXACT.search(token):
                yield from pairwise(parts)
            if end:  # C++, C#, or a number in brackets
                yield parts[-1], end.strip("()")
    if " (" in text:
        yield from ((word.lower(), number) for word, number in _BRACKETED.findall(text))


# Texts without spaces

_HAN = "\u2e80-\u2fdf\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HANGUL = "\u1100-\u11ff\uac00-\ud7af"
_KANA = "\u3040-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
# Thai and its neighbours write vowels and tones on a letter; the engine would split at each of them.
_STACKED = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e80-\u0ecf\u0f40-\u0fbc\u1000-\u103f\u1780-\u17d3"
_INDIC = "\u0900-\u0963\u0971-\u0df3"  # has spaces, but the same marks: a word stays whole
_UNSPACED = re.compile(f"[{_HAN}{_HANGUL}{_KANA}]+|[{_STACKED}]+|[{_INDIC}]+")
_ALONE = re.compile(f"[{_HAN}{_HANGUL}]")


def _cut(run: str) -> tuple[list[str], list[str]]:
    """The terms of a run of letters without spaces: pairs (one letter alone is one), and single letters beside them."""
    if "\u0900" <= run[0] <= "\u0df3":
        return [run], []
    letters: list[str] = []
    for letter in run:
        if letters and unicodedata.category(letter).startswith("M"):
            letters[-1] += letter
        else:
            letters.append(letter)
    if len(letters) == 1:
        return letters, []
    pairs = [one + other for one, other in pairwise(letters)]
    return pairs, [letter for letter in letters if _ALONE.match(letter)]


def identifiers(text: str) -> list[str]:
    """The pieces of a text that are identifiers as `_identified` takes them, each as it is written there."""
    # Most pieces are plain words, which this tells at a tenth of the time.
    pieces = [piece for piece in text.split() if not (piece.isalpha() and piece[1:].islower())]
    bare = [piece.lstrip(_AROUND).rstrip(_BEHIND + _AROUND) for piece in pieces]
    found = [piece for piece in bare if piece and any(_identified(piece))]
    return found + [match[0] for match in _BRACKETED.finditer(text)]


def language_of(tenant: str) -> str:
    """The language of a store's tenant: `name@generation` is DEFAULT, `name@generation.de` German."""
    return tenant.rpartition("@")[2].partition(".")[2] or DEFAULT


def query_vectors(tenants: Sequence[str], pieces: Sequence[tuple[str, float]]) -> Mapping[str, Sparse]:
    """Tenant -> the vector that searches it for the words of `pieces`, each in the tenant's language."""
    made: dict[str, Sparse] = {}
    for tenant in tenants:
        language = language_of(tenant)
        if language not in made:
            made[language] = query_vector(pieces, language)
    return {tenant: made[language_of(tenant)] for tenant in tenants}
