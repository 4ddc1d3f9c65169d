"""Questions to a real model through a gateway with four small APIs, asked for calls in each way.

    python benchmarks/conformance/real_models.py --base-url URL --model NAME [--ways text] [--seeds 1,2] [--json FILE]

URL is any OpenAI-compatible address, with /v1. Of the cases `four`, the chat has all operations of one API,
so the search plays no part; of `club`, a search offers operations, and chats get passages, too. The first seed runs at
temperature 0, the other seeds at --temperature. The prompts of the gateway were tuned on the questions of the group
`tuning` only; read the group `held out`. Exit code 2: the gateway does not start.
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common import processes
from benchmarks.common.output import say, table
from benchmarks.common.processes import ROOT, Unmeasurable
from benchmarks.conformance import club_cases
from benchmarks.conformance.questions import STRING, Json, MockOperation, Question
from cli.common import knowledge
from config.settings import load
from proxy.agent.ask.tool_protocols import LEARNED
from proxy.apis.library import ActionLibrary, ActionStore
from proxy.apis.specs import SpecReader
from tests.support.served_app import served

_LEAK = re.compile(r'"(?:name|arguments|say)"\s*:|\bact_\w|</?tool_call>|\bfind_actions\b')
_TIMEOUT_S = 900.0
_MOST_TOKENS = 120  # of one reply

SIZE: Json = {"type": "string", "enum": ["S", "M", "L", "XL"]}
KIND: Json = {"type": "string", "enum": ["jacket", "shirt", "shorts"]}
COUNT: Json = {"type": "integer", "minimum": 1}


ORG, USER, ORDER = "org-7f31", "u-204", "A-1047"
_ORG = {"orgId": ("The organization", STRING)}
_CITY = {"city": ("Name of the city", STRING)}
_DATE = {"date": ("The day, as YYYY-MM-DD", STRING)}
APIS: dict[str, list[MockOperation]] = {
    "team": [
        MockOperation("listOrganizations", "/orgs", "Return all organizations", [{"id": ORG, "name": "Acme"}]),
        MockOperation(
            "listOrganizationUsers",
            "/orgs/{orgId}/users",
            "Return all users of one organization",
            {ORG: [{"id": "u-101", "name": "Ann Berg"}, {"id": USER, "name": "Ben Cole"}]},
            _ORG,
            "orgId",
        ),
        MockOperation(
            "listOrganizationTeams",
            "/orgs/{orgId}/teams",
            "Return all teams of one organization",
            {ORG: [{"id": "t-1", "name": "Harbour"}, {"id": "t-2", "name": "Lantern"}]},
            _ORG,
            "orgId",
        ),
        MockOperation(
            "listInvoices",
            "/orgs/{orgId}/invoices",
            "Return the invoices of one organization",
            {ORG: [{"number": "INV-88", "amount": 412.5, "currency": "EUR"}]},
            _ORG,
            "orgId",
        ),
        MockOperation(
            "getUser",
            "/users/{userId}",
            "Return one user",
            {USER: {"id": USER, "name": "Ben Cole", "email": "ben@acme.example", "role": "auditor"}},
            {"userId": ("The user", STRING)},
            "userId",
        ),
        MockOperation(
            "listTeamMembers",
            "/teams/{teamId}/members",
            "Return the members of one team",
            {"t-1": [{"name": "Ann Berg"}]},
            {"teamId": ("The team", STRING)},
            "teamId",
        ),
    ],
    "weather": [
        MockOperation(
            "currentWeather",
            "/current",
            "Return the weather of a city at this moment",
            {
                "oslo": {"temperature_celsius": 17, "sky": "clear"},
                "rome": {"temperature_celsius": 23, "sky": "cloudy"},
            },
            _CITY,
            "city",
        ),
        MockOperation(
            "forecast",
            "/forecast",
            "Return the weather forecast of a city for the next days",
            {"bergen": [{"day": 1, "sky": "heavy rain"}, {"day": 2, "sky": "rain"}, {"day": 3, "sky": "rain"}]},
            {**_CITY, "days?": ("Number of days", COUNT)},
            "city",
        ),
        MockOperation(
            "airQuality",
            "/air",
            "Return the air quality index of a city",
            {"madrid": {"index": 37, "level": "good"}},
            _CITY,
            "city",
        ),
        MockOperation(
            "sunTimes",
            "/sun",
            "Return the times of sunrise and sunset in a city",
            {"tromsø": {"sunrise": "08:41", "sunset": "13:02"}},
            _CITY,
            "city",
        ),
        MockOperation(
            "pollen", "/pollen", "Return the pollen count of a city", {"oslo": {"birch": "high"}}, _CITY, "city"
        ),
        MockOperation(
            "seaTemperature",
            "/sea",
            "Return the temperature of the sea at a beach",
            {"bondi beach": {"water_celsius": 21}},
            {"beach": ("Name of the beach", STRING)},
            "beach",
        ),
    ],
    "shop": [
        MockOperation(
            "findClothes",
            "/clothes",
            "Find clothes of the shop in a size",
            {
                "m": [{"name": "Fjord rain jacket", "kind": "jacket", "price": 89}],
                "l": [{"name": "Linen shirt", "kind": "shirt", "price": 45}],
            },
            {"size": ("Clothing size of the person", SIZE), "kind?": ("Kind of clothes", KIND)},
            "size",
        ),
        MockOperation(
            "searchProducts",
            "/products",
            "Search the products of the shop by words",
            [{"name": "Camp kettle", "price": 30}],
            {"query": ("Words of the product's name", STRING)},
        ),
        MockOperation(
            "getOrder",
            "/orders/{orderNumber}",
            "Return the state of an order",
            {ORDER: {"state": "in transit", "last_seen": "Hamar", "items": 2}},
            {"orderNumber": ("Number of the order", STRING)},
            "orderNumber",
        ),
        MockOperation(
            "findStores",
            "/stores",
            "Return the stores in a city",
            {"oslo": [{"street": "Kirkegata 5"}]},
            _CITY,
            "city",
        ),
        MockOperation(
            "deliveryCost",
            "/delivery",
            "Return the cost of a delivery to a country",
            {"norway": {"cost": 12, "currency": "EUR"}},
            {"country": ("Name of the country", STRING)},
            "country",
        ),
        MockOperation(
            "returnRules", "/return-rules", "Return the rules for sending products back", {"days": 45, "free": True}
        ),
    ],
    "calendar": [
        MockOperation(
            "listEvents",
            "/events",
            "Return the events of a day",
            {"2026-11-30": [{"id": "e-9", "title": "Dentist", "start": "10:30"}]},
            _DATE,
            "date",
        ),
        MockOperation(
            "findFreeTime",
            "/free-time",
            "Find a free time on a day",
            {"2026-12-01": [{"start": "14:15"}]},
            {**_DATE, "minutes": ("Length of the free time in minutes", COUNT)},
            "date",
        ),
        MockOperation("listCalendars", "/calendars", "Return all calendars", [{"name": "Work"}, {"name": "Family"}]),
        MockOperation(
            "listHolidays",
            "/holidays",
            "Return the public holidays of a country in a year",
            {"norway": [{"date": "2027-05-17", "name": "Constitution Day"}]},
            {"country": ("Name of the country", STRING), "year": ("The year", COUNT)},
            "country",
        ),
        MockOperation(
            "getEvent",
            "/events/{eventId}",
            "Return one event",
            {"e-9": {"title": "Dentist", "place": "Storgata 2"}},
            {"eventId": ("The event", STRING)},
            "eventId",
        ),
        MockOperation(
            "listRooms",
            "/rooms",
            "Return the meeting rooms with enough seats",
            [{"name": "Aurora", "seats": 14}],
            {"seats": ("Number of seats that are needed", COUNT)},
        ),
    ],
}


QUESTIONS = [
    Question("tuning", "team", ["Who are the users in my organization?"], [("listOrganizationUsers", {"orgId": ORG})],
             ["Ann Berg", "Ben Cole"]),
    Question("tuning", "team", ["Which organizations do we have?"], [("listOrganizations", {})], ["Acme"]),
    Question("tuning", "team", ["Write two lines of a poem about rain."], (), ["rain"]),
    Question("held out", "team", ["Which teams are in my organization?"], [("listOrganizationTeams", {"orgId": ORG})],
             ["Harbour", "Lantern"]),
    Question("held out", "team", [f"What is the e-mail address of the user {USER}?"], [("getUser", {"userId": USER})],
             ["ben@acme.example"]),
    Question("held out", "team", [f"Show the invoices of the organization {ORG}."],
             [("listInvoices", {"orgId": ORG})], ["INV-88"]),
    Question("tuning", "weather", ["How is the weather in Oslo now?"], [("currentWeather", {"city": "Oslo"})], ["17"]),
    Question("tuning", "weather", ["When does the sun rise in Tromsø?"], [("sunTimes", {"city": "Tromsø"})], ["8:41"]),
    Question("tuning", "weather", ["How warm is the sea at Bondi Beach?"],
             [("seaTemperature", {"beach": "Bondi Beach"})], ["21"]),
    Question("tuning", "weather", ["Why is the sky blue?"], (), ["light"]),
    Question("held out", "weather", ["Do I need an umbrella in Bergen over the next three days?"],
             [("forecast", {"city": "Bergen"})], ["rain"]),
    Question("held out", "weather", ["How good is the air in Madrid?"], [("airQuality", {"city": "Madrid"})], ["37"]),
    Question("held out", "weather", ["Compare the temperatures in Oslo and Rome right now."],
             [("currentWeather", {"city": "Oslo"}), ("currentWeather", {"city": "Rome"})], ["17", "23"]),
    Question("held out", "weather", ["Thank you, that is all."]),
    Question("tuning", "shop", ["Which jackets do you have for me?", "My size is M."],
             [("findClothes", {"size": "M"})], ["Fjord"], "size"),
    Question("tuning", "shop", [f"Where is my order {ORDER}?"], [("getOrder", {"orderNumber": ORDER})], ["Hamar"]),
    Question("tuning", "shop", ["What is 12 times 12?"], (), ["144"]),
    Question("held out", "shop", ["Do you have shirts that fit me?", "I wear L."],
             [("findClothes", {"size": "L"})], ["Linen"], "size"),
    Question("held out", "shop", ["How many days do I have to send something back?"], [("returnRules", {})], ["45"]),
    Question("held out", "shop", ["Translate “good morning” into French."], (), ["bonjour"]),
    Question("tuning", "calendar", ["What is in my calendar on 2026-11-30?"], [("listEvents", {"date": "2026-11-30"})],
             ["Dentist"]),
    Question("tuning", "calendar", ["Which public holidays does Norway have in 2027?"],
             [("listHolidays", {"country": "Norway", "year": 2027})], ["Constitution Day"]),
    Question("tuning", "calendar", ["Find me a free time of 45 minutes.", "On 2026-12-01."],
             [("findFreeTime", {"date": "2026-12-01", "minutes": 45})], ["14:15"], "da"),
    Question("held out", "calendar", ["Which calendars do I have?"], [("listCalendars", {})], ["Work", "Family"]),
    Question("held out", "calendar", ["Is there a meeting room for 12 people?"], [("listRooms", {"seats": 12})],
             ["Aurora"]),
    Question("held out", "calendar", ["What is the capital of France?"], (), ["Paris"]),
]  # fmt: skip


def document(operations: Sequence[MockOperation], title: str) -> Json:
    """The OpenAPI document of a mock API."""
    paths: dict[str, Json] = {}
    for one in operations:
        rows = []
        for name, (description, schema) in one.parameters.items():
            bare = name.removesuffix("?")
            place = "path" if f"{{{bare}}}" in one.path else "query"
            required = name == bare
            row = {"name": bare, "in": place, "required": required, "description": description, "schema": schema}
            rows.append({**row, "x-ragway-ask": True} if bare in one.ask else row)
        responses = {"200": {"description": "OK"}}
        about = {"operationId": one.name, "summary": one.summary, "parameters": rows, "responses": responses}
        paths.setdefault(one.path, {})[one.method] = about
    return {"openapi": "3.0.3", "info": {"title": title, "version": "1"}, "paths": paths}


@dataclass(slots=True)
class Sent:
    """A request that reached the mock API."""

    operation: str
    arguments: dict[str, str]
    status: int


def mock_api(apis: Mapping[str, Sequence[MockOperation]], seen: list[Sent]) -> Starlette:
    """Mock APIs, each under its name. A text for a number is a 422, as of FastAPI."""

    def route(one: MockOperation, prefix: str) -> Route:
        async def answer(request: Request) -> JSONResponse:
            arguments = {**request.path_params, **request.query_params}
            wrong = [name for name, text in arguments.items() if name.startswith("max_") and not _is_number(text)]
            result = None if wrong else one.answer(arguments)
            seen.append(Sent(one.name, arguments, 422 if wrong else 404 if result is None else 200))
            return JSONResponse({"detail": wrong or "not found"} if result is None else result, seen[-1].status)

        return Route(prefix + one.path, answer, methods=[one.method.upper()])

    return Starlette(routes=[route(one, f"/{name}") for name, operations in apis.items() for one in operations])


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[0-9.]+", text) is not None


@dataclass(slots=True)
class Outcome:
    """What one question brought."""

    group: str
    way: str
    seed: int
    question: str
    called: bool  # a call is right
    missing: bool  # a value is missing in the first turn
    answers: list[str]
    calls: list[Json]  # of the model, with outcomes
    operation: bool
    arguments: bool
    facts: bool
    asked: bool
    leaked: bool
    foreign: bool  # an answer has data of people whom the question does not name
    invented: int  # calls that the gateway refused, because a value stands nowhere
    failed: int  # requests that the API answered with an error
    seconds: float

    @property
    def right(self) -> bool:
        """Whether all is right."""
        return self.operation and self.arguments and self.facts and self.asked and not (self.leaked or self.foreign)


class Trial:
    """A running gateway with the mock APIs."""

    def __init__(self, client: httpx.Client, seen: list[Sent], passages: str = "raw/") -> None:
        """passages: the prefix of the model; "raw/": none."""
        self._client = client
        self._passages = passages
        self._seen = seen

    def warm_up(self) -> None:
        """Load the model, and find out whether the model's server closes connections after a stream."""
        for _ in range(2):
            body = {"messages": [{"role": "user", "content": "Hi"}], "stream": True, "max_tokens": 1}
            self._client.post("/v1/chat/completions", json={"model": f"raw/{LEARNED[-1]}", **body})

    def play(self, question: Question, way: str, seed: int, temperature: float) -> Outcome:
        """Ask the question; a second turn follows only a question for the missing value."""
        begin = time.perf_counter()
        messages: list[Json] = []
        answers: list[str] = []
        calls: list[Json] = []
        self._seen.clear()
        asked = True
        for turn in question.turns:
            messages.append({"role": "user", "content": turn})
            text, made = self._ask(question.api, way, messages, seed, temperature)
            messages.append({"role": "assistant", "content": text})
            answers.append(text)
            calls += made
            if question.asks and len(answers) == 1:
                early = {one.operation for one in self._seen} & {name for name, _ in question.calls}
                asked = not early and question.asks in text.casefold() and ("?" in text or "need" in text)
        return Outcome(
            question.group,
            way,
            seed,
            question.turns[0],
            bool(question.calls),
            bool(question.asks),
            answers,
            calls,
            operation=self._sent(question, arguments=False) if question.calls else not calls,
            arguments=self._sent(question, arguments=True) if question.calls else not calls,
            facts=bool(answers[-1].strip()) and all(_has(answers[-1], fact) for fact in question.facts),
            asked=asked,
            leaked=any(_LEAK.search(text) for text in answers),
            foreign=any(re.search(rf"\b{re.escape(one)}\b", answers[0]) for one in question.foreign),
            invented=sum(one["outcome"] == "invented_value" for one in calls),
            failed=sum(one.status != 200 for one in self._seen),
            seconds=round(time.perf_counter() - begin, 1),
        )

    def _sent(self, question: Question, *, arguments: bool) -> bool:
        """Whether the right requests reached the API."""
        return all(
            any(
                one.operation == name
                and (
                    not arguments
                    or all(one.arguments.get(k, "").casefold() == str(v).casefold() for k, v in given.items())
                )
                for one in self._seen
            )
            for name, given in question.calls
        )

    def _ask(
        self, api: str, way: str, messages: Sequence[Json], seed: int, temperature: float
    ) -> tuple[str, list[Json]]:
        """The text that the client sees, and the calls of the receipt."""
        body = {
            "model": f"rage/{api}/{self._passages}{way}",
            "messages": messages,
            "stream": True,
            "seed": seed,
            "temperature": temperature,
            "max_tokens": _MOST_TOKENS,
        }
        reply = self._client.post("/v1/chat/completions", json=body)
        if reply.is_error:
            return f"error {reply.status_code}: {reply.text}", []
        receipt = self._client.get(f"/v1/knowledge/receipts/{reply.headers['x-rag-id']}").json()
        rows = (receipt.get("actions") or {}).get("calls", [])
        kept = [{name: one.get(name) for name in ("operation", "outcome", "arguments")} for one in rows]
        return _text(reply.content), kept


def _has(text: str, fact: str) -> bool:
    return fact.casefold() in text.casefold()


def _text(stream: bytes) -> str:
    """The text of a stream; a call that reaches the client is shown as JSON."""
    parts = []
    for line in stream.splitlines():
        data = line.removeprefix(b"data:").strip()
        if not line.startswith(b"data:") or data == b"[DONE]":
            continue
        for choice in json.loads(data).get("choices", ()):
            parts.append(choice["delta"].get("content") or "")
            parts += [json.dumps(choice["delta"]["tool_calls"])] if choice["delta"].get("tool_calls") else []
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class Cases:
    """Questions with APIs. documents: whether chats get passages, and a search offers the operations."""

    apis: Mapping[str, Sequence[MockOperation]]
    questions: Sequence[Question]
    documents: Mapping[str, str] | None = None


CASES = {
    "four": Cases(APIS, QUESTIONS),
    "club": Cases({"club": club_cases.OPERATIONS}, club_cases.QUESTIONS, club_cases.DOCUMENTS),
}


@contextlib.contextmanager
def trial(folder: Path, base_url: str, model: str, key_env: str = "", cases: Cases = CASES["four"]) -> Iterator[Trial]:
    """A gateway in front of the model, with the mock APIs. key_env: environment variable with the model's key."""
    seen: list[Sent] = []
    with served(mock_api(cases.apis, seen)) as port:
        upstream = {"model": model, "api_base": base_url, **({"api_key_env": key_env} if key_env else {})}
        networks = ["127.0.0.0/8"]
        settings = {
            **({} if cases.documents else {"embedder": {"model": "hash"}}),
            "models": {way: {**upstream, "tools": way} for way in LEARNED},
            "actions": {
                name: {"networks": networks, "always": [] if cases.documents else [one.name for one in rows]}
                for name, rows in cases.apis.items()
            },
            "action_calls": {"total_s": _TIMEOUT_S},
            "upstream": {"first_byte_timeout_s": _TIMEOUT_S, "idle_timeout_s": _TIMEOUT_S},
            "retrieval": {"deadline_s": _TIMEOUT_S},
        }
        file = folder / "ragway.yaml"
        file.write_text(json.dumps(settings), "utf-8")  # JSON is YAML
        asyncio.run(_add(cases, file, folder / "data", f"http://127.0.0.1:{port}"))
        command = [sys.executable, "-m", "cli", "serve", "--port", "0", "--config", str(file)]
        extra = {"PYTHONPATH": str(ROOT), **({key_env: os.environ[key_env]} if key_env else {})}
        running = processes.start(
            [*command, "--data", str(folder / "data")], folder, "gateway", extra, processes.printed_port
        )
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{running.port}", timeout=_TIMEOUT_S) as client:
                if cases.documents:
                    client.post("/v1/knowledge/collections", json={"name": "docs"}).raise_for_status()
                for name, text in (cases.documents or {}).items():
                    client.put(
                        f"/v1/knowledge/collections/docs/documents/{name}", json={"text": text}
                    ).raise_for_status()
                made = Trial(client, seen, "" if cases.documents else "raw/")
                made.warm_up()
                yield made
        finally:
            running.stop()


async def _add(cases: Cases, file: Path, data: Path, url: str) -> None:
    settings = load(file=file, flags={"data": str(data)})
    async with knowledge(settings, make=True) as index:
        library = ActionLibrary(ActionStore(data), index, SpecReader(settings.ingest))
        for name, operations in cases.apis.items():
            await library.add(name, json.dumps(document(operations, name)).encode(), base_url=f"{url}/{name}")
        library.store.close()


def summary(outcomes: Sequence[Outcome]) -> str:
    """The table: one row for each group, way and seed."""
    groups: dict[tuple[str, str, int], list[Outcome]] = {}
    for one in outcomes:
        groups.setdefault((one.group, one.way, one.seed), []).append(one)
    rows = []
    for (group, way, seed), ones in sorted(
        groups.items(), key=lambda pair: (pair[0][0], LEARNED.index(pair[0][1]), pair[0][2])
    ):
        called, missing = [one for one in ones if one.called], [one for one in ones if one.missing]
        rows.append(
            [
                f"{group}, {way}, seed {seed}",
                _share(one.operation for one in called),
                _share(one.arguments for one in called),
                _share(one.facts for one in called),
                _share(one.operation for one in ones if not one.called),
                _share(one.asked for one in missing),
                _share(one.right for one in ones),
                str(sum(one.leaked for one in ones)),
                str(sum(one.foreign for one in ones)),
                str(sum(one.invented for one in ones)),
                str(sum(one.failed for one in ones)),
                f"{statistics.median(one.seconds for one in ones):.0f}",
            ]
        )
    head = [
        "questions",
        "right operation called",
        "with right arguments",
        "answer has the facts",
        "no call where none is right",
        "person asked for a missing value",
        "all right",
        "protocol shown",
        "another person's data",
        "invented values refused",
        "calls that the API refused",
        "median s",
    ]
    return table(head, rows)


def _share(flags: Iterable[bool]) -> str:
    values = list(flags)
    return f"{sum(values)}/{len(values)}"


def main() -> int:
    """Run the trial."""
    parser = argparse.ArgumentParser(description="Ask a real model questions through a gateway with four small APIs.")
    parser.add_argument("--base-url", required=True, metavar="URL", help="OpenAI-compatible address, with /v1")
    parser.add_argument("--model", required=True, metavar="NAME", help="the model's name at this address")
    parser.add_argument("--key-env", default="", metavar="VARIABLE", help="environment variable with the key")
    parser.add_argument("--ways", default=",".join(LEARNED), help="ways to ask for calls, separated by commas")
    parser.add_argument("--seeds", default="1,2,3", help="seeds, separated by commas; the first at temperature 0")
    parser.add_argument("--temperature", type=float, default=0.7, help="of the other seeds (default: .7)")
    parser.add_argument("--cases", choices=tuple(CASES), default="four", help="the questions (default: four)")
    parser.add_argument("--group", metavar="WORDS", help="the questions of one row of the table only, as: held out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append each answer to this file, as JSON lines")
    arguments = parser.parse_args()
    cases = CASES[arguments.cases]
    questions = [one for one in cases.questions if arguments.group in (None, one.group)]
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    outcomes = []
    try:
        with (
            tempfile.TemporaryDirectory(prefix="ragway-models-") as folder,
            trial(Path(folder), arguments.base_url, arguments.model, arguments.key_env, cases) as running,
        ):
            for seed in seeds:
                for way in arguments.ways.split(","):
                    for question in questions:
                        temperature = 0.0 if seed == seeds[0] else arguments.temperature
                        one = running.play(question, way, seed, temperature)
                        outcomes.append(one)
                        mark = "right" if one.right else "wrong"
                        say(f"{mark} {one.seconds:5.1f} s  {way} {seed}: {one.question} -> {one.answers[-1][:100]!r}")
                        if arguments.json is not None:
                            with arguments.json.open("a", encoding="utf-8") as file:
                                file.write(json.dumps(asdict(one), ensure_ascii=False) + "\n")
    except (Unmeasurable, OSError) as error:
        print(f"cannot run: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        pass  # the table has the questions so far
    print(summary(outcomes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
