"""A file's bytes to text: UTF-8 unless a byte order mark, or an HTML page itself, says otherwise. Never a guess."""

import codecs
import re

from retrieval.errors import Unreadable

_MARKS = (  # UTF-32's before UTF-16's: the little-endian one begins with it
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([\w:.-]{1,40})", re.IGNORECASE)
_CHARSET_WITHIN_BYTES = 1024  # where HTML's standard has it looked for
_LABELS = {"iso8859-1": "cp1252", "ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030"}  # as browsers read them
# Encodings of HTML's standard, by Python's names; Python has others that are no charset or take for ever to decode.
_CHARSETS = re.compile(
    r"utf-8|cp125[0-8]|cp866|cp874|iso8859-(?:[2-9]|1[0-6])|koi8-[ru]|gb18030|big5(?:hkscs)?|euc_jp|iso2022_jp"
    r"|shift_jis|cp932|euc_kr|cp949|mac-roman|mac-cyrillic"
)
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_MAX_CONTROLS = 20  # one in so many characters; terminal recordings have fewer, images and archives more


def decode(data: bytes, *, html: bool) -> str:
    """The text of `data` with newline characters as its only line ends.

    Raises Unreadable where it is empty, binary or not in a known encoding. html: the page may declare its charset.
    """
    if not data.strip():
        raise Unreadable("empty: there is no text in it")
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
            "convert it to UTF-8 (iconv -f ITS-ENCODING -t UTF-8)"
        ) from error
    if len(_CONTROLS.findall(text)) * _MAX_CONTROLS > len(text) or "\0" in text:
        raise Unreadable("binary: it is full of control characters; expected text")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _declared(data: bytes) -> str:
    """The charset that an HTML page declares, if it is one that pages may have."""
    found = _CHARSET.search(data[:_CHARSET_WITHIN_BYTES])
    if not found:
        return ""
    try:
        name = codecs.lookup(found[1].decode("ascii", "replace")).name
    except LookupError:
        return ""
    name = _LABELS.get(name, name)
    return name if _CHARSETS.fullmatch(name) else ""
