"""The cost of the gateway: direct, ragway without and with retrieval, LiteLLM's proxy and a hand-made proxy, one
upstream.

    python benchmarks/relay/relay.py [--quick] [--anyway] [--client-study] [--skip litellm] [--before FOLDER]
        [--json FILE]

The tables go to standard output as Markdown. Exit code 1: a reply differs from direct's reply, so the figures would
mean nothing; 2: the benchmark cannot run, or the machine is busy. Linux only: CPU time, memory and load come from the
kernel.
"""

import argparse
import contextlib
import functools
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import orjson
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common import corpus, machine, servers
from benchmarks.common.arguments import add_cache, add_models
from benchmarks.common.load import Mismatch, one_by_one
from benchmarks.common.output import say
from benchmarks.common.processes import Running, Unmeasurable
from benchmarks.common.workload import chat, questions
from benchmarks.relay.measure import Bench, Latencies, Streams, System, Turns
from benchmarks.relay.report import markdown
from benchmarks.relay.results import Results, Start


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    chunks: int  # paragraphs in the index; a few paragraphs become two chunks
    starts: int
    rounds: int  # of latency, BLOCK requests of each system in a row
    alternating: int  # blocks of one request
    burst_rounds: int
    turns: int
    turn_s: float
    streams: dict[int, int]  # streams at once -> rounds


FULL = Size(10_000, 3, 100, 200, 20, 5, 2.0, {16: 3, 64: 5, 256: 3})
QUICK = Size(1_000, 1, 10, 20, 4, 1, 1.0, {16: 1, 64: 1, 256: 1})
BLOCK = 20
_BURST_BLOCK = 5
_CONNECTIONS = (16, 64)
_TITLES = {
    "direct": "direct", "off": "ragway, retrieval off", "on": "ragway, retrieval on", "litellm": "LiteLLM proxy",
    "httpx": "ASGI + httpx", "httpx2": "ASGI + httpx2", "aiohttp": "ASGI + aiohttp", "copy": "copies bytes alone",
    "off-before": "before, retrieval off", "on-before": "before, retrieval on",
}  # fmt: skip
_STUDY = ("httpx2", "aiohttp")
# With retrieval, 256 streams started within 20 ms wait seconds for embeddings: not a test of streaming.
_MANY = 256
_NOT_WITH_MANY = frozenset({"on", "on-before"})
_ONCE_WITH_MANY = frozenset({"litellm"})  # a turn takes ten times as long as the streams should


def main() -> int:
    """Run the benchmark."""
    arguments = _arguments()
    if not sys.platform.startswith("linux"):
        say("This benchmark reads CPU time and memory the way Linux tells them: run it there.")
        return 2
    busy = machine.refusal(os.getloadavg()[0], len(machine.usable_cores()))
    if busy:
        say(busy)
        if not arguments.anyway:
            return 2
    keys = _keys(arguments)
    before, watch = machine.load(), machine.Watch()
    try:
        with tempfile.TemporaryDirectory(prefix="ragway-bench-") as folder:
            results = _Run(Path(folder), arguments, keys).results()
    except Mismatch as error:
        say(f"wrong reply: {error}")
        return 1
    except (Unmeasurable, OSError) as error:
        say(f"cannot measure: {error}")
        return 2
    except KeyboardInterrupt:
        say("interrupted; all servers are stopped")
        return 130
    elsewhere = watch.elsewhere()
    results.conditions.update(
        {
            "load before": before,
            "load after": machine.load(),
            "CPU time used by others": f"{elsewhere.others:.1%}",
            "CPU time stolen by the host": f"{elsewhere.stolen:.1%}",
            "warnings": _warnings(arguments, busy, elsewhere),
        }
    )
    print(markdown(results), end="")
    if arguments.json:
        options = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
        arguments.json.write_bytes(orjson.dumps(results.raw(), option=options))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure what the gateway adds to a request.")
    parser.add_argument("--quick", action="store_true", help="two minutes instead of twelve: a look, not figures")
    parser.add_argument("--anyway", action="store_true", help="measure on a busy machine too, and mark the tables")
    parser.add_argument("--client-study", action="store_true", help="the hand-made proxy with httpx2 and aiohttp too")
    parser.add_argument(
        "--skip",
        action="append",
        default=[],
        choices=["off", "on", "litellm", "httpx", "copy", "workers"],
        help="leave one out",
    )
    parser.add_argument(
        "--before", type=Path, metavar="FOLDER", help="another checkout of ragway, measured beside this checkout"
    )
    parser.add_argument("--no-pin", action="store_true", help="let the kernel choose the cores of everything")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the raw measurements there")
    parser.add_argument("--seed", type=int, default=1, help="of the random order (default: 1)")
    add_cache(parser)
    add_models(parser)
    return parser.parse_args()


def _keys(arguments: argparse.Namespace) -> list[str]:
    """The systems of this run, without direct."""
    wanted = ["off", "on", "litellm", "httpx", "copy", *(_STUDY if arguments.client_study else ())]
    keys = [key for key in wanted if key not in arguments.skip]
    keys += [f"{key}-before" for key in ("off", "on") if arguments.before and key in keys]
    missing = [key for key in keys if key in ("httpx", *_STUDY) and not servers.installed(key)]
    if "litellm" in keys and not servers.litellm_command().exists():
        missing.append("litellm")
    for key in missing:
        say(f"{key} is not installed (`make install-dev` does it): left out.")
    return [key for key in keys if key not in missing]


def _warnings(arguments: argparse.Namespace, busy: str, elsewhere: machine.Elsewhere) -> list[str]:
    warnings = ["a quick run of few rounds."] if arguments.quick else []
    if busy:
        warnings.append("taken on a loaded machine.")
    if elsewhere.disturbing:
        warnings.append(
            f"others used {elsewhere.others:.0%} of the machine's CPU time during the run, and its host "
            f"{elsewhere.stolen:.0%}."
        )
    return warnings


Launch = Callable[[], Running]


class _Run:
    """One run, from the first start of a server to the last."""

    def __init__(self, folder: Path, arguments: argparse.Namespace, keys: list[str]) -> None:
        self._folder, self._arguments, self._keys = folder, arguments, keys
        self._size = QUICK if arguments.quick else FULL
        self._random = Random(arguments.seed)
        usable = machine.usable_cores()
        self._cores = machine.Cores(usable, usable, usable) if arguments.no_pin else machine.Cores.of(usable)
        self._asked: Iterator[str] = iter(())
        self._on_before = folder / "data-on-before"

    def results(self) -> Results:
        """All measurements. Raises Mismatch, Unmeasurable."""
        cache: Path = self._arguments.cache.resolve()
        passages = corpus.passages(cache, self._size.chunks)
        self._asked = questions(self._random.sample(passages, len(passages)))
        data, chunks = self._folder, 0
        if "on" in self._keys:
            say(f"index: {len(passages)} paragraphs in {cache} (the first time, they are embedded: minutes)")
            data, chunks = self._index(cache, len(passages))
        conditions = {
            **machine.conditions(),
            "pinned": self._cores.told,
            "chunks": chunks,
            "seed": self._arguments.seed,
        }
        with servers.mock_upstream(self._folder) as mock, contextlib.ExitStack() as running:
            starts, left = self._start_all(self._launches(mock, data), running)
            systems = [System(key, _TITLES[key], left.get(key)) for key in ("direct", *self._keys)]
            with self._pinned(mock, left.values(), self._cores.together):
                latencies = self._latencies(mock, systems)
            with self._pinned(mock, left.values(), self._cores):
                loads = self._one_worker(mock, systems)
            memory = {key: server.rss_mb() for key, server in left.items()}
            workers = self._two_workers(mock, systems, running)
        titles = {system.key: system.title for system in systems}
        return Results(conditions, titles, starts, *latencies, *loads, workers, memory)

    def _latencies(self, mock: Running, systems: list[System]) -> tuple[Latencies, Latencies, Latencies]:
        size, bench = self._size, self._bench(mock, systems)
        say(f"latency: {size.rounds} rounds of {BLOCK} requests each, {size.alternating} of one, then streams at once")
        latency = uvloop.run(bench.latency(size.rounds, block=BLOCK, stream=False))
        alternating = uvloop.run(bench.latency(size.alternating, block=1, stream=False))
        burst = uvloop.run(bench.latency(size.burst_rounds, block=_BURST_BLOCK, stream=True))
        return latency, alternating, burst

    def _one_worker(
        self, mock: Running, systems: list[System]
    ) -> tuple[dict[int, dict[str, Turns]], dict[int, dict[str, Streams]]]:
        size, bench = self._size, self._bench(mock, systems)
        throughput = {}
        for connections in _CONNECTIONS:
            say(f"throughput, {connections} connections: {size.turns} rounds of {size.turn_s:.0f} s each")
            throughput[connections] = uvloop.run(bench.throughput(size.turns, size.turn_s, connections=connections))
        streams = {}
        for count, rounds in size.streams.items():
            say(f"{count} paced streams: {rounds} rounds of 4 s each")
            able = systems if count < _MANY else [system for system in systems if system.key not in self._not_many()]
            once = _ONCE_WITH_MANY if count >= _MANY else frozenset()
            streams[count] = uvloop.run(self._bench(mock, able).streams(rounds, count, once))
        return throughput, streams

    def _not_many(self) -> frozenset[str]:
        return _NOT_WITH_MANY | (_ONCE_WITH_MANY if self._arguments.quick else frozenset())

    def _two_workers(self, mock: Running, systems: list[System], running: contextlib.ExitStack) -> dict[str, Turns]:
        if "off" not in self._keys or "workers" in self._arguments.skip:
            return {}
        if not servers.serves_workers():
            say("this `ragway serve` has no --workers: not measured")
            return {}
        two = servers.ragway(self._folder, "two", mock.port, data=self._folder / "data-two", retrieval=False, workers=2)
        running.callback(two.stop)
        say(f"2 workers against 1: {self._size.turns} rounds of {self._size.turn_s:.0f} s each")
        rivals = [system for system in systems if system.key == "off"]
        bench = self._bench(mock, [*rivals, System("two", "ragway, 2 workers", two)])
        return uvloop.run(bench.throughput(self._size.turns, self._size.turn_s, connections=_CONNECTIONS[-1]))

    def _bench(self, mock: Running, systems: list[System]) -> Bench:
        return Bench(mock, systems, self._asked, self._random)

    def _index(self, cache: Path, count: int) -> tuple[Path, int]:
        """The data folder and the number of chunks.

        An earlier checkout cannot read what this checkout writes, and this checkout migrates what the other wrote.
        """
        before, models = self._arguments.before, self._arguments.models
        if before is None:
            return corpus.index(cache, count, models)
        written, chunks = corpus.index(cache, count, models, data=self._on_before, checkout=before.resolve())
        data = self._folder / "data-on"  # a data folder serves one gateway at a time
        shutil.copytree(written, data, symlinks=True)
        return data, chunks

    def _launches(self, mock: Running, data: Path) -> dict[str, Launch]:
        """How each system but direct is started."""
        folder, off = self._folder, self._folder / "data-off"
        launches: dict[str, Launch] = {
            "off": lambda: servers.ragway(folder, "off", mock.port, data=off, retrieval=False),
            "on": lambda: servers.ragway(folder, "on", mock.port, data=data, retrieval=True),
            "litellm": lambda: servers.litellm(folder, "litellm", mock.port),
            "copy": lambda: servers.copy_proxy(folder, mock.port),
        }
        if self._arguments.before:
            ragway = functools.partial(servers.ragway, folder, checkout=self._arguments.before.resolve())
            off_before = folder / "data-off-before"
            launches |= {
                "off-before": lambda: ragway("off-before", mock.port, data=off_before, retrieval=False),
                "on-before": lambda: ragway("on-before", mock.port, data=self._on_before, retrieval=True),
            }
        for client in ("httpx", *_STUDY):
            launches[client] = functools.partial(servers.asgi_proxy, folder, client, mock.port)
        return {key: launches[key] for key in self._keys}

    def _start_all(
        self, launches: dict[str, Launch], running: contextlib.ExitStack
    ) -> tuple[dict[str, list[Start]], dict[str, Running]]:
        """Start every system several times, each alone; the last start stays until `running` is closed."""
        starts: dict[str, list[Start]] = {key: [] for key in launches}
        left: dict[str, Running] = {}
        for number in range(self._size.starts):
            for key in self._random.sample(sorted(launches), len(launches)):
                left[key] = server = launches[key]()
                running.callback(server.stop)
                starts[key].append(self._first_reply(System(key, _TITLES[key], server), server))
                say(f"start: {_TITLES[key]}: first reply after {starts[key][-1].first_reply_s:.2f} s")
                if number + 1 < self._size.starts:
                    server.stop()
        return starts, left

    def _first_reply(self, system: System, server: Running) -> Start:
        ready_mb = server.rss_mb()
        request = system.request(chat(next(self._asked)))
        begin = time.perf_counter()
        # Later measurements check the replies.
        uvloop.run(one_by_one(server.port, [request], lambda reply: None))
        first_reply_s = server.ready_s + time.perf_counter() - begin
        return Start(server.ready_s, first_reply_s, ready_mb, server.rss_mb())

    @contextlib.contextmanager
    def _pinned(self, mock: Running, left: Iterable[Running], cores: machine.Cores) -> Iterator[None]:
        """Pin servers to their cores, and load generator and upstream to other cores, within the context."""
        for server in left:
            server.pin(cores.server)
        machine.pin([os.getpid(), mock.process.pid], cores.edge)
        try:
            yield
        finally:
            machine.pin([os.getpid(), mock.process.pid], self._cores.every)
            for server in left:
                server.pin(self._cores.every)


if __name__ == "__main__":
    sys.exit(main())
