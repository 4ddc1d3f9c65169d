"""Encoded bytes in a text (pictures, certificates, keys): cut, because nobody asks for them and no model reads them.

One picture in a Markdown page would fill passages with thousands of letters. Words around the bytes stay: a data URI's
kind, a certificate's first and last line. So do checksums: the longest, SHA-512, has 128 digits.
"""

import re

_CUT = "…"
_DATA_URI = re.compile(
    r"(data:[\w.+-]+/[\w.+-]+(?:;[\w.+-]+=[\w.+-]+)*)(?:;base64,[A-Za-z0-9+/=_%-]{64,}|,[^\s\"'<>()]{256,})",
    re.IGNORECASE,
)
_ARMOURED = re.compile(r"(-----BEGIN [A-Z0-9 ]{1,40}-----\n)[^-]{128,}+(?=-----END )")
# In one run or in lines of one length; a path or long name has shorter pieces between its signs, and few digits.
_RUN = re.compile(
    r"(?<![A-Za-z0-9+/_%=-])(?:(?:[A-Za-z0-9+/_-]{60,}+={0,2}\n[ \t>]*){3,}[A-Za-z0-9+/_-]+={0,2}"
    r"|(?:[A-Za-z0-9+/_-]|\\[nr/]){256,}+={0,2})"  # in JSON, with \/ or \n inside
)
_PIECE = re.compile(r"[A-Za-z0-9]+")
_PIECE_CHARS = 16  # on average, at least; base64 has a sign in 32
_DIGITS = 0.05  # of all characters, at least; base64 has .16, digits in hexadecimal are .6


def without_encoded_bytes(text: str) -> str:
    """The text, with "…" for encoded bytes."""
    text = _DATA_URI.sub(rf"\1,{_CUT}", text) if "data:" in text else text
    text = _ARMOURED.sub(rf"\1{_CUT}\n", text) if "-----BEGIN " in text else text
    return _RUN.sub(lambda match: _CUT if _is_encoded(match[0]) else match[0], text)


def _is_encoded(run: str) -> bool:
    pieces = _PIECE.findall(run)
    digits = sum(map(str.isdigit, run))
    return digits >= _DIGITS * len(run) and sum(map(len, pieces)) >= _PIECE_CHARS * len(pieces) and digits < len(run)
