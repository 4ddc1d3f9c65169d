"""The processes that `crash` kills: an index alone, and a gateway with an index process."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from typing import Protocol

import httpx
import msgspec
import orjson

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common.processes import ROOT, Running, environment, printed_port, start
from benchmarks.crash.oracle import FILE, Act
from cli.assembly.index import plan
from config.settings import load
from retrieval.errors import CollectionExists, IndexDown, RetrievalError, UnknownCollection, UnknownDocument
from retrieval.index.index import Index
from retrieval.index.vector_spaces import choice_of
from retrieval.knowledge import EmbedderChoice, Plan
from retrieval.records.jobs import DocumentInput
from retrieval.rpc.client import IndexClient
from retrieval.rpc.server import IndexServer

_SETTINGS = """
models: {echo: {lane: echo}}
retrieval: {collections: [], min_relevance: 0.0, candidates: 1000, deadline_s: 60}
ingest: {chunk_tokens: 40, context_tokens: 16}
embedder: {precision: fp32}
"""
_PATIENCE_S = 60.0


class Killed(Exception):
    """The process was killed before the acknowledgement."""


class Victim(Protocol):
    """A process with an index that can be killed."""

    client: IndexClient

    async def start(self) -> None:
        """Return when the process answers. Raises Killed."""
        ...

    async def do(self, act: Act) -> bool:
        """Run an act; return whether the act changed anything. Raises Killed, RetrievalError."""
        ...

    def kill(self) -> None: ...

    async def ended(self) -> None:
        """Return when all killed processes have ended."""
        ...

    async def stop(self) -> None:
        """Stop in an orderly way."""
        ...


def plan_of(data: Path) -> Plan:
    """Short chunks, a search that finds everything, an embedder that loads at once."""
    file = data.with_name("crash.yaml")
    file.write_text(_SETTINGS, "utf-8")
    return plan(load(file=file, environ={}, flags={"data": str(data)}), environ={})


class IndexVictim:
    """A process that opens the data folder directly, like `ragway ingest`."""

    def __init__(self, data: Path, *, before: Sequence[str] = ()) -> None:
        """before: a command that wraps the process, for example strace."""
        self._data, self._before = data, before
        self._plan = plan_of(data)
        self._process: asyncio.subprocess.Process | None = None
        self.client = IndexClient(data)

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *self._before,
            sys.executable,
            __file__,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=environment({"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}),
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(orjson.dumps(asdict(self._plan)) + b"\n")
            await self._process.stdin.drain()
        line = await asyncio.wait_for(self._process.stdout.readline(), _PATIENCE_S)
        if line != b"ready\n":
            await self._process.wait()
            raise Killed(line.decode())

    async def do(self, act: Act) -> bool:
        return await _killable(_done(self.client, act, self._data, self._plan))

    def kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def ended(self) -> None:
        if self._process is not None:
            await self._process.wait()
        await self.client.close()

    async def stop(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        await asyncio.wait_for(self._process.wait(), _PATIENCE_S)
        await self.client.close()


class GatewayVictim:
    """`ragway serve`: documents are put and deleted over HTTP; the index process or the whole gateway is killed."""

    def __init__(self, data: Path, random: Random) -> None:
        self._data, self._random = data, random
        self._plan = plan_of(data)
        self._running: Running | None = None
        self._http = httpx.AsyncClient(timeout=_PATIENCE_S)
        self.client = IndexClient(data)

    async def start(self) -> None:
        if self._running is None:
            command = [sys.executable, "-m", "cli", "serve", "--port", "0", "--config",
                       str(self._data.with_name("crash.yaml")), "--data", str(self._data)]  # fmt: skip
            folder, extra = self._data.parent, {"PYTHONPATH": str(ROOT)}
            self._running = await asyncio.to_thread(start, command, folder, "gateway", extra, printed_port)
        said, until = "", time.monotonic() + _PATIENCE_S
        while time.monotonic() < until:
            ready = f"{self._url}/readyz"  # raises Killed if the whole gateway was killed
            with contextlib.suppress(httpx.TransportError, IndexDown):
                await self.client.ping()  # /readyz may not have noticed the death of the index
                reply = await self._http.get(ready)
                said = reply.text
                if reply.status_code == 200:
                    return
            await asyncio.sleep(0.05)
        log = self._data.with_name("gateway.log").read_text("utf-8", "replace")
        raise RetrievalError(f"the gateway does not become ready: {said}\n{log[-3000:]}")

    @property
    def _url(self) -> str:
        if self._running is None:
            raise Killed("all of it")
        return f"http://127.0.0.1:{self._running.port}"

    async def do(self, act: Act) -> bool:
        if act.kind in ("ingest", "rebuild", "reindex") or any(key.startswith(FILE) for key in act.texts):
            return await _killable(_done(self.client, act, self._data, self._plan))  # like the command
        return await _killable(self._asked(act))

    async def _asked(self, act: Act) -> bool:
        collection = f"{self._url}/v1/knowledge/collections/{act.collection}"
        if act.kind == "create":
            reply = await self._http.post(f"{self._url}/v1/knowledge/collections", json={"name": act.collection})
            return self._said(reply, 409).status_code == 201
        if act.kind == "delete collection":
            return self._said(await self._http.delete(collection), 404).status_code == 200
        if act.kind == "delete document":
            (key,) = act.texts
            return self._said(await self._http.delete(f"{collection}/documents/{key}"), 404).status_code == 200
        rows = [{"key": key, "text": text, "format": "markdown"} for key, text in act.texts.items()]
        reply = self._said(await self._http.post(f"{collection}/documents", json={"documents": rows}))
        states = [row["status"] for row in reply.json()["data"]]
        if not {*states} <= {"created", "replaced", "unchanged"}:
            raise RetrievalError(f"put: {reply.text}")
        return any(state != "unchanged" for state in states)

    @staticmethod
    def _said(reply: httpx.Response, *fine: int) -> httpx.Response:
        if reply.status_code == 503:
            raise Killed(reply.text)
        if reply.status_code >= 300 and reply.status_code not in fine:
            raise RetrievalError(f"{reply.request.method} {reply.request.url}: {reply.status_code} {reply.text}")
        return reply

    def kill(self) -> None:
        if self._running is None:
            return
        pids = self._running.processes()
        whole = self._random.random() < 0.5
        for pid in [*pids.get("index", []), *(pids["server"] if whole else [])]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if whole:
            self._running.stop()
            self._running = None
        for pid in pids.get("index", []):
            while _runs(pid):
                pass

    async def ended(self) -> None:
        await self.client.close()

    async def stop(self) -> None:
        await self.client.close()
        await self._http.aclose()
        if self._running is not None:
            self._running.stop()


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def _killable(work: "asyncio.Future[bool] | object") -> bool:
    try:
        return bool(await asyncio.wait_for(work, _PATIENCE_S))  # type: ignore[arg-type]
    except (IndexDown, httpx.TransportError) as error:
        raise Killed(str(error)) from error
    except TimeoutError as error:
        raise RetrievalError(f"no answer within {_PATIENCE_S:g} s") from error


async def _done(client: IndexClient, act: Act, data: Path, of: Plan) -> bool:
    """Run an act through the index."""
    match act.kind:
        case "create":
            with contextlib.suppress(CollectionExists):
                await client.writing.create_collection(act.collection, None)
                return True
        case "put" | "replace":
            given = [
                DocumentInput(key, key, (text or "").encode(), format="markdown") for key, text in act.texts.items()
            ]
            placed = await client.writing.put(act.collection, given)
            if bad := [one for one in placed if one.state == "failed"]:
                raise RetrievalError(f"put: {bad}")
            return any(one.state != "unchanged" for one in placed)
        case "ingest":
            report = await client.writing.ingest([_folder(act, data)], act.collection, _silent)
            if report.failures:
                raise RetrievalError(f"ingest: {report.failures}")
            return bool(report.added or report.changed or report.removed or report.chunks)
        case "rebuild":
            await client.writing.rebuild(act.collection, _silent)
        case "reindex":
            other: EmbedderChoice = replace(choice_of(of), document_prompt="passage: ")
            await client.writing.rebuild(act.collection, _silent, embedder=other)
        case "delete document":
            (key,) = act.texts
            infos = await client.library.documents(act.collection, after="", limit=1000)
            ids = [info.id for info in infos if (info.key or FILE + info.source.rpartition("/")[2]) == key]
            with contextlib.suppress(UnknownDocument):
                for id in ids:
                    await client.writing.delete_document(id)
                return bool(ids)
        case "delete collection":
            with contextlib.suppress(UnknownCollection):
                await client.writing.delete_collection(act.collection)
                return True
    return False


def _folder(act: Act, data: Path) -> Path:
    """The files of an ingest in the expected state."""
    folder = data.with_name("files") / act.collection
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {key.removeprefix(FILE): text for key, text in act.texts.items() if text is not None}
    for file in folder.iterdir():
        if file.name not in wanted:
            file.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, "utf-8")
    return folder


def _silent(_done: int, _total: int, _chunks: int, _source: str) -> None:
    pass


async def _serve() -> None:
    """An index behind a socket, until standard input ends."""
    of = msgspec.json.decode(sys.stdin.readline(), type=Plan)
    index = await Index.open(of, serving=False)
    async with IndexServer(index).listening(Path(of.data)):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)
    await index.close()


if __name__ == "__main__":
    asyncio.run(_serve())
