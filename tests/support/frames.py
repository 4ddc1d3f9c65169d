"""Frames for a test that plays one end of the index process's socket."""

import asyncio

from retrieval.rpc.client import Call, Failed, Frames, decode_call, encode, framed


async def read_call(reader: asyncio.StreamReader) -> Call:
    """The next call. Raises IncompleteReadError at the end."""
    head = await reader.readexactly(4)
    (message,) = Frames().feed(head + await reader.readexactly(int.from_bytes(head, "big")))
    return decode_call(message)


def error_frame(kind: str, text: str) -> bytes:
    """A refusal of the index process."""
    return framed(encode(Failed(kind, text)))
