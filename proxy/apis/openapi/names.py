"""Unique names in Latin letters."""

import unicodedata

_LIGATURES = str.maketrans({
    "ß": "ss", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D",
    "ð": "d", "þ": "th", "ı": "i",
})  # fmt: skip


def in_latin(name: str) -> str:
    """A name without accents: "Übersicht" -> "Ubersicht". Letters in other scripts stay."""
    parts = unicodedata.normalize("NFKD", name.translate(_LIGATURES))
    return "".join(one for one in parts if not unicodedata.combining(one))


class FreeNames:
    """Gives out names of at most `most` characters; a taken name gets a number: `list_2`.

    It remembers the next number, so that many equal names do not take quadratic time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: set[str] = set()
        self._next: dict[tuple[str, int], int] = {}  # text before the number, digits -> next number

    def take(self, base: str) -> str:
        """The name itself, or with its lowest free number."""
        name, digits = base[: self._most], 1
        while name in self._taken:
            start = base[: self._most - digits - 1]
            number = self._next.get((start, digits), max(2, 10 ** (digits - 1)))
            if number == 10**digits:
                digits += 1
                continue
            self._next[start, digits] = number + 1
            name = f"{start}_{number}"
        self._taken.add(name)
        return name
