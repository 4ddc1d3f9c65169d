"""What one search asks for itself, over the wire: the reranker or not, and what stands around each passage."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.shelves import Shelves, made, serving_shelves
from tests.support.tiny_model import make_tiny_cross_encoder

LONG = "# Pumps\n\n" + "\n\n".join(
    f"## Part {i}\n\nThe pump of part {i} is called Oskar. " + f"Its oil {i} is changed every Monday. " * 60
    for i in range(30)
)
SHORT = "# Valves\n\nThe red valve is of brass — größer als 40 mm.\n\n## Care\n\nOil the valve every Monday."
SECRET = "# Pumps\n\nThe pump of part 3 is really called Wilma."


@pytest.fixture(scope="module")
def shelves(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelves]:
    """Chats get whole collections here, and there is a reranker."""
    folder = tmp_path_factory.mktemp("lookups")
    reranker = make_tiny_cross_encoder(folder / "encoder")
    retrieval = f"mode: whole, rerank_model: {reranker}, rerank_deadline_s: 60, deadline_s: 60, k: 8"
    with serving_shelves(folder, retrieval=retrieval) as served:
        made(served, "red")
        documents: list[dict[str, Any]] = [
            {"key": "long.md", "text": LONG},
            {"key": "short.md", "text": SHORT},
            {"key": "secret.md", "text": SECRET, "groups": ["hr"]},
        ]
        placed = served.call("POST", "collections/red/documents", {"documents": documents}).json()["data"]
        assert {one["status"] for one in placed} == {"created"}
        yield served


def found(shelves: Shelves, query: str, **asked: object) -> list[dict[str, Any]]:
    reply = shelves.call("POST", "search", {"query": query, "collections": ["red"], **asked}, key="reader")
    assert reply.status_code == 200, reply.text
    assert "Wilma" not in reply.text
    rows: list[dict[str, Any]] = reply.json()["data"]
    assert rows
    return rows


@pytest.mark.models
def test_a_search_may_do_without_the_reranker_or_ask_for_it(shelves: Shelves) -> None:
    for asked, reads in (({}, True), ({"rerank": False}, False), ({"rerank": True}, True), ({"rerank": None}, True)):
        scores = [row["scores"] for row in found(shelves, "What is the pump called?", mode="bm25", **asked)]
        assert all(("rerank" in score) is reads for score in scores), asked


@pytest.mark.models
def test_passages_are_shown_with_their_neighbours(shelves: Shelves) -> None:
    alone = found(shelves, "What is the pump of part 17 called?")
    assert not any("context" in row for row in alone)
    wider = found(shelves, "What is the pump of part 17 called?", neighbours=2)
    assert [{name: row[name] for name in row if name != "context"} for row in wider] == alone
    texts = {"long.md": LONG, "short.md": SHORT}
    for row in wider:
        context = row["context"]
        assert texts[row["source"]][context["start"] : context["end"]] == context["text"]
        assert context["start"] <= row["start"] < row["end"] <= context["end"]
        assert context["whole"] is False
        assert len(context["text"]) > 1.5 * len(row["text"]) or row["source"] == "short.md"


@pytest.mark.models
def test_passages_are_shown_with_their_whole_document_where_it_is_not_long(shelves: Shelves) -> None:
    for row in found(shelves, "Is the valve of brass, and is it oiled?", whole=True):
        if row["source"] == "short.md":
            assert row["context"] == {"start": 0, "end": len(SHORT), "text": SHORT, "whole": True}
        else:
            assert (row["context"]["text"], row["context"]["whole"]) == (row["text"], False)
    assert len(LONG) > 50_000


@pytest.mark.models
def test_searches_have_hits_where_chats_have_whole_collections(shelves: Shelves) -> None:
    headers = {"authorization": f"Bearer {shelves.keys['reader']}", "accept": "application/json"}
    # The reranker has random weights: enough hits to contain the passage, whatever the order.
    call = {"name": "search", "arguments": {"query": "Is the red valve of brass?", "collections": ["red"], "k": 50}}
    for path, body in (
        ("/v1/vector_stores/red/search", {"query": "Is the red valve of brass?", "max_num_results": 50}),
        ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}),
    ):
        reply = httpx.post(shelves.served.url + path, json=body, headers=headers, timeout=60)
        assert "größer als 40 mm" in reply.text
