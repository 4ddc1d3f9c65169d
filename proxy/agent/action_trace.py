"""What a chat with action sets did: its offer, model rounds, and gateway calls.

A run over HTTP has a trace of one call, without an offer or rounds.

The log line, metrics, `Server-Timing` and receipts read it. Only receipts show `arguments` and `result`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from proxy.dialects.token_counts import Tokens
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

    def words(self) -> Iterator[str]:
        """Words for the log: how many rounds and calls, and outcomes of calls that brought no result."""
        if self.rounds:
            yield f"rounds={len(self.rounds)}"
        if self.left_out:
            yield f"left_out={','.join(self.left_out)}"
        if self.calls:
            yield f"calls={len(self.calls)}"
        if without := [call.outcome for call in self.calls if call.outcome != "ok"]:
            more = ",…" if len(without) > _MOST_TIMED else ""
            yield f"without_result={','.join(without[:_MOST_TIMED])}{more}"

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
