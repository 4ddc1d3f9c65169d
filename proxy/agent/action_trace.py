"""What a chat with action sets did: the offer, the model's rounds, and the calls of the gateway's tools.

A run over HTTP has a trace of one call, without an offer and without rounds.

The log line, the metrics, `Server-Timing` and the receipt read the trace. Only receipts show `arguments` and `result`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from proxy.dialects.token_counts import Tokens
from proxy.steps import Step

# Why a chat got operations or no operations. "not suited": an offer could change the meaning of the request.
# "no usable set": no document of the chat's sets was read, or the key has no credentials of its own.
OfferResult = Literal["offered", "nothing found", "no usable set", "not suited", "model refuses tools", "search failed"]
# "api_error": the API answered with a status other than 2xx. "failed": no whole response came, or the client left.
CallOutcome = Literal[
    "ok", "api_error", "timeout", "failed",
    "invalid_arguments", "invented_value", "limit", "unknown_tool", "could_change", "no_credentials",
    "private_data",
]  # fmt: skip
# "surplus": beyond the number of operations for a question. "irrelevant": the search is not sure enough for a model
# that is not asked by tools. "other_server": at an address that is not called.
# "not_allowed": by the settings `only` and `never`.
FoundOutcome = Literal["offered", "surplus", "irrelevant", "could_change", "other_server", "not_allowed"]
_MOST_TIMED = 20  # rounds, and calls
_NO_TOKENS = Tokens(0, 0)
AnsweredBy = Literal["", "model", "gateway", "error"]  # "": the reply has not ended, or the client has left

# Words before the operations in `x-rag-actions`: earlier calls cannot be put back, the request cannot get operations,
# the document of a set is not read yet.
HEADER_WORDS = ("forgotten", "unsuited", "not-ready")


class Offered(Protocol):
    """A tool that a model is offered."""

    @property
    def origin(self) -> tuple[str, str]: ...  # set and operation; "" and the name, of the gateway's own tools


@dataclass(frozen=True, slots=True)
class FoundOperation:
    operation: str  # SET/OPERATION
    outcome: FoundOutcome
    score: float | None  # of the best text, only for the order; None: found as a producer only
    ranks: Mapping[str, int]  # arm -> rank from 1
    scores: Mapping[str, float]  # arm -> the arm's own score


@dataclass(frozen=True, slots=True)
class OperationSearch:
    """A search for operations, with the operations found, the best first."""

    query: str
    relevance: float | None  # the probability that a text answers the question
    found: Sequence[FoundOperation]
    changing: str = ""  # the best operation's summary, if it could change something


@dataclass(slots=True)
class ModelRound(Step):
    """A call of the model."""

    kind: str = field(default="round", init=False)
    tokens: Tokens = _NO_TOKENS
    finish: str = ""  # the model's finish_reason; "": none
    calls: int = 0  # of the gateway's tools
    tool_protocol: str = "native"  # how the model gets the tools


@dataclass(slots=True)
class ActionCall(Step):
    """A gateway call, made or refused, within the round whose reply has it, or after the client's results (None)."""

    kind: str = field(default="call", init=False)
    set: str = ""  # "": no operation of a set
    operation: str = ""  # SET/OPERATION, the name of a tool of the gateway, or "" for an unknown tool
    outcome: CallOutcome = "failed"  # until the call ends
    status: int = 0  # of the API's response; 0: no response
    size_bytes: int = 0  # of the response
    sent: bool = False  # whether a request left the gateway
    tries: int = 0
    arguments: str = field(default="", repr=False)  # JSON, masked and cut
    result: str = field(default="", repr=False)  # the text for the model, masked and cut

    @property
    def line(self) -> str:
        """The call in a line for people."""
        return f"→ {self.operation} {self.status or self.outcome}"


@dataclass(slots=True)
class ActionTrace:
    """The trace of one chat, or of one run over HTTP."""

    sets: Sequence[str] = ()
    offer: OfferResult | Literal[""] = "not suited"  # "": of a run, or the client left during the search
    tools: Mapping[str, Offered] = field(default_factory=dict)  # offered, by the name of the tool
    searches: list[OperationSearch] = field(default_factory=list)
    not_ready: Sequence[str] = ()  # the sets without a document
    left_out: list[str] = field(default_factory=list)  # SET/OPERATION whose definitions the model refused in this chat
    private: Sequence[str] = ()  # private sets of which the conversation has results
    forgotten: bool = False  # the conversation had hidden messages, which cannot be put back
    rounds: list[ModelRound] = field(default_factory=list)
    calls: list[ActionCall] = field(default_factory=list)
    answered_by: AnsweredBy = ""

    @property
    def round_under_way(self) -> ModelRound | None:
        return self.rounds[-1] if self.rounds and self.rounds[-1].duration_ms is None else None

    def begin_call(self, now_ms: float) -> ActionCall:
        """Add a call of the newest round."""
        call = ActionCall(now_ms, within=self.rounds[-1] if self.rounds else None)
        self.calls.append(call)
        return call

    def round_of(self, call: ActionCall) -> int:
        """The number of the round whose reply has the call; 0: the call waited for the client's results."""
        return next((number for number, one in enumerate(self.rounds, 1) if one is call.within), 0)

    @property
    def operations(self) -> Sequence[str]:
        return ["/".join(one.origin) for one in self.tools.values() if one.origin[0]]

    @property
    def searched(self) -> bool:
        return self.offer not in ("not suited", "model refuses tools") or bool(self.rounds)

    def words(self) -> Iterator[str]:
        """The words for the log: how many rounds and calls, and the outcomes of calls that brought no result."""
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
        """The entries for `Server-Timing`; a round or a call under way counts up to now.

        Clients and proxies limit a header: the first rounds and calls alone.
        """
        for number, one in enumerate(self.rounds[:_MOST_TIMED], 1):
            yield f"round-{number};dur={_lasted_ms(one, now_ms):.1f}"
        for number, call in enumerate(self.calls[:_MOST_TIMED], 1):
            outcome = "" if call.duration_ms is None else f";desc={call.outcome}"
            yield f"call-{number};dur={_lasted_ms(call, now_ms):.1f}{outcome}"


def _lasted_ms(step: Step, now_ms: float) -> float:
    return now_ms - step.started_ms if step.duration_ms is None else step.duration_ms
