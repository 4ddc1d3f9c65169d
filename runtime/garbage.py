"""A serving process's garbage collector: few and small collections.

Reference counting frees almost all of a request's objects; only a few cycles need the collector. With Python's
defaults it runs once or twice per question, on objects that have just left the CPU caches.
"""

import gc

# new objects before the youngest generation is collected; Python's default of 700 is half a question
_OBJECTS = 10_000
# Young collections before a middle one, and middle before a full one. The old generation has a few thousand objects,
# because those from the start are frozen. Cycles with old objects (clients that left) wait for a full collection: with
# 20 and 50 the gateway grew by 10 MB in ten minutes of such clients.
_ROUNDS = (5, 5)


def tune_gc() -> None:
    """Freeze all loaded objects and set thresholds. Call after loading."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS, *_ROUNDS)
