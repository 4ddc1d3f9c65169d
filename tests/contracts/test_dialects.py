"""Every dialect: a request changes at the declared place alone, and a reply reads alike however the bytes are cut."""

import json
import random
from typing import Any

import pytest

from proxy.dialects.base import Dialect, Position
from proxy.dialects.chat import CHAT
from proxy.dialects.errors import ApiError
from proxy.dialects.json_body import Edit
from proxy.dialects.messages import MESSAGES
from proxy.dialects.paths import BY_PATH
from proxy.dialects.replies import Tokens
from proxy.dialects.responses import RESPONSES

POSITIONS: tuple[Position, ...] = ("lead", "merge", "tail")
BODIES = 500  # of each dialect
REPLIES = 500  # of each dialect, streamed and whole
TEXTS = ["", "Hello", 'a "quoted" ]}', "日本 🎈", "back\\slash", '"input":"x"', "line\nline", "\x7f{[,:", "\ud83d"]
DIALECTS = pytest.mark.parametrize("dialect", BY_PATH.values(), ids=BY_PATH)
Json = dict[str, Any]


class Bodies:
    """Odd but valid requests, from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self) -> str:
        return "".join(self.random.choices(TEXTS, k=self.random.randint(1, 3)))

    def value(self, depth: int = 2) -> Any:
        """Any JSON value."""
        draw = self.random
        if depth and draw.random() < 0.5:
            items = [self.value(depth - 1) for _ in range(draw.randint(0, 3))]
            return items if draw.random() < 0.5 else {self.text(): item for item in items}
        return draw.choice([None, True, 0, -1.5e-7, 2**53 + 1, self.text()])

    def unknown(self) -> Json:
        return {f"x_{draw}": self.value() for draw in range(self.random.randint(0, 3))}

    def chat(self) -> Json:
        """A chat completion's request whose newest message of a user is the question."""
        roles = self.random.choices(["system", "developer", "user", "assistant", "tool"], k=self.random.randint(0, 5))
        messages = [{"role": role, "content": self._content("text"), **self.unknown()} for role in [*roles, "user"]]
        return {"messages": messages, "tools": self.value(), "stream": False}

    def response(self) -> Json:
        """A request for a response, with items of every kind."""
        items: list[Any] = [
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": self.text()},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": self.text()},
            {"type": "function_call_output", "call_id": "c", "output": self.value()},
            {"type": "mcp_call", "id": "m", "server_label": "s", "name": "n", "arguments": "{}", "output": self.text()},
            {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot", "file_id": "f"}},
            {"type": "item_reference", "id": self.text()},
            {"role": "user", "content": [{"type": "input_file", "file_id": "f"}]},
            {"role": "developer", "content": self._content("input_text")},
            {"type": "message", "role": "assistant", "content": self._content("output_text")},
            {"type": self.text(), **self.unknown()},
            self.value(),
        ]
        draw = self.random
        question = {"role": "user", "content": self._content("input_text"), **self.unknown()}
        given = self.text() if draw.random() < 0.2 else [*draw.sample(items, 4), question, *draw.sample(items[:5], 2)]
        fields = {
            "instructions": draw.choice([None, "", self.text()]), "prompt": draw.choice([None, {"id": "p"}]),
            "conversation": self.value(), "reasoning": self.value(), "tools": self.value(), "include": ["x"],
            "store": False, "background": True, "truncation": "auto", "previous_response_id": "resp_1",
        }  # fmt: skip
        return {"input": given, **{name: fields[name] for name in draw.sample(list(fields), draw.randint(0, 6))}}

    def message(self) -> Json:
        """A request for a message, with blocks of every kind, in which four blocks have `cache_control`."""
        draw = self.random
        odd: list[Any] = [
            {"type": "thinking", "thinking": self.text(), "signature": "EqQB=="},
            {"type": "redacted_thinking", "data": "EmwK=="},
            {"type": "text", "text": self.text(), "citations": [{"type": "char_location", "cited_text": self.text()}]},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}},
            {"type": "document", "source": {"type": "text", "data": self.text()}, "citations": {"enabled": True}},
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": self.text()}},
            {"type": self.text(), **self.unknown()},
        ]
        use = {"type": "tool_use", "id": "t", "name": "f", "input": self.value()}
        result = {"type": "tool_result", "tool_use_id": "t", "content": draw.choice([self.text(), odd[2:4]])}
        before: list[Any] = [
            {"role": "user", "content": self._content("text")},
            {"role": "assistant", "content": [*draw.sample(odd, 3), use]},
            {"role": "user", "content": [result, result]},
            {"role": "assistant", "content": self._content("text")},
        ]
        asked = [result] * draw.randint(0, 2) + draw.sample(odd, 2) + [{"type": "text", "text": self.text()}]
        question = {"role": "user", "content": draw.choice([self.text(), asked]), **self.unknown()}
        blocks = [{"type": "text", "text": self.text()} for _ in range(draw.randint(0, 4))]
        fields: Json = {"system": draw.choice([None, "", self.text(), blocks]), "tools": self.value(), "max_tokens": 9}
        kept = {name: fields[name] for name in draw.sample(list(fields), draw.randint(0, 3))}
        after = before[1:3] * draw.randint(0, 1)  # a round of a tool conversation
        marked = [*blocks, *asked, *odd]
        for block in draw.sample(marked, min(4, len(marked))):
            block["cache_control"] = {"type": "ephemeral"}
        return {"messages": [*before[: draw.randint(0, 4)], question, *after], **kept, **self.unknown()}

    def _content(self, kind: str) -> Any:
        parts = [{"type": kind, "text": self.text(), **self.unknown()} for _ in range(self.random.randint(1, 2))]
        return self.text() if self.random.random() < 0.5 else parts

    def raw(self, dialect: Dialect) -> bytes:
        """A request of the dialect in odd spelling."""
        drawn = {CHAT: self.chat, RESPONSES: self.response, MESSAGES: self.message}[dialect]()
        fields = {"model": "m", **self.unknown(), **drawn}
        pairs = list(fields.items())
        self.random.shuffle(pairs)
        spaces = self.random.choice([(",", ":"), (" , ", " :\t"), (",\r\n", ": ")])
        text = json.dumps(dict(pairs), separators=spaces, indent=self.random.choice([None, 1]), ensure_ascii=True)
        return (self.random.choice(["", " \n"]) + text).encode()


def declared(dialect: Dialect, before: Json, after: Json) -> Json:
    """`after` without the context: the request before, if only the declared place differs."""
    if dialect is MESSAGES:
        return declared_of_message(before, after)
    if dialect is CHAT:
        pairs = zip(before["messages"], after["messages"][-len(before["messages"]) :], strict=True)
        changed = [theirs for ours, theirs in pairs if ours != theirs]
        assert len(changed) + len(after["messages"]) - len(before["messages"]) == 1
        return {**after, "messages": before["messages"]}
    if isinstance(after["input"], list) and after["input"] != before["input"]:
        place = next(i for i, item in enumerate(after["input"]) if item == DEVELOPER)
        items = after["input"][:place] + after["input"][place + 1 :]
        whole = [{"type": "message", "role": "user", "content": before["input"]}]
        assert items == (whole if isinstance(before["input"], str) else before["input"])
        return {**after, "input": before["input"]}
    instructions = before.get("instructions")
    assert after["instructions"] == (instructions + "\n\n" if instructions else "") + CONTEXT
    return {**before, **{name: value for name, value in after.items() if name != "instructions"}}


def declared_of_message(before: Json, after: Json) -> Json:
    assert json.dumps(after).count('"cache_control"') == json.dumps(before).count('"cache_control"')
    if before["messages"] == after["messages"]:
        system = before.get("system")
        blocks = system if isinstance(system, list) else [{"type": "text", "text": system}]
        if isinstance(system, str) and not system.strip():  # a block may not be blank
            assert after["system"] == (f"{system}\n\n{CONTEXT}" if system else CONTEXT)
        else:
            assert after["system"] == ([*blocks, BLOCK] if system or system == [] else CONTEXT)
        return {**before, **{name: value for name, value in after.items() if name != "system"}}
    pairs = zip(before["messages"], after["messages"], strict=True)
    ((ours, theirs),) = [pair for pair in pairs if pair[0] != pair[1]]
    content = ours["content"]
    if isinstance(content, str) and content.strip():
        content = [{"type": "text", "text": content}]
    expected = [*content, BLOCK] if isinstance(content, list) else f"{content}\n\n{CONTEXT}" if content else CONTEXT
    assert theirs == {**ours, "content": expected}
    return {**after, "messages": before["messages"]}


CONTEXT = 'Passages: "a" ]} \\ é 🎈'
DEVELOPER = {"type": "message", "role": "developer", "content": CONTEXT}
BLOCK = {"type": "text", "text": CONTEXT}


def check_bodies(dialect: Dialect, count: int) -> None:
    """The promise of a dialect, for as many requests."""
    for seed in range(count):
        raw = Bodies(seed).raw(dialect)
        request = dialect.parse(raw)
        request.messages()
        assert request.edited(model="m", without_rag=True) is raw
        for position in POSITIONS:
            edited = request.edited(context=CONTEXT, position=position)
            edits = sorted(request.insertion(CONTEXT, position))
            assert all(raw[start:end] in (b"", b"null") for start, end, _ in edits), "an edit inserts"
            assert applied(raw, edits) == edited
            before, after = json.loads(raw), json.loads(edited)
            assert declared(dialect, before, after) == before, (seed, position)
            assert list(without(after, before)) == list(before), (seed, position)


def applied(raw: bytes, edits: list[Edit]) -> bytes:
    """The bytes with the edits, from the last edit to the first."""
    for start, end, new in reversed(edits):
        raw = raw[:start] + new + raw[end:]
    return raw


def without(after: Json, before: Json) -> Json:
    """The members of the request before, in the order of the request after."""
    return {name: value for name, value in after.items() if name in before}


@DIALECTS
def test_a_request_differs_at_the_declared_place_alone(dialect: Dialect) -> None:
    check_bodies(dialect, BODIES)


@DIALECTS
def test_a_repeated_member_that_the_gateway_edits_is_a_400(dialect: Dialect) -> None:
    for name in type(dialect.parse(b'{"model": "m"}')).NAMES:
        for again in (name, f"\\u{ord(name[0]):04x}{name[1:]}"):
            with pytest.raises(ApiError) as caught:
                dialect.parse(f'{{"{name}": "a", "x": 1, "{again}": "a"}}'.encode())
            assert (caught.value.status, caught.value.code, caught.value.param) == (400, "duplicate_field", name)


@DIALECTS
@pytest.mark.parametrize("streamed", [False, True])
def test_the_gateways_own_reply_is_read_back_however_the_bytes_are_cut(dialect: Dialect, streamed: bool) -> None:
    check_replies(dialect, streamed, REPLIES)


def check_replies(dialect: Dialect, streamed: bool, count: int) -> None:
    """A written reply is read back, for as many replies."""
    fields = {"model": "m", "stream": streamed, "stream_options": {"include_usage": True}}
    request = dialect.parse(json.dumps(fields).encode())
    for seed in range(count):
        bodies = Bodies(seed)
        texts = [bodies.text().replace("\ud83d", "?") + "." for _ in range(bodies.random.randint(1, 6))]
        tokens = Tokens(bodies.random.randint(1, 999), bodies.random.randint(1, 999))
        frames = (
            dialect.reply_frames(request, texts, tokens)
            if streamed
            else [dialect.reply(request, "".join(texts), tokens)]
        )
        sent = b"".join(frames)
        reader, at = dialect.reader(streamed=streamed), 0
        while at < len(sent):
            size = bodies.random.randint(1, 200)
            reader.feed(sent[at : at + size])
            at += size
        reader.close()
        assert (reader.answer, reader.usage, reader.error) == ("".join(texts), tokens, "")
        assert (reader.whole, reader.finish_reason, reader.tool_calls) == (True, "stop", [])
        assert dialect.usage_in(sent[:4096], sent[-16384:]) == tokens


@DIALECTS
def test_a_broken_stream_ends_with_an_error_that_the_reader_finds(dialect: Dialect) -> None:
    reader = dialect.reader(streamed=True)
    reader.feed(dialect.error_frame(ApiError(502, "The upstream broke off.", code="upstream_cut"), "rag-1"))
    reader.close()
    assert (reader.error, reader.whole) == ("The upstream broke off.", False)


def test_every_dialect_has_a_contract() -> None:
    assert set(BY_PATH.values()) == {CHAT, RESPONSES, MESSAGES}
