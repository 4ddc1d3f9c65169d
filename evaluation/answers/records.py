"""Values in a run's folder: Question, Variant, Reply and their parts.

Rows are read by `msgspec.convert`, which ignores unknown members, so this version can read a later version's run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from evaluation.answers.thoughts import without_thoughts
from proxy.dialects.replies import Tokens

Mode = Literal["raw", "rag", "whole"]
DialectName = Literal["chat", "responses", "messages"]
RequestKey = tuple[str, str, int]  # question, variant, repeat

# Refusals that a retry would not change: these are results.
_FOR_GOOD = (400, 413, 422)
_WITH_USAGE = "stream_options"


class BenchError(ValueError):
    """The bench cannot do what was asked; the text names reason and remedy."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and what is known about the right answer. Without such facts, a score is missing."""

    id: str
    messages: Sequence[Mapping[str, Any]]
    reference: str | None = None
    must: Sequence[str] = ()  # facts that an answer must contain
    must_not: Sequence[str] = ()
    gold: Sequence[str] = ()  # sources or ids of documents that contain the answer
    tags: Sequence[str] = ()
    answerable: bool | None = None
    drafted: Mapping[str, Any] | None = None  # its model, under `by`; None: a person wrote or checked it
    group: str | None = None  # questions in one group count as one


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to ask: a model with or without passages. `raw` has neither collections nor retrieval settings."""

    name: str  # unique in a run, e.g. "gpt-4o rag docs k=3"
    model: str
    mode: Mode
    collections: Sequence[str] | None = None  # searched together; None: the gateway's own
    settings: Mapping[str, Any] = field(default_factory=dict)  # `k` is for passages; others are request members
    dialect: DialectName = "chat"  # which API to ask


@dataclass(frozen=True, slots=True)
class Leak:
    """Which document contains a question nearly word for word."""

    source: str
    answer: bool  # the answer is nearby


@dataclass(frozen=True, slots=True)
class MaxCost:
    """The maximum cost of one attempt, computed beforehand."""

    prompt_tokens: int
    answer_tokens: int | None  # None: not known
    usd: float | None  # None: the answer's length or the model's price is not known
    calls: int = 1  # of the model: several in chats with operations


@dataclass(frozen=True, slots=True)
class ShownPassage:
    """A passage as the model saw it."""

    source: str
    title: str
    text: str
    document: str  # document id


@dataclass(frozen=True, slots=True)
class Rag:
    """What the gateway said about retrieval. `status` is "" without a reply, or if the server is not ragway."""

    status: str = ""
    reason: str = ""
    id: str = ""
    sources: Sequence[str] = ()
    passages: Sequence[ShownPassage] | None = None  # None: no receipt
    injected_tokens: int | None = None  # counted by the embedder; None: no receipt
    injected_bytes: int | None = None  # of passages and the text around them; None: no receipt
    actions: Sequence[str] = field(default_factory=list)  # operations called for the model


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of one attempt to answer a question. Times are milliseconds since the request's first byte."""

    question: str
    variant: str
    repeat: int  # from 0
    at_s: float  # when it was sent, in seconds since the epoch
    status: int  # HTTP status; 0: no reply
    answer: str | None = None  # as sent; None: no answer, or one without text
    finish_reason: str | None = None
    error: str | None = None  # None: it is an answer
    rag: Rag = Rag()
    usage: Tokens | None = None  # None: no tokens used
    cost_usd: float | None = None  # None: the model's price is not known
    first_ms: float | None = None  # until the first text, answer or reasoning
    total_ms: float | None = None
    stages_ms: Mapping[str, float] = field(default_factory=dict)  # in the gateway, from Server-Timing
    request: Mapping[str, Any] = field(default_factory=dict)  # its body
    reply: str = ""  # the raw reply
    refused: bool = False  # `answer` is the reply's "refusal"
    rewriting: Tokens | None = None  # part of `usage`: for rewriting the question

    @property
    def asked(self) -> RequestKey:
        return self.question, self.variant, self.repeat

    @property
    def said(self) -> str:
        """The answer without thoughts that the model wrote into it: the text that counts."""
        return without_thoughts(self.answer or "")

    @property
    def done(self) -> bool:
        """Whether this is final: an answer, or an error that a retry would not change."""
        return self.error is None or (self.status in _FOR_GOOD and not self.refuses_usage)

    @property
    def refuses_usage(self) -> bool:
        """Whether the upstream refused because `stream_options` asks for token usage."""
        return self.status in _FOR_GOOD and _WITH_USAGE in self.reply and _WITH_USAGE in self.request
