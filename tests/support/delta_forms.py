"""The forms in which providers write tool calls, streamed and whole.

RECORDED has the forms of recorded replies (of OpenAI, a recorded text). OTHERS has deviations of further servers, one
deviation in each form.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Json = dict[str, Any]
USAGE = {"prompt_tokens": 210, "completion_tokens": 15, "total_tokens": 225}
_NULLS: Json = {"logprobs": None}


class FormedCall(NamedTuple):
    """A call as the model means the call."""

    id: str
    name: str
    arguments: str  # JSON


@dataclass(frozen=True, slots=True)
class DeltaForm:
    """One form of a reply with calls."""

    name: str
    streamed: bool = True
    before: tuple[Json, ...] = ()  # events before the first choice
    role: Literal["first", "each", "none", "with call"] = "first"
    content: Any = None  # of the first delta; "-" for no content
    reasoning: bool = False
    text: str = ""  # beside the call
    index: Literal["given", "zero", "missing", "null", "from one", "by id"] = "given"
    index_last: bool = False  # the order of the members
    id: Literal["first", "each", "missing", "empty", "null"] = "first"
    name_again: Literal["no", "each", "null", "empty"] = "no"
    name_late: bool = False  # the first piece has the id alone
    size: int = 0  # characters of a piece of the arguments; 0 = the whole call in one piece
    empty_pieces: bool = False
    arguments: Literal["text", "object"] = "text"
    together: bool = False  # all calls in one event
    function_call: bool = False  # the older member beside `tool_calls`
    finish: Literal["own", "stop", "with call", "none"] = "own"
    usage: Literal["own", "with finish", "none"] = "own"
    extra: tuple[tuple[str, Any], ...] = ()  # further members of each event
    done: bool = True
    line_end: str = "\n"
    comments: bool = False
    space: str = " "  # after "data:"


def frames(form: DeltaForm, calls: Sequence[FormedCall], text: str = "") -> list[bytes]:
    """The frames of a stream. text: the answer, where calls is empty."""
    made = []
    for event in _events(form, calls, text):
        if form.comments:
            made.append(b": keep-alive" + form.line_end.encode() * 2)
        made.append(f"data:{form.space}{json.dumps(event)}{form.line_end * 2}".encode())
    return [*made, f"data:{form.space}[DONE]{form.line_end * 2}".encode()] if form.done else made


def whole(form: DeltaForm, calls: Sequence[FormedCall], text: str = "") -> bytes:
    """A whole reply. text: the answer, where calls is empty."""
    message: Json = {"role": "assistant"}
    if form.content != "-" or text or form.text:
        message["content"] = text or form.text or form.content
    if form.reasoning:
        message["reasoning_content"] = "The user asks for a call."
    if calls:
        message["tool_calls"] = [
            _first(form, number, call, _arguments(form, call)) for number, call in enumerate(calls)
        ]
    finish = "tool_calls" if calls and form.finish == "own" else "stop"
    choice = {"index": 0, "message": message, **_NULLS, "finish_reason": finish}
    return json.dumps({**_envelope(form, "chat.completion"), "choices": [choice], "usage": USAGE}, indent=2).encode()


def _envelope(form: DeltaForm, kind: str) -> Json:
    return {"id": "chatcmpl-7a630f5b", "object": kind, "created": 1770770843, "model": "gold", **dict(form.extra)}


def _events(form: DeltaForm, calls: Sequence[FormedCall], text: str) -> Iterator[Json]:
    envelope = _envelope(form, "chat.completion.chunk")

    def event(delta: Json, finish: str | None = None, **more: Any) -> Json:
        if form.role == "each":
            delta = {"role": "assistant", **delta}
        return {**envelope, "choices": [{"index": 0, "delta": delta, **_NULLS, "finish_reason": finish}], **more}

    yield from ({**envelope, **one} for one in form.before)
    first: Json = {"role": "assistant"} if form.role in ("first", "each") else {}
    if form.content != "-":
        first["content"] = form.content
    if form.reasoning:
        first["reasoning_content"] = ""
    if first:
        yield event(first)
    if form.reasoning:
        yield from (event({"content": None, "reasoning_content": word}) for word in ("The", " user", " asks"))
    said = text or form.text
    yield from (event({"content": said[at : at + 6]}) for at in range(0, len(said), 6))
    deltas = list(_call_deltas(form, calls))
    finish = "tool_calls" if calls and form.finish in ("own", "with call") else "stop"
    for number, pieces in enumerate(deltas):
        last = number == len(deltas) - 1 and form.finish == "with call"
        delta: Json = {"tool_calls": pieces}
        if form.function_call:
            delta["function_call"] = pieces[0]["function"]
        if form.role == "with call" and number == 0:
            delta = {"role": "assistant", "content": None, **delta}
        yield event(delta, finish if last else None)
    usage = {"usage": USAGE}
    if form.finish != "none" and not (form.finish == "with call" and deltas):
        yield event({}, finish, **(usage if form.usage == "with finish" else {}))
    if form.usage == "own":
        yield {**envelope, "choices": [], **usage}


def _call_deltas(form: DeltaForm, calls: Sequence[FormedCall]) -> Iterator[list[Json]]:
    """The `tool_calls` of each event."""
    if form.together:
        yield [_first(form, number, call, _arguments(form, call)) for number, call in enumerate(calls)]
        return
    for number, call in enumerate(calls):
        if not form.size:
            yield [_first(form, number, call, _arguments(form, call))]
            continue
        first = _first(form, number, call, "")
        if form.name_late:
            named = {"name": first["function"].pop("name")}
            yield [first]
            yield [{**_index(form, number), "function": named}]
        else:
            yield [first]
        for at in range(0, len(call.arguments), form.size):
            yield [_later(form, number, call, call.arguments[at : at + form.size])]
            if form.empty_pieces:
                yield [_later(form, number, call, "")]


def _arguments(form: DeltaForm, call: FormedCall) -> Any:
    return json.loads(call.arguments) if form.arguments == "object" else call.arguments


def _index(form: DeltaForm, number: int) -> Json:
    match form.index:
        case "missing" | "by id":
            return {}
        case "null":
            return {"index": None}
        case "zero":
            return {"index": 0}
        case "from one":
            return {"index": number + 1}
    return {"index": number}


def _id(form: DeltaForm, call: FormedCall) -> Json:
    match form.id:
        case "missing":
            return {}
        case "empty":
            return {"id": ""}
        case "null":
            return {"id": None}
    return {"id": call.id}


def _first(form: DeltaForm, number: int, call: FormedCall, arguments: Any) -> Json:
    function = {"name": call.name, "arguments": arguments}
    index = _index(form, number) if form.streamed or form.reasoning else {}  # DeepSeek writes the index in both
    rest = {**_id(form, call), "type": "function", "function": function}
    return {**rest, **index} if form.index_last else {**index, **rest}


def _later(form: DeltaForm, number: int, call: FormedCall, arguments: str) -> Json:
    function: Json = {"arguments": arguments}
    if form.name_again != "no":
        function = {"name": {"each": call.name, "null": None, "empty": ""}[form.name_again], **function}
    named = _id(form, call) if form.id in ("each", "empty", "null") or form.index == "by id" else {}
    return {**_index(form, number), **named, "function": function}


RECORDED = (
    DeltaForm(
        "DeepSeek", reasoning=True, size=3, usage="with finish", extra=(("system_fingerprint", "fp_eaab8d114b"),)
    ),
    DeltaForm("Groq", index_last=True, usage="with finish", extra=(("x_groq", {"id": "req_01kh52"}),)),
    DeltaForm("OpenAI", content=None, size=4, extra=(("service_tier", "default"), ("obfuscation", "Qup1BsQ3"))),
    DeltaForm("DeepSeek, whole", streamed=False, content="", reasoning=True),
    DeltaForm("Groq, whole", streamed=False, content="-"),
)
OTHERS = (
    DeltaForm("one character in a piece", size=1),
    DeltaForm("the whole call in one piece"),
    DeltaForm("all calls in one event", together=True),
    DeltaForm("index 0 for all calls, whole", index="zero"),
    DeltaForm("index 0 for all calls, in pieces", index="zero", size=5),
    DeltaForm("index 0 for all calls, without ids", index="zero", id="missing"),
    DeltaForm("no index, whole", index="missing"),
    DeltaForm("no index, in pieces", index="missing", size=5),
    DeltaForm("no index, the id in each piece", index="by id", size=5),
    DeltaForm("no index, all calls in one event", index="missing", together=True),
    DeltaForm("index null", index="null", size=5),
    DeltaForm("index from 1", index="from one", size=5),
    DeltaForm("no id", id="missing", size=5),
    DeltaForm("empty id", id="empty", size=5),
    DeltaForm("id null in later pieces", id="null", size=5),
    DeltaForm("id in each piece", id="each", size=5),
    DeltaForm("id and name in each piece", id="each", name_again="each", size=5),
    DeltaForm("name in each piece, no id", id="missing", name_again="each", size=5),
    DeltaForm("name null in later pieces", name_again="null", size=5),
    DeltaForm("empty name in later pieces", name_again="empty", size=5),
    DeltaForm("the name after the id", name_late=True, size=5),
    DeltaForm("empty pieces", size=5, empty_pieces=True),
    DeltaForm("arguments as an object", arguments="object"),
    DeltaForm("function_call beside the call", function_call=True, size=5),
    DeltaForm("text beside the call", text="Let me look this up.", size=5),
    DeltaForm("role in each event", role="each", size=5),
    DeltaForm("role with the call", role="with call", content="-"),
    DeltaForm("no role", role="none", content="-", size=5),
    DeltaForm("finish_reason stop", finish="stop", size=5),
    DeltaForm("finish_reason with the last piece", finish="with call", size=5),
    DeltaForm("no finish_reason", finish="none", usage="none", size=5),
    DeltaForm("empty choices first", before=({"choices": [], "prompt_filter_results": []},), size=5),
    DeltaForm("no usage", usage="none", size=5),
    DeltaForm("no [DONE]", size=5, done=False),
    DeltaForm("CR LF", size=5, line_end="\r\n"),
    DeltaForm("comments", size=5, comments=True),
    DeltaForm("no space after data:", size=5, space=""),
    DeltaForm("whole, text beside the call", streamed=False, text="Let me look this up."),
    DeltaForm("whole, no id", streamed=False, id="missing"),
    DeltaForm("whole, finish_reason stop", streamed=False, finish="stop"),
    DeltaForm("whole, arguments as an object", streamed=False, arguments="object"),
)
FORMS = (*RECORDED, *OTHERS)
