"""Client programs in Python and Node, each run without the gateway and through the gateway, with the same results.

A third run asks models in the translated lane, whose upstream knows chat completions only.

The programs are in tests/python and tests/node, the table of the results in docs/use/clients.md.
"""

import contextlib
import json
import os
import queue
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.common.insertions import inserted
from proxy.dialects.messages import MESSAGES
from proxy.dialects.responses import RESPONSES
from tests.support.agent_bodies import claude_code_body, codex_body
from tests.support.gateway import PATIENCE_S, ROOT, Served, serving
from tests.support.openai_server import KEY, OpenAIServer, ReceivedRequest, openai_server
from tests.support.scripted_messages import SIGNATURE
from tests.support.scripted_responses import ENCRYPTED, TEXT
from tests.test_docs import page, rows

NODE = ROOT / "tests" / "node"
PYTHON = Path(sys.prefix) / "clients" / "bin" / "python"
PLACES = {"/v1/responses": "instructions", "/v1/messages": "system"}
FORWARDED = ("accept", "user-agent", "content-type", "anthropic-", "openai-", "x-stainless-", "idempotency-key")
MODELS = {"gpt-5": "gpt-5", "claude-sonnet-4-6": "gpt-5", "endless": "endless", "limited": "limited"}
ROW = '  {name}: {{{model}api_base: "{upstream}/v1", api_key_env: KEY_OF_THE_UPSTREAM}}\n'


@dataclass(frozen=True, slots=True)
class Client:
    """A row of the table."""

    name: str  # as in docs/use/clients.md
    program: str
    argument: str = ""

    @property
    def command(self) -> list[str | Path]:
        """The command line, without the arguments."""
        if (NODE / f"{self.program}.mjs").exists() and "Node" in self.name:
            return ["node", NODE / f"{self.program}.mjs"]
        return [PYTHON, "-m", f"tests.python.{self.program}"]

    @property
    def missing(self) -> str:
        """The reason why the program cannot run, or ""."""
        if self.command[0] == "node":
            if shutil.which("node") is None:
                return "node is not installed"
            return "" if (NODE / "node_modules" / "ai").is_dir() else "npm ci was not run in tests/node"
        return "" if PYTHON.exists() else "the Python clients are not installed: `make test-all` installs them"


CLIENTS = (
    Client("openai (Python)", "openai_sdk"),
    Client("openai (Node)", "openai_sdk"),
    Client("OpenAI Agents SDK", "agents_sdk"),
    Client("Vercel AI SDK, OpenAI (Node)", "vercel_sdk", "openai"),
    Client("LangChain", "langchain_sdk"),
    Client("pydantic-ai", "pydantic_ai_sdk"),
    Client("anthropic (Python)", "anthropic_sdk"),
    Client("anthropic (Node)", "anthropic_sdk"),
    Client("Vercel AI SDK, Anthropic (Node)", "vercel_sdk", "anthropic"),
)


@dataclass(frozen=True, slots=True)
class Run:
    """The results of a program, and the requests that the upstream received."""

    versions: dict[str, str]
    steps: dict[str, Any]
    requests: list[ReceivedRequest]
    left: list[str]  # paths of the streams that the client cancelled


@pytest.fixture(scope="module")
def server() -> Iterator[OpenAIServer]:
    with openai_server() as running:
        yield running


@pytest.fixture(scope="module")
def gateways(
    learned: Callable[[], Path], tmp_path_factory: pytest.TempPathFactory, server: OpenAIServer
) -> Iterator[dict[str, Served]]:
    """A gateway with relayed and a gateway with translated models."""
    with contextlib.ExitStack() as running:
        served = {}
        for lane, model in (("relay", ""), ("translated", "lane: translated, model: openai/{}, ")):
            rows = "".join(ROW.format(name=n, model=model.format(m), upstream=server.url) for n, m in MODELS.items())
            folder = tmp_path_factory.mktemp(lane)
            gateway = serving(learned(), folder, f"models:\n{rows}", KEY_OF_THE_UPSTREAM=KEY)
            served[lane] = running.enter_context(gateway)
        yield served


def run(client: Client, server: OpenAIServer, url: str, key: str) -> Run:
    """One run of the program against this URL."""
    server.requests.clear()
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("OPENAI_", "ANTHROPIC_", "LANGSMITH_"))}
    done = subprocess.run(
        [*client.command, url, key, *filter(None, [client.argument])],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=ROOT,
        env={**environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    written = json.loads(done.stdout)
    left = [server.left.get(timeout=PATIENCE_S) for step in written["steps"] if step == "cancel"]
    with pytest.raises(queue.Empty):
        server.left.get_nowait()
    return Run(written["versions"], written["steps"], list(server.requests), left)


@pytest.fixture(scope="module", params=CLIENTS, ids=[client.name for client in CLIENTS])
def client(request: pytest.FixtureRequest) -> Client:
    given: Client = request.param
    if given.missing:
        pytest.skip(given.missing)
    return given


@pytest.fixture(scope="module")
def direct(client: Client, server: OpenAIServer) -> Run:
    """The program without the gateway."""
    return run(client, server, server.url, KEY)


@pytest.fixture(scope="module")
def through(client: Client, server: OpenAIServer, gateways: dict[str, Served], direct: Run) -> Run:
    """The same program through the gateway, with any key."""
    return run(client, server, gateways["relay"].url, "placeholder")


def failed(run: Run) -> set[str]:
    """The steps that failed."""
    return {name for name, step in run.steps.items() if isinstance(step, dict) and "failed" in step}


def test_every_step_ends_as_without_the_gateway(direct: Run, through: Run) -> None:
    assert failed(direct) == set()
    assert through.steps == direct.steps


def test_the_upstream_gets_the_same_bodies_but_for_the_passages(direct: Run, through: Run) -> None:
    assert [request.target for request in through.requests] == [request.target for request in direct.requests]
    with_passages = 0
    for sent, received in zip(direct.requests, through.requests, strict=True):
        path = sent.target.partition("?")[0]
        if path not in PLACES:
            assert received.body == sent.body
            continue
        assert b"zephyr" in inserted(sent.body, received.body)
        before, after = json.loads(sent.body), json.loads(received.body)
        before.pop(PLACES[path], None)
        del after[PLACES[path]]
        assert after == before
        with_passages += 1
    assert with_passages > 8


def test_the_client_sends_the_models_reasoning_back(through: Run) -> None:
    sealed = (ENCRYPTED.encode(), SIGNATURE.encode())
    assert any(seal in request.body for request in through.requests for seal in sealed)


def test_the_upstream_gets_the_headers_of_the_client(direct: Run, through: Run) -> None:
    for sent, received in zip(direct.requests, through.requests, strict=True):
        for name, value in sent.headers.items():
            if name.startswith(FORWARDED):
                assert received.headers[name] == value


def test_a_cancelled_stream_ends_the_upstreams_stream(direct: Run, through: Run) -> None:
    assert through.left == direct.left
    assert len(through.left) == 1


def test_every_step_but_one_ends_well_with_a_model_that_knows_chat_completions_only(
    client: Client, server: OpenAIServer, gateways: dict[str, Served], direct: Run
) -> None:
    translated = run(client, server, gateways["translated"].url, "placeholder")
    assert failed(translated) == {"stored"} & set(translated.steps)
    for step in ("stream", "schema", "image", "cancel"):
        assert translated.steps[step] == direct.steps[step]
    assert translated.left == ["/v1/chat/completions"]


def test_a_request_of_an_agent_is_answered_by_a_model_that_knows_chat_completions_only(
    gateways: dict[str, Served],
) -> None:
    for seed in range(20):
        codex = codex_body(seed, model="gpt-5", own_tools=True)
        claude_code = claude_code_body(seed, model="claude-sonnet-4-6")
        for path, body, reader in (
            ("/v1/responses", codex, RESPONSES.reader(streamed=True)),
            ("/v1/messages?beta=true", claude_code, MESSAGES.reader(streamed=True)),
        ):
            got = gateways["translated"].post(body, path)
            assert (got.status_code, got.headers["x-rag-status"]) == (200, "augmented"), got.text
            reader.feed(got.content)
            reader.close()
            assert reader.whole
            assert reader.answer == TEXT or reader.tool_calls


def test_the_table_of_clients_is_true(client: Client, through: Run) -> None:
    table = {cells[0]: cells[1:] for cells in rows(page("use/clients.md"))}
    versions = ", ".join(f"`{name}` {version}" for name, version in through.versions.items())
    assert table[client.name][:2] == [versions, ", ".join(through.steps)]
