"""A soak test: continuous streams, clients that leave, failing upstreams, an ingest every minute. Which resources grow?

    python benchmarks/faults/soak.py [--minutes 5] [--models DIR]

50 streams at once through a real gateway with retrieval. Of every hundred requests, the client leaves 5, and 2 meet a
fault of the upstream (reset, bad chunk, stall, 500). Every complete reply is compared byte for byte, and every cut
reply must look cut. Each second, memory, descriptors and threads are read from the kernel, and the requests in flight
from /metrics. Tables go to standard output as Markdown. Exit code 1: a wrong answer, open descriptors, or memory growth
beyond the limit.
"""

import argparse
import asyncio
import contextlib
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import monotonic as clock

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import uvloop

from benchmarks.common import machine
from benchmarks.common.arguments import add_models
from benchmarks.faults.faulty_upstream import REFUSAL, FaultyUpstream, faulty_upstream, stream
from benchmarks.faults.gateway import QUESTIONS, Gateway, calling, gateway, healthy, request

AT_ONCE = 50
FRAMES = 60  # of a stream, 20 ms apart
IDLE_S = 1.0  # the gateway's limit for a silent upstream
LEAVE, FAULT = 0.05, 0.02  # shares of the requests
FAULTS = ("reset", "broken", "stalls", "refuses")
INGEST_EVERY_S = 60.0
WARM_S = 60.0  # before memory is compared
# limit for the slope; a run of a few minutes gives no better precision
MOST_MB_IN_10_MINUTES = {"gateway": 5.0, "index": 30.0}
_REFUSED = REFUSAL.partition(b"\r\n\r\n")[2]


@dataclass(frozen=True, slots=True)
class Sample:
    """The kernel's figures at one moment."""

    at_s: float
    rss_mb: dict[str, float]
    descriptors: dict[str, int]
    threads: dict[str, int]
    in_flight: int | None


@dataclass(slots=True)
class Soak:
    """The run."""

    gate: Gateway
    upstream: FaultyUpstream
    random: Random
    until_s: float
    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    ingests: int = 0
    first_s: list[float] = field(default_factory=list)  # to the first frame, of undisturbed streams

    async def client(self, number: int) -> None:
        """One request after the other."""
        count = 0
        while clock() < self.until_s:
            count += 1
            try:
                async with asyncio.timeout(60):
                    await self._one(f"{number}-{count}")
            except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
                self.wrong.append(f"{number}-{count}: {error!r}")

    async def _one(self, name: str) -> None:
        random = self.random
        drawn = random.random()
        kind = "leaves" if drawn < LEAVE else random.choice(FAULTS) if drawn < LEAVE + FAULT else "stream"
        at = FRAMES if kind in ("leaves", "stream") else random.randrange(FRAMES)
        user = f"{'stream' if kind == 'leaves' else kind} {at} {name}"
        question = f"{random.choice(QUESTIONS)} ({name})"  # no two alike
        async with calling(self.gate.running.port) as caller:
            began = clock()
            caller.writer.write(request("relay", user, rag=True, stream=True, question=question))
            if kind == "leaves":
                await asyncio.sleep(random.random() * 1.5)
                caller.leave(reset=random.random() < 0.5)
                self.answers[kind] += 1
                return
            status, head = await caller.head()
            self.first_s.append(clock() - began)
            body, whole = await caller.body(head)
        self.answers[kind] += 1
        self.answers[_rag_status(head)] += 1
        if said := _wrong(kind, at, user, (status, body, whole)):
            self.wrong.append(f"{user}: {said}")

    async def watch(self) -> None:
        """A sample a second."""
        began = clock()
        while clock() < self.until_s:
            self.samples.append(await asyncio.to_thread(self._sample, began))
            await asyncio.sleep(1)

    def _sample(self, began_s: float) -> Sample:
        pids = self.gate.pids
        status = {role: Path(f"/proc/{pid}/status").read_text("utf-8") for role, pid in pids.items()}
        told = {
            role: {
                name: int(rest.split()[0])
                for name, _, rest in (line.partition(":") for line in text.splitlines())
                if name in ("VmRSS", "Threads")
            }
            for role, text in status.items()
        }
        return Sample(
            clock() - began_s,
            {role: each["VmRSS"] / 1024 for role, each in told.items()},
            self.gate.descriptors(),
            {role: each["Threads"] for role, each in told.items()},
            self.gate.in_flight(),
        )

    async def ingest(self) -> None:
        """Every minute."""
        while True:
            await asyncio.sleep(INGEST_EVERY_S)
            await self.learn()

    async def learn(self) -> None:
        """Ingest a changed document and a new document."""
        folder = self.gate.folder / "news"
        folder.mkdir(exist_ok=True)
        self.ingests += 1
        for name in ("changing", f"new-{self.ingests}"):
            text = "\n\n".join(f"Paragraph {n} of edition {self.ingests}: {name}." for n in range(20))
            (folder / f"{name}.md").write_text(f"# Edition {self.ingests}\n\n{text}\n", "utf-8")
        await asyncio.to_thread(self.gate.ingest, folder)


def _rag_status(head: bytes) -> str:
    return "x-rag-status: " + head.partition(b"x-rag-status: ")[2].partition(b"\r\n")[0].decode()


def _wrong(kind: str, at: int, user: str, got: tuple[int, bytes, bool]) -> str:
    """The error in a reply; "" for an expected reply."""
    status, body, whole = got
    match kind:
        case "refuses":
            return "" if got == (500, _REFUSED, True) else f"not the upstream's 500: {status} {body[:100]!r}"
        case "stream":
            return "" if got == (200, stream(user, at), True) else f"not the upstream's bytes: {status}, whole: {whole}"
        case _ if status == 502 and kind != "stalls":  # the fault overtook the head
            return ""
        case _:
            if whole:
                return "a cut stream looks complete"
            # A reset may overtake earlier bytes; the received bytes must be a prefix of the stream.
            return "" if status == 200 and stream(user, at + 1).startswith(body) else f"not a beginning: {status}"


def _slope_mb(samples: Sequence[Sample], role: str) -> float:
    """In 10 minutes, by least squares."""
    at = [sample.at_s for sample in samples]
    return float(np.polyfit(at, [sample.rss_mb[role] for sample in samples], 1)[0]) * 600


async def _run(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as folder:
        async with faulty_upstream() as upstream:
            with gateway(Path(folder), options.models, upstream, deadline_s=10, idle_timeout_s=IDLE_S) as gate:
                return await _soak(gate, upstream, options)


async def _soak(gate: Gateway, upstream: FaultyUpstream, options: argparse.Namespace) -> int:
    began = machine.load()
    await healthy(gate.running.port, "relay", 5)
    await asyncio.sleep(2)
    soak = Soak(gate, upstream, Random(options.seed), clock() + options.minutes * 60)
    await soak.learn()  # the first ingest starts a process that stays
    before = gate.descriptors()
    ingesting = asyncio.ensure_future(soak.ingest())
    await asyncio.gather(soak.watch(), *(soak.client(number) for number in range(AT_ONCE)))
    ingesting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await ingesting
    good = await healthy(gate.running.port, "relay", 20)
    for _ in range(200):
        after = gate.descriptors()
        if all(after[role] <= before[role] for role in before):
            break
        await asyncio.sleep(0.1)
    return _tell(soak, options, {"load": f"{began} → {machine.load()}", "healthy": good}, (before, after))


def _tell(
    soak: Soak, options: argparse.Namespace, told: dict[str, object], descriptors: tuple[dict[str, int], dict[str, int]]
) -> int:
    before, after = descriptors
    warm = [sample for sample in soak.samples if sample.at_s >= min(WARM_S, options.minutes * 60 / 3)]
    slopes = {role: _slope_mb(warm, role) for role in before}
    print(
        f"{options.minutes:g} minutes, {AT_ONCE} streams at once, seed {options.seed}, load averages {told['load']}, "
        f"{soak.ingests} ingests\n"
    )
    print("| | gateway | index |\n| --- | --- | --- |")
    rows: list[tuple[str, Callable[[str], str]]] = [
        ("memory after the warm-up, at the end, MB", lambda r: f"{warm[0].rss_mb[r]:.1f}, {warm[-1].rss_mb[r]:.1f}"),
        ("slope of it after the warm-up, MB in 10 minutes", lambda r: f"{slopes[r]:+.1f}"),
        (
            "descriptors before, at most, after",
            lambda r: f"{before[r]}, {max(s.descriptors[r] for s in soak.samples)}, {after[r]}",
        ),
        ("threads after the warm-up, at the end", lambda r: f"{warm[0].threads[r]}, {warm[-1].threads[r]}"),
    ]
    for title, of in rows:
        print(f"| {title} | {of('gateway')} | {of('index')} |")
    known = [sample.in_flight for sample in soak.samples if sample.in_flight is not None]
    if known:
        print(f"| requests in flight, by /metrics: at most, at the end | {max(known)}, {soak.gate.in_flight()} | |")
    half = len(soak.first_s) // 2
    p50, p99 = (np.percentile(soak.first_s[half:], q) * 1000 for q in (50, 99))
    early = np.percentile(soak.first_s[:half], 99) * 1000
    print(f"\nfirst byte in the second half: p50 {p50:.0f} ms, p99 {p99:.0f} ms (first half: {early:.0f} ms)")
    print("answers: " + ", ".join(f"{count} {kind}" for kind, count in sorted(soak.answers.items())))
    print(
        f"wrong: {len(soak.wrong)}; healthy after it: {told['healthy']} of 20; "
        f"tracebacks in the log: {soak.gate.tracebacks()}"
    )
    for line in soak.wrong[:10]:
        print(f"- {line}")
    lost = (
        bool(soak.wrong)
        or told["healthy"] != 20
        or soak.gate.tracebacks() > 0
        or any(after[role] > before[role] for role in before)
        or any(slopes[role] > MOST_MB_IN_10_MINUTES[role] for role in slopes)
    )
    print(f"\n{'something was lost' if lost else 'nothing was lost'}")
    return 1 if lost else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the soak test and print the results."""
    options = argparse.ArgumentParser(description="Streams, departures, faults and ingests for minutes: what grows?")
    options.add_argument("--minutes", type=float, default=5)
    options.add_argument("--seed", type=int, default=7)
    add_models(options)
    return uvloop.run(_run(options.parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
