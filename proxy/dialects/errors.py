"""The gateway's errors as clients see them: a status, and OpenAI's error body.

The relay passes upstream errors on unchanged, byte for byte.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import orjson

Headers = list[tuple[bytes, bytes]]


@dataclass(eq=False, repr=False)
class ApiError(Exception):
    """An error answer: it names the fault, the expected value and the remedy."""

    status: int
    message: str
    _: KW_ONLY
    code: str
    type: str = "invalid_request_error"
    param: str | None = None
    headers: Headers = field(default_factory=list)  # besides content-type and content-length
    # For the log, if `code` comes from an upstream and may quote a key or a text. Or the code, a colon, and what only
    # operators should read: an address, a key's id.
    log_text: str = ""
    details: Mapping[str, Any] = field(default_factory=dict, init=False)  # for programs, in Messages API errors only

    def __post_init__(self) -> None:
        super().__init__(self.message)
        self.log_text = self.log_text or self.code

    def body(self) -> bytes:
        message, param = encodable(self.message), None if self.param is None else encodable(self.param)
        return orjson.dumps({"error": {"message": message, "type": self.type, "param": param, "code": self.code}})


def encodable(text: str) -> str:
    """Escape lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "backslashreplace").decode()


def method_not_allowed(method: str, path: str, allowed: Sequence[str]) -> ApiError:
    names = ", ".join(allowed)
    text = f"{path} does not take {method}, only {names}."
    return ApiError(405, text, code="method_not_allowed", headers=[(b"allow", names.encode())])


def forbidden(message: str, param: str | None = None) -> ApiError:
    """A 403: the key lacks a right."""
    return ApiError(403, message, code="forbidden", type="permission_error", param=param)


def upstream_error(status: int, message: str, code: str, *, cause: str = "") -> ApiError:
    """An upstream failed: 502 unreachable or broken off, 504 too slow. cause: address and reason, logged."""
    log_text = f"{code}: {cause}" if cause else code
    return ApiError(status, message, code=code, type="upstream_error", log_text=log_text)
