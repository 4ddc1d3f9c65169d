"""What may reach litellm of a client's body: an allow-list, since litellm's own controls sit beside a model's
parameters.

`api_base`, `mock_response`, `fallbacks`, `extra_headers` and many more are arguments of `litellm.acompletion` like
`temperature`; a client that could set them would choose who receives the provider's key. Objects hold controls, too:
litellm would check replies against a `response_format` schema and fetch its references, and a picture's address may
name a file in a cloud whose credentials only the gateway has. So every object is read down to its leaves. A JSON schema
stays as sent: the provider reads it.
"""

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from proxy.dialects.errors import ApiError

Json = dict[str, Any]
# Takes a value and its place in the body, returns litellm's value, raises ApiError 400.
Check = Callable[[Any, str], Any]

_DEEPEST = 160  # levels in a JSON schema; some of litellm's readers take three of Python's 1,000 calls per level
_LONGEST_NAME = 200  # in an error
_FILE_ID = re.compile(r"[\w-]{1,256}")


def _plain(value: Any, at: str) -> Any:
    if isinstance(value, dict | list):
        raise _refused(f"`{at}` must be a text, a number, true, false or null.", at, "invalid_type")
    return value


def _free(value: Any, at: str) -> Any:
    """Any JSON: litellm reads only the keywords of JSON schemas."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [*itertools.chain.from_iterable(_inside(each) for each in level)]
        if not level:
            return value
    raise _refused(f"`{at}` is nested deeper than {_DEEPEST} levels.", at, "invalid_type")


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _each(check: Check) -> Check:
    """A list of values that `check` allows."""

    def listed(value: Any, at: str) -> Any:
        if not isinstance(value, list):
            raise _refused(f"`{at}` must be a list.", at, "invalid_type")
        return [check(each, f"{at}[{index}]") for index, each in enumerate(value)]

    return listed


def _or_plain(check: Check) -> Check:
    """A text, a number, null, or a value that `check` allows."""
    return lambda value, at: check(value, at) if isinstance(value, dict | list) else value


def _members(value: Any, at: str) -> Json:
    if not isinstance(value, dict):
        raise _refused(f"`{at}` must be an object.", at, "invalid_type")
    return value


def _typed(kinds: Mapping[str, Check], other: Callable[[str], ApiError]) -> Check:
    """An object of the kind that `type` names. other: makes the error for any other `type`, from its place."""

    def checked(value: Any, at: str) -> Any:
        kind = _members(value, at).get("type")
        if not isinstance(kind, str) or kind not in kinds:
            raise other(f"{at}.type")
        return kinds[kind](value, at)

    return checked


def _of(plain: str, **others: Check) -> Check:
    """An object with plain members, and members with a check.

    Any other member counts as not sent if it is null, as at the top level.
    """
    checks = {**dict.fromkeys(plain.split(), _plain), **others}

    def checked(value: Any, at: str) -> Any:
        kept = {}
        for name, member in _members(value, at).items():
            if name in checks:
                kept[name] = checks[name](member, f"{at}.{name}")
            elif member is not None:
                raise _unsupported(f"{at}.{name}")
        return kept

    return checked


def _any_names(value: Any, at: str) -> Any:
    return {name: _plain(member, at) for name, member in _members(value, at).items()}


def _address(value: Any, at: str) -> Any:
    """An address for the provider, or the bytes. litellm would open other schemes (gs:, s3:, file:) with the gateway's
    rights.
    """
    if not isinstance(value, str) or not value.lower().startswith(("https://", "http://", "data:")):
        raise _refused(f"`{at}` must be an https:, http: or data: address.", at, "unsupported_address")
    return value


def _bytes(value: Any, at: str) -> Any:
    """A data: address, or bare base64 (no colon); some of litellm's providers fetch any other address."""
    if not isinstance(value, str) or (":" in value and not value.startswith("data:")):
        raise _refused(f"`{at}` must be base64 or a data: address.", at, "unsupported_address")
    return value


def _file_id(value: Any, at: str) -> Any:
    if value is not None and not (isinstance(value, str) and _FILE_ID.fullmatch(value)):
        raise _refused(f"`{at}` must be an id of letters, digits, - and _.", at, "unsupported_address")
    return value


_CACHED = {"cache_control": _of("type ttl"), "prompt_cache_breakpoint": _of("mode")}
_PICTURE = _of("detail format", url=_address)
_PICTURE_OR_ADDRESS: Check = lambda value, at: (_address if isinstance(value, str) else _PICTURE)(value, at)  # noqa: E731
_TEXT_PART = _of("type text", **_CACHED)
_PICTURE_PART = _of("type index", image_url=_PICTURE_OR_ADDRESS, **_CACHED)
_PART = _typed(
    {
        "text": _TEXT_PART,
        "refusal": _of("type refusal"),
        "image_url": _PICTURE_PART,
        "video_url": _of("type", video_url=_PICTURE_OR_ADDRESS, **_CACHED),
        "input_audio": _of("type", input_audio=_of("data format"), **_CACHED),
        "file": _of("type", file=_of("filename format", file_data=_bytes, file_id=_file_id), **_CACHED),
    },
    lambda at: _refused(f"`{at}` names no content part of the translated lane.", at, "unsupported_content"),
)
_SIGNED = {"provider_specific_fields": _of("thought_signature")}  # from Gemini, and back to Gemini
_FUNCTION_CALL = _of("name arguments", **_SIGNED)
_CALL = _of(
    "id type index",
    function=_FUNCTION_CALL,
    custom=_of("name input"),
    **_SIGNED,
    **_CACHED,
)
# OpenAI's members; then those in the lane's replies, which clients send back.
_MESSAGE = _of(
    "role name tool_call_id refusal prefix reasoning_content reasoning",
    content=_or_plain(_each(_PART)),
    tool_calls=_or_plain(_each(_CALL)),
    function_call=_or_plain(_FUNCTION_CALL),
    audio=_or_plain(_of("id data expires_at transcript")),
    annotations=_or_plain(_each(_of("type", url_citation=_of("start_index end_index title url")))),
    images=_or_plain(_each(_PICTURE_PART)),
    reasoning_details=_or_plain(_each(_of("type id index format text summary data signature"))),
    reasoning_items=_or_plain(
        _each(_of("type id status encrypted_content", **dict.fromkeys(("summary", "content"), _each(_TEXT_PART))))
    ),
    thinking_blocks=_or_plain(_each(_of("type thinking signature data", **_CACHED))),
    provider_specific_fields=_or_plain(
        _of(
            "thought_signature reasoning_content",
            thought_signatures=_each(_plain),
            **dict.fromkeys("citations compaction_blocks tool_results web_search_results".split(), _free),
        )
    ),
    **_CACHED,
)
_FUNCTION = _of("name description strict", parameters=_or_plain(_free), **_CACHED)
_NAMED = {"function": _of("name"), "custom": _of("name")}
# Tools of other types may carry a `server_url`, and litellm itself would answer "litellm_proxy/...".
_TOOL = _typed(
    {
        "function": _of("type", function=_FUNCTION, **_CACHED),
        "custom": _of(
            "type",
            custom=_of("name description", format=_or_plain(_of("type", grammar=_of("definition syntax")))),
            **_CACHED,
        ),
    },
    lambda at: _refused(f"`{at}` must be function or custom in the translated lane.", at, "unsupported_tool"),
)

# CreateChatCompletionRequest in OpenAI's OpenAPI file, without `model` (ours to set), and without `metadata` and
# `prompt_cache_retention`, which litellm keeps and never sends; then two fields from other providers that steer only
# the model: Anthropic's `thinking`, and `top_k`. No member names a place, a key or a model.
PARAMETERS: dict[str, Check] = {
    **dict.fromkeys(
        """
        frequency_penalty logprobs max_completion_tokens max_tokens n parallel_tool_calls presence_penalty
        prompt_cache_key reasoning_effort safety_identifier seed service_tier store stream temperature top_logprobs
        top_p user verbosity top_k
        """.split(),
        _plain,
    ),
    "audio": _of("format", voice=_or_plain(_of("id"))),
    "function_call": _or_plain(_of("name")),
    "functions": _each(_FUNCTION),
    "logit_bias": _any_names,
    "messages": _each(_MESSAGE),
    "modalities": _each(_plain),
    "moderation": _of("model", policy=_or_plain(_of("", **dict.fromkeys(("input", "output"), _or_plain(_of("mode")))))),
    "prediction": _of("type", content=_or_plain(_each(_TEXT_PART))),
    "prompt_cache_options": _of("mode ttl"),
    "response_format": _of("type", json_schema=_or_plain(_of("name description strict", schema=_or_plain(_free)))),
    "stop": _or_plain(_each(_plain)),
    "stream_options": _of("include_usage include_obfuscation"),
    "tool_choice": _or_plain(_of("type", allowed_tools=_of("mode", tools=_each(_of("type", **_NAMED))), **_NAMED)),
    "tools": _each(_TOOL),
    "web_search_options": _of(
        "search_context_size",
        user_location=_or_plain(_of("type", approximate=_or_plain(_of("city country region timezone")))),
    ),
    "thinking": _of("type budget_tokens display"),
}


def parameters_of(body: bytes) -> Json:
    """A request body's allowed parameters, without nulls and `model`.

    Raises ApiError 400, which names the malformed or forbidden member.
    """
    try:
        sent = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _refused(f"The body is not JSON: {error}.", None, "invalid_json") from None
    if not isinstance(sent, dict):
        raise _refused("The body must be a JSON object.", None, "invalid_json")
    parameters = {}
    for name, value in sent.items():
        if value is None or name == "model":
            continue
        if name not in PARAMETERS:
            raise _unsupported(name)
        parameters[name] = PARAMETERS[name](value, name)
    if "messages" not in parameters:
        raise _refused("`messages` is missing.", "messages", "missing_parameter")
    for name in ("messages", "tools", "functions"):
        if not parameters.get(name, [{}]):
            raise _refused(f"`{name}` must be a list of at least one object.", name, "invalid_type")
    if not isinstance(parameters.get("stream", False), bool):
        raise _refused("`stream` must be true or false.", "stream", "invalid_type")
    return parameters


def check_sound(parameters: Json, model: str) -> None:
    """Refuse sound for Claude models: litellm would drop it without an error. Raises ApiError 400."""
    for index, message in enumerate(parameters["messages"] if "claude" in model else ()):
        content = message.get("content")
        for place, part in enumerate(content if isinstance(content, list) else ()):
            if part["type"] == "input_audio":
                at = f"messages[{index}].content[{place}]"
                raise _refused(f"`{at}` is sound, which Claude models do not take.", at, "unsupported_by_provider")


def _unsupported(at: str) -> ApiError:
    at = at[:_LONGEST_NAME]
    return _refused(f"`{at}` is not supported in the translated lane: leave it out.", at, "unsupported_parameter")


def _refused(message: str, param: str | None, code: str) -> ApiError:
    return ApiError(400, message, param=param, code=code)


def sendable(message: Json) -> Json:
    """A reply's message with calls, without members that `parameters_of` refuses."""
    calls = [
        _allowed(call, _CALL) | ({"function": _allowed(call["function"], _FUNCTION_CALL)} if "function" in call else {})
        for call in message.get("tool_calls", ())
    ]
    return _allowed({**message, "tool_calls": calls} if calls else message, _MESSAGE)


def _allowed(members: Json, check: Check) -> Json:
    kept: Json = {}
    for name, value in members.items():
        with contextlib.suppress(ApiError):
            kept |= check({name: value}, "")
    return kept
