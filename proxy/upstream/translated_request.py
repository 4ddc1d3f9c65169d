"""What of a client's body may reach litellm: an allow-list, because its own controls are arguments of the same call.

`api_base`, `mock_response`, `fallbacks`, `extra_headers` and many more stand beside `temperature` in
`litellm.acompletion`; a client that could set them would choose where the provider's key is sent.
"""

from typing import Any

import orjson

from proxy.errors import ApiError

Json = dict[str, Any]

# CreateChatCompletionRequest of OpenAI's OpenAPI file without `model` (ours) and without `metadata` and
# `prompt_cache_retention`, which litellm takes for its own and never sends; then two fields of other providers that
# steer only the model: Anthropic's `thinking`, and `top_k`. Nothing in here names a place, a key, a file or a model.
PARAMETERS = frozenset(
    """
    audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens messages
    modalities moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_options
    reasoning_effort response_format safety_identifier seed service_tier stop store stream stream_options temperature
    tool_choice tools top_logprobs top_p user verbosity web_search_options
    thinking top_k
    """.split()
)

# A tool of another type may carry a `server_url`, and litellm would answer "litellm_proxy/..." itself.
TOOL_TYPES = ("function", "custom")


def parameters_of(body: bytes) -> Json:
    """The allowed parameters of a request body, nulls and `model` left out.

    Raises ApiError 400 for what is malformed or not allowed, naming it.
    """
    try:
        sent = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _refused(f"The body is not JSON: {error}.", None, "invalid_json") from None
    if not isinstance(sent, dict):
        raise _refused("The body must be a JSON object.", None, "invalid_json")
    parameters = {name: value for name, value in sent.items() if value is not None and name != "model"}
    for name in parameters:
        if name not in PARAMETERS:
            words = f"`{name}` is not supported in the translated lane: leave it out."
            raise _refused(words, name, "unsupported_parameter")
    _check_shapes(parameters)
    return parameters


def _check_shapes(parameters: Json) -> None:
    """Raise where a value would make litellm stumble rather than the provider refuse."""
    if "messages" not in parameters:
        raise _refused("`messages` is missing.", "messages", "missing_parameter")
    for name in ("messages", "tools", "functions"):
        value = parameters.get(name, [{}])
        if not (isinstance(value, list) and value and all(isinstance(item, dict) for item in value)):
            raise _refused(f"`{name}` must be a list of at least one object.", name, "invalid_type")
    for message in parameters["messages"]:
        parts = message.get("content")
        if isinstance(parts, list) and not all(isinstance(p, dict) and isinstance(p.get("type"), str) for p in parts):
            words = "A `content` that is a list must hold objects, each with a `type`."
            raise _refused(words, "messages", "invalid_type")
    if not isinstance(parameters.get("stream", False), bool):
        raise _refused("`stream` must be true or false.", "stream", "invalid_type")
    for name in ("stream_options", "response_format"):
        if not isinstance(parameters.get(name, {}), dict):
            raise _refused(f"`{name}` must be an object.", name, "invalid_type")
    for tool in parameters.get("tools", []):
        if tool.get("type") not in TOOL_TYPES:
            words = f"A tool in the translated lane is of type {' or '.join(TOOL_TYPES)}, not {tool.get('type')!r}."
            raise _refused(words, "tools", "unsupported_tool")


def _refused(message: str, param: str | None, code: str) -> ApiError:
    return ApiError(400, message, param=param, code=code)
