"""A whole collection in the prompt: read over HTTP, shown as passages are, left out where it does not fit."""

import json
from collections.abc import Sequence

import httpx
import pytest

from evaluation.answers.records import BenchError, DialectName
from evaluation.answers.run.matrix import request_of, variants
from evaluation.answers.run.whole_collection import misfit, text_of
from proxy.access.prices import Size
from proxy.dialects.quoting import Template
from tests.support.completions import refusal
from tests.support.upstream_servers import Received, Wire, reply, upstream

TEMPLATE = Template("Of {collections}:\n{passages}")
ROWS = [
    {"id": "1", "title": "Ports", "source": "a.md", "text": "Port\u2028 1"},
    {"id": "2", "title": "", "source": "b.md", "text": "2"},
]


async def whole(answer: bytes, names: Sequence[str]) -> tuple[str, list[Received]]:
    async def script(wire: Wire) -> None:
        while True:
            await wire.request()
            await wire.send(answer)

    async with upstream(script) as server, httpx.AsyncClient(base_url=server.url) as client:
        return await text_of(client, names, TEMPLATE), server.requests


async def test_every_document_of_every_collection_is_shown_with_its_source() -> None:
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)
    text, requests = await whole(reply(lines.encode()), ["docs", "a/b"])
    assert [one.line.split()[1] for one in requests] == [
        b"/v1/knowledge/collections/docs/export",
        b"/v1/knowledge/collections/a%2Fb/export",
    ]
    assert text.startswith("Of docs, a/b:\n[1] Ports (source: a.md)")
    assert text.count("[end of ") == 4


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (reply(b""), "has no documents"), (refusal(404, "no such collection"), "404: no such collection"),
        (reply(b"<html>"), "is this the address of a ragway gateway"),
    ],
)  # fmt: skip
async def test_a_collection_that_cannot_be_read_is_told(answer: bytes, why: str) -> None:
    with pytest.raises(BenchError, match=why):
        await whole(answer, ["docs"])


@pytest.mark.parametrize(
    ("dialect", "length"), [("chat", "max_tokens"), ("responses", "max_output_tokens"), ("messages", "max_tokens")]
)
def test_a_text_fits_where_question_and_answer_leave_it_room(dialect: DialectName, length: str) -> None:
    (variant,) = variants(["m"], ["whole"], [], [f"{length}=50"], [dialect])
    body = request_of(variant, [{"role": "user", "content": "x" * 300}], usage=True)
    assert misfit(body, "y" * 3000, Size(2000), variant) == ""
    assert misfit(body, "y" * 3000, Size(1100), variant) == "about 1,000 tokens, and m has room for 946"
    assert "--window m=TOKENS" in misfit(body, "y", Size(), variant)
