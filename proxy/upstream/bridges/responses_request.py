"""Turns a request for a response into one for a chat completion.

Members with the same name and meaning pass as sent. Those without a counterpart are refused, unless the answer stays
the same without them; docs/reference/lanes.md lists what is left out.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import orjson

from proxy.dialects.json_body import check_size
from proxy.dialects.responses import approved_call
from proxy.upstream.bridges.conversation import arranged
from proxy.upstream.bridges.members import Json, by_type, members_of, objects_in, text_in, unsupported, wrong

_SAME = "model temperature top_p stream user moderation safety_identifier prompt_cache_key prompt_cache_options"
_USUAL_TIERS = ("auto", "default")
_TRANSLATED = (
    "instructions input max_output_tokens reasoning text tools tool_choice parallel_tool_calls service_tier include "
    "top_logprobs"
)
# `prompt_cache_retention` makes caching cheaper, and litellm never sends it. `truncation`: a conversation too long for
# its model is an upstream error, as with "disabled". `max_tool_calls` limits a provider's own tools, which we refuse.
# `context_management` shortens a conversation, `access_programs` chooses among an OpenAI account's rights, and
# `generate: false` only warms a connection.
_LEFT_OUT = (
    "store metadata truncation max_tool_calls stream_options prompt_cache_retention context_management "
    "access_programs generate"
)
_STATE = {
    "previous_response_id": "send the whole conversation in `input`",
    "conversation": "send the whole conversation in `input`",
    "prompt": "send the prompt's text in `instructions`",
    "background": "wait for the response, or ask for a stream",
}
_OF_REPLIES = "id status phase"  # members of reply items that mean nothing to a model
_FUNCTIONS_ONLY = "send tools of type function or custom, or ask a model whose upstream has /v1/responses"


def chat_of(fields: Mapping[str, Any]) -> Json:
    """The chat completion to ask for. fields: the request for a response. Raises ApiError 400."""
    for name, remedy in _STATE.items():
        if fields.get(name):
            unsupported(name, remedy)
    sent = members_of(dict(fields), "", f"{_SAME} {_TRANSLATED}", f"{_LEFT_OUT} {' '.join(_STATE)}")
    chat: Json = {name: sent[name] for name in _SAME.split() if name in sent}
    if sent.get("parallel_tool_calls", True) is not True:  # true is every API's default
        chat["parallel_tool_calls"] = sent["parallel_tool_calls"]
    if sent.get("service_tier", "auto") not in _USUAL_TIERS:  # few providers have tiers
        chat["service_tier"] = sent["service_tier"]
    chat["messages"] = _messages(sent)
    if "max_output_tokens" in sent:
        chat["max_tokens"] = sent["max_output_tokens"]
    if "reasoning" in sent:
        # `summary`: a reply has all reasoning that is shown to us.
        reasoning = members_of(sent["reasoning"], "reasoning", "effort", "summary generate_summary")
        chat.update({"reasoning_effort": reasoning["effort"]} if "effort" in reasoning else {})
    if "text" in sent:
        chat.update(_text_options(sent["text"]))
    if sent.get("top_logprobs") or "message.output_text.logprobs" in _names(sent.get("include", []), "include"):
        unsupported("top_logprobs" if sent.get("top_logprobs") else "include", "ask without logprobs")
    chosen, tools = _tool_choice(sent.get("tool_choice"), _tools(sent))
    if tools:
        chat["tools"] = tools
        chat.update({"tool_choice": chosen} if chosen is not None else {})
    else:
        chat.pop("parallel_tool_calls", None)  # without tools, OpenAI refuses this member, as it refuses a choice
    if chat.get("stream"):
        chat["stream_options"] = {"include_usage": True}  # responses always report usage
    return chat


def _names(value: object, at: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        wrong(at, "must be a list of texts")
    return value


def _text_options(value: object) -> Json:
    """`response_format` and `verbosity`."""
    text = members_of(value, "text", "format verbosity")
    options = {"verbosity": text["verbosity"]} if "verbosity" in text else {}
    if "format" not in text:
        return options
    at = "text.format"
    form = members_of(text["format"], at, "type name description schema strict")
    kind = text_in(form, "type", at)
    if kind == "json_schema":
        described = {name: form[name] for name in ("name", "description", "schema", "strict") if name in form}
        return {**options, "response_format": {"type": kind, "json_schema": described}}
    return options if kind == "text" else {**options, "response_format": {"type": kind}}


# --- The conversation


def _messages(sent: Json) -> list[Json]:
    """Instructions, then items. Calls in one turn become one message, as chat completions require."""
    messages: list[Json] = []
    if "instructions" in sent:
        messages.append({"role": "system", "content": text_in(sent, "instructions", "")})
    given = sent.get("input")
    if isinstance(given, str):
        return arranged([*messages, {"role": "user", "content": given}])
    items = objects_in(given if given is not None else [], "input")
    check_size(b",".join(_unpacked(item) for _, item in items))  # the first check saw only base64 texts
    for at, item in with_code_lines(items):
        kind = item.get("type") or "message"
        if kind == "reasoning":
            if blocks := _thinking(item):
                _add_to_turn(messages, {"thinking_blocks": blocks})
        elif isinstance(kind, str) and kind in _CALLS:
            _add_to_turn(messages, {"tool_calls": [_call(item, at)]})
        elif kind in ("function_call_output", "custom_tool_call_output"):
            messages.append(_result(item, at))
        elif kind == "message" and item.get("role") == "assistant":
            _add_to_turn(messages, {"content": _content(item, at)})
        elif kind == "message":
            messages.append({"role": text_in(item, "role", at), "content": _content(item, at)})
        elif kind == _ADDITIONAL_TOOLS:
            pass  # with the other tools
        else:
            unsupported(f"{at}.type", "leave the item out, or send its text in a message", value=kind)
    if not (messages := arranged(messages)):
        wrong("input", "must be a text or a list of at least one item")
    return messages


def with_code_lines(items: Sequence[tuple[str, Json]]) -> Iterator[tuple[str, Json]]:
    """The items with a code line in place of approvals of the gateway's calls.

    The message before an `mcp_approval_request` has the same in words.
    """
    for kind, group in groupby(items, lambda one: _approval_kind(one[1])):
        if not kind:
            yield from group
        elif kind == "mcp_approval_response":
            rows = list(group)
            yield rows[0][0], {"role": "user", "content": _code_line([item for _, item in rows])}


def _approval_kind(item: Json) -> str:
    """The type of an item about a call that waits at the gateway; "": another item."""
    names = {"mcp_approval_request": "id", "mcp_approval_response": "approval_request_id"}
    kind = item.get("type")
    named = names.get(kind) if isinstance(kind, str) else None
    return str(kind) if named is not None and approved_call(item.get(named)) is not None else ""


def _code_line(answers: list[Json]) -> str:
    """What a person's answers say in words. The calls that are not approved, or also refused, are given up."""
    refused = {one["approval_request_id"] for one in answers if one.get("approve") is not True}
    approved = dict.fromkeys(one["approval_request_id"] for one in answers)
    calls = list(filter(None, (approved_call(id) for id in approved if id not in refused)))
    codes = {code for code, _ in calls}
    if len(codes) != 1:  # none is approved, or the items are about several confirmations
        return "No, do not do it."
    return f"confirm {codes.pop()} {','.join(str(number) for _, number in calls)}"


def _add_to_turn(messages: list[Json], part: Json) -> None:
    """Add to the assistant message at the end, or begin one.

    A second text begins another message, and so do thoughts after a text or a call.
    """
    last = messages[-1] if messages else {}
    said = last.get("content") is not None
    if last.get("role") != "assistant" or (said and "content" in part) or ("thinking_blocks" in part and len(last) > 2):
        last = {"role": "assistant", "content": None}
        messages.append(last)
    for name, value in part.items():
        last[name] = [*last.get(name, []), *value] if name == "tool_calls" else value


def _content(item: Json, at: str) -> Any:
    message = members_of(item, at, "role content", f"type {_OF_REPLIES}")
    return _parts(message.get("content", ""), f"{at}.content")


def _parts(value: object, at: str) -> Any:
    """A text, or a content's parts."""
    if isinstance(value, str):
        return value
    return [by_type(part, place, _PARTS, "send text, an image or a file") for place, part in objects_in(value, at)]


def _text_part(part: Json, at: str) -> Json:
    """Annotations and logprobs belong to an earlier reply."""
    return {"type": "text", "text": text_in(members_of(part, at, "type text", "annotations logprobs"), "text", at)}


def _image_part(part: Json, at: str) -> Json:
    image = members_of(part, at, "type image_url detail file_id")
    if "file_id" in image:
        unsupported(f"{at}.file_id", "send the image in `image_url`, as https: or data:")
    detail = {"detail": image["detail"]} if "detail" in image else {}
    return {"type": "image_url", "image_url": {"url": text_in(image, "image_url", at), **detail}}


def _file_part(part: Json, at: str) -> Json:
    file = members_of(part, at, "type file_id file_data filename file_url", "detail")
    if "file_url" in file:
        unsupported(f"{at}.file_url", "send the file's bytes in `file_data`")
    return {"type": "file", "file": {name: value for name, value in file.items() if name != "type"}}


_PARTS = {
    **dict.fromkeys(("input_text", "output_text", "text"), _text_part),
    "refusal": lambda part, at: members_of(part, at, "type refusal"),
    "input_image": _image_part,
    "input_file": _file_part,
    "input_audio": lambda part, at: members_of(part, at, "type input_audio"),
}


_CALLS = {"function_call": ("function", "arguments"), "custom_tool_call": ("custom", "input")}


def _call(item: Json, at: str) -> Json:
    kind, member = _CALLS[item["type"]]
    call = members_of(item, at, f"call_id name namespace {member}", f"type {_OF_REPLIES}")
    called = {"name": _name_of(call, at), member: text_in(call, member, at)}
    return {"id": text_in(call, "call_id", at), "type": kind, kind: called}


def _result(item: Json, at: str) -> Json:
    result = members_of(item, at, "call_id output", f"type name {_OF_REPLIES}")
    content = _parts(result.get("output", ""), f"{at}.output")
    return {"role": "tool", "tool_call_id": text_in(result, "call_id", at), "content": content}


# --- Reasoning: a provider's signed blocks travel in `encrypted_content`, to the client and back.

_MARK = "ragway:"  # begins a bridge's `encrypted_content`


def packed(blocks: list[Json]) -> str:
    """Blocks as `encrypted_content`: encoded, not encrypted; providers sign or encrypt them."""
    return _MARK + base64.b64encode(orjson.dumps(blocks)).decode()


def _unpacked(item: Json) -> bytes:
    """The JSON that `packed` encoded; b"" for other reasoning, which has no place in a chat completion."""
    sealed = item.get("encrypted_content")
    if not isinstance(sealed, str) or not sealed.startswith(_MARK):
        return b""
    try:
        return base64.b64decode(sealed.removeprefix(_MARK), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _thinking(item: Json) -> list[Any]:
    """A reasoning item's signed blocks."""
    try:
        blocks = orjson.loads(_unpacked(item))
    except ValueError:
        return []
    return blocks if isinstance(blocks, list) else []


# --- Tools: chat completions have one list of tools, so a tool in a namespace is called NAMESPACE__TOOL there.

_ADDITIONAL_TOOLS = "additional_tools"  # an item of `input`
_LONGEST_TOOL_NAME = 64


def namespaces_of(fields: Mapping[str, Any]) -> Mapping[str, tuple[str, str]]:
    """Chat completion name of each tool in a namespace -> namespace and name. fields: a sound request."""
    named = [(space, tool.get("name")) for space, _, tool in _declared(fields) if space]
    return {_flat_name(space, name): (space, name) for space, name in named if isinstance(name, str)}


def has_custom_tools(fields: Mapping[str, Any]) -> bool:
    """Whether the request has custom tools. Raises ApiError 400."""
    return any(tool.get("type") == "custom" for _, _, tool in _declared(fields))


def _declared(fields: Mapping[str, Any]) -> Iterator[tuple[str, str, Json]]:
    """Namespace ("": none), place and members of each tool. Raises ApiError 400."""
    given = fields.get("input")
    lists = [("tools", fields.get("tools") or [])]
    for index, item in enumerate(given if isinstance(given, list) else ()):
        if isinstance(item, dict) and item.get("type") == _ADDITIONAL_TOOLS:
            at = f"input[{index}]"
            lists.append((f"{at}.tools", members_of(item, at, "tools", "type id role").get("tools", [])))
    for place, tools in lists:
        for at, tool in objects_in(tools, place):
            if tool.get("type") != "namespace":
                yield "", at, tool
                continue
            space = members_of(tool, at, "name tools", "type description")
            for inner_at, inner in objects_in(space.get("tools", []), f"{at}.tools"):
                yield text_in(space, "name", at), inner_at, inner


def _tools(sent: Json) -> list[Json]:
    """The chat completion's tools; an item may repeat one. Raises ApiError 400."""
    tools: dict[str, tuple[tuple[str, str], Json]] = {}
    for space, at, tool in _declared(sent):
        chat = by_type(tool, at, {"function": _function, "custom": _custom}, _FUNCTIONS_ONLY)
        named = chat[chat["type"]]
        own = str(named.get("name"))
        if space:
            named["name"] = _flat_name(space, text_in(named, "name", at))
        if tools.setdefault(str(named.get("name")), ((space, own), chat))[0] != (space, own):
            wrong(f"{at}.name", f"with its namespace is {named['name']!r}, the name of another tool: rename one")
    return [chat for _, chat in tools.values()]


def _name_of(call: Json, at: str) -> str:
    name = text_in(call, "name", at)
    return _flat_name(text_in(call, "namespace", at), name) if "namespace" in call else name


def _flat_name(namespace: str, name: str) -> str:
    flat = f"{namespace}__{name}"
    if len(flat) <= _LONGEST_TOOL_NAME:
        return flat
    return f"{flat[: _LONGEST_TOOL_NAME - 9]}_{hashlib.sha256(flat.encode('utf-8', 'replace')).hexdigest()[:8]}"


def _function(tool: Json, at: str) -> Json:
    function = members_of(tool, at, "type name description parameters strict", "output_schema")
    return {"type": "function", "function": {name: value for name, value in function.items() if name != "type"}}


def _custom(tool: Json, at: str) -> Json:
    custom = members_of(tool, at, "type name description format")
    custom.pop("type")
    if "format" in custom:
        form = members_of(custom["format"], f"{at}.format", "type definition syntax")
        if form.get("type") == "grammar":
            grammar = {name: form[name] for name in ("definition", "syntax") if name in form}
            custom["format"] = {"type": "grammar", "grammar": grammar}
    return {"type": "custom", "custom": custom}


def _tool_choice(choice: object, tools: list[Json]) -> tuple[Any, list[Json]]:
    """The choice, and the tools that the model may call: with `allowed_tools`, only those it names."""
    at = "tool_choice"
    if choice is None or isinstance(choice, str):
        return choice, tools
    if not isinstance(choice, dict):
        wrong(at, "must be a text or an object")
    if choice.get("type") == "allowed_tools":
        allowed = members_of(choice, at, "type mode tools")
        listed = objects_in(allowed.get("tools"), f"{at}.tools")
        names = [(tool.get("type"), _name_of(tool, place)) for place, tool in listed if "name" in tool]
        return allowed.get("mode"), [tool for tool in tools if (tool["type"], tool[tool["type"]].get("name")) in names]
    named = members_of(choice, at, "type name namespace")
    kind = named.get("type")
    if kind not in ("function", "custom"):
        unsupported(f"{at}.type", _FUNCTIONS_ONLY, value=kind)
    return {"type": kind, kind: {"name": _name_of(named, at)}}, tools
