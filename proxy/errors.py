"""Errors of ours as clients see them: a status and OpenAI's error body, from one place.

The upstream's own errors never pass through here; they are relayed as they came.
"""

from collections.abc import Sequence

import orjson

Headers = list[tuple[bytes, bytes]]


class ApiError(Exception):
    """An answer of ours that is an error: what was wrong, what was expected, what to do."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        type: str = "invalid_request_error",
        param: str | None = None,
        headers: Headers | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.type = type
        self.param = param
        self.headers = headers or []  # besides content-type and content-length

    def body(self) -> bytes:
        """OpenAI's error body as JSON."""
        message, param = _encodable(self.message), None if self.param is None else _encodable(self.param)
        return orjson.dumps({"error": {"message": message, "type": self.type, "param": param, "code": self.code}})


def _encodable(text: str) -> str:
    """The text; half a surrogate pair that it quotes is spelled out."""
    return text.encode("utf-8", "backslashreplace").decode()


def method_not_allowed(method: str, path: str, allowed: Sequence[str]) -> ApiError:
    """405, with the methods that there are."""
    names = ", ".join(allowed)
    text = f"{path} does not take {method}, only {names}."
    return ApiError(405, text, code="method_not_allowed", headers=[(b"allow", names.encode())])


def upstream_error(status: int, message: str, code: str) -> ApiError:
    """An error that is the upstream's doing: 502 could not be reached or broke off, 504 took too long."""
    return ApiError(status, message, code=code, type="upstream_error")
