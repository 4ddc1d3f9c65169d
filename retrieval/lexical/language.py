"""Languages of collections, and which language a text is in.

A language sets stop words and stemming: see `terms`. Both come from the engine (this module is the door to its
tokenizer), so ragway installs and downloads nothing more. Texts without spaces between words (Chinese, Japanese, Thai
…) are split alike in every language, so any collection can find them.

`detect` uses the same stop words: the language whose list covers most of a text helps it most. Statistical detectors
know no more languages than the engine can stem, and each brings its own model.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qdrant_edge import Bm25

DEFAULT = "en"
NONE = "none"  # every word as written: no stop words, no stemming
_SAMPLE_CHARS = 2000  # of each text; a vote of 20 words is already right, see the tests
# Prose has 30 to 50 % stop words in its language, a manual 20 %, text in another language below 15 % (Polish by the
# Romanian list): below, the language is unknown, and English does no harm.
_MIN_SHARE = 0.15


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
    listed = [code for code in codes if LANGUAGES[code].stop_words and (LANGUAGES[code] != _ENGLISH or code == DEFAULT)]
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
