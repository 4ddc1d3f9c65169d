"""Turns a request for an Anthropic message into one for a chat completion.

A member without a counterpart is refused, unless the answer stays the same without it; docs/reference/lanes.md lists
what is left out. Members that only Claude models know (`thinking`, signed thoughts, `cache_control`) pass if the model
has "claude" in its name: litellm knows them in chat completions.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from proxy.dialects.replies import json_bytes
from proxy.upstream.bridges.conversation import arranged
from proxy.upstream.bridges.members import Json, by_type, members_of, objects_in, text_in, unsupported, wrong

_SAME = "model max_tokens temperature top_p top_k stream"
_TRANSLATED = "system messages stop_sequences metadata tools tool_choice thinking output_config output_format"
# `context_management` shortens a conversation, `cache_control` makes caching cheaper; `service_tier` chooses among
# Anthropic's capacities.
_LEFT_OUT = "context_management cache_control service_tier"
# On these words, Anthropic's SDKs drop `thread` and send the request again, with the whole conversation.
_NO_THREAD = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
_OWN_TOOLS = "send tools of your own, or ask a model whose upstream has /v1/messages"
_SEND_TEXT = "send text, images, PDF files, tool calls and tool results"
_LONGEST_USER = 64  # characters of `user` that all providers take; Claude Code's `user_id` has 150
_EFFORTS = {"max": "xhigh"}  # each API's highest effort


def chat_of(fields: Mapping[str, Any]) -> Json:
    """The chat completion to ask for. fields: the request for a message. Raises ApiError 400."""
    if fields.get("thread"):
        unsupported("thread", "send the whole conversation in `messages`", details=_NO_THREAD)
    sent = members_of(dict(fields), "", f"{_SAME} {_TRANSLATED}", _LEFT_OUT)
    claude = "claude" in str(sent.get("model"))
    chat: Json = {name: sent[name] for name in _SAME.split() if name in sent}
    chat["messages"] = [*_system(sent.get("system")), *_messages(sent.get("messages"))]
    if "stop_sequences" in sent:
        chat["stop"] = sent["stop_sequences"]
    if "metadata" in sent:
        user = members_of(sent["metadata"], "metadata", "user_id")
        chat.update({"user": _user(user["user_id"])} if "user_id" in user else {})
    if claude and "thinking" in sent:
        chat["thinking"] = sent["thinking"]
    chat.update(_output(sent))
    choice = _tool_choice(sent["tool_choice"]) if "tool_choice" in sent else {}
    if tools := [_tool(tool, at) for at, tool in objects_in(sent.get("tools", []), "tools")]:
        chat |= {"tools": tools, **choice}  # OpenAI refuses a choice without tools
    if chat.get("stream"):
        chat["stream_options"] = {"include_usage": True}  # messages always report usage
    if not claude:
        _leave_out_claudes(chat)
    chat["messages"] = arranged(chat["messages"])
    return chat


def _output(sent: Json) -> Json:
    """`reasoning_effort` and `response_format`."""
    config = members_of(sent.get("output_config", {}), "output_config", "effort format")
    effort = config.get("effort")
    chat: Json = {} if effort is None else {"reasoning_effort": _EFFORTS.get(str(effort), effort)}
    for at, form in (("output_config.format", config.get("format")), ("output_format", sent.get("output_format"))):
        if form is not None:
            schema = members_of(form, at, "type schema")
            if schema.get("type") != "json_schema":
                unsupported(f"{at}.type", "ask for json_schema", value=schema.get("type"))
            described = {"name": "output", "schema": schema.get("schema"), "strict": True}
            chat["response_format"] = {"type": "json_schema", "json_schema": described}
    return chat


def _user(id: Any) -> Any:
    """The id, or a shorter one for the same user."""
    long = isinstance(id, str) and len(id) > _LONGEST_USER
    return hashlib.sha256(id.encode("utf-8", "replace")).hexdigest() if long else id


def _leave_out_claudes(chat: Json) -> None:
    """Leave out members that only Claude models know."""
    for message in chat["messages"]:
        message.pop("thinking_blocks", None)
        for each in (message, *_objects(message["content"]), *message.get("tool_calls", [])):
            each.pop("cache_control", None)
    for tool in chat.get("tools", []):
        tool.pop("cache_control", None)


def _objects(content: Any) -> list[Json]:
    return content if isinstance(content, list) else []


# --- The conversation


def _system(system: Any) -> list[Json]:
    if system is None or isinstance(system, str):
        return [{"role": "system", "content": system}] if system else []
    parts = [_block(block, at) for at, block in objects_in(system, "system")]
    return [{"role": "system", "content": parts}] if parts else []


def _messages(value: Any) -> list[Json]:
    messages: list[Json] = []
    for at, message in objects_in(value, "messages"):
        row = members_of(message, at, "role content")
        role, content = text_in(row, "role", at), row.get("content")
        if isinstance(content, str):
            messages.append({"role": role, "content": content})
            continue
        blocks = objects_in(content, f"{at}.content")
        messages += _turn(blocks) if role == "assistant" else _asked(role, blocks)
    return messages


def _turn(blocks: Any) -> list[Json]:
    """The assistant's message: texts, calls and thoughts."""
    message: Json = {"role": "assistant", "content": None}
    for at, block in blocks:
        kind = block.get("type")
        if kind == "tool_use":
            message.setdefault("tool_calls", []).append(_call(block, at))
        elif kind in ("thinking", "redacted_thinking"):
            thought = members_of(block, at, "type thinking signature data")
            if thought.get("signature") or thought.get("data"):
                message.setdefault("thinking_blocks", []).append(thought)
        else:
            message["content"] = [*(message["content"] or []), _block(block, at)]
    return [message] if len(message) > 2 or message["content"] is not None else []


def _asked(role: str, blocks: Any) -> list[Json]:
    """Tool results, each as a message, then the rest."""
    results = [_result(block, at) for at, block in blocks if block.get("type") == "tool_result"]
    parts = [_block(block, at) for at, block in blocks if block.get("type") != "tool_result"]
    return [*results, {"role": role, "content": parts}] if parts else results


def _call(block: Json, at: str) -> Json:
    call = members_of(block, at, "type id name input cache_control")
    arguments = call.get("input", {})
    if not isinstance(arguments, dict):
        wrong(f"{at}.input", "must be an object")
    function = {"name": text_in(call, "name", at), "arguments": json_bytes(arguments).decode()}
    return {"id": text_in(call, "id", at), "type": "function", "function": function, **_cached(call)}


def _result(block: Json, at: str) -> Json:
    """Chat completions cannot mark a failed call: the result's text says so."""
    result = members_of(block, at, "type tool_use_id content cache_control", "is_error")
    content: Any = result.get("content", "")
    if not isinstance(content, str):
        content = [_block(each, place) for place, each in objects_in(content, f"{at}.content")]
    return {"role": "tool", "tool_call_id": text_in(result, "tool_use_id", at), "content": content, **_cached(result)}


def _cached(block: Json) -> Json:
    """A cache mark, without members that only Anthropic's own API knows."""
    mark = block.get("cache_control")
    if not isinstance(mark, dict):
        return {}
    return {"cache_control": {name: mark[name] for name in ("type", "ttl") if name in mark}}


def _block(block: Json, at: str) -> Json:
    """One content part of a chat completion."""
    return by_type(block, at, {"text": _text, "image": _image, "document": _document}, _SEND_TEXT)


def _text(block: Json, at: str) -> Json:
    """Citations belong to an earlier reply."""
    text = members_of(block, at, "type text cache_control", "citations")
    return {"type": "text", "text": text_in(text, "text", at), **_cached(text)}


def _image(block: Json, at: str) -> Json:
    image = members_of(block, at, "type source cache_control")
    kinds = {"base64": _data, "url": lambda source, place: members_of(source, place, "type url")}
    source = by_type(_source(image, at), f"{at}.source", kinds, "send the image as base64 or url")
    return {"type": "image_url", "image_url": {"url": text_in(source, "url", f"{at}.source")}, **_cached(image)}


def _document(block: Json, at: str) -> Json:
    """A PDF becomes a file, a plain text a text."""
    document = members_of(block, at, "type source title context citations cache_control")
    if members_of(document.get("citations", {}), f"{at}.citations", "enabled").get("enabled"):
        unsupported(f"{at}.citations", "ask without citations")
    titles = [text_in(document, name, at) for name in ("title", "context") if name in document]
    source, place = _source(document, at), f"{at}.source"
    if source.get("type") == "text":
        text = text_in(members_of(source, place, "type media_type data"), "data", place)
        return {"type": "text", "text": "\n".join([*titles, text]), **_cached(document)}
    file = by_type(source, place, {"base64": _data}, "send the document as base64 or text")
    if "context" in document:
        unsupported(f"{at}.context", "send the context as a text block")
    name = document.get("title", "document.pdf")
    return {"type": "file", "file": {"file_data": file["url"], "filename": name}, **_cached(document)}


def _source(block: Json, at: str) -> Json:
    source = block.get("source")
    if not isinstance(source, dict):
        wrong(f"{at}.source", "must be an object")
    return source


def _data(source: Json, at: str) -> Json:
    """Base64 as a data: address."""
    sent = members_of(source, at, "type media_type data")
    return {"url": f"data:{text_in(sent, 'media_type', at)};base64,{text_in(sent, 'data', at)}"}


# --- Tools


def _tool(tool: Json, at: str) -> Json:
    """`eager_input_streaming` and `defer_loading` change when a call comes and what it costs, not the answer."""
    if tool.get("type", "custom") not in (None, "custom"):
        unsupported(f"{at}.type", _OWN_TOOLS, value=tool["type"])
    known = "name description input_schema strict cache_control"
    own = members_of(tool, at, known, "type eager_input_streaming defer_loading")
    function = {name: own[name] for name in ("name", "description", "strict") if name in own}
    return {
        "type": "function",
        "function": {**function, "parameters": own.get("input_schema", {"type": "object"})},
        **_cached(own),
    }


def _tool_choice(value: Any) -> Json:
    """`tool_choice` and `parallel_tool_calls`."""
    at = "tool_choice"
    choice = members_of(value, at, "type name disable_parallel_tool_use")
    kind = choice.get("type")
    one = {"parallel_tool_calls": False} if choice.get("disable_parallel_tool_use") else {}
    if kind == "tool":
        return {"tool_choice": {"type": "function", "function": {"name": text_in(choice, "name", at)}}, **one}
    kinds = {"auto": "auto", "any": "required", "none": "none"}
    if not isinstance(kind, str) or kind not in kinds:
        wrong(f"{at}.type", "must be auto, any, tool or none")
    return {"tool_choice": kinds[kind], **one}
