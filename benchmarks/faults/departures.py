"""Clients that leave: how soon the gateway closes the upstream connection, and what thousands of departures leave over.

    python benchmarks/faults/departures.py [-n 500] [--random 8000] [--models DIR]

A real gateway with retrieval, an upstream in this process, and clients that leave in each phase of a request, by FIN
and RST in turn; then random clients, 50 at once, at random moments; then a count of leftovers. The tables go to
standard output as Markdown, progress to standard error. Exit code 1: something was lost, or an upstream connection was
open for more than a second.
"""

import argparse
import asyncio
import contextlib
import functools
import os
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import monotonic as clock  # the event loop's own counts whole milliseconds

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import uvloop

from benchmarks.common import machine
from benchmarks.common.arguments import add_models
from benchmarks.faults.faulty_upstream import PACE_S, FaultyUpstream, faulty_upstream
from benchmarks.faults.gateway import Gateway, calling, gateway, healthy, request, turned

LANES = ("relay", "translated")
LATE_S = 5.0  # not closed by then: not closed
LIMIT_MS = 1000.0  # of each departure
AT_ONCE = 50
QUESTIONS_AT_ONCE = 10  # while the index is stopped; a second later the gateway stops asking the index
MOST_WAIT_S = 0.04  # of a random client before leaving
STREAMS, FRAMES, ROUNDS = 50, 100, 7


@dataclass(slots=True)
class Phase:
    """The departures in one phase of one lane."""

    name: str
    took_ms: list[float] = field(default_factory=list)
    never: int = 0
    requests: int = 0  # requests at the upstream in a phase without upstream requests

    @property
    def lost(self) -> bool:
        return bool(self.never or self.requests or not self.took_ms or max(self.took_ms) > LIMIT_MS)

    def row(self) -> str:
        if not self.took_ms:
            return f"| {self.name} | 0 | – | – | – | {self.never} |"
        p50, p99 = np.percentile(self.took_ms, [50, 99])
        count = len(self.took_ms) + self.never
        return f"| {self.name} | {count} | {p50:.1f} | {p99:.1f} | {max(self.took_ms):.1f} | {self.never} |"


@dataclass(slots=True)
class Departures:
    """The run."""

    gate: Gateway
    upstream: FaultyUpstream
    tries: int
    phases: list[Phase] = field(default_factory=list)

    @property
    def port(self) -> int:
        return self.gate.running.port

    async def closed(self, phase: Phase, closed: asyncio.Future[float], left_s: float) -> None:
        """Note when the upstream saw the end."""
        try:
            phase.took_ms.append((await asyncio.wait_for(closed, LATE_S) - left_s) * 1000)
        except TimeoutError:
            phase.never += 1

    async def at_the_upstream(self, lane: str, what: str, title: str, *, stream: bool) -> None:
        """Leave when the upstream has the request, or when the client has the start of the reply."""
        phase = Phase(f"{title}, {lane}")
        for number in range(self.tries):
            user = f"{what} 0 {lane}-{title}-{number}".replace(title, title.replace(" ", "-"))
            self.upstream.expect(user)
            async with calling(self.port) as caller:
                caller.writer.write(request(lane, user, rag=False, stream=stream))
                await asyncio.wait_for(self.upstream.reached[user], LATE_S)
                if what == "stays":
                    await caller.reader.readuntil(b": 0 ")
                left_s = clock()
                caller.leave(reset=bool(number % 2))
                await self.closed(phase, self.upstream.closed[user], left_s)
            self.upstream.forget(user)
        self.phases.append(phase)

    async def in_a_handshake(self, lane: str) -> None:
        """The upstream takes the connection and never answers the client's hello."""
        phase = Phase(f"connect (TLS), {lane}")
        for number in range(self.tries):
            async with calling(self.port) as caller:
                caller.writer.write(request(f"{lane}-silent", "whole 0 never", rag=False))
                closed = await asyncio.wait_for(self.upstream.shook.get(), LATE_S)
                left_s = clock()
                caller.leave(reset=bool(number % 2))
                await self.closed(phase, closed, left_s)
        self.phases.append(phase)

    async def before_the_upstream(
        self, title: str, begun: Callable[[int], bytes], tries: int, phase: Phase | None = None
    ) -> Phase:
        """Leave where no upstream is asked yet; how long until the request is over, by the gateway's log."""
        phase = phase or Phase(title)
        self.gate.forget_log()
        asked, known = self.upstream.requests, 0
        for number in range(tries):
            async with calling(self.port) as caller:
                caller.writer.write(begun(number))
                await turned(self.port)
                left_s = clock()
                caller.leave(reset=bool(number % 2))
                await self.settled(functools.partial(self._logged, known), LATE_S, 0.0005)
                took_ms = (clock() - left_s) * 1000
            if self.gate.departures_logged() > known:
                known += 1
                phase.took_ms.append(took_ms)
            else:
                phase.never += 1
            if number % 50 == 49:  # the log is read anew each time
                self.gate.forget_log()
                known = 0
        phase.requests += self.upstream.requests - asked
        return phase

    def _logged(self, known: int) -> bool:
        return self.gate.departures_logged() > known

    async def while_it_searches(self, lane: str) -> None:
        """Stop the index process during the questions; the gateway cannot distinguish embedding from search."""
        phase = Phase(f"embedding and search, {lane}")
        index = self.gate.pids["index"]
        while len(phase.took_ms) + phase.never < self.tries:
            os.kill(index, signal.SIGSTOP)
            try:
                await self.before_the_upstream(
                    "", lambda _: request(lane, "whole 0 never", rag=True), QUESTIONS_AT_ONCE, phase
                )
            finally:
                os.kill(index, signal.SIGCONT)
            for _ in range(500):  # until the index is trusted again
                if await healthy(self.port, lane, 1):
                    break
                await asyncio.sleep(0.01)
        self.phases.append(phase)

    async def random(self, count: int, seed: int) -> None:
        """So many clients, 50 at once, each of which leaves at some moment, in some way, from some phase."""
        random = Random(seed)
        limit = asyncio.Semaphore(AT_ONCE)
        whats = ("whole 0", "stream 9", "stays 0", "held 0", "silent 0", "reset 2", "refuses 0")

        async def one(number: int) -> None:
            async with limit:
                model = random.choice(LANES) + ("-silent" if random.random() < 0.1 else "")
                user = f"{random.choice(whats)} random-{number}"
                sent = request(model, user, rag=random.random() < 0.25, stream="st" in user)
                if random.random() < 0.1:
                    sent = sent[: random.randrange(1, len(sent))]
                self.upstream.expect(user)
                with contextlib.suppress(OSError):
                    async with calling(self.port) as caller:
                        caller.writer.write(sent)
                        if random.random() < 0.75:  # otherwise the client may leave before any work started
                            await asyncio.wait([self.upstream.reached[user]], timeout=0.5)
                        await asyncio.sleep(random.random() * MOST_WAIT_S)
                        caller.leave(reset=random.random() < 0.5)
                self.upstream.forget(user)

        await asyncio.gather(*(one(number) for number in range(count)))

    async def settled(self, true: Callable[[], bool], seconds: float, look_every_s: float = 0.05) -> bool:
        """Whether a condition becomes true in time."""
        until_s = clock() + seconds
        for _ in range(int(seconds / look_every_s)):
            if true() or clock() > until_s:
                break
            await asyncio.sleep(look_every_s)
        return true()


@dataclass(slots=True)
class Gaps:
    """Paced streams at the client, per round: ms between frames, and ms since each frame was sent."""

    between: list[list[float]] = field(default_factory=list)
    behind: list[list[float]] = field(default_factory=list)

    def row(self, title: str) -> str:
        """Medians over the rounds."""
        gaps = np.median([np.percentile(each, [50, 99, 99.9]) for each in self.between], axis=0)
        late = np.median([np.percentile(each, [50, 99]) for each in self.behind], axis=0)
        return f"| {title} | " + " | ".join(f"{value:.2f}" for value in (*gaps, *late)) + " |"


async def paced(run: Departures, port: int, model: str, round_: int, gaps: Gaps) -> None:
    """One round: fifty streams at once."""
    gaps.between.append([])
    gaps.behind.append([])

    async def one(number: int) -> None:
        user = f"stream {FRAMES} paced-{model}-{round_}-{number}"
        sent_s: list[float] = []
        run.upstream.sent_s[user] = sent_s
        came_s: list[float] = []
        await asyncio.sleep(number * PACE_S / STREAMS)
        async with calling(port) as caller:
            caller.writer.write(request(model, user, rag=False, stream=True))
            while len(came_s) < FRAMES:
                part = await caller.reader.read(1 << 16)
                if not part:
                    raise SystemExit("a paced stream ended early")
                came_s += [clock()] * part.count(b'data: {"id"')
        gaps.between[-1].extend(1000 * np.diff(came_s))
        gaps.behind[-1].extend(1000 * (np.asarray(came_s) - np.asarray(sent_s)))
        run.upstream.forget(user)

    await asyncio.gather(*(one(number) for number in range(STREAMS)))


async def measured(run: Departures) -> None:
    """Every phase."""
    steps: list[tuple[str, Callable[[str], Awaitable[None]]]] = [
        ("upload", lambda lane: _upload(run, lane)),
        ("search", run.while_it_searches),
        ("connect", run.in_a_handshake),
        ("first byte", lambda lane: run.at_the_upstream(lane, "silent", "first byte", stream=False)),
        ("first byte, stream", lambda lane: run.at_the_upstream(lane, "silent", "first byte of a stream", stream=True)),
        ("stream", lambda lane: run.at_the_upstream(lane, "stays", "stream", stream=True)),
        ("body", lambda lane: run.at_the_upstream(lane, "held", "body", stream=False)),
    ]
    for title, step in steps:
        for lane in LANES:
            print(f"{title}, {lane}", file=sys.stderr)
            await step(lane)


async def _upload(run: Departures, lane: str) -> None:
    whole = request(lane, "whole 0 never", rag=False)
    phase = await run.before_the_upstream(f"upload, {lane}", lambda n: whole[: len(whole) - 1 - n % 60], run.tries)
    run.phases.append(phase)


async def _run(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as folder:
        async with faulty_upstream() as upstream:
            with gateway(Path(folder), options.models, upstream) as gate:
                return await _measure(Departures(gate, upstream, options.n), options)


async def _measure(run: Departures, options: argparse.Namespace) -> int:
    for lane in LANES:
        await healthy(run.port, lane, 3)
    await asyncio.sleep(2)
    base = run.gate.descriptors()
    began = machine.load()
    await measured(run)
    print(f"{options.random} random departures", file=sys.stderr)
    asked = run.upstream.requests
    await run.random(options.random, options.seed)
    asked = run.upstream.requests - asked
    closed = await run.settled(lambda: run.upstream.open <= len(LANES), LATE_S)
    good = {lane: await healthy(run.port, lane, 20) for lane in LANES}
    await run.settled(lambda: all(n <= base[role] for role, n in run.gate.descriptors().items()), 30)
    after = run.gate.descriptors()
    direct, through = Gaps(), Gaps()
    for number in range(ROUNDS):
        await paced(run, run.upstream.port, "relay", 2 * number, direct)
        await paced(run, run.port, "relay", 2 * number + 1, through)
    _tell(run, began, direct, through)
    lost = [phase.name for phase in run.phases if phase.lost]
    rows = [
        ("of these reached the upstream", f"{asked}", not options.random / 2 < asked <= options.random),
        ("upstream connections left open", f"{run.upstream.open if not closed else 0}", not closed),
        *(
            (f"descriptors, {role}: before, after", f"{base[role]}, {after[role]}", after[role] > base[role])
            for role in base
        ),
        *((f"healthy requests of 20 after it, {lane}", f"{count}", count != 20) for lane, count in good.items()),
        ("tracebacks in the log", f"{run.gate.tracebacks()}", run.gate.tracebacks() > 0),
    ]
    in_flight = run.gate.in_flight()
    if in_flight is not None:
        rows.append(("requests in flight, by /metrics", f"{in_flight}", in_flight != 0))
    print(f"\n| after {options.random} random departures, {AT_ONCE} at once, seed {options.seed} | |\n| --- | --- |")
    for title, value, _ in rows:
        print(f"| {title} | {value} |")
    lost += [title for title, _, bad in rows if bad]
    print(f"\nlost: {', '.join(lost) or 'nothing'}")
    return 1 if lost else 0


def _tell(run: Departures, began: str, direct: Gaps, through: Gaps) -> None:
    print(f"load averages {began} at the start, {machine.load()} at the end\n")
    print("| the client leaves in | N | p50 ms | p99 ms | max ms | never |\n| --- | --- | --- | --- | --- | --- |")
    print("\n".join(phase.row() for phase in run.phases))
    print(f"\n{STREAMS} streams of {FRAMES} frames, {PACE_S * 1000:.0f} ms apart, medians of {ROUNDS} rounds\n")
    print("| | gap p50 ms | gap p99 ms | gap p99.9 ms | behind the sending, p50 ms | p99 ms |")
    print("| --- | --- | --- | --- | --- | --- |")
    print(direct.row("direct"), through.row("ragway, relay"), sep="\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and tell."""
    options = argparse.ArgumentParser(description="Clients that leave: how soon the upstream is closed, what is lost.")
    options.add_argument("-n", type=int, default=500, help="departures in each phase of each lane")
    options.add_argument("--random", type=int, default=8000, help="random departures")
    options.add_argument("--seed", type=int, default=7, help="of the random ones")
    add_models(options)
    return uvloop.run(_run(options.parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
