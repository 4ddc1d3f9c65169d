"""The garbage collector of a serving process: few and small collections.

Reference counting frees almost all objects of a request; only a few cycles need the collector. With Python's defaults
the collector runs once or twice per question, on objects that have just left the CPU caches.
"""

import gc

# new objects before a collection of the youngest generation; Python's default of 700 is half of one question
_OBJECTS = 10_000
# Young collections before a middle collection, and middle before a full collection. The old generation has a few
# thousand objects, because objects from the start are frozen. Cycles with old objects (clients that left) wait for a
# full collection: with 20 and 50 the gateway grew by 10 MB in ten minutes of such clients.
_ROUNDS = (5, 5)


def tune_gc() -> None:
    """Freeze all loaded objects and set the thresholds. Call after loading."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS, *_ROUNDS)
