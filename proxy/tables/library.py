"""Databases as they were read, stored in SQL, and their tables, found by people's questions.

The records are a row in SQL for each database. The text by which a table is found is a document in one collection for
all databases, as for actions (`proxy.apis.library`); a table's text has the key DATABASE/TABLE, the description of a
database DATABASE/.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from time import time
from typing import NamedTuple

import msgspec

from proxy.tables.cards import card, heading, search_text, shortened, title_of, tokens_of, words_of
from proxy.tables.schema import DatabaseSchema, DatabaseSource, TableSchema
from retrieval.errors import UnknownCollection
from retrieval.knowledge import HitOptions, Knowledge, Progress, SearchRequest, remove_texts, write_texts
from retrieval.records.filters import checked_filter
from retrieval.records.jobs import DocumentInput
from retrieval.records.search import ALL, Hit, Retrieved, Turn, View
from runtime.database import Database

COLLECTION = ".tables"  # reserved (`retrieval.records.documents.is_reserved`)
_DATABASE, _TABLE = "table_database", "table"  # attributes of a text
_FILE = "tables.db"
_HITS = 300  # chunks: a table has one for each dozen of columns
_LEAST_CHUNKS = 150  # as for actions: in a few chunks, any word is rare
_FILTER_VALUES = 100  # in one filter condition
_SURE = 0.8  # that a passage answers: most questions about documents have it, hardly one that a table answers
_LEAST_BESIDE_PASSAGE = 0.05  # relevance of tables then
MIN_RELEVANCE = 0.0025  # as for actions: a question without a good text may still name a table
# Of the score of a table, for the tables that its foreign keys refer to. With a larger weight, or also for tables that
# refer to a found one, a table such as `users` brings so many along that they take the places of better ones.
_REFERRED_WEIGHT = 0.25
_MOST_MISSED = 20  # cards in a row that do not fit
_LEAST_LINE_TOKENS = 2  # of a column in a card
_DESCRIPTION_SHARE = 2  # descriptions take at most one half of the budget

Place = tuple[str, str]  # database, table
Narrow = Callable[[DatabaseSchema], DatabaseSchema]


class StoredDatabase(NamedTuple):
    source: DatabaseSource  # without a password
    database: DatabaseSchema
    updated_s: float


class TableStore(Database):
    """Databases in a data folder or on a server. The first database creates the file."""

    def __init__(self, data: Path, url: str = "", *, now_s: Callable[[], float] = time) -> None:
        """url: a PostgreSQL database; "" = the data folder."""
        super().__init__(data / _FILE, url, what="the tables", tables="proxy.tables.stored")
        self._now_s = now_s
        self._memory: dict[str, StoredDatabase] = {}

    def databases(self) -> dict[str, StoredDatabase]:
        """All databases, by name; one that did not change comes from memory. Raises RetrievalError."""
        from sqlalchemy import select

        from proxy.tables.stored import databases

        memory = self._memory
        times = {row.name: row.updated_s for row in self.rows(select(databases.c.name, databases.c.updated_s))}
        old = [name for name, at_s in times.items() if name not in memory or memory[name].updated_s != at_s]
        rows = self.rows(select(databases).where(databases.c.name.in_(old))) if old else ()
        read = {row.name: _stored(row) for row in rows}
        self._memory = {name: one for name in sorted(times) if (one := read.get(name) or memory.get(name)) is not None}
        return self._memory

    def put(self, source: DatabaseSource, database: DatabaseSchema) -> None:
        """Replace a database, completely or not at all. Raises RetrievalError."""
        from proxy.tables.stored import databases

        values = (database.name, msgspec.json.encode(source), msgspec.json.encode(database), self._now_s())
        with self.writing() as sql:
            sql.execute(databases.delete().where(databases.c.name == database.name))
            sql.execute(databases.insert().values(values))

    def remove(self, name: str) -> bool:
        """Delete a database; returns whether it existed. Raises RetrievalError."""
        if self.empty():
            return False
        from proxy.tables.stored import databases

        with self.writing() as sql:
            return bool(sql.execute(databases.delete().where(databases.c.name == name)).rowcount)


def _stored(row: "object") -> StoredDatabase:
    decode = msgspec.json.decode
    source, definition, updated_s = row.source, row.definition, row.updated_s  # type: ignore[attr-defined]
    return StoredDatabase(decode(source, type=DatabaseSource), decode(definition, type=DatabaseSchema), updated_s)


@dataclass(frozen=True, slots=True)
class TablesReport:
    added: int
    changed: int
    unchanged: int
    removed: int


@dataclass(frozen=True, slots=True)
class FoundTable:
    database: str
    table: TableSchema
    score: float = 0.0  # of the search, for its own words, and those of tables that refer to it
    ranks: Mapping[str, int] = field(default_factory=dict)  # arm -> rank from 1 of its best text
    scores: Mapping[str, float] = field(default_factory=dict)  # arm -> the arm's own score


@dataclass(frozen=True, slots=True)
class FoundTables:
    tables: Sequence[FoundTable] = ()  # whose cards are in the text; best first, or as stored if `whole`
    text: str = ""  # for a model
    tokens: int = 0  # of the text, about
    whole: bool = True  # whether these are all tables
    relevance: float | None = None  # probability that a table answers; None: not known

    @property
    def relevant(self) -> bool:
        """Whether a table may answer the question."""
        return self.relevant_beside(0.0)

    def relevant_beside(self, answered: float) -> bool:
        """Whether a table may answer a question that a passage answers with this probability."""
        least = _LEAST_BESIDE_PASSAGE if answered >= _SURE else MIN_RELEVANCE
        return bool(self.tables) and (self.relevance is None or self.relevance >= least)


@dataclass(frozen=True, slots=True)
class TableLibrary:
    """Databases with the searchable texts of their tables."""

    store: TableStore
    knowledge: Knowledge

    async def add(
        self, source: DatabaseSource, database: DatabaseSchema, *, progress: Progress | None = None
    ) -> TablesReport:
        """Bring what is stored of a database up to date. source: without a password. Raises RetrievalError.

        All texts are written, because an earlier write may have been interrupted; the index keeps unchanged ones.
        """
        name = database.name
        texts = _texts(database)
        async with self.store.turn(name):  # two concurrent writes would remove each other's texts
            stored = (await asyncio.to_thread(self.store.databases)).get(name)
            await write_texts(self.knowledge, COLLECTION, texts, progress)
            await asyncio.to_thread(self.store.put, source, database)
            await remove_texts(self.knowledge, COLLECTION, f"{name}/", {one.key for one in texts})
        before = {} if stored is None else {one.name: one for one in stored.database.tables}
        now = {one.name: one for one in database.tables}
        added, removed = len(now.keys() - before.keys()), len(before.keys() - now.keys())
        changed = sum(1 for each in now.keys() & before.keys() if now[each] != before[each])
        return TablesReport(added, changed, len(now) - added - changed, removed)

    async def remove(self, name: str) -> bool:
        """Delete a database; returns whether it existed. Raises RetrievalError."""
        async with self.store.turn(name):
            existed = await asyncio.to_thread(self.store.remove, name)
            return await remove_texts(self.knowledge, COLLECTION, f"{name}/", ()) > 0 or existed

    async def find(
        self,
        question: Sequence[Turn],
        names: Collection[str],
        *,
        budget_tokens: int,
        narrow: Narrow = lambda one: one,
    ) -> FoundTables:
        """The tables of these databases for the latest question, as a text within a budget. Raises RetrievalError.

        All tables if they fit; else the best, and tables that their foreign keys refer to. narrow: a database as the
        caller sees it; what is left out is nowhere in the answer.
        """
        stored = await asyncio.to_thread(self.store.databases)
        seen = [narrow(stored[name].database) for name in sorted({*names} & stored.keys())]
        databases = {one.name: one for one in seen if one.tables}
        if not databases:
            return FoundTables()
        part = {one.name: len(one.tables) < len(stored[one.name].database.tables) for one in seen}
        texts = await self._search(question, _filter(databases, part))
        hits: dict[Place, Hit] = {}
        for hit in () if texts is None else texts.hits:
            hits.setdefault(_place_of(hit.passage.source), hit)
        scores = scored(databases, {place: hit.score for place, hit in hits.items()})
        chosen, text = _all_tables(databases, budget_tokens) or _chosen(databases, scores, budget_tokens)
        found = [
            FoundTable(name, one, scores[name, one.name], *_arms(hits.get((name, one.name)))) for name, one in chosen
        ]
        whole = len(found) == sum(len(one.tables) for one in databases.values())
        return FoundTables(found, text, tokens_of(text), whole, None if texts is None else texts.relevance)

    async def _search(self, question: Sequence[Turn], condition: str) -> Retrieved | None:
        view = View(ALL.groups, filter=condition)
        options = HitOptions(min_relevance=0.0, candidates=_HITS, least_chunks=_LEAST_CHUNKS)
        request = SearchRequest(question, [COLLECTION], k=_HITS, budget_tokens=0, view=view, hit_options=options)
        try:
            return await self.knowledge.search.retrieve(request)
        except UnknownCollection:
            return None


def _texts(database: DatabaseSchema) -> list[DocumentInput]:
    texts = [(f"{database.name}/{t.name}", title_of(database.name, t), search_text(t)) for t in database.tables]
    if database.description.strip():
        texts.append((f"{database.name}/", words_of(database.name), database.description))
    return [
        DocumentInput(
            key,
            key,
            "".join(c if c.isprintable() or c == "\n" else " " for c in text).encode("utf-8", "replace"),
            title,
            "text",
            attributes={_DATABASE: database.name, _TABLE: key},
            groups=(),
            writer=None,
            owner=f"tables.{database.name}",
        )
        for key, title, text in texts
    ]


def _place_of(source: str) -> Place:
    """A text's database and table; "" for a description."""
    name, _, table = source.partition("/")
    return name, table


def _arms(hit: Hit | None) -> tuple[Mapping[str, int], Mapping[str, float]]:
    return ({}, {}) if hit is None else (hit.ranks, hit.scores)


def _filter(databases: Mapping[str, DatabaseSchema], part: Mapping[str, bool]) -> str:
    """The filter for texts of these tables. part: whether a database has others, which a search shall not tell of."""
    whole = [name for name in databases if not part[name]]
    some = [f"{name}/{one.name}" for name, database in databases.items() if part[name] for one in database.tables]
    some += [f"{name}/" for name in databases if part[name]]
    return _any_of(((_DATABASE, tuple(whole)), (_TABLE, tuple(some))))


@lru_cache(maxsize=64)
def _any_of(wanted: tuple[tuple[str, tuple[str, ...]], ...]) -> str:
    parts: list[object] = [
        {"type": "in", "key": attribute, "value": list(values[at : at + _FILTER_VALUES])}
        for attribute, values in wanted
        for at in range(0, len(values), _FILTER_VALUES)
    ]
    return checked_filter({"type": "or", "filters": parts} if len(parts) > 1 else parts[0])


def scored(databases: Mapping[str, DatabaseSchema], own: Mapping[Place, float]) -> dict[Place, float]:
    """Each table's score: its own, and a part of the best among those whose foreign keys refer to it."""
    found = {
        (name, table.name): own.get((name, table.name), 0.0) for name, one in databases.items() for table in one.tables
    }
    further: dict[Place, float] = {}
    for name, database in databases.items():
        for table in database.tables:
            for place in {(name, key.table) for key in table.foreign_keys if key.table != table.name}:
                further[place] = max(further.get(place, 0.0), own.get((name, table.name), 0.0))
    return {place: score + _REFERRED_WEIGHT * further.get(place, 0.0) for place, score in found.items()}


def _all_tables(
    databases: Mapping[str, DatabaseSchema], budget: int
) -> tuple[list[tuple[str, TableSchema]], str] | None:
    """All tables and their text; None if they do not fit the budget."""
    every = [(name, table) for name, one in databases.items() for table in one.tables]
    if sum(len(table.columns) for _, table in every) * _LEAST_LINE_TOKENS > budget:
        return None  # without the work of writing them
    text = _text_of(databases, every, {})
    return (every, text) if tokens_of(text) <= budget else None


def _chosen(
    databases: Mapping[str, DatabaseSchema], scores: Mapping[Place, float], budget: int
) -> tuple[list[tuple[str, TableSchema]], str]:
    """The tables with the best scores whose cards fit a budget, and the text. A card that does not fit becomes lean."""
    tables = {(name, one.name): one for name, database in databases.items() for one in database.tables}
    order = sorted(tables, key=lambda place: -scores[place])
    headings = {name: _short(heading(one), budget // _DESCRIPTION_SHARE) for name, one in databases.items()}
    chosen: list[tuple[str, TableSchema]] = []
    cards: dict[Place, str] = {}
    left, missed = budget, 0
    for place in order:
        dialect = databases[place[0]].dialect
        first = 0 if any(one == place[0] for one, _ in chosen) else tokens_of(headings[place[0]]) + 1
        room = left - first - 1  # a line between cards
        texts = (card(tables[place], dialect), card(tables[place], dialect, lean=True))
        text = next((one for one in texts if tokens_of(one) <= room), "")
        if not text and not chosen:
            text = shortened(tables[place], dialect, room)
        if text:
            chosen.append((place[0], tables[place]))
            cards[place] = text
            left -= first + tokens_of(text) + 1
            missed = 0
        elif (missed := missed + 1) == _MOST_MISSED:
            break
    return chosen, _text_of(databases, chosen, cards, headings)


def _short(text: str, tokens: int) -> str:
    """A text cut to some tokens, at the end of a line if there is one."""
    if tokens_of(text) <= tokens:
        return text
    cut = text.encode("utf-8", "replace")[: tokens * 3].decode("utf-8", "ignore")
    return f"{cut.rpartition(chr(10))[0] or cut} …"


def _text_of(
    databases: Mapping[str, DatabaseSchema],
    tables: Sequence[tuple[str, TableSchema]],
    cards: Mapping[Place, str],
    headings: Mapping[str, str] | None = None,
) -> str:
    """Each database's heading with the cards of its tables."""
    parts = []
    for name in dict.fromkeys(name for name, _ in tables):
        one = databases[name]
        parts.append((headings or {}).get(name) or heading(one))
        parts += [cards.get((name, t.name)) or card(t, one.dialect) for of, t in tables if of == name]
    return "\n\n".join(parts)
