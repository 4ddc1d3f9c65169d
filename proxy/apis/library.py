"""Action sets: written from OpenAPI documents, stored in SQL, and searched by people's questions.

A definition, by which an operation is called, is a row in SQL: a worker reads only rows that a search found. The text
for search is a document.

All sets share one collection, and each text has its set as an attribute. An operation's text has the key SET/OPERATION,
its description SET/OPERATION/description, and a text about the API SET/. With one collection per set, searching 1,474
sets took 746 ms; searching one collection takes 1 ms. How rare a word is also depends on all APIs, not one.
"""

import asyncio
import contextlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from time import time
from typing import NamedTuple, TypeVar

import msgspec

from config.sections import ActionsApi
from proxy.apis.openapi.operation import CallPolicy, Operation, Uncallable
from proxy.apis.specs import OF_OWNER, SET_ATTRIBUTE, SetRows, Spec, SpecLimits, SpecReader, StoredOperation, encode
from retrieval.errors import UnknownCollection
from retrieval.knowledge import HitOptions, Knowledge, Progress, SearchRequest, remove_texts, write_texts
from retrieval.records.filters import checked_filter
from retrieval.records.search import PUBLIC, Hit, Retrieved, Turn, View
from runtime.database import Database

_FILE = "actions.db"
_ROWS = 500  # written at a time
_MOST_REMEMBERED = 1000  # operations; reading some takes a thread 1 ms
COLLECTION = ".actions"  # reserved (`retrieval.records.documents.is_reserved`)


@dataclass(frozen=True, slots=True)
class ActionSet:
    name: str
    title: str
    base_url: str
    updated_s: float
    uncallable: Sequence[Uncallable]
    source: str = ""  # document's file or URL; "" = sent by a client
    document: str = ""  # its `document_hash`; "" = a write was interrupted
    count: int = 0


ReadSets = Mapping[str, ActionSet]  # by name, as read some time ago
_NOT_READ: ReadSets = {}
FoundOperations = dict[tuple[str, str], Operation]  # by set and name


class ActionStore(Database):
    """Action sets in a data folder or on a server. The first set creates the file."""

    def __init__(self, data: Path, url: str = "", *, now_s: Callable[[], float] = time) -> None:
        """url: a PostgreSQL database; "" = the data folder."""
        super().__init__(data / _FILE, url, what="the actions", tables="proxy.apis.tables")
        self._now_s = now_s
        # (set, when it was written, name) -> operation; None: there is none
        self._memory: dict[tuple[str, float, str], Operation | None] = {}

    def sets(self) -> list[ActionSet]:
        """All sets, by name. Raises RetrievalError."""
        from sqlalchemy import func, select

        from proxy.apis.tables import action_sets, actions

        counted = select(func.count()).where(actions.c.set == action_sets.c.name).scalar_subquery().label("number")
        rows = self.rows(select(action_sets, counted).order_by(action_sets.c.name))
        decode = msgspec.json.Decoder(list[Uncallable]).decode
        return [replace(ActionSet(*row), uncallable=decode(row.uncallable)) for row in rows]

    def revisions(self, name: str) -> dict[str, str]:
        """A set's operation names -> revisions. Raises RetrievalError."""
        from sqlalchemy import select

        from proxy.apis.tables import actions

        query = select(actions.c.name, actions.c.revision).where(actions.c.set == name).order_by(actions.c.name)
        return {row.name: row.revision for row in self.rows(query)}

    def operations(self, name: str, *, after: str = "", limit: int | None = None) -> list[Operation]:
        """At most `limit` of a set's operations, by name, after the name `after`. Raises RetrievalError."""
        from sqlalchemy import select

        from proxy.apis.tables import actions

        query = select(actions.c.definition).where(actions.c.set == name, actions.c.name > after)
        rows = self.rows(query.order_by(actions.c.name).limit(limit))
        return [msgspec.json.decode(row.definition, type=Operation) for row in rows]

    def remembered(self, names: Iterable[tuple[str, str]], rows: ReadSets) -> FoundOperations:
        """As `found`, from memory. Raises KeyError for a name not read since its set was written."""
        read = {(each, name): self._memory[each, rows[each].updated_s, name] for each, name in names}
        return {place: one for place, one in read.items() if one is not None}

    def found(self, names: Iterable[tuple[str, str]], rows: ReadSets = _NOT_READ) -> FoundOperations:
        """(set, name) -> operation, for those that exist. Raises RetrievalError.

        rows: sets whose operations `remembered` shall know.
        """
        by_set: dict[str, list[str]] = {}
        for each, name in (names := list(names)):
            by_set.setdefault(each, []).append(name)
        if not by_set:
            return {}
        from sqlalchemy import and_, or_, select

        from proxy.apis.tables import actions

        wanted = or_(*(and_(actions.c.set == each, actions.c.name.in_(some)) for each, some in by_set.items()))
        query = select(actions.c.set, actions.c.name, actions.c.definition).where(wanted)
        found = {(row.set, row.name): msgspec.json.decode(row.definition, type=Operation) for row in self.rows(query)}
        if len(self._memory) > _MOST_REMEMBERED:
            self._memory.clear()
        for each, name in names:
            if each in rows:
                self._memory[each, rows[each].updated_s, name] = found.get((each, name))
        return found

    def find(self, name: str) -> ActionSet | None:
        return next((one for one in self.sets() if one.name == name), None)

    def note_document(self, name: str, document: str) -> None:
        """Note the hash of the document that a set was written from; "": a write begins. Raises RetrievalError."""
        if self.empty():
            return
        from proxy.apis.tables import action_sets

        with self.writing() as sql:
            sql.execute(action_sets.update().where(action_sets.c.name == name).values(document=document))

    def put(self, row: ActionSet, operations: Sequence[StoredOperation]) -> None:
        """Replace a set, completely or not at all; its document is noted afterwards. Raises RetrievalError."""
        from proxy.apis.tables import action_sets, actions

        rows = [
            {"set": row.name, "name": one.name, "revision": one.revision, "definition": one.definition}
            for one in operations
        ]
        with self.writing() as sql:
            sql.execute(action_sets.delete().where(action_sets.c.name == row.name))
            sql.execute(actions.delete().where(actions.c.set == row.name))
            uncallable = encode(list(row.uncallable))
            values = (row.name, row.title, row.base_url, self._now_s(), uncallable, row.source, "")
            sql.execute(action_sets.insert().values(values))
            for at in range(0, len(rows), _ROWS):
                sql.execute(actions.insert(), rows[at : at + _ROWS])

    def remove(self, name: str) -> bool:
        """Delete a set; returns whether it existed. Raises RetrievalError."""
        if self.empty():
            return False
        from proxy.apis.tables import action_sets, actions

        with self.writing() as sql:
            sql.execute(actions.delete().where(actions.c.set == name))
            return bool(sql.execute(action_sets.delete().where(action_sets.c.name == name)).rowcount)


_HITS_PER_OPERATION = 5  # chunks per operation
_CANDIDATES = 100  # per arm: an operation has two to four chunks
_FURTHER_HITS = 2_000  # and candidates, for a caller who may call few of the operations found
# Lower than for passages, whose gate would find no operation for 5 of 100 RestBench questions: a question without a
# good document may still name an operation.
MIN_RELEVANCE = 0.0025
# One small set alone has some thirty chunks, in which any word is rare: every second question about another subject
# passed as relevant, but not once other sets were there.
_LEAST_CHUNKS = 150
_FILTER_VALUES = 100  # in one filter condition
# Weight of the mean score of a set's first _BEST_OF_SET operations. A question in several steps needs several
# operations from one API, and hits in one API support each other. Among 10,000 operations of other APIs, recall@10
# rises by .013 on RestBench and .007 on ToolBench; with .5, ToolBench's hit@5 falls by .007.
_SET_WEIGHT = 0.25
_BEST_OF_SET = 3
_API_WEIGHT = 0.3  # for the score of the text about an API

# Among 10,008 operations of other APIs, a second search raises RestBench's share of questions with a right operation in
# the first five from .68 to .73, and leaves ToolBench's at .892. With longer questions, in which names are fewer than a
# tenth of all words, ToolBench's share would fall to .886.
_LEAST_NAMES_SHARE = 0.1
# German writes every noun with a capital letter. No such word is an English word.
_GERMAN = frozenset({"der", "das", "dem", "ein", "eine", "einen", "und", "ist", "sind", "ich", "mir", "mich", "wie",
                     "wer", "wo", "gibt", "für", "mit", "welche", "welcher", "welches", "nicht", "zu", "auf", "bitte",
                     "kann", "zeige", "nach"})  # fmt: skip
_SENTENCE_ENDS = ".!?:"
_AROUND = "\"'“”„‘’«»()[],;:!?."
_PRONOUN = re.compile("I(['’].*)?")
_QUOTED = re.compile(r'"[^"]*"|“[^”]*”|«[^»]*»')

_T = TypeVar("_T")
Exists = Callable[[str, Operation], bool]  # set, operation


def _all(_set: str, _operation: Operation) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class AddReport:
    title: str
    base_url: str
    added: int
    changed: int
    unchanged: int
    removed: int
    uncallable: Sequence[Uncallable]
    credentials: Mapping[str, str]  # as in `SetRows`


@dataclass(frozen=True, slots=True)
class FoundAction:
    set: str
    operation: Operation
    hit: Hit | None = None  # its best text; None: found only as a producer

    @property
    def label(self) -> str:
        return f"{self.set}/{self.operation.name}"


@dataclass(frozen=True, slots=True)
class FoundActions:
    actions: Sequence[FoundAction] = field(default_factory=list)  # best first, each before its producers
    texts: Retrieved | None = None  # text search results; None: no set has documents


@dataclass(frozen=True, slots=True)
class ActionLibrary:
    """The action sets with their searchable texts."""

    store: ActionStore
    knowledge: Knowledge
    reader: SpecReader | None = None  # for `add`; None if the library is only searched

    async def add(
        self,
        name: str,
        raw: bytes,
        *,
        base_url: str = "",
        source: str = "",
        limits: SpecLimits = OF_OWNER,
        owner: str = "",
        progress: Progress | None = None,
    ) -> AddReport:
        """Bring a set up to date with a document.

        base_url, source, limits: as in `Spec`. owner: shares the reading processes with others, such as a key.

        An unreadable document changes nothing. After an interruption, operations are the old ones, and the next `add`
        of any document completes the texts. Raises UnreadableSpec, RetrievalError.
        """
        assert self.reader is not None, "a library without a reader adds nothing"
        rows = await self.reader.run(Spec(name, raw, base_url, source, limits), owner=owner)
        return await self.write(name, rows, source=source, progress=progress)

    async def write(self, name: str, rows: SetRows, *, source: str = "", progress: Progress | None = None) -> AddReport:
        """Bring a set up to date with a document's rows.

        All texts are written, because an earlier write may have been interrupted; the index keeps unchanged ones.
        Raises RetrievalError.
        """
        now = {one.name: one.revision for one in rows.operations}
        row = ActionSet(name, rows.title, rows.base_url, 0.0, rows.uncallable, source=source)
        async with self.store.turn(name):  # two concurrent writes would remove each other's texts
            before = await asyncio.to_thread(self.store.revisions, name)
            await asyncio.to_thread(self.store.note_document, name, "")
            await write_texts(self.knowledge, COLLECTION, rows.texts, progress)
            await asyncio.to_thread(self.store.put, row, rows.operations)
            await remove_texts(self.knowledge, COLLECTION, f"{name}/", {text.key for text in rows.texts})
            await asyncio.to_thread(self.store.note_document, name, rows.hash)
        added = len(now.keys() - before.keys())
        changed = sum(1 for each in now.keys() & before.keys() if now[each] != before[each])
        removed, unchanged = len(before.keys() - now.keys()), len(now) - added - changed
        return AddReport(
            rows.title, rows.base_url, added, changed, unchanged, removed, rows.uncallable, rows.credentials
        )

    async def remove(self, name: str) -> bool:
        """Delete a set; returns whether it existed. Raises RetrievalError."""
        async with self.store.turn(name):
            existed = await asyncio.to_thread(self.store.remove, name)
            return await remove_texts(self.knowledge, COLLECTION, f"{name}/", ()) > 0 or existed

    async def find(
        self,
        question: Sequence[Turn],
        sets: Sequence[str],
        *,
        k: int,
        view: View = PUBLIC,
        exists: Exists = _all,
        rows: ReadSets = _NOT_READ,
    ) -> FoundActions:
        """At most k operations for the latest question, from sets with documents. Raises RetrievalError.

        exists: whether there is an operation of a set for the caller; the others take no place. rows: sets whose
        operations may come from memory, unless the row has a later write.
        """
        if not sets:
            return FoundActions()
        view = replace(view, filter=_filter(tuple(sets)))
        try:
            found, hits = await self._hits(question, view, k * _HITS_PER_OPERATION, _CANDIDATES)
            read, hidden = await self._existing(hits, k, exists, rows)
            if hidden and len(read) < k:
                found, hits = await self._hits(question, view, _FURTHER_HITS, _FURTHER_HITS)
                read, _ = await self._existing(hits, k, exists, _NOT_READ)
        except UnknownCollection:
            return FoundActions()
        best = {_name_of(hit.passage.source): hit for hit in reversed(hits)}
        actions = [FoundAction(name, operation, best.get((name, operation.name))) for name, operation in read]
        return FoundActions(actions, found)

    async def _hits(
        self, question: Sequence[Turn], view: View, most: int, candidates: int
    ) -> tuple[Retrieved, Sequence[Hit]]:
        """The texts for a question, and their hits with those for the question without names."""
        found = await self._texts(question, view, most, candidates)
        hits: Sequence[Hit] = found.hits
        if hits and (words := without_names(question[-1].text)):
            further = (await self._texts([*question[:-1], Turn("user", words)], view, most, candidates)).hits
            hits = sorted([*hits, *further], key=lambda hit: -hit.score)
        return found, hits

    async def _texts(self, question: Sequence[Turn], view: View, most: int, candidates: int) -> Retrieved:
        return await self.knowledge.search.retrieve(
            SearchRequest(
                question,
                [COLLECTION],
                k=most,
                budget_tokens=0,
                view=view,
                hit_options=HitOptions(min_relevance=MIN_RELEVANCE, candidates=candidates, least_chunks=_LEAST_CHUNKS),
            )
        )

    async def _existing(
        self, hits: Sequence[Hit], k: int, exists: Exists, rows: ReadSets
    ) -> tuple[list[tuple[str, Operation]], bool]:
        """At most k existing operations with their sets, each once and before its producers; and whether some do not
        exist for the caller.
        """
        names, store = _by_set(hits), self.store
        with contextlib.suppress(KeyError):
            return _with_producers(names, k, exists, lambda names: store.remembered(names, rows))
        return await asyncio.to_thread(_with_producers, names, k, exists, lambda names: store.found(names, rows))


def _with_producers(
    names: Sequence[tuple[str, str]],
    k: int,
    exists: Exists,
    find: Callable[[Collection[tuple[str, str]]], FoundOperations],
) -> tuple[list[tuple[str, Operation]], bool]:
    """As `ActionLibrary._existing`.

    names: (set, name), also of texts without an operation: a write may be under way or interrupted.
    """
    read: FoundOperations = {}
    hidden = 0
    for at in range(0, len(names), k):
        if len(read) < k:
            rows = find(names[at : at + k])
            shown = {place: one for place, one in rows.items() if exists(place[0], one)}
            hidden += len(rows) - len(shown)
            read |= shown
    found = [one for one in names if one in read][:k]
    producers = {one: [(one[0], name) for name in read[one].producers] for one in found}
    further = find({each for some in producers.values() for each in some} - read.keys())
    read |= {place: one for place, one in further.items() if exists(place[0], one)}
    groups = ([each for each in (one, *producers[one]) if each in read] for one in found)
    return [(one[0], read[one]) for one in whole_groups(groups, k)], hidden > 0


def whole_groups(groups: Iterable[Sequence[_T]], k: int) -> list[_T]:
    """At most k members of these groups, each once. A group that does not fit is left out: an operation without its
    producer needs values that nobody has.
    """
    taken: dict[_T, None] = {}
    for group in groups:
        added = dict.fromkeys(one for one in group if one not in taken)
        if len(taken) + len(added) <= k:
            taken |= added
    return list(taken)


def _name_of(source: str) -> tuple[str, str]:
    """An operation's set and name; "" for the text about an API."""
    name, _, operation = source.partition("/")
    return name, operation


def _by_set(hits: Sequence[Hit]) -> list[tuple[str, str]]:
    """The hits' operations (set, name), ordered by their best chunk's score and by their set's scores."""
    lowest = min((hit.score for hit in hits), default=0.0)
    scores: dict[tuple[str, str], float] = {}
    for hit in hits:
        scores.setdefault(_name_of(hit.passage.source), hit.score - lowest)
    of_api = {name: scores.pop((name, "")) for name, operation in list(scores) if not operation}
    of_set: dict[str, list[float]] = {}
    for (name, _), score in scores.items():
        of_set.setdefault(name, []).append(score)
    worth = {
        name: _SET_WEIGHT * sum(sorted(some)[-_BEST_OF_SET:]) / _BEST_OF_SET + _API_WEIGHT * of_api.get(name, 0.0)
        for name, some in of_set.items()
    }
    return sorted(scores, key=lambda one: -(scores[one] + worth[one[0]]))


@lru_cache(maxsize=16)  # checking 2,000 sets takes 1 ms
def _filter(sets: tuple[str, ...]) -> str:
    """The filter for documents of these sets."""
    parts: list[object] = [
        {"type": "in", "key": SET_ATTRIBUTE, "value": list(sets[at : at + _FILTER_VALUES])}
        for at in range(0, len(sets), _FILTER_VALUES)
    ]
    return checked_filter({"type": "or", "filters": parts} if len(parts) > 1 else parts[0])


def without_names(question: str) -> str:
    """The question without quotations and capitalised words inside a sentence, for a second search.

    Words in names find APIs about other subjects: "House of Cards" finds cards, "Star Wars" finds stars.
    "" for a question with few or no names, in German, or of names only.
    """
    words = question.split()
    if _GERMAN & {word.strip(_AROUND).lower() for word in words}:
        return ""
    kept, begins = [], True
    for word in _QUOTED.sub(" ", question).split():
        bare = word.strip(_AROUND)
        if begins or not bare[:1].isupper() or _PRONOUN.fullmatch(bare):
            kept.append(word)
        begins = word.endswith(tuple(_SENTENCE_ENDS))
    return " ".join(kept) if kept and len(words) - len(kept) >= _LEAST_NAMES_SHARE * len(words) else ""


class BakedInFault(NamedTuple):
    """A baked-in operation that no chat can be offered."""

    set: str
    operation: str
    problem: str
    advice: str

    def __str__(self) -> str:
        return f"actions.{self.set}.always: {self.operation} {self.problem}; {self.advice}"


def baked_in(
    store: ActionStore, sets: Mapping[str, ActionsApi]
) -> tuple[dict[str, list[Operation]], list[BakedInFault]]:
    """Each set's baked-in operations, in configured order, and names that cannot be offered.

    Raises RetrievalError.
    """
    always = {name: row.always or () for name, row in sets.items()}
    found = store.found((name, each) for name, wanted in always.items() for each in wanted)
    operations: dict[str, list[Operation]] = {}
    faults = []
    for name, wanted in always.items():
        for each in dict.fromkeys(wanted):
            operation = found.get((name, each))
            if operation is None:
                advice = f"`ragway actions show {name}` lists the operations"
                faults.append(BakedInFault(name, each, "is not an operation of the set", advice))
            elif _changes(operation, sets[name]) and sets[name].writes == "refuse":
                advice = f"set actions.{name}.writes, or name operations that only read"
                faults.append(BakedInFault(name, each, "could change something", advice))
            else:
                operations.setdefault(name, []).append(operation)
    return operations, faults


def _changes(operation: Operation, row: ActionsApi) -> bool:
    return CallPolicy(reads=row.reads or (), trust_hints=row.trust_hints).effect_of(operation) == "changes"
