"""A provider's embeddings, from a scripted /v1/embeddings on loopback: what is asked, believed and told."""

import json
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retrieval.embedding.embed import Embedder
from retrieval.embedding.export import open_embedder
from retrieval.embedding.remote import RemoteEmbedder, is_remote
from retrieval.errors import IndexDown, RetrievalError
from retrieval.knowledge import EmbedderOptions
from tests.support.minilm import tokenizer_file
from tests.support.plans import plan_for

Answer = Callable[[dict[str, Any]], tuple[int, Any]]


def vectors(body: dict[str, Any], dimension: int = 3) -> tuple[int, Any]:
    """Of each text a vector that tells its length, in another order than asked."""
    rows = [
        {"object": "embedding", "index": i, "embedding": [float(len(text))] + [1.0] * (dimension - 1)}
        for i, text in enumerate(body["input"])
    ]
    return 200, {"object": "list", "data": rows[::-1], "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}}


@dataclass
class Provider:
    """A loopback server that answers by script; the last answer goes on for ever."""

    url: str
    script: list[Answer]
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)


@pytest.fixture
def provider() -> Iterator[Provider]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            state.asked.append(body)
            state.keys.append(self.headers["authorization"])
            answer = state.script.pop(0) if len(state.script) > 1 else state.script[0]
            status, said = answer(body)
            content = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state = Provider(f"http://127.0.0.1:{server.server_port}/v1", [vectors])
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield state
    server.shutdown()
    server.server_close()


def options(provider: Provider, **changes: Any) -> EmbedderOptions:
    usual: dict[str, Any] = {
        "api_base": provider.url,
        "api_key": "sk-test-key",
        "batch_texts": 4,
        "timeout_s": 5.0,
        "retries": 2,
    }
    return replace(plan_for(Path("nowhere")).embedding, **(usual | changes))


def opened(provider: Provider, **changes: Any) -> tuple[RemoteEmbedder, list[float]]:
    """The embedder, and how long it paused."""
    pauses: list[float] = []
    embedder = RemoteEmbedder(
        "openai/m", options(provider, **changes), tokenizer_file=tokenizer_file(), sleep=pauses.append
    )
    return embedder, pauses


def failing(status: int, message: str = "no") -> Answer:
    return lambda _body: (status, {"error": {"message": message, "type": "t", "code": None, "param": None}})


def test_gives_unit_vectors_in_the_order_of_the_texts(provider: Provider) -> None:
    embedder, pauses = opened(provider)
    assert (embedder.dimension, embedder.name) == (3, "openai/m")
    found = embedder.embed_documents(["a" * i for i in range(1, 11)])
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    assert np.allclose(found[:, 0] / found[:, 1], np.arange(1, 11), atol=1e-4)
    assert [len(body["input"]) for body in provider.asked] == [1, 4, 4, 2]
    assert set(provider.keys) == {"Bearer sk-test-key"}
    assert pauses == []
    assert embedder.embed_query([]).shape == (0, 3)


def test_prompts_and_dimensions_are_those_of_the_settings(provider: Provider) -> None:
    embedder, _ = opened(provider, query_prompt="q: ", document_prompt="d: ", dimensions=3)
    embedder.embed_query(["x"])
    embedder.embed_documents(["x", ""])
    assert [body["input"] for body in provider.asked[1:]] == [["q: x"], ["d: x", "d: "]]
    assert {body["dimensions"] for body in provider.asked} == {3}


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_may_pass_is_tried_again_for_documents_and_not_for_a_question(provider: Provider, status: int) -> None:
    embedder, pauses = opened(provider)
    provider.script = [failing(status), failing(status), vectors]
    assert embedder.embed_documents(["text"]).shape == (1, 3)
    assert pauses == [0.5, 1.0]
    provider.script = [failing(status), vectors]
    with pytest.raises(IndexDown, match="is unavailable now"):
        embedder.embed_query(["text"])


def test_retries_end(provider: Provider) -> None:
    embedder, pauses = opened(provider)
    provider.script = [failing(429)]
    with pytest.raises(IndexDown):
        embedder.embed_documents(["text"])
    assert len(pauses) == 2
    assert len(provider.asked) == 1 + 3


@pytest.mark.parametrize("status", [400, 401, 404])
def test_what_will_not_pass_is_told_at_once_without_the_key(provider: Provider, status: int) -> None:
    embedder, pauses = opened(provider)
    provider.script = [failing(status, "the key sk-test-key is not good")]
    with pytest.raises(RetrievalError, match="refused") as raised:
        embedder.embed_documents(["text"])
    assert not isinstance(raised.value, IndexDown)
    assert "sk-test-key" not in str(raised.value)
    assert pauses == []


def wrong(change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Answer:
    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        status, said = vectors(body)
        return status, {**said, "data": change(said["data"])}

    return answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (wrong(lambda rows: rows[:-1]), "sent 2 texts and answered with 1"),
        (wrong(lambda rows: rows + rows), "sent 2 texts and answered with 4"),
        (wrong(lambda rows: [{**row, "embedding": row["embedding"][:2]} for row in rows]), "of length 2, not 3"),
        (wrong(lambda rows: [{**row, "embedding": [0.0] * 3} for row in rows]), "zero or not a number"),
        (wrong(lambda rows: [{**row, "embedding": [math.nan] * 3} for row in rows]), "zero or not a number"),
        (wrong(lambda rows: [{**rows[0], "embedding": [1.0]}, rows[1]]), "answered without vectors"),
    ],
)
def test_an_answer_of_another_form_is_refused(provider: Provider, answer: Answer, said: str) -> None:
    embedder, _ = opened(provider)
    provider.script = [answer]
    with pytest.raises(RetrievalError, match=said):
        embedder.embed_documents(["one", "two"])


def test_a_provider_that_is_not_there_is_down(provider: Provider) -> None:
    with pytest.raises(IndexDown, match="is unavailable now"):
        opened(provider, api_base="http://127.0.0.1:9/v1")


def test_a_slow_provider_is_given_up(provider: Provider) -> None:
    never = threading.Event()
    embedder, _ = opened(provider, timeout_s=0.2)
    provider.script = [lambda body: (never.wait(3), vectors(body))[1]]
    with pytest.raises(IndexDown):
        embedder.embed_query(["text"])
    never.set()


def test_a_key_of_the_environment_is_not_sent_to_an_address_of_the_settings(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    opened(provider, api_key="")
    assert provider.keys == ["Bearer none"]


def test_is_opened_as_any_other_embedder(provider: Provider, tmp_path: Path) -> None:
    embedder: Embedder = open_embedder("openai/m", backend="auto", threads=1, cache=tmp_path, options=options(provider))
    assert embedder.embed_query(["x"]).shape == (1, 3)
    assert embedder.tokenizer_file.is_file()


@pytest.mark.parametrize(
    ("model", "backend", "remote"),
    [
        ("openai/text-embedding-3-small", "auto", True), ("voyage/voyage-3", "auto", True),
        ("anything", "remote", True),
        ("BAAI/bge-small-en-v1.5", "auto", False), ("all-MiniLM-L6-v2", "auto", False), ("openai/x", "onnx", False),
        ("/models/openai/x", "auto", False),
    ],
)  # fmt: skip
def test_a_model_is_remote_by_its_providers_prefix(model: str, backend: Any, remote: bool) -> None:
    assert is_remote(model, backend) is remote
