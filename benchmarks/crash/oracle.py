"""The expected state after a crash: an in-memory model of a library, the acts, and the observed state."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from retrieval.errors import RetrievalError
from retrieval.knowledge import HitOptions, Knowledge, SearchRequest
from retrieval.records.search import Turn

COLLECTIONS = ("alpha", "beta", "gamma")
FILE = "file "  # prefix of the keys of file documents
_KEYS, _FILES, _PARTS = 6, 6, 4
_ALL = 1000
_TOKEN = re.compile(r"zq[0-9a-f]{10}")
_KINDS = ("put", "put", "ingest", "ingest", "delete document", "delete collection", "rebuild", "reindex")

Texts = dict[str, str]  # key -> text
Seen = dict[str, Texts]  # collection -> documents


@dataclass(frozen=True, slots=True)
class Act:
    """An act on a collection, and the expected result for each document."""

    kind: str
    collection: str
    texts: dict[str, str | None] = field(default_factory=dict)  # None: gone


@dataclass(slots=True)
class Oracle:
    """The state of acknowledged acts; one act may have started, so each document has the old or the new state."""

    random: Random
    there: Seen = field(default_factory=dict)
    files: Seen = field(default_factory=dict)  # of each collection's folder: key -> text
    begun: Act | None = None

    def next(self) -> Act:
        """A random act."""
        random = self.random
        name = random.choice(COLLECTIONS)
        kind = random.choice(_KINDS)
        if kind == "ingest":
            return self.ingest(name)
        if name not in self.there:
            return Act("create", name)
        texts = self.there[name]
        if kind == "put":
            keys = random.sample(range(_KEYS), random.randint(1, 3))
            changed: dict[str, str | None] = {f"d{i}": self._text() for i in keys}
            return Act("replace" if changed.keys() <= texts.keys() else "put", name, changed)
        if kind == "delete document" and texts:
            return Act(kind, name, {random.choice(sorted(texts)): None})
        if kind == "delete collection" and random.random() < 0.5:
            return Act(kind, name, dict.fromkeys(texts))
        return Act(kind, name) if kind in ("rebuild", "reindex") else Act("rebuild", name)

    def ingest(self, name: str) -> Act:
        """An ingest after changes of some files, with at most one deleted file."""
        files = self.files.setdefault(name, {})
        for i in self.random.sample(range(_FILES), self.random.randint(1, 3)):
            files[f"{FILE}f{i}.md"] = self._text()
        if len(files) > 1 and self.random.random() < 0.3:
            del files[self.random.choice(sorted(files))]
        gone = [key for key in self.there.get(name, {}) if key.startswith(FILE) and key not in files]
        return Act("ingest", name, {**files, **dict.fromkeys(gone)})

    def _text(self) -> str:
        parts = [
            f"## Part {i}\n\nThe pump of this part is called zq{self.random.randbytes(5).hex()}. Oil it on Mondays."
            for i in range(self.random.randint(1, _PARTS))
        ]
        return "# Pumps\n\n" + "\n\n".join(parts) + "\n"

    def begin(self, act: Act) -> None:
        self.begun = act

    def done(self) -> None:
        """The started act is acknowledged."""
        assert self.begun is not None
        act, self.begun = self.begun, None
        if act.kind == "delete collection":
            self.there.pop(act.collection, None)
            return
        texts = self.there.setdefault(act.collection, {})
        for key, text in act.texts.items():
            if text is None:
                texts.pop(key, None)
            else:
                texts[key] = text

    def judge(self, seen: Seen) -> list[str]:
        """The errors in the observed state, which becomes the expected state."""
        wrong = [line for name in COLLECTIONS for line in self._judge(name, seen.get(name))]
        self.there = {name: dict(texts) for name, texts in seen.items()}
        return wrong

    def _judge(self, name: str, seen: Texts | None) -> list[str]:
        act = self.begun if self.begun is not None and self.begun.collection == name else Act("nothing", name)
        before = self.there.get(name)
        if seen is None:
            lost = before is not None and act.kind != "delete collection"
            return [f"{name} is gone, {act.kind} being under way"] if lost else []
        if before is None and act.kind not in ("create", "ingest"):
            return [f"{name} is there, {act.kind} being under way"]
        before = before or {}
        if act.kind == "delete collection":  # at once
            return [] if seen in ({}, before) else [f"{name} is half deleted: {sorted(seen)} of {sorted(before)}"]
        wrong = []
        for key in sorted({*before, *seen, *act.texts}):
            allowed = {before.get(key), act.texts.get(key, before.get(key))}
            if seen.get(key) not in allowed:
                wrong.append(f"{name}/{key} is {seen.get(key)!r}, due one of {allowed}, {act.kind} being under way")
        return wrong


async def look(knowledge: Knowledge) -> tuple[Seen, list[str]]:
    """The state of the catalog, and contradictions in counts and search results."""
    seen: Seen = {}
    wrong: list[str] = []
    for row in await knowledge.library.collections():
        infos = await knowledge.library.documents(row.name, after="", limit=_ALL)
        texts = {info.id: (await knowledge.library.document(info.id)).text for info in infos}
        seen[row.name] = {info.key or FILE + info.source.rpartition("/")[2]: texts[info.id] for info in infos}
        if (row.documents, row.chunks) != (len(infos), sum(info.chunks for info in infos)):
            wrong.append(
                f"{row.name} has {row.documents} documents and {row.chunks} chunks by the list, not by its own"
            )
        if infos:
            try:
                found = await _found(knowledge, row.name, "Which pump?", HitOptions("dense"))
                wrong += _compared(row.name, {info.id: info.chunks for info in infos}, texts, found)
                wrong += [line for text in texts.values() for line in await _named(knowledge, row.name, text)]
            except RetrievalError as error:
                wrong.append(f"{row.name} cannot be searched: {error}")
    return seen, wrong


async def _found(knowledge: Knowledge, name: str, question: str, hit_options: HitOptions) -> list[tuple[str, str]]:
    """(document, text) of every found passage."""
    hits = (
        await knowledge.search.retrieve(
            SearchRequest([Turn("user", question)], [name], k=_ALL, hit_options=hit_options)
        )
    ).hits
    return [(hit.passage.document, hit.passage.text) for hit in hits]


def _compared(name: str, chunks: dict[str, int], texts: dict[str, str], found: Sequence[tuple[str, str]]) -> list[str]:
    """Check that each document's passages are complete and belong to the document."""
    wrong = [f"{name} shows a passage of no document: {text!r}" for id, text in found if id not in texts]
    for id, text in texts.items():
        passages = [passage for of, passage in found if of == id]
        if len(passages) != chunks[id] or {*_tokens(" ".join(passages))} != {*_tokens(text)}:
            wrong.append(f"{name} has {len(passages)} of {chunks[id]} passages of {text!r}: {passages}")
    return wrong


async def _named(knowledge: Knowledge, name: str, text: str) -> list[str]:
    """Check that lexical search finds the last word unique to a document."""
    word = _tokens(text)[-1]
    found = await _found(knowledge, name, word, HitOptions("bm25"))
    return [] if any(word in passage for _, passage in found) else [f"{name} does not find {word}: {found}"]


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)
