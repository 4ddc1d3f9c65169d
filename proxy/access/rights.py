"""What a caller may do: collections to read and to write, groups, models to call. What is not granted is denied."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

MAX_COLLECTIONS = 1000  # in one request
MAX_COLLECTION_CHARS = 1000  # of one name


class Names:
    """Names that are granted: each as it is, or all that begin like a pattern that ends with * ("team-*", "*")."""

    def __init__(self, granted: Sequence[str] = ()) -> None:
        self.granted = tuple(granted)
        self._exact = frozenset(name for name in granted if not name.endswith("*"))
        self._prefixes = tuple(name[:-1] for name in granted if name.endswith("*"))

    def __contains__(self, name: str) -> bool:
        return name in self._exact or name.startswith(self._prefixes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Names) and self.granted == other.granted

    def __hash__(self) -> int:
        return hash(self.granted)

    def __repr__(self) -> str:
        return f"Names({list(self.granted)!r})"

    @property
    def exact(self) -> frozenset[str]:
        """The names granted one by one."""
        return self._exact

    @property
    def patterns(self) -> tuple[str, ...]:
        """What names may begin with that are granted many at a time."""
        return self._prefixes

    @property
    def all(self) -> bool:
        """Whether every name is granted."""
        return "" in self._prefixes


@dataclass(frozen=True, slots=True)
class Rights:
    """Of a key, or of everybody while there are no keys."""

    read: Names = field(default_factory=Names)  # collections
    write: Names = field(default_factory=Names)  # collections
    models: Names = field(default_factory=Names)
    groups: tuple[str, ...] | None = ()  # whose documents may be read, beside those for all; None: everybody's
    admin: bool = False  # what concerns the whole gateway: its metrics, keys, usage

    @property
    def group_names(self) -> tuple[str, ...]:
        """As they are granted and listed: * stands for all. `groups_of` reads them."""
        return ("*",) if self.groups is None else self.groups


def are_collections(names: Collection[str]) -> bool:
    """Whether the names are few and short enough for a search."""
    return len(names) <= MAX_COLLECTIONS and all(len(name) <= MAX_COLLECTION_CHARS for name in names)


def groups_of(names: Sequence[str]) -> tuple[str, ...] | None:
    return None if "*" in names else tuple(names)


NOTHING = Rights()
_ALL = Names(["*"])
EVERYTHING = Rights(_ALL, _ALL, _ALL, groups=None, admin=True)
