"""The cost of the gateway for each dialect, against chat completions: added latency, and processor time per request.

    python benchmarks/relay/dialects.py [--rounds N] [--retrieval] [--anyway]

The same question goes out as a chat completion, as a request for a response and as a request for a message, over one
connection each, to the mock upstream and through `ragway serve`. In every round each dialect has a block of requests,
in random order; a ratio compares the rounds. The table goes to standard output as Markdown. Exit code 1: a reply
differs from the upstream's reply; 2: the benchmark cannot run, or the machine is busy.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common import corpus, machine
from benchmarks.common.arguments import add_cache, add_models
from benchmarks.common.bootstrap import Floats, interval, ratio
from benchmarks.common.load import Connection, Mismatch
from benchmarks.common.output import say, table
from benchmarks.common.processes import Running, Unmeasurable
from benchmarks.common.servers import mock_upstream, ragway
from benchmarks.common.workload import in_dialect, questions
from benchmarks.relay.targets import figure

PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
HEAD = ["dialect", "request", "added p50", "times chat's", "95 % interval",
        "processor time", "times chat's", "95 % interval"]  # fmt: skip
_BLOCK = 20
_WARM_UP = 50
_CHUNKS = 1000  # paragraphs in the index, with --retrieval


@dataclass(slots=True)
class Dialect:
    """A dialect's measurements, a value per round."""

    path: str
    stored: bool = False  # of responses: the gateway stores the question for a later request
    added_ms: list[float] = field(default_factory=list)  # by the gateway, at the median of the block
    cpu_us: list[float] = field(default_factory=list)  # of the gateway's HTTP process, per request

    @property
    def title(self) -> str:
        return f"{self.path}, stored" if self.stored else self.path


def main() -> int:
    """Run the benchmark."""
    arguments = _arguments()
    if busy := machine.refusal(os.getloadavg()[0], len(machine.usable_cores())):
        say(busy)
        if not arguments.anyway:
            return 2
    try:
        with tempfile.TemporaryDirectory(prefix="ragway-dialects-") as folder:
            rows = _measured(Path(folder), arguments)
    except Mismatch as error:
        say(f"wrong reply: {error}")
        return 1
    except (Unmeasurable, OSError) as error:
        say(f"cannot measure: {error}")
        return 2
    print(f"{arguments.rounds} rounds of {_BLOCK} requests, load {machine.load()}{', busy' if busy else ''}\n")
    print(table(HEAD, rows))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure what each dialect adds to a request.")
    parser.add_argument("--rounds", type=int, default=100, help="rounds of 20 requests per dialect (default: 100)")
    parser.add_argument("--retrieval", action="store_true", help="with passages from an index of 1,000 paragraphs")
    parser.add_argument("--anyway", action="store_true", help="measure on a busy machine, too, and mark the table")
    parser.add_argument("--seed", type=int, default=1, help="of the random order (default: 1)")
    add_cache(parser)
    add_models(parser)
    return parser.parse_args()


def _measured(folder: Path, arguments: argparse.Namespace) -> list[list[str]]:
    """The rows of the table."""
    cache: Path = arguments.cache.resolve()
    asked = questions(corpus.passages(cache, _CHUNKS))
    data = corpus.index(cache, _CHUNKS, arguments.models)[0] if arguments.retrieval else folder / "data"
    cores = machine.Cores.of(machine.usable_cores())
    rows: list[list[str]] = []
    with mock_upstream(folder) as mock:
        gateway = ragway(folder, "gateway", mock.port, data=data, retrieval=arguments.retrieval)
        try:
            gateway.pin(cores.together.server)
            machine.pin([os.getpid(), mock.process.pid], cores.together.edge)
            for stream in (False, True):
                rounds = uvloop.run(_rounds(mock, gateway, asked, arguments, stream=stream))
                rows += _rows(rounds, "200 chunks" if stream else "whole")
        finally:
            machine.pin([os.getpid()], cores.every)
            gateway.stop()
    return rows


async def _rounds(
    mock: Running, gateway: Running, asked: Iterator[str], arguments: argparse.Namespace, *, stream: bool
) -> list[Dialect]:
    """The measurements of each dialect."""
    random = Random(arguments.seed)
    dialects = [Dialect(path) for path in PATHS]
    if arguments.retrieval:  # without a search, nothing is stored
        dialects.append(Dialect("/v1/responses", stored=True))
    direct, through = await Connection.open(mock.port), await Connection.open(gateway.port)
    status = b"augmented" if arguments.retrieval else b"off"
    for number in range(arguments.rounds + _WARM_UP // _BLOCK + 1):
        if number % 20 == 0:
            say(f"round {number} of {arguments.rounds}")
        for dialect in random.sample(dialects, len(dialects)):
            texts = list(islice(asked, _BLOCK))
            requests = [in_dialect(dialect.path, text, stream=stream, stored=dialect.stored) for text in texts]
            plain = [await direct.ask(request) for request in requests]
            before_s = gateway.cpu_s()["server"]
            replies = [await through.ask(request) for request in requests]
            cpu_s = gateway.cpu_s()["server"] - before_s
            for reply in replies:
                found = (reply.status, reply.headers.get(b"x-rag-status"))
                if found != (200, status) or reply.body != plain[0].body:
                    raise Mismatch(f"{dialect.path}: {found}, {bytes(reply.body[:300])!r}")
            if number > _WARM_UP // _BLOCK:
                added_s = np.median([each.last_byte_s for each in replies]) - np.median([p.last_byte_s for p in plain])
                dialect.added_ms.append(float(added_s) * 1000)
                dialect.cpu_us.append(cpu_s / _BLOCK * 1e6)
    direct.close()
    through.close()
    await asyncio.sleep(0)  # lets the connections close
    return dialects


def _rows(dialects: Sequence[Dialect], request: str) -> Iterator[list[str]]:
    chats = dialects[0]
    for each in dialects:
        yield [
            each.title,
            request,
            f"{np.median(each.added_ms):.3f} ms",
            *_against(each.added_ms, chats.added_ms),
            f"{np.median(each.cpu_us):.1f} µs",
            *_against(each.cpu_us, chats.cpu_us),
        ]


def _against(ours: Sequence[float], chats: Sequence[float]) -> list[str]:
    """The ratio of the medians, and the interval of the ratio."""
    mine, theirs = _floats(ours), _floats(chats)
    low, high = interval(ratio, mine, theirs)
    return [figure(float(ratio(mine, theirs))), f"{low:.3f}–{high:.3f}"]


def _floats(values: Sequence[float]) -> Floats:
    return np.asarray(values, np.float64)


if __name__ == "__main__":
    sys.exit(main())
