"""Stored conversations through real gateways: a follow-up question that names a response, asked by the openai SDK."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from proxy.access.sql import SqlAccounts
from proxy.caller import EVERYTHING
from tests.support.gateway import Served, serving

SETTINGS = """
server: {{workers: 2}}
retrieval: {{collections: [books], min_relevance: 0.0, k: 1}}
models: {{echo: {{lane: echo}}}}
history: {{keep_hours: {hours}}}
"""
ASKED = "What is the book Moby-Dick about?"
FOLLOW_UP = "Who wrote it?"
BOOKS = {
    "moby.md": "The book Moby-Dick is about a whale. Herman Melville wrote the book Moby-Dick.",
    "emma.md": "The book Emma is about a matchmaker. Jane Austen wrote the book Emma.",
    "ivanhoe.md": "The book Ivanhoe is about a knight. Walter Scott wrote the book Ivanhoe.",
}


class Readers:
    """Two keys, and the gateway of the moment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        accounts = SqlAccounts(folder / "data")
        self.secrets = [accounts.create(name, EVERYTHING, team="readers")[1] for name in ("one", "two")]
        accounts.close()
        self.served: Served

    @contextlib.contextmanager
    def gateway(self, hours: float = 24.0) -> Iterator[None]:
        with serving(self.folder / "data", self.folder, SETTINGS.format(hours=hours)) as self.served:
            yield

    def client(self, key: int = 0) -> openai.OpenAI:
        """A client with a connection of its own, so that any worker answers."""
        return openai.OpenAI(base_url=self.served.url + "/v1", api_key=self.secrets[key], max_retries=0, timeout=60)

    def ask(self, question: object, key: int = 0, **fields: Any) -> tuple[str, dict[str, Any]]:
        """The id of the response, and the receipt."""
        with self.client(key) as client:
            given: Any = question
            raw = client.responses.with_raw_response.create(model="echo", input=given, **fields)
            path = f"{self.served.url}/v1/knowledge/receipts/{raw.headers['x-rag-id']}"
            receipt = httpx.get(path, headers={"authorization": f"Bearer {self.secrets[key]}"}, timeout=60)
            return raw.parse().id, receipt.json()

    def query(self, question: object, key: int = 0, **fields: Any) -> str:
        query: str = self.ask(question, key, **fields)[1]["query"]["text"]
        return query

    def until_known(self, subject: str = ASKED, **fields: Any) -> None:
        """Return once a follow-up question is understood; another worker may be writing the history."""
        end_s = time.monotonic() + 60
        while subject not in self.query(FOLLOW_UP, **fields):
            assert time.monotonic() < end_s
            time.sleep(0.05)


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Readers]:
    """With a gateway; a test that starts another gateway is the last of the file."""
    folder = tmp_path_factory.mktemp("history")
    (folder / "data").mkdir()
    made = Readers(folder)
    with made.gateway():
        headers = {"authorization": f"Bearer {made.secrets[0]}"}
        path = f"{made.served.url}/v1/knowledge/collections"
        assert httpx.post(path, json={"name": "books"}, headers=headers, timeout=60).status_code == 201
        for name, text in BOOKS.items():
            put = httpx.put(f"{path}/books/documents/{name}", json={"text": text}, headers=headers, timeout=60)
            assert put.is_success
        yield made


def understood(query: str) -> bool:
    return query == f"{FOLLOW_UP} (after: {ASKED})"


def test_a_follow_up_question_finds_the_earlier_subject_at_every_worker(readers: Readers) -> None:
    id, _ = readers.ask(ASKED)
    readers.until_known(previous_response_id=id)
    for _ in range(8):
        _, receipt = readers.ask(FOLLOW_UP, previous_response_id=id)
        assert understood(receipt["query"]["text"])
        assert "Melville" in receipt["injected"]
        assert [turn["role"] for turn in receipt["turns"]] == ["user", "assistant", "user"]


def test_a_chain_of_streams_leads_back_to_the_first_question(readers: Readers) -> None:
    id = ""
    for question in (ASKED, "Why?", "When?"):
        more: dict[str, Any] = {"previous_response_id": id} if id else {}
        with readers.client() as client, client.responses.stream(model="echo", input=question, **more) as stream:
            id = stream.get_final_response().id
        readers.until_known(previous_response_id=id)


@pytest.mark.parametrize("conversation", ["conv_1", {"id": "conv_2"}])
def test_the_questions_of_a_conversation_are_known_by_the_id_of_the_conversation(
    readers: Readers, conversation: str | dict[str, str]
) -> None:
    assert readers.query(ASKED, conversation=conversation) == ASKED
    readers.until_known(conversation=conversation)


def test_results_of_tools_get_the_passages_of_the_question_before(readers: Readers) -> None:
    id, _ = readers.ask(ASKED)
    result = [{"type": "function_call_output", "call_id": "c", "output": "4"}]
    readers.until_known(previous_response_id=id)
    _, receipt = readers.ask(result, previous_response_id=id)
    assert (receipt["question"], "Melville" in receipt["injected"]) == (ASKED, True)


@pytest.mark.parametrize("fields", [{"store": False}, {"extra_headers": {"x-rag": "off"}}])
def test_a_response_that_is_not_stored_or_not_searched_leaves_no_history(
    readers: Readers, fields: dict[str, Any]
) -> None:
    id, _ = readers.ask(ASKED, **fields)
    assert readers.query(FOLLOW_UP, previous_response_id=id) == FOLLOW_UP


def test_another_key_of_the_team_finds_no_history(readers: Readers) -> None:
    id, _ = readers.ask(ASKED)
    readers.until_known(previous_response_id=id)
    assert readers.query(FOLLOW_UP, key=1, previous_response_id=id) == FOLLOW_UP


def test_after_a_deletion_no_worker_finds_the_history(readers: Readers) -> None:
    id, _ = readers.ask(ASKED)
    readers.until_known(previous_response_id=id)
    with readers.client() as client, pytest.raises(openai.NotFoundError, match="kept no copy"):
        client.responses.delete(id, extra_query={"model": "echo"})  # the echo model has no response to delete
    end_s = time.monotonic() + 60
    while readers.query(FOLLOW_UP, previous_response_id=id) != FOLLOW_UP:
        assert time.monotonic() < end_s
        time.sleep(0.05)
    assert [readers.query(FOLLOW_UP, previous_response_id=id) for _ in range(4)] == [FOLLOW_UP] * 4


def test_a_history_in_the_input_is_not_doubled(readers: Readers) -> None:
    id, _ = readers.ask("What is the book Emma about?")
    history: Sequence[dict[str, str]] = [
        {"role": "user", "content": ASKED},
        {"role": "assistant", "content": "A whale."},
        {"role": "user", "content": FOLLOW_UP},
    ]
    _, receipt = readers.ask(history, previous_response_id=id)
    assert [turn["text"] for turn in receipt["turns"]] == [each["content"] for each in history]


def test_a_history_outlives_the_gateway_and_not_the_lifetime_or_the_database(readers: Readers) -> None:
    id, _ = readers.ask(ASKED)
    readers.served.stop()
    with readers.gateway():
        assert understood(readers.query(FOLLOW_UP, previous_response_id=id))
    with readers.gateway(hours=0.0001):
        assert readers.query(FOLLOW_UP, previous_response_id=id) == FOLLOW_UP
    with readers.gateway():
        assert readers.query(FOLLOW_UP, previous_response_id=id) == FOLLOW_UP, "an expired history is deleted"
        id, _ = readers.ask(ASKED)
        readers.until_known(previous_response_id=id)
        readers.served.stop()
    (readers.folder / "data" / "receipts.db").write_bytes(b"no database " * 1000)
    with readers.gateway(), readers.client() as client:
        raw = client.responses.with_raw_response.create(model="echo", input=FOLLOW_UP, previous_response_id=id)
        assert (raw.status_code, raw.headers["x-rag-status"]) == (200, "augmented")
        assert raw.headers["x-rag-reason"] == "first question"
        log = readers.served.log.read_text()
        assert "the history is not read" in log
        assert "Moby" not in log
