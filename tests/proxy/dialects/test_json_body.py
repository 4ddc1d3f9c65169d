"""A JSON body of any API: each API names the members whose places it needs."""

import pytest

from proxy.dialects.json_body import JsonBody
from proxy.errors import ApiError


class Conversation(JsonBody):
    """A body whose conversation has another name."""

    __slots__ = ()
    NAMES = ("model", "input")


def test_the_places_are_those_of_the_api() -> None:
    raw = b'{"input": "messages", "model": "m", "rag": 1}'
    assert Conversation.parse(raw).members == {"input": 1, "model": raw.index(b'"model"')}


@pytest.mark.parametrize(("kind", "refused"), [(Conversation, True), (JsonBody, False)])
def test_a_repeated_member_is_refused_where_the_api_reads_it(kind: type[JsonBody], *, refused: bool) -> None:
    raw = b'{"input": 1, "model": "m", "input": 2}'
    if refused:
        with pytest.raises(ApiError, match="'input' stands twice"):
            kind.parse(raw)
    else:
        assert kind.parse(raw).edited() is raw
