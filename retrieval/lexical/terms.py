"""Text to BM25 terms, the same for indexing and for queries, in a collection's language, which a text may tell.

A term is a word, lower-cased, without the language's stop words, stemmed, and hashed to 32 bits by Qdrant's engine
(this module is the door to it): an English text gets the same ids as on a Qdrant server. A document's value for a term
is BM25 saturation of its frequency; the store applies inverse document frequency at query time, over one tenant's
points. The tokenizer is the engine's `Word`: it splits at every character that is neither letter nor digit, so that
`mongodb-driver-kotlin-coroutine` is found by each part. A text with markup inside words is read once more without it:
`**lock**smith` is also "locksmith", and `a*b`, which may be a formula, keeps its words.

Four kinds of extra terms stand beside words, so that literal searches succeed:

identifiers   neighbours inside an identifier: `fancy-printer-A300` is also "printer a300", `1.2.3` also "1 2" and
              "2 3", `EADDRNOTAVAIL (99)` also "eaddrnotavail 99", `maxPoolSize` and `max_pool_size` also "max pool"
              and "pool size", `--verbose` also "-- verbose". The same words in another order lack these terms.
pairs         of characters in texts without spaces (Chinese, Japanese, Korean, Thai …), as in Lucene's CJKAnalyzer:
              no dictionary that is older than the text, and the same split for documents and queries
names         stop words in capitals, as written, unless all is in capitals: "Where is IT?", "vitamin A", "ask Will"
characters    single Chinese characters and Korean syllables: a character may be a word

A language sets stop words and stemming. Both come from the engine, so ragway installs and downloads nothing more. Texts
without spaces between words (Chinese, Japanese, Thai …) are split alike in every language, so any collection can find
them. `detect` uses the same stop words: the language whose list covers most of a text helps it most. Statistical
detectors know no more languages than the engine can stem, and each brings its own model.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from html import unescape
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from retrieval.records.points import Sparse

if TYPE_CHECKING:
    from qdrant_edge import Bm25

DEFAULT = "en"
NONE = "none"  # every word as written: no stop words, no stemming
_SAMPLE_CHARS = 2000  # of each text; a vote of 20 words is already right, see the tests
# Prose has 30 to 50 % stop words in its language, a manual 20 %, text in another language below 15 % (Polish by the
# Romanian list): below, the language is unknown, and English does no harm.
_MIN_SHARE = 0.15
# A question with so many is in the language, without a look at others: true of all 20 English questions of
# benchmarks/retrieval/languages.jsonl, and of none of the 60 in German, Spanish and Chinese.
_SURE_SHARE = 0.3
_QUESTION_CHARS = 400


@dataclass(frozen=True, slots=True)
class Analysis:
    """How the engine treats words: names of its stop words and stemmer; "": none."""

    stop_words: str
    stemmer: str


# By ISO 639-1. Text around languages without spaces is mostly English: names, code, interfaces.
_ENGLISH = Analysis("English", "English")
LANGUAGES: Mapping[str, Analysis] = {
    "ar": Analysis("Arabic", "Arabic"),
    "az": Analysis("Azerbaijani", ""),
    "bn": Analysis("Bengali", ""),
    "ca": Analysis("Catalan", ""),
    "da": Analysis("Danish", "Danish"),
    "de": Analysis("German", "German"),
    "el": Analysis("Greek", "Greek"),
    "en": _ENGLISH,
    "es": Analysis("Spanish", "Spanish"),
    "eu": Analysis("Basque", ""),
    "fi": Analysis("Finnish", "Finnish"),
    "fr": Analysis("French", "French"),
    "he": Analysis("Hebrew", ""),
    "hu": Analysis("Hungarian", "Hungarian"),
    "hy": Analysis("", "Armenian"),
    "id": Analysis("Indonesian", ""),
    "it": Analysis("Italian", "Italian"),
    "ja": _ENGLISH,
    "kk": Analysis("Kazakh", ""),
    "ko": _ENGLISH,
    "ne": Analysis("Nepali", ""),
    "nl": Analysis("Dutch", "Dutch"),
    "no": Analysis("Norwegian", "Norwegian"),
    "pt": Analysis("Portuguese", "Portuguese"),
    "ro": Analysis("Romanian", "Romanian"),
    "ru": Analysis("Russian", "Russian"),
    "sl": Analysis("Slovene", ""),
    "sv": Analysis("Swedish", "Swedish"),
    "ta": Analysis("", "Tamil"),
    "tg": Analysis("Tajik", ""),
    "th": _ENGLISH,
    "tr": Analysis("Turkish", "Turkish"),
    "zh": _ENGLISH,
    NONE: Analysis("", ""),
}

# Script -> letters, and languages written in it. Han comes after kana: Japanese uses both.
_SCRIPTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "kana": ("\u3040-\u30ff\u31f0-\u31ff", ("ja",)),
    "hangul": ("\u1100-\u11ff\u3130-\u318f\uac00-\ud7af", ("ko",)),
    "han": ("\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff", ("zh",)),
    "thai": ("\u0e00-\u0e7f", ("th",)),
    "arabic": ("\u0600-\u06ff\u0750-\u077f", ("ar",)),
    "armenian": ("\u0530-\u058f", ("hy",)),
    "bengali": ("\u0980-\u09ff", ("bn",)),
    "cyrillic": ("\u0400-\u052f", ("ru", "kk", "tg")),
    "devanagari": ("\u0900-\u097f", ("ne",)),
    "greek": ("\u0370-\u03ff\u1f00-\u1fff", ("el",)),
    "hebrew": ("\u0590-\u05ff", ("he",)),
    "tamil": ("\u0b80-\u0bff", ("ta",)),
    "latin": (
        "A-Za-z\u00c0-\u024f\u1e00-\u1eff",
        ("en", "az", "ca", "da", "de", "es", "eu", "fi", "fr", "hu", "id", "it", "nl", "no", "pt", "ro", "sl", "sv",
         "tr"),
    ),
}  # fmt: skip
_LETTERS = {script: re.compile(f"[{letters}]") for script, (letters, _) in _SCRIPTS.items()}
# A Latin word (code, a product's name) inside text in these scripts takes as many letters as a whole sentence.
_DENSE = {"kana", "hangul", "han"}
_DENSE_LETTER = 4
_KANA_SHARE = 0.1  # of kana and Han together: a smaller share is a quotation in a Chinese text


def detect(texts: Sequence[str]) -> str:
    """The language of most of these texts, one vote each; DEFAULT if none is recognised.

    Takes 2 ms per text: not for the event loop.
    """
    votes = Counter(code for text in texts if (code := _language(text[:_SAMPLE_CHARS])))
    return min(votes, key=lambda code: (-votes[code], code != DEFAULT, code)) if votes else DEFAULT


def in_other_language(text: str, languages: Collection[str]) -> bool:
    """Whether a question is in a language that is recognised and none of these.

    Takes 15 µs for a question with many stop words of the first language, else 200 µs.
    """
    text = text[:_QUESTION_CHARS]
    words = _count(text, NONE)
    if not words or NONE in languages:
        return False
    own = [code for code in languages if _has_stop_words(code)]
    if any(1 - _count(text, code) / words >= _SURE_SHARE for code in own):
        return False
    return _language(text) not in ("", NONE, *languages)


def _has_stop_words(code: str) -> bool:
    """Whether a language has stop words of its own."""
    return bool(LANGUAGES[code].stop_words) and (LANGUAGES[code] != _ENGLISH or code == DEFAULT)


def _language(text: str) -> str:
    """One text's language; "" if unknown."""
    letters = {script: len(pattern.findall(text)) for script, pattern in _LETTERS.items()}
    if letters["kana"] >= _KANA_SHARE * (letters["kana"] + letters["han"]):
        letters["kana"] += letters.pop("han")
    weighted = {script: n * (_DENSE_LETTER if script in _DENSE else 1) for script, n in letters.items()}
    script = max(weighted, key=lambda name: weighted[name])
    if not weighted[script]:
        return ""
    codes = _SCRIPTS[script][1]
    listed = [code for code in codes if _has_stop_words(code)]
    if not listed:
        return codes[0]
    words = _count(text, NONE)
    shares = {code: 1 - _count(text, code) / words for code in listed} if words else {}
    best = max(shares, key=lambda code: (shares[code], code == DEFAULT), default="")
    if best and shares[best] >= _MIN_SHARE:
        return best
    return "" if script == "latin" else NONE


def _count(text: str, code: str) -> int:
    """How many words in a text are not stop words in a language."""
    return sum(term_counts(text, Analysis(LANGUAGES[code].stop_words, "")).values())


def term_counts(text: str, analysis: Analysis) -> dict[int, int]:
    """The engine's id for each word in a text -> occurrences."""
    vector = _bm25(analysis).embed_document(text.encode("utf-8", "replace").decode("utf-8"))
    return {
        index: round(value * _COUNTING_K1 / (_COUNTING_K1 + 1 - value))
        for index, value in zip(vector.indices, vector.values, strict=True)
    }


# With b = 0 a value is tf * (k1 + 1) / (tf + k1) for any length, which can be solved for tf. A larger k1 is closer to a
# straight line, so larger counts survive 32-bit floats (tested up to 100,000).
_COUNTING_K1 = 1e6


@cache
def _bm25(analysis: Analysis) -> "Bm25":
    import qdrant_edge as engine

    stemmer: engine.StemmingAlgorithm = engine.DisabledStemmer()
    if analysis.stemmer:
        stemmer = engine.SnowballParams(getattr(engine.SnowballLanguage, analysis.stemmer))
    listed = {getattr(engine.Language, analysis.stop_words)} if analysis.stop_words else set()
    config = engine.Bm25Config(
        k=_COUNTING_K1,
        b=0.0,
        tokenizer=engine.TokenizerType.Word,
        stopwords=engine.StopwordsSet(listed),
        stemmer=stemmer,
    )
    return engine.Bm25(config)


VERSION = 6  # part of an indexed document's recipe: increase with every change of terms

# Okapi's usual saturation and length normalisation (Robertson & Zaragoza 2009); also the engine's defaults.
K1 = 1.2
B = 0.75
# Words in an average chunk without stop words. The formula needs a constant, because a point's values are fixed at
# indexing time. Chunks of 170 English words have 64 to 143 such words on seven collections of manuals and web pages;
# BM25's nDCG@10 with 100 is at least as high as with 150 or the engine's 256 on eight of nine sets (-.002 on the
# ninth).
AVERAGE_WORDS = 100.0
# Weight of a query's extra term; a word weighs 1, and words inside an extra term count already. BM25's nDCG@10 on nine
# sets with .5 against no extra terms: +.008, +.004, +.002, +.001, four unchanged, -.001; with 1 -.008 on one set.
EXTRA_WEIGHT = 0.5


def document_vector(text: str, language: str = DEFAULT) -> Sparse:
    """A text's BM25 vector for the index; empty without words."""
    terms = _terms(text, language)
    # Extra terms do not lengthen the text.
    norm = K1 * (1 - B + B * sum(terms.words.values()) / AVERAGE_WORDS)
    counts = terms.counts()
    return Sparse(tuple([i for i, _ in counts]), tuple([tf * (K1 + 1) / (tf + norm) for _, tf in counts]))


def query_vector(pieces: Sequence[tuple[str, float]], language: str = DEFAULT) -> Sparse:
    """A query's BM25 vector, from (text, weight) pieces.

    A word takes the weight of its heaviest piece, however often it is repeated: a conversation's repeated subject must
    not outweigh the question. Pieces without a positive weight are left out.
    """
    weights: dict[int, float] = {}
    for text, weight in pieces:
        if not weight > 0:
            continue
        terms = _query_terms(text, language)
        for index in terms.words:
            weights[index] = max(weight, weights.get(index, 0.0))
        for index in terms.extra:
            weights[index] = max(weight * EXTRA_WEIGHT, weights.get(index, 0.0))
    ordered = sorted(weights.items())
    return Sparse(tuple(i for i, _ in ordered), tuple(w for _, w in ordered))


def words(text: str, language: str = DEFAULT) -> list[str]:
    """A text's terms with repetitions, each written as its id in decimal.

    For counting, not for people: exactly the terms of `document_vector` and `query_vector`, so that another lexical
    ranking differs only in its formula. They are not in text order.
    """
    terms = _terms(text, language)
    return [word for index, n in terms.counts() for word in [str(index)] * n]


@dataclass(frozen=True, slots=True)
class _Terms:
    """A text's terms with repetitions: words, and extra terms."""

    words: Counter[int]
    extra: Counter[int]

    def counts(self) -> list[tuple[int, int]]:
        """Id and number of all terms, by id."""
        counts = self.words.copy()
        counts.update(self.extra)
        return sorted(counts.items())


def _terms(text: str, language: str) -> _Terms:
    text = _cleaned(text)
    terms, whole = _terms_as_written(text, language), _without_markup(text)
    if whole == text:
        return terms
    other = _terms_as_written(whole, language)
    return _Terms(terms.words | other.words, terms.extra | other.extra)


def _terms_as_written(text: str, language: str) -> _Terms:
    unspaced: list[str] = []
    if not text.isascii():

        def set_aside(match: re.Match[str]) -> str:
            unspaced.append(match[0])
            return " "

        text = _UNSPACED.sub(set_aside, text)
    words = Counter(term_counts(text, LANGUAGES[language]))
    extra = Counter(_id(*pair) for pair in _identifier_pairs(text))
    extra.update(_id(name) for name in _names_like_stop_words(text, language))
    for run in unspaced:
        pairs, letters = _split_unspaced(run)
        words.update(_id(pair) for pair in pairs)
        extra.update(_id(letter) for letter in letters)
    return _Terms(words, extra)


def readings(text: str) -> str:
    """A text for literal search: as written and, if that differs, once more without markup inside words."""
    text = _cleaned(text)
    whole = _without_markup(text)
    return text if whole == text else f"{text}\n{whole}"


def _cleaned(text: str) -> str:
    """A text in NFKC without invisible characters and character references inside words."""
    if "&" in text:
        text = _ENTITY.sub(lambda match: unescape(match[0]), text)
    return visible(text)


def _without_markup(text: str) -> str:
    """The text without markup inside words, which may be code: a*b, a[b](c), a<b>c."""
    if "<" in text:
        text = _TAGS_INSIDE.sub("", text)
    return _MARKUP_INSIDE.sub("", text)


def visible(text: str) -> str:
    """A text in NFKC without the characters that no reader sees as letters and that end no word.

    Soft hyphens, joiners, direction marks, variation selectors, control characters, fillers, Arabic vowel signs and
    lengthening, Hebrew points, accents without a composed letter. Marks in Thai, Indic and related scripts belong to
    words. İ, whose small letter is i with an accent, becomes I.
    """
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    text = unicodedata.normalize("NFKC", text).replace("İ", "I")  # one é, full-width Latin, half-width kana
    gone = {ord(char): None for char in set(text) if not "\x1f" < char < "\x7f" and _is_invisible(char)}
    return text.translate(gone) if gone else text


@lru_cache(maxsize=4096)
def _is_invisible(char: str) -> bool:
    if char in _FILLERS:
        return True
    category = unicodedata.category(char)
    if category == "Cc":
        return char not in _BLANKS
    # The sign that takes a letter's vowel away counts as no letter in the engine, even where other vowel signs do.
    return (category in ("Cf", "Me", "Mn") or unicodedata.combining(char) > 0) and not _MARKED.match(char)


_FILLERS = "ـ\u115f\u1160\u17b4\u17b5"  # Arabic lengthening, Hangul fillers, inherent vowels of Khmer
_BLANKS = "\t\n\x0b\x0c\r\x85"


# Cached for queries: each is read for its search and again for its score scale, and a conversation repeats its turns.
_query_terms = lru_cache(maxsize=256)(_terms)


def _id(*parts: str) -> int:
    """An extra term's id, in the upper half of all ids, which the engine's hash leaves free."""
    return crc32("\x1f".join(parts).encode("utf-8", "replace")) | 0x8000_0000


# Identifiers

_WORD = r"[^\W_]+"
# A word with its joints to the next words: "a.b", "a::b", "a->b", "a (99)"; and a leading sign.
_TOKEN = re.compile(rf"((?<![^\W_])(?:--?|[.@$#%]))?({_WORD}(?:[-_./:@&+=\\#>]{{1,3}}{_WORD})*)(\(\d+\)|\+\+|#(?!\w))?")
_SEPARATED = re.compile(r"[\W_]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
# "real-time" and "AT&T" are usual writing; a digit, a dot or a capital inside makes an identifier. Taking "real-time"
# as an identifier, too, changed nDCG@10 of BM25 by -.014 and -.005 on two sets, and by +.001 or less on the others.
_EXACT = re.compile(r"\d|[_@/\\=.:>]|[a-z0-9][A-Z]|[A-Z]{2}[a-z]{2}")
_BRACKETED = re.compile(rf"({_WORD}) \((\d+)\)")
_AROUND, _AFTER = "([{<\"'`*", ")]}>\"'`*.,;:!?"
_MOST_PARTS = 32  # in one identifier: a line of base64 has hundreds


def _identifier_pairs(text: str) -> Iterator[tuple[str, str]]:
    """Neighbours inside each identifier in a text, lower-cased."""
    for piece in text.split():
        if piece.isalpha() and piece.islower():  # this check and the next skip most pieces, in a tenth of the time
            continue
        bare = piece.lstrip(_AROUND).rstrip(_AFTER)
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


# Names

_AFTER_SMALL = re.compile(r"(?<!\w)[a-zß-ÿ]\w* [(\"'“„«*_]{0,3}([A-Z][a-z]+)(?![\w&])")
_CAPITALS = re.compile(r"(?<![\w&])_{0,2}([^\W\d_a-z]+)_{0,2}(?![\w&])")
_INITIAL = re.compile(r"(?<!\w)[^\W\d_]")
_SENTENCE_ENDS = re.compile(r"[.!?。\n]")
_NEAR = 200  # characters around a name, to tell whether all is in capitals


def _names_like_stop_words(text: str, language: str) -> Iterator[str]:
    """A text's stop words that capitals mark as names, as written."""
    for name in _AFTER_SMALL.findall(text):
        if language != "de" and _is_stop_word(name, language):  # German writes "you" and "your" with a capital
            yield name
    for match in _CAPITALS.finditer(text):
        name = match[1]
        if name.isupper() and name != "I" and _is_stop_word(name, language) and _stands_out(text, match):
            yield name


def _stands_out(text: str, name: re.Match[str]) -> bool:
    """Whether a word in capitals has no such neighbour, or a word in small letters in its sentence.

    A single letter must follow such a word, or another word: "A plan" is no name, "Plan A is cheap" is.
    """
    before = _SENTENCE_ENDS.split(text[max(0, name.start() - _NEAR) : name.start()])[-1]
    after = _SENTENCE_ENDS.split(text[name.end() : name.end() + _NEAR], maxsplit=1)[0]
    if any(map(str.islower, _INITIAL.findall(before) + _INITIAL.findall(after))):
        return len(name[1]) > 1 or bool(_INITIAL.search(before))
    neighbours = before.split()[-1:] + after.split()[:1]
    return len(name[1]) > 1 and not any(len(one) > 1 and one.isupper() for one in neighbours)


@lru_cache(maxsize=4096)
def _is_stop_word(word: str, language: str) -> bool:
    return not term_counts(word, LANGUAGES[language])


# Texts without spaces

HAN = "\u2e80-\u2fdf\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HANGUL = "\u1100-\u11ff\uac00-\ud7af"
KANA = "\u3040-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
# Thai and related scripts put vowels and tones on a letter; the engine would split at each mark.
_STACKED = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e80-\u0ecf\u0f40-\u0fbc\u1000-\u103f\u1780-\u17d3"
_INDIC = "\u0900-\u0963\u0971-\u0df3"  # has spaces, but the same marks: a word stays whole
_MARKED = re.compile(f"[{_STACKED}{_INDIC}{KANA}]")

# Markup inside words

_LETTER = rf"(?![\d_])[\w{_STACKED}{_INDIC}{KANA}]"
_TARGET = r"\((?:[^()\n]|\([^()\n]{0,100}\)){0,300}\)|\[[^\[\]\n]{0,100}\]"
# Signs of emphasis and code, ends of links and blanks of reStructuredText between two letters: **lock**smith, bre*we*r,
# pave[ment](/m), pot\ *ter*. It begins with a set of characters, which a search finds fast.
_MARKUP_INSIDE = re.compile(
    rf"""
    [*_~`\[\]\\] (?<={_LETTER}.) (?! (?<=_){_LETTER} )      # snake_case
    (?: (?<=[*_~`]) | (?<=\[) (?=[^\[\]\n]{{1,200}}\][(\[]) | (?<=\]) (?:{_TARGET}) | (?<=\\) [ ] )
    (?: [*_~`] | \[ (?=[^\[\]\n]{{1,200}}\][(\[]) | \] (?:{_TARGET}) | \\[ ] ){{0,9}}
    (?={_LETTER})
    """,
    re.VERBOSE,
)
_TAGS_INSIDE = re.compile(
    rf"(?<=[\w*_~`{_STACKED}{_INDIC}])(?:</?(?:a|abbr|acronym|b|bd[io]|big|blink|cite|code|data|del|dfn|em|font|i|ins|kbd|mark|nobr|q"
    r"|rb|s|samp|small|span|strike|strong|sub|time|tt|u|var|wbr)(?:\s+[\w:-]+=[^<>]{0,300})?\s*/?>"
    r"|<!--[^<>]{0,300}-->){1,9}(?=[\w*_~`\[])",
    re.IGNORECASE,
)
_REFERENCE = r"&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z]{2,31});"
_ENTITY = re.compile(rf"(?<={_LETTER}){_REFERENCE}|{_REFERENCE}(?={_LETTER})", re.IGNORECASE)
_UNSPACED = re.compile(f"[{HAN}{_HANGUL}{KANA}]+|[{_STACKED}]+|[{_INDIC}]+")
_ALONE = re.compile(f"[{HAN}{_HANGUL}]")


def _split_unspaced(run: str) -> tuple[list[str], list[str]]:
    """Terms in a run of letters without spaces: pairs (or one single letter), and extra single letters."""
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
    pairs = [left + right for left, right in pairwise(letters)]
    return pairs, [letter for letter in letters if _ALONE.match(letter)]


def identifiers(text: str) -> list[str]:
    """Identifiers in a text (see `_identifier_pairs`), each as written."""
    # Most pieces are plain words; this check takes a tenth of the time.
    pieces = [piece for piece in text.split() if not (piece.isalpha() and piece[1:].islower())]
    bare = [piece.lstrip(_AROUND).rstrip(_AFTER + _AROUND) for piece in pieces]
    names = [piece for piece in bare if piece and any(_identifier_pairs(piece))]
    return names + [match[0] for match in _BRACKETED.finditer(text)]


def language_of(tenant: str) -> str:
    """A tenant's language: `name@generation` is DEFAULT, `name@generation.de` German."""
    return tenant.rpartition("@")[2].partition(".")[2] or DEFAULT


def query_vectors(tenants: Sequence[str], pieces: Sequence[tuple[str, float]]) -> Mapping[str, Sparse]:
    """Tenant -> query vector of `pieces`, in the tenant's language."""
    vectors: dict[str, Sparse] = {}
    for tenant in tenants:
        language = language_of(tenant)
        if language not in vectors:
            vectors[language] = query_vector(pieces, language)
    return {tenant: vectors[language_of(tenant)] for tenant in tenants}


# Exact terms

_MAX_TERMS = 8  # terms per question: a question that quotes a log has hundreds
_PHRASE_WORDS = 4  # a question of at most this many words is itself a phrase, such as: hot dog
# "1.2", "i.e." and "iOS" occur in many texts and mean little: counting any of the three lowered nDCG@10.
_MIN_CHARS = 5
_BETWEEN = r"(?:[\s_*`~-]|</?[a-z][^<>]{0,300}>)+"  # words: blanks, joints and markup
_QUOTED = re.compile(r"[\"“”„«»]([^\"“”„«»\n]{3,80})[\"“”„«»]|「([^」\n]{2,40})」")


class ExactTerm(NamedTuple):
    """An exact term in lower case: its first word, and a pattern of all its words with any separator between."""

    word: str
    pattern: re.Pattern[str]

    def occurs_in(self, text: str) -> bool:
        """Whether a lower-case text contains the term."""
        # Most texts lack the word, and searching for it takes a hundredth of the pattern's time.
        return self.word in text and self.pattern.search(text) is not None


def exact_terms(question: str) -> list[ExactTerm]:
    """A question's exact terms; most questions have none."""
    question = _without_markup(_cleaned(question))
    quoted = [" ".join(filter(None, groups)) for groups in _QUOTED.findall(question)]
    phrases = [phrase for phrase in quoted if len(phrase.split()) > 1]
    # as typed into a search box
    if (
        2 <= len(question.split()) <= _PHRASE_WORDS
        and (plain := re.sub("[*`~]", "", question)).replace(" ", "").isalpha()
    ):
        phrases.append(plain.strip())
    names = [name for name in identifiers(question) if len(name) >= _MIN_CHARS and not name.isalpha()]
    terms = dict.fromkeys(text.casefold() for text in (*phrases, *names))
    return [ExactTerm(text.split()[0], _pattern(text)) for text in list(terms)[:_MAX_TERMS]]


def _pattern(text: str) -> re.Pattern[str]:
    between = _BETWEEN.join(re.escape(word) for word in text.split())
    begin = r"(?<!\w)" if text[0].isalnum() else ""
    end = r"(?!\w)" if text[-1].isalnum() else ""
    return re.compile(begin + between + end)
