"""How much of a prompt stays an unchanged prefix from request to request, for each position of the passages.

    python benchmarks/relay/prefix.py [--models DIR]

A provider's prompt cache can keep the common prefix of two requests. Two conversations of ten turns go through a real
gateway with the project's `docs/` as the collection: a chat, and an agent that calls two tools in every turn. An
upstream records the requests. The tables go to standard output as Markdown.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common.arguments import add_models
from benchmarks.common.processes import ROOT, Running, environment, printed_port, start
from retrieval.embedding.tokens import EmbedderTokenizer

Message = dict[str, Any]
POSITIONS = ("off", "lead", "merge", "tail")
QUESTIONS = (
    "How do I install ragway and get a first answer?",
    "Which file formats can it read?",
    "And what happens when a file changes?",
    "How do I connect it to a local model server?",
    "What does x-rag-status degraded mean?",
    "How can I turn that off for one request?",
    "Which setting limits how long the injected passages may be?",
    "Why are there two processes?",
    "How do I run it in Docker?",
    "Does it need a GPU?",
)
ANSWER = (
    "In short: {topic} The documentation describes the steps in order, and each of them can be checked with one "
    "command. Begin with the defaults, look at the response headers to see what was looked up, and change one setting "
    "at a time. If something does not work as described, the log line of the request names the reason; compare it with "
    "the table in the documentation before you change anything else."
)
CHAT = (
    "You are the assistant of the support desk. Answer in the language of the question, in at most four sentences. "
    "Name the setting or the command the reader needs, exactly as it is written. Where you are not sure, say so."
)
RESULT = '{"status": "ok", "rows": [{"id": 17, "name": "gateway", "state": "running"}], "took_ms": 12}'


@dataclass(slots=True)
class Upstream:
    """A server that records the messages of every request and returns a fixed answer."""

    url: str = ""
    prompts: list[list[Message]] = field(default_factory=list)


@contextlib.contextmanager
def recording() -> Iterator[Upstream]:
    """An upstream on a free port of 127.0.0.1."""
    upstream = Upstream()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            upstream.prompts.append(body["messages"])
            reply = b'{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":""}}]}'
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, format: str, *args: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    upstream.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield upstream
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def gateway(folder: Path, models: Path, upstream: str) -> Iterator[Running]:
    """`ragway serve` with `docs/` ingested and one model per position."""
    data = folder / "data"
    data.mkdir()
    models.mkdir(parents=True, exist_ok=True)
    (data / "models").symlink_to(models.resolve())
    ragway = [sys.executable, "-m", "cli"]
    ours = {"PYTHONPATH": str(ROOT)}
    ingest = [*ragway, "ingest", str(ROOT / "docs"), "--collection", "docs", "--data", str(data)]
    subprocess.run(ingest, check=True, cwd=folder, env=environment(ours), stdout=sys.stderr)
    rows = "".join(f"  {name}: {{api_base: '{upstream}/v1', position: {name}}}\n" for name in POSITIONS[1:])
    settings = folder / "ragway.yaml"
    settings.write_text(f"models:\n{rows}", "utf-8")
    serve = [*ragway, "serve", "--port", "0", "--config", str(settings), "--data", str(data)]
    running = start(serve, folder, "ragway", ours, printed_port)
    try:
        yield running
    finally:
        running.stop()


def chat() -> Iterator[list[Message]]:
    """The messages of each request of the chat."""
    messages: list[Message] = [{"role": "system", "content": CHAT}]
    for question in QUESTIONS:
        messages.append({"role": "user", "content": question})
        yield messages
        messages.append({"role": "assistant", "content": ANSWER.format(topic=question)})


def agent() -> Iterator[list[Message]]:
    """The requests of an agent with long instructions: three per turn, two of them with a tool's result at the end."""
    messages: list[Message] = [{"role": "system", "content": (ROOT / "CONTRIBUTING.md").read_text("utf-8")}]
    for turn, question in enumerate(QUESTIONS):
        messages.append({"role": "user", "content": question})
        yield messages
        for n in range(2):
            call = {"id": f"c{turn}{n}", "type": "function", "function": {"name": "look", "arguments": f'{{"n": {n}}}'}}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": RESULT})
            yield messages
        messages.append({"role": "assistant", "content": ANSWER.format(topic=question)})


CONVERSATIONS: dict[str, Callable[[], Iterator[list[Message]]]] = {"chat": chat, "agent, two tool rounds a turn": agent}


def prompts(server: Running, upstream: Upstream, position: str, requests: Iterator[list[Message]]) -> list[str]:
    """The prompts at the upstream, request by request, in the form of a chat template."""
    upstream.prompts.clear()
    augmented = 0
    for messages in requests:
        model = f"raw/{POSITIONS[1]}" if position == "off" else position
        body = json.dumps({"model": model, "messages": messages}).encode()
        url = f"http://127.0.0.1:{server.port}/v1/chat/completions"
        request = urllib.request.Request(url, body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            status = reply.headers["x-rag-status"]
            if status not in (("off",) if position == "off" else ("augmented", "empty")):
                raise SystemExit(f"x-rag-status is {status}, {reply.headers['x-rag-reason']}: nothing can be measured")
            augmented += status == "augmented"
    print(f"{position}: {augmented} of {len(upstream.prompts)} requests got passages", file=sys.stderr)
    return [rendered(messages) for messages in upstream.prompts]


def rendered(messages: Sequence[Message]) -> str:
    """The messages in the order and form that a model reads: role, content, calls."""
    parts = []
    for message in messages:
        calls = json.dumps(message["tool_calls"]) if message.get("tool_calls") else ""
        parts.append(f"<|{message['role']}|>\n{message.get('content') or ''}{calls}\n")
    return "".join(parts)


def common(one: str, other: str) -> int:
    """The length of the common prefix in characters."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def row(name: str, position: str, asked: Sequence[str], tokens: EmbedderTokenizer) -> str:
    """A row of the table: the kept and the new part of each following request."""
    sizes = tokens.counts(asked)
    same = tokens.counts([one[: common(one, other)] for one, other in pairwise(asked)])
    kept = mean(n / size for n, size in zip(same, sizes, strict=False))
    known = mean(n / size for n, size in zip(same, sizes[1:], strict=True))
    new = sum(sizes) - sum(same)
    return f"| {name} | {position} | {mean(sizes):,.0f} | {kept:.0%} | {known:.0%} | {new:,} |"


def main() -> None:
    """Measure and tell."""
    options = argparse.ArgumentParser(description="How much of a prompt stays an unchanged prefix, by position.")
    add_models(options)
    models: Path = options.parse_args().models
    print(
        "| conversation | position | tokens of a prompt, mean | stays: of the previous prompt | known: of the next "
        "prompt | tokens sent anew, all requests |\n| --- | --- | --- | --- | --- | --- |"
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        recording() as upstream,
        gateway(Path(folder), models, upstream.url) as server,
    ):
        tokens = EmbedderTokenizer(next(models.glob("all-MiniLM-L6-v2-*/tokenizer.json")))
        for name, requests in CONVERSATIONS.items():
            for position in POSITIONS:
                print(row(name, position, prompts(server, upstream, position, requests()), tokens), flush=True)


if __name__ == "__main__":
    main()
