"""Names in Latin letters that occur once."""

import unicodedata

_LIGATURES = str.maketrans({
    "ß": "ss", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D",
    "ð": "d", "þ": "th", "ı": "i",
})  # fmt: skip


def in_latin(name: str) -> str:
    """The name without accents: "Übersicht" -> "Ubersicht". Letters of other scripts stay."""
    parts = unicodedata.normalize("NFKD", name.translate(_LIGATURES))
    return "".join(one for one in parts if not unicodedata.combining(one))


class FreeNames:
    """Gives out names of at most `most` characters; a name that is taken gets a number: `list_2`.

    The next number is kept, so that many equal names take no time that grows with the square of their number.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: set[str] = set()
        self._next: dict[tuple[str, int], int] = {}  # the text before the number, the digits -> the next number

    def take(self, base: str) -> str:
        """The name itself, or the name with the lowest free number."""
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
