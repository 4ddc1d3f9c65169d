"""The bytes that a gateway inserted into a body."""


def inserted(sent: bytes, received: bytes) -> bytes:
    """The one place where the two bodies differ, as received. Raises AssertionError where a sent byte is missing.

    The place may hold sent bytes in the middle: a text that became a list of blocks.
    """
    start = _common(sent, received)
    common_end = min(_common(sent[::-1], received[::-1]), len(sent) - start, len(received) - start)
    place = received[start : len(received) - common_end]
    missing = sent[start : len(sent) - common_end]
    assert missing in place, f"{missing[:200]!r} is missing after {sent[:start][-80:]!r}"
    return place


def _common(one: bytes, other: bytes) -> int:
    """The number of bytes that both bodies share at the start."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
