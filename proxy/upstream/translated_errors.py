"""What litellm raises, as errors in OpenAI's shape that say what the provider said.

litellm's own status is a guess from the words (a 404 that mentions a rate limit becomes 429), and its text carries
class names, addresses and now and then a key. The provider's answer is in the chain of causes: that is where we look.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import orjson

from proxy.errors import ApiError, Headers, upstream_error
from proxy.exchange import Target

_KEPT_HEADERS = ("retry-after", "retry-after-ms")
_PREFIX = re.compile(r"^(?:litellm\.)?[A-Z]\w*(?:Error|Exception|Timeout)(?:: | - )")
_ADVICE = re.compile(r"(?: To drop these, set |\. Handle with |\n Pass model as E\.g\.|\nTraceback \().*", re.DOTALL)
_SECRET_NAME = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD)$")
_SHORTEST_SECRET_CHARS = 8  # a shorter value of the environment would blank ordinary words


class ProviderError(ApiError):
    """The provider's own refusal, with the headers that tell when to try again."""

    def __init__(self, status: int, message: str, *, code: str, type: str, param: str | None, headers: Headers) -> None:
        super().__init__(status, message, code=code, type=type, param=param)
        self.headers = headers


@contextmanager
def provider_errors(target: Target) -> Iterator[None]:
    """Turn what litellm and its clients raise inside the block into an ApiError."""
    import openai  # loaded with litellm: every exception of litellm's is one of openai's

    try:
        yield
    except (openai.OpenAIError, httpx.HTTPError) as error:
        raise _api_error(error, target) from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise upstream_error(502, "The upstream sent a chunk that is not JSON.", "upstream_garbled") from None


def _api_error(error: BaseException, target: Target) -> ApiError:
    """The provider's own status and words where it answered, 504 where it was too slow, 502 where it was not there."""
    for link in _causes(error):
        if isinstance(link, httpx.HTTPStatusError):
            return _refusal(link.response, _redacted(_words(error), target), target)
        if isinstance(link, httpx.TimeoutException):
            return upstream_error(504, f"The upstream took too long ({type(link).__name__}).", "upstream_timeout")
        if isinstance(link, httpx.TransportError):
            words = f"The upstream could not be reached or broke off ({type(link).__name__})."
            return upstream_error(502, words, "upstream_unreachable")
    words = _redacted(_words(error), target)
    status = getattr(error, "status_code", None) or 502
    if status in range(400, 500):  # refused by litellm itself, mostly a parameter that this provider does not have
        return ApiError(status, words, code="unsupported_by_provider")
    return upstream_error(502, words, "upstream_error")


def _refusal(response: httpx.Response, words: str, target: Target) -> ProviderError:
    """The provider's own error; `words` where its body has none that can be read."""
    said = _error_object(response)
    kind = str(said.get("type") or said.get("status") or "upstream_error")
    kept = [name for name in _KEPT_HEADERS if name in response.headers]
    return ProviderError(
        response.status_code,
        _redacted(str(said.get("message") or words), target),
        type=kind,
        code=str(said.get("code") or kind),
        param=said.get("param") if isinstance(said.get("param"), str) else None,
        headers=[(name.encode(), response.headers[name].encode("latin-1")) for name in kept],
    )


def _error_object(response: httpx.Response) -> dict[str, Any]:
    """The error in the body: under `error` (OpenAI, Anthropic, Google), in a list (Google), or the body itself."""
    try:
        said = orjson.loads(response.content)
    except (orjson.JSONDecodeError, httpx.StreamError):
        return {}
    said = said[0] if isinstance(said, list) and said else said
    said = said.get("error", said) if isinstance(said, dict) else said
    if isinstance(said, str):
        return {"message": said}
    return said if isinstance(said, dict) else {}


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and, one by one, what caused it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = getattr(error, "original_exception", None) or error.__cause__ or error.__context__


def _words(error: BaseException) -> str:
    """The message without litellm's class names in front and its advice behind."""
    words = str(getattr(error, "message", "") or error)
    while _PREFIX.match(words):
        words = _PREFIX.sub("", words)
    return _ADVICE.sub("", words).strip()


def _redacted(words: str, target: Target) -> str:
    """The words without any key that the call may have carried: some providers echo it, some take it in their URL."""
    of_environment = {value for name, value in os.environ.items() if _SECRET_NAME.search(name)}
    for secret in {target.api_key, *(value for value in of_environment if len(value) >= _SHORTEST_SECRET_CHARS)}:
        words = words.replace(secret, "***") if secret else words
    return words
