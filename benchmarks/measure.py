"""The measurements. In every round each system has its turn, in random order, so that all meet the same machine."""

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from random import Random

import numpy as np

from benchmarks.load import Check, Connection, Mismatch, Reply, closed_loop, get, one_by_one, staggered
from benchmarks.mock_upstream import CHUNKS, PACE_S
from benchmarks.servers import MODEL, PACED, Running
from benchmarks.workload import Expected, chat, questions, through_gateway

CONNECTIONS = 16
IDEAL_S = (CHUNKS - 1) * PACE_S  # of a paced stream, from request to last byte
_WARM_UP = 20  # requests nobody counts, before each measurement
_MOST = 200_000  # replies in one turn of a throughput round
_DIFFERENT = 5000  # questions in such a turn: more than a system that embeds them can answer
_STAGE = re.compile(r"([a-z_]+);dur=([\d.]+)")


@dataclass(frozen=True, slots=True)
class System:
    """One of the rivals."""

    key: str  # direct | off | on | litellm
    title: str
    server: Running | None  # None: direct
    rag_status: bytes | None

    def expecting(self, body: bytes) -> Expected:
        """What it must answer where direct answers with this body."""
        return Expected(self.title, self.rag_status, body, same_bytes=self.key != "litellm")

    def request(self, request: bytes) -> bytes:
        """The request as it is sent to this system."""
        return request if self.server is None else through_gateway(request)


@dataclass(slots=True)
class Latencies:
    """Seconds from request sent to last byte: item i of every system belongs to round i."""

    seconds: dict[str, list[float]]
    stages_ms: dict[str, dict[str, list[float]]]  # system -> stage of its Server-Timing -> one item for each reply


@dataclass(slots=True)
class Turns:
    """What one system did in a measurement of many connections, an item for each round."""

    replies: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    cpu_s: list[dict[str, float]] = field(default_factory=list)  # by process: server, index
    upstream_body_bytes: list[float] = field(default_factory=list)  # of a request as the upstream got it, mean
    p50_s: list[float] = field(default_factory=list)
    p99_s: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Streams(Turns):
    """The same of streams; p50 and p99 are of the whole stream."""

    first_byte_s: list[float] = field(default_factory=list)  # an item for each stream
    last_byte_s: list[float] = field(default_factory=list)


class Bench:
    """All systems, and the upstream they share."""

    def __init__(self, mock: Running, systems: Sequence[System], random: Random) -> None:
        self._mock = mock
        self._systems = systems
        self._random = random
        self._questions = questions()

    async def latency(self, rounds: int, *, stream: bool) -> Latencies:
        """One request at a time, each system on one kept connection."""
        checks = await self._warm_up(stream=stream)
        times: dict[str, list[float]] = {system.key: [] for system in self._systems}
        stages: dict[str, dict[str, list[float]]] = {system.key: {} for system in self._systems}
        connections = {system.key: await Connection.open(self._port(system)) for system in self._systems}
        for request in self._requests(rounds, stream=stream):
            for system in self._shuffled():
                reply = await connections[system.key].ask(system.request(request))
                checks[system.key](reply)
                times[system.key].append(reply.last_byte_s)
                for stage, ms in _stages(reply):
                    stages[system.key].setdefault(stage, []).append(ms)
        for connection in connections.values():
            connection.close()
        return Latencies(times, stages)

    async def throughput(self, rounds: int, seconds: float) -> dict[str, Turns]:
        """CONNECTIONS connections, each sending its next request when it has its reply."""
        checks = await self._warm_up(stream=False)
        results = {system.key: Turns() for system in self._systems}
        for system in self._in_rounds(rounds):
            sent = [system.request(request) for request in self._requests(_DIFFERENT)]
            turns, before = results[system.key], await self._counts(system)
            latencies, took = await closed_loop(
                self._port(system), sent, checks[system.key], connections=CONNECTIONS, seconds=seconds, most=_MOST
            )
            await self._account(system, turns, before, latencies, took)
            say(f"  {system.title}: {len(latencies) / took:.0f}/s")
        return results

    async def streams(self, rounds: int) -> dict[str, Streams]:
        """CONNECTIONS paced streams, begun one after the other: in step, one wake-up would do for all their chunks."""
        checks = await self._warm_up(stream=True)
        results = {system.key: Streams() for system in self._systems}
        for system in self._in_rounds(rounds):
            sent = [system.request(request) for request in self._requests(CONNECTIONS, model=PACED, stream=True)]
            turns, before = results[system.key], await self._counts(system)
            replies = await staggered(self._port(system), sent, checks[system.key], apart_s=PACE_S / CONNECTIONS)
            whole = [reply.last_byte_s for reply in replies]
            await self._account(system, turns, before, whole, max(whole))
            turns.first_byte_s += [reply.first_byte_s for reply in replies]
            turns.last_byte_s += whole
            say(f"  {system.title}: {max(whole):.2f} s")
        return results

    def _requests(self, count: int, *, model: str = MODEL, stream: bool = False) -> list[bytes]:
        """Requests nobody has seen before."""
        return [chat(question, model=model, stream=stream) for question in islice(self._questions, count)]

    def _port(self, system: System) -> int:
        return (system.server or self._mock).port

    def _shuffled(self) -> list[System]:
        return self._random.sample(self._systems, len(self._systems))

    def _in_rounds(self, rounds: int) -> list[System]:
        return [system for _ in range(rounds) for system in self._shuffled()]

    async def _warm_up(self, *, stream: bool) -> dict[str, Check]:
        """The check of each system's replies against what direct answers; each has answered some requests then."""
        requests = self._requests(_WARM_UP, stream=stream)
        direct = await one_by_one(self._mock.port, requests[:1], lambda reply: None)
        checks = {system.key: system.expecting(bytes(direct[0].body)).check() for system in self._systems}
        for system in self._systems:
            await one_by_one(self._port(system), [system.request(r) for r in requests], checks[system.key])
        return checks

    async def _counts(self, system: System) -> tuple[dict[str, float], int, int]:
        """CPU seconds of the system so far; requests and their bytes that the upstream has seen."""
        (reply,) = await one_by_one(self._mock.port, [get("/stats")], lambda reply: None)
        seen = json.loads(reply.body)
        return (system.server.cpu_s() if system.server else {}), seen["requests"], seen["body_bytes"]

    async def _account(
        self, system: System, turns: Turns, before: tuple[dict[str, float], int, int], seconds: list[float], took: float
    ) -> None:
        cpu_s, requests, size = await self._counts(system)
        if requests - before[1] != len(seconds):
            seen = requests - before[1]
            raise Mismatch(f"{system.title}: {len(seconds)} replies, but the upstream saw {seen} requests")
        turns.cpu_s.append({role: s - before[0].get(role, 0.0) for role, s in cpu_s.items()})
        turns.upstream_body_bytes.append((size - before[2]) / len(seconds))
        turns.replies.append(len(seconds))
        turns.seconds.append(took)
        turns.p50_s.append(float(np.percentile(seconds, 50)))
        turns.p99_s.append(float(np.percentile(seconds, 99)))


def say(text: str) -> None:
    """Talk: to standard error, so that standard output is the table alone."""
    print(text, file=sys.stderr, flush=True)


def _stages(reply: Reply) -> list[tuple[str, float]]:
    return [(stage, float(ms)) for stage, ms in _STAGE.findall(reply.headers.get(b"server-timing", b"").decode())]
