"""The timed work for a request, as a tree: a search has stages, a round of the model has calls."""

from dataclasses import dataclass, field


@dataclass(slots=True)  # not frozen: a frozen instance takes three times as long to make
class Step:
    """A timed piece of work. Times are milliseconds."""

    kind: str  # parse, retrieval, upstream …, or a stage of the index: embed, search, fuse …
    started_ms: float  # since the request arrived
    duration_ms: float | None = None  # None: not over
    detail: str = ""  # e.g. the called model; never a client's text
    within: "Step | None" = field(default=None, repr=False)  # None: the request itself
