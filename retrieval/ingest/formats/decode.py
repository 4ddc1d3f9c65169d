"""A file's bytes to text: UTF-8, unless a byte order mark or an HTML page declares another encoding.

Bytes that are in no declared encoding are read in the likeliest (chardet, which is trained on texts of each encoding
and language). A guess may be wrong, above all on a few words, so the report says which encoding was taken.
"""

import codecs
import re
from dataclasses import dataclass

from retrieval.errors import Unreadable

EMPTY = "empty: the file holds no text; save it again with its text, or leave it out"
_MARKS = (  # UTF-32 before UTF-16: the little-endian mark of UTF-32 begins with that of UTF-16
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([\w:.-]{1,40})", re.IGNORECASE)
_CHARSET_WITHIN_BYTES = 1024  # HTML's standard searches this far
_LABELS = {"iso8859-1": "cp1252", "ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030"}  # as in browsers
# Encodings in HTML's standard, by Python's names. Python has others that are not charsets or decode very slowly.
_CHARSETS = re.compile(
    r"utf-8|cp125[0-8]|cp866|cp874|iso8859-(?:[2-9]|1[0-6])|koi8-[ru]|gb18030|big5(?:hkscs)?|euc_jp|iso2022_jp"
    r"|shift_jis|cp932|euc_kr|cp949|mac-roman|mac-cyrillic"
)
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_MAX_CONTROLS = 20  # one control character in this many; terminal recordings have fewer, images and archives more


_MOST_BROKEN = 0.05  # of a text's characters outside ASCII: UTF-8 with broken ones, not another encoding


@dataclass(frozen=True, slots=True)
class Decoded:
    """A text with newline characters as the only line ends. note: on an encoding that the bytes do not declare."""

    text: str
    note: str = ""


def decode(data: bytes, *, html: bool) -> Decoded:
    """Return the text of `data`. html: the page may declare a charset.

    Raises Unreadable for an empty or binary file.
    """
    if not data.strip():
        raise Unreadable(EMPTY)
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "")
    if not encoding and b"\0" in data:
        raise Unreadable(f"binary: NUL byte at position {data.index(0)}; expected text: name the file by its type")
    encoding = encoding or (_declared(data) if html else "") or "utf-8"
    note = ""
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        text, encoding = _guessed(data, error)
        note = f"read as {encoding}, which the file does not declare: if that is wrong, convert the file to UTF-8"
    if len(_CONTROLS.findall(text)) * _MAX_CONTROLS > len(text) or "\0" in text:
        raise Unreadable("binary: too many control characters; expected text: name the file by its type")
    return Decoded(text.replace("\r\n", "\n").replace("\r", "\n"), note)


def decode_part(data: bytes, charset: str) -> str:
    """Return the text of a part that declares this charset ("" for none), whatever is wrong with it."""
    name = _allowed(charset)
    try:
        text = data.decode(name or "utf-8")
    except UnicodeDecodeError as error:
        text = data.decode("utf-8", "replace") if b"\0" in data else _guessed(data, error)[0]
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")


def _guessed(data: bytes, error: UnicodeDecodeError) -> tuple[str, str]:
    """Return the text in the likeliest encoding, and the encoding's name. Raises Unreadable for binary data."""
    text = data.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    if broken <= (len(text) - len(text.encode("ascii", "ignore"))) * _MOST_BROKEN:
        return text, "UTF-8 with broken bytes"
    import chardet  # .3 s and 35 MB: only for these files

    guess = chardet.detect(data, encoding_era=chardet.EncodingEra.MODERN_WEB)["encoding"]
    if guess is None:
        raise Unreadable(
            f"binary, or not UTF-8: byte 0x{data[error.start]:02x} at position {error.start}; "
            "expected text: name the file by its type"
        ) from error
    text = data.decode(_allowed(guess) or "cp1252", "replace")
    return text, guess


def _declared(data: bytes) -> str:
    """Return the charset that an HTML page declares, if allowed for pages."""
    match = _CHARSET.search(data[:_CHARSET_WITHIN_BYTES])
    if not match:
        return ""
    return _allowed(match[1].decode("ascii", "replace"))


def _allowed(label: str) -> str:
    """Return Python's name of a charset; "" if it is not one for pages."""
    try:
        name = codecs.lookup(label).name
    except (LookupError, ValueError):  # ValueError: NUL
        return ""
    name = _LABELS.get(name, name)
    return name if _CHARSETS.fullmatch(name) else ""
