"""A file's bytes to text: UTF-8 unless a byte order mark or an HTML page declares another encoding. Never a guess."""

import codecs
import re

from retrieval.errors import Unreadable

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


def decode(data: bytes, *, html: bool) -> str:
    """Return the text of `data` with newline characters as the only line ends.

    Raises Unreadable for an empty or binary file or an unknown encoding. html: the page may declare a charset.
    """
    if not data.strip():
        raise Unreadable("empty: the file holds no text")
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "")
    if not encoding and b"\0" in data:
        raise Unreadable(f"binary: NUL byte at position {data.index(0)}; expected text")
    encoding = encoding or (_declared(data) if html else "") or "utf-8"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        name = encoding.removesuffix("-sig").upper()
        raise Unreadable(
            f"not {name}: byte 0x{data[error.start]:02x} at position {error.start}; "
            "convert the file to UTF-8 (iconv -f ITS-ENCODING -t UTF-8)"
        ) from error
    if len(_CONTROLS.findall(text)) * _MAX_CONTROLS > len(text) or "\0" in text:
        raise Unreadable("binary: too many control characters; expected text")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _declared(data: bytes) -> str:
    """Return the charset that an HTML page declares, if allowed for pages."""
    match = _CHARSET.search(data[:_CHARSET_WITHIN_BYTES])
    if not match:
        return ""
    try:
        name = codecs.lookup(match[1].decode("ascii", "replace")).name
    except LookupError:
        return ""
    name = _LABELS.get(name, name)
    return name if _CHARSETS.fullmatch(name) else ""
