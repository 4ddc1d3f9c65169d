"""Dialogues about a shop, written as data, and played over HTTP: a person, a scripted model, a gateway, the shop.

A file of dialogues is a YAML list. A dialogue has a `name`, `turns`, the writes that arrive at the shop (`sent`, in
order), and what they leave there (`end`, as `ShopApi.changes` says it). A turn has:

person   what the person writes, or a list of text parts. {code}: of the newest confirmation; {code1}: of the first;
         {code lower}, {code lower long}, {code plain}, {code wide}: in other signs; {wrong}: a code that nobody made.
         None: the request of the turn before once more
model    the model's rounds: a text, or the calls by operation; [] if the gateway answers alone
reply    texts that the reply has; {shop} is its address
lacks    texts that it does not have
key      the gateway key of the request ("agent" unless said); user: the person's id
chat     the name of another conversation; edit: a text in place of the first message; system: an instruction
shop     drop: the answer to the next write is lost; fail: the next write gets a 500
expire   the codes so far are out of date; at_once: the request is sent so often at the same time
leaves   the client goes away at the reply's first byte, or, with `writes: 1`, while the shop works
"""

import asyncio
import contextlib
import re
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.support.action_clients import CompletionsChat, MessagesChat, ResponsesChat, SdkChat
from tests.support.action_team import serving_sets
from tests.support.gateway import Served, ragway
from tests.support.recording_upstream import Recorder, recording
from tests.support.scripted_model import ScriptedModel, calls, says
from tests.support.shop_api import WRITES, ShopApi, document, shop_api

Json = dict[str, Any]
CODE = re.compile(r"\b[A-Z2-7]{4}-[A-Z2-7]{4}\b")
_READS = ("getOrder", "listOrders", "listNotes", "listReturns", "listRefunds")
_UNASKED = "The script has no further answer."
WRONG = "WRNG-2345"
KINDS: Sequence[type[SdkChat]] = (CompletionsChat, ResponsesChat, MessagesChat)
WAYS = [(kind, stream) for kind in KINDS for stream in (False, True)]
DIALOGUES: Sequence[Json] = [
    one
    for file in sorted((Path(__file__).parents[1] / "wire" / "dialogues").glob("*.yaml"))
    for one in yaml.safe_load(file.read_text("utf-8"))
]
# name -> the rights beside models and collections
KEYS: Mapping[str, Sequence[str]] = {
    "agent": ("--act", "shop:*"),
    "other": ("--act", "shop:*"),
    "auto": ("--act", "shop:read", "--act", "shop:addNote=auto", "--act", "shop:cancelOrder=auto"),
    "reader": ("--act", "shop:read"),
    "narrow": ("--act", "shop:*", "--act", "!shop:cancel*"),
}
SETTINGS = """
embedder: {{model: hash}}
models: {{gpt-x: {{api_base: "{model}/v1"}}}}
actions: {{shop: {{networks: ["127.0.0.0/8"], writes: auto, always: [{always}]}}}}
action_calls: {{calls: 40}}
"""


def way_of(dialogue: Json) -> tuple[type[SdkChat], bool]:
    """The dialect of a dialogue, and whether it is streamed: in turn, by the name."""
    return WAYS[zlib.crc32(dialogue["name"].encode()) % len(WAYS)]


@dataclass(slots=True)
class ShopTeam:
    """A gateway with the shop as an action set, and the model."""

    served: Served
    shop: ShopApi
    recorder: Recorder
    secrets: Mapping[str, str]  # of the keys, by name

    def expire(self) -> None:
        """Let all codes be out of date: the clock of the gateway cannot be moved."""
        with contextlib.closing(sqlite3.connect(self.served.data / "writes.db")) as sql, sql:
            sql.execute("UPDATE writes SET expires_s = created_s WHERE state = 'pending'")

    def chat(self, kind: type[SdkChat], key: str, **more: Any) -> SdkChat:
        """A new conversation by a key."""
        return kind(self.served.url, "rage/shop/gpt-x", fields={"extra_headers": self.headers(kind, key), **more})

    def headers(self, kind: type[SdkChat], key: str) -> Json:
        """The header by which the SDK names the key."""
        bearer = {"Authorization": f"Bearer {self.secrets[key]}"}
        return bearer | ({"X-Api-Key": self.secrets[key]} if kind is MessagesChat else {})


@contextlib.contextmanager
def shop_team(folder: Path, settings: str = SETTINGS) -> Iterator[ShopTeam]:
    """A shop, with a gateway of its own and the keys `KEYS`."""
    with shop_api(folder / "shop.db") as shop, recording() as recorder:
        settings = settings.format(model=recorder.url, always=", ".join([*WRITES, *_READS]))
        secrets = {}
        for name, rights in KEYS.items():
            words = ("keys", "create", name, "--model", "*", *rights, "--data", str(folder / "data"))
            (folder / "data").mkdir(exist_ok=True)
            done = ragway(*words, folder=folder)
            assert done.returncode == 0, done.stderr
            secrets[name] = done.stdout.strip()
        with serving_sets(folder, settings, {"shop": document(shop.url)}) as served:
            yield ShopTeam(served, shop, recorder, secrets)


@dataclass(slots=True)
class Play:
    """A dialogue as it goes."""

    team: ShopTeam
    kind: type[SdkChat]
    stream: bool
    chats: dict[str, SdkChat] = field(default_factory=dict)
    codes: list[str] = field(default_factory=list)

    def dialogue(self, dialogue: Json) -> None:
        """Play all turns, and look at the shop."""
        self.team.shop.fresh()
        for number, turn in enumerate(dialogue["turns"], 1):
            before = len(self.team.shop.writes)
            text = self.turn(turn)
            for wanted in map(self._filled, turn.get("reply", ())):
                assert wanted in text, f"turn {number}: no {wanted!r} in {text!r}"
            for unwanted in map(self._filled, turn.get("lacks", ())):
                assert unwanted not in text, f"turn {number}: {unwanted!r} in {text!r}"
            sent = len(self.team.shop.writes) - before
            assert sent == turn.get("writes", sent), f"turn {number}: {sent} writes"
        assert [str(one) for one in self.team.shop.writes] == dialogue.get("sent", [])
        end = {table: {str(id): row for id, row in rows.items()} for table, rows in dialogue.get("end", {}).items()}
        assert self.team.shop.changes() == end

    def turn(self, turn: Json) -> str:
        """Play one turn; returns the text of the reply (of several at once, all of them)."""
        shop = self.team.shop
        shop.drops, shop.refuses = int(turn.get("shop") == "drop"), int(turn.get("shop") == "fail")
        if turn.get("expire"):
            self.team.expire()
        chat = self._chat(turn)
        model = ScriptedModel(self.team.recorder.fresh(), [*map(_round, turn.get("model", ())), *[says(_UNASKED)] * 3])
        text = self._asked(chat, turn)
        assert len(model.received) == len(turn.get("model", ())), f"the model was asked {len(model.received)} times"
        self.codes += [one for one in dict.fromkeys(CODE.findall(text)) if one not in self.codes]
        return text

    def _chat(self, turn: Json) -> SdkChat:
        chat = self.chats.setdefault(turn.get("chat", ""), self.team.chat(self.kind, "agent"))
        chat.fields["extra_headers"] = self.team.headers(self.kind, turn.get("key", "agent"))
        if "user" in turn:
            chat.fields["extra_headers"]["x-rag-user"] = turn["user"]
        if "edit" in turn:
            chat.said[0] = {"role": "user", "content": turn["edit"]}
        if "system" in turn:
            given = self._filled(turn["system"])
            chat.fields |= {"system": given} if self.kind is MessagesChat else {}
            if self.kind is not MessagesChat:
                chat.said.insert(0, {"role": "system", "content": given})
        return chat

    def _asked(self, chat: SdkChat, turn: Json) -> str:
        person = turn["person"]
        if person is None:  # back to where the person wrote the newest message
            newest = max(at for at, one in enumerate(chat.said) if one.get("role") == "user")
            person = chat.said[newest]["content"]
            del chat.said[newest:]
        content: Any = self._filled(person) if isinstance(person, str) else self._parts(person)
        if turn.get("leaves"):
            return self._left(chat, content, writes=bool(turn["writes"]))
        if turn.get("at_once", 1) == 1:
            return chat.ask(content, stream=self.stream).text
        copies = [type(chat)(chat.url, chat.model, list(chat.said), chat.fields) for _ in range(turn["at_once"])]
        with ThreadPoolExecutor(len(copies)) as pool:
            replies = [one.result() for one in [pool.submit(copy.ask, content, stream=self.stream) for copy in copies]]
        chat.said = copies[0].said
        return "\n".join(one.text for one in replies)

    def _left(self, chat: SdkChat, content: Any, *, writes: bool) -> str:
        """Ask for a stream, and go away at the first byte, or (`writes`) while the shop works."""
        shop, body = self.team.shop, {**chat.body(content), "stream": True}
        headers, shop.holds = body.pop("extra_headers"), writes

        async def leave() -> None:
            async with httpx.AsyncClient(timeout=60) as client:
                asking = client.stream("POST", chat.url + chat.path, headers=headers, json=body)
                reading = asyncio.create_task(_first_byte(asking))
                if writes:
                    assert await asyncio.to_thread(shop.held.acquire, timeout=60)
                    reading.cancel()
                else:
                    await reading

        asyncio.run(leave())
        shop.release()
        return ""

    def _parts(self, parts: Sequence[Any]) -> list[Json]:
        kind = "input_text" if self.kind is ResponsesChat else "text"
        return [one if isinstance(one, dict) else {"type": kind, "text": self._filled(one)} for one in parts]

    def _filled(self, text: str) -> str:
        newest = self.codes[-1] if self.codes else ""
        codes = {f"{{code{number}}}": code for number, code in enumerate(self.codes, 1)}
        for name, value in {"{code}": newest, "{wrong}": WRONG, "{shop}": self.team.shop.url, **codes}.items():
            text = text.replace(name, value)
        wide = "".join(chr(ord(one) + 0xFEE0) for one in newest)
        others = {"lower": newest.lower(), "lower long": newest.lower().replace("-", "\u2014")}
        others |= {"plain": newest.replace("-", ""), "wide": wide}
        for name, value in others.items():
            text = text.replace(f"{{code {name}}}", value)
        return text


async def _first_byte(asking: contextlib.AbstractAsyncContextManager[httpx.Response]) -> None:
    async with asking as reply:
        assert reply.status_code == 200
        await anext(reply.aiter_raw(1))


def _round(given: Any) -> Json:
    """A round of the model: a text, or calls as {operation: arguments}, in one mapping or several."""
    if isinstance(given, str):
        return says(given)
    rows = [given] if isinstance(given, dict) else given
    return calls(*((f"act_{name}", one or {}) for row in rows for name, one in row.items()))
