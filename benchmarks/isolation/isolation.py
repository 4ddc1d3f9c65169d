"""Twenty keys, twenty collections, a unique token in every document: does any key see another key's documents?

    python benchmarks/isolation/isolation.py [-n 200000] [--seed 1] [--writes 0.02] [--workers 2] [--models DIR]

The model `echo` of a real gateway answers with the injected text. Each key reads two collections. Random calls of every
kind run 32 at once: chats, streams, searches, lists, documents, vector stores, with own, foreign and missing names and
ids (also mixed in one call), and with invalid keys. Every byte of every answer is searched for tokens and names of
collections that the key may not read, and every status is checked. All keys repeat the same questions, so that a cache
shared by mistake would show. Exit code 1: a leak, or an allowed call was refused.

Some calls write (`writes`): each key puts, uploads, deletes and recreates documents in the key's own collection, checks
the content, and tries to write foreign collections. At the end the twenty collections must be unchanged.
"""

import argparse
import asyncio
import contextlib
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import orjson
import uvloop
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common.arguments import add_models
from benchmarks.common.load import Connection, Reply
from benchmarks.common.processes import ROOT, Running, printed_port, start
from benchmarks.isolation.writes import Form, Shelf, Shelving
from cli.assembly.index import plan
from config.settings import load
from proxy.access.sql import SqlAccounts
from proxy.caller import Names, Rights
from retrieval.index.index import Index
from retrieval.records.documents import Document

AT_ONCE = 32
_COLLECTIONS, _DOCUMENTS, _QUESTIONS = 20, 12, 200
# In a text, in a collection's name; the ids of jobs and files.
_TOKEN = re.compile(rb"(?:zq|kx)[0-9a-f]{12}|(?:job|file)-[0-9a-f]{32}")
_ID = re.compile(rb"(?:job|file)-[0-9a-f]{32}")
_COLOURS = ("red", "blue", "green", "grey", "black")
_THINGS = ("pump", "valve", "hose", "filter", "gauge", "motor")
_SETTINGS = """
models: {echo: {lane: echo}}
retrieval: {collections: [%s], min_relevance: 0.0, deadline_s: 60}
"""


@dataclass(frozen=True, slots=True)
class Caller:
    """A key: the secret and the readable collections."""

    secret: str
    reads: tuple[str, ...]
    shelf: Shelf = field(default_factory=Shelf)  # a collection that the key reads and writes

    def sees(self, token: bytes, of: dict[bytes, str]) -> bool:
        return of.get(token) in (*self.reads, self.shelf.name)


@dataclass(slots=True)
class World:
    """The collections, the token and id of each document, and the callers."""

    names: list[str]
    # token -> collection; the name of a collection counts as a token
    of: dict[bytes, str] = field(default_factory=dict)
    ids: dict[str, list[str]] = field(default_factory=dict)  # collection -> documents
    callers: list[Caller] = field(default_factory=list)


@dataclass(slots=True)
class Call:
    """A request, the allowed statuses, and the tokens in the request."""

    kind: str
    request: bytes
    status: int
    said: frozenset[bytes]


@dataclass(slots=True)
class Seen:
    """The results of all calls."""

    kinds: Counter[str] = field(default_factory=Counter)
    own: int = 0  # answers with a token of the caller's collections; without such answers the test would prove nothing
    wrong: list[str] = field(default_factory=list)


def make_world(data: Path, random: Random) -> World:
    """Create collections whose texts differ only in the tokens, and keys for two collections each."""
    world = World([f"kx{random.randbytes(6).hex()}" for _ in range(_COLLECTIONS)])
    world.of.update({name.encode(): name for name in world.names})
    asyncio.run(_fill(data, world, random))
    accounts = SqlAccounts(data)
    for i, name in enumerate(world.names):
        reads, shelf = (name, world.names[(i + 1) % _COLLECTIONS]), Shelf(f"kx{random.randbytes(6).hex()}")
        world.of[shelf.name.encode()] = shelf.name
        rights = Rights(read=Names((*reads, shelf.name)), write=Names([shelf.name]), models=Names(["echo"]))
        _, secret = accounts.create(f"caller {i}", rights)
        world.callers.append(Caller(secret, reads, shelf))
    accounts.close()
    return world


async def _fill(data: Path, world: World, random: Random) -> None:
    index = await Index.open(plan(load(environ={}, flags={"data": str(data)})), serving=False)
    for name in world.names:
        documents = []
        for i in range(_DOCUMENTS):
            token = f"zq{random.randbytes(6).hex()}"
            world.of[token.encode()] = name
            colour, thing = _COLOURS[i % len(_COLOURS)], _THINGS[i % len(_THINGS)]
            text = f"# The {colour} {thing}\n\nThe {colour} {thing} number {i} is called {token}. Oil it on Mondays."
            documents.append(Document(f"{i}.md", f"{colour} {thing}", text, "markdown", 1.0))
        await index.writing.learn(documents, name, lambda *_: None)
        world.ids[name] = [info.id for info in await index.library.documents(name, after="", limit=_DOCUMENTS)]
    await index.close()


class Asker:
    """Makes random calls."""

    def __init__(self, world: World, random: Random) -> None:
        self._world = world
        self._random = random
        self._questions = [
            f"What is the {random.choice(_COLOURS)} {random.choice(_THINGS)} number {i} called?"
            for i in range(_QUESTIONS)
        ]

    def call(self, caller: Caller) -> Call:
        make = self._random.choice(
            [self._chat, self._chat, self._search, self._store_search, self._documents, self._document, self._lists,
             self._nobody]
        )  # fmt: skip
        return make(caller)

    def _names(self, caller: Caller) -> tuple[list[str], bool]:
        """Names for a call, and whether the caller may read all of the names."""
        others = self.foreign(caller)
        bad = [self._random.choice(others), f"kx{self._random.randbytes(6).hex()}", caller.reads[0] + "@1"]
        chosen = list(self._random.sample(caller.reads, self._random.choice([1, 2])))
        if self._random.random() < 0.5:
            return chosen, True
        chosen.insert(self._random.randrange(len(chosen) + 1), self._random.choice(bad))
        return (chosen if self._random.random() < 0.5 else [one for one in chosen if one not in caller.reads]), False

    def foreign(self, caller: Caller) -> list[str]:
        """Collections that the caller may not read, existing or not."""
        shelves = [one.shelf.name for one in self._world.callers if one is not caller]
        return [*(name for name in self._world.names if name not in caller.reads), *shelves]

    def _chat(self, caller: Caller) -> Call:
        question = {"role": "user", "content": self._random.choice(self._questions)}
        body = {"model": "echo", "messages": [question], "stream": self._random.random() < 0.3}
        names, may = self._names(caller)
        header = b""
        match self._random.choice(["default", "header", "prefix", "body"]):
            case "default":  # all twenty, of which the key reads two
                names, may = [], True
            case "header":
                header = b"x-rag-collection: %b\r\n" % ",".join(names).encode()
            case "prefix":
                names = names[:1]
                may = names[0] in caller.reads
                body["model"] = f"rag/{names[0]}/echo"
            case _:
                body["rag"] = {"collections": names}
        return self._made("chat", caller, "/v1/chat/completions", body, may, header)

    def _search(self, caller: Caller) -> Call:
        body: dict[str, object] = {"query": self._random.choice(self._questions), "k": self._random.randint(1, 100)}
        may = True
        if self._random.random() < 0.8:
            body["collections"], may = self._names(caller)
        if self._random.random() < 0.5:
            body["mode"] = self._random.choice(["dense", "bm25", "hybrid"])
        return self._made("search", caller, "/v1/knowledge/search", body, may)

    def _store_search(self, caller: Caller) -> Call:
        (name, *_), _ = self._names(caller)
        body = {"query": self._random.choice(self._questions), "max_num_results": self._random.randint(1, 50)}
        return self._made("store search", caller, f"/v1/vector_stores/{name}/search", body, name in caller.reads)

    def _documents(self, caller: Caller) -> Call:
        (name, *_), _ = self._names(caller)
        below = ["/v1/knowledge/collections/{}", "/v1/knowledge/collections/{}/documents"]
        path = self._random.choice([*below, "/v1/knowledge/collections/{}/export", "/v1/vector_stores/{}"])
        return self._made("collection", caller, path.format(name), None, name in caller.reads)

    def _document(self, caller: Caller) -> Call:
        name = self._random.choice(self._world.names)
        id = self._random.choice(self._world.ids[name])
        return self._made("document", caller, f"/v1/knowledge/documents/{id}", None, name in caller.reads)

    def _lists(self, caller: Caller) -> Call:
        path = self._random.choice(["/v1/knowledge/collections", "/v1/vector_stores", "/v1/models"])
        return self._made("list", caller, path, None, True)

    def _nobody(self, caller: Caller) -> Call:
        """The same calls without a valid key."""
        call = self.call(caller)
        wrong = self._random.choice([b"", b"x" + caller.secret.encode(), caller.secret.encode()[:-1]])
        call.request = call.request.replace(caller.secret.encode(), wrong, 1)
        return Call("no key", call.request, 401, call.said)

    def _made(self, kind: str, caller: Caller, path: str, body: object, may: bool, header: bytes = b"") -> Call:
        method = "GET" if body is None else "POST"
        return made(kind, caller, method, path, body, 200 if may else 404, header)


def made(kind: str, caller: Caller, method: str, path: str, body: object, status: int, header: bytes = b"") -> Call:
    """A call. body: a form, None, or any other value as JSON."""
    if isinstance(body, Form):
        content_type, sent = body.encoded()
    else:
        content_type, sent = b"application/json", b"" if body is None else orjson.dumps(body)
    head = b"%b %b HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer %b\r\n%b" % (
        method.encode(),
        path.encode(),
        caller.secret.encode(),
        header,
    )
    if body is not None:
        head += b"content-type: %b\r\ncontent-length: %d\r\n" % (content_type, len(sent))
    request = head + b"\r\n" + sent
    return Call(kind, request, status, frozenset(_TOKEN.findall(request)))


def judge(call: Call, caller: Caller, reply: Reply, world: World, seen: Seen) -> None:
    """Count a reply and record violations."""
    shown = bytes(reply.body) + b"\n".join(name + b": " + value for name, value in reply.headers.items())
    tokens = set(_TOKEN.findall(shown)) - call.said
    own = {token for token in tokens if caller.sees(token, world.of)}
    seen.kinds[f"{call.kind}, {reply.status}"] += 1
    seen.own += bool(own) and call.status == 200
    foreign = tokens - own if call.status != 401 else tokens
    if foreign:
        seen.wrong.append(f"{call.kind} showed {sorted(foreign)[:3]}: {call.request[:300]!r}")
    if reply.status != call.status:
        seen.wrong.append(f"{call.kind} was {reply.status}, due {call.status}: {call.request[:300]!r} {shown[:200]!r}")


def run(port: int, world: World, random: Random, count: int, *, writes: float) -> Seen:
    """The results of random calls. writes: the share of calls that start an action on a shelf."""
    return uvloop.run(_Run(port, world, random, writes).ask(count))


class _Run:
    """Calls on many connections at once."""

    def __init__(self, port: int, world: World, random: Random, writes: float) -> None:
        self._port, self._world, self._random, self._writes = port, world, random, writes
        self._seen, self._asker = Seen(), Asker(world, random)
        self._shelving = Shelving(world.of, self._others, random)
        self._left = 0

    async def ask(self, count: int) -> Seen:
        self._left = count
        with tqdm(total=count, unit=" calls", disable=not sys.stderr.isatty(), leave=False) as bar:
            await asyncio.gather(*(self._line(bar) for _ in range(AT_ONCE)))
        await self._untouched()
        return self._seen

    async def _line(self, bar: "tqdm[Any]") -> None:
        connection = await Connection.open(self._port)
        while self._left > 0 and len(self._seen.wrong) < 20:
            self._left -= 1
            caller = self._random.choice(self._world.callers)
            if self._random.random() < self._writes:
                await self._write(caller)
            else:
                if connection.closed:  # closed by the gateway after idling behind a write
                    connection = await Connection.open(self._port)
                call = self._asker.call(caller)
                judge(call, caller, await connection.ask(call.request), self._world, self._seen)
            bar.update()
        connection.close()

    async def _write(self, caller: Caller) -> None:
        shelf, world = caller.shelf, self._world
        connection: Connection | None = None

        async def ask(kind: str, method: str, path: str, body: object, status: int) -> bytes:
            nonlocal connection
            if connection is None:  # connect only now, because waiting for the shelf may take long
                connection = await Connection.open(self._port)
            call = made(kind, caller, method, path, body, status)
            reply = await connection.ask(call.request)
            shown = bytes(reply.body)
            if kind in ("upload", "file"):  # a created file belongs to the caller
                for id in _ID.findall(shown):
                    world.of.setdefault(id, shelf.name)
                    (shelf.files if id.startswith(b"file") else shelf.jobs).append(id.decode())
            if reply.status == 202:  # a long job: the content of the shelf is known when the job ends
                call.status = 202
                await self._over(connection, caller, orjson.loads(shown)["id"])
            judge(call, caller, reply, world, self._seen)
            return shown

        foreign = self._asker.foreign(caller)
        unread = [name for name in world.names if name not in caller.reads]
        id = self._random.choice(world.ids[self._random.choice(unread)])
        try:
            await self._shelving.act(shelf, ask, foreign, caller.reads, id)
        except AssertionError as error:
            self._seen.wrong.append(str(error))
        if connection is not None:
            connection.close()

    async def _over(self, connection: Connection, caller: Caller, job: str) -> None:
        request = made("job", caller, "GET", f"/v1/knowledge/jobs/{job}", None, 200).request
        state = "queued"
        while state in ("queued", "running"):
            await asyncio.sleep(0.2)
            state = orjson.loads(bytes((await connection.ask(request)).body))["status"]

    def _others(self, shelf: Shelf) -> list[Shelf]:
        return [one.shelf for one in self._world.callers if one.shelf is not shelf]

    async def _untouched(self) -> None:
        """Check that the read-only collections are unchanged."""
        connection = await Connection.open(self._port)
        for caller in self._world.callers:
            name = caller.reads[0]
            path = f"/v1/knowledge/collections/{name}/documents"
            reply = await connection.ask(made("end", caller, "GET", path, None, 200).request)
            ids = [row["id"] for row in orjson.loads(bytes(reply.body)).get("data", [])]
            if ids != self._world.ids[name]:
                self._seen.wrong.append(f"{name} has other documents at the end: {bytes(reply.body)[:300]!r}")
        connection.close()


@contextlib.contextmanager
def gateway(folder: Path, data: Path, world: World, workers: int) -> Iterator[Running]:
    """`ragway serve` over these collections."""
    settings = folder / "isolation.yaml"
    settings.write_text(_SETTINGS % ", ".join(world.names), "utf-8")
    command = [sys.executable, "-m", "cli", "serve", "--port", "0", "--workers", str(workers),
               "--config", str(settings), "--data", str(data)]  # fmt: skip
    running = start(command, folder, "isolation", {"PYTHONPATH": str(ROOT)}, printed_port)
    try:
        yield running
    finally:
        running.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("-n", type=int, default=200_000, help="calls (default: 200,000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--writes", type=float, default=0.02, help="share that writes (default: 0.02)")
    parser.add_argument("--workers", type=int, default=2)
    add_models(parser)
    arguments = parser.parse_args()
    random = Random(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        data.mkdir()
        if arguments.models.is_dir():
            (data / "models").symlink_to(arguments.models.resolve())
        world = make_world(data, random)
        with gateway(Path(folder), data, world, arguments.workers) as running:
            began = time.monotonic()
            seen = run(running.port, world, random, arguments.n, writes=arguments.writes)
            took_s = time.monotonic() - began
    print("| call, status | times |\n| --- | ---: |")
    for kind, times in sorted(seen.kinds.items()):
        print(f"| {kind} | {times:,} |")
    total = sum(seen.kinds.values())
    print(f"\n{total:,} calls in {took_s:.0f} s; {seen.own:,} showed what is the caller's own.")
    for one in seen.wrong:
        print(f"WRONG: {one}")
    print(f"{len(seen.wrong)} showed something foreign or had another status than is due.")
    return 1 if seen.wrong or not seen.own else 0


if __name__ == "__main__":
    sys.exit(main())
