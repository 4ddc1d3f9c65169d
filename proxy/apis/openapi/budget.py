"""The work that one document may cause: by references and aliases, a few bytes can stand for billions of values."""

from typing import Any

_MOST_VALUES = 20_000_000  # the largest public documents known take 12.3, 4.0 and 1.1 million
_CHARS = 40  # of a text, that count as one value


class DocumentTooLarge(ValueError):
    """A document whose operations have more values than the gateway reads."""


class ReadBudget:
    """The values that may still be read of a document."""

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
        """Take the characters of texts, and the elements of lists and objects. Raises DocumentTooLarge."""
        for value in values:
            if isinstance(value, str):
                self.take(len(value) // _CHARS)
            elif isinstance(value, list | dict):
                self.take(len(value))
