"""Whatever JSON a client sends, in whatever spelling: an edit touches its own bytes and no others."""

import json
import re
import unicodedata
from dataclasses import dataclass
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from proxy.dialects.base import Position
from proxy.dialects.chat import CHAT
from proxy.dialects.errors import ApiError

NUMBERS = "0 -0 1 1.0 1e-7 1E+2 -1.5e-3 9223372036854775808 18446744073709551616 1e400".split()
ESCAPES = r"\" \\ \/ \b \f \n \r \t \u0041 \u0000 \ud83d\ude00 \ud83d \ude00 \u007d".split()
PIECES = ["model", "messages", "rag", "{", "}", "[", "]", ",", ":", " ", "'", "é", "日本", "🎈", "\u2028", "\x7f"]
SPELLINGS = {
    "model": ['"model"', r'"mod\u0065l"', r'"\u006d\u006F\u0064el"'],
    "messages": ['"messages"', r'"message\u0073"'],
    "rag": ['"rag"', r'"\u0072ag"'],
}

CONTENT = ['"content"', r'"c\u006fntent"']

spaces = st.sampled_from(["", "", " ", "\r\n", "\t \n "])
characters = st.characters(exclude_categories=["C"], exclude_characters='"\\')
strings = st.lists(st.sampled_from(PIECES + ESCAPES) | characters, max_size=4).map(lambda parts: f'"{"".join(parts)}"')


def joined(draw: st.DrawFn, entries: list[str], opening: str, closing: str) -> str:
    """The entries with commas and odd white space between them."""
    padded = [draw(spaces) + entry + draw(spaces) for entry in entries]
    return opening + (",".join(padded) or draw(spaces)) + closing


@st.composite
def lists(draw: st.DrawFn, children: st.SearchStrategy[str]) -> str:
    return joined(draw, draw(st.lists(children, max_size=3)), "[", "]")


@st.composite
def objects(draw: st.DrawFn, children: st.SearchStrategy[str]) -> str:
    """An object; its keys may repeat, be empty, or be called like ours."""
    pairs = draw(st.lists(st.tuples(strings, children), max_size=3))
    return joined(draw, [key + draw(spaces) + ":" + draw(spaces) + value for key, value in pairs], "{", "}")


scalars = st.sampled_from([*NUMBERS, "true", "false", "null"]) | strings
values = st.recursive(scalars, lambda children: lists(children) | objects(children), max_leaves=4)


@dataclass(frozen=True)
class Sent:
    """A request as text, and the spelling of each top-level member's key and value."""

    raw: bytes
    members: list[tuple[str, str]]


def folded(name: str) -> str:
    """The name as a reader takes the name that ignores case and compatibility forms."""
    return unicodedata.normalize("NFKC", name).casefold()


@st.composite
def requests(draw: st.DrawFn, present: tuple[str, ...] = ()) -> Sent:
    """A chat request with the members `present`, others of ours by chance, unknown ones anywhere."""
    ours: dict[str, st.SearchStrategy[str]] = {"model": strings, "messages": lists(objects(values)), "rag": values}
    members = draw(st.lists(st.tuples(strings, values), max_size=3))
    # Another spelling of a member that the gateway reads is refused; `n` is the only such name of one letter.
    members = [(name, value) for name, value in members if folded(json.loads(name)) not in (*ours, "n")]
    for key, value in ours.items():
        if key in present or draw(st.booleans()):
            members.append((draw(st.sampled_from(SPELLINGS[key])), draw(value)))
    members = draw(st.permutations(members))
    entries = [name + draw(spaces) + ":" + draw(spaces) + value for name, value in members]
    text = draw(spaces) + joined(draw, entries, "{", "}") + draw(spaces)
    return Sent(text.encode(), members)


def read(raw: bytes) -> Any:
    """JSON as an independent reader sees it: pairs in order with repeated keys, numbers as spelled."""
    return json.loads(raw.decode(), object_pairs_hook=tuple, parse_int=str, parse_float=str)


def without(raw: bytes, at: int, length: int) -> bytes:
    return raw[:at] + raw[at + length :]


@given(requests())
def test_finds_every_member_and_edits_nothing_by_itself(sent: Sent) -> None:
    body = CHAT.parse(sent.raw)
    assert body.edited() is sent.raw
    ours = {json.loads(name): (name, value) for name, value in sent.members if json.loads(name) in SPELLINGS}
    assert set(body.members) == set(ours)
    for key, start in body.members.items():
        name, value = ours[key]
        spelled = re.escape(name.encode()) + rb"\s*:\s*" + re.escape(value.encode())
        assert re.compile(spelled).match(sent.raw, start)


@given(requests(present=("messages",)), st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_a_lead_is_one_message_more_and_taken_out_again_leaves_the_original(sent: Sent, lead: str) -> None:
    body = CHAT.parse(sent.raw)
    edited = body.edited(context=lead)
    at = sent.raw.index(b"[", body.members["messages"]) + 1
    assert without(edited, at, len(edited) - len(sent.raw)) == sent.raw
    message = (("role", "system"), ("content", lead))
    expected = [(name, [message, *value] if name == "messages" else value) for name, value in read(sent.raw)]
    assert list(read(edited)) == expected


@given(requests(present=("model",)), st.text())
def test_a_model_is_replaced_within_its_own_span(sent: Sent, model: str) -> None:
    body = CHAT.parse(sent.raw)
    (name, value) = next(pair for pair in sent.members if json.loads(pair[0]) == "model")
    before = re.compile(re.escape(name.encode()) + rb"\s*:\s*").match(sent.raw, body.members["model"])
    assert before is not None
    edited = body.edited(model=model)
    behind = sent.raw[before.end() + len(value.encode()) :]
    assert edited.startswith(sent.raw[: before.end()])
    assert edited.endswith(behind)
    assert json.loads(edited[before.end() : len(edited) - len(behind)]) == model
    if json.loads(value) == model:
        assert edited is sent.raw


@st.composite
def conversations(draw: st.DrawFn) -> Sent:
    """A request whose messages have roles and any content, with repeated and odd members among them."""
    texts = lists(st.just('{"type":"text","text":"a]"}') | values)
    contents = st.lists(st.tuples(st.sampled_from(CONTENT), strings | texts | values), max_size=2)
    messages = []
    for role in draw(st.lists(st.sampled_from(["system", "developer", "user", "assistant", "tool"]), max_size=4)):
        others = draw(st.lists(st.tuples(strings, values), max_size=2))
        others = [pair for pair in others if json.loads(pair[0]) not in ("role", "content")]
        pairs = draw(st.permutations([('"role"', f'"{role}"'), *others])) + draw(contents)
        messages.append(
            joined(draw, [name + draw(spaces) + ":" + draw(spaces) + value for name, value in pairs], "{", "}")
        )
    members = [('"messages"', joined(draw, messages, "[", "]")), ('"model"', draw(strings))]
    members = draw(st.permutations([*members, ('"tools"', draw(values))]))
    text = joined(draw, [name + ":" + value for name, value in members], "{", "}")
    return Sent(text.encode(), list(members))


@given(conversations(), st.sampled_from(["merge", "tail"]), st.text('ab"\\é\n', min_size=1))
@example(Sent(b'{"messages":[{"role":"user","content":"a"},{"role":"user"}],"model":"m"}', []), "tail", "b")
def test_a_position_adds_to_one_content_and_taken_out_again_leaves_the_original(
    sent: Sent, position: Position, context: str
) -> None:
    edited = CHAT.parse(sent.raw).edited(context=context, position=position)
    grown = len(edited) - len(sent.raw)
    at = next(i for i, byte in enumerate(edited) if i == len(sent.raw) or byte != sent.raw[i])
    assert any(without(edited, i, grown) == sent.raw for i in range(max(0, at - grown), at + 1))
    before, after = json.loads(sent.raw), json.loads(edited)
    expected = inserted(before["messages"], position, context)
    assert after == {**before, "messages": expected}


def inserted(messages: list[dict[str, Any]], position: Position, context: str) -> list[dict[str, Any]]:
    """What the edit should come to, said with values."""
    roles = ("system", "developer") if position == "merge" else ("user",)
    places = [i for i, message in enumerate(messages) if message["role"] in roles]
    if position == "tail":  # the newest message with a question, if any message has a question
        places = [i for i in places if has_text(messages[i].get("content"))] or places
    place = (places[0] if position == "merge" else places[-1]) if places else -1
    content = messages[place].get("content") if places else None
    if isinstance(content, str):
        content = f"{content}\n\n{context}" if content else context
    elif isinstance(content, list):
        content = [*content, {"type": "text", "text": context}]
    else:
        return [{"role": "system", "content": context}, *messages]
    return [{**message, "content": content} if i == place else message for i, message in enumerate(messages)]


def has_text(content: Any) -> bool:
    """Whether a content has a text that is not blank."""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    return any(isinstance(text, str) and text.strip() for text in texts)


@given(requests(present=("rag",)))
def test_taking_rag_out_leaves_valid_json_and_every_other_byte(sent: Sent) -> None:
    edited = CHAT.parse(sent.raw).edited(without_rag=True)
    assert list(read(edited)) == [pair for pair in read(sent.raw) if pair[0] != "rag"]
    missing = len(sent.raw) - len(edited)
    assert any(without(sent.raw, at, missing) == edited for at in range(len(edited) + 1))


@given(requests(present=("model", "messages", "rag")), st.text('ab"\\é', min_size=1), st.text("xy\n", min_size=1))
def test_edits_together_are_the_edits_one_by_one(sent: Sent, model: str, lead: str) -> None:
    together = CHAT.parse(sent.raw).edited(context=lead, model=model, without_rag=True)
    one_by_one = CHAT.parse(CHAT.parse(CHAT.parse(sent.raw).edited(without_rag=True)).edited(model=model)).edited(
        context=lead
    )
    assert together == one_by_one


def ends_in_an_object_or_a_400(raw: bytes) -> None:
    """Nothing but a Body or an ApiError 400 comes of any bytes."""
    refused: ApiError | None = None
    try:
        assert CHAT.parse(raw).edited() is raw
    except ApiError as error:
        refused = error
    assert refused is None or (refused.status == 400 and json.loads(refused.body()))


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    ends_in_an_object_or_a_400(raw)


@given(requests(), st.data())
def test_a_damaged_request_is_read_or_refused(sent: Sent, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(sent.raw)))
    lost, instead = data.draw(st.integers(0, 3)), data.draw(st.binary(max_size=3))
    ends_in_an_object_or_a_400(sent.raw[:at])
    ends_in_an_object_or_a_400(sent.raw[:at] + instead + sent.raw[at + lost :])
