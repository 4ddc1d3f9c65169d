"""Frames: messages arrive equal, in any pieces; a frame over the limit is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.rpc.client import Frames, framed


@given(st.lists(st.binary(), max_size=4), st.data())
def test_messages_arrive_equal_in_any_pieces(sent: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(framed, sent))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    frames, got = Frames(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        got += frames.feed(stream[start:end])
    assert got == sent


@pytest.mark.parametrize("message", [b"", b"\x00", b"x" * 3_000_000])
def test_a_message_arrives_equal(message: bytes) -> None:
    assert Frames().feed(framed(message)) == [message]


@pytest.mark.parametrize("length", [64 * 2**20 + 1, 2**32 - 1])
def test_a_frame_too_large_is_refused_before_it_is_read(length: int) -> None:
    with pytest.raises(OSError, match=f"a frame of {length} bytes"):
        Frames().feed(length.to_bytes(4, "big"))


@pytest.mark.parametrize("cut", [0, 1, 3, 4, 8])
def test_a_frame_cut_short_is_no_frame(cut: int) -> None:
    assert Frames().feed(framed(b"a message")[:cut]) == []
