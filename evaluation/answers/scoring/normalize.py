"""Normalized texts for comparison: SQuAD's words, and terms that keep numbers as numbers.

SQuAD's form (Rajpurkar et al. 2016, evaluation script): lower case, no punctuation, no English articles, words between
spaces. It turns "4.2" into "42". So facts are compared by terms, where a number or a version is one term: "v4.2" and
"version 4.2" are 4.2, "1,000" is 1000, and 4.2 is not 42, 4.2.1 or 4.20. In both forms each Chinese, Japanese or Thai
character is a word, because these scripts have no spaces between words.
"""

import re
import string
import unicodedata
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation + "“”„«»‘’…–—、。，？！「」（）：；")
_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0e7f"
_SIGNS = re.compile(f"([{_UNSPACED}])")
# A minus belongs to a number only if it cannot be a hyphen or the "to" of a range.
_TERM = re.compile(rf"(?<![\w.])-(?=\d)|\d+(?:[.,]\d+)*|[{_UNSPACED}]|[^\W\d_{_UNSPACED}]+|%|[^\W_]")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)*")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_SAID_ANOTHER_WAY = {"percent": "%"}
_BEFORE_A_VERSION = ("v", "version", "versions")


def words(text: str) -> list[str]:
    """A text's words in SQuAD's form."""
    plain = _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION))
    return _SIGNS.sub(r" \1 ", plain).split()


def terms(text: str) -> list[str]:
    """A text's words and numbers in the finer form, without articles."""
    found: list[str] = []
    minus = ""
    for match in _TERM.finditer(unicodedata.normalize("NFKC", text).casefold()):
        term = match[0]
        if term == "-":
            minus = term
        elif term[0].isdecimal():
            if found and found[-1] in _BEFORE_A_VERSION:
                found.pop()
            first, *more = _numbers(term)
            found += [minus + first, *more]
            minus = ""
        elif term not in ("a", "an", "the"):
            found.append(_SAID_ANOTHER_WAY.get(term, term))
    return found


def numbers(text: str) -> set[str]:
    """A text's numbers and versions."""
    return {term for term in terms(text) if _NUMBER.fullmatch(term)}


def holds(text: Sequence[str], phrase: Sequence[str]) -> bool:
    """Whether a phrase's terms occur in a text, adjacent and in order; False for an empty phrase."""
    size = len(phrase)
    wanted = list(phrase)
    return size > 0 and any(list(text[at : at + size]) == wanted for at in range(len(text) - size + 1))


def _numbers(written: str) -> list[str]:
    """Digits with points and commas to numbers: commas between thousands go, any other comma ends a number."""
    if _THOUSANDS.fullmatch(written):
        written = written.replace(",", "")
    return [
        ".".join(part.lstrip("0") or "0" if at == 0 else part for at, part in enumerate(number.split(".")))
        for number in written.split(",")
    ]
