"""Checks before a run's first request: do its collections exist, hold documents, or even contain the questions?

If a document contains a question almost word for word, retrieval finds it by the question's own words, perhaps with the
answer next to it. Results for leaked questions say nothing about others. A leak is found by three-word runs that a
question shares with a window of a document about as long as itself; all its numbers must be in that window.
"""

import asyncio
import bisect
import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from evaluation.answers.client.collection_reader import document_ids, export
from evaluation.answers.judges.judge_tasks import asked_text
from evaluation.answers.records import BenchError, Leak, Question, Variant
from evaluation.answers.scoring.normalize import holds, terms

_MOST_BYTES = 64 * 2**20  # of documents, over all collections
_SHARED = 0.8  # of three-word runs: nearly word for word
_WINDOW = 1.3  # of the question's length
_LEAST_TERMS, _LEAST_CHARS = 4, 12  # shorter questions ("Is TLS on?") stand anywhere by chance
_NEAR_TERMS = 200  # terms after a question, to search for its answer
# of a question in one document, which may repeat it many times
_MOST_PLACES, _MOST_WINDOWS = 2000, 100
_MANY = 50  # documents per batch


def searched(variants: Iterable[Variant]) -> list[str]:
    """Collections that variants name."""
    named = (name for variant in variants if variant.mode != "raw" for name in variant.collections or ())
    return list(dict.fromkeys(named))


async def checked(
    client: httpx.AsyncClient, variants: Sequence[Variant], listed: Sequence[str] | None, default: Sequence[str]
) -> list[str]:
    """Collections that a run searches; each has documents.

    listed: what the gateway lists; None: it lists none. default: for variants that name none; only listed ones count.
    Raises BenchError if a named collection is missing or empty, or if none remains.
    """
    names = searched(variants)
    for name in names:
        if await _empty(client, name):
            raise BenchError(f"the collection {name!r} has no documents: ingest documents first")
    if listed is not None and any(variant.mode != "raw" and not variant.collections for variant in variants):
        there = [name for name in default if name in listed]
        full = [name for name in there if name in names or not await _empty(client, name)]
        if not full:
            what = ", ".join(default) or "any"
            raise BenchError(
                f"there are no documents in {what}: ingest documents, or name another collection with --collection"
            )
        names += [name for name in full if name not in names]
    return names


async def leaks(
    client: httpx.AsyncClient, collections: Sequence[str], questions: Sequence[Question]
) -> tuple[dict[str, Leak], str]:
    """Question -> its leak, and why some documents were not searched ("" if all were)."""
    looked = _LeakSearch(questions)
    left = _MOST_BYTES
    for name in collections:
        batch: list[Mapping[str, Any]] = []
        try:
            async for document, size in export(client, name, "could not be looked through"):
                left -= size
                if left < 0:
                    return looked.found, f"only the first {_MOST_BYTES >> 20} MB of the documents were looked through"
                batch.append(document)
                if len(batch) == _MANY:
                    await asyncio.to_thread(looked.take, batch)
                    batch = []
            await asyncio.to_thread(looked.take, batch)
        except BenchError as error:
            return looked.found, str(error)
    return looked.found, ""


def about_leaks(leaked: Mapping[str, Leak], questions: int) -> str:
    """A warning about leaks, for readers; "" without any."""
    if not leaked:
        return ""
    answers = sum(one.answer for one in leaked.values())
    shown = ", ".join(f"{id} in {one.source}" for id, one in list(leaked.items())[:5])
    more = " …" if len(leaked) > 5 else ""
    with_answer = f", {answers} of them with the answer" if answers else ""
    return (
        f"Leak: {len(leaked)} of {questions} questions stand in the documents nearly word for word{with_answer} "
        f"({shown}{more}). Results for these questions say little about other questions."
    )


async def _empty(client: httpx.AsyncClient, name: str) -> bool:
    """Whether a collection has no documents. Raises BenchError if it cannot be read."""
    return not await document_ids(client, name, most=1)


@dataclass(frozen=True, slots=True)
class _SoughtQuestion:
    """A question, prepared for searching."""

    id: str
    size: int  # terms
    runs: int
    numbers: frozenset[str]
    answers: Sequence[Sequence[str]]  # every phrase must occur nearby


class _LeakSearch:
    """Looks through documents for questions."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self.found: dict[str, Leak] = {}
        self._runs: dict[tuple[str, ...], list[tuple[_SoughtQuestion, int]]] = defaultdict(list)
        for one in questions:
            said = terms(asked_text(one).rpartition("The question:\n")[2])
            if len(said) < _LEAST_TERMS or sum(map(len, said)) < _LEAST_CHARS:
                continue
            runs = _runs(said)
            known = [one.reference] if one.reference else one.must
            answers = [phrase for text in known if (phrase := terms(text))]
            numbers = frozenset(term for term in said if term[-1].isdecimal())
            wanted = _SoughtQuestion(one.id, len(said), len(set(runs)), numbers, answers)
            for at, run in enumerate(runs):
                self._runs[run].append((wanted, at))

    def take(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """Search exported documents for the questions."""
        for document in documents:
            text = f"{document.get('title', '')}\n\n{document.get('text', '')}"
            self._look(terms(text), str(document.get("source") or document.get("id")))

    def _look(self, held: Sequence[str], source: str) -> None:
        met: dict[str, list[tuple[int, int]]] = defaultdict(list)  # question -> (place in the document, which run)
        wanted: dict[str, _SoughtQuestion] = {}
        for place, run in enumerate(_runs(held)):
            for one, at in self._runs.get(run, ()):
                if len(met[one.id]) < _MOST_PLACES:
                    met[one.id].append((place, at))
                    wanted[one.id] = one
        for id, places in met.items():
            one = wanted[id]
            known = self.found.get(id)
            if known is not None and (known.answer or not one.answers):
                continue
            for begin in itertools.islice(_windows(places, one), _MOST_WINDOWS):
                window = held[begin : begin + int(_WINDOW * one.size) + 1]
                if not one.numbers <= set(window):
                    continue
                near = held[begin : begin + one.size + _NEAR_TERMS]
                answer = bool(one.answers) and all(holds(near, phrase) for phrase in one.answers)
                if known is None or answer:
                    self.found[id] = known = Leak(source, answer)
                if answer:
                    break


def _runs(said: Sequence[str]) -> list[tuple[str, ...]]:
    return list(zip(said, said[1:], said[2:], strict=False))


def _windows(places: Sequence[tuple[int, int]], wanted: _SoughtQuestion) -> Iterable[int]:
    """Where windows of a document start that have enough of a question's three-word runs."""
    longest = int(_WINDOW * wanted.size) + 1
    starts = [place for place, _ in places]
    for begin in dict.fromkeys(starts):
        first, behind = bisect.bisect_left(starts, begin), bisect.bisect_left(starts, begin + longest)
        if behind - first >= _SHARED * wanted.runs and len({at for _, at in places[first:behind]}) >= (
            _SHARED * wanted.runs
        ):
            yield begin
