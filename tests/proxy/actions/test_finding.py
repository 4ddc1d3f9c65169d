"""Operations found by a question: the text of an operation, and the sets that a search reads."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cli.common import knowledge
from config.settings import load
from proxy.actions.library import ActionLibrary
from proxy.actions.openapi.operation import Operation
from proxy.actions.store import ActionSet, ActionStore
from retrieval.records.documents import Passage
from retrieval.records.search import ALL, Context, Hit, Query, Retrieved, Turn
from tests.support.unasked import Unasked


@pytest.fixture
async def library(tmp_path: Path) -> AsyncIterator[ActionLibrary]:
    settings = load(flags={"data": str(tmp_path), "embedder.model": "hash"})
    async with knowledge(settings, make=True) as opened:
        library = ActionLibrary(ActionStore(tmp_path), opened)
        yield library
        library.store.close()


def document(title: str, **paths: Any) -> bytes:
    """An OpenAPI document; paths: name of each operation -> members of the operation."""
    rows = {f"/{name}": {"get": {"operationId": name, **members}} for name, members in paths.items()}
    servers = [{"url": "https://api.example.com"}]
    return json.dumps({"openapi": "3.1.0", "info": {"title": title}, "servers": servers, "paths": rows}).encode()


async def found(library: ActionLibrary, question: str, *sets: str) -> list[str]:
    operations = await library.find([Turn("user", question)], sets, k=5, view=ALL)
    return [f"{one.set}/{one.operation.name}" for one in operations]


async def test_the_title_of_the_api_finds_an_operation_that_does_not_say_the_subject(library: ActionLibrary) -> None:
    await library.add("a", document("Invoices", list={"summary": "List all"}))
    await library.add("b", document("Penguins", list={"summary": "List all"}))
    assert (await found(library, "list all penguins", "a", "b"))[0] == "b/list"


async def test_a_changed_title_of_the_api_changes_the_text(library: ActionLibrary) -> None:
    await library.add("a", document("Invoices", list={"summary": "List all"}))
    assert (await library.add("a", document("Penguins", list={"summary": "List all"}))).changed == 1
    assert await found(library, "penguins", "a") == ["a/list"]


@pytest.mark.parametrize("letter", ["a ", "한"])
async def test_an_operation_with_a_long_summary_is_found(library: ActionLibrary, letter: str) -> None:
    await library.add("a", document(letter * 300, list={"summary": letter * 200 + " penguins"}))
    assert await found(library, "penguins", "a") == ["a/list"]


async def test_a_search_reads_only_the_named_sets(library: ActionLibrary) -> None:
    for name in ("a", "b", "c"):
        await library.add(name, document("Birds", penguins={"summary": "List penguins"}))
    assert sorted(await found(library, "list penguins", "a", "c")) == ["a/penguins", "c/penguins"]
    assert await found(library, "list penguins") == []


async def test_more_sets_than_a_condition_of_a_filter_takes_are_searched(library: ActionLibrary) -> None:
    await library.add("last", document("Birds", penguins={"summary": "List penguins"}))
    assert await found(library, "list penguins", *(f"set-{n}" for n in range(250)), "last") == ["last/penguins"]


async def test_removing_a_set_keeps_the_operations_of_the_other_sets(library: ActionLibrary) -> None:
    for name in ("a", "b"):
        await library.add(name, document("Birds", penguins={"summary": "List penguins"}))
    assert await library.remove("a")
    assert not await library.remove("a")
    assert await found(library, "list penguins", "a", "b") == ["b/penguins"]


def passage_of(source: str) -> Passage:
    return Passage("", 1, 0, "", source, 0.0, (), 0, 1, "penguins", 1)


class FixedHits(Unasked):
    """Two operations that fit the same, and a further operation of the second set.

    The real index puts equal chunks in any order, with different scores.
    """

    async def retrieve(self, *_args: object, **_named: object) -> Retrieved:
        scores = {"a/search": 0.5, "b/search": 0.5, "b/young": 0.4, "c/count": 0.1}
        hits = [Hit(source, score, passage_of(source)) for source, score in scores.items()]
        return Retrieved(Query("", (), (), ""), tuple(hits), Context((), 0, 0), {})


async def test_an_operation_of_the_api_with_more_hits_comes_before_an_equal_operation(tmp_path: Path) -> None:
    store = ActionStore(tmp_path)
    for name, paths in {"a": ["search"], "b": ["search", "young"], "c": ["count"]}.items():
        operations = [Operation(path, "GET", f"/{path}", {"properties": {}}) for path in paths]
        store.put(ActionSet(name, "", "https://x.example", 0, ()), operations)
    library = ActionLibrary(store, FixedHits())
    assert (await found(library, "search penguins", "a", "b", "c"))[:2] == ["b/search", "a/search"]
    store.close()
