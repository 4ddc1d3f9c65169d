"""Shadow comparisons over the wire: the reply is what it would be without one, and what they cost is nobody's.

One gateway with keys and an upstream that tells passages from none; it answers raw requests when a test lets it.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from proxy.access.sql import SqlAccounts
from proxy.caller import EVERYTHING, Names, Rights
from proxy.dialects.replies import Tokens
from proxy.observe.shadow.comparison import Comparison, comparison_from
from runtime.record_store import RecordStore
from tests.support.completions import question_of, streamed
from tests.support.copies import copied
from tests.support.dialect_clients import BY_DIALECT, CHAT_CLIENT, CLIENTS, DialectClient
from tests.support.gateway import Served, ragway, serving
from tests.support.recording_upstream import Recorder, recording
from tests.support.upstream_servers import Received, Wire, head, reply
from tests.wire.raw_calls import PATIENCE_S, QUESTION, calling, chat, post, until

pytestmark = pytest.mark.models

SETTINGS = """
bench: {{at_once: 2{more}}}
models:
  gpt-4o: {{api_base: "{upstream}/v1", api_key_env: KEY_OF_THE_UPSTREAM}}
  gpt-4o-mini: {{api_base: "{upstream}/v1", api_key_env: KEY_OF_THE_UPSTREAM}}
  chats: {{model: gpt-4o, api_base: "{upstream}/v1", api_key_env: KEY_OF_THE_UPSTREAM, dialects: [chat]}}
"""
_PASSAGES = b"passages below"
_JSON, _EVENTS = b"content-type: application/json", b"content-type: text/event-stream"
OF_EACH = ("x-rag-id", "server-timing", "x-rag-compare")


class Model:
    """The upstream: says what it was shown; `raw` is set where it may answer without passages."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.raw, self.left = threading.Event(), threading.Event()
        self.fresh()

    def fresh(self) -> None:
        self.recorder.fresh().answer = self.answer
        self.raw.set()
        self.left.clear()

    def asked(self, *, raw: bool) -> list[Received]:
        return [one for one in self.recorder.requests if (_PASSAGES not in one.body) == raw]

    async def answer(self, wire: Wire, received: Received) -> None:
        raw = _PASSAGES not in received.body
        if b'\\"better\\"' in received.body:  # a judge's
            prompt = question_of(received)
            first = prompt.index("zephyr-kt") < prompt.index("I do not know")
            await wire.send(streamed('{"better": "first"}' if first else '{"better": "second"}'))
            return
        if raw and not self.raw.is_set():
            await self._until_let(wire)
        text = "I do not know." if raw else "Depend on zephyr-kt."
        asked, client = orjson.loads(received.body), CLIENTS[received.line.split()[1].decode()]
        if asked.get("temperature") == 9:
            await wire.send(reply(b'{"error": {"message": "no"}}', _JSON, status=b"400 Bad Request"))
        elif asked.get("stream"):
            await wire.send(client.stream(*(word + " " for word in text.split()), tokens=None))
        else:
            await wire.send(client.reply(text, Tokens(100, 20)))

    async def _until_let(self, wire: Wire) -> None:
        """Wait for `raw`. Raises ConnectionResetError where the gateway leaves before."""
        leaving = asyncio.ensure_future(wire.gone())
        letting = asyncio.ensure_future(asyncio.to_thread(self.raw.wait, PATIENCE_S))
        await asyncio.wait({leaving, letting}, return_when=asyncio.FIRST_COMPLETED)
        if leaving.done():
            self.left.set()
            self.raw.set()  # for the thread
            raise ConnectionResetError
        leaving.cancel()


class House:
    """A gateway, its keys and its upstream."""

    def __init__(self, served: Served, model: Model, secrets: dict[str, str]) -> None:
        self.served = served
        self.model = model
        self.secrets = secrets

    def headers(self, rag: str, key: str = "root") -> dict[str, str]:
        return {"x-rag": rag, **({"authorization": f"Bearer {self.secrets[key]}"} if self.secrets else {})}

    def ask(
        self,
        rag: str,
        key: str = "root",
        model: str = "gpt-4o",
        client: DialectClient = CHAT_CLIENT,
        **fields: object,
    ) -> httpx.Response:
        headers = {**self.headers(rag, key), "idempotency-key": "once"}
        return client.post(self.served.url, client.body(model, QUESTION, **fields), headers=headers)

    def kept(self, id: str) -> Comparison:
        return kept(self.served, id)

    def get(self, path: str, key: str) -> httpx.Response:
        return httpx.get(self.served.url + path, headers=self.headers("on", key), timeout=PATIENCE_S)


def kept(served: Served, id: str) -> Comparison:
    """The comparison of a chat, once it is written."""
    shelf = RecordStore(served.data, keep_s=1e9, max_bytes=1 << 30, kind="comparisons")
    try:
        until("it is kept", lambda: shelf.read(id) is not None)
        return comparison_from(shelf.read(id) or b"")
    finally:
        shelf.close()


@pytest.fixture(scope="module")
def keyless(learned: Callable[[], Path]) -> Path:
    """A data folder with the corpus."""
    return learned()


@pytest.fixture(scope="module")
def _house(keyless: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("live")
    data = copied(keyless, folder / "data")
    accounts = SqlAccounts(data)
    reads = Rights(Names(["docs"]), Names(), Names(["gpt-4o"]), None)
    secrets = {
        name: accounts.create(name, of)[1]
        for name, of in (("root", EVERYTHING), ("payer", EVERYTHING), ("user", reads))
    }
    with recording() as upstream:
        settings = SETTINGS.format(upstream=upstream.url, more="")
        with serving(data, folder, settings, KEY_OF_THE_UPSTREAM="sk-upstream") as served:
            yield House(served, Model(upstream), secrets)


@pytest.fixture
def house(_house: House) -> House:
    _house.model.fresh()
    return _house


@BY_DIALECT
@pytest.mark.parametrize("fields", [{}, {"stream": True}, {"temperature": 9}])
def test_the_reply_is_that_of_a_request_with_passages(
    house: House, client: DialectClient, fields: dict[str, Any]
) -> None:
    plain, compared = (house.ask(rag, client=client, **fields) for rag in ("on", "compare"))
    assert compared.headers["x-rag-compare"] == "taken"
    assert "x-rag-compare" not in plain.headers
    assert compared.content == plain.content
    assert compared.status_code == plain.status_code == (400 if fields.get("temperature") else 200)

    def told(one: httpx.Response) -> list[tuple[str, str]]:
        return [pair for pair in one.headers.multi_items() if pair[0] not in OF_EACH]

    assert told(compared) == told(plain)
    one = house.kept(compared.headers["x-rag-id"])
    assert [turn.text for turn in one.turns] == [QUESTION]
    assert (one.asked, one.collections, one.model) == (True, ["docs"], "gpt-4o")
    if one.rag.error is None:
        assert one.rag.answer is not None
        assert one.rag.answer.strip() == "Depend on zephyr-kt."
        assert (one.raw.answer or "").strip() == "I do not know."
        assert one.rag.tokens.estimated == bool(fields.get("stream"))
        assert one.rag.cost_usd is not None
    else:
        assert (one.rag.error, one.raw.error) == ("no", "no")


@BY_DIALECT
def test_the_raw_request_is_that_of_a_client_without_passages(house: House, client: DialectClient) -> None:
    house.ask("off", client=client, stream=True)
    house.kept(house.ask("compare", client=client, stream=True).headers["x-rag-id"])
    own, raw = house.model.asked(raw=True)
    assert raw.body == own.body
    assert raw.line == own.line
    once = {b"idempotency-key", b"accept-encoding"}
    assert raw.headers == [pair for pair in own.headers if pair[0] not in once]
    key = raw.header(client.dialect.key_header) or b""
    assert key.removeprefix(b"Bearer ") == b"sk-upstream"


def test_nobody_waits_for_a_raw_answer(house: House) -> None:
    """Not the chat that it is of, nor others; and where two hang, a third is not asked for."""
    house.model.raw.clear()
    busy = counted_as(house, "busy")
    replies = [house.ask("compare") for _ in range(3)]
    assert [one.headers["x-rag-compare"] for one in replies] == ["taken", "taken", "busy"]
    assert {one.status_code for one in replies} == {200}
    assert house.ask("on").status_code == 200
    until("both are asked", lambda: len(house.model.asked(raw=True)) == 2)
    assert counted_as(house, "busy") == busy + 1
    house.model.raw.set()
    for one in replies[:2]:
        assert house.kept(one.headers["x-rag-id"]).raw.error is None


def test_a_client_that_leaves_is_compared_with_nothing(house: House) -> None:
    unfinished = counted_as(house, "unfinished")
    begun, end = threading.Event(), threading.Event()

    async def hangs(wire: Wire, _received: Received) -> None:
        await wire.send(head(_EVENTS, b"transfer-encoding: chunked"), b"6\r\ndata: \r\n")
        begun.set()
        await wire.gone()
        end.set()
        raise ConnectionResetError

    house.model.recorder.answer = hangs
    with calling(house.served) as caller:
        headers = [b"%b: %b" % (k.encode(), v.encode()) for k, v in house.headers("compare").items()]
        caller.send(post(chat("gpt-4o", stream=True), *headers))
        caller.head()
        assert begun.wait(PATIENCE_S)
        caller.leave("RST")
    assert end.wait(PATIENCE_S)
    until("it is counted", lambda: counted_as(house, "unfinished") == unfinished + 1)
    assert house.model.asked(raw=True) == []


def test_what_it_costs_is_nobodys(house: House) -> None:
    model = "gpt-4o-mini"  # that no other test asks for: what they cost is written whenever it is

    def used(key: str) -> list[tuple[int, int]]:
        rows = house.get(f"/v1/admin/usage?by=key,model&key={key}", "root").json()["data"]
        return [(row["requests"], row["prompt_tokens"]) for row in rows if row["model"] == model]

    (payer,) = [one["id"] for one in house.get("/v1/admin/keys", "root").json()["data"] if one["name"] == "payer"]
    house.ask("on", key="payer", model=model)
    house.kept(house.ask("compare", key="payer", model=model).headers["x-rag-id"])
    until("usage is written", lambda: used("comparisons") == [(1, 100)])
    until("usage is written", lambda: used(payer) == [(2, 200)])
    (own,) = house.get("/v1/usage", "payer").json()["data"]
    assert (own["requests"], own["prompt_tokens"]) == (2, 200)


def test_a_judge_reads_them_beside_the_running_gateway(house: House) -> None:
    one = house.kept(house.ask("compare").headers["x-rag-id"])
    folder, data = house.served.log.parent, str(house.served.data)
    words = ("bench", "live", "--data", data, "--config", str(folder / "ragway.yaml"), "--json")
    environ = {"RAGWAY_BENCH_KEY": house.secrets["root"], "KEY_OF_THE_UPSTREAM": "sk-upstream"}
    done = ragway(
        *words, "--model", "gpt-4o", "--max-usd", "1", "--set", "max_tokens=99", "--yes", folder=folder, environ=environ
    )
    assert done.returncode == 0, done.stderr
    told = orjson.loads(done.stdout)
    assert "gpt-4o is asked" in done.stderr
    assert told["judged"] == told["groups"][0]["both"] > 0
    assert told["groups"][0]["preference"]["word"] in ("better", "undecided"), "few of them may not be enough"
    assert told["groups"][0]["preference"]["change"]["mean"] == 1.0
    assert told["groups"][0]["name"] == ""
    assert {group["name"] for group in told["groups"] if group["of"] == "collection"} == {"docs"}
    keys = sorted(group["name"].partition(" (key-")[0] for group in told["groups"] if group["of"] == "key")
    assert keys == ["payer", "root"]
    assert [each["order"] for each in house.kept(one.id).judged] == [0, 1]


@BY_DIALECT
@pytest.mark.parametrize("stream", [False, True])
def test_an_upstream_that_is_asked_by_a_chat_completion_is_compared_too(
    house: House, client: DialectClient, stream: bool
) -> None:
    compared = house.ask("compare", client=client, model="chats", stream=stream)
    assert (compared.status_code, compared.headers["x-rag-compare"]) == (200, "taken")
    assert client.answer_of(compared).strip() == "Depend on zephyr-kt."
    one = house.kept(compared.headers["x-rag-id"])
    assert [(side.answer or "").strip() for side in (one.rag, one.raw)] == ["Depend on zephyr-kt.", "I do not know."]
    assert {request.line.split()[1].decode() for request in house.model.recorder.requests} == {CHAT_CLIENT.path}


@BY_DIALECT
def test_a_key_that_may_not_ask_is_answered_as_usual(house: House, client: DialectClient) -> None:
    reply = house.ask("compare", key="user", client=client)
    assert (reply.status_code, reply.headers["x-rag-compare"]) == (200, "not allowed")
    assert reply.headers["x-rag-status"] == "augmented"
    assert house.model.asked(raw=True) == []


def test_neither_the_log_nor_another_user_of_the_machine_sees_the_answers(house: House) -> None:
    house.kept(house.ask("compare").headers["x-rag-id"])
    assert (house.served.data / "receipts.db").stat().st_mode & 0o777 == 0o600
    log = house.served.log.read_text()
    assert "zephyr-kt" not in log
    assert "Traceback" not in log


def test_a_share_of_the_traffic_without_keys_and_the_end_of_the_gateway(keyless: Path, tmp_path: Path) -> None:
    with recording() as upstream:
        model = Model(upstream)
        settings = SETTINGS.format(upstream=upstream.url, more=", shadow: 1.0, compare: off")
        with serving(keyless, tmp_path, settings, KEY_OF_THE_UPSTREAM="sk-upstream") as served:
            house = House(served, model, {})
            drawn = house.ask("on")
            assert "x-rag-compare" not in drawn.headers
            assert not house.kept(drawn.headers["x-rag-id"]).asked
            assert house.ask("off").headers["x-rag-status"] == "off"
            model.raw.clear()
            asked = len(model.asked(raw=True))
            left = house.ask("on").headers["x-rag-id"]
            until("it is asked", lambda: len(model.asked(raw=True)) == asked + 1)
            assert served.stop() == 0
            assert model.left.wait(PATIENCE_S)
            assert "Traceback" not in served.log.read_text()
    shelf = RecordStore(keyless, keep_s=1e9, max_bytes=1 << 30, kind="comparisons")
    assert [comparison_from(row).id for row in shelf.every()] == [drawn.headers["x-rag-id"]]
    assert shelf.read(left) is None
    shelf.close()


@pytest.mark.parametrize("stream", [False, True])
def test_the_translated_lane_is_compared_too(lanes: Served, stream: bool) -> None:
    reply = lanes.ask(QUESTION, headers={"x-rag": "compare"}, model="translated/gpt", stream=stream)
    assert (reply.status_code, reply.headers["x-rag-compare"]) == (200, "taken")
    one = kept(lanes, reply.headers["x-rag-id"])
    assert (one.rag.error, one.raw.error) == (None, None)
    shown = [answer is not None and "passages below" in answer for answer in (one.rag.answer, one.raw.answer)]
    assert shown == [True, False], "it answers with what it was sent"
    assert one.rag.first_ms is not None
    assert one.rag.first_ms > 0


def counted_as(house: House, outcome: str) -> float:
    """Of the comparisons."""
    reply = house.get("/metrics", "root")
    line = next(line for line in reply.text.splitlines() if f'comparisons_total{{outcome="{outcome}"}}' in line)
    return float(line.rpartition(" ")[2])
