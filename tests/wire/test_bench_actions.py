"""`ragway bench` beside operations of APIs: the ceiling holds over all calls, and raw keeps the operations."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.action_team import ANSWER, ORGS, QUESTION, SETTINGS, Team, action_team
from tests.support.gateway import ragway
from tests.support.scripted_model import calls, says
from tests.support.upstream_servers import Received, Wire, chunked, head


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    with action_team(tmp_path_factory.mktemp("actions")) as team:
        yield team


class HungryModel:
    """Calls an operation in every round that allows calls; a token of its tokenizer is a byte."""

    def __init__(self) -> None:
        self.tokens = 0
        self.requests = 0
        self.dollars = 0.0

    async def answer(self, wire: Wire, received: Received) -> None:
        asked = json.loads(received.body)
        used = len(received.body) + 40
        self.tokens, self.requests = self.tokens + used, self.requests + 1
        self.dollars += len(received.body) * 1e-6 + 40 * 2e-6
        function = {"name": ORGS[0], "arguments": "{}"}
        call = {"tool_calls": [{"index": 0, "id": f"call_{self.requests}", "type": "function", "function": function}]}
        forced = asked.get("tool_choice") == "none" or not asked.get("tools")
        delta, finish = ({"content": ANSWER}, "stop") if forced else (call, "tool_calls")
        usage = {"prompt_tokens": len(received.body), "completion_tokens": 40, "total_tokens": used}
        rows = [
            {"choices": [{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
            {"choices": [], "usage": usage},
        ]
        frames = [b"data: " + json.dumps(row).encode() + b"\n\n" for row in rows] + [b"data: [DONE]\n\n"]
        start = head(b"content-type: text/event-stream", b"transfer-encoding: chunked")
        await wire.send(start, *chunked(frames))


def arguments(folder: Path, team: Team, questions: int, *more: str) -> list[str]:
    file = folder / "questions.jsonl"
    rows = [{"question": f"{QUESTION} ({n})", "must": ["Ann"], "group": str(n)} for n in range(questions)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = ("--model", "rage/atlas/gpt-x", "--price", "rage/atlas/gpt-x=1,2", "--set", "max_tokens=50")
    at = ("--base-url", team.served.url + "/v1", "--run", str(folder / "run"), "--yes", "--concurrency", "2")
    return ["bench", str(file), *model, *at, *more]


@pytest.mark.parametrize("ceiling", [("--max-tokens", "120000"), ("--max-usd", "0.08")], ids=["tokens", "dollars"])
def test_a_ceiling_holds_over_all_calls_of_the_model(team: Team, tmp_path: Path, ceiling: tuple[str, str]) -> None:
    model = HungryModel()
    team.answered_by(model.answer)
    done = ragway(*arguments(tmp_path, team, 12, "--mode", "raw", *ceiling), folder=tmp_path)
    assert "the ceiling does not allow for another request" in done.stderr, done.stderr
    assert model.requests > 4, "the model was asked again after its calls"
    spent = model.tokens if ceiling[0] == "--max-tokens" else model.dollars
    assert spent <= float(ceiling[1])


def test_a_ceiling_below_the_worst_case_of_all_calls_is_refused_and_the_estimate_says_why(
    team: Team, tmp_path: Path
) -> None:
    model = HungryModel()
    team.answered_by(model.answer)
    done = ragway(*arguments(tmp_path, team, 2, "--mode", "raw", "--max-tokens", "5000"), folder=tmp_path)
    assert (done.returncode, model.requests) == (1, 0)
    assert "too small for one request" in done.stderr
    told = ragway(*arguments(tmp_path, team, 2, "--mode", "raw"), folder=tmp_path)
    assert "an answer may take 7 calls of the model" in told.stderr, told.stderr
    most = re.search(r"at most ([\d,]+) tokens", told.stderr)
    assert most is not None
    assert model.tokens <= int(most[1].replace(",", ""))


def test_without_passages_a_variant_keeps_the_operations(offering: Team, tmp_path: Path) -> None:
    offering.script(*[turn for _ in range(2) for turn in (calls(ORGS), says(ANSWER))])
    more = ("--mode", "raw", "--model", "gpt-x", "--concurrency", "1")
    args = [word for word in arguments(tmp_path, offering, 2, *more) if word not in ("--price", "rage/atlas/gpt-x=1,2")]
    args.remove("rage/atlas/gpt-x")
    args.remove("--model")
    done = ragway(*args, folder=tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "run" / "replies.jsonl").read_text().splitlines()]
    assert [row["variant"] for row in rows] == ["gpt-x raw max_tokens=50"] * 2, done.stderr
    assert all(row["rag"]["actions"] == ["atlas/listOrganizations"] for row in rows)
    assert "2 of 2 answers called operations of APIs" in done.stdout


@pytest.mark.parametrize(("header", "ran"), [("on", True), ("", False), ("off", False)])
def test_the_sets_of_the_settings_stay_with_retrieval_off_where_the_client_says_so(
    offering: Team, header: str, *, ran: bool
) -> None:
    offering.script(calls(ORGS), says(ANSWER)) if ran else offering.script(says(ANSWER))
    headers = {"x-rag": "off", **({"x-rag-actions": header} if header else {})}
    body = {"model": "gpt-x", "messages": [{"role": "user", "content": QUESTION}]}
    reply = httpx.post(f"{offering.served.url}/v1/chat/completions", json=body, headers=headers, timeout=60)
    assert reply.json()["choices"][0]["message"]["content"] == ANSWER
    assert ("x-rag-actions" in reply.headers) is ran


def test_a_comparison_says_that_the_chat_has_operations(offering: Team) -> None:
    offering.script(says(ANSWER))
    body = {"model": "gpt-x", "messages": [{"role": "user", "content": QUESTION}]}
    headers = {"x-rag": "compare"}
    reply = httpx.post(f"{offering.served.url}/v1/chat/completions", json=body, headers=headers, timeout=60)
    assert reply.headers["x-rag-compare"] == "has operations"


@pytest.fixture(scope="module")
def offering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """A gateway that offers the operations in every chat."""
    settings = SETTINGS.replace("    auth: digest\n", "    auth: digest\n    offer: true\n", 1)
    with action_team(tmp_path_factory.mktemp("offering"), settings) as team:
        yield team


@pytest.mark.parametrize(("most", "status"), [("2000000", 200), ("500", 400), ("none", 400), ("0", 400)])
def test_a_chat_with_operations_ends_below_its_own_ceiling(team: Team, most: str, status: int) -> None:
    team.script(calls(ORGS), says(ANSWER))
    body = {"model": "rage/atlas/gpt-x", "max_tokens": 100, "messages": [{"role": "user", "content": QUESTION}]}
    headers = {"x-rag-max-tokens": most}
    reply = httpx.post(f"{team.served.url}/v1/chat/completions", json=body, headers=headers, timeout=60)
    assert reply.status_code == status, reply.text
    if status == 400:
        assert "x-rag-max-tokens" in reply.json()["error"]["message"]
