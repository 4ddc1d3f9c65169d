"""Event-stream frames: what is split can be joined again, however the bytes were cut on the way."""

import json

from hypothesis import given
from hypothesis import strategies as st

from proxy.dialects import sse
from proxy.dialects.chat import CHAT
from proxy.dialects.errors import ApiError

PIECES = [b"data: x", b"data:", b": ping", b"event: e", b"a", b"\n", b"\r\n", b"\r", b"\n\n", b"\xc3\xa9", b" "]
STREAMS = st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join)


def fed_in_pieces(stream: bytes, size: int) -> tuple[list[bytes], bytes]:
    """Split a stream that arrives `size` bytes at a time."""
    frames, split = [], sse.FrameSplitter()
    for start in range(0, len(stream), size):
        frames += split.whole(stream[start : start + size])
        assert split.rest_bytes == len(split.rest())
    return frames, split.rest()


@given(STREAMS)
def test_frames_and_rest_join_to_the_input(stream: bytes) -> None:
    frames, rest = sse.split(stream)
    assert b"".join(frames) + rest == stream


@given(STREAMS, st.integers(1, 7))
def test_splitting_does_not_depend_on_how_the_bytes_arrive(stream: bytes, size: int) -> None:
    assert fed_in_pieces(stream, size) == sse.split(stream)


@given(STREAMS, STREAMS)
def test_all_frames_of_a_stream_that_ends_join_to_the_input(before: bytes, last: bytes) -> None:
    split = sse.FrameSplitter()
    frames = [*split.whole(before), *split.last(last)]
    assert b"".join(frames) == before + last
    assert all(frames)


@given(st.binary(max_size=40).filter(lambda data: not {10, 13} & set(data)))
def test_a_built_frame_carries_its_data(data: bytes) -> None:
    built = sse.frame(data)
    assert sse.split(built) == ([built], b"")
    assert sse.data_of(built) == data


def test_every_line_end_of_the_standard_ends_a_frame() -> None:
    stream = b"data: 1\n\ndata: 2\r\n\r\ndata: 3\r\rdata: 4\n\r\ndata: 5"
    frames, rest = sse.split(stream)
    assert [sse.data_of(each) for each in frames] == [b"1", b"2", b"3", b"4"]
    assert rest == b"data: 5"


def test_a_trailing_carriage_return_waits_for_its_line_feed() -> None:
    assert sse.split(b"data: 1\r\n\r") == ([], b"data: 1\r\n\r")
    assert sse.split(b"data: 1\r\n\r\n") == ([b"data: 1\r\n\r\n"], b"")


def test_nothing_splits_into_nothing() -> None:
    assert sse.split(b"") == ([], b"")


def test_comments_and_bare_events_carry_no_data() -> None:
    assert sse.data_of(b": ping\n\n") is None
    assert sse.data_of(b"event: done\n\n") is None


def test_data_lines_are_joined_and_one_leading_space_is_dropped() -> None:
    assert sse.data_of(b"\xef\xbb\xbfdata: a\nid: 1\ndata:  b\ndata:c\ndata\n\n") == b"a\n b\nc\n"


def test_an_error_frame_is_openai_s_error_object() -> None:
    error = ApiError(502, "the upstream broke off\nhere", code="upstream_cut", type="upstream_error")
    built = CHAT.error_frame(error, "rag-1")
    data = sse.data_of(built)
    assert data is not None
    assert json.loads(data)["error"]["code"] == "upstream_cut"
    assert sse.split(built) == ([built], b"")
