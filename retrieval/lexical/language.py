"""The languages a collection can have, and which of them its texts are in.

A language decides which words carry nothing (stop words) and what counts as one word (stemming): see `terms`. Both
come from the engine (this is the door to its tokenizer), so there is nothing to install and nothing to download.
Texts without spaces between words (Chinese, Japanese, Thai …) are cut alike whatever the language is, so that they
are found in any collection.

`detect` asks the same stop words: the language whose list covers most of a text is the one that can do most for it.
No statistical detector knows more languages than can be stemmed here, and each brings a model of its own.
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
NONE = "none"  # every word as it is written: neither stop words nor stemming
_SAMPLE_CHARS = 2000  # of each text; a vote of 20 words is right already, see the tests
# A text in a language with a list has 30 to 50 % stop words in prose and 20 in manuals, one of another language below
# 15 (Polish by the Romanian list): below, nothing is known, and English does no harm.
_LEAST_SHARE = 0.15


@dataclass(frozen=True, slots=True)
class Analysis:
    """How the engine treats words: names of its stop words and of its stemmer; "" is none."""

    stop_words: str
    stemmer: str


# By ISO 639-1. What surrounds the text of the languages without spaces is mostly English: names, code, interfaces.
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

# Script -> its letters, and the languages here that are written in it. Han comes after kana: Japanese has both.
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
# A word of Latin code or a product's name in a text of these takes as many letters as a sentence of theirs.
_DENSE = {"kana", "hangul", "han"}
_DENSE_LETTER = 4
_KANA_SHARE = 0.1  # of kana and Han together: fewer are a quotation in a Chinese text


def detect(texts: Sequence[str]) -> str:
    """The language most of these texts are in, one vote each; DEFAULT where none can be told.

    Takes 2 ms a text: not for the event loop.
    """
    votes = Counter(found for text in texts if (found := _language(text[:_SAMPLE_CHARS])))
    return min(votes, key=lambda code: (-votes[code], code != DEFAULT, code)) if votes else DEFAULT


def _language(text: str) -> str:
    """The language of one text; "" where nothing is known."""
    letters = {script: len(pattern.findall(text)) for script, pattern in _LETTERS.items()}
    if letters["kana"] >= _KANA_SHARE * (letters["kana"] + letters["han"]):
        letters["kana"] += letters.pop("han")
    weighed = {script: n * (_DENSE_LETTER if script in _DENSE else 1) for script, n in letters.items()}
    script = max(weighed, key=lambda name: weighed[name])
    if not weighed[script]:
        return ""
    codes = _SCRIPTS[script][1]
    listed = [code for code in codes if LANGUAGES[code].stop_words and (LANGUAGES[code] != _ENGLISH or code == DEFAULT)]
    if not listed:
        return codes[0]
    said = _count(text, NONE)
    shares = {code: 1 - _count(text, code) / said for code in listed} if said else {}
    best = max(shares, key=lambda code: (shares[code], code == DEFAULT), default="")
    if best and shares[best] >= _LEAST_SHARE:
        return best
    return "" if script == "latin" else NONE


def _count(text: str, code: str) -> int:
    """The words of a text that are not on a language's list of stop words."""
    return sum(counted(text, Analysis(LANGUAGES[code].stop_words, "")).values())


def counted(text: str, analysis: Analysis) -> dict[int, int]:
    """The engine's id of each word of a text -> how often it is said."""
    vector = _counter(analysis).embed_document(text.encode("utf-8", "replace").decode("utf-8"))
    return {
        index: round(value * _COUNTING_K1 / (_COUNTING_K1 + 1 - value))
        for index, value in zip(vector.indices, vector.values, strict=True)
    }


# With b = 0 a value is tf * (k1 + 1) / (tf + k1), whatever the length: it can be solved for tf. The larger k1, the
# closer to a straight line, and the further a count survives 32-bit floats (tested up to 100,000).
_COUNTING_K1 = 1e6


@cache
def _counter(analysis: Analysis) -> "Bm25":
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
