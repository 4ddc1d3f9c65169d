"""The cost of sharing a gateway: rights, and a thousand collections in place of one.

    python benchmarks/scale/sharing.py [--chunks N] [--collections N] [--seconds S] [--rounds N] [--json FILE]
        [--anyway]

Searches by POST /v1/knowledge/search, 1, 16 and 64 at once, without repeated questions, at four gateways: without keys;
with twenty keys that read the collection; with the chunks spread over a thousand collections, each searched equally
often; and with one collection as small as one of the thousand, because a small collection is faster to search. Memory
is resident and includes read pages of the index's files, which are more for a thousand collections. All gateways run at
the same time and take turns; each has a copy of the data. Exit code 2: cannot run, or the machine is busy.
"""

import argparse
import asyncio
import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
import orjson
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common import machine
from benchmarks.common.arguments import add_models
from benchmarks.common.bootstrap import interval, ratio
from benchmarks.common.load import Connection
from benchmarks.common.output import say, table
from benchmarks.common.processes import ROOT, Running, Unmeasurable, printed_port, refusal, start
from benchmarks.scale import grown
from benchmarks.scale.shelves import name_of, shelf
from proxy.access.sql import SqlAccounts
from proxy.caller import Names, Rights

_BASES, _QUESTIONS, _KEYS = 6000, 500, 20
_AT_ONCE = (1, 16, 64)
_SETTINGS = "models: {echo: {lane: echo}}\nretrieval: {collections: [shelf-0], min_relevance: 0.0, deadline_s: 60}\n"


@dataclass(slots=True)
class Gateway:
    """A gateway on a data folder, with the clients' keys."""

    name: str
    running: Running
    collections: int
    secrets: Sequence[str]


@dataclass(slots=True)
class Turns:
    """One gateway's results at a number of concurrent searches: the rate per turn, and all latencies."""

    rates: list[float] = field(default_factory=list)
    took_ms: list[list[float]] = field(default_factory=list)

    def medians(self) -> "np.typing.NDArray[np.float64]":
        return np.array([np.median(took) for took in self.took_ms])

    def p(self, share: float) -> float:
        return float(np.percentile(np.concatenate(self.took_ms), share))


@contextlib.contextmanager
def serving(folder: Path, name: str, data: Path, collections: int, *, keys: int = 0) -> Iterator[Gateway]:
    """`ragway serve` on a copy of the data folder, because a data folder belongs to one index process."""
    own = folder / name.replace(" ", "-")
    shutil.copytree(data, own, symlinks=True)
    accounts = SqlAccounts(own)
    rights = [Rights(read=Names([name_of(0), f"other-{i}"])) for i in range(keys)]
    secrets = [accounts.create(f"team {i}", right)[1] for i, right in enumerate(rights)]
    accounts.close()
    settings = folder / "sharing.yaml"
    settings.write_text(_SETTINGS, "utf-8")
    command = [sys.executable, "-m", "cli", "serve", "--port", "0", "--config", str(settings), "--data", str(own)]
    running = start(command, folder, own.name, {"PYTHONPATH": str(ROOT)}, printed_port)
    try:
        yield Gateway(name, running, collections, secrets)
    finally:
        running.stop()
        shutil.rmtree(own)


def _request(gateway: Gateway, question: str, random: Random, collection: int | None = None) -> bytes:
    number = random.randrange(gateway.collections) if collection is None else collection
    sent = orjson.dumps({"query": question, "collections": [name_of(number)]})
    key = b"authorization: Bearer %b\r\n" % random.choice(gateway.secrets).encode() if gateway.secrets else b""
    return (
        b"POST /v1/knowledge/search HTTP/1.1\r\nhost: 127.0.0.1\r\n%bcontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n%b"
    ) % (key, len(sent), sent)


async def turn(gateway: Gateway, questions: Iterator[str], at_once: int, seconds: float, random: Random) -> list[float]:
    """Latencies in ms of all searches in the given time. Raises Unmeasurable for a search without results."""
    end = time.perf_counter() + seconds
    took: list[float] = []

    async def line() -> None:
        connection = await Connection.open(gateway.running.port)
        while time.perf_counter() < end:
            reply = await connection.ask(_request(gateway, next(questions), random))
            if reply.status != 200 or not orjson.loads(reply.body)["data"]:
                raise Unmeasurable(f"{gateway.name} answered {reply.status}: {bytes(reply.body[:300])!r}")
            took.append(reply.last_byte_s * 1000)
        connection.close()

    await asyncio.gather(*(line() for _ in range(at_once)))
    return took


async def _each_once(gateway: Gateway, questions: Iterator[str]) -> None:
    """Search each collection once: the first search checks the collection's points."""
    connection = await Connection.open(gateway.running.port)
    for collection in range(gateway.collections):
        await connection.ask(_request(gateway, next(questions), Random(1), collection))
    connection.close()


async def by_turns(
    gateways: Sequence[Gateway], questions: Iterator[str], *, rounds: int, seconds: float
) -> dict[int, dict[str, Turns]]:
    """Number of concurrent searches -> results per gateway."""
    found: dict[int, dict[str, Turns]] = {}
    random = Random(1)
    for gateway in gateways:
        await _each_once(gateway, questions)
    for at_once in _AT_ONCE:
        turns = found[at_once] = {gateway.name: Turns() for gateway in gateways}
        for gateway in gateways:
            await turn(gateway, questions, at_once, seconds / 5, random)  # excludes one-time work from the measurement
        for _ in range(rounds):
            for gateway in random.sample(gateways, len(gateways)):
                began = time.perf_counter()
                took = await turn(gateway, questions, at_once, seconds, random)
                turns[gateway.name].rates.append(len(took) / (time.perf_counter() - began))
                turns[gateway.name].took_ms.append(took)
        say(f"{at_once} at once: " + ", ".join(f"{name} {np.median(t.rates):.0f}/s" for name, t in turns.items()))
    return found


def asked(base: grown.Bases) -> Iterator[str]:
    """Questions without end, no two of the same words."""
    number = 0
    while True:
        for question in base.questions:
            number += 1
            yield f"{question} ({number})"


def _rows(found: dict[int, dict[str, Turns]]) -> Iterator[list[str]]:
    for at_once, turns in found.items():
        first = next(iter(turns.values()))
        for name, mine in turns.items():
            low, high = interval(ratio, mine.medians(), first.medians())
            share = float(ratio(mine.medians(), first.medians()))
            told = "" if mine is first else f"{share:.3f} ({low:.3f}–{high:.3f})"
            yield [str(at_once), name, f"{np.median(mine.rates):.0f}", f"{mine.p(50):.2f}", f"{mine.p(95):.2f}", told]


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--collections", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="of a turn (default: 5)")
    parser.add_argument("--cache", type=Path, default=Path("build/benchmarks"), metavar="DIR")
    add_models(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="raw figures")
    parser.add_argument("--anyway", action="store_true", help="also on a busy machine")
    try:
        return run(parser.parse_args())
    except Unmeasurable as error:
        print(error, file=sys.stderr)
        return 2


def run(arguments: argparse.Namespace) -> int:
    busy, watch = refusal(anyway=arguments.anyway), machine.Watch()
    chunks, many, cache, models = arguments.chunks, arguments.collections, arguments.cache, arguments.models
    base = grown.bases(cache, _BASES, _QUESTIONS, models)
    one, dealt, small = (
        shelf(cache, base, count, into, models) for count, into in ((chunks, 1), (chunks, many), (chunks // many, 1))
    )
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        gateways = [
            stack.enter_context(serving(folder, "no keys", one, 1)),
            stack.enter_context(serving(folder, f"{_KEYS} keys", one, 1, keys=_KEYS)),
            stack.enter_context(serving(folder, f"{many:,} collections", dealt, many)),
            stack.enter_context(serving(folder, f"{chunks // many:,} chunks", small, 1)),
        ]
        ready_mb = [sum(one.running.rss_mb().values()) for one in gateways]
        found = uvloop.run(by_turns(gateways, asked(base), rounds=arguments.rounds, seconds=arguments.seconds))
        after = [(sum(one.running.rss_mb().values()), one.running.own_mb()) for one in gateways]
    elsewhere = watch.elsewhere()
    if busy or elsewhere.disturbing:
        print(f"**Not to be quoted: {busy or 'others used the machine meanwhile'}**\n")
    print(table(["at once", "gateway", "searches/s", "p50 ms", "p95 ms", "p50, times the first"], _rows(found)))
    starts = [
        [one.name, f"{one.running.ready_s:.2f}", f"{ready:.0f}", f"{resident:.0f}", f"{own:.0f}"]
        for one, ready, (resident, own) in zip(gateways, ready_mb, after, strict=True)
    ]
    print("\n" + table(["gateway", "ready s", "MB when ready", "MB after the load", "of these no file's"], starts))
    if arguments.json is not None:
        raw = {str(n): {name: [t.rates, t.took_ms] for name, t in turns.items()} for n, turns in found.items()}
        arguments.json.write_bytes(orjson.dumps({"searches": raw, "starts": starts}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
