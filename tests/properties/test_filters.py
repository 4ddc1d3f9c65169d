"""Filters in every store, and of documents outside of them, against an oracle that reads the JSON itself."""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.records.documents import Passage
from retrieval.records.filters import checked_filter, filter_of, matches
from retrieval.records.search import View
from retrieval.stores.base import Store
from retrieval.stores.edge import EdgeStore
from retrieval.stores.qdrant import QdrantStore
from tests.contracts.points import VECTORS, passage_of, point_with, vector_of, words_of
from tests.support.rows import all_rows

KEYS = ["team", "year", "open", "tags", "issued", "my-key", "never"]
TEXTS = [
    "hr",
    "legal",
    "HR",
    "",
    "größe",
    ":true",
    "true",
    "2024",
    "2024-05-01",
    "2024-05-01T12:00:00+02:00",
    "1999-12-31",
]
NUMBERS = [0, 1, -1, 2024, 2024.5, 1e-7, 2**53]
SOURCES = ["docs/a.md", "docs/a/b.md", "docs/ab.md", "docs", "other/docs/a.md", "https://site.example/docs/a"]
TIMES = [0.0, 1700000000.25, 1714521600.0]
GROUPS: list[tuple[str, ...]] = [(), (), ("hr",), ("hr", "legal"), ("ops",)]


def shelf() -> list[tuple[Passage, tuple[str, ...]]]:
    """Documents of one passage each, with and without each attribute, each of any kind."""
    random = Random(7)
    made = []
    for number in range(120):
        attributes: dict[str, Any] = {}
        for key in KEYS[:-1]:
            kind = random.randrange(6)
            if kind == 0:
                attributes[key] = random.choice(TEXTS)
            elif kind == 1:
                attributes[key] = random.choice(NUMBERS)
            elif kind == 2:
                attributes[key] = random.random() < 0.5
            elif kind == 3:
                attributes[key] = random.sample(TEXTS, random.randrange(3))
        passage = replace(
            passage_of(f"the pool of {number}", ordinal=number),
            document=f"d{number}",
            source=random.choice(SOURCES),
            modified_s=random.choice(TIMES),
            attributes=attributes,
        )
        made.append((passage, random.choice(GROUPS)))
    return made


SHELF = shelf()

texts, numbers = st.sampled_from(TEXTS), st.sampled_from(NUMBERS)
values = st.one_of(texts, numbers, st.booleans())
keys = st.sampled_from(KEYS)
dates = st.sampled_from(["2024-05-01", "2024-05-01T10:00:00Z", "1999-12-31", "2024-04-30T23:59:59"])
bounds = st.sampled_from(["gt", "gte", "lt", "lte"])
leaves: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(lambda t, k, v: {"type": t, "key": k, "value": v}, st.sampled_from(["eq", "ne"]), keys, values),
    st.builds(
        lambda t, k, v: {"type": t, "key": k, "value": v},
        st.sampled_from(["in", "nin"]), keys, st.lists(values, min_size=1, max_size=4),
    ),
    st.builds(lambda t, k, v: {"type": t, "key": k, "value": v}, bounds, keys, st.one_of(numbers, dates)),
    st.builds(
        lambda t, v: {"type": t, "key": "modified_at", "value": v}, st.one_of(bounds, st.just("eq")),
        st.one_of(st.sampled_from(TIMES), dates),
    ),
    st.builds(
        lambda t, v: {"type": t, "key": "source", "value": v}, st.sampled_from(["eq", "ne"]), st.sampled_from(SOURCES)
    ),
    st.builds(
        lambda v: {"type": "prefix", "key": "source", "value": v},
        st.sampled_from(["docs", "docs/", "docs/a", "other", "https://site.example", "doc"]),
    ),
)  # fmt: skip
filters = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(
            lambda t, fs: {"type": t, "filters": fs},
            st.sampled_from(["and", "or"]), st.lists(inner, min_size=1, max_size=3),
        ),
        st.builds(lambda f: {"type": "not", "filter": f}, inner),
    ),
    max_leaves=6,
)  # fmt: skip


def expected(asked: dict[str, Any], passage: Passage) -> bool:
    """The oracle: by the words of the docs, one value after the other."""
    kind = asked["type"]
    if kind == "and":
        return all(expected(one, passage) for one in asked["filters"])
    if kind == "or":
        return any(expected(one, passage) for one in asked["filters"])
    if kind == "not":
        return not expected(asked["filter"], passage)
    if kind == "ne":
        return not expected({**asked, "type": "eq"}, passage)
    if kind == "nin":
        return not expected({**asked, "type": "in"}, passage)
    key, value = asked["key"], asked["value"]
    has: Any = passage.attributes.get(key)
    has = {"source": passage.source, "modified_at": passage.modified_s}.get(key, has)
    every = has if isinstance(has, list) else [] if has is None else [has]
    if kind == "prefix":
        path = value.rstrip("/")
        return passage.source == path or passage.source.startswith(path + "/")
    if kind in ("eq", "in"):
        wanted = value if kind == "in" else [value]
        if key == "modified_at":
            wanted = [when(one) if isinstance(one, str) else one for one in wanted]
        return any(type_of(one) == type_of(other) and one == other for one in every for other in wanted)
    if isinstance(value, str):
        sized = [
            one if key == "modified_at" else when(one)
            for one in every
            if key == "modified_at" or type_of(one) == "text"
        ]
        bound = when(value)
    else:
        sized, bound = [one for one in every if type_of(one) == "number"], value
    assert bound is not None
    return any(
        {"gt": one > bound, "gte": one >= bound, "lt": one < bound, "lte": one <= bound}[kind]
        for one in sized
        if one is not None
    )


def type_of(value: object) -> str:
    return {bool: "truth", int: "number", float: "number", str: "text"}[type(value)]


def when(text: str) -> float | None:
    if len(text) < 10 or text[4] != "-":
        return None
    found = datetime.fromisoformat(text)
    return (
        found if found.tzinfo else datetime.fromisoformat(text + ("T00:00:00Z" if len(text) == 10 else "Z"))
    ).timestamp()


@dataclass
class Filled:
    """A store with the shelf, and the loop it lives in."""

    store: Store
    loop: asyncio.AbstractEventLoop

    def seen(self, view: View) -> set[str]:
        return {passage.document for _, passage in self.loop.run_until_complete(self.store.passages("a@1", view))}

    def found(self, view: View, k: int) -> dict[str, list[str]]:
        """By each arm: the documents, all of the same words."""
        arms = self.loop.run_until_complete(self.store.search(["a@1"], vector_of(3), words_of("pool"), k=k, view=view))
        return {arm: [f"d{int(hit.id.replace('-', ''), 16)}" for hit in hits] for arm, hits in arms.items()}


@pytest.fixture(scope="module", params=["edge", "local"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    loop = asyncio.new_event_loop()
    store = loop.run_until_complete(opened(request.param, tmp_path_factory.mktemp("shard")))
    yield Filled(store, loop)
    loop.run_until_complete(store.close())
    loop.close()


async def opened(kind: str, folder: Path) -> Store:
    store: Store
    if kind == "edge":
        store = EdgeStore.open(folder, vectors=VECTORS)
    else:
        store = await QdrantStore.local(":memory:", collection="filters", vectors=VECTORS)
    await store.upsert("a@1", [point_with(n, replace(one, groups=groups)) for n, (one, groups) in enumerate(SHELF)])
    await store.upsert("b@1", [point_with(1000 + n, one) for n, (one, _) in enumerate(SHELF)])
    return store


@given(filters, st.sampled_from([None, (), ("hr",), ("legal", "ops"), ("nobody",)]))
def test_a_store_finds_what_a_brute_force_search_finds(
    filled: Filled, asked: dict[str, Any], groups: tuple[str, ...] | None
) -> None:
    view = View(groups, checked_filter(asked))
    wanted = {
        one.document
        for one, of in SHELF
        if expected(asked, one) and (groups is None or not of or set(of) & set(groups))
    }
    assert filled.seen(view) == wanted
    for k in (5, 200):
        for arm, found in filled.found(view, k).items():
            assert set(found) <= wanted, arm
            assert len(found) == min(k, len(wanted)), arm


@given(filters)
def test_a_document_outside_of_a_store_is_judged_alike(asked: dict[str, Any]) -> None:
    for one, _ in SHELF:
        assert matches(filter_of(asked), one.source, one.modified_s, one.attributes) == expected(asked, one)


@given(st.recursive(st.one_of(st.none(), values, st.text()), lambda inner: st.one_of(
    st.lists(inner, max_size=3),
    st.dictionaries(st.sampled_from(["type", "key", "value", "filters", "filter", "x"]), inner, max_size=4),
), max_leaves=12))  # fmt: skip
def test_what_is_no_filter_is_refused_and_nothing_breaks(value: object) -> None:
    with contextlib.suppress(ValueError):
        filter_of(value)


@all_rows(("value", "said"), [
    ({"type": "eq", "key": "groups", "value": "hr"}, "cannot filter by groups"),
    ({"type": "eq", "key": "tenant@1", "value": "a"}, "'key' must be"),
    ({"type": "eq", "key": "a.b", "value": "a"}, "'key' must be"),
    ({"type": "eq", "key": "team", "value": None}, "cannot be compared"),
    ({"type": "eq", "key": "team", "value": 10**400}, "cannot be compared"),
    ({"type": "gt", "key": "team", "value": "zebra"}, "compares numbers, and dates"),
    ({"type": "gt", "key": "source", "value": 1}, "compares numbers, and dates"),
    ({"type": "in", "key": "team", "value": []}, "list of 1 to 100"),
    ({"type": "prefix", "key": "team", "value": "a"}, "for the key source"),
    ({"type": "like", "key": "team", "value": "a"}, "no filter of the type"),
    ({"type": "eq", "key": "team", "value": "a", "must": []}, "there is no 'must'"),
    ({"type": "and", "filters": []}, "list of 1 to 64"),
    ({"type": "and", "filters": [{"type": "eq", "key": "a", "value": 1}] * 60 + [
        {"type": "or", "filters": [{"type": "eq", "key": "a", "value": 1}] * 60}]}, "at most 64 comparisons"),
])  # fmt: skip
def test_refusals_say_what_is_wrong(value: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        filter_of(value)


def test_depth_is_limited() -> None:
    asked: dict[str, Any] = {"type": "eq", "key": "team", "value": "hr"}
    for _ in range(7):
        asked = {"type": "not", "filter": asked}
    filter_of(asked)
    for _ in range(2000):
        asked = {"type": "not", "filter": asked}
    with pytest.raises(ValueError, match="at most 8 deep"):
        filter_of(asked)
