"""Exchange: the record that travels with a request.

The log line, the response headers, `Server-Timing`, the metrics, the usage rows and the receipts read the exchange.
The exchange is in the ASGI scope under `KEY`. Each middleware and route writes the fields that only the middleware or
route knows, and adds a `Step` for work that takes time.
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
    """The facts about a request and the reply, as far as known."""

    id: str = field(default_factory=lambda: "rag-" + os.urandom(12).hex())
    started: float = field(default_factory=time.perf_counter)
    method: str = ""
    path: str = ""
    dialect: Dialect = CHAT  # of the path, set by `Observe`
    key: str = ""  # id of the caller's key; "" while the gateway has no keys
    owner: str = ""  # of the caller's uploads: the key's team, else the key's id; "" while the gateway has no keys
    rights: Rights = NOTHING  # of the caller, set by `Guard`
    limits: Limits = UNLIMITED  # of the caller, set by `Guard`
    by_gateway: bool = False  # a call of the gateway's own: counts tokens and money, but no request
    most_tokens: int = 0  # of a chat with operations, by the request itself; 0: no such limit
    after_reply: list[Callable[[], object]] = field(default_factory=list, repr=False)  # run when the reply has ended
    limited: str = ""  # the limit that refused the request; "unavailable": the accounts cannot be reached
    tokens: Tokens | None = None  # None: no model was called
    injected_tokens: int = 0  # of the passages, as the embedder counts
    injected_bytes: int = 0  # of `body`: the passages and the text around them, as JSON
    model: str = ""  # as the client named the model
    target: Target | None = None
    patterns: tuple[str, ...] = ()  # of the settings' models, which choose the models in the answer
    listed: bool = False  # the path is one of `upstream.paths`
    body: bytes | None = field(default=None, repr=False)  # for the upstream; None: the body goes on as received
    fields: Mapping[str, Any] | None = field(default=None, repr=False)  # of the client's JSON body; None: not read
    body_tokens: int = 0  # estimated, of a body that was forgotten
    once: bool = False  # whether nothing needs `body` and `fields` after the upstream has the request
    granted_mb: int = 0  # of memory, for a large body: `proxy.body`
    rag_status: RagStatus = ""  # "": no readable request for a model
    rag_reason: str = ""
    rewriting: tuple[str, Tokens] | None = None  # the model that was asked for a rewrite, and the tokens of the call
    searched: tuple[str, ...] = ()  # collections
    sources: tuple[str, ...] = ()  # of the injected passages, best first
    actions: tuple[str, ...] = ()  # called for the model, in order: SET/OPERATION, or a search of documents
    action_trace: ActionTrace | None = None  # None: the chat has no action sets
    steps: list[Step] = field(default_factory=list)  # in the order of their ends
    status: int = 0  # sent to the client
    comparison: str = ""  # whether a requested shadow comparison is made, as x-rag-compare says
    error: str = ""  # the cause of a failure: a code of `ApiError`, a colon and more, or a few words; "": no failure
    upstream_status: int = 0  # of the upstream's last reply; 0: none

    def upstream_said(self, status: int) -> None:
        """Note the status of an upstream's reply. A refusal looks like a refusal of the gateway to the client."""
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
        """Add the stages of a search, which the index reports as durations in the order of the stages.

        began: of the search, by `time.perf_counter`. Each stage counts from the end of the stage before.
        """
        at_ms = (began - self.started) * 1000
        for kind, duration_ms in durations_ms.items():
            self.steps.append(Step(kind, at_ms, duration_ms, within=within))
            at_ms += duration_ms


class CallMeter(Protocol):
    """Makes the model calls of one request, one after the other."""

    async def __call__(
        self,
        upstream: App,
        scope: Scope,
        receive: Receive,
        send: Send,
        count: Callable[[], Tokens | None] | None = None,
    ) -> None:
        """Call the model with `exchange.body`: reserve tokens before, and add the used tokens to the exchange after.

        count: the used tokens, for a caller that reads the reply; None: read from the reply as it passes. Raises
        ApiError 400, 429, 503, and as the upstream.
        """


async def unmetered(
    upstream: App, scope: Scope, receive: Receive, send: Send, count: Callable[[], Tokens | None] | None = None
) -> None:
    """A `CallMeter` that reserves and counts nothing."""
    await upstream(scope, receive, send)


# A prepared call of a model, which a route returns: makes the app that calls the model, once or in several rounds.
ModelCall = Callable[[CallMeter], App]
ModelRoute = Callable[[Scope, Receive, Send], Awaitable[ModelCall | None]]  # None: the route has sent the answer


def one_call(upstream: App) -> ModelCall:
    """The prepared call that is made once."""
    return lambda meter: partial(meter, upstream)


def uncounted(app: App) -> ModelCall:
    """The prepared call that takes no tokens, such as a count."""
    return lambda _meter: app


def wrapped(call: ModelCall, middleware: Callable[[App], App]) -> ModelCall:
    """The prepared call, through the middleware."""
    return lambda meter: middleware(call(meter))


def durations_ms(steps: Iterable[Step]) -> dict[str, float]:
    """Kind of step -> milliseconds of all steps of the kind, in the order of each kind's first step."""
    durations: dict[str, float] = {}
    for step in steps:
        durations[step.kind] = durations.get(step.kind, 0.0) + (step.duration_ms or 0.0)
    return durations


def exchange_of(scope: Scope) -> Exchange:
    """The exchange of the request. Raises KeyError outside `observe`, which opens the exchange."""
    exchange: Exchange = scope[KEY]
    return exchange
