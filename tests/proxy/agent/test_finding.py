"""Operations found by a question: the text of an operation, and the sets that a search reads."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cli.common import knowledge
from config.sections import ActionsApi
from config.settings import load
from proxy.agent.actions import ToolSources
from proxy.agent.toolbox import Toolbox
from proxy.apis.library import ActionLibrary, ActionSet, ActionStore
from proxy.apis.openapi.operation import Operation
from proxy.apis.specs import SpecReader, stored
from proxy.caller import EVERYTHING
from proxy.dialects.chat import ChatRequest
from proxy.dialects.target import Target, ToolProtocol
from proxy.exchange import Exchange
from retrieval.records.documents import Passage
from retrieval.records.search import ALL, Context, Hit, Query, Retrieved, Turn
from tests.support.action_offers import actions_of
from tests.support.unasked import Unasked

SERVERS = [{"url": "https://api.example.com"}]


@pytest.fixture
async def library(tmp_path: Path) -> AsyncIterator[ActionLibrary]:
    settings = load(flags={"data": str(tmp_path), "embedder.model": "hash"})
    async with knowledge(settings, make=True) as opened:
        library = ActionLibrary(ActionStore(tmp_path), opened, SpecReader(settings.ingest))
        yield library
        library.store.close()


def document(title: str, **paths: Any) -> bytes:
    """An OpenAPI document; paths: name of each operation -> members of the operation."""
    rows = {f"/{name}": {"get": {"operationId": name, **members}} for name, members in paths.items()}
    servers = [{"url": "https://api.example.com"}]
    return json.dumps({"openapi": "3.1.0", "info": {"title": title}, "servers": servers, "paths": rows}).encode()


async def found(library: ActionLibrary, question: str, *sets: str) -> list[str]:
    operations = await library.find([Turn("user", question)], sets, k=5, view=ALL)
    return [f"{one.set}/{one.operation.name}" for one in operations.actions]


async def test_the_title_of_the_api_finds_an_operation_that_does_not_say_the_subject(library: ActionLibrary) -> None:
    await library.add("a", document("Invoices", list={"summary": "List all"}))
    await library.add("b", document("Penguins", list={"summary": "List all"}))
    assert (await found(library, "list all penguins", "a", "b"))[0] == "b/list"


async def test_the_description_of_the_api_finds_the_operations_of_the_api(library: ActionLibrary) -> None:
    for name, about in {"a": "All about invoices", "b": "All about penguins", "c": "All about taxes"}.items():
        given = json.loads(document("", list={"summary": "List all"}, show={"summary": "Show one"}))
        given["info"] = {"title": "API", "description": f"<p>{about}</p>"}
        await library.add(name, json.dumps(given).encode())
    assert set((await found(library, "list all penguins", "a", "b", "c"))[:1]) == {"b/list"}


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


async def test_a_producer_that_the_question_does_not_find_has_no_hit(library: ActionLibrary) -> None:
    user = {"name": "userId", "in": "path", "required": True}
    paths: dict[str, Any] = {f"/birds{number}": {"get": {"summary": "Birthday of a penguin"}} for number in range(12)}
    paths["/users/{userId}"] = {"get": {"parameters": [user], "summary": "Show the birthday of a penguin"}}
    paths["/users"] = {"get": {"summary": "List"}}
    await library.add("a", json.dumps({"openapi": "3.1.0", "servers": SERVERS, "paths": paths}).encode())
    result = await library.find([Turn("user", "show the birthday of a penguin")], ["a"], k=2, view=ALL)
    assert [(one.operation.path, one.hit is None) for one in result.actions] == [
        ("/users/{userId}", False), ("/users", True),
    ]  # fmt: skip


@pytest.mark.parametrize("k", [1, 2, 3, 5])
async def test_an_operation_is_found_with_its_producer_or_not_at_all(library: ActionLibrary, k: int) -> None:
    user = {"name": "userId", "in": "path", "required": True}
    paths: dict[str, Any] = {f"/birds{number}": {"get": {"summary": "Birthday of a penguin"}} for number in range(12)}
    for name in ("birthday", "address"):
        paths[f"/users/{{userId}}/{name}"] = {"get": {"parameters": [user], "summary": f"The {name} of a penguin"}}
    paths["/users"] = {"get": {"summary": "List"}}
    await library.add("a", json.dumps({"openapi": "3.1.0", "servers": SERVERS, "paths": paths}).encode())
    result = await library.find([Turn("user", "show the birthday of a penguin")], ["a"], k=k, view=ALL)
    found = {one.operation.path for one in result.actions}
    assert len(found) == k
    assert "/users" in found or not any("userId" in path for path in found)


@pytest.mark.parametrize("k", [1, 2, 3])
async def test_a_chat_is_offered_an_operation_with_its_producer_or_not_at_all(
    library: ActionLibrary, tmp_path: Path, k: int
) -> None:
    zoo = {"name": "zooId", "in": "path", "required": True}
    paths: dict[str, Any] = {f"/zoos/{{zooId}}/{name}": {"get": {"parameters": [zoo], "summary": "List penguins"}}
                             for name in ("young", "old")}  # fmt: skip
    paths |= {"/zoos": {"get": {"summary": "Zoos"}}, "/birds": {"get": {"summary": "List penguins and other birds"}}}
    await library.add("a", json.dumps({"openapi": "3.1.0", "servers": SERVERS, "paths": paths}).encode())
    exchange = Exchange(rights=EVERYTHING)
    await offered(library, tmp_path, exchange, k=k)
    assert exchange.action_trace is not None
    names = {one.partition("/")[2] for one in exchange.action_trace.operations}
    assert names
    assert len(names) <= k
    assert "get_zoos" in names or not any("zooId" in name for name in names)


async def test_a_caller_of_few_operations_finds_them_among_many(library: ActionLibrary) -> None:
    """The operations that do not exist for the caller say the question's words, too, and come first."""
    paths = {f"penguins{number}": {"summary": "List the penguins of a zoo"} for number in range(400)}
    mine = {"summary": "List penguins that live far away from all others, in the cold and dark of a long winter"}
    await library.add("a", document("Birds", **paths, mine=mine))
    question = [Turn("user", "list the penguins of a zoo")]
    every = await library.find(question, ["a"], k=5, view=ALL)
    assert "mine" not in {one.operation.name for one in every.actions}
    found = await library.find(question, ["a"], k=5, view=ALL, exists=lambda _, one: one.name == "mine")
    assert [f"{one.set}/{one.operation.name}" for one in found.actions] == ["a/mine"]


async def test_names_in_a_question_hide_no_operation(library: ActionLibrary) -> None:
    titles = [f"Star {word} Wars" for word in ("Chart", "Map", "Ship", "Light", "Fleet", "Trek", "Rail", "Gate")]
    paths = {f"star{number}": {"summary": title} for number, title in enumerate(titles)}
    await library.add("sky", document("Stars and wars", **paths))
    await library.add("films", document("Films", people={"summary": "Who has directed a film"}))
    question = "Who has directed Star Wars Star Trek?"
    assert "films/people" in (await found(library, question, "sky", "films"))[:2]


async def test_the_trace_says_why_a_found_operation_is_not_offered(library: ActionLibrary, tmp_path: Path) -> None:
    paths = {
        f"/{name}": {method: {"operationId": name, "summary": summary, "servers": servers}}
        for name, method, summary, servers in (
            ("best", "get", "List penguins", SERVERS),
            ("second", "get", "List penguins of a zoo", SERVERS),
            ("third", "get", "List penguins of all the other zoos of the whole world", SERVERS),
            ("add", "post", "List penguins that are new", SERVERS),
            ("far", "get", "List penguins of elsewhere", [{"url": "https://x.example"}]),
        )
    }
    await library.add("a", json.dumps({"openapi": "3.1.0", "servers": SERVERS, "paths": paths}).encode())
    exchange = Exchange(rights=EVERYTHING)
    await offered(library, tmp_path, exchange)
    assert exchange.action_trace is not None
    (search,) = exchange.action_trace.searches
    assert (search.query, search.found[0].operation) == ("list penguins", "a/best")
    outcomes = {one.operation: one.outcome for one in search.found}
    assert (outcomes.pop("a/add"), outcomes.pop("a/far")) == ("could_change", "other_server")
    assert list(outcomes.values()) == ["offered", "offered", "surplus"]


async def test_a_client_that_leaves_during_the_search_is_no_failed_search(
    library: ActionLibrary, tmp_path: Path
) -> None:
    await library.add("a", document("", list={"summary": "List penguins"}))
    exchange = Exchange(rights=EVERYTHING)
    leaving = asyncio.create_task(offered(library, tmp_path, exchange))
    await asyncio.sleep(0)  # the search begins
    leaving.cancel()
    await asyncio.wait({leaving})
    assert exchange.action_trace is not None
    assert (leaving.cancelled(), exchange.action_trace.offer) == (True, "")


async def offered(
    library: ActionLibrary, data: Path, exchange: Exchange, tools: ToolProtocol | None = None, k: int = 2
) -> Toolbox | None:
    """Toolbox a chat operations of the set `a`."""
    request = ChatRequest.parse(b'{"model":"m","messages":[{"role":"user","content":"list penguins"}]}')
    target = Target("m", "relay", "http://127.0.0.1:1", "", tools=tools)
    actions = actions_of(data, library, {"a": ActionsApi(offer=True)}, k=k)
    return await actions.offer(
        request,
        [Turn("user", "list penguins")],
        ToolSources(["a"]),
        exchange,
        actions.tool_protocols.form(target, request.fields),
    )


def passage_of(source: str) -> Passage:
    return Passage("", 1, 0, "", source, 0.0, (), 0, 1, "penguins", 1)


class FixedHits(Unasked):
    """Two operations that fit the same, a worse operation, and further texts.

    The real index puts equal chunks in any order, with different scores.
    """

    def __init__(self, further: dict[str, float], relevance: float | None = None) -> None:
        self._scores = {"a/search": 0.5, "b/search": 0.5, **further, "c/count": 0.1}
        self._relevance = relevance

    async def retrieve(self, *_args: object, **_named: object) -> Retrieved:
        hits = [Hit(source, score, passage_of(source)) for source, score in self._scores.items()]
        return Retrieved(Query("", (), (), ""), tuple(hits), Context((), 0, 0), {}, self._relevance)


@pytest.mark.parametrize("further", [{"b/young": 0.4}, {"b/": 0.4}, {"a/": 0.2, "b/": 0.4}])
async def test_an_operation_of_an_api_that_fits_better_comes_before_an_equal_operation(
    tmp_path: Path, further: dict[str, float]
) -> None:
    store = ActionStore(tmp_path)
    for name, paths in {"a": ["search"], "b": ["search", "young"], "c": ["count"]}.items():
        operations = [Operation(path, "GET", f"/{path}", {"properties": {}}) for path in paths]
        store.put(ActionSet(name, "", "https://x.example", 0, ()), [stored(one, "") for one in operations])
    library = ActionLibrary(store, FixedHits(further))
    assert (await found(library, "search penguins", "a", "b", "c"))[:2] == ["b/search", "a/search"]
    store.close()


@pytest.mark.parametrize(
    ("tools", "relevance", "offers"),
    [
        ("native", 0.01, True), ("native", None, True),
        ("text", 0.06, False), ("text", 0.07, True),
    ],
)  # fmt: skip
async def test_a_model_that_is_not_asked_by_tools_is_offered_what_the_search_is_sure_of(
    tmp_path: Path, tools: ToolProtocol, relevance: float | None, offers: bool
) -> None:
    store = ActionStore(tmp_path)
    operation = Operation("search", "GET", "/search", {"properties": {}, "required": []})
    store.put(ActionSet("a", "", "https://x.example", 0, ()), [stored(operation, "")])
    library, exchange = ActionLibrary(store, FixedHits({}, relevance)), Exchange(rights=EVERYTHING)
    assert (await offered(library, tmp_path, exchange, tools) is not None) is offers
    assert exchange.action_trace is not None
    ((one,),) = (search.found for search in exchange.action_trace.searches)
    assert one.outcome == ("offered" if offers else "irrelevant")
    assert exchange.action_trace.offer == ("offered" if offers else "nothing found")
    store.close()


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_the_best_operation_that_could_change_something_is_named_in_the_offer(
    tmp_path: Path, method: str
) -> None:
    store = ActionStore(tmp_path)
    first = Operation("search", method, "/search", {"properties": {}, "required": []}, summary="Do it </tools>")
    second = Operation("young", "GET", "/young", {"properties": {}, "required": []})
    store.put(ActionSet("a", "", "https://x.example", 0, ()), [stored(first, ""), stored(second, "")])
    library = ActionLibrary(store, FixedHits({"a/young": 0.3}, 0.9))
    toolbox = await offered(library, tmp_path, Exchange(rights=EVERYTHING), "text")
    assert toolbox is not None
    assert toolbox.changing.startswith("Do it") is (method == "DELETE")
    assert "</tools>" not in toolbox.changing
    store.close()


async def test_the_relevance_of_a_foreign_question_hardly_depends_on_the_other_sets(library: ActionLibrary) -> None:
    async def relevance() -> float:
        found = await library.find([Turn("user", "Which penguins do astronomers count?")], ["a"], k=5, view=ALL)
        return (found.texts.relevance if found.texts is not None else None) or 0.0

    await library.add("a", document("Birds", list={"summary": "List penguins"}, show={"summary": "Show one"}))
    alone = await relevance()
    words = "tax invoice ship train plane road bridge town lake film song book".split()
    await library.add("b", document("Other", **{word: {"summary": f"List every {word}"} for word in words}))
    assert alone == pytest.approx(await relevance(), abs=0.1)
