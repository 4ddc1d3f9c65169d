"""What the gateway costs: direct, ragway without and with retrieval, LiteLLM's proxy, all before one mock upstream.

    python benchmarks/relay.py [--quick] [--skip litellm] [--json FILE]

The tables go to standard output as Markdown. It exits with 1 when a reply is not what direct answers, since then the
figures would mean nothing, and with 2 when it cannot run. Linux only: CPU time and memory come from the kernel.
"""

import argparse
import contextlib
import dataclasses
import importlib.metadata
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import orjson
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import servers
from benchmarks.load import Mismatch, one_by_one
from benchmarks.measure import Bench, System, say
from benchmarks.report import Results, Start, markdown
from benchmarks.servers import Running, Unmeasurable
from benchmarks.workload import chat, questions, through_gateway


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    starts: int
    rounds: int
    burst_rounds: int
    turns: int
    turn_s: float
    stream_rounds: int


_FULL = Size(starts=3, rounds=2000, burst_rounds=200, turns=5, turn_s=2.0, stream_rounds=3)
_QUICK = Size(starts=1, rounds=200, burst_rounds=20, turns=1, turn_s=2.0, stream_rounds=1)
_TITLES = {
    "direct": "direct", "off": "ragway, retrieval off", "on": "ragway, retrieval on", "litellm": "LiteLLM proxy",
}  # fmt: skip
_RAG_STATUS = {"off": b"off", "on": b"augmented"}


def main() -> int:
    """Run it."""
    arguments = _arguments()
    if not sys.platform.startswith("linux"):
        say("This benchmark reads CPU time and memory the way Linux tells them: run it there.")
        return 2
    skipped = set(arguments.skip)
    if "litellm" not in skipped and not servers.litellm_command().exists():
        say("LiteLLM's proxy is not installed (`make install-dev` does it): left out.")
        skipped.add("litellm")
    conditions = _conditions(arguments)
    if conditions["loaded"]:
        say(f"WARNING: the machine is busy ({conditions['load before']}): do not quote what follows.")
    try:
        with tempfile.TemporaryDirectory(prefix="ragway-bench-") as folder:
            results = _run(Path(folder), arguments, skipped, conditions)
    except Mismatch as error:
        say(f"wrong reply: {error}")
        return 1
    except (Unmeasurable, OSError) as error:
        say(f"cannot measure: {error}")
        return 2
    except KeyboardInterrupt:
        say("interrupted; all servers are stopped")
        return 130
    print(markdown(results), end="")
    if arguments.json:
        arguments.json.write_bytes(orjson.dumps(dataclasses.asdict(results), option=orjson.OPT_INDENT_2))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure what the gateway adds to a request.")
    parser.add_argument("--quick", action="store_true", help="one minute instead of five: for a look, not for figures")
    parser.add_argument("--skip", action="append", default=[], choices=["off", "on", "litellm"], help="leave one out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the raw measurements there")
    parser.add_argument("--seed", type=int, default=1, help="of the random order (default: 1)")
    parser.add_argument(
        "--models", type=Path, default=servers.ROOT / "data" / "models", metavar="DIR",
        help="where the prepared embedder is, or is put (default: data/models of the checkout, as `make run` does)",
    )  # fmt: skip
    return parser.parse_args()


def _run(folder: Path, arguments: argparse.Namespace, skipped: set[str], conditions: dict[str, object]) -> Results:
    size, random = (_QUICK if arguments.quick else _FULL), Random(arguments.seed)
    with servers.mock_upstream(folder) as mock, contextlib.ExitStack() as running:
        launches = _launches(folder, mock, skipped, arguments.models)
        starts, left = _start_all(launches, size, random, running)
        titles = {key: title for key, title in _TITLES.items() if key == "direct" or key in launches}
        systems = [System(key, title, left.get(key), _RAG_STATUS.get(key)) for key, title in titles.items()]
        bench = Bench(mock, systems, random)
        say(f"latency: {size.rounds} rounds of one request each, {size.burst_rounds} of one stream each")
        latency = uvloop.run(bench.latency(size.rounds, stream=False))
        burst = uvloop.run(bench.latency(size.burst_rounds, stream=True))
        say(f"throughput: {size.turns} rounds of {size.turn_s:.0f} s each")
        throughput = uvloop.run(bench.throughput(size.turns, size.turn_s))
        say(f"streams: {size.stream_rounds} rounds of 4 s each")
        streams = uvloop.run(bench.streams(size.stream_rounds))
        memory = {key: left[key].rss_mb() for key in launches}
    conditions["load after"] = _load()
    return Results(conditions, titles, starts, latency, burst, throughput, streams, memory)


Launch = Callable[[], Running]


def _launches(folder: Path, mock: Running, skipped: set[str], models: Path) -> dict[str, Launch]:
    """How each system but direct is started."""
    off, on = folder / "data-off", folder / "data-on"
    launches: dict[str, Launch] = {
        "off": lambda: servers.ragway(folder, "off", mock.port, data=off, retrieval=False),
        "on": lambda: servers.ragway(folder, "on", mock.port, data=on, retrieval=True),
        "litellm": lambda: servers.litellm(folder, "litellm", mock.port),
    }
    if "on" not in skipped:
        say("ingest: the documentation, for retrieval (the first time, the embedder is prepared: half a minute)")
        servers.ingest(folder, data=on, models=models)
    return {key: launch for key, launch in launches.items() if key not in skipped}


def _start_all(
    launches: dict[str, Launch], size: Size, random: Random, running: contextlib.ExitStack
) -> tuple[dict[str, list[Start]], dict[str, Running]]:
    """Start every system some times, each alone; the last ones stay until `running` is closed."""
    starts: dict[str, list[Start]] = {key: [] for key in launches}
    left: dict[str, Running] = {}
    for number in range(size.starts):
        for key in random.sample(sorted(launches), len(launches)):
            left[key] = server = launches[key]()
            running.callback(server.stop)
            starts[key].append(_first_reply(server))
            say(f"start: {_TITLES[key]}: first reply after {starts[key][-1].first_reply_s:.2f} s")
            if number + 1 < size.starts:
                server.stop()
    return starts, left


def _first_reply(server: Running) -> Start:
    ready_mb = server.rss_mb()
    request = through_gateway(chat(next(questions())))
    begin = time.perf_counter()
    # What it answers is checked in every measurement that follows.
    uvloop.run(one_by_one(server.port, [request], lambda reply: None))
    first_reply_s = server.ready_s + time.perf_counter() - begin
    return Start(server.ready_s, first_reply_s, ready_mb, server.rss_mb())


def _conditions(arguments: argparse.Namespace) -> dict[str, object]:
    packages = ("ragway", "litellm", "uvicorn", "uvloop", "qdrant-edge-py", "onnxruntime")
    cores = len(os.sched_getaffinity(0))
    return {
        "CPU": _cpu_model(), "cores": cores, "Linux": platform.release(), "Python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in packages}, "quick": arguments.quick,
        "seed": arguments.seed, "load before": _load(), "loaded": os.getloadavg()[0] > 0.5 * cores,
    }  # fmt: skip


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _load() -> str:
    return "/".join(f"{load:.1f}" for load in os.getloadavg())


if __name__ == "__main__":
    sys.exit(main())
