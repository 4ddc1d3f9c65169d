"""What is seen of a chat with actions: receipt, log, metrics and headers, through a real gateway with keys."""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text

from proxy.access.limits import NANO, limits_of
from proxy.access.sql import SqlAccounts
from proxy.caller import EVERYTHING, Names, Rights
from tests.support.action_team import ANSWER, ORGS, QUESTION, SECRETS, USERS, serving_sets
from tests.support.atlas_api import GROUP, ORG, PASSWORD, AtlasApi, atlas_api, document
from tests.support.described import described
from tests.support.dialect_clients import CHAT_CLIENT, CLIENTS
from tests.support.gateway import Served, ragway
from tests.support.recording_upstream import Recorder, recording
from tests.support.scripted_model import USAGE, ScriptedModel, Turn, calls, says

SETTINGS = """
embedder: {{model: hash}}
server: {{log_level: debug}}
models: {{gpt-4o: {{api_base: "{model}/v1"}}}}
actions:
  atlas:
    auth: digest
    user_env: ATLAS_USER
    secret_env: ATLAS_PASSWORD
    fixed: {{groupId: {group}}}
    networks: ["127.0.0.0/8"]
"""
INVENTED: tuple[str, dict[str, Any]] = ("act_listUsers", {"orgId": "your_organization_id"})
LARGE = {"prompt_tokens": 5000, "completion_tokens": 10, "total_tokens": 5010}
# The limits of keys, above the first call's reservation and below the first call's use and the second's reservation.
LIMITED: dict[str, dict[str, float]] = {
    "tokens": {"tokens_per_day": 5400},
    "tokens stream": {"tokens_per_day": 5400},
    "tokens text": {"tokens_per_day": 5400},
    "dollars": {"usd_per_day": 0.01},
    "dollars stream": {"usd_per_day": 0.01},
    "messages": {"tokens_per_day": 5400},
    "messages stream": {"tokens_per_day": 5400},
    "responses": {"tokens_per_day": 5400},
    "responses stream": {"tokens_per_day": 5400},
    "nothing": {"tokens_per_day": 100},
    "parallel": {"tokens_per_day": 20_000},
    "enough": {"tokens_per_day": 100_000, "usd_per_day": 1},
}


class Team:
    """A gateway with keys and an action set, the API, and the model."""

    def __init__(self, served: Served, api: AtlasApi, recorder: Recorder, keys: dict[str, str]) -> None:
        self.served = served
        self.api = api
        self.keys = keys
        self._recorder = recorder

    def script(self, *turns: Turn, usage: Mapping[str, int] = USAGE) -> ScriptedModel:
        self.api.seen.clear()
        return ScriptedModel(self._recorder.fresh(), turns, usage=usage)

    def ask(self, *said: str, key: str = "ann", model: str = "rage/atlas/gpt-4o", **more: Any) -> httpx.Response:
        """A chat; said: the messages of the user and of the model by turns."""
        messages = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(said)]
        body = {"model": model, "messages": messages, **more}
        headers = {"authorization": f"Bearer {self.keys[key]}"}
        return httpx.post(f"{self.served.url}/v1/chat/completions", json=body, headers=headers, timeout=60)

    def get(self, path: str, key: str = "ann") -> httpx.Response:
        headers = {"authorization": f"Bearer {self.keys[key]}"}
        return described(httpx.get(self.served.url + path, headers=headers, timeout=60))

    def receipt(self, reply: httpx.Response, key: str = "ann") -> Any:
        return self.get(f"/v1/knowledge/receipts/{reply.headers['x-rag-id']}", key).json()

    def counted(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples with these labels."""
        return sum(
            sample.value
            for family in text_string_to_metric_families(self.get("/metrics", "root").text)
            for sample in family.samples
            if sample.name == f"ragway_{name}" and labels.items() <= sample.labels.items()
        )

    def usage(self, key: str) -> dict[str, Any]:
        """The sums of a key, as soon as a request is written."""
        while not (rows := self.get("/v1/usage?by=key", key).json()["data"]):
            pass
        row: dict[str, Any] = rows[0]
        return row

    def line(self, reply: httpx.Response) -> str:
        """The request's line in the log, as soon as the line is written."""
        end = f" {reply.headers['x-rag-id']}\n"
        while end not in (log := self.served.log.read_text()):
            pass
        return log.partition(end)[0].rpartition("\n")[2] + " "


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    folder = tmp_path_factory.mktemp("traces")
    accounts = SqlAccounts(folder / "data")
    all_but_atlas = Rights(Names(["docs"]), Names(), Names(["*"]))
    rights = {"root": EVERYTHING, "ann": Rights(Names(["*"]), Names(), Names(["*"]))}
    rights |= {"ben": rights["ann"], "cal": all_but_atlas}
    keys = {name: accounts.create(name, right, team="blue")[1] for name, right in rights.items()}
    for name, limits in LIMITED.items():
        keys[name] = accounts.create(name, rights["ann"], team=name, limits=limits_of(limits))[1]
    accounts.close()
    with atlas_api() as api, recording() as recorder:
        settings = SETTINGS.format(model=recorder.url, group=GROUP)
        with serving_sets(folder, settings, {"atlas": document(api.url)}, **SECRETS) as served:
            yield Team(served, api, recorder, keys)


@pytest.mark.parametrize("stream", [False, True])
def test_the_receipt_has_the_offer_the_rounds_and_the_calls(team: Team, stream: bool) -> None:
    team.script(calls(INVENTED), calls(ORGS), calls(USERS), says(ANSWER))
    reply = team.ask(QUESTION, stream=stream, stream_options={"include_usage": True} if stream else None)
    receipt = team.receipt(reply)
    actions = receipt["actions"]
    assert receipt["question"] == QUESTION
    assert (actions["sets"], actions["offer"], actions["answered_by"]) == (["atlas"], "offered", "model")
    assert {"atlas/listOrganizations", "atlas/listUsers"} <= set(actions["operations"])
    assert [one["finish"] for one in actions["rounds"]] == ["tool_calls", "tool_calls", "tool_calls", "stop"]
    assert [one["calls"] for one in actions["rounds"]] == [1, 1, 1, 0]
    assert {(one["prompt_tokens"], one["completion_tokens"]) for one in actions["rounds"]} == {
        (USAGE["prompt_tokens"], USAGE["completion_tokens"])
    }
    assert [(one["round"], one["operation"], one["outcome"], one["sent"]) for one in actions["calls"]] == [
        (1, "atlas/listUsers", "invented_value", False),
        (2, "atlas/listOrganizations", "ok", True),
        (3, "atlas/listUsers", "ok", True),
    ]
    made = actions["calls"][1]
    assert (made["status"], made["tries"], json.loads(made["arguments"])) == (200, 1, {})
    assert ORG in made["result"]
    assert "your_organization_id" in actions["calls"][0]["result"]


def test_the_receipt_has_the_operations_found_and_why_each_is_offered_or_not(team: Team) -> None:
    team.script(calls(("find_actions", {"query": "create a cluster"})), says(ANSWER))
    actions = team.receipt(team.ask(QUESTION))["actions"]
    of_question, of_model = actions["searches"]
    assert (of_question["query"], of_model["query"]) == (QUESTION, "create a cluster")
    best, *_ = of_question["found"]
    assert (best["operation"], best["outcome"], best["ranks"]) == (
        "atlas/listUsers",
        "offered",
        {"bm25": 1, "dense": 1},
    )
    outcomes = {one["operation"]: one["outcome"] for search in actions["searches"] for one in search["found"]}
    assert outcomes.pop("atlas/createCluster") == outcomes.pop("atlas/deleteCluster", "could_change") == "could_change"
    assert sorted(outcomes) == sorted(actions["operations"])
    assert set(outcomes.values()) == {"offered"}


def test_a_chat_without_passages_has_a_receipt_for_the_operations(team: Team) -> None:
    team.script(says("Hm."))
    receipt = team.receipt(team.ask(QUESTION, model="rage/atlas/raw/gpt-4o"))
    assert (receipt["status"], receipt["passages"], receipt["question"]) == ("off", [], QUESTION)
    assert receipt["actions"]["offer"] == "offered"
    team.script(says("Hm."))
    unsuited = team.ask(QUESTION, n=2)
    assert team.receipt(unsuited)["actions"]["offer"] == "not suited"


def test_a_receipt_with_calls_is_for_the_key_of_the_chat_and_for_admins(team: Team) -> None:
    team.script(calls(ORGS), says(ANSWER))
    reply = team.ask(QUESTION)
    path = f"/v1/knowledge/receipts/{reply.headers['x-rag-id']}"
    assert {key: team.get(path, key).status_code for key in ("root", "ann", "ben", "cal")} == {
        "root": 200, "ann": 200, "ben": 404, "cal": 404,
    }  # fmt: skip


def test_no_secret_is_in_a_receipt(team: Team) -> None:
    team.script(calls(("act_listClusters", {})), calls(USERS), says(ANSWER))
    reply = team.ask(f"which clusters and users are in the organization {ORG}?")
    receipt = json.dumps(team.receipt(reply, "root"))
    assert "prod" in receipt
    assert [canary for canary in (PASSWORD, GROUP) if canary in receipt] == []


@pytest.mark.parametrize("stream", [False, True])
def test_the_header_says_where_earlier_calls_cannot_be_put_back(team: Team, stream: bool) -> None:
    first = f"{QUESTION} ({stream})"
    model = team.script(calls(ORGS), says(ANSWER), *[says("Hm.")] * 5, calls(ORGS), says(ANSWER))
    team.ask(first, stream=stream)

    def header(*said: str, key: str = "ann") -> str | None:
        found: str | None = team.ask(*said, key=key, stream=stream).headers.get("x-rag-actions")
        return found

    assert header(first, ANSWER, "And?") is None
    assert len(model.received[-1]["messages"]) == 5
    assert header(first, "Another answer.", "And?") == "forgotten"
    assert len(model.received[-1]["messages"]) == 3
    assert header(first, "Another answer.", "And?", key="ben") is None, "the calls of another key are not shown"
    assert header("Another question?", ANSWER, "And?") is None, "another conversation"
    assert header(f"{QUESTION} Say hello.", "Hello.", "And?") is None, "a conversation without calls"
    assert header(first, "Another answer.", QUESTION) == "forgotten,atlas/listOrganizations"
    team.script(says("Hm."))
    reply = team.ask(first, "Another answer.", "And?")
    assert team.receipt(reply)["actions"]["forgotten"]
    assert " actions=forgotten " in team.line(reply)


@pytest.mark.parametrize(("stream", "wish"), [(False, "on"), (True, "on"), (True, "ON")])
def test_progress_is_a_line_of_text_for_each_call_in_a_stream(team: Team, stream: bool, wish: str) -> None:
    script = [calls(INVENTED, text="Let me look."), calls(ORGS), calls(USERS), says(ANSWER), says("Two.")]
    model = team.script(*script)
    body = CHAT_CLIENT.body("rage/atlas/gpt-4o", QUESTION, stream=stream)
    reply = CHAT_CLIENT.post(team.served.url, body, team.keys["ann"], headers={"x-rag-progress": wish})
    made = "→ atlas/listOrganizations 200\n\n→ atlas/listUsers 200\n\n" if stream else ""
    lines = f"Let me look.\n\n{made}"
    answer = CHAT_CLIENT.answer_of(reply)
    assert answer == lines + ANSWER
    assert team.ask(QUESTION, answer, "How many?").headers.get("x-rag-actions") is None
    assert len(model.received[-1]["messages"]) == 9, "the hidden messages are put back"


def test_replay_prints_the_rounds_and_makes_no_call(team: Team) -> None:
    team.script(calls(ORGS), says(ANSWER))
    for model in ("rage/atlas/raw/gpt-4o", "rage/atlas/gpt-4o"):
        team.script(calls(ORGS), says(ANSWER))
        id = team.ask(QUESTION, model=model).headers["x-rag-id"]
        while (done := replayed(team, id)).returncode == 1 and "no receipt" in done.stderr:
            pass
        assert done.returncode == 0, done.stderr
        assert "operations of atlas: offered: " in done.stdout
        assert f"searched: {QUESTION}, relevance 0." in done.stdout
        assert "  atlas/createCluster: could_change (dense #" in done.stdout
        assert "atlas/listOrganizations: ok, status 200" in done.stdout
    assert team.api.seen == ["GET /orgs"]


def replayed(team: Team, id: str) -> Any:
    return ragway("replay", id, "--data", str(team.served.data), folder=team.served.data.parent, environ=SECRETS)


def test_log_headers_and_metrics_show_rounds_and_calls_without_content(team: Team) -> None:
    before = {name: team.counted(name) for name in ("action_rounds_count", "action_call_seconds_count")}
    offered = team.counted("action_offers_total", result="offered")
    made = team.counted("action_calls_total", set="atlas", outcome="ok")
    team.script(calls(INVENTED, ORGS), calls(USERS), says(ANSWER))
    reply = team.ask(QUESTION)
    stages = [entry.split(";")[0].strip() for entry in reply.headers["server-timing"].split(",")]
    assert [stage for stage in stages if stage.startswith(("round-", "call-"))] == [
        "round-1", "round-2", "round-3", "call-1", "call-2", "call-3",
    ]  # fmt: skip
    line = team.line(reply)
    assert " actions=atlas/listOrganizations,atlas/listUsers rounds=3 calls=3 without_result=invented_value " in line
    assert "your_organization_id" not in line
    assert ORG not in line
    assert team.counted("action_offers_total", result="offered") == offered + 1
    assert team.counted("action_calls_total", set="atlas", outcome="ok") == made + 2
    assert team.counted("action_rounds_count") == before["action_rounds_count"] + 1
    assert team.counted("action_call_seconds_count") == before["action_call_seconds_count"] + 2


def test_a_run_over_http_counts_as_a_call_and_as_no_chat(team: Team) -> None:
    def counts() -> list[float]:
        of_call = ("ok", "api_error", "invalid_arguments")
        of_chat = ("action_offers_total", "action_rounds_count")
        return [
            *(team.counted("action_calls_total", set="atlas", outcome=outcome) for outcome in of_call),
            team.counted("action_call_seconds_count"),
            sum(team.counted(name) for name in of_chat),
        ]

    def run(**body: Any) -> httpx.Response:
        path = "/v1/actions/sets/atlas/operations/listUsers/run"
        headers = {"authorization": f"Bearer {team.keys['ann']}"}
        return described(httpx.post(team.served.url + path, json=body, headers=headers, timeout=60))

    def counted_by(reply: httpx.Response) -> list[float]:
        team.line(reply)  # written after the count
        return [after - before for after, before in zip(counts(), began, strict=True)]

    began = counts()
    assert counted_by(run(arguments={"orgId": ORG}, dry=True)) == [0, 0, 0, 0, 0]
    reply = run(arguments={"orgId": ORG})
    assert counted_by(reply) == [1, 0, 0, 1, 0]
    assert " actions=atlas/listUsers calls=1 " in team.line(reply)
    reply = run(arguments={})
    assert (reply.status_code, counted_by(reply)) == (400, [1, 0, 1, 1, 0])
    assert " calls=1 without_result=invalid_arguments " in team.line(reply)
    reply = run(arguments={"orgId": "unknown"})
    assert counted_by(reply) == [1, 1, 1, 2, 0]
    assert "unknown" not in team.line(reply)


@pytest.mark.parametrize("key", [name for name in LIMITED if name.startswith(("tokens", "dollars"))])
def test_a_limit_that_is_used_up_ends_the_chat_before_the_next_round(team: Team, key: str) -> None:
    """The reply is an ordinary 429; after a text of a stream, an error in the stream."""
    stream = key != key.split(maxsplit=1)[0]
    said = "Let me look." if key.endswith("text") else None
    model = team.script(calls(ORGS, text=said), calls(USERS), says(ANSWER), usage=LARGE)
    more: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    reply = team.ask(QUESTION, key=key, **more)
    assert len(model.received) == 1
    assert team.api.seen == ["GET /orgs"]
    assert (reply.status_code == 200) is (said is not None)
    error = json.loads(reply.text.rpartition("data: ")[2])["error"] if said else reply.json()["error"]
    assert error["code"] == "insufficient_quota"
    assert "[DONE]" not in reply.text
    row = team.usage(key)
    assert (row["requests"], row["prompt_tokens"], row["completion_tokens"]) == (1, 5000, 10)
    assert row["cost_usd"] == pytest.approx(5000 * 2.5e-6 + 10 * 1e-5)
    assert "error='insufficient_quota'" in team.line(reply)
    assert team.ask(QUESTION, key=key).status_code == 429, "the used tokens stay used"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", ["messages", "responses"])
def test_a_limit_has_the_form_of_the_clients_dialect(team: Team, dialect: str, stream: bool) -> None:
    key, client = f"{dialect} stream" if stream else dialect, CLIENTS[f"/v1/{dialect}"]
    model = team.script(calls(ORGS), says(ANSWER), usage=LARGE)
    body = client.body("rage/atlas/gpt-4o", QUESTION, stream=stream)
    reply = client.post(team.served.url, body, team.keys[key])
    assert len(model.received) == 1
    assert reply.status_code == 429
    assert "tokens a day" in client.error_of(reply.content)[1]
    row = team.usage(key)
    assert (row["requests"], row["prompt_tokens"]) == (1, 5000)


def test_a_chat_that_is_refused_before_the_first_round_has_a_receipt(team: Team) -> None:
    team.script()
    reply = team.ask(QUESTION, key="nothing")
    assert reply.status_code == 429
    actions = team.receipt(reply, "nothing")["actions"]
    assert (actions["offer"], actions["rounds"], actions["answered_by"]) == ("offered", [], "")


def test_parallel_chats_use_no_round_more_than_the_limit(team: Team) -> None:
    model = team.script(*[calls(ORGS)] * 30, usage=LARGE)
    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda _: team.ask(QUESTION, key="parallel"), range(4)))
    assert {reply.status_code for reply in replies} == {429}
    assert team.usage("parallel")["prompt_tokens"] == 5000 * len(model.received)
    assert 4 <= len(model.received) <= 4 + 3, "at most the running calls go beyond the limit"


def test_the_rounds_of_a_chat_are_a_single_request_with_the_price_of_all(team: Team) -> None:
    team.script(calls(ORGS), calls(USERS), says(ANSWER), usage=LARGE)
    assert team.ask(QUESTION, key="enough").status_code == 200
    row = team.usage("enough")
    assert (row["requests"], row["prompt_tokens"], row["completion_tokens"]) == (1, 3 * 5000, 3 * 10)
    assert row["cost_usd"] == pytest.approx(3 * (5000 * 2.5e-6 + 10 * 1e-5))
    query = "SELECT max(amount) FROM spent JOIN keys ON keys.id = spent.key WHERE name = 'enough'"
    with SqlAccounts(team.served.data).reading() as sql:
        found = sql.execute(text(query))
        assert found.scalar() == round(row["cost_usd"] * NANO)
