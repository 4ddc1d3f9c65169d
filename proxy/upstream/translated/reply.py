"""Turns litellm's replies into OpenAI's JSON, without its inventions.

litellm cleanly ends streams whose bytes just stopped, counts usage that no provider reported, and fills every object
with nulls and its own fields. Our result must pass the schemas in OpenAI's OpenAPI file.
"""

import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import orjson

from proxy.dialects import sse
from proxy.dialects.errors import ApiError, upstream_error
from proxy.dialects.replies import ChatReplyReader
from proxy.upstream.translated.calls import LARGEST_BYTES, TooLarge, answered
from proxy.upstream.translated.errors import ErrorInReply

Json = dict[str, Any]

_DONE = b"[DONE]"
_TOTALS = ("prompt_tokens", "completion_tokens", "total_tokens")
_ANTHROPIC = "litellm.llms.anthropic.chat.handler"

# litellm's readers for OpenAI-dialect streams: we read the same bytes without them. Other streams go through litellm
# (Mistral's reader turns lists of thoughts into `reasoning_content`).
_OPENAI_DIALECT = frozenset(
    f"{name}ChatCompletionStreamingHandler" for name in ("OpenAI", "EdenAI", "FireworksAI", "Groq", "OpenRouter", "XAI")
)


def chunks_of(reply: Any) -> AsyncGenerator[bytes]:
    """Data of a streamed reply's events: chunks as JSON, at least one, and [DONE] where the provider itself ended.

    The generator raises ApiError if the stream broke off.
    """
    from openai import AsyncStream

    if not hasattr(reply, "completion_stream"):  # litellm leaves some providers' streams unwrapped
        words = "`stream` is not supported for this provider in the translated lane: ask without it."
        raise ApiError(400, words, param="stream", code="unsupported_by_provider")
    stream = reply.completion_stream
    if isinstance(stream, AsyncStream):
        return _as_received(stream.response)
    if type(stream).__name__ in _OPENAI_DIALECT and getattr(stream, "http_response", None) is not None:
        return _as_received(stream.http_response)
    return _rebuilt(reply)


def completion_of(reply: Any) -> bytes:
    """A whole reply: the provider's bytes if it speaks OpenAI's dialect, else litellm's version.

    litellm's nulls and empty fields are left out; members that the schema requires are added.
    """
    from litellm.constants import openai_compatible_providers

    provider = reply._hidden_params.get("custom_llm_provider")
    speaks_openai = provider in ("openai", "azure", "openrouter") or provider in openai_compatible_providers
    received = answered()
    if speaks_openai and received is not None and _is_completion(received.content, reply):
        return received.content
    slim = _without_nulls(reply.model_dump(mode="json"))
    for choice in slim["choices"]:
        if speaks_openai:
            _restore(choice)
        message = choice["message"]
        fields = message.get("provider_specific_fields") or {}
        refusal = message.get("refusal") or fields.pop("refusal", None)
        choice["message"] = {**_without_nulls(message), "content": message.get("content"), "refusal": refusal}
        for call in message.get("tool_calls") or ():
            call.pop("index", None)  # only for streams
        choice.setdefault("logprobs", None)
        if not choice.get("provider_specific_fields"):
            choice.pop("provider_specific_fields", None)
    usage = _slim_usage(slim.pop("usage", {}))
    # Zeros mean that the provider reported none.
    return orjson.dumps({**slim, "usage": usage} if usage.get("total_tokens") else slim)


def _is_completion(body: bytes, reply: Any) -> bool:
    """Whether an OpenAI client can read the body as a completion, and litellm found the same tool calls in it.

    litellm finds fewer after asking for JSON by way of a tool; and some providers' content is a list.
    """
    try:
        choices = json.loads(body)["choices"]
        messages = [choice["message"] for choice in choices]
        texts = [message.get("content") for message in messages]
        calls = [message.get("tool_calls") or [] for message in messages]
        texts += [call["function"]["arguments"] for each in calls for call in each if "function" in call]
        found = [len(choice.message.tool_calls or []) for choice in reply.choices]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False
    return all(text is None or isinstance(text, str) for text in texts) and [len(each) for each in calls] == found


def _restore(choice: Json) -> None:
    """Put back unknown fields and finish reasons that litellm moved aside."""
    message = choice["message"]
    unknown = message.pop("provider_specific_fields", None) or {}
    if "reasoning" in unknown and message.get("reasoning_content") == unknown["reasoning"]:
        del message["reasoning_content"]  # a copy under another name
    message.update({name: value for name, value in unknown.items() if message.get(name) is None})
    unknown = choice.pop("provider_specific_fields", None) or {}
    choice["finish_reason"] = unknown.pop("native_finish_reason", choice["finish_reason"])
    choice.update({name: value for name, value in unknown.items() if name not in choice})


async def _as_received(response: httpx.Response) -> AsyncGenerator[bytes]:
    """An OpenAI-dialect provider's chunks, as received.

    litellm's readers must not touch them: they replace `id`, `created` and `model`, drop unknown fields, streamed
    refusals and all finish reasons but one choice's, lose a chunk whose text holds U+2028 or "[DONE]", and put a price
    into usage.
    """
    reader = ChatReplyReader(streamed=True, keep_text=False)
    done = False
    async for data in _data_in(response):
        if done := data.strip() == _DONE:
            break
        chunk = json.loads(data)  # orjson refuses half a surrogate pair, which providers do send
        if not isinstance(chunk, dict):
            raise upstream_error(502, "The upstream sent a chunk that is not a JSON object.", "upstream_garbled")
        if error := chunk.get("error"):
            raise ErrorInReply(error)
        reader.read_event(chunk)
        yield data.replace(b"\n", b" ")  # a line end between tokens: within strings, JSON escapes it
    # Without [DONE] and framing, the connection's end may be a break.
    framed = "transfer-encoding" in response.headers or "content-length" in response.headers
    if not all(reader.finished.values()) or not (done or (reader.finished and framed)):
        raise _cut()
    if done:
        yield _DONE


async def _data_in(response: httpx.Response) -> AsyncGenerator[bytes]:
    """Data of each event, even of a whole last one without its blank line. Raises ApiError if that is cut."""
    frames, events = sse.FrameSplitter(), 0
    async for received in response.aiter_bytes():
        for data in filter(None, map(sse.data_of, frames.whole(received))):
            events += 1
            yield data
        if frames.rest_bytes > LARGEST_BYTES:
            raise TooLarge(response.request)
    rest = frames.rest()
    last = sse.data_of(rest)
    if last is not None and (last.strip() == _DONE or _is_json(last)):
        yield last
    elif last:
        raise _cut()
    elif not events and _is_json(rest):
        if error := json.loads(rest).get("error"):
            raise ErrorInReply(error)
        words = "The upstream answered with a whole reply, but a stream was asked for: ask without `stream`."
        raise upstream_error(502, words, "upstream_garbled")


def _is_json(data: bytes | str) -> bool:
    """Whether this is a whole JSON object."""
    try:
        return isinstance(json.loads(data), dict)
    except (ValueError, RecursionError):
        return False


class _Lines:
    """A stream's lines on their way to litellm's reader, which takes any end for a good one."""

    def __init__(self) -> None:
        self._lines: Any = None  # None if litellm's reader reads no lines
        self.broken = False
        self.stopped = False  # Anthropic's last event came
        self.error: Any = None  # as the provider sent it

    @classmethod
    def of(cls, reply: Any) -> "_Lines":
        """Step between the provider and litellm's reader, which may come later (Gemini)."""
        lines, make_call = cls(), reply.make_call
        if reply.completion_stream is not None:
            lines._step_into(reply.completion_stream)
        elif make_call is not None:

            async def make(**options: Any) -> Any:
                return lines._step_into(await make_call(**options))

            reply.make_call = make
        return lines

    def _step_into(self, reader: Any) -> Any:
        if hasattr(getattr(reader, "streaming_response", None), "__anext__"):
            self._lines, reader.streaming_response = reader.streaming_response, self
        return reader

    async def until_stopped(self) -> None:
        """Read on to Anthropic's last event. Raises ApiError if it is missing."""
        while self._lines is not None and not self.stopped:
            if await anext(self, None) is None:
                raise _cut()

    def __aiter__(self) -> "_Lines":
        return self

    async def __anext__(self) -> Any:
        try:
            line = await anext(self._lines)
        except httpx.HTTPError:
            self.broken = True
            raise
        if isinstance(line, str) and ('"message_stop"' in line or '"error"' in line):
            data = line.removeprefix("data:")
            said = json.loads(data) if _is_json(data) else {}
            self.stopped = self.stopped or said.get("type") == "message_stop"
            self.error = self.error or said.get("error")
        return line

    async def aclose(self) -> None:
        await self._lines.aclose()


async def _rebuilt(reply: Any) -> AsyncGenerator[bytes]:
    """litellm's chunks from other dialects, without those it invents."""
    model, lines = "", _Lines.of(reply)
    async for chunk in _with_provider_errors(reply, lines):
        if any(choice.finish_reason for choice in chunk.choices) and not _has_finish_reason(reply):
            raise _cut()  # litellm writes `stop` when the bytes just end
        model = chunk._hidden_params.get("provider_response_model") or model or chunk.model
        slim = {**_slim_chunk(chunk), "model": model}
        if usage := _reported_usage(slim.pop("usage", {}), reply):
            slim["usage"] = usage
        if slim["choices"] or "usage" in slim:
            yield orjson.dumps(slim)
    if type(reply.completion_stream).__module__ == _ANTHROPIC:
        await lines.until_stopped()  # litellm stops reading at a finish reason
    if not _has_finish_reason(reply) or lines.broken:
        raise _cut()
    yield _DONE


async def _with_provider_errors(reply: Any, lines: _Lines) -> AsyncGenerator[Any]:
    """litellm's chunks. Raises ErrorInReply with the provider's own error object, as litellm has only words."""
    import openai

    try:
        async for chunk in reply:
            yield chunk
    except openai.OpenAIError as error:
        if lines.error:
            raise ErrorInReply(lines.error) from error
        raise


def _has_finish_reason(reply: Any) -> bool:
    """Whether the provider itself sent a finish reason."""
    return reply.received_finish_reason is not None or reply.intermittent_finish_reason is not None


def _reported_usage(usage: Json, reply: Any) -> Json:
    """Usage as the provider reported it; empty without a report: litellm then counts words, or writes zeros.

    A price stays only if the provider sent it; litellm computes prices, too.
    """
    if not usage.get("total_tokens"):
        return {}
    reported = [chunk.usage for chunk in reply.chunks if getattr(chunk, "usage", None)]
    if not any(getattr(each, "cost", None) for each in reported):
        usage.pop("cost", None)
    return usage if reported else {}


def _slim_chunk(chunk: Any) -> Json:
    """A litellm chunk as JSON, without nulls, litellm's own fields and empty choices."""
    slim = _without_nulls(chunk.model_dump(mode="json"))
    choices = []
    for choice in slim["choices"]:
        delta = _without_nulls(choice["delta"])
        if "tool_calls" in delta:
            delta["tool_calls"] = [_slim_call(call) for call in delta["tool_calls"]]
            if not delta.get("content"):
                delta.pop("content", None)
        if delta or choice.get("finish_reason"):
            choices.append({**_without_nulls(choice), "delta": delta, "finish_reason": choice.get("finish_reason")})
    slim["choices"] = choices
    if "usage" in slim:
        slim["usage"] = _slim_usage(slim["usage"])
    return slim


def _slim_call(call: Json) -> Json:
    """A piece of a tool call: index and arguments; id, type and name only in the first piece."""
    slim = {**_without_nulls(call), "function": _without_nulls(call["function"])}
    if "id" not in slim:
        slim.pop("type", None)
    return slim


def _slim_usage(usage: Json) -> Json:
    """Usage without what litellm adds: zeros as details, and `text_tokens`, which is just the remainder."""
    slim: Json = {}
    for name, value in usage.items():
        part = _slim_usage(value) if isinstance(value, dict) else value
        if name != "text_tokens" and (part or (part is not None and name in _TOTALS)):
            slim[name] = part
    return slim


def _without_nulls(value: Json) -> Json:
    """The object without nulls and without empty `provider_specific_fields`."""
    slim = {name: field for name, field in value.items() if field is not None}
    if not any(field is not None for field in slim.get("provider_specific_fields", {}).values()):
        slim.pop("provider_specific_fields", None)
    return slim


def _cut() -> ApiError:
    return upstream_error(502, "The upstream broke off before the answer was complete.", "upstream_cut")
