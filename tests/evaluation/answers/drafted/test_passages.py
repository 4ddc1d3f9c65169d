"""A collection read over HTTP to passages, spread evenly over its documents."""

import json
from collections import Counter
from collections.abc import Mapping

import httpx
import pytest

from evaluation.answers.drafted.passages import PASSAGE_CHARS, cut, drawn
from evaluation.answers.records import BenchError, ShownPassage
from tests.support.completions import refusal
from tests.support.upstream_servers import Wire, reply, upstream

WORDS = "one two three four five six seven eight"


def text_of(name: str, pieces: int) -> str:
    """A document of so many passages."""
    return "\n\n".join(f"{name} {number} {WORDS} ".ljust(PASSAGE_CHARS - 5, "x") for number in range(pieces))


async def passages(
    texts: Mapping[str, str], count: int, *, seed: int = 0, page: int = 2, answer: bytes | None = None
) -> list[ShownPassage]:
    """What is drawn of a collection with these documents, listed so many at once; answer: what is sent in place."""
    names = list(texts)

    async def script(wire: Wire) -> None:
        while True:
            target = httpx.URL((await wire.request()).line.split()[1].decode())
            if target.path.startswith("/v1/knowledge/documents/"):
                name = target.path.rpartition("/")[2]
                told = {"source": f"{name}.md", "title": name.title(), "text": texts[name]}
                row: dict[str, object] = {"id": name, **told}
            else:
                assert target.path == "/v1/knowledge/collections/docs/documents"
                at = names.index(target.params["after"]) + 1 if "after" in target.params else 0
                listed = names[at : at + page]
                row = {
                    "data": [{"id": name} for name in listed],
                    "has_more": at + page < len(names),
                    "last_id": listed[-1] if listed else None,
                }
            await wire.send(answer or reply(json.dumps(row).encode()))

    async with upstream(script) as server, httpx.AsyncClient(base_url=server.url) as client:
        return await drawn(client, "docs", count, seed=seed)


async def test_every_document_gives_one_before_any_gives_two() -> None:
    texts = {"a": text_of("a", 5), "b": text_of("b", 1), "c": text_of("c", 3), "none": "A heading"}
    for count, per_document in ((2, None), (3, [1, 1, 1]), (5, [2, 1, 2]), (50, [5, 1, 3])):
        found = await passages(texts, count)
        drawn_of = Counter(passage.document for passage in found)
        assert per_document is None or [drawn_of[name] for name in "abc"] == per_document
        assert len(found) == len({passage.text for passage in found}) == min(count, 9)
    assert {(each.source, each.title) for each in found} == {("a.md", "A"), ("b.md", "B"), ("c.md", "C")}


async def test_the_seed_says_which() -> None:
    texts = {name: text_of(name, 4) for name in "abcdefgh"}
    chosen = [[each.text for each in await passages(texts, 4, seed=seed)] for seed in (1, 1, 2)]
    assert chosen[0] == chosen[1] != chosen[2]


def test_a_text_is_cut_between_paragraphs_and_long_ones_between_words() -> None:
    short = f"{WORDS}\n\nmore of it"
    assert cut(short) == [short]
    assert cut(f"{text_of('a', 2)}\n\n{text_of('a', 1)}") == [each.strip() for each in text_of("a", 2).split("\n\n")]
    long = " ".join(f"word{number}" for number in range(2000))
    assert " ".join(cut(long)).split() == long.split()
    assert all(len(piece) <= PASSAGE_CHARS for piece in cut(long))
    assert [len(piece) for piece in cut("字" * (PASSAGE_CHARS + 10))] == [PASSAGE_CHARS, 10]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (refusal(404, "There is no collection 'docs'."), "'docs' cannot be read: 404: There is no collection"),
        (reply(b"<html>"), "is this the address of a ragway gateway"),
        (reply(b'{"data": [1]}'), "is this the address of a ragway gateway"),
        (reply(b'{"data": [], "has_more": false}'), "has no text to draft questions of"),
    ],
)  # fmt: skip
async def test_a_collection_that_cannot_be_read_is_told(answer: bytes, why: str) -> None:
    with pytest.raises(BenchError, match=why):
        await passages({"a": WORDS}, 1, answer=answer)
