"""Exchange: the record that travels with a request.

Log line, reply headers, `Server-Timing`, metrics, usage rows and receipts read it. It is in the ASGI scope under
`EXCHANGE`. Each middleware and route writes what only it knows, and adds a `Step` for work that takes time. A chat with
action sets has an `ActionTrace`: its offer, model rounds, and gateway calls. A run over HTTP has a trace of one call,
without an offer or rounds. Only receipts show `arguments` and `result`.
"""

import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol

from proxy.asgi import App, Receive, Scope, Send
from proxy.caller import NOTHING, UNLIMITED, Limits, Rights
from proxy.dialects.base import Dialect
from proxy.dialects.chat import CHAT
from proxy.dialects.replies import Tokens
from proxy.dialects.target import Target
from proxy.steps import Step

# Why a chat got operations or no operations. "not suited": an offer could change the meaning of the request. "no usable
# set": no document of this chat's sets was read, or the key lacks credentials of its own.
OfferResult = Literal["offered", "nothing found", "no usable set", "not suited", "model refuses tools", "search failed"]
# "api_error": a status other than 2xx. "failed": no whole response came, or the client left.
# "waits": a call that changes something waits for a person. "unknown": such a call was sent, and its answer was lost.
CallOutcome = Literal[
    "ok", "api_error", "timeout", "failed",
    "invalid_arguments", "invented_value", "limit", "unknown_tool", "could_change", "no_credentials",
    "private_data", "waits", "unknown",
]  # fmt: skip
# "surplus": more than a question gets. "irrelevant": the search is not sure enough for a model that is not asked by
# tools. "other_server": at an address that is not called.
# "not_allowed": by `only` and `never`.
FoundOutcome = Literal["offered", "surplus", "irrelevant", "could_change", "other_server", "not_allowed"]
_MOST_TIMED = 20  # rounds, and calls
_NO_TOKENS = Tokens(0, 0)
AnsweredBy = Literal["", "model", "gateway", "error"]  # "": not ended yet, or the client has left

# Words before operations in `x-rag-actions`: earlier calls cannot be put back, this request cannot get operations, a
# set's document is not read yet.
HEADER_WORDS = ("forgotten", "unsuited", "not-ready")


class Offered(Protocol):
    """A tool that a model is offered."""

    @property
    def origin(self) -> tuple[str, str]: ...  # set and operation; for the gateway's own tools "" and a name


@dataclass(frozen=True, slots=True)
class FoundOperation:
    operation: str  # SET/OPERATION
    outcome: FoundOutcome
    score: float | None  # best text's, for ordering only; None: found only as a producer
    ranks: Mapping[str, int]  # arm -> rank from 1
    scores: Mapping[str, float]  # arm -> the arm's own score


@dataclass(frozen=True, slots=True)
class OperationSearch:
    """A search for operations, and those found, best first."""

    query: str
    relevance: float | None  # probability that a text answers the question
    found: Sequence[FoundOperation]
    changing: str = ""  # best operation's summary, if it could change something


@dataclass(frozen=True, slots=True)
class TableSearch:
    """A search for tables."""

    databases: Sequence[str]  # that the caller may query
    tables: Sequence[str]  # DATABASE/TABLE, found
    relevance: float | None  # probability that a table answers the question; None: not known
    offered: bool  # whether the model may query them


@dataclass(slots=True)
class ModelRound(Step):
    """A model call."""

    kind: str = field(default="round", init=False)
    tokens: Tokens = _NO_TOKENS
    finish: str = ""  # the model's finish_reason; "": none
    calls: int = 0  # gateway calls
    tool_protocol: str = "native"  # how the model gets the tools


@dataclass(slots=True)
class ActionCall(Step):
    """A gateway call, made or refused. within: the round whose reply has it; None: after client results."""

    kind: str = field(default="call", init=False)
    set: str = ""  # "": not an operation of a set
    operation: str = ""  # SET/OPERATION, a gateway tool's name, or "" for an unknown tool
    outcome: CallOutcome = "failed"  # until the call ends
    status: int = 0  # API response's; 0: no response
    size_bytes: int = 0  # response's
    sent: bool = False  # whether a request left the gateway
    changes: bool = False  # whether it changes something
    tries: int = 0
    arguments: str = field(default="", repr=False)  # JSON, masked and cut
    result: str = field(default="", repr=False)  # text for the model, masked and cut

    @property
    def line(self) -> str:
        """The call as one line for people."""
        return f"→ {self.operation} {self.status or self.outcome}"


@dataclass(slots=True)
class ActionTrace:
    """Trace of one chat, or one run over HTTP."""

    sets: Sequence[str] = ()
    offer: OfferResult | Literal[""] = "not suited"  # "": a run, or the client left during the search
    tools: Mapping[str, Offered] = field(default_factory=dict)  # offered, by tool name
    searches: list[OperationSearch] = field(default_factory=list)
    not_ready: Sequence[str] = ()  # sets without a document
    table_search: TableSearch | None = None
    left_out: list[str] = field(default_factory=list)  # SET/OPERATION whose definitions were refused in this chat
    private: Sequence[str] = ()  # private sets with results in the conversation
    forgotten: bool = False  # hidden messages existed but cannot be put back
    rounds: list[ModelRound] = field(default_factory=list)
    calls: list[ActionCall] = field(default_factory=list)
    answered_by: AnsweredBy = ""

    @property
    def round_under_way(self) -> ModelRound | None:
        return self.rounds[-1] if self.rounds and self.rounds[-1].duration_ms is None else None

    def begin_call(self, now_ms: float) -> ActionCall:
        """Add a call to the newest round."""
        call = ActionCall(now_ms, within=self.rounds[-1] if self.rounds else None)
        self.calls.append(call)
        return call

    def round_of(self, call: ActionCall) -> int:
        """Number of the round whose reply has the call; 0: the call waited for client results."""
        return next((number for number, one in enumerate(self.rounds, 1) if one is call.within), 0)

    @property
    def operations(self) -> Sequence[str]:
        return ["/".join(one.origin) for one in self.tools.values() if one.origin[0]]

    @property
    def searched(self) -> bool:
        return self.offer not in ("not suited", "model refuses tools") or bool(self.rounds)

    def words(self) -> list[str]:
        """Words for the log: how many rounds and calls, and outcomes of calls that brought no result."""
        words = []
        if self.rounds:
            words.append(f"rounds={len(self.rounds)}")
        if self.left_out:
            words.append(f"left_out={','.join(self.left_out)}")
        if self.calls:
            words.append(f"calls={len(self.calls)}")
        if without := [call.outcome for call in self.calls if call.outcome != "ok"]:
            more = ",…" if len(without) > _MOST_TIMED else ""
            words.append(f"without_result={','.join(without[:_MOST_TIMED])}{more}")
        return words

    def timings(self, now_ms: float) -> Iterator[str]:
        """Entries for `Server-Timing`; a round or call under way counts up to now.

        Only the first rounds and calls, because clients and proxies limit headers.
        """
        for number, one in enumerate(self.rounds[:_MOST_TIMED], 1):
            yield f"round-{number};dur={_lasted_ms(one, now_ms):.1f}"
        for number, call in enumerate(self.calls[:_MOST_TIMED], 1):
            outcome = "" if call.duration_ms is None else f";desc={call.outcome}"
            yield f"call-{number};dur={_lasted_ms(call, now_ms):.1f}{outcome}"


def _lasted_ms(step: Step, now_ms: float) -> float:
    return now_ms - step.started_ms if step.duration_ms is None else step.duration_ms


EXCHANGE = "ragway.exchange"

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
    team: str = ""  # of the key
    key_name: str = ""  # for people; "" while the gateway has no keys
    owner: str = ""  # of uploads: the key's team, else its id; "" while the gateway has no keys
    rights: Rights = NOTHING  # set by `Guard`
    limits: Limits = UNLIMITED  # set by `Guard`
    by_gateway: bool = False  # our own call: counts tokens and money, but no request
    most_tokens: int = 0  # that a chat with operations allows itself; 0: any number
    after_reply: list[Callable[[], object]] = field(default_factory=list, repr=False)  # run after a reply
    limited: str = ""  # which limit refused the request; "unavailable": accounts cannot be reached
    tokens: Tokens | None = None  # of all calls so far; None: no model was called
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

    def server_timing(self) -> str:
        """Value of `Server-Timing`: the time of each kind of step, then of rounds and calls."""
        stages = [f"{kind};dur={ms:.1f}" for kind, ms in durations_ms(self.steps).items()]
        if self.action_trace is not None:
            stages += self.action_trace.timings(self.elapsed_ms())
        return ", ".join(stages)

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

    def __call__(self, upstream: App, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Call the model with `exchange.body`: reserve tokens before, and add what it used to `exchange.tokens` after.

        An upstream that reads the reply adds the tokens by itself; else they are read as the reply passes. Raises
        ApiError 400, 429, 503, and as the upstream.
        """


def unmetered(upstream: App, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
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
