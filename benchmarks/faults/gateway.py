"""Shared by the benchmarks of departures and faults: the gateway under test, the processes, and clients."""

import asyncio
import contextlib
import json
import re
import shutil
import socket
import struct
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.common.processes import ROOT, Running, environment, printed_port, start
from benchmarks.faults.faulty_upstream import FaultyUpstream, completion

QUESTIONS = (
    "How do I install it and get a first answer?", "Which file formats can it read?", "Why are there two processes?",
    "What does x-rag-status degraded mean?", "How do I run it in Docker?", "Does it need a GPU?",
)  # fmt: skip
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, for 0 seconds: the connection ends by RST
_SETTINGS = """
server: {{receive_timeout_s: 600}}
retrieval: {{deadline_s: {deadline_s}, hang_s: 600}}
upstream: {{max_connections: 200, connect_timeout_s: 600, keepalive_s: 1, idle_timeout_s: {idle_timeout_s}}}
models:
  relay: {{api_base: "http://127.0.0.1:{port}/v1"}}
  translated: {{model: openai/gpt-4o, lane: translated, api_base: "http://127.0.0.1:{port}/v1"}}
  relay-silent: {{api_base: "https://127.0.0.1:{silent}/v1"}}
  translated-silent: {{model: openai/gpt-4o, lane: translated, api_base: "https://127.0.0.1:{silent}/v1"}}
"""


@dataclass(slots=True)
class Gateway:
    """`ragway serve` with this project's documentation ingested."""

    running: Running
    folder: Path
    _log_read: int = 0
    _lines: list[str] = field(default_factory=list)

    @property
    def pids(self) -> dict[str, int]:
        """Of the gateway and the index process."""
        processes = self.running.processes()
        return {"gateway": self.running.process.pid, "index": processes["index"][0]}

    def descriptors(self) -> dict[str, int]:
        """Open files and sockets, without the connections between the two processes, of which up to 64 stay open."""
        between = {line.split()[6] for line in Path("/proc/net/unix").read_text("utf-8").splitlines()[1:]}
        return {role: sum(1 for inode in _open(pid) if inode not in between) for role, pid in self.pids.items()}

    def in_flight(self) -> int | None:
        """Requests in progress, as counted by /metrics; None without /metrics."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.running.port}/metrics", timeout=10) as reply:
                found = re.search(rb"^ragway_requests_in_flight (\S+)", reply.read(), re.MULTILINE)
        except OSError:
            return None
        return None if found is None else int(float(found[1])) - 1  # without the request for /metrics

    def departures_logged(self) -> int:
        """How many requests the log has called over since the client left."""
        return self._log().count("error='the client left'")

    def forget_log(self) -> None:
        """Ignore the log so far."""
        self._log_read = (self.folder / "ragway.log").stat().st_size

    def tracebacks(self) -> int:
        """In the whole log."""
        return (self.folder / "ragway.log").read_text("utf-8", "replace").count("Traceback")

    def _log(self) -> str:
        with (self.folder / "ragway.log").open("rb") as log:
            log.seek(self._log_read)
            return log.read().decode("utf-8", "replace")

    def ingest(self, folder: Path) -> None:
        """Ingest more documents."""
        ragway(["ingest", str(folder), "--collection", "docs", "--data", str(self.folder / "data")], self.folder)


def _open(pid: int) -> Iterator[str]:
    """For each open descriptor: the socket's inode, or the target."""
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed just now
            yield str(entry.readlink()).removeprefix("socket:[").removesuffix("]")


def ragway(arguments: Sequence[str], folder: Path) -> None:
    """Run one command to the end."""
    command = [sys.executable, "-m", "cli", *arguments]
    quiet = subprocess.DEVNULL
    ours = environment({"PYTHONPATH": str(ROOT)})
    subprocess.run(command, check=True, cwd=folder, env=ours, stdout=quiet, stderr=quiet)


@contextlib.contextmanager
def gateway(
    folder: Path, models: Path, upstream: FaultyUpstream, *, deadline_s: float = 600, idle_timeout_s: float = 600
) -> Iterator[Gateway]:
    """A served gateway. models: the folder of prepared embedders."""
    data = folder / "data"
    data.mkdir()
    models.mkdir(parents=True, exist_ok=True)
    (data / "models").symlink_to(models.resolve())
    shutil.copytree(ROOT / "docs", folder / "docs")
    ragway(["ingest", str(folder / "docs"), "--collection", "docs", "--data", str(data)], folder)
    settings = folder / "ragway.yaml"
    settings.write_text(
        _SETTINGS.format(
            port=upstream.port, silent=upstream.silent_port, deadline_s=deadline_s, idle_timeout_s=idle_timeout_s
        ),
        "utf-8",
    )
    serve = [sys.executable, "-m", "cli", "serve", "--port", "0", "--config", str(settings), "--data", str(data)]
    running = start(serve, folder, "ragway", {"PYTHONPATH": str(ROOT)}, printed_port)
    try:
        yield Gateway(running, folder)
    finally:
        running.stop()


def request(model: str, user: str, *, rag: bool, stream: bool = False, question: str = QUESTIONS[0]) -> bytes:
    """The bytes of a chat completion's request; user: the upstream's action."""
    messages = [{"role": "user", "content": question}]
    body = json.dumps({"model": model, "messages": messages, "stream": stream, "user": user}).encode()
    return (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"x-rag: %b\r\ncontent-length: %d\r\n\r\n%b" % (b"on" if rag else b"off", len(body), body)
    )


@dataclass(slots=True)
class Caller:
    """A connection to the gateway."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def leave(self, *, reset: bool) -> None:
        """Close the connection, in an orderly way or by a reset."""
        if reset:
            sock = self.writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.writer.transport.abort()  # no bytes wait for sending: the kernel sends FIN or RST

    async def head(self) -> tuple[int, bytes]:
        """Status and head of a reply. Raises IncompleteReadError."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        return int(head.split(b" ", 2)[1]), head

    async def body(self, head: bytes) -> tuple[bytes, bool]:
        """The received part of the body after a head, and whether the body is complete."""
        parts: list[bytes] = []
        try:
            if b"\r\ntransfer-encoding: chunked\r\n" not in head:
                found = re.search(rb"\r\ncontent-length: (\d+)\r\n", head)
                return await self.reader.readexactly(int(found[1]) if found else 0), True
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                parts.append((await self.reader.readexactly(size + 2))[:-2])
            await self.reader.readexactly(2)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            return b"".join(parts), False
        return b"".join(parts), True


@contextlib.asynccontextmanager
async def calling(port: int) -> AsyncIterator[Caller]:
    """A connection, closed with the block."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Caller(reader, writer)
    finally:
        writer.transport.abort()


async def turned(port: int) -> None:
    """Return after two turns of the gateway's event loop: earlier requests have reached their wait."""
    async with calling(port) as caller:
        for _ in range(2):
            caller.writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            _, head = await caller.head()
            await caller.body(head)


async def healthy(port: int, lane: str, count: int) -> int:
    """How many of so many requests, retrieval on, are answered whole and as the upstream did."""
    good = 0
    for number in range(count):
        user = f"whole 0 healthy-{lane}-{number}"
        async with calling(port) as caller:
            caller.writer.write(request(lane, user, rag=True))
            status, head = await caller.head()
            body, whole = await caller.body(head)
            said = json.loads(body) if whole and status == 200 else {}
            same = said.get("choices", [{}])[0].get("message", {}).get("content") == _content(completion(user))
            good += same and b"x-rag-status: augmented" in head
    return good


def _content(body: bytes) -> object:
    return json.loads(body)["choices"][0]["message"]["content"]
