"""Frames for a test that plays one end of the index process' socket."""

import asyncio
from typing import Any

from retrieval.rpc.framing import Frames


async def read_frame(reader: asyncio.StreamReader) -> dict[str, Any]:
    """The next frame. Raises IncompleteReadError at the end."""
    frames = Frames()
    head = await reader.readexactly(4)
    frames.feed(head + await reader.readexactly(int.from_bytes(head, "big")))
    frame = frames.next()
    assert frame is not None
    return frame
