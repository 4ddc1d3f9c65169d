"""litellm's replies as OpenAI's JSON, without what litellm invents.

It writes a clean end under a stream whose bytes just stopped, counts a usage that nobody reported, and fills every
object with nulls and fields of its own. What comes out must hold against the schemas of OpenAI's OpenAPI file.
"""

from collections.abc import AsyncGenerator
from typing import Any

from proxy.errors import ApiError, upstream_error

Json = dict[str, Any]


def chunks_of(reply: Any) -> AsyncGenerator[Json]:
    """The chunks of a streamed reply, at least one. The generator raises ApiError where the stream broke off."""
    from openai import AsyncStream

    stream = reply.completion_stream
    return _as_received(stream) if isinstance(stream, AsyncStream) else _rebuilt(reply)


def completion_of(reply: Any) -> Json:
    """A whole reply: nulls and empty fields of litellm's left out, what the schema requires put in."""
    slim = _without_nulls(reply.model_dump(mode="json"))
    for choice in slim["choices"]:
        message = choice["message"]
        fields = message.get("provider_specific_fields") or {}
        refusal = message.get("refusal") or fields.pop("refusal", None)
        choice["message"] = {**_without_nulls(message), "content": message.get("content"), "refusal": refusal}
        choice.setdefault("logprobs", None)
        if not choice.get("provider_specific_fields"):
            choice.pop("provider_specific_fields", None)
    usage = _slim_usage(slim.pop("usage", {}))
    return {**slim, "usage": usage} if usage.get("total_tokens") else slim  # zeros: the provider reported none


async def _as_received(stream: Any) -> AsyncGenerator[Json]:
    """The chunks of an OpenAI-dialect provider as they came.

    litellm's wrapper around them is passed over: it drops streamed refusals and the finish reasons of all choices but
    one, replaces `created` and `model`, and puts a price into the usage.
    """
    finished: dict[int, bool] = {}
    async for chunk in stream:
        for choice in chunk.choices or ():
            finished[choice.index] = finished.get(choice.index, False) or choice.finish_reason is not None
        yield chunk.model_dump(mode="json", exclude_unset=True)
    if not finished or not all(finished.values()):
        raise _cut()


async def _rebuilt(reply: Any) -> AsyncGenerator[Json]:
    """The chunks litellm makes of another dialect, without those it invents."""
    model = ""
    async for chunk in reply:
        if not _said_to_finish(reply) and any(choice.finish_reason for choice in chunk.choices):
            raise _cut()  # litellm writes `stop` when the provider's bytes just end
        model = chunk._hidden_params.get("provider_response_model") or model or chunk.model
        slim = {**_slim_chunk(chunk), "model": model}
        if usage := _reported_usage(slim.pop("usage", {}), reply):
            slim["usage"] = usage
        if slim["choices"] or "usage" in slim:
            yield slim
    if not _said_to_finish(reply):
        raise _cut()


def _said_to_finish(reply: Any) -> bool:
    """Whether the provider itself has named a finish reason."""
    return reply.received_finish_reason is not None or reply.intermittent_finish_reason is not None


def _reported_usage(usage: Json, reply: Any) -> Json:
    """The usage, empty where the provider has reported none: then litellm has counted words, or put zeros.

    A price stays only where the provider named one; litellm computes its own.
    """
    if not usage.get("total_tokens"):
        return {}
    reported = [chunk.usage for chunk in reply.chunks if getattr(chunk, "usage", None)]
    if not any(getattr(each, "cost", None) for each in reported):
        usage.pop("cost", None)
    return usage if reported else {}


def _slim_chunk(chunk: Any) -> Json:
    """A chunk of litellm's as JSON: nulls, its own fields and empty choices left out."""
    slim = _without_nulls(chunk.model_dump(mode="json"))
    choices = []
    for choice in slim["choices"]:
        delta = _without_nulls(choice["delta"])
        if "tool_calls" in delta:
            delta["tool_calls"] = [_slim_call(call) for call in delta["tool_calls"]]
        if delta or choice.get("finish_reason"):
            choices.append({**_without_nulls(choice), "delta": delta, "finish_reason": choice.get("finish_reason")})
    slim["choices"] = choices
    if "usage" in slim:
        slim["usage"] = _slim_usage(slim["usage"])
    return slim


def _slim_call(call: Json) -> Json:
    """A piece of a tool call: index and arguments, with id and name only where they were said."""
    return {**_without_nulls(call), "function": _without_nulls(call["function"])}


def _slim_usage(usage: Json) -> Json:
    """The usage with what is known of it."""
    known = _without_nulls(usage)
    return {name: _without_nulls(part) if isinstance(part, dict) else part for name, part in known.items()}


def _without_nulls(value: Json) -> Json:
    """The object without null fields and without `provider_specific_fields` that say nothing."""
    slim = {name: field for name, field in value.items() if field is not None}
    if not any(field is not None for field in slim.get("provider_specific_fields", {}).values()):
        slim.pop("provider_specific_fields", None)
    return slim


def _cut() -> ApiError:
    return upstream_error(502, "The upstream broke off before the answer was complete.", "upstream_cut")
