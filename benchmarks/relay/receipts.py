"""The cost of a receipt for the chat: a gateway with receipts compared with a gateway without receipts.

    python benchmarks/relay/receipts.py [--chunks N] [--pairs N] [--rounds N] [--seconds S] [--anyway]

Both gateways answer through the mock upstream, with copies of the same index, and no question is used twice. With one
request at a time, each question goes to both gateways in random order. With 16 at once, the gateways take turns, in
random order in each round. The CPU time covers all processes, including the writing. Exit code 1: a wrong reply; 2: the
benchmark cannot run, or the machine is busy.
"""

import argparse
import asyncio
import contextlib
import itertools
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common import corpus, machine
from benchmarks.common.arguments import add_cache, add_models
from benchmarks.common.bootstrap import interval, median, ratio
from benchmarks.common.load import Connection, Mismatch, Reply, closed_loop
from benchmarks.common.output import say, table
from benchmarks.common.processes import Running, Unmeasurable, refusal
from benchmarks.common.servers import mock_upstream, ragway
from benchmarks.common.workload import chat, questions

_KEEP_HOURS = {"without": 0, "with": 24}
_AT_ONCE = 16
_WARM = 100
_MOST_A_SECOND = 2000  # more than any machine answers
_WRITTEN_S = 1.0  # within which the receipts of a turn are written


@dataclass(slots=True)
class Gateway:
    """One of the two gateways, with the measurements."""

    running: Running
    took_ms: list[float] = field(default_factory=list)  # per request, one request at a time
    rates: list[float] = field(default_factory=list)  # of each turn, requests a second
    cpu_ms: list[float] = field(default_factory=list)  # of each turn, a request


def augmented(reply: Reply) -> None:
    """Raise Mismatch for a reply without passages, whose receipt would be smaller and faster."""
    if reply.status != 200 or reply.headers.get(b"x-rag-status") != b"augmented":
        raise Mismatch(f"answered {reply.status}, {reply.headers.get(b'x-rag-reason')!r}: {bytes(reply.body[:300])!r}")


async def one_at_a_time(gateways: Sequence[Gateway], asked: Iterator[str], pairs: int, random: Random) -> None:
    """Each question asked of both."""
    connections = [await Connection.open(one.running.port) for one in gateways]
    for number in range(-_WARM, pairs):
        request = chat(next(asked))
        for at in random.sample(range(len(gateways)), len(gateways)):
            reply = await connections[at].ask(request)
            augmented(reply)
            if number >= 0:
                gateways[at].took_ms.append(reply.last_byte_s * 1000)
    for connection in connections:
        connection.close()


async def many_at_once(gateways: Sequence[Gateway], asked: Iterator[str], seconds: float, random: Random) -> None:
    """A turn of each."""
    for one in random.sample(gateways, len(gateways)):
        requests = [chat(question) for question in itertools.islice(asked, int(seconds * _MOST_A_SECOND))]
        before_s = sum(one.running.cpu_s().values())
        latencies, took_s = await closed_loop(
            one.running.port, requests, augmented, connections=_AT_ONCE, seconds=seconds, most=len(requests)
        )
        await asyncio.sleep(_WRITTEN_S)
        one.rates.append(len(latencies) / took_s)
        one.cpu_ms.append((sum(one.running.cpu_s().values()) - before_s) / len(latencies) * 1000)


async def measured(gateways: Sequence[Gateway], texts: Sequence[str], arguments: argparse.Namespace) -> None:
    """Measure the gateways. Raises Mismatch."""
    asked, random = questions(texts), Random(1)
    say(f"{arguments.pairs} pairs, one request at a time")
    await one_at_a_time(gateways, asked, arguments.pairs, random)
    for number in range(arguments.rounds):
        say(f"{_AT_ONCE} at once, round {number + 1} of {arguments.rounds}")
        await many_at_once(gateways, asked, arguments.seconds, random)


def _row(what: str, without: Sequence[float], with_them: Sequence[float], digits: int) -> list[str]:
    differences = np.subtract(with_them, without)
    least, most = (f"{bound:+.{digits}f}" for bound in interval(median, differences))
    share = (float(ratio(np.asarray(with_them), np.asarray(without))) - 1) * 100
    return [
        what,
        f"{np.median(without):.{digits}f}",
        f"{np.median(with_them):.{digits}f}",
        f"{np.median(differences):+.{digits}f} ({least} to {most})",
        f"{share:+.1f} %",
    ]


def told(without: Gateway, with_them: Gateway) -> str:
    """The table."""
    head = ["median", "without", "with receipts", "of the differences (95 %)", ""]
    return table(
        head,
        [
            _row("a chat, one at a time, ms", without.took_ms, with_them.took_ms, 3),
            _row(f"chats a second, {_AT_ONCE} at once", without.rates, with_them.rates, 0),
            _row("CPU time of all processes, ms a chat", without.cpu_ms, with_them.cpu_ms, 3),
        ],
    )


def run(arguments: argparse.Namespace) -> int:
    """Raises Mismatch, Unmeasurable."""
    busy = refusal(anyway=arguments.anyway)
    texts = corpus.passages(arguments.cache, arguments.chunks)
    data, chunks = corpus.index(arguments.cache, arguments.chunks, arguments.models)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        upstream = stack.enter_context(mock_upstream(folder))
        gateways = {}
        for of, hours in _KEEP_HOURS.items():
            shutil.copytree(data, folder / of, symlinks=True)
            running = ragway(
                folder, of, upstream.port, data=folder / of, retrieval=True, more=f"receipts: {{keep_hours: {hours}}}\n"
            )
            stack.callback(running.stop)
            gateways[of] = Gateway(running)
        watch = machine.Watch()
        uvloop.run(measured(list(gateways.values()), texts, arguments))
        kept_bytes = sum(file.stat().st_size for file in (folder / "with").glob("receipts.db*"))
        disturbed = watch.elsewhere().disturbing
    if busy or disturbed:
        print(f"**Not to be quoted: {busy or 'others used the machine meanwhile'}**\n")
    print(f"{chunks} chunks\n\n{told(gateways['without'], gateways['with'])}")
    print(f"\nreceipts.db: {kept_bytes / 2**20:.0f} MB")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--pairs", type=int, default=2000, help="of requests one at a time")
    parser.add_argument("--rounds", type=int, default=10, help="of turns of 16 at once")
    parser.add_argument("--seconds", type=float, default=4.0, help="of a turn")
    add_cache(parser)
    add_models(parser)
    parser.add_argument("--anyway", action="store_true", help="also on a busy machine")
    try:
        return run(parser.parse_args())
    except Mismatch as error:
        print(error, file=sys.stderr)
        return 1
    except Unmeasurable as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
