"""Turns litellm's exceptions into errors in OpenAI's shape, with the provider's own status and words.

litellm guesses a status from words (a 404 that mentions a rate limit becomes 429), and its text carries class names,
addresses and now and then a key. The chain of causes has the provider's answer, so we read that.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import orjson

from proxy.dialects.errors import ApiError, Headers, upstream_error
from proxy.dialects.replies import error_text
from proxy.dialects.target import Target
from proxy.upstream.relay import OF_THE_BODY, end_to_end
from proxy.upstream.translated.calls import TooLarge, answered, asked_nothing

Json = dict[str, Any]

_PREFIX = re.compile(r"^(?:litellm\.)?[A-Z]\w*(?:Error|Exception|Timeout)(?:: | - )")
_ADVICE = re.compile(
    r"(?:, url=| To drop these, set |\. Handle with |\n Pass model as E\.g\.|\nTraceback \().*", re.DOTALL
)
_SECRET_NAME = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD)$")
_SHORTEST_SECRET_CHARS = 8  # shorter environment values would blank ordinary words


class ProviderError(ApiError):
    """A provider's own error, in its words and OpenAI's shape."""

    def __init__(
        self, status: int, said: Json, target: Target, *, log_text: str, headers: Headers | None = None
    ) -> None:
        """said: the value of `error`; its type stands for a missing code."""

        def text(name: str) -> str | None:
            return _redacted(str(said[name]), target) if said.get(name) else None

        message = _redacted(_message_of(said), target) or "The upstream reported an error."
        kind = text("type") or text("status")
        self._said = {
            "message": message,
            "type": kind if kind or "type" in said else "upstream_error",
            "param": text("param") if isinstance(said.get("param"), str) else None,
            "code": text("code") if "code" in said else kind or "upstream_error",
        }
        _, type, param, code = self._said.values()
        type = type or "upstream_error"
        super().__init__(
            status, message, code=code or type, type=type, param=param, headers=headers or [], log_text=log_text
        )

    def body(self) -> bytes:
        """OpenAI's error body, with null where the provider sent null."""
        return orjson.dumps({"error": self._said})


class ErrorInReply(Exception):
    """An error that a provider sent instead of an answer."""

    def __init__(self, said: Any) -> None:
        super().__init__()
        self.said = said


def headers_of(response: httpx.Response) -> Headers:
    """Provider headers for the client: the same as in the relay, without those about the body."""
    headers = end_to_end(response.headers.raw, response.status_code)
    return [header for header in headers if not OF_THE_BODY.fullmatch(header[0])]


@contextmanager
def provider_errors(target: Target) -> Iterator[None]:
    """Turn exceptions of litellm and HTTP clients inside the block into an ApiError."""
    import openai  # litellm has loaded it, and subclasses its exceptions

    try:
        yield
    except ErrorInReply as error:
        raise ProviderError(502, _object_of(error.said), target, log_text="upstream_error") from None
    except (openai.OpenAIError, httpx.HTTPError) as error:
        raise _api_error(error, target) from None
    except (ValueError, RecursionError):  # also numbers with too many digits, and values nested too deeply
        raise upstream_error(502, "The upstream sent a chunk that is not JSON.", "upstream_garbled") from None


def _api_error(error: BaseException, target: Target) -> ApiError:
    """The provider's own status and words; 504 if it is too slow, 502 if it is out of reach."""
    for link in _causes(error):
        if isinstance(link, httpx.HTTPStatusError):
            if link.response.status_code < 400:
                return _no_answer(link.response.status_code)
            return _refusal(link.response, _redacted(_words(error), target), target)
        if isinstance(link, httpx.RequestError):
            return _failure(link)
    words = _redacted(_words(error), target)
    if (reply := answered()) is not None and reply.status_code == 200 and (said := _json_of(reply).get("error")):
        return ProviderError(502, _object_of(said), target, log_text="upstream_error", headers=headers_of(reply))
    status = getattr(error, "status_code", None) or 502
    if status in range(400, 500):  # litellm refused, mostly for a parameter that the provider lacks
        return ApiError(status, words, code="unsupported_by_provider")
    if asked_nothing():
        return ApiError(400, f"The request cannot be put for this provider: {words}", code="unsupported_by_provider")
    return upstream_error(502, words, "upstream_error")


def _failure(error: httpx.RequestError) -> ApiError:
    """A 502 or 504: the answer did not arrive whole."""
    if isinstance(error, TooLarge):
        return upstream_error(502, f"{error} Ask for less at once.", "upstream_too_large")
    if isinstance(error, httpx.TimeoutException):
        words = f"The upstream took too long ({type(error).__name__})."
        return upstream_error(504, words, "upstream_timeout", cause=_address_of(error))
    words = f"The upstream could not be reached or broke off ({type(error).__name__})."
    return upstream_error(502, words, "upstream_unreachable", cause=_address_of(error))


def _address_of(error: httpx.RequestError) -> str:
    """Host and reason, which clients do not learn."""
    try:
        host = f"{error.request.url.host}:{error.request.url.port or error.request.url.scheme}"
    except RuntimeError:  # raised before a request was made
        host = ""
    return " ".join(f"{host}: {type(error).__name__} {error}".split())


def _no_answer(status: int) -> ApiError:
    """A 502 for a status that is neither answer nor error, without a redirect's address."""
    if status in range(300, 400):
        words = f"The upstream answered {status}, a redirect, and redirects are not followed: correct its `api_base`."
        return upstream_error(502, words, "upstream_redirect")
    return upstream_error(502, f"The upstream answered {status}, which is not an answer.", "upstream_error")


def _refusal(response: httpx.Response, words: str, target: Target) -> ProviderError:
    """The error in a reply with an error status; `words` if its body has no readable message."""
    body, status = _json_of(response), response.status_code
    said = _object_of(body.get("error", body))
    said = {**said, "message": _message_of(said) or words}
    return ProviderError(status, said, target, log_text=f"the upstream answered {status}", headers=headers_of(response))


def _message_of(said: Json) -> str:
    """The provider's words as sent, or those within a list or an object, as FastAPI writes faults; "": none."""
    message = said.get("message")
    return message if isinstance(message, str) and message else error_text([message, said.get("detail")])


def _json_of(response: httpx.Response) -> Json:
    """The body as an object, or a list's first object (Google); empty for any other body."""
    try:
        body = json.loads(response.content)
    except (ValueError, RecursionError, httpx.StreamError):
        return {}
    body = body[0] if isinstance(body, list) and body else body
    return body if isinstance(body, dict) else {}


def _object_of(said: Any) -> Json:
    """The value of `error` as an object: it is one already (OpenAI, Anthropic, Google), or plain words."""
    return said if isinstance(said, dict) else {"message": said}


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and its chain of causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = getattr(error, "original_exception", None) or error.__cause__ or error.__context__


def _words(error: BaseException) -> str:
    """The message without litellm's class names before it and advice after it."""
    words = str(getattr(error, "message", "") or error)
    while _PREFIX.match(words):
        words = _PREFIX.sub("", words)
    return _ADVICE.sub("", words).strip()


def _redacted(words: str, target: Target) -> str:
    """The words without any key: some providers echo it, some take it in the URL."""
    of_environment = {value for name, value in os.environ.items() if _SECRET_NAME.search(name)}
    for secret in {target.api_key, *(value for value in of_environment if len(value) >= _SHORTEST_SECRET_CHARS)}:
        words = words.replace(secret, "***") if secret else words
    return words.encode("utf-8", "backslashreplace").decode()  # they may hold half a surrogate pair
