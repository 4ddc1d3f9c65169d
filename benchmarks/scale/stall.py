"""The effect of an ingest on chats: how long the gateway's event loop is blocked, and the added p99.

    python benchmarks/scale/stall.py [--chunks 20000] [--seconds 60] [--rate 10] [--cache DIR] [--anyway]

`ragway serve` with this project's documentation and the built-in echo model gets new questions at a steady rate, with
retrieval. A probe requests /healthz every 10 ms; the probe's wait shows the state of the event loop. The first phase
has no ingest; in the second phase `ragway ingest` writes chunks through the same index process. The host of a virtual
machine stops the machine now and then. So the longest wait is reported for all probes, and for the "calm" probes
without stolen time (counted by the kernel in hundredths of seconds). The prober gets a core as fast as the event loop,
but not always at once, so the prober's own lag is reported, too. Markdown on standard output; exit code 2 on a busy
machine.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common import corpus, machine
from benchmarks.common.arguments import add_cache, add_models
from benchmarks.common.load import Connection
from benchmarks.common.output import say, table
from benchmarks.common.processes import ROOT, Running, Unmeasurable, environment, printed_port, refusal, start
from benchmarks.common.workload import chat, questions
from benchmarks.faults import gateway as faults
from benchmarks.scale import grown
from runtime.scheduling import prefer_low_latency

_PROBE_S = 0.01
_HEALTH = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
_MOST_STALL_MS = 20.0


@dataclass(slots=True)
class Phase:
    """The measurements of one phase, in milliseconds."""

    name: str
    seconds: float = 0.0
    chats_ms: list[float] = field(default_factory=list)
    probes_ms: list[float] = field(default_factory=list)
    calm_ms: list[float] = field(default_factory=list)  # probes without time stolen by the host
    own_lag_ms: list[float] = field(default_factory=list)
    augmented: int = 0

    def cells(self) -> list[str]:
        kinds = (self.chats_ms, self.probes_ms, self.calm_ms, self.own_lag_ms)
        chats, probes, calm, own = (np.asarray(one or [0.0]) for one in kinds)
        return [
            self.name, f"{self.seconds:.0f}", f"{len(self.chats_ms)}", f"{self.augmented}",
            *(f"{value:.1f}" for value in np.percentile(chats, [50, 99])),
            *(f"{value:.1f}" for value in (np.percentile(probes, 50), np.percentile(probes, 99), probes.max())),
            f"{100 * len(self.calm_ms) / max(1, len(self.probes_ms)):.1f}", f"{calm.max():.1f}", f"{own.max():.1f}",
        ]  # fmt: skip


_HEAD = (
    "phase", "s", "chats", "augmented", "chat p50 ms", "chat p99 ms", "probe p50", "probe p99", "probe max",
    "calm %", "calm max", "own lag max",
)  # fmt: skip


async def watched(phase: Phase, port: int, asked: Iterator[str], rate: float, end: asyncio.Event) -> Phase:
    """Chat and probe until the event."""
    began = time.perf_counter()
    await asyncio.gather(_chats(phase, port, asked, rate, end), _probes(phase, port, end))
    phase.seconds = time.perf_counter() - began
    return phase


async def _chats(phase: Phase, port: int, asked: Iterator[str], rate: float, end: asyncio.Event) -> None:
    running: set[asyncio.Task[None]] = set()
    due = time.perf_counter()
    while not end.is_set():
        task = asyncio.create_task(_chat(phase, port, next(asked)))
        running.add(task)
        task.add_done_callback(running.discard)
        due += 1 / rate  # independent of the reply: clients do not wait for other clients
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
    if running:
        await asyncio.wait(running)


async def _chat(phase: Phase, port: int, question: str) -> None:
    connection = await Connection.open(port)
    reply = await connection.ask(chat(question))
    connection.close()
    phase.chats_ms.append(reply.last_byte_s * 1000)
    phase.augmented += reply.headers.get(b"x-rag-status") == b"augmented"


async def _probes(phase: Phase, port: int, end: asyncio.Event) -> None:
    connection = await Connection.open(port)
    while not end.is_set():
        stolen = machine.stolen_s()
        wait_ms = (await connection.ask(_HEALTH)).last_byte_s * 1000
        before = time.perf_counter()
        await asyncio.sleep(_PROBE_S)
        phase.own_lag_ms.append((time.perf_counter() - before - _PROBE_S) * 1000)
        phase.probes_ms.append(wait_ms)
        if machine.stolen_s() == stolen:  # asked behind the pause, for the kernel counts by ticks
            phase.calm_ms.append(wait_ms)
    connection.close()


async def measure(
    running: Running, folder: Path, documents: Path, asked: Iterator[str], rate: float, s: float
) -> list[Phase]:
    """The phases without and with an ingest."""
    port = running.port
    await _for(5, Phase("warm"), port, asked, rate)
    without = await _for(s, Phase("without an ingest"), port, asked, rate)
    end = asyncio.Event()
    during = asyncio.create_task(watched(Phase("during the ingest"), port, asked, rate, end))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "cli",
        "ingest",
        str(documents),
        "--collection",
        "more",
        "--data",
        str(folder / "data"),
        cwd=folder,
        env=environment({"PYTHONPATH": str(ROOT)}),
        stdout=subprocess.DEVNULL,
    )
    code = await process.wait()
    end.set()
    phases = [without, await during]
    if code:
        raise Unmeasurable(f"ragway ingest ended with {code}")
    return [*phases, await _for(s, Phase("after it: flushed and optimised"), port, asked, rate)]


async def _for(seconds: float, phase: Phase, port: int, asked: Iterator[str], rate: float) -> Phase:
    end = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, end.set)
    return await watched(phase, port, asked, rate, end)


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--chunks", type=int, default=20_000, help="that are ingested (default: 20000)")
    parser.add_argument("--seconds", type=float, default=60, help="without an ingest, and after it (default: 60)")
    parser.add_argument("--rate", type=float, default=10, help="chats a second (default: 10)")
    add_cache(parser)
    add_models(parser)
    parser.add_argument("--anyway", action="store_true", help="measure on a busy machine, too")
    arguments = parser.parse_args()
    try:
        return run(arguments)
    except Unmeasurable as error:
        say(str(error))
        return 2


def run(arguments: argparse.Namespace) -> int:
    """Serve, measure, tell."""
    busy = refusal(anyway=arguments.anyway)
    texts = corpus.paragraphs()
    base = grown.Bases(texts, np.empty((len(texts), 1), np.float32), [], np.empty((0, 1), np.float32))
    watch = machine.Watch()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        corpus.write(folder / "more", list(islice(grown.texts(base, arguments.chunks), arguments.chunks)))
        data = folder / "data"
        data.mkdir()
        arguments.models.mkdir(parents=True, exist_ok=True)
        (data / "models").symlink_to(arguments.models.resolve())
        settings = folder / "ragway.yaml"
        settings.write_text("retrieval: {deadline_s: 60}\ningest: {chunk_tokens: 128}\n", "utf-8")
        faults.ragway(["ingest", str(ROOT / "docs"), "--collection", "docs", "--data", str(data)], folder)
        serve = [sys.executable, "-m", "cli", "serve", "--port", "0", "--config", str(settings), "--data", str(data)]
        running = start(serve, folder, "ragway", {"PYTHONPATH": str(ROOT)}, printed_port)
        try:
            prefer_low_latency()  # the prober's own waits for a core are not the event loop's
            phases = asyncio.run(
                measure(running, folder, folder / "more", questions(texts), arguments.rate, arguments.seconds)
            )
        finally:
            running.stop()
    print(table(_HEAD, [phase.cells() for phase in phases]))
    without, during = phases[:2]
    stall, calm = max(during.probes_ms), max(during.calm_ms, default=float("nan"))
    times = float(np.percentile(during.chats_ms, 99) / np.percentile(without.chats_ms, 99))
    print(f"\n{arguments.chunks} chunks in {during.seconds:.0f} s. The longest the event loop kept the probe waiting: ")
    print(f"{stall:.1f} ms, and {calm:.1f} while the host took no time (at most {_MOST_STALL_MS:.0f}); ")
    print(f"chats' p99 {times:.2f} times that without (at most 2).")
    if busy or watch.elsewhere().disturbing:
        print("\nThe machine was busy with something else: these figures are not to be quoted.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
