"""The measurements. In every round each system gets a turn, in random order, so all systems see the same machine."""

import asyncio
import contextlib
import json
import math
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from random import Random

import numpy as np

from benchmarks.common import machine
from benchmarks.common.bootstrap import Floats
from benchmarks.common.load import Check, Connection, Mismatch, Reply, closed_loop, get, one_by_one, staggered
from benchmarks.common.mock_upstream import CHUNKS, PACE_S
from benchmarks.common.output import say
from benchmarks.common.processes import Running, Unmeasurable
from benchmarks.common.servers import MODEL, PACED
from benchmarks.common.workload import Expected, chat, through_gateway, words_lost

IDEAL_S = (CHUNKS - 1) * PACE_S  # of a paced stream, from request to last byte
_WARM_UP = 20  # uncounted requests before each measurement
_MOST = 200_000  # maximum replies per turn of a throughput round
_DIFFERENT = 5000  # different questions per turn: more than a system with embedding can answer
_TURN_S = 300.0  # timeout of a turn
# One chunk in a hundred decides the p99 of all gaps. For 64 direct streams the p99 is 21 ms if the host stole less than
# this share of the machine's CPU time, and 23 to 28 ms if the host stole 3 to 9 %.
_MOST_STOLEN = 0.01
_TURNS_AT_MOST = 6  # of which the least disturbed counts
_PAUSE_S = 3.0  # before the next: the host is busy for some seconds
_SHORT_TURN_S = 10.0  # longer turns are not repeated
_STAGE = re.compile(r"([a-z_]+);dur=([\d.]+)")
_RAG_STATUS = {"off": b"off", "two": b"off", "on": b"augmented", "off-before": b"off", "on-before": b"augmented"}


@dataclass(frozen=True, slots=True)
class System:
    """A system under test."""

    key: str  # direct | off | on | off-before | on-before | litellm | httpx | …; off and two by the number of workers
    title: str
    server: Running | None  # None: direct

    @property
    def ours(self) -> bool:
        """Whether the system is ragway."""
        return self.key in _RAG_STATUS

    def expecting(self, body: bytes) -> Expected:
        """The expected reply of this system to a request that direct answers with this body."""
        return Expected(self.title, _RAG_STATUS.get(self.key), body, same_bytes=self.key != "litellm")

    def request(self, request: bytes) -> bytes:
        """The request for this system: a hand-made proxy forwards the path of the request."""
        return through_gateway(request) if self.ours or self.key == "litellm" else request


@dataclass(slots=True)
class Latencies:
    """Seconds from the request to the last byte: system -> rounds -> requests."""

    seconds: dict[str, list[list[float]]]
    stages_ms: dict[str, dict[str, list[float]]]  # system -> stage in Server-Timing -> a value per reply


@dataclass(slots=True)
class Turns:
    """One system's results with many connections, a value per round."""

    replies: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    cpu_s: list[dict[str, float]] = field(default_factory=list)  # by role: server, index
    busiest_s: list[float] = field(default_factory=list)  # CPU time of the busiest process
    upstream_body_bytes: list[float] = field(default_factory=list)  # mean size of a request's body at the upstream
    p50_s: list[float] = field(default_factory=list)
    p99_s: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Streams(Turns):
    """Like `Turns`, for streams; p50 and p99 cover the whole stream. Rounds contain streams."""

    first_byte_s: list[list[float]] = field(default_factory=list)
    last_byte_s: list[list[float]] = field(default_factory=list)
    gaps_s: list[list[Floats]] = field(default_factory=list)  # between the reads of each stream
    frames_lost: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Counts:
    """The counters of a system and the upstream."""

    cpu_s: dict[str, float]
    by_process_s: dict[int, float]
    requests: int
    body_bytes: int


class Bench:
    """All systems and the shared upstream. Each question is used once."""

    def __init__(self, mock: Running, systems: Sequence[System], questions: Iterator[str], random: Random) -> None:
        self._mock = mock
        self._systems = systems
        self._questions = questions
        self._random = random

    async def latency(self, rounds: int, *, block: int, stream: bool) -> Latencies:
        """Latency with one request at a time on a kept connection; each round has a block of requests per system."""
        checks = await self._warm_up(stream=stream)
        times: dict[str, list[list[float]]] = {system.key: [] for system in self._systems}
        stages: dict[str, dict[str, list[float]]] = {system.key: {} for system in self._systems}
        connections = {system.key: await Connection.open(self._port(system)) for system in self._systems}
        for system in self._in_rounds(rounds):
            replies = []
            for request in self._requests(system, block, stream=stream):
                with _blamed(system):
                    replies.append(await connections[system.key].ask(request))
                checks[system.key](replies[-1])
            times[system.key].append([reply.last_byte_s for reply in replies])
            for stage, ms in (found for reply in replies for found in _stages(reply)):
                stages[system.key].setdefault(stage, []).append(ms)
        for connection in connections.values():
            connection.close()
        return Latencies(times, stages)

    async def throughput(self, rounds: int, seconds: float, *, connections: int) -> dict[str, Turns]:
        """Throughput with many connections; each connection sends the next request after the reply."""
        checks = await self._warm_up(stream=False)
        results = {system.key: Turns() for system in self._systems}
        for system in self._in_rounds(rounds):
            sent = self._requests(system, _DIFFERENT)
            turns, before = results[system.key], await self._counts(system)
            with _blamed(system):
                latencies, took = await closed_loop(
                    self._port(system), sent, checks[system.key], connections=connections, seconds=seconds, most=_MOST
                )
            self._account(system, turns, before, await self._counts(system), latencies, took)
            say(f"  {system.title}, {connections} connections: {len(latencies) / took:.0f}/s")
        return results

    async def streams(self, rounds: int, count: int, once: frozenset[str] = frozenset()) -> dict[str, Streams]:
        """Paced streams with staggered starts: with equal starts, one wake-up would serve the chunks of all streams.

        once: systems with a turn in the first round only.
        """
        checks = await self._warm_up(stream=True)
        results = {system.key: Streams() for system in self._systems}
        for number, system in enumerate(self._in_rounds(rounds)):
            if number >= len(self._systems) and system.key in once:
                continue
            turns = results[system.key]
            before, after, replies = await self._undisturbed(system, checks[system.key], count)
            lost = sum(words_lost(bytes(reply.body)) for reply in replies)
            whole = [max([reply.last_byte_s, *reply.reads_s[-1:]]) for reply in replies]
            self._account(system, turns, before, after, whole, max(whole), broken=lost > 0)
            turns.first_byte_s.append([reply.first_byte_s for reply in replies])
            turns.last_byte_s.append(whole)
            turns.gaps_s.append([np.diff(reply.reads_s) for reply in replies])
            turns.frames_lost.append(lost)
            say(f"  {system.title}, {count} streams: {max(whole):.2f} s, {lost} frames lost")
        return results

    async def _undisturbed(self, system: System, check: Check, count: int) -> tuple[_Counts, _Counts, list[Reply]]:
        """A turn of paced streams, with the counters before and after; of several turns, the least disturbed by the
        host.
        """
        least, chosen = math.inf, None
        for left in reversed(range(_TURNS_AT_MOST)):
            before, watch, began = await self._counts(system), machine.Watch(), time.monotonic()
            replies = await self._paced(system, count)
            took, stolen = time.monotonic() - began, watch.elsewhere().stolen
            _check_streams(system, check, replies)
            if chosen is None or stolen < least:
                least, chosen = stolen, (before, await self._counts(system), replies)
            if stolen <= _MOST_STOLEN or took > _SHORT_TURN_S or not left:
                break
            say(f"  {system.title}, {count} streams: the host took {stolen:.1%} of the CPU time: once more")
            await asyncio.sleep(_PAUSE_S)
        assert chosen is not None  # there is at least one turn
        return chosen

    async def _paced(self, system: System, count: int) -> list[Reply]:
        sent = self._requests(system, count, model=PACED, stream=True)
        try:
            async with asyncio.timeout(_TURN_S):
                return await staggered(self._port(system), sent, apart_s=PACE_S / count)
        except TimeoutError:
            raise Unmeasurable(f"{system.title}: {count} streams do not end within {_TURN_S:.0f} s") from None

    def _requests(self, system: System, count: int, *, model: str = MODEL, stream: bool = False) -> list[bytes]:
        """New requests."""
        made = (chat(question, model=model, stream=stream) for question in islice(self._questions, count))
        return [system.request(request) for request in made]

    def _port(self, system: System) -> int:
        return (system.server or self._mock).port

    def _in_rounds(self, rounds: int) -> Iterator[System]:
        for _ in range(rounds):
            yield from self._random.sample(self._systems, len(self._systems))

    async def _warm_up(self, *, stream: bool) -> dict[str, Check]:
        """The check of each system's replies, made from direct's replies; also warms up each system."""
        plain = chat(next(self._questions), stream=stream)
        direct = await one_by_one(self._mock.port, [plain], lambda reply: None)
        checks = {system.key: system.expecting(bytes(direct[0].body)).check() for system in self._systems}
        for system in self._systems:
            with _blamed(system):
                sent = self._requests(system, _WARM_UP, stream=stream)
                await one_by_one(self._port(system), sent, checks[system.key])
        return checks

    async def _counts(self, system: System) -> _Counts:
        (reply,) = await one_by_one(self._mock.port, [get("/stats")], lambda reply: None)
        seen, server = json.loads(reply.body), system.server
        cpu_s, by_process_s = (server.cpu_s(), server.cpu_by_process_s()) if server else ({}, {})
        return _Counts(cpu_s, by_process_s, seen["requests"], seen["body_bytes"])

    @staticmethod
    def _account(
        system: System,
        turns: Turns,
        before: _Counts,
        after: _Counts,
        seconds: Sequence[float],
        took: float,
        *,
        broken: bool = False,
    ) -> None:
        seen = after.requests - before.requests
        if seen != len(seconds) and not broken:
            wrong = f"{system.title}: {len(seconds)} replies, but the upstream saw {seen} requests"
            if system.ours or system.server is None:
                raise Mismatch(wrong)
            say(f"  {wrong}")  # a peer that repeats requests under load is slower, and the figures stay
        turns.cpu_s.append({role: s - before.cpu_s.get(role, 0.0) for role, s in after.cpu_s.items()})
        spent = (s - before.by_process_s.get(pid, 0.0) for pid, s in after.by_process_s.items())
        turns.busiest_s.append(max(spent, default=0.0))
        turns.upstream_body_bytes.append((after.body_bytes - before.body_bytes) / len(seconds))
        turns.replies.append(len(seconds))
        turns.seconds.append(took)
        turns.p50_s.append(float(np.percentile(seconds, 50)))
        turns.p99_s.append(float(np.percentile(seconds, 99)))


@contextlib.contextmanager
def _blamed(system: System) -> Iterator[None]:
    """A connection closed early is a wrong reply; the error names the system."""
    try:
        yield
    except ConnectionError as error:
        raise Mismatch(f"{system.title}: {error}") from error


def _check_streams(system: System, check: Check, replies: Sequence[Reply]) -> None:
    """Check every stream of ragway and of direct; a broken stream of a peer counts as lost frames."""
    for reply in replies:
        if system.ours or system.server is None or not (reply.broken or words_lost(bytes(reply.body))):
            check(reply)


def _stages(reply: Reply) -> list[tuple[str, float]]:
    return [(stage, float(ms)) for stage, ms in _STAGE.findall(reply.headers.get(b"server-timing", b"").decode())]
