"""The person behind a chat, as each dialect's clients name the person."""

from typing import Any

import orjson
import pytest

from proxy.dialects.base import PERSON_HEADER, Dialect
from proxy.dialects.chat import CHAT
from proxy.dialects.messages import MESSAGES
from proxy.dialects.responses import RESPONSES


@pytest.mark.parametrize(
    ("dialect", "fields", "person"),
    [
        (CHAT, {"user": "ann"}, "ann"),
        (CHAT, {"user": "ann", "safety_identifier": "u-1"}, "u-1"),
        (CHAT, {"user": 7}, ""),
        (CHAT, {}, ""),
        (RESPONSES, {"user": "ann", "safety_identifier": None}, "ann"),
        (RESPONSES, {"safety_identifier": "u-1"}, "u-1"),
        (MESSAGES, {"metadata": {"user_id": "ann"}, "user": "bob"}, "ann"),
        (MESSAGES, {"metadata": "ann"}, ""),
    ],
)
def test_the_body_names_the_person(dialect: Dialect, fields: dict[str, Any], person: str) -> None:
    request = dialect.parse(orjson.dumps({"model": "m", "messages": [], **fields}))
    assert request.person() == person


@pytest.mark.parametrize("dialect", [CHAT, MESSAGES, RESPONSES])
def test_a_header_names_the_person_before_the_body(dialect: Dialect) -> None:
    request = dialect.parse(b'{"model":"m","user":"ann","metadata":{"user_id":"ann"}}')
    assert request.person([(b"host", b"x"), (PERSON_HEADER, b"bob")]) == "bob"
    assert request.person([(PERSON_HEADER, b"")]) == "ann"
