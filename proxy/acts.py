"""The calls that a key may make: grants such as `atlas:read`, `tickets:createTicket=auto` and `!tickets:delete*`.

A grant is SET:WHAT[=MODE]. SET is an action set. WHAT is `read` (all that only reads), `write` (all that changes
something), `*` (both), or an operation, as settings name it. SET and an operation may be a pattern with * at the end.
MODE is `confirm` (the default) or `auto`. A `!` in front denies: a denial counts before every other grant, and what no
grant allows is denied.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from proxy.apis.openapi.operation import Effect
from proxy.apis.policy import Mode

_MOST_CHARS = 300  # of a grant
_PREFIX = "actions."
_SET = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}|[a-z0-9_-]{0,63}\*")
_KINDS = {"read": ("reads",), "write": ("changes",), "*": ("reads", "changes")}


def collection_of(set_name: str) -> str:
    """The name of a set in the rights of keys, where a set counts as a collection."""
    return _PREFIX + set_name


class BadAct(ValueError):
    """A grant that cannot be read; the text says how grants are written."""


class Act(NamedTuple):
    """One grant."""

    set: str  # a name, or a pattern with * at the end
    what: str  # read, write, *, or the name or pattern of operations
    mode: Literal["confirm", "auto"] = "confirm"
    denies: bool = False

    def covers(self, set_name: str, names: Collection[str], effect: Effect) -> bool:
        """Whether the grant is about an operation with these names."""
        if not _matches(self.set, set_name):
            return False
        kinds = _KINDS.get(self.what)
        return effect in kinds if kinds is not None else any(_matches(self.what, name) for name in names)

    @property
    def rank(self) -> tuple[bool, int, bool, int]:
        """How closely the grant names operations: the higher, the closer."""
        what = "*" if self.what in _KINDS else self.what
        return not self.set.endswith("*"), len(self.set), not what.endswith("*"), len(what)

    def __str__(self) -> str:
        return f"{'!' * self.denies}{self.set}:{self.what}{'=auto' if self.mode == 'auto' else ''}"


def act_of(text: str) -> Act:
    """A grant, of text such as `tickets:createTicket=auto`. Raises BadAct."""
    denies, body = text.startswith("!"), text.removeprefix("!")
    set_name, colon, what = body.partition(":")
    mode: Literal["confirm", "auto"] = "confirm"
    for word in ("confirm", "auto"):
        if what.endswith(f"={word}"):
            mode, what = word, what.removesuffix(f"={word}")
            if denies or what == "read":
                raise BadAct(f"{text!r}: what is denied, and what only reads, has no mode: leave ={word} out")
    if not colon or not _SET.fullmatch(set_name):
        raise BadAct(f"{text!r}: write SET:WHAT with the name of an action set, as atlas:read")
    if not what or what != what.strip() or "*" in what[:-1] or not text.isprintable() or len(text) > _MOST_CHARS:
        raise BadAct(f"{text!r}: behind SET: write read, write, * or an operation, with * at the end only")
    return Act(set_name, what, mode, denies)


@dataclass(frozen=True)
class Acts:
    """The grants of a key."""

    granted: Sequence[str] = ()  # as written. Raises BadAct
    acts: tuple[Act, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        self.__dict__.update(granted=tuple(self.granted), acts=tuple(map(act_of, self.granted)))

    def mode_of(self, set_name: str, names: Collection[str], effect: Effect, *, reads: bool = False) -> Mode:
        """How an operation may be called: by the grant that names it most closely, of two such grants by the stricter.

        names: of the operation, as settings name it. reads: whether another right grants what only reads.
        """
        about = [act for act in self.acts if act.covers(set_name, names, effect)]
        if any(act.denies for act in about):
            return "refuse"
        if effect == "reads":
            return "auto" if reads or about else "refuse"
        closest = max((act.rank for act in about), default=None)
        modes = {act.mode for act in about if act.rank == closest}
        return "confirm" if "confirm" in modes else "auto" if modes else "refuse"

    def allows_set(self, set_name: str, *, reads: bool = False) -> bool:
        """Whether something of a set is allowed. reads: as in `mode_of`."""
        about = [act for act in self.acts if _matches(act.set, set_name)]
        if any(act.denies and act.what == "*" for act in about):
            return False
        return reads or any(not act.denies for act in about)


def _matches(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
