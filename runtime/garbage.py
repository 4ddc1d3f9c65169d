"""The garbage collector of a process that serves: it looks at little, and seldom.

A request leaves nothing behind that its own end does not free; only cycles are left to the collector, and those are
few. With Python's settings it runs once or twice in every question, among objects that have just left the caches.
"""

import gc

_OBJECTS = 10_000  # made and not yet freed, before it looks at those: Python's 700 are half of one question
# Of the young before it looks at the older ones, and of those before it looks at all. What is old are a few thousand
# objects, as those of the start are left out, but cycles that reach them (of clients that left) stay until then: with
# 20 and 50 the gateway grew by 10 MB in ten minutes of such clients.
_ROUNDS = (5, 5)


def settle() -> None:
    """To be called when all is loaded: what is there stays, and is never looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS, *_ROUNDS)
