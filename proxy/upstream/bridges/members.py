"""Reads members of a client's objects strictly: an unknown one may change the meaning, and is refused."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from proxy.dialects.errors import ApiError

Json = dict[str, Any]

_LONGEST_NAME = 200  # in an error
# Members that identify the client, for the provider's records: the answer is the same without them. A stored
# conversation's id is not among them.
ABOUT_CLIENT = re.compile(
    r"client(_\w+)?|(\w+_)?metadata(_passthrough)?|originator|user_agent|"
    r"(session|request|trace|turn|installation|device)_id"
)


def members_of(value: object, at: str, known: str, ignored: str = "") -> Json:
    """An object's known members, without nulls. at: where the object is, "" for the body.

    ignored: members that may be left out without changing the answer. Data about the client is left out, too. Raises
    ApiError 400 for any other.
    """
    if not isinstance(value, dict):
        wrong(at, "must be an object")
    members, left_out = {}, ignored.split()
    for name, member in value.items():
        if member is None or name in left_out:
            continue
        if name not in known.split():
            if ABOUT_CLIENT.fullmatch(name):
                continue
            unsupported(f"{at}.{name}" if at else name, "leave the member out")
        members[name] = member
    return members


def text_in(members: Mapping[str, Any], name: str, at: str) -> str:
    """A required member's text. Raises ApiError 400."""
    value = members.get(name)
    if not isinstance(value, str):
        wrong(f"{at}.{name}" if at else name, "must be a text")
    return value


def objects_in(value: object, at: str) -> Sequence[tuple[str, Json]]:
    """A list's objects, each with its place. Raises ApiError 400."""
    if not isinstance(value, list):
        wrong(at, "must be a list")
    for index, each in enumerate(value):
        if not isinstance(each, dict):
            wrong(f"{at}[{index}]", "must be an object")
    return [(f"{at}[{index}]", each) for index, each in enumerate(value)]


def by_type(value: Json, at: str, kinds: Mapping[str, Callable[[Json, str], Json]], remedy: str) -> Json:
    """Translate an object with the function for its `type`. Raises ApiError 400 for any other `type`."""
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in kinds:
        unsupported(f"{at}.type", remedy, value=kind)
    return kinds[kind](value, at)


def wrong(at: str, expected: str) -> NoReturn:
    """Raises ApiError 400: a value has the wrong type."""
    at = at[:_LONGEST_NAME]
    raise ApiError(400, f"`{at}` {expected}.", code="invalid_type", param=at)


def unsupported(at: str, remedy: str, *, value: object = None, details: Mapping[str, Any] | None = None) -> NoReturn:
    """Raises ApiError 400: a member has no counterpart in chat completions. details: as in ApiError."""
    at = at[:_LONGEST_NAME]
    named = f"`{at}`" + (f" {value[:_LONGEST_NAME]!r}" if isinstance(value, str) else "")
    message = f"{named} is not supported: this model is asked by a chat completion, which has no counterpart; {remedy}."
    error = ApiError(400, message, code="unsupported_by_bridge", param=at)
    error.details = details or {}
    raise error
