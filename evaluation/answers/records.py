"""The values in a run's folder: Question, Variant, Reply and their parts.

The rows of the files are read by `msgspec.convert`, which ignores unknown members, so this version can read the run of
a later version.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from evaluation.answers.thoughts import without_thoughts
from proxy.dialects.token_counts import Tokens

Mode = Literal["raw", "rag", "whole"]
DialectName = Literal["chat", "responses", "messages"]
RequestKey = tuple[str, str, int]  # question, variant, repeat

# Statuses of refusals that a retry would not change: such a refusal is a result.
_FOR_GOOD = (400, 413, 422)
_WITH_USAGE = "stream_options"


class BenchError(ValueError):
    """The bench cannot do the requested work; the text names the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the known facts about the right answer. A score without facts is missing."""

    id: str
    messages: Sequence[Mapping[str, Any]]
    reference: str | None = None
    must: Sequence[str] = ()  # facts that the answer must contain
    must_not: Sequence[str] = ()
    gold: Sequence[str] = ()  # sources or ids of the documents that contain the answer
    tags: Sequence[str] = ()
    answerable: bool | None = None
    drafted: Mapping[str, Any] | None = None  # the model, under `by`; None: a person wrote or checked the question
    group: str | None = None  # questions of the same group count as one question


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to ask: a model with or without passages. `raw` has no collections and no retrieval settings."""

    name: str  # unique in a run, e.g. "gpt-4o rag docs k=3"
    model: str
    mode: Mode
    collections: Sequence[str] | None = None  # searched together; None: the gateway's own
    settings: Mapping[str, Any] = field(default_factory=dict)  # `k` is the passages'; others are members of the request
    dialect: DialectName = "chat"  # the API of the requests


@dataclass(frozen=True, slots=True)
class Leak:
    """Where a question stands in a document nearly word for word."""

    source: str
    answer: bool  # the answer is near the question


@dataclass(frozen=True, slots=True)
class MaxCost:
    """The maximum cost of one attempt, computed before the request."""

    prompt_tokens: int
    answer_tokens: int | None  # None: not known
    usd: float | None  # None: the length of the answer or the price of the model is not known
    calls: int = 1  # of the model: several in a chat with operations


@dataclass(frozen=True, slots=True)
class ShownPassage:
    """A passage as the model saw the passage."""

    source: str
    title: str
    text: str
    document: str  # document id


@dataclass(frozen=True, slots=True)
class Rag:
    """The gateway's report about retrieval. `status` is "" if there was no reply, or the server is not ragway."""

    status: str = ""
    reason: str = ""
    id: str = ""
    sources: Sequence[str] = ()
    passages: Sequence[ShownPassage] | None = None  # None: no receipt
    injected_tokens: int | None = None  # counted by the embedder; None: no receipt
    injected_bytes: int | None = None  # of the passages and the text around the passages; None: no receipt
    actions: Sequence[str] = field(default_factory=list)  # operations that the gateway called for the model


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of one attempt to answer a question. Times are milliseconds from the first byte of the request."""

    question: str
    variant: str
    repeat: int  # from 0
    at_s: float  # when the request was sent, in seconds since the epoch
    status: int  # HTTP status; 0: no reply
    answer: str | None = None  # as sent; None: no answer, or an answer without text
    finish_reason: str | None = None
    error: str | None = None  # None: the reply is an answer
    rag: Rag = Rag()
    usage: Tokens | None = None  # None: no tokens used
    cost_usd: float | None = None  # None: the model's price is not known
    first_ms: float | None = None  # until the first text of the answer or the reasoning
    total_ms: float | None = None
    stages_ms: Mapping[str, float] = field(default_factory=dict)  # of the gateway, from Server-Timing
    request: Mapping[str, Any] = field(default_factory=dict)  # the request body
    reply: str = ""  # the raw reply
    refused: bool = False  # `answer` holds the reply's "refusal"
    rewriting: Tokens | None = None  # part of `usage`: of the model that rewrote the question

    @property
    def asked(self) -> RequestKey:
        return self.question, self.variant, self.repeat

    @property
    def said(self) -> str:
        """The answer without the thoughts that the model wrote into the answer: the text that counts."""
        return without_thoughts(self.answer or "")

    @property
    def done(self) -> bool:
        """Whether the reply is final: an answer, or an error that a retry would not change."""
        return self.error is None or (self.status in _FOR_GOOD and not self.refuses_usage)

    @property
    def refuses_usage(self) -> bool:
        """Whether the upstream refused the request because `stream_options` asks for the token usage."""
        return self.status in _FOR_GOOD and _WITH_USAGE in self.reply and _WITH_USAGE in self.request
