"""Attributes and groups of documents: permitted names and values.

An attribute is a name with a text, a number, a truth value or a list of texts; searches filter by attributes. Groups
restrict who may read a document: without any, every reader of its collection may; with groups, only members of one of
them may. Light on purpose: the gateway imports this module to check requests.
"""

import math
import re
import unicodedata
from collections.abc import Mapping

from retrieval.records.documents import Attribute

# OpenAI's limits for vector stores.
MOST_ATTRIBUTES = 16
_MOST_NAME_CHARS = 64
MOST_VALUE_CHARS = 512
MOST_ITEMS = 64  # of a list
_MOST_NUMBER = 2**53  # JSON readers disagree about larger integers
MOST_GROUPS = 32

NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,{_MOST_NAME_CHARS - 1}}}")
_GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_SIMILAR_LETTERS = str.maketrans(
    "\u0433\u0262\u0261\u0581\u043e\u041e\u03bf\u039f\u0585\u057d\u03c5\u0440\u0420\u03c1\u03a1\u0455\u0405",
    "rggg" + "o" * 5 + "uu" + "p" * 4 + "ss",
)
BUILT_IN = ("source", "title", "format", "modified_at")  # fields of every document: no attribute may take their names


def checked_attributes(value: object) -> dict[str, Attribute]:
    """The attributes in a JSON value. Raises ValueError with what is wrong and what is expected."""
    if not isinstance(value, Mapping):
        raise ValueError('attributes must be an object of names and values, such as {"year": 2024}')
    if len(value) > MOST_ATTRIBUTES:
        raise ValueError(f"{len(value)} attributes are too many: give a document at most {MOST_ATTRIBUTES}")
    return {_checked_name(name): _checked_value(name, item) for name, item in value.items()}


def checked_groups(value: object) -> tuple[str, ...]:
    """The group names in a JSON value, without repetition. Raises ValueError, which says what is wrong and what is
    expected.
    """
    if not isinstance(value, list | tuple) or len(value) > MOST_GROUPS:
        raise ValueError(f"groups must be a list of at most {MOST_GROUPS} names")
    for name in value:
        if not isinstance(name, str) or _GROUP.fullmatch(name) is None:
            raise ValueError(
                f"{_printable(name)} is not a valid group name: use letters, digits, '.', '_', '@' and '-', at most "
                "64, beginning with a letter or digit"
            )
    return tuple(sorted(set(value)))


def folded_name(name: str) -> str:
    """A name without differences of spelling: case, width, signs, accents, letters of other alphabets that look like
    those in "groups". At most 64 characters.
    """
    plain = (
        name if name.isascii() else unicodedata.normalize("NFKD", name[:_MOST_NAME_CHARS]).translate(_SIMILAR_LETTERS)
    )
    return "".join(char for char in plain[:_MOST_NAME_CHARS].casefold() if char.isalnum())


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        raise ValueError(
            f"{_printable(name)} is not a valid attribute name: use letters, digits, '_' and '-', at most "
            f"{_MOST_NAME_CHARS}, beginning with a letter or '_'"
        )
    if name in BUILT_IN or folded_name(name) == "groups":
        raise ValueError(
            f"no attribute can be named {name!r}: ragway sets this field of every document; use another name"
        )
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
        f"false, or a list of at most {MOST_ITEMS} texts"
    )


def _is_text(value: str) -> bool:
    return len(value) <= MOST_VALUE_CHARS and "\0" not in value and not any("\ud800" <= c <= "\udfff" for c in value)


def _printable(name: object) -> str:
    return repr(name[:80] if isinstance(name, str) else name)[:80]
