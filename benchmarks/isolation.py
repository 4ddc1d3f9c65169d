"""Twenty keys, twenty collections, a token of its own in every document: does anybody see what is not theirs?

    python benchmarks/isolation.py [-n 200000] [--seed 1] [--workers 2] [--models DIR]

A real gateway whose model `echo` answers with what was injected. Each key reads two collections. Random calls of every
kind (chats, streams, searches, lists, documents, vector stores; one's own, others', absent names and ids, some of each
in one call, and keys that are none), 32 at once; every byte of every answer is searched for the tokens and names of
collections that the key may not read, and every status is the one that is due. Questions are asked again and again, by
all keys, so that what is kept in memory of one would show at another. Exit code 1: something leaked, or was refused to
one who may.
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

import orjson
import uvloop
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.load import Connection, Reply
from benchmarks.processes import ROOT, Running, printed_port, start
from config.settings import load
from proxy.accounts import SqlAccounts
from proxy.build import plan
from proxy.rights import Names, Rights
from retrieval.index import Index
from retrieval.records import Document

AT_ONCE = 32
_COLLECTIONS, _DOCUMENTS, _QUESTIONS = 20, 12, 200
_TOKEN = re.compile(rb"(?:zq|kx)[0-9a-f]{12}")  # in a text, in a collection's name
_COLOURS = ("red", "blue", "green", "grey", "black")
_THINGS = ("pump", "valve", "hose", "filter", "gauge", "motor")
_SETTINGS = """
models: {echo: {lane: echo}}
retrieval: {collections: [%s], min_relevance: 0.0, deadline_s: 60}
"""


@dataclass(frozen=True, slots=True)
class Caller:
    """A key: its secret, and the collections that it reads."""

    secret: str
    reads: tuple[str, ...]


@dataclass(slots=True)
class World:
    """What there is: collections, the token of each document, its id, who calls."""

    names: list[str]
    of: dict[bytes, str] = field(default_factory=dict)  # token -> its collection; a collection's name is one, too
    ids: dict[str, list[str]] = field(default_factory=dict)  # collection -> its documents
    callers: list[Caller] = field(default_factory=list)


@dataclass(slots=True)
class Call:
    """A request, what it may be answered with, and the tokens that it holds itself."""

    kind: str
    request: bytes
    status: int
    said: frozenset[bytes]


@dataclass(slots=True)
class Seen:
    """What came of all calls."""

    kinds: Counter[str] = field(default_factory=Counter)
    own: int = 0  # answers with a token of the caller's own: without any, nothing was shown by nobody seeing anything
    wrong: list[str] = field(default_factory=list)


def make_world(data: Path, random: Random) -> World:
    """Collections whose texts differ by their tokens alone, and keys to two of them each."""
    world = World([f"kx{random.randbytes(6).hex()}" for _ in range(_COLLECTIONS)])
    world.of.update({name.encode(): name for name in world.names})
    asyncio.run(_fill(data, world, random))
    accounts = SqlAccounts(data)
    for i, name in enumerate(world.names):
        reads = (name, world.names[(i + 1) % _COLLECTIONS])
        _, secret = accounts.create(f"caller {i}", Rights(read=Names(reads), models=Names(["echo"])))
        world.callers.append(Caller(secret, reads))
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
        await index.learn(documents, name, lambda *_: None)
        world.ids[name] = [info.id for info in await index.documents(name, after="", limit=_DOCUMENTS)]
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
        """Names to ask for, and whether all of them may be read."""
        others = [name for name in self._world.names if name not in caller.reads]
        bad = [self._random.choice(others), f"kx{self._random.randbytes(6).hex()}", caller.reads[0] + "@1"]
        chosen = list(self._random.sample(caller.reads, self._random.choice([1, 2])))
        if self._random.random() < 0.5:
            return chosen, True
        chosen.insert(self._random.randrange(len(chosen) + 1), self._random.choice(bad))
        return (chosen if self._random.random() < 0.5 else [one for one in chosen if one not in caller.reads]), False

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
        sent = b"" if body is None else orjson.dumps(body)
        head = b"%b %b HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer %b\r\n%b" % (
            b"GET" if body is None else b"POST", path.encode(), caller.secret.encode(), header,
        )  # fmt: skip
        if body is not None:
            head += b"content-type: application/json\r\ncontent-length: %d\r\n" % len(sent)
        request = head + b"\r\n" + sent
        return Call(kind, request, 200 if may else 404, frozenset(_TOKEN.findall(request)))


def judge(call: Call, caller: Caller, reply: Reply, world: World, seen: Seen) -> None:
    """Count the reply, and note what is wrong with it."""
    shown = bytes(reply.body) + b"\n".join(name + b": " + value for name, value in reply.headers.items())
    tokens = set(_TOKEN.findall(shown)) - call.said
    own = {token for token in tokens if world.of.get(token) in caller.reads}
    seen.kinds[f"{call.kind}, {reply.status}"] += 1
    seen.own += bool(own) and call.status == 200
    foreign = tokens - own if call.status != 401 else tokens
    if foreign:
        seen.wrong.append(f"{call.kind} showed {sorted(foreign)[:3]}: {call.request[:300]!r}")
    if reply.status != call.status:
        seen.wrong.append(f"{call.kind} was {reply.status}, due {call.status}: {call.request[:300]!r} {shown[:200]!r}")


def run(port: int, world: World, random: Random, count: int) -> Seen:
    """What came of so many random calls."""
    return uvloop.run(_ask(port, world, random, count))


async def _ask(port: int, world: World, random: Random, count: int) -> Seen:
    seen, asker = Seen(), Asker(world, random)
    bar = tqdm(total=count, unit=" calls", disable=not sys.stderr.isatty(), leave=False)
    left = count

    async def line() -> None:
        nonlocal left
        connection = await Connection.open(port)
        while left > 0 and len(seen.wrong) < 20:
            left -= 1
            caller = random.choice(world.callers)
            call = asker.call(caller)
            judge(call, caller, await connection.ask(call.request), world, seen)
            bar.update()
        connection.close()

    await asyncio.gather(*(line() for _ in range(AT_ONCE)))
    bar.close()
    return seen


@contextlib.contextmanager
def gateway(folder: Path, data: Path, world: World, workers: int) -> Iterator[Running]:
    """`ragway serve` over these collections."""
    settings = folder / "isolation.yaml"
    settings.write_text(_SETTINGS % ", ".join(world.names), "utf-8")
    command = [sys.executable, "-m", "proxy", "serve", "--port", "0", "--workers", str(workers),
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
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--models", type=Path, default=ROOT / "data" / "models", metavar="DIR")
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
            seen = run(running.port, world, random, arguments.n)
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
