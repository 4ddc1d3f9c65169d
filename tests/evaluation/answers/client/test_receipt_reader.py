"""Passages by the receipts of a gateway that keeps them, and nothing of one that does not."""

import json

import httpx

from evaluation.answers.client.receipt_reader import ReceiptReader
from evaluation.answers.records import Rag, ShownPassage
from tests.support.completions import refusal
from tests.support.upstream_servers import Wire, reply, upstream

RAG = Rag("augmented", "", "rag-1", ["a.md"])
PASSAGE = {"source": "a.md", "title": "A", "text": "Port 1", "document": "d1", "tokens": 3, "collection": "docs"}
KEPT = {"id": "rag-1", "passages": [PASSAGE], "injected_tokens": 40}


async def read(answer: bytes, times: int = 1) -> tuple[list[Rag], list[bytes]]:
    """What becomes of a reply so many times, and what was asked for."""

    async def script(wire: Wire) -> None:
        while True:
            await wire.request()
            await wire.send(answer)

    async with upstream(script) as server, httpx.AsyncClient(base_url=server.url) as client:
        receipts = ReceiptReader(client)
        return [await receipts.of(RAG) for _ in range(times)], [one.line.split()[1] for one in server.requests]


async def test_the_passages_of_a_reply_are_those_of_its_receipt() -> None:
    (rag,), asked = await read(reply(json.dumps(KEPT).encode()))
    assert rag.passages == [ShownPassage("a.md", "A", "Port 1", "d1")]
    assert (rag.injected_tokens, rag.status) == (40, "augmented")
    assert asked == [b"/v1/knowledge/receipts/rag-1"]


async def test_a_gateway_that_knows_no_receipts_is_asked_for_one_once() -> None:
    rags, asked = await read(refusal(404, code="unknown_path"), times=3)
    assert rags == [RAG] * 3
    assert len(asked) == 1


async def test_what_is_no_receipt_is_left_and_given_a_second_look_once() -> None:
    rags, asked = await read(reply(b"<html>"), times=2)
    assert rags == [RAG] * 2
    assert len(asked) == 3  # a second look, once: another process of the gateway may have been about to write it
