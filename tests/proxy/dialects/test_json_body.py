"""A JSON body of any API: each API names the members whose places it needs."""

import pytest

from proxy.dialects.errors import ApiError
from proxy.dialects.json_body import _MOST_WIDE_BYTES, _STEP_BYTES, JsonBody


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


# Texts with emoji: a text takes 4 bytes for each character, and parsing holds the interpreter for as long

EMOJI = "\U0001f600".encode()
WIDE = [EMOJI, rb"\ud83d\ude00", rb"\uD83D\uDE00", "\U00100000".encode(), "\U00040000".encode()]
LONG = b"a" * (_MOST_WIDE_BYTES + 1)


@pytest.mark.parametrize("wide", WIDE)
def test_long_texts_with_emoji_are_refused(wide: bytes) -> None:
    half = LONG[: _MOST_WIDE_BYTES // 2]
    for texts in ([LONG + wide], [wide + LONG], [half + wide, half + wide], [half + rb"\"" + wide + half]):
        with pytest.raises(ApiError, match="8 MB of texts with emoji"):
            JsonBody.parse(b'{"model": "m", "input": ["' + b'", "'.join(texts) + b'"]}')


@pytest.mark.parametrize("place", range(-8, 3))
def test_an_escape_that_two_steps_share_is_found(place: int) -> None:
    start = b'{"input": "'
    text = b"a" * (_STEP_BYTES - len(start) + place) + rb"\ud83d\ude00" + LONG
    with pytest.raises(ApiError, match="texts with emoji"):
        JsonBody.parse(start + text + b'"}')


@pytest.mark.parametrize("wide", WIDE)
def test_a_short_text_with_emoji_beside_long_texts_is_read(wide: bytes) -> None:
    texts = [b"Hello " + wide, LONG, "é€".encode() * 1_000_000, rb"\\ud83d" + LONG, rb"\u00e9" * 2_000_000, wide]
    raw = b'{"model": "m", "input": ["' + b'", "'.join(texts) + b'"]}'
    assert JsonBody.parse(raw).raw is raw
