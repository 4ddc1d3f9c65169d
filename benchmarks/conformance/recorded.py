"""Recorded replies of real providers through the relay: every byte and every event must arrive.

    python benchmarks/conformance/recorded.py FOLDER [--models DIR]
    python benchmarks/conformance/recorded.py --generated 2000 [--passages | --offer]

Instead of recordings, `--generated` plays streams of its own (`generated_streams.py`), so many of each dialect: on a
model without passages, with passages, or, of chat completions alone, in chats that are offered operations.

The files of the folder:

NAME.sse           an event stream, as received
NAME.chunks.txt    the JSON values of an event stream, one a line
NAME.json          a whole reply; an error is played with the status 400
NAME.request.json  the request of the reply; without the file, a request of this program

The dialect follows from the reply. The passages must be the only difference of the request at the upstream. Each event
must reach the client before the upstream sends the next event. The gateway's reader must read the reply to the end, and
the counted tokens must be the tokens that the reader read. Exit code 1: something differs. Exit code 2: no
recording, or the gateway does not start.
"""

import argparse
import asyncio
import json
import re
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common.arguments import add_models
from benchmarks.common.insertions import inserted
from benchmarks.common.processes import Unmeasurable
from benchmarks.conformance import generated_streams
from benchmarks.conformance.case import QUESTION
from benchmarks.conformance.diff import of_json, of_streams, told
from benchmarks.conformance.lanes import learn, run_command, start
from benchmarks.conformance.wire import EVENTS, JSON, Exchange, Script, Upstream, ask, post, upstream
from proxy.access.usage_tap import UsageTap
from proxy.asgi import Message
from proxy.dialects.json_body import JsonBody
from proxy.dialects.paths import BY_PATH

REQUESTS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": QUESTION}]},
    "/v1/responses": {"input": QUESTION},
    "/v1/messages": {"max_tokens": 1024, "messages": [{"role": "user", "content": QUESTION}]},
}
Way = Literal["raw", "passages", "offer"]
_MODEL = "gpt-4o"  # of the relay lane's configuration
_EVENT = re.compile(rb".*?(?:\r\n\r\n|\n\n|\r\r)|.+\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Recording:
    """A reply of a provider, with the request."""

    name: str
    path: str  # of the dialect
    request: bytes
    pieces: tuple[bytes, ...]  # the events of a stream, or the whole reply
    streamed: bool


@dataclass(frozen=True, slots=True)
class Result:
    """A recording through the gateway: cells for the request, the reply and the gateway's own reading of the reply."""

    recording: Recording
    request: str
    reply: str
    reading: str
    augmented: bool

    @property
    def same(self) -> bool:
        """Whether nothing but the passages differs."""
        return self.request == self.reply == self.reading == "same"


def recordings(folder: Path) -> Iterator[Recording]:
    """The recordings of a folder, in the order of the names. A file in no dialect is left out."""
    for file in sorted(folder.iterdir()):
        name = re.sub(r"\.(sse|chunks\.txt|json)$", "", file.name)
        if name == file.name or file.name.endswith(".request.json"):
            continue
        body = file.read_bytes()
        streamed = not file.name.endswith(".json")
        pieces = tuple(_framed(body) if file.name.endswith(".chunks.txt") else _EVENT.findall(body))
        if path := _path_of(body, streamed):
            asked = folder / f"{name}.request.json"
            request = asked.read_bytes() if asked.exists() else json.dumps(REQUESTS[path]).encode()
            yield Recording(name, path, request, pieces if streamed else (body,), streamed)


def _path_of(body: bytes, streamed: bool) -> str:
    """The path of the reply's dialect, "" for none."""
    try:
        first = next(_values(body), {}) if streamed else json.loads(body)
    except ValueError:
        return ""
    if not isinstance(first, dict):
        return ""
    kind, object_ = str(first.get("type", "")), str(first.get("object", ""))
    if object_.startswith("chat.completion") or (first.get("error") and not kind):
        return "/v1/chat/completions"
    if object_ == "response" or kind.startswith("response."):
        return "/v1/responses"
    return "/v1/messages" if kind in ("message", "message_start", "error") else ""


def _values(stream: bytes) -> Iterator[dict[str, Any]]:
    for line in re.split(rb"\r\n|\n|\r", stream):
        text = line.removeprefix(b"data:").strip()
        if text.startswith(b"{"):
            yield json.loads(text)


def _framed(values: bytes) -> Iterator[bytes]:
    """The events of values that were recorded without the frame."""
    kind = ""
    for line in values.splitlines():
        if line.strip():
            kind = str(json.loads(line).get("type", ""))
            yield (f"event: {kind}\n".encode() if kind else b"") + b"data: " + line + b"\n\n"
    if not kind:  # only chat completions have no type
        yield b"data: [DONE]\n\n"


def generated(count: int, seed: int, paths: Sequence[str]) -> Iterator[Recording]:
    """So many streams of each dialect."""
    for path in paths:
        random = Random(f"{seed} {path}")
        request = json.dumps({**REQUESTS[path], "stream": True}).encode()
        for number in range(count):
            yield Recording(f"{path} {number}", path, request, generated_streams.stream(random, path), streamed=True)


async def compared(recording: Recording, port: int, script: Upstream, way: Way = "passages") -> Result:
    """The recording, sent through the gateway at this port."""
    body = JsonBody.parse(recording.request).edited(model=f"raw/{_MODEL}" if way == "raw" else _MODEL)
    if recording.streamed:
        # A chat with an offer holds back the events before the first text: only the bytes are compared.
        marks = () if way == "offer" else recording.pieces
        played = Script(recording.pieces, headers=EVENTS, framing="chunked", marks=marks)
    else:
        status = b"400 Bad Request" if _is_error(recording.pieces[0]) else b"200 OK"
        played = Script(recording.pieces, status=status, headers=JSON)
    exchange = Exchange(body, played)
    await script.play(exchange)
    await ask(port, post(port, body, (), recording.path.encode()), exchange, script)
    status = exchange.answer.header(b"x-rag-status")
    reading = await reading_cell(recording, exchange.script)
    request = request_cell(exchange) if way == "passages" else "same"
    if way == "offer" and b"act_" not in exchange.received[0].body:
        request = "no offer"
    return Result(recording, request, reply_cell(exchange), reading, status == b"augmented")


def _is_error(reply: bytes) -> bool:
    value = json.loads(reply)
    return bool(value.get("error")) and value.get("object") is None  # a response that failed is a 200


def request_cell(exchange: Exchange) -> str:
    """Whether the passages are the only difference of the request at the upstream: "same" or the difference."""
    if len(exchange.received) != 1:
        return f"lost: {len(exchange.received)} requests upstream, status {exchange.answer.status}"
    try:
        place = inserted(exchange.sent, exchange.received[0].body)
    except AssertionError as error:
        return f"changed: {error}"
    return "same" if not place or b"Zephyr" in place else f"made up: {place[:80]!r}"


def reply_cell(exchange: Exchange) -> str:
    """Whether the client received every byte of the reply, event by event: "same" or the difference."""
    answer, sent = exchange.answer, exchange.script.body
    if answer.end != "whole" or answer.status != int(exchange.script.status[:3]):
        return f"lost: status {answer.status}, {answer.end}"
    if exchange.held_back:
        return f"changed: {exchange.held_back} events held back"
    if answer.body == sent:
        return "same"
    return told(of_streams(sent, answer.body) if exchange.script.marks else of_json(sent, answer.body))


async def reading_cell(recording: Recording, script: Script) -> str:
    """Whether the gateway reads the whole reply, and counts the tokens of the reply: "same" or the fault."""
    dialect = BY_PATH[recording.path]
    reader = dialect.reader(streamed=recording.streamed)
    tap = UsageTap(_discarded, dialect)
    await tap.send({"type": "http.response.start", "status": int(script.status[:3]), "headers": script.headers})
    for piece in recording.pieces:
        reader.feed(piece)
        await tap.send({"type": "http.response.body", "body": piece})
    reader.close()
    if not reader.whole and not reader.error:
        return "lost: the end"
    if reader.usage is None:
        return "same"  # the provider reported no tokens
    counted = tap.tokens(recording.request)
    return "same" if counted == reader.usage else f"changed: {reader.usage} → {counted}"


async def _discarded(_message: Message) -> None: ...


def main() -> int:
    """Run the benchmark."""
    arguments = _arguments()
    way: Way = "offer" if arguments.offer else "passages" if arguments.passages or arguments.folder else "raw"
    if arguments.folder:
        found = list(recordings(arguments.folder))
    else:
        found = list(generated(arguments.generated, arguments.seed, list(REQUESTS)[: 1 if arguments.offer else None]))
    if not found:
        print(f"{arguments.folder or 'The command'} holds no recording.", file=sys.stderr)
        return 2
    try:
        with tempfile.TemporaryDirectory(prefix="ragway-recorded-") as folder:
            results = uvloop.run(measured(Path(folder), found, arguments.models, way))
    except (Unmeasurable, OSError) as error:
        print(f"cannot run: {error}", file=sys.stderr)
        return 2
    print(summary(results))
    return 0 if all(result.same for result in results) else 1


async def measured(folder: Path, found: Sequence[Recording], models: Path, way: Way = "passages") -> list[Result]:
    """The results of all recordings, one after the other."""
    learned = await asyncio.to_thread(learn, folder, models)
    async with upstream() as script:
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))  # and does not listen
            dead = nobody.getsockname()[1]
            always = ", min_relevance: 0.0"  # the recorded questions have nothing in common with the handbook
            more = await asyncio.to_thread(_offer, folder, learned, dead) if way == "offer" else ""
            server = await asyncio.to_thread(
                start, "relay", folder, script.port, dead, learned, retrieval=always, more=more
            )
        try:
            return [await compared(recording, server.port, script, way) for recording in found]
        finally:
            server.stop()


def _offer(folder: Path, learned: Path, dead: int) -> str:
    """The settings of an API whose only operation is offered to every chat and never called."""
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Zephyr", "version": "1"},
        "paths": {"/sessions": {"get": {"operationId": "listSessions", "responses": {"200": {"description": "All"}}}}},
    }
    (folder / "zephyr.json").write_text(json.dumps(document), "utf-8")
    run_command(["actions", "add", "zephyr", "zephyr.json", "--base-url", f"http://127.0.0.1:{dead}"], folder, learned)
    return "actions: {zephyr: {offer: true, always: [listSessions]}}\n"


def summary(results: Sequence[Result]) -> str:
    """A table by dialect, and a line for each recording that differs."""
    lines = ["| path | recordings | streams | events | with passages | same |", "| --- | --- | --- | --- | --- | --- |"]
    for path in REQUESTS:
        of_path = [result for result in results if result.recording.path == path]
        streams = [result.recording for result in of_path if result.recording.streamed]
        events = sum(len(stream.pieces) for stream in streams)
        augmented, same = sum(result.augmented for result in of_path), sum(result.same for result in of_path)
        lines.append(f"| `{path}` | {len(of_path)} | {len(streams)} | {events} | {augmented} | {same} |")
    lines += [
        f"{result.recording.name}: request {result.request}; reply {result.reply}; reading {result.reading}"
        for result in results
        if not result.same
    ]
    return "\n".join(lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Send recorded replies of providers through the relay.")
    parser.add_argument("folder", type=Path, nargs="?", metavar="FOLDER", help="the recordings")
    parser.add_argument(
        "--generated", type=int, default=0, metavar="N", help="play N generated streams of each dialect"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the generated streams (default: 1)")
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--passages", action="store_true", help="generated streams of chats with passages")
    ways.add_argument("--offer", action="store_true", help="generated streams of chats with operations")
    add_models(parser)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
