"""A caller's rights and limits as values, and searches within the rights. Rights not granted are denied.

What the caller may not read gets the same answer as what does not exist.

The rights name collections to read and to write, groups, models, tables to query, and operations of APIs to call, by
grants such as `atlas:read`, `tickets:createTicket=auto` and `!tickets:delete*`.

Such a grant is SET:WHAT[=MODE]. SET is an action set. WHAT is `read` (all that only reads), `write` (all that changes
something), `*` (both), or an operation, as settings name it. SET and an operation may be a pattern with * at the end.
MODE is `confirm` (the default) or `auto`. A `!` in front denies: a denial counts before every other grant, and what no
grant allows is denied.
"""

import contextlib
import re
import time
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple

from proxy.apis.openapi.operation import Effect, Mode
from proxy.dialects.base import X_API_KEY
from proxy.dialects.errors import forbidden
from retrieval.errors import UnknownCollection
from retrieval.knowledge import HitOptions, Knowledge, SearchRequest
from retrieval.records.documents import RESERVED, CollectionInfo, FullDocument, is_reserved
from retrieval.records.search import Retrieved, Turn, View

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


PREFIX = "sk-rag-"  # of every key of this gateway
MAX_COLLECTIONS = 1000  # in one request
MAX_COLLECTION_CHARS = 1000  # of one name
# Members by which a request names models beside `model`: OpenRouter's `models`, LiteLLM's `fallbacks`,
# `mock_testing_fallbacks` and `model_list`, and others of the kind.
_FURTHER_MODELS = re.compile(r"(.*_)?(models?|fallbacks?)(_.*)?")


@dataclass(frozen=True)
class Names:
    """Granted names: exact ones, and patterns that end with * ("team-*"), which stand for no reserved collection."""

    granted: Sequence[str] = ()
    exact: frozenset[str] = field(init=False, compare=False, repr=False)
    patterns: tuple[str, ...] = field(init=False, compare=False, repr=False)  # their beginnings

    def __post_init__(self) -> None:
        exact = frozenset(name for name in self.granted if not name.endswith("*"))
        patterns = tuple(name[:-1] for name in self.granted if name.endswith("*"))
        self.__dict__.update(granted=tuple(self.granted), exact=exact, patterns=patterns)

    def __contains__(self, name: object) -> bool:
        if name in self.exact:
            return True
        if not isinstance(name, str):
            return False
        return name.startswith(self.patterns) and not (name.startswith(RESERVED) and is_reserved(name))

    @property
    def all(self) -> bool:
        return "" in self.patterns


ALL = Names(["*"])


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights of a key, or of every caller while no key exists."""

    read: Names = field(default_factory=Names)  # collections
    write: Names = field(default_factory=Names)  # collections
    models: Names = field(default_factory=Names)
    groups: tuple[str, ...] | None = ()  # groups whose documents may be read; None: all documents
    admin: bool = False  # the metrics, keys and usage of the whole gateway
    metrics: bool = False  # the metrics alone
    act: Acts = field(default_factory=Acts)  # operations of APIs
    query: Names = field(default_factory=Names)  # tables, as DATABASE.TABLE

    def may_use(self, set_name: str) -> bool:
        """Whether the caller may call something of an action set."""
        return self.act.allows_set(set_name, reads=collection_of(set_name) in self.read)

    def may_query(self, database: str) -> bool:
        """Whether the caller may query some table of a database, if the database has it."""
        begin = database + "."
        return any(name.startswith(begin) for name in self.query.exact) or any(
            begin.startswith(pattern) or pattern.startswith(begin) for pattern in self.query.patterns
        )

    def mode_of(self, set_name: str, names: Collection[str], effect: Effect) -> Mode:
        """How the caller may call an operation with these names. The right to read a set is a right to what reads."""
        return self.act.mode_of(set_name, names, effect, reads=collection_of(set_name) in self.read)

    def check_members(self, fields: Mapping[str, Any]) -> None:
        """Refuse a body that names models beside `model` where the key may not call every model. Raises ApiError 403.

        The models of a tool that the provider runs (`image_generation`) are the provider's choice, and pass.
        """
        if self.models.all:
            return
        for name, value in fields.items():
            meant = unicodedata.normalize("NFKC", name).casefold()
            if meant != "model" and value not in (None, [], {}, "", False) and _FURTHER_MODELS.fullmatch(meant):
                message = f"This key may not call every model, and {name!r} can name other models: leave it out."
                raise forbidden(message, name)

    def as_json(self) -> dict[str, Any]:
        """The rights as `grants` and the accounts write them; of the groups, * stands for all (`groups_of`)."""
        return {
            "read": self.read.granted,
            "write": self.write.granted,
            "groups": ("*",) if self.groups is None else self.groups,
            "models": self.models.granted,
            "admin": self.admin,
            "metrics": self.metrics,
            "act": self.act.granted,
            "query": self.query.granted,
        }


def are_collections(names: Collection[str]) -> bool:
    """Whether the names are few and short enough for a search."""
    return len(names) <= MAX_COLLECTIONS and all(len(name) <= MAX_COLLECTION_CHARS for name in names)


def groups_of(names: Sequence[str]) -> tuple[str, ...] | None:
    return None if "*" in names else tuple(names)


NOTHING = Rights()
EVERYTHING = Rights(ALL, ALL, ALL, groups=None, admin=True, act=Acts(["*:*=auto"]), query=ALL)

Period = Literal["minute", "day", "month", "at once"]
Unit = Literal["requests", "tokens", "dollars", "changes"]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a key; None: no limit."""

    rpm: int | None = None
    tpm: int | None = None
    concurrency: int | None = None
    tokens_per_day: int | None = None
    tokens_per_month: int | None = None
    usd_per_day: float | None = None
    usd_per_month: float | None = None
    changes_per_day: int | None = None

    def given(self) -> dict[str, int | float]:
        """Name -> limit, without the limits that are None."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def of_use(self) -> bool:
        """Whether tokens or dollars are limited, and not only requests and calls."""
        return any(MEASURES[name][0] in ("tokens", "dollars") for name in self.given())


UNLIMITED = Limits()

# Name of a limit -> the counted unit, the window.
MEASURES: Mapping[str, tuple[Unit, Period]] = {
    "rpm": ("requests", "minute"),
    "tpm": ("tokens", "minute"),
    "concurrency": ("requests", "at once"),
    "tokens_per_day": ("tokens", "day"),
    "tokens_per_month": ("tokens", "month"),
    "usd_per_day": ("dollars", "day"),
    "usd_per_month": ("dollars", "month"),
    "changes_per_day": ("changes", "day"),  # calls that change something: counted by `proxy.access.call_counts`
}


def carries_key(name: bytes, value: bytes) -> bool:
    """Whether a header is an `x-api-key` with a key of this gateway: Anthropic's clients send a key in this header."""
    return name == X_API_KEY and PREFIX.encode() in value


# --- searches and documents within these rights -----------------------------------------------------------------------


class NotThere(UnknownCollection):
    """No such collection for this caller; the message lists only those it can see."""


@dataclass(frozen=True, slots=True)
class PermittedSearch:
    """One request's search."""

    turns: Sequence[Turn]  # the question is last
    collections: Sequence[str]
    rights: Rights
    explicit: bool  # the caller named collections
    k: int | None = None  # None: the setting
    budget_tokens: int | None = None  # None: the setting
    filter: str = ""  # of documents, as in `View`
    hit_options: HitOptions | None = None
    traced: bool = False  # say how passages were found


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Passages, and which collections were searched."""

    retrieved: Retrieved
    collections: tuple[str, ...]
    began: float  # by `time.perf_counter`


async def search_permitted(knowledge: Knowledge, asked: PermittedSearch) -> SearchResult:
    """Search the named collections, or those of `existing_collections` if one is missing or not readable.

    The names are tried before the list of collections: the list costs a call of the index, which counts documents.
    Raises UnknownCollection, RetrievalError.
    """
    if all(name in asked.rights.read for name in asked.collections):
        with contextlib.suppress(UnknownCollection):
            return await _retrieve(knowledge, asked, asked.collections)
    return await _retrieve(knowledge, asked, await existing_collections(knowledge, asked))


async def existing_collections(knowledge: Knowledge, asked: PermittedSearch) -> Sequence[str]:
    """Which collections to search: existing and readable.

    If the caller named collections, all of them must exist. Default collections may be missing: if none of them exists,
    or the caller may read none, everything that the caller may read is searched.
    Raises NotThere.
    """
    known = [row.name for row in await readable_collections(knowledge, asked.rights)]
    names = asked.collections
    if not asked.explicit and not any(name in known for name in names):
        names = known
    found = [name for name in names if name in known]
    if asked.explicit or not found:
        raise unknown_collection(next((name for name in names if name not in known), ""), known)
    return found


async def _retrieve(knowledge: Knowledge, asked: PermittedSearch, names: Sequence[str]) -> SearchResult:
    began = time.perf_counter()
    view = View(asked.rights.groups, asked.filter)
    request = SearchRequest(asked.turns, names, asked.k, asked.budget_tokens, view, asked.hit_options, asked.traced)
    retrieved = await knowledge.search.retrieve(request)
    return SearchResult(retrieved, tuple(names), began)


async def readable_collections(knowledge: Knowledge, rights: Rights) -> list[CollectionInfo]:
    """Collections that the caller may read, by name."""
    return [row for row in await knowledge.library.collections(rights.groups) if row.name in rights.read]


async def readable_document(knowledge: Knowledge, id: str, rights: Rights) -> FullDocument:
    """One document, whole. Raises UnknownDocument, also if the caller may not read it."""
    return await knowledge.library.document(id, rights.groups, rights.read.granted)


def unknown_collection(name: str, known: Sequence[str]) -> NotThere:
    """Make the error for a missing or unreadable collection. known: those that the caller may read."""
    return NotThere(f"there is no collection {name!r}; there are: {', '.join(known) or 'none yet'}")
