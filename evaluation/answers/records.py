"""The values of a benchmark run, as they stand in its folder: Question, Variant, Reply and what they are made of.

A reader leaves out what it does not know, so that a run of a later version can be read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from proxy.dialects.token_counts import Tokens

Mode = Literal["raw", "rag", "whole"]
Asked = tuple[str, str, int]  # question, variant, repeat: what a reply answers

# Asked again, these refusals of a request would be the same: they are results.
_FOR_GOOD = (400, 413, 422)
_WITH_USAGE = "stream_options"


class BenchError(ValueError):
    """What is asked for cannot be done; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and what is known of the right answer. Where nothing is known, that score is not given."""

    id: str
    messages: Sequence[Mapping[str, Any]]
    reference: str | None = None
    must: Sequence[str] = ()  # facts that must appear
    must_not: Sequence[str] = ()
    gold: Sequence[str] = ()  # sources or ids of the documents that answer it
    tags: Sequence[str] = ()
    answerable: bool | None = None
    drafted: Mapping[str, Any] | None = None  # `by` which model; None: a person wrote it, or has checked it
    group: str | None = None  # questions of one name count as one


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to ask: a model with or without passages. `raw` knows no collections, and so no settings of retrieval."""

    name: str  # unique in a run, e.g. "gpt-4o rag docs k=3"
    model: str
    mode: Mode
    collections: Sequence[str] | None = None  # searched together; None: the gateway's own
    settings: Mapping[str, Any] = field(default_factory=dict)  # `k` is the passages'; others are members of the request


@dataclass(frozen=True, slots=True)
class Leak:
    """Where a question stands in a document nearly word for word."""

    source: str
    answer: bool  # its answer stands near it


@dataclass(frozen=True, slots=True)
class Worst:
    """The most that an attempt may use: what is told before it is sent."""

    prompt_tokens: int
    answer_tokens: int | None  # None: not known
    usd: float | None  # None: that, or the model's price, is not known


@dataclass(frozen=True, slots=True)
class Shown:
    """A passage as the model saw it."""

    source: str
    title: str
    text: str
    document: str  # its id


@dataclass(frozen=True, slots=True)
class Rag:
    """What the gateway said of retrieval. `status` is "" where it said nothing: no ragway, or no reply."""

    status: str = ""
    reason: str = ""
    id: str = ""
    sources: Sequence[str] = ()
    passages: Sequence[Shown] | None = None  # None: no receipt tells them
    injected_tokens: int | None = None  # as the embedder counts; None: no receipt tells it


@dataclass(frozen=True, slots=True)
class Reply:
    """One attempt to have a question answered. Times are milliseconds from the request's first byte."""

    question: str
    variant: str
    repeat: int  # from 0
    at_s: float  # since the epoch, when it was sent
    status: int  # HTTP's; 0: there was no reply
    answer: str | None  # None: there was none, or no text in it
    finish_reason: str | None
    error: str | None  # None: it is an answer
    rag: Rag
    usage: Tokens | None  # None: nothing was used
    cost_usd: float | None  # None: the model's price is not known
    first_ms: float | None  # the first text of the answer or of its reasoning
    total_ms: float | None
    stages_ms: Mapping[str, float]  # of the gateway, from Server-Timing
    request: Mapping[str, Any]  # the body that was sent
    reply: str  # as it came
    refused: bool = False  # `answer` is what stands in the reply's "refusal"

    @property
    def asked(self) -> Asked:
        return self.question, self.variant, self.repeat

    @property
    def done(self) -> bool:
        """Whether it stands: an answer, or an error that would be the same again."""
        return self.error is None or (self.status in _FOR_GOOD and not self.refuses_usage)

    @property
    def refuses_usage(self) -> bool:
        """Whether it was refused because it asked for the tokens that it takes, and the upstream knows no such wish."""
        return self.status in _FOR_GOOD and _WITH_USAGE in self.reply and _WITH_USAGE in self.request


def question_from(row: Mapping[str, Any]) -> Question:
    """The question of a row of questions.jsonl. Raises TypeError where a member is missing."""
    return Question(**_known(Question, row))


def variant_from(row: Mapping[str, Any]) -> Variant:
    """The variant of a row of run.json. Raises TypeError where a member is missing."""
    return Variant(**_known(Variant, row))


def leak_from(row: Mapping[str, Any]) -> Leak:
    """The leak of a row of run.json. Raises TypeError where a member is missing."""
    return Leak(**_known(Leak, row))


def reply_from(row: Mapping[str, Any]) -> Reply:
    """The reply of a row of replies.jsonl. Raises TypeError where a member is missing."""
    rag = _known(Rag, row.get("rag") or {})
    if rag.get("passages") is not None:
        rag["passages"] = [Shown(**_known(Shown, passage)) for passage in rag["passages"]]
    usage = row.get("usage")
    told = {"rag": Rag(**rag), "usage": None if usage is None else Tokens(**_known(Tokens, usage))}
    return Reply(**(_known(Reply, row) | told))


def _known(kind: type, row: Mapping[str, Any]) -> dict[str, Any]:
    names = {one.name for one in fields(kind)}
    return {name: value for name, value in row.items() if name in names}
