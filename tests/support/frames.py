"""Frames for a test that plays one end of the index process's socket."""

import asyncio

from retrieval.rpc.protocol import Answer, Call, Failed, Frames, decode_call, encode, encode_raw, framed


async def read_call(reader: asyncio.StreamReader) -> Call:
    """The next call. Raises IncompleteReadError at the end."""
    frames = Frames()
    head = await reader.readexactly(4)
    frames.feed(head + await reader.readexactly(int.from_bytes(head, "big")))
    message = frames.next()
    assert message is not None
    return decode_call(message)


def answer_frame(value: object) -> bytes:
    """An answer of the index process."""
    return framed(encode(Answer(encode_raw(value))))


def error_frame(kind: str, text: str) -> bytes:
    """A refusal of the index process."""
    return framed(encode(Failed(kind, text)))
