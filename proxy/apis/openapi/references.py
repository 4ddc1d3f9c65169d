"""`$ref` within a document, as a JSON pointer (RFC 6901). Other documents are never fetched.

With references and aliases, a few bytes can stand for billions of values: a budget counts those that are read.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

_MOST_VALUES = 20_000_000  # the largest known public documents take 12.3, 4.0 and 1.1 million
_CHARS = 40  # of text that count as one value
_MOST_HOPS = 50
_MOST_CHARS = 4_000
_NO_END = "a chain of $ref has no end"


class DocumentTooLarge(ValueError):
    """A document whose operations have more values than the gateway reads."""


class ReadBudget:
    """How many values may still be read from a document."""

    def __init__(self) -> None:
        self._left = _MOST_VALUES

    def take(self, values: int) -> None:
        """Raises DocumentTooLarge."""
        self._left -= values
        if self._left < 0:
            raise DocumentTooLarge(
                f"the operations have more than {_MOST_VALUES:,} values, counted at each use of a reference or an alias"
            )

    def take_size(self, *values: Any) -> None:
        """Count texts by characters, lists and objects by elements. Raises DocumentTooLarge."""
        for value in values:
            if isinstance(value, str):
                self.take(len(value) // _CHARS)
            elif isinstance(value, list | dict):
                self.take(len(value))


class BadReference(ValueError):
    """A reference that leads nowhere, to another document or in a circle."""


def resolved(document: Mapping[str, Any], value: Any) -> Any:
    """The value, or the end of its reference chain. Raises BadReference."""
    for _ in range(_MOST_HOPS):
        if not isinstance(value, dict) or not isinstance(reference := value.get("$ref"), str):
            return value
        value = found(document, reference)
    raise BadReference(_NO_END)


def path_item(document: Mapping[str, Any], given: Any) -> tuple[dict[str, Any], str]:
    """A path item's members, and why some are missing; "": none are.

    Members beside a `$ref` count, and take precedence over those at the reference.
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
    if len(reference) > _MOST_CHARS:  # each use takes time for each character
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
