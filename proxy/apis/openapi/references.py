"""`$ref` within a document, as a JSON pointer (RFC 6901). Other documents are never fetched."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

_MOST_HOPS = 50
_MOST_CHARS = 4_000
_NO_END = "a chain of $ref has no end"


class BadReference(ValueError):
    """A reference that leads nowhere, to another document or in a circle."""


def resolved(document: Mapping[str, Any], value: Any) -> Any:
    """The value, or the end of the value's chain of references. Raises BadReference."""
    for _ in range(_MOST_HOPS):
        if not isinstance(value, dict) or not isinstance(reference := value.get("$ref"), str):
            return value
        value = found(document, reference)
    raise BadReference(_NO_END)


def path_item(document: Mapping[str, Any], given: Any) -> tuple[dict[str, Any], str]:
    """The members of a path item, and the reason why members are missing; "" without a reason.

    Members beside a `$ref` count, and come before the members at the reference.
    """
    members: dict[str, Any] = {}
    value = {} if given is None else given
    for _ in range(_MOST_HOPS):
        if not isinstance(value, dict):
            return members, "the path item is not an object"
        members = {**value, **members}
        if not isinstance(reference := members.pop("$ref", None), str):
            return members, ""
        try:
            value = found(document, reference)
        except BadReference as error:
            return members, str(error)
    return members, _NO_END


def found(document: Mapping[str, Any], reference: str) -> Any:
    """The value at a reference. Raises BadReference."""
    if not reference.startswith("#"):
        raise BadReference(f"the reference {reference!r} leads to another document: bundle the documents into one")
    if reference != "#" and not reference.startswith("#/"):
        raise BadReference(f"the reference {reference!r} is an anchor: only references by a path (#/…) are read")
    if len(reference) > _MOST_CHARS:  # each use of the reference takes time for each character
        raise BadReference(f"the reference {reference[:60]!r}… is longer than {_MOST_CHARS:,} characters")
    value: Any = document
    for step in reference[1:].split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        elif isinstance(value, dict) and name in value:
            value = value[name]
        else:
            raise BadReference(f"the reference {reference!r} leads nowhere")
    return value
