"""Right and wrong calls of two benchmarks through a gateway: the right HTTP requests leave the gateway, or none.

    python benchmarks/conformance/gold.py DIR [--set bfcl|tmdb] [--limit N] [--forms N] [--writes]

DIR has `bfcl/` (BFCL_v4_simple_python.json, possible_answer/) and `beir/restbench_tmdb/` (openapi.json, queries.jsonl).

A scripted model calls the right operations, in the forms in which providers write calls: as the provider cuts a stream,
in pieces of one byte, and whole. The gateway finds the operations by the question; what the question does not find,
the model searches for with `find_actions`. An API on loopback records each request, which must equal the request of
`reference_request.py`. With --writes the calls change something, and a person confirms each. Then the model makes each
call in wrong variants: no request may leave the gateway, and the model must read the reason. Exit code 1: something
differs. Exit code 2: the gateway does not start.
"""

import argparse
import asyncio
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common import processes
from benchmarks.common.output import say, table
from benchmarks.common.processes import ROOT, Unmeasurable
from benchmarks.conformance.gold_mutants import KINDS, Mutant, mutants
from benchmarks.conformance.gold_tasks import GoldCall, GoldSet, Task, bfcl, restbench
from benchmarks.conformance.reference_request import (
    is_decoded,
    received_request,
    reference_request,
)
from cli.common import knowledge
from config.settings import load
from proxy.apis.library import ActionLibrary, ActionStore
from proxy.apis.openapi.operations import operations_of
from proxy.apis.specs import SpecReader
from tests.support.api_server import ApiRequest, ApiServer, Reply, api_server
from tests.support.delta_forms import OTHERS, RECORDED, DeltaForm, FormedCall, frames, whole
from tests.support.upstream_servers import Wire, chunked, head, reply, single_bytes, upstream

Json = dict[str, Any]
_ANSWER = "Done."
_FIRST_ID = 770_000  # of the API's results
_MOST_SHOWN = 12  # differences
_PLACE = re.compile(r": ([A-Z]+) (/\S*)\)(?= |$)")
_CODE = re.compile(r"\b[A-Z2-7]{4}-[A-Z2-7]{4}\b")
_SETTINGS = """
embedder: {{model: hash}}
models: {{gold: {{api_base: "{model}/v1"}}}}
actions:
{rows}action_calls: {{rounds: 12, calls: 40}}
"""
_SET = """  {name}: {{networks: ["127.0.0.0/8"], always: [{operation}]{mode}}}
"""


@dataclass(frozen=True, slots=True)
class Way:
    """A form, and whether a stream comes in pieces of one byte."""

    form: DeltaForm
    one_byte: bool = False

    @property
    def key(self) -> tuple[str, bool]:
        """For the table."""
        return self.form.name, self.one_byte

    def answers(self, calls: Sequence[FormedCall]) -> list[bytes]:
        """The pieces of a reply, with its head."""
        text = "" if calls else _ANSWER
        if not self.form.streamed:
            return [reply(whole(self.form, calls, text), b"content-type: application/json")]
        pieces = frames(self.form, calls, text)
        start = head(b"content-type: text/event-stream", b"transfer-encoding: chunked")
        return [start, *chunked(single_bytes(b"".join(pieces)) if self.one_byte else pieces)]


def ways_of(forms: Sequence[DeltaForm]) -> list[Way]:
    """All ways of these forms."""
    return [Way(form, one) for form in forms for one in (False, True) if form.streamed or not one]


_RECORDED, _OTHERS = ways_of(RECORDED), ways_of(OTHERS)


@dataclass(slots=True)
class Chat:
    """One chat: the model's part."""

    task: Task
    way: Way
    mutant: Callable[[str, Json], Mutant] | None = None  # by the tool and the right arguments
    rounds_before: int = 0  # right rounds before the mutant
    expected: list[tuple[GoldCall, Json]] = field(default_factory=list)  # calls that were made right
    searches: int = 0
    told: str = ""  # the text for the model about the mutant
    not_offered: str = ""
    _round: int = 0
    _waits: bool = False  # for the result of the mutant

    def answer(self, asked: Json) -> list[FormedCall]:
        """The calls of the next round; none: the model answers."""
        results = [str(message["content"]) for message in asked["messages"] if message["role"] == "tool"]
        tools = _tools(asked, [call for calls in self.task.rounds for call in calls])
        if self._waits:
            self.told = results[-1] if results else ""
            return []
        if self._round >= len(self.task.rounds):
            return []
        calls = self.task.rounds[self._round]
        wanted = [one for one in calls if (one.method, one.path) not in tools]
        if wanted and tools and self.searches < 3 * len(self.task.rounds):
            queries = wanted[0].queries
            query = queries[self.searches % len(queries)]
            self.searches += 1
            return [FormedCall(f"call_find_{self.searches}", "find_actions", json.dumps({"query": query}))]
        if wanted:
            self.not_offered = f"{wanted[0].method} {wanted[0].path}"
            return []
        named = [(tools[one.method, one.path], one, one.arguments(results)) for one in calls]
        self._round += 1
        if self.mutant is not None and self._round > self.rounds_before:
            self._waits = True
            wrong = self.mutant(named[0][0], named[0][2])
            return [FormedCall("call_wrong", wrong.tool, json.dumps(wrong.arguments))]
        self.expected += [(call, arguments) for _, call, arguments in named]
        return [
            FormedCall(f"call_{self._round}_{number}", tool, json.dumps(arguments))
            for number, (tool, _, arguments) in enumerate(named)
        ]


def _tools(asked: Json, calls: Sequence[GoldCall]) -> dict[tuple[str, str], str]:
    """Method and path of each offered operation -> the name of the tool.

    The description has both in brackets at its end, unless the description is too long; then the name decides.
    """
    by_name = {f"act_{re.sub(r'[^a-zA-Z0-9_-]+', '_', one.id)}": (one.method, one.path) for one in calls}
    found = {}
    for tool in asked.get("tools", ()):
        name, description = tool["function"]["name"], tool["function"].get("description", "")
        ends = _PLACE.findall(description)
        if ends:
            found[ends[-1]] = name
        elif "…" in description and name in by_name:
            found[by_name[name]] = name
    return found


@dataclass(slots=True)
class Bench:
    """The gateway between the scripted model and the recording API."""

    client: httpx.AsyncClient
    api: ApiServer
    sets: dict[str, GoldSet]
    documents: dict[str, Json]
    chat: list[Chat]  # the chat under way
    faults: list[str] = field(default_factory=list)
    right: Counter[tuple[str, bool]] = field(default_factory=Counter)
    played: Counter[tuple[str, bool]] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)  # by set: calls that must be equal
    equal: Counter[str] = field(default_factory=Counter)
    confirmed: Counter[str] = field(default_factory=Counter)  # by set: confirmations
    searched: Counter[str] = field(default_factory=Counter)
    not_offered: Counter[str] = field(default_factory=Counter)
    mutants: Counter[tuple[str, str]] = field(default_factory=Counter)  # by set and kind
    sent: Counter[tuple[str, str]] = field(default_factory=Counter)
    explained: Counter[tuple[str, str]] = field(default_factory=Counter)

    async def play(self, chat: Chat) -> str:
        """Ask the question of a chat; returns the text that the client reads."""
        self.chat[:] = [chat]
        self.api.requests.clear()
        messages = [{"role": "user", "content": chat.task.question}]
        body = {"model": f"rage/{chat.task.set}/gold", "messages": messages, "stream": chat.way.form.streamed}
        text = _text(await self.client.post("/v1/chat/completions", json=body))
        while code := _CODE.search(text):
            self.confirmed[chat.task.set] += 1
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": f"confirm {code[0]}"}]
            text = _text(await self.client.post("/v1/chat/completions", json=body))
        return text

    async def right_calls(self, task: Task, way: Way) -> None:
        """Play the right calls of a task, and compare the requests."""
        chat = Chat(task, way)
        text = await self.play(chat)
        self.played[way.key] += 1
        self.searched[task.set] += chat.searches > 0
        if chat.not_offered:
            self.not_offered[task.set] += 1
            self._fault(f"{task.name}: {chat.not_offered} was not offered")
            return
        wanted = sum(map(len, task.rounds))
        self.calls[task.set] += wanted
        faults = self._differences(chat)
        self.equal[task.set] += wanted - len(faults)
        if not text.endswith(_ANSWER):
            faults.append(f"the client reads {text[-80:]!r}")
        self.right[way.key] += not faults
        for fault in faults:
            self._fault(f"{task.name}, {_name(way)}: {fault}")

    def _fault(self, text: str) -> None:
        say(text)
        self.faults.append(text)

    def _differences(self, chat: Chat) -> list[str]:
        """A text for each call that has no equal request, and for each further request."""
        document = self.documents[chat.task.set]
        got = [received_request(one.method, one.target, one.headers, one.body) for one in self.api.requests]
        found = []
        for call, arguments in chat.expected:
            wanted = reference_request(document, call.method, call.path, arguments)
            decoded = is_decoded(document, call.method, call.path)
            equal = next((one for one in got if not one.differences(wanted, decoded=decoded)), None)
            if equal is not None:
                got.remove(equal)
            else:
                near = [one for one in got if one.path.split("/")[1:2] == wanted.path.split("/")[1:2]] or got
                found.append("; ".join(near[0].differences(wanted, decoded=decoded)) if near else _unsent(call))
                got = [one for one in got if one is not (near[0] if near else None)]
        written = [reference_request(document, c.method, c.path, a).path for c, a in chat.expected if c.method != "GET"]
        got = [one for one in got if one.method != "GET" or one.path not in written]  # shows what the call changes
        missing = sum(map(len, chat.task.rounds)) - len(chat.expected)
        return [*found, *(["a round was not asked for"] * missing), *(f"unasked: {one}" for one in got)]

    async def wrong_calls(self, task: Task, at: int, way: Iterator[Way]) -> None:
        """Play each wrong variant of the call of round `at`, after the right calls of the rounds before."""
        (call,) = task.rounds[at]
        document = self.documents[task.set]

        def variants(tool: str, arguments: Json) -> list[Mutant]:
            return list(mutants(document, call.method, call.path, tool, arguments))

        for number in range(len(variants("act_x", call.arguments([])))):
            chosen: list[Mutant] = []

            def mutant(tool: str, arguments: Json, number: int = number, chosen: list[Mutant] = chosen) -> Mutant:
                chosen.append(variants(tool, arguments)[number])
                return chosen[-1]

            chat = Chat(task, next(way), mutant, at)
            text = await self.play(chat)
            if not chosen:
                self.not_offered[task.set] += 1
                continue
            wrong, requests = chosen[0], len(self.api.requests) - len(chat.expected)
            key = task.set, wrong.kind
            self.mutants[key] += 1
            self.sent[key] += requests > 0
            told = chat.told.startswith("Nothing was") and wrong.words in chat.told
            self.explained[key] += told
            if requests or not told or not text.endswith(_ANSWER):
                target = self.api.requests[-1].target if requests > 0 else "no request"
                self._fault(
                    f"{task.name}, {wrong.kind}, {_name(chat.way)}: {wrong.tool} {json.dumps(wrong.arguments)[:200]}: "
                    f"{target}; the model reads {chat.told[:160]!r}, not {wrong.words!r}; the client {text[-40:]!r}"
                )


def _unsent(call: GoldCall) -> str:
    return f"{call.method} {call.path} was not sent"


def _name(way: Way) -> str:
    return way.form.name + (", bytes" if way.one_byte else "")


def _text(response: httpx.Response) -> str:
    """The text that the client reads; a call of a tool is no text."""
    if response.status_code != 200:
        return f"status {response.status_code}: {response.text[:200]}"
    if not response.headers["content-type"].startswith("text/event-stream"):
        message = response.json()["choices"][0]["message"]
        return f"calls {message['tool_calls']}" if message.get("tool_calls") else str(message["content"])
    texts = []
    for line in response.text.splitlines():
        data = line.removeprefix("data:").strip()
        if line.startswith("data:") and data != "[DONE]":
            for choice in json.loads(data).get("choices", ()):
                texts += [f"calls {choice['delta']['tool_calls']}"] if choice["delta"].get("tool_calls") else []
                texts.append(choice["delta"].get("content") or "")
    return "".join(texts)


async def measured(folder: Path, sets: Sequence[GoldSet], forms: int, *, writes: bool = False) -> Bench:
    """Play all chats, one after the other."""
    playing: list[Chat] = []

    async def model(wire: Wire) -> None:
        while True:
            received = await wire.request()
            chat = playing[0]
            await wire.send(*chat.way.answers(chat.answer(json.loads(received.body))))
            wire.server.requests.clear()

    async def api(_request: ApiRequest) -> Reply:
        body = json.dumps({"results": [{"id": _FIRST_ID + len(server.requests), "name": "Gold"}], "total": 1}).encode()
        return Reply(body=body, headers=[("Content-Type", "application/json")])

    async with upstream(model) as models, api_server(api) as server:
        always = {
            one.name: operations_of(one.document)[0][0].name for one in sets
        }  # so that each chat has find_actions
        mode = ", writes: confirm" if writes else ""
        rows = "".join(_SET.format(name=name, operation=one, mode=mode) for name, one in always.items())
        settings = _SETTINGS.format(model=models.url, rows=rows)
        (folder / "ragway.yaml").write_text(settings, "utf-8")
        await _add(folder, sets, server.base_url)
        command = [sys.executable, "-m", "cli", "serve", "--port", "0", "--config", str(folder / "ragway.yaml")]
        running = await asyncio.to_thread(
            processes.start,
            [*command, "--data", str(folder / "data")],
            folder,
            "gateway",
            {"PYTHONPATH": str(ROOT)},
            processes.printed_port,
        )
        try:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{running.port}", timeout=120) as client:
                documents = {one.name: one.reference for one in sets}
                bench = Bench(client, server, {one.name: one for one in sets}, documents, playing)
                for one in sets:
                    await _play_set(bench, one, forms)
                return bench
        finally:
            await asyncio.to_thread(running.stop)


async def _add(folder: Path, sets: Sequence[GoldSet], url: str) -> None:
    settings = load(file=folder / "ragway.yaml", flags={"data": str(folder / "data")})
    async with knowledge(settings, make=True) as index:
        library = ActionLibrary(ActionStore(Path(settings.data)), index, SpecReader(settings.ingest))
        for one in sets:
            report = await library.add(one.name, json.dumps(one.document).encode(), base_url=url)
            one.notes += [f"{row.method} {row.path}: {row.reason}" for row in report.uncallable]
        library.store.close()


async def _play_set(bench: Bench, one: GoldSet, forms: int) -> None:
    others, wrong_ways = _turning(_OTHERS), _turning([*_RECORDED, *_OTHERS])
    for number, task in enumerate(one.tasks):
        if number % 50 == 0:
            say(f"{one.name}: {number} of {len(one.tasks)} questions")
        for way in [*_RECORDED, *(next(others) for _ in range(forms))]:
            await bench.right_calls(task, way)
        for at, calls in enumerate(task.rounds):
            if len(calls) == 1:
                await bench.wrong_calls(task, at, wrong_ways)


def _turning(ways: Sequence[Way]) -> Iterator[Way]:
    while True:
        yield from ways


def summary(bench: Bench) -> str:
    """The tables, and the first differences."""
    names = list(bench.sets)
    forms: dict[str, list[int]] = {}
    for (name, one_byte), count in bench.played.items():
        row = forms.setdefault(name, [0, 0, 0, 0])
        row[2 * one_byte] += bench.right[name, one_byte]
        row[2 * one_byte + 1] += count
    recorded = {form.name for form in RECORDED}
    rows = [
        [
            name + (" (recorded)" if name in recorded else ""),
            f"{row[0]}/{row[1]}",
            f"{row[2]}/{row[3]}" if row[3] else "—",
        ]
        for name, row in forms.items()
    ]
    parts = [table(["form", "chats right", "in single bytes"], rows)]
    rows = [
        [
            name,
            str(len(bench.sets[name].tasks)),
            f"{bench.calls[name]:,}",
            f"{bench.equal[name]:,}",
            f"{bench.confirmed[name]:,}",
            str(bench.searched[name]),
            str(bench.not_offered[name]),
        ]
        for name in names
    ]
    parts.append(
        table(
            ["set", "questions", "calls", "requests equal", "confirmations", "chats with a search", "not offered"], rows
        )
    )
    rows = []
    for kind in [*KINDS, "all"]:
        cells = [kind]
        for name in names:
            for counter in (bench.mutants, bench.sent, bench.explained):
                chosen = KINDS if kind == "all" else (kind,)
                cells.append(f"{sum(counter[name, each] for each in chosen):,}")
        rows.append(cells)
    titles = [f"{name}: {title}" for name in names for title in ("wrong calls", "sent", "reason given")]
    parts.append(table(["fault", *titles], rows))
    for one in bench.sets.values():
        places = ", ".join(f"{place} {count}" for place, count in sorted(one.places.items()))
        parts += [f"{one.name}: parameters by place: {places}"] if places else []
        parts += [f"{one.name}: {text}" for text in one.notes]
    more = len(bench.faults) - _MOST_SHOWN
    parts += [*bench.faults[:_MOST_SHOWN], *([f"and {more} more differences"] if more > 0 else [])]
    return "\n\n".join(parts)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="Send right and wrong calls of two benchmarks through a gateway.")
    parser.add_argument("dir", type=Path, metavar="DIR", help="folder with bfcl/ and beir/restbench_tmdb/")
    parser.add_argument("--limit", type=int, metavar="N", help="the first N questions of each set (default: all)")
    parser.add_argument("--forms", type=int, default=8, metavar="N", help="other forms for each question (default: 8)")
    parser.add_argument("--writes", action="store_true", help="calls that change something, confirmed by a person")
    parser.add_argument("--set", choices=("bfcl", "tmdb"), help="one set only")
    arguments = parser.parse_args()
    sets = [
        bfcl(arguments.dir / "bfcl", arguments.limit, writes=arguments.writes),
        restbench(arguments.dir / "beir" / "restbench_tmdb", arguments.limit, writes=arguments.writes),
    ]
    sets = [one for one in sets if arguments.set in (None, one.name)]
    try:
        with tempfile.TemporaryDirectory(prefix="ragway-gold-") as folder:
            bench = uvloop.run(measured(Path(folder), sets, arguments.forms, writes=arguments.writes))
    except (Unmeasurable, OSError) as error:
        print(f"cannot run: {error}", file=sys.stderr)
        return 2
    print(summary(bench))
    return 1 if bench.faults else 0


if __name__ == "__main__":
    sys.exit(main())
