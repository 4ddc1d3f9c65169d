"""Documents read in processes of their own: within limits, given up with their reader, and cheap to receive."""

import asyncio
import json
import pickle
import pickletools
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from proxy.apis.library import ActionStore
from proxy.apis.openapi.read import UnreadableSpec
from proxy.apis.specs import OF_CLIENT, OF_OWNER, SetRows, Spec, SpecLimits, SpecReader
from tests.support.gateway import PATIENCE_S
from tests.support.plans import READING

HEAD = b"openapi: 3.0.0\npaths: {/a: {get: {operationId: o, responses: {}}}}\nservers: [{url: 'https://a.example'}]\n"
SMALL = json.dumps({"openapi": "3.1.0", "paths": {"/a": {"get": {"operationId": "a"}}}}).encode()


@cache
def slow() -> bytes:
    """A document that takes minutes of a processor: each operation has all values of the schema."""
    named = {"name": "a", "in": "query", "schema": {"enum": list(range(18_000))}}
    return json.dumps(
        {"openapi": "3.1.0", "paths": {f"/{number}": {"get": {"parameters": [named]}} for number in range(200)}}
    ).encode()


def spec(raw: bytes, limits: SpecLimits = OF_CLIENT) -> Spec:
    return Spec("set", raw, "https://a.example", limits=limits)


def operations(number: int) -> bytes:
    return json.dumps({"openapi": "3.1.0", "paths": {f"/{one}": {"get": {}} for one in range(number)}}).encode()


@pytest.mark.parametrize(
    "filler",
    [
        b"x: {" + b",".join(b"k%d: 1" % number for number in range(400_000)) + b"}",
        b"x:\n" + b"- a: 1\n" * 200_000,
        b"x: [" + b"[]," * 400_000 + b"]",
        b"x: [&a {}" + b",*a" * 800_000 + b"]",
        b"x:\n" + b"- !!str a\n" * 760_000,
    ],
    ids=["names", "rows", "lists", "aliases", "tags"],
)
async def test_yaml_with_too_many_values_is_refused_with_the_remedy(filler: bytes) -> None:
    with pytest.raises(UnreadableSpec, match=r"line \d+.*750,000 names, values and ends.*write the document as JSON"):
        await SpecReader(READING).run(spec(HEAD + filler, OF_OWNER))


async def test_yaml_of_a_client_is_at_most_4_mb_and_json_is_not() -> None:
    words = b"a" * 4 * 2**20
    with pytest.raises(UnreadableSpec, match="larger than 4 MB, the most in YAML here: write the document as JSON"):
        await SpecReader(READING).run(spec(HEAD + b"x: " + words))
    assert len((await SpecReader(READING).run(spec(HEAD + b"x: " + words, OF_OWNER))).operations) == 1
    assert len((await SpecReader(READING).run(spec(SMALL[:-1] + b', "x": "%b"}' % words))).operations) == 1


async def test_a_document_with_too_many_operations_is_refused_with_the_remedy() -> None:
    limits = SpecLimits(2**20, 20)
    assert len((await SpecReader(READING).run(spec(operations(20), limits))).operations) == 20
    with pytest.raises(UnreadableSpec, match="more than 20 operations, the most here: split the document"):
        await SpecReader(READING).run(spec(operations(21), limits))


async def test_a_document_that_takes_too_long_or_too_much_memory_is_refused() -> None:
    with pytest.raises(UnreadableSpec, match=r"takes longer than 1 s to read: leave out operations.*ingest.max_read_s"):
        await SpecReader(replace(READING, max_read_s=1)).run(spec(slow()))
    lists = SMALL[:-1] + b', "x": [' + b"[]," * 2_000_000 + b"0]}"
    with pytest.raises(UnreadableSpec, match="memory"):
        await SpecReader(replace(READING, max_read_mb=64)).run(spec(lists))


async def test_a_reader_that_leaves_ends_the_process_and_others_are_read_meanwhile(
    children: Callable[[], list[BaseProcess]],
) -> None:
    reader = SpecReader(READING)
    three = [asyncio.create_task(reader.run(spec(slow()), owner="a")) for _ in range(3)]
    assert len((await reader.run(spec(SMALL), owner="b")).operations) == 1
    assert not any(one.done() for one in three)
    processes = children()
    assert processes
    for one in three:
        one.cancel()
    await asyncio.wait(three)
    for process in processes:
        await asyncio.to_thread(process.join, PATIENCE_S)
        assert not process.is_alive()


async def test_the_answer_has_no_schema_to_unpickle() -> None:
    """The gateway's event loop would stand still for the time of all the values of all schemas."""

    async def parts(schema: Any) -> int:
        given = {"parameters": [{"name": "a", "in": "query", "schema": schema}]}
        raw = json.dumps({"openapi": "3.1.0", "paths": {"/a": {"get": given}}}).encode()
        rows: SetRows = await SpecReader(READING).run(spec(raw))
        return sum(1 for _ in pickletools.genops(pickle.dumps(rows)))

    many = {"properties": {f"p{number}": {"type": "string"} for number in range(100)}}
    assert await parts(many) == await parts({"type": "object"})


async def test_the_turn_of_one_set_keeps_no_other_set_waiting(tmp_path: Path, catalog_url: str) -> None:
    store = ActionStore(tmp_path, catalog_url)
    async with asyncio.timeout(PATIENCE_S), store.turn("a"), store.turn("b"):
        pass
    store.close()
