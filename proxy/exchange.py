"""Exchange: the record that travels with a request.

Log line, reply headers, `Server-Timing`, metrics, usage rows and receipts read it. It is in the ASGI scope under `KEY`.
Each middleware and route writes what only it knows, and adds a `Step` for work that takes time.
"""

import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol

from proxy.agent.action_trace import ActionTrace
from proxy.asgi import App, Receive, Scope, Send
from proxy.caller import NOTHING, UNLIMITED, Limits, Rights
from proxy.dialects.base import Dialect
from proxy.dialects.chat import CHAT
from proxy.dialects.target import Target
from proxy.dialects.token_counts import Tokens
from proxy.steps import Step

KEY = "ragway.exchange"

_REFUSED = "the upstream answered"
RagStatus = Literal["", "augmented", "empty", "skipped", "off", "degraded"]


@dataclass(slots=True)
class Exchange:
    """What is known about a request and its reply so far."""

    id: str = field(default_factory=lambda: "rag-" + os.urandom(12).hex())
    started: float = field(default_factory=time.perf_counter)
    method: str = ""
    path: str = ""
    dialect: Dialect = CHAT  # set by `Observe`
    key: str = ""  # its id; "" while the gateway has no keys
    key_name: str = ""  # for people; "" while the gateway has no keys
    owner: str = ""  # of uploads: the key's team, else its id; "" while the gateway has no keys
    rights: Rights = NOTHING  # set by `Guard`
    limits: Limits = UNLIMITED  # set by `Guard`
    by_gateway: bool = False  # our own call: counts tokens and money, but no request
    most_tokens: int = 0  # that a chat with operations allows itself; 0: any number
    after_reply: list[Callable[[], object]] = field(default_factory=list, repr=False)  # run after a reply
    limited: str = ""  # which limit refused the request; "unavailable": accounts cannot be reached
    tokens: Tokens | None = None  # None: no model was called
    injected_tokens: int = 0  # in passages, as the embedder counts
    injected_bytes: int = 0  # of `body`: passages and the text around them, as JSON
    model: str = ""  # as the client named the model
    target: Target | None = None
    patterns: tuple[str, ...] = ()  # model patterns in the settings, for a list of models
    listed: bool = False  # `upstream.paths` names the path
    body: bytes | None = field(default=None, repr=False)  # for the upstream; None: as received
    fields: Mapping[str, Any] | None = field(default=None, repr=False)  # JSON members; None: not read
    body_tokens: int = 0  # estimated, of a forgotten body
    once: bool = False  # nothing needs `body` and `fields` once they are sent
    granted_mb: int = 0  # of memory, for a large body: `proxy.body`
    rag_status: RagStatus = ""  # "": no readable request for a model
    rag_reason: str = ""
    rewriting: tuple[str, Tokens] | None = None  # model and tokens of the call
    searched: tuple[str, ...] = ()  # collections
    sources: tuple[str, ...] = ()  # of injected passages, best first
    pending: str = ""  # group of calls that change something, which the reply asks a person to confirm
    shows_approvals: bool = False  # the client of a response shows `mcp_approval_request` items
    approvals: tuple[Mapping[str, Any], ...] = ()  # such items of the reply
    actions: tuple[str, ...] = ()  # called for the model, in order: SET/OPERATION, or document search
    action_trace: ActionTrace | None = None  # None: the chat has no action sets
    steps: list[Step] = field(default_factory=list)  # in the order of their ends
    status: int = 0  # sent to the client
    comparison: str = ""  # value of x-rag-compare
    error: str = ""  # `ApiError` code with a colon and more, or a few words; "": no failure
    upstream_status: int = 0  # of its last reply; 0: none

    def upstream_said(self, status: int) -> None:
        """Note an upstream's reply. To clients, its refusal looks like one of the gateway."""
        self.upstream_status = status
        if status >= 400:
            self.error = f"{_REFUSED} {status}"
        elif self.error.startswith(_REFUSED):  # another try was answered
            self.error = ""

    def elapsed_ms(self) -> float:
        """Milliseconds since the request arrived."""
        return (time.perf_counter() - self.started) * 1000

    def ended_step(self, kind: str, began: float, detail: str = "", within: Step | None = None) -> None:
        """Add a step that ends now. began: by `time.perf_counter`. within: None: the round under way, if any."""
        duration_ms = (time.perf_counter() - began) * 1000
        if within is None and self.action_trace is not None:
            within = self.action_trace.round_under_way
        self.steps.append(Step(kind, (began - self.started) * 1000, duration_ms, detail, within))

    def index_steps(self, durations_ms: Mapping[str, float], began: float, within: Step | None = None) -> None:
        """Add search stages, which the index reports as durations, in order.

        began: by `time.perf_counter`. Each stage starts where the one before ended.
        """
        at_ms = (began - self.started) * 1000
        for kind, duration_ms in durations_ms.items():
            self.steps.append(Step(kind, at_ms, duration_ms, within=within))
            at_ms += duration_ms


class CallMeter(Protocol):
    """Makes the model calls of one request, one after the other."""

    def __call__(
        self,
        upstream: App,
        scope: Scope,
        receive: Receive,
        send: Send,
        count: Callable[[], Tokens | None] | None = None,
    ) -> Awaitable[None]:
        """Call the model with `exchange.body`: reserve tokens before, and add what it used to the exchange after.

        count: used tokens, for a caller that reads the reply; None: read as the reply passes. Raises ApiError 400, 429,
        503, and as the upstream.
        """


def unmetered(
    upstream: App, scope: Scope, receive: Receive, send: Send, count: Callable[[], Tokens | None] | None = None
) -> Awaitable[None]:
    """A `CallMeter` that reserves and counts nothing."""
    return upstream(scope, receive, send)


# A prepared model call, which a route returns: makes the app that calls the model, once or in several rounds.
ModelCall = Callable[[CallMeter], App]
ModelRoute = Callable[[Scope, Receive, Send], Awaitable[ModelCall | None]]  # None: already answered


def one_call(upstream: App) -> ModelCall:
    """A prepared call that is made once."""
    return lambda meter: partial(meter, upstream)


def uncounted(app: App) -> ModelCall:
    """A prepared call that takes no tokens, such as a count."""
    return lambda _meter: app


def wrapped(call: ModelCall, middleware: Callable[[App], App]) -> ModelCall:
    """A prepared call, through a middleware."""
    return lambda meter: middleware(call(meter))


def durations_ms(steps: Iterable[Step]) -> dict[str, float]:
    """Kind -> milliseconds of all its steps, in order of first steps."""
    durations: dict[str, float] = {}
    for step in steps:
        durations[step.kind] = durations.get(step.kind, 0.0) + (step.duration_ms or 0.0)
    return durations


def exchange_of(scope: Scope) -> Exchange:
    """Return the request's exchange. Raises KeyError outside `Observe`, which opens it."""
    exchange: Exchange = scope[KEY]
    return exchange
