"""The code of a confirmation, as `KX7M-4QPD`, and the message that confirms: `confirm KX7M-4QPD`, or `… 1,3` for some.

Only a message that is nothing but this line confirms. A sentence with the line in it may come from a document.
"""

import base64
import re
import secrets
import unicodedata
from typing import NamedTuple

_CODE_BYTES = 5  # 40 random bits: five guesses find one of a trillion
_MOST_NUMBERS = 100
_MOST_LINE_CHARS = 1_000  # a message of a megabyte is not read for a code
# Language -> the word that confirms. English is accepted in every language.
WORDS = {
    "en": "confirm", "de": "bestätigen", "fr": "confirmer", "es": "confirmar", "pt": "confirmar", "it": "confermare",
    "nl": "bevestigen", "pl": "potwierdzam", "sv": "bekräfta", "da": "bekræft", "cs": "potvrdit", "tr": "onayla",
    "ru": "подтвердить", "uk": "підтвердити", "ja": "確認", "zh": "确认", "ko": "확인",
}  # fmt: skip
_ANY_WORD = "|".join(sorted(set(WORDS.values()), key=len, reverse=True))
_SHOWN = re.compile(r"\b[A-Z2-7]{4}-[A-Z2-7]{4}\b")
# Word processors and telephones write other dashes; a Japanese keyboard writes the sign of a long vowel.
_DASH = "[-\u2010\u2011\u2013\u2014\u2212\u30fc]"
_LINE = re.compile(
    rf"(?:{_ANY_WORD})[ \t\u00a0]+([a-z2-7]{{4}})(?: ?{_DASH} ?| )?([a-z2-7]{{4}})"
    r"(?:[ \t\u00a0]+([0-9]{1,3}(?: ?[,\u3001] ?[0-9]{1,3})*))?"
)
_LOOKS = re.compile(rf"(?:{_ANY_WORD})\b.{{0,40}}|.{{0,40}}\b[a-z2-7]{{4}}{_DASH}[a-z2-7]{{4}}\b.{{0,40}}")


class CodeLine(NamedTuple):
    """A message that confirms."""

    code: str
    numbers: tuple[int, ...] | None = None  # of the writes within the group; None: all


def new_code() -> str:
    """A random code, as shown: eight letters and digits (base32, without 0, 1, 8 and 9), four and four."""
    code = base64.b32encode(secrets.token_bytes(_CODE_BYTES)).decode()
    return f"{code[:4]}-{code[4:]}"


def code_line(text: str) -> CodeLine | None:
    """What a message confirms; None: the message is anything else.

    Case does not count, nor white space around, nor how the two halves of the code are kept apart, nor whether letters
    and signs have full width.
    """
    found = _LINE.fullmatch(_plain(text)) if len(text) <= _MOST_LINE_CHARS else None
    if found is None:
        return None
    first, second, numbers = found.groups()
    chosen = tuple(sorted({int(one) for one in re.split("[,\u3001]", numbers)})) if numbers else None
    if chosen and len(chosen) > _MOST_NUMBERS:
        return None
    return CodeLine(f"{first}-{second}".upper(), chosen)


def looks_like_code_line(text: str) -> bool:
    """Whether a person seems to have meant a code line: a short message with the word in front, or with a code."""
    return _LOOKS.fullmatch(_plain(text)) is not None


def holds_code(text: str) -> bool:
    """Whether a reply shows a code, as every confirmation does."""
    return _SHOWN.search(text) is not None


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text.strip()).casefold()
