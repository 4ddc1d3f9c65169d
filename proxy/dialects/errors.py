"""Errors of the gateway, as clients see errors: a status, and OpenAI's error body.

The relay passes the bytes of an upstream's error on unchanged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import orjson

Headers = list[tuple[bytes, bytes]]


@dataclass(eq=False, repr=False)
class ApiError(Exception):
    """An error answer of the gateway: the fault, the expected value, the remedy."""

    status: int
    message: str
    _: KW_ONLY
    code: str
    type: str = "invalid_request_error"
    param: str | None = None
    headers: Headers = field(default_factory=list)  # besides content-type and content-length
    # For the log, if the code is the upstream's, which may quote a key or a text. Or the code, a colon, and what only
    # the operator should read: an address, the id of a key.
    log_text: str = ""
    details: Mapping[str, Any] = field(default_factory=dict, init=False)  # for programs, in errors of messages alone

    def __post_init__(self) -> None:
        super().__init__(self.message)
        self.log_text = self.log_text or self.code

    def body(self) -> bytes:
        message, param = encodable(self.message), None if self.param is None else encodable(self.param)
        return orjson.dumps({"error": {"message": message, "type": self.type, "param": param, "code": self.code}})


def encodable(text: str) -> str:
    """The text, with escapes in place of lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "backslashreplace").decode()


def method_not_allowed(method: str, path: str, allowed: Sequence[str]) -> ApiError:
    names = ", ".join(allowed)
    text = f"{path} does not take {method}, only {names}."
    return ApiError(405, text, code="method_not_allowed", headers=[(b"allow", names.encode())])


def forbidden(message: str, param: str | None = None) -> ApiError:
    """The 403 for a key without a right."""
    return ApiError(403, message, code="forbidden", type="permission_error", param=param)


def upstream_error(status: int, message: str, code: str, *, cause: str = "") -> ApiError:
    """A failure of the upstream: 502 unreachable or broken off, 504 too slow. cause: address and reason, logged."""
    log_text = f"{code}: {cause}" if cause else code
    return ApiError(status, message, code=code, type="upstream_error", log_text=log_text)
