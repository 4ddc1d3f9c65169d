"""Whatever clients, faults and crashes do to confirmations: a write arrives only if confirmed, and only once.

A state machine over HTTP. Each question asks to set labels that no other question asks for, so each request that
arrives at the shop belongs to one question. The machine knows which labels a person has confirmed, and compares after
each step.

with fleet(folder) as gateways:
    play(gateways, steps=200, number=1)
"""

import contextlib
import functools
import itertools
import json
import random
import re
import sqlite3
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tests.support.gateway import Served, ragway, serving
from tests.support.recording_upstream import recording
from tests.support.scripted_model import body_of, calls, says
from tests.support.shop_api import ShopApi, document, shop_api
from tests.support.upstream_servers import Received, Wire, reply

Json = dict[str, Any]
_CODE = re.compile(r"\b[A-Z2-7]{4}-[A-Z2-7]{4}\b")
_WRITE = re.compile(r"order (\d+) to (L\d+)")
_GUESSES = 5
_ORDERS = (17, 18, 19, 20, 21)
_PEOPLE = ("ann", "ben")
_KNOWN_AFTER_S = 15.0  # until all workers know a changed document
_SETTLED = 12  # answers in a row, of several workers
_EVERY = 150  # steps between two that take seconds
_SETTINGS = """
embedder: {{model: hash}}
models: {{gpt-x: {{api_base: "{model}/v1"}}}}
server: {{workers: {workers}}}
{more}
actions:
  shop: {{base_url: "{shop}", networks: ["127.0.0.0/8"], writes: auto, always: [setLabel]}}
"""


async def model(wire: Wire, received: Received) -> None:
    """Call what the newest question asks for; after results, repeat them, but not that a call was given up."""
    asked = json.loads(received.body)
    messages = asked["messages"]
    newest = max(at for at, one in enumerate(messages) if one["role"] == "user")
    results = [str(one["content"]) for one in messages[newest:] if one["role"] == "tool"]
    given_up = bool(results) and all(one.startswith("Given up") for one in results)
    wanted = [] if results else _WRITE.findall(str(messages[newest]["content"]))
    if wanted:
        message = calls(*(("act_setLabel", {"orderId": id, "body": label}) for id, label in wanted))
    else:
        message = says("Results: " + " | ".join(results) if results and not given_up else "Hello.")
    await wire.send(reply(body_of(asked, message)[0], b"content-type: application/json"))


@dataclass(slots=True)
class Fleet:
    """Gateways over one record of writes, the shop, and the keys."""

    shop: ShopApi
    replicas: list[Served]
    restart: Callable[[int], Served]  # after kill -9
    expire: Callable[[], None]  # all codes so far
    keys: dict[str, str]
    folder: Path
    environ: dict[str, str]
    client: httpx.Client  # a connection for each request: any worker may answer
    asked: Iterator[int] = field(default_factory=itertools.count)
    steps: int = 0
    slow_at: int = 0  # the step of the newest slow rule
    counts: Counter[str] = field(default_factory=Counter)  # what happened
    revision: int = 0
    faults: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)  # of the keys, at the gateway
    changed_s: float = 0.0  # when the document was changed

    def chat(self, replica: int, key: str, person: str, messages: Sequence[Json]) -> httpx.Response:
        """One request."""
        headers = {"authorization": f"Bearer {self.keys[key]}", "x-rag-user": person}
        body = {"model": "rage/shop/gpt-x", "messages": list(messages)}
        url = self.replicas[replica % len(self.replicas)].url
        return self.client.post(f"{url}/v1/chat/completions", json=body, headers=headers)

    def change_document(self, replica: int) -> None:
        """Another revision of the operation."""
        self.revision += 1
        given = document(self.shop.url)
        given["paths"]["/orders/{orderId}/label"]["put"]["summary"] = f"Set the label, revision {self.revision}"
        url = f"{self.replicas[replica % len(self.replicas)].url}/v1/actions/sets/shop"
        headers = {"authorization": f"Bearer {self.keys['admin']}"}
        self.client.put(url, json=given, headers=headers).raise_for_status()
        self.changed_s = time.monotonic()

    def make_key(self, name: str) -> None:
        """A key that may write."""
        rights = ("--admin", "--write", "*", "--read", "*") if name == "admin" else ("--act", "shop:*")
        self.names[name] = f"{name}-{len(self.names)}-{self.steps}"
        words = ("keys", "create", self.names[name], "--model", "*", *rights, "--data", str(self.folder / "data"))
        done = ragway(*words, folder=self.folder, environ=self.environ)
        assert done.returncode == 0, done.stderr
        self.keys[name] = done.stdout.strip()

    def revoke(self, name: str) -> None:
        """Revoke a key; returns once all replicas refuse it."""
        headers = {"authorization": f"Bearer {self.keys['admin']}"}
        url = self.replicas[0].url
        listed = self.client.get(f"{url}/v1/admin/keys", headers=headers).json()
        (id,) = (one["id"] for one in listed["data"] if one["name"] == self.names[name])
        self.client.delete(f"{url}/v1/admin/keys/{id}", headers=headers).raise_for_status()
        self.settle(name, 401)

    def settle(self, name: str, status: int) -> None:
        """Return once all workers answer the key so: each worker learns of a change within seconds."""
        row = 0
        for number in itertools.count():
            answered = self.chat(number, name, "ann", [{"role": "user", "content": "Hello."}]).status_code
            row = row + 1 if answered == status else 0
            if row == _SETTLED:
                return


@contextlib.contextmanager
def fleet(folder: Path, postgres: str = "", qdrant: str = "") -> Iterator[Fleet]:
    """Two workers over one data folder; or two gateways over the databases at these addresses."""
    with shop_api(folder / "shop.db") as shop, recording() as recorder, contextlib.ExitStack() as stack:
        recorder.answer = model
        more = f'qdrant: {{url: "{qdrant}"}}' if qdrant else ""
        workers = 1 if postgres else 2
        text = _SETTINGS.format(model=recorder.url, shop=shop.url, workers=workers, more=more)
        environ = {"RAGWAY_CATALOG__URL": postgres} if postgres else {}
        (folder / "data").mkdir()
        (folder / "ragway.yaml").write_text(text, "utf-8")
        (folder / "shop.json").write_text(json.dumps(document(shop.url)), "utf-8")

        def start(number: int) -> Served:
            home = folder / f"replica{number}"
            home.mkdir(exist_ok=True)
            data = folder / "data" if number == 0 else home / "data"
            data.mkdir(exist_ok=True)
            return stack.enter_context(serving(data, home, text, **environ))

        def expire() -> None:
            with contextlib.closing(sqlite3.connect(folder / "data" / "writes.db")) as sql, sql:
                sql.execute("UPDATE writes SET expires_s = created_s WHERE state = 'pending'")

        def expire_there() -> None:
            import sqlalchemy

            engine = sqlalchemy.create_engine(postgres.replace("postgresql://", "postgresql+psycopg://", 1))
            with engine.begin() as sql:
                sql.execute(sqlalchemy.text("UPDATE writes SET expires_s = created_s WHERE state = 'pending'"))
            engine.dispose()

        limits = httpx.Limits(max_keepalive_connections=0)
        client = stack.enter_context(httpx.Client(timeout=60, limits=limits))
        made = Fleet(shop, [], start, expire_there if postgres else expire, {}, folder, environ, client)
        for name in ("admin", "agent", "other"):
            made.make_key(name)
        words = ("actions", "add", "shop", "shop.json", "--data", "data")
        added = ragway(*words, folder=folder, environ=environ)
        assert added.returncode == 0, added.stderr
        made.replicas += [start(number) for number in range(2 if postgres else 1)]
        yield made


@dataclass(slots=True)
class Talk:
    """A conversation whose newest reply is a confirmation."""

    key: str
    person: str
    messages: list[Json]  # up to the confirmation
    code: str
    labels: list[str]
    revision: int
    sure: bool = True  # False: shown within seconds of a change, of which the other worker may not know
    waits: bool = True  # the right code line does the writes
    wrong: int = 0
    confirmed: Json | None = None  # the code line that did the writes

    def line(self, numbers: Sequence[int] = ()) -> Json:
        """The message that confirms."""
        chosen = " " + ",".join(map(str, numbers)) if numbers else ""
        return {"role": "user", "content": f"confirm {self.code}{chosen}"}


def _noted(body: Callable[..., None]) -> Callable[..., None]:
    """A rule that notes the first fault: hypothesis may tell of a flaky test alone."""

    @functools.wraps(body)
    def rule_body(self: "Machine", **drawn: Any) -> None:
        try:
            body(self, **drawn)
        except AssertionError:
            self.gateways.faults.append(f"after {self.gateways.steps} steps: {drawn}\n{traceback.format_exc()}")
            raise

    return rule_body


class Machine(RuleBasedStateMachine):
    """Conversations, and what is done to them. `gateways` is set by `play`.

    No rule has a precondition: what a rule may do depends on the clock and on the gateways, and hypothesis needs rules
    that do not. A rule without anything to do does nothing.
    """

    gateways: Fleet

    def __init__(self) -> None:
        super().__init__()
        self.talks: list[Talk] = []
        self.expected: Counter[str] = Counter()  # labels that must have arrived
        self.possible: set[str] = set()  # confirmed labels of which nobody knows
        self.gateways.shop.fresh()

    @property
    def shop(self) -> ShopApi:
        return self.gateways.shop

    # --- rules --------------------------------------------------------------------------------------------------------

    @rule(
        key=st.sampled_from(["agent", "other"]),
        person=st.sampled_from(_PEOPLE),
        writes=st.integers(1, 3),
        replica=st.integers(0, 1),
    )
    @_noted
    def ask(self, key: str, person: str, writes: int, replica: int) -> None:
        self._ask(key, person, writes, replica)

    def _ask(self, key: str, person: str, writes: int, replica: int) -> None:
        labels = [f"L{next(self.gateways.asked)}" for _ in range(writes)]
        wanted = " and ".join(f"order {_ORDERS[at]} to {label}" for at, label in enumerate(labels))
        messages: list[Json] = [{"role": "user", "content": f"Set the label of {wanted}"}]
        text = self._text(self.gateways.chat(replica, key, person, messages))
        codes = dict.fromkeys(_CODE.findall(text))
        assert len(codes) == 1, f"no code in {text!r}"
        assert all(label in text for label in labels), text
        (code,) = codes
        labels.sort(key=text.index)  # numbered as shown
        messages.append({"role": "assistant", "content": text})
        sure = time.monotonic() > self.gateways.changed_s + _KNOWN_AFTER_S
        self.talks.append(Talk(key, person, messages, code, labels, self.gateways.revision, sure))
        self._step("ask")

    @rule(at=st.integers(0), replica=st.integers(0, 1), chosen=st.sets(st.integers(1, 3)))
    @_noted
    def confirm(self, at: int, replica: int, chosen: set[int]) -> None:
        talk = self._talk(at)
        numbers = sorted(one for one in chosen if one <= len(talk.labels))
        text = self._text(self._send(talk, replica, talk.line(numbers)))
        if self._may(talk) and not talk.sure and "Results:" not in text:
            talk.waits = False
            self._step("changed in between")
        elif self._may(talk):
            labels = [talk.labels[one - 1] for one in numbers] or talk.labels
            self._confirmed(talk, labels, talk.line(numbers))
            assert "Results:" in text, text
            self._step("confirmed")
        else:
            assert "Results:" not in text, text
            self._step("confirmed in vain")

    @rule(at=st.integers(0), replica=st.integers(0, 1))
    @_noted
    def wrong_code(self, at: int, replica: int) -> None:
        talk = self._talk(at)
        self._denied(self._send(talk, replica, {"role": "user", "content": "confirm WRNG-2345"}))
        if self._may(talk):
            talk.wrong += 1
            talk.waits = talk.wrong < _GUESSES
        self._step("wrong code")

    @rule(at=st.integers(0), replica=st.integers(0, 1))
    @_noted
    def replay(self, at: int, replica: int) -> None:
        done = [one for one in self.talks if one.confirmed]
        if not done:
            return
        talk = done[at % len(done)]
        assert talk.confirmed is not None
        self._denied(self._send(talk, replica, talk.confirmed))
        self._step("replayed")

    @rule(at=st.integers(0), replica=st.integers(0, 1))
    @_noted
    def confirm_by_another_key(self, at: int, replica: int) -> None:
        talk = self._talk(at)
        key = "other" if talk.key == "agent" else "agent"
        self._denied(self.gateways.chat(replica, key, talk.person, [*talk.messages, talk.line()]))
        self._step("another key")

    @rule(at=st.integers(0), replica=st.integers(0, 1), person=st.sampled_from(["", "eve"]))
    @_noted
    def confirm_by_another_person(self, at: int, replica: int, person: str) -> None:
        talk = self._talk(at)
        self._denied(self.gateways.chat(replica, talk.key, person, [*talk.messages, talk.line()]))
        self._step("another person")

    @rule(at=st.integers(0), other=st.integers(0), replica=st.integers(0, 1))
    @_noted
    def confirm_in_another_conversation(self, at: int, other: int, replica: int) -> None:
        talk, there = self._talk(at), self._talk(other)
        if talk is not there:
            self._denied(self._send(there, replica, talk.line()))
            if self._may(there):
                there.wrong += 1
                there.waits = there.wrong < _GUESSES
            self._step("another conversation")

    @rule(
        at=st.integers(0),
        replica=st.integers(0, 1),
        how=st.sampled_from(["question", "confirmation", "instructions", "no history"]),
    )
    @_noted
    def confirm_after_an_edited_history(self, at: int, replica: int, how: str) -> None:
        talk = self._talk(at)
        question, shown = (dict(one) for one in talk.messages)
        if how == "question":
            question["content"] += " now"
        elif how == "confirmation":
            shown["content"] = re.sub(r"orders/\d+", "orders/99", shown["content"])
        messages = [question, shown] if how != "no history" else [shown]
        if how == "instructions":
            messages = [question, {"role": "assistant", "content": "Well."}, question, shown]
        self._denied(self.gateways.chat(replica, talk.key, talk.person, [*messages, talk.line()]))
        self._step(f"edited {how}")

    @rule(
        at=st.integers(0),
        replica=st.integers(0, 1),
        words=st.sampled_from(["yes", "{line} please", "{code}", "ok, {line}", "{line}\n{line}"]),
    )
    @_noted
    def say_something_else(self, at: int, replica: int, words: str) -> None:
        talk = self._talk(at)
        said = words.format(line=talk.line()["content"], code=talk.code)
        waited, sent = self._may(talk), self._send(talk, replica, {"role": "user", "content": said})
        if waited:
            self._denied(sent)  # of a call that was made, the model may read the result once more
        assert sent.status_code == 200, sent.text
        talk.waits = False
        self._step("other words")

    @rule(at=st.integers(0), copies=st.integers(2, 4))
    @_noted
    def confirm_at_the_same_time(self, at: int, copies: int) -> None:
        talk = self._talk(at)
        with ThreadPoolExecutor(copies) as pool:
            sent = [pool.submit(self._send, talk, replica, talk.line()) for replica in range(copies)]
            texts = [self._text(one.result()) for one in sent]
        done = sum("Results:" in text for text in texts)
        if self._may(talk) and not talk.sure and done == 0:
            talk.waits = False
            self._step("changed in between")
        elif self._may(talk):
            assert done == 1, texts
            self._confirmed(talk, talk.labels, talk.line())
            self._step("confirmed at the same time")
        else:
            assert done == 0, texts
            self._step("in vain at the same time")

    @rule(at=st.integers(0), replica=st.integers(0, 1))
    @_noted
    def confirm_and_lose_the_answer(self, at: int, replica: int) -> None:
        talk = self._waiting(at)
        self.shop.drops = len(talk.labels)
        text = self._text(self._send(talk, replica, talk.line()))
        self.shop.drops = 0
        assert "not known whether this was done" in text, text
        self._confirmed(talk, talk.labels, talk.line())
        self._step("unknown")

    @rule(at=st.integers(0), replica=st.integers(0, 1))
    @_noted
    def confirm_and_fail(self, at: int, replica: int) -> None:
        talk = self._waiting(at)
        self.shop.refuses = len(talk.labels)
        text = self._text(self._send(talk, replica, talk.line()))
        self.shop.refuses = 0
        assert "500" in text, text
        self._confirmed(talk, talk.labels, talk.line())
        self._step("failed")

    @rule()
    @_noted
    def expire(self) -> None:
        if not any(map(self._may, self.talks)):
            return
        self.gateways.expire()
        for talk in self.talks:
            talk.waits = False
        self._step("expired")

    @rule(replica=st.integers(0, 1))
    @_noted
    def change_the_document(self, replica: int) -> None:
        if not self._slow():
            return
        self.gateways.change_document(replica)
        self._step("changed document", slow=True)

    @rule()
    @_noted
    def revoke_a_key(self) -> None:
        if not self._slow():
            return
        self.gateways.revoke("other")
        self.gateways.make_key("other")
        self.gateways.settle("other", 200)
        for talk in self.talks:
            talk.waits = talk.waits and talk.key != "other"
        self._step("revoked", slow=True)

    @rule(
        at=st.integers(0),
        number=st.integers(0, 1),
        moment=st.sampled_from(["before", "arrived", "any"]),
        wait_ms=st.integers(0, 40),
    )
    @_noted
    def kill_while_confirming(self, at: int, number: int, moment: str, wait_ms: int) -> None:
        if not self._slow():
            return
        fleet = self.gateways
        number %= len(fleet.replicas)
        talk = self._waiting(at)
        if moment != "before":
            self.shop.holds = moment == "arrived"
            thread = threading.Thread(target=self._lost, args=(talk, number))
            thread.start()
            if moment == "arrived":
                assert self.shop.held.acquire(timeout=60)
            else:
                thread.join(wait_ms / 1000)
            fleet.replicas[number].kill()
            self.shop.release()
            thread.join()
            talk.waits = False
            self.possible |= set(talk.labels)
        else:
            fleet.replicas[number].kill()
        fleet.replicas[number] = fleet.restart(number)
        if moment != "before":
            text = self._text(self._send(talk, number, talk.line()))  # the person tries again
            arrived = Counter(self._arrived())
            if moment == "arrived":
                assert "Results:" not in text, text
                assert arrived[talk.labels[0]] == 1
        self._step(f"killed: {moment}", slow=True)

    # --- the oracle ---------------------------------------------------------------------------------------------------

    def _may(self, talk: Talk) -> bool:
        return talk.waits and talk.revision == self.gateways.revision

    def _talk(self, at: int) -> Talk:
        """A conversation, rather one of the newest; a new one if none waits."""
        newest = self.talks[-12:]
        if not newest or (at % 2 and not any(map(self._may, newest))):
            self._ask(("agent", "other")[at % 4 // 2], _PEOPLE[at % 8 // 4], 1 + at % 3, at)
            return self.talks[-1]
        return newest[at % len(newest)]

    def _waiting(self, at: int) -> Talk:
        """A conversation that waits."""
        found = [one for one in self.talks if self._may(one) and one.sure]
        if not found:
            while time.monotonic() <= self.gateways.changed_s + _KNOWN_AFTER_S:
                self._denied(self.gateways.chat(at, "agent", "ann", [{"role": "user", "content": "Hello."}]))
            self._ask(("agent", "other")[at % 2], _PEOPLE[at % 4 // 2], 1 + at % 3, at)
            found = self.talks[-1:]
        return found[at % len(found)]

    def _send(self, talk: Talk, replica: int, message: Json) -> httpx.Response:
        return self.gateways.chat(replica, talk.key, talk.person, [*talk.messages, message])

    def _lost(self, talk: Talk, replica: int) -> None:
        with contextlib.suppress(httpx.HTTPError):
            self._send(talk, replica, talk.line())

    def _confirmed(self, talk: Talk, labels: Sequence[str], line: Json) -> None:
        self.expected.update(labels)
        talk.waits, talk.confirmed = False, line

    def _denied(self, response: httpx.Response) -> None:
        assert "Results:" not in self._text(response), response.text

    def _text(self, response: httpx.Response) -> str:
        assert response.status_code == 200, response.text
        return str(response.json()["choices"][0]["message"]["content"])

    def _slow(self) -> bool:
        return self.gateways.steps - self.gateways.slow_at >= _EVERY

    def _arrived(self) -> list[str]:
        return [str(one.body) for one in self.shop.writes]

    def _step(self, name: str, *, slow: bool = False) -> None:
        fleet = self.gateways
        fleet.steps += 1
        fleet.counts[name] += 1
        if slow:
            fleet.slow_at = fleet.steps
        arrived = Counter(self._arrived())
        assert max(arrived.values(), default=1) == 1, f"{name}: twice: {arrived.most_common(1)}"
        unknown = {one for one in arrived if one in self.possible}
        assert set(arrived) - unknown == set(self.expected), f"{name}: {set(arrived) ^ set(self.expected)}"


def play(gateways: Fleet, *, steps: int, number: int, each: int = 50) -> None:
    """Play at least so many steps. number: the seed."""

    class Seeded(Machine):
        pass

    Seeded.gateways = gateways
    while gateways.steps < steps:
        checks = settings(
            max_examples=max(10, (steps - gateways.steps) // each),  # the first of a run often do nothing
            stateful_step_count=each,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        )
        run_state_machine_as_test(seed(number)(Seeded), settings=checks)
        number = random.Random(number).getrandbits(32)
