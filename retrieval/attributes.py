"""Attributes and groups of documents: what they may be.

An attribute is a name with a text, a number, a truth value or a list of texts: what searches are narrowed by. Groups
say who may read the document: without any, whoever may read its collection; with some, only who holds one of them.
Light on purpose: the gateway checks with it what a request says.
"""

import math
import re
import unicodedata
from collections.abc import Mapping
from hashlib import sha256

import orjson

from retrieval.records.documents import Attribute, Document

# As OpenAI's vector stores have them.
MOST_ATTRIBUTES = 16
_MOST_NAME_CHARS = 64
MOST_VALUE_CHARS = 512
MOST_ITEMS = 64  # of a list
_MOST_NUMBER = 2**53  # integers beyond are not the same in every JSON reader
MOST_GROUPS = 32

NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,{_MOST_NAME_CHARS - 1}}}")
_GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_ALIKE = str.maketrans(
    "\u0433\u0262\u0261\u0581\u043e\u041e\u03bf\u039f\u0585\u057d\u03c5\u0440\u0420\u03c1\u03a1\u0455\u0405",
    "rggg" + "o" * 5 + "uu" + "p" * 4 + "ss",
)
BUILT_IN = ("source", "title", "format", "modified_at")  # every document has these: no attribute takes their names


def checked_attributes(value: object) -> dict[str, Attribute]:
    """The attributes that JSON gives. Raises ValueError with what is wrong and what was expected."""
    if not isinstance(value, Mapping):
        raise ValueError("attributes must be an object of names and values")
    if len(value) > MOST_ATTRIBUTES:
        raise ValueError(f"{len(value)} attributes: at most {MOST_ATTRIBUTES} are kept of a document")
    return {_checked_name(name): _checked_value(name, one) for name, one in value.items()}


def checked_groups(value: object) -> tuple[str, ...]:
    """The names of groups that JSON gives, each once. Raises ValueError with what is wrong and what was expected."""
    if not isinstance(value, list | tuple) or len(value) > MOST_GROUPS:
        raise ValueError(f"groups must be a list of at most {MOST_GROUPS} names")
    for name in value:
        if not isinstance(name, str) or _GROUP.fullmatch(name) is None:
            raise ValueError(
                f"{_told(name)} is not a valid group name: use letters, digits, '.', '_', '@' and '-', at most 64, "
                "beginning with a letter or digit"
            )
    return tuple(sorted(set(value)))


def digest(document: Document) -> str:
    """SHA-256 of all that is indexed and kept of a document, in hexadecimal; for documents that are no files."""
    parts = [document.source, document.title, document.format, document.attributes, document.groups]
    said = orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)
    return sha256(said + b"\0" + document.text.encode()).hexdigest()


def bare(name: str) -> str:
    """A name without what people write in different ways: case, width, signs, accents, letters of other alphabets that
    look like those of "groups". At most 64 characters of it.
    """
    plain = name if name.isascii() else unicodedata.normalize("NFKD", name[:_MOST_NAME_CHARS]).translate(_ALIKE)
    return "".join(char for char in plain[:_MOST_NAME_CHARS].casefold() if char.isalnum())


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        raise ValueError(
            f"{_told(name)} is not a valid attribute name: use letters, digits, '_' and '-', at most "
            f"{_MOST_NAME_CHARS}, beginning with a letter or '_'"
        )
    if name in BUILT_IN or bare(name) == "groups":
        raise ValueError(f"no attribute can be named {name!r}: every document has that itself")
    return name


def _checked_value(name: str, value: object) -> Attribute:
    match value:
        case bool():
            return value
        case int() if abs(value) <= _MOST_NUMBER:
            return value
        case float() if math.isfinite(value):
            return value
        case str() if _is_text(value):
            return value
        case list() | tuple() if len(value) <= MOST_ITEMS and all(isinstance(v, str) and _is_text(v) for v in value):
            return [*value]
    raise ValueError(
        f"the attribute {name!r} must be text of at most {MOST_VALUE_CHARS} characters, a finite number, true or "
        f"false, or a list of at most {MOST_ITEMS} such texts"
    )


def _is_text(value: str) -> bool:
    return len(value) <= MOST_VALUE_CHARS and "\0" not in value and not any("\ud800" <= c <= "\udfff" for c in value)


def _told(name: object) -> str:
    return repr(name[:80] if isinstance(name, str) else name)[:80]
