"""Frames: what goes in comes out equal, however it is cut on the way; and what cannot be one is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.rpc.framing import Frames, framed

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=8,
)


def read(frames: Frames) -> list[dict[str, Any]]:
    found = []
    while (frame := frames.next()) is not None:
        found.append(frame)
    return found


@given(st.lists(st.dictionaries(st.text("abc"), values, max_size=3), max_size=4), st.data())
def test_frames_come_out_as_they_went_in_whatever_the_pieces(sent: list[dict[str, Any]], data: st.DataObject) -> None:
    stream = b"".join(map(framed, sent))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    frames, got = Frames(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        frames.feed(stream[start:end])
        got += read(frames)
    assert got == sent


@pytest.mark.parametrize(
    "frame", [{}, {"a": None}, {"text": "日本 🎈 \x00\n", "n": [1, 1.5, True]}, {"big": "x" * 3_000_000}]
)
def test_a_frame_comes_out_as_it_went_in(frame: dict[str, Any]) -> None:
    frames = Frames()
    frames.feed(framed(frame))
    assert read(frames) == [frame]


@pytest.mark.parametrize("length", [64 * 2**20 + 1, 2**32 - 1])
def test_a_frame_too_large_is_refused_before_it_is_read(length: int) -> None:
    frames = Frames()
    frames.feed(length.to_bytes(4, "big"))
    with pytest.raises(OSError, match=f"a frame of {length} bytes"):
        frames.next()


@pytest.mark.parametrize("cut", [0, 1, 3, 4, 8])
def test_a_frame_cut_short_is_no_frame(cut: int) -> None:
    frames = Frames()
    frames.feed(framed({"result": 1})[:cut])
    assert frames.next() is None


@pytest.mark.parametrize(("payload", "said"), [(b"{", "no JSON"), (b"[1]", "no object"), (b"\xff\xff", "no JSON")])
def test_what_is_no_object_of_json_is_refused(payload: bytes, said: str) -> None:
    frames = Frames()
    frames.feed(len(payload).to_bytes(4, "big") + payload)
    with pytest.raises(OSError, match=said):
        frames.next()
