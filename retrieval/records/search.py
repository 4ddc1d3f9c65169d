"""From a question to a context."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from retrieval.records.documents import Passage
from retrieval.records.traces import Trace


@dataclass(frozen=True, slots=True)
class View:
    """Documents visible to a reader: those without groups, and those of a group among `groups`."""

    groups: tuple[str, ...] | None = ()  # None: all documents
    filter: str = ""  # a further condition, checked by `filters.checked_filter`; "": none


PUBLIC = View()  # of a reader in no group
ALL = View(None)


@dataclass(frozen=True, slots=True)
class Turn:
    """A message in a conversation, as text."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Query:
    """The latest question, rewritten to stand alone.

    `text` is the whole question. `terms` and `vectors` are (text, weight) pairs: texts for BM25 with their words'
    weight, and texts for the dense query with their embeddings' weight. The question is the first pair.
    """

    text: str
    terms: tuple[tuple[str, float], ...]
    vectors: tuple[tuple[str, float], ...]
    reason: str  # of rewriting, for headers and receipts
    parts: tuple[str, ...] = ()  # of a question with several parts: each is searched for as well


@dataclass(slots=True)  # a frozen class takes three times as long to make, and a question makes a hundred
class ScoredId:
    """A point found by an arm, by id: a search never reads most of these."""

    id: str
    score: float


@dataclass(slots=True)  # not frozen, for the same reason
class Candidate:
    """A point found by one or more arms, and not read yet; `score` is its fusion score."""

    id: str
    score: float
    ranks: Mapping[str, int] = field(default_factory=dict)  # arm -> rank from 1
    scores: Mapping[str, float] = field(default_factory=dict)  # arm -> the arm's own score


@dataclass(frozen=True, slots=True)
class Surrounding:
    """A span of a hit's document around it."""

    start: int
    end: int
    text: str
    whole: bool  # whether it is the whole document


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage found, with its last stage's score and each arm's rank and score."""

    id: str
    score: float
    passage: Passage
    ranks: Mapping[str, int] = field(default_factory=dict)  # arm -> rank from 1
    scores: Mapping[str, float] = field(default_factory=dict)  # arm -> the arm's own score
    surrounding: Surrounding | None = None  # only on request


@dataclass(frozen=True, slots=True)
class Context:
    """Passages within budget, best first; `tokens` counts them as shown."""

    passages: tuple[Passage, ...]
    tokens: int
    dropped: int  # hits left out: over budget or copies


@dataclass(frozen=True, slots=True)
class Retrieved:
    """A search's result: the query as understood, fused hits, packed context."""

    query: Query
    hits: tuple[Hit, ...]
    context: Context
    timings_ms: Mapping[str, float]  # stage -> milliseconds, in order
    relevance: float | None = None  # probability of a relevant hit; None if the setting is off
    trace: Trace | None = None  # only on request
    note: str = ""  # about the question, for headers and receipts


@dataclass(frozen=True, slots=True)
class Calibration:
    """One embedder's curve for hybrid searches, before and after."""

    embedder: str
    collections: Sequence[str]
    sentences: int  # of documents, asked as questions
    unrelated: int  # texts about anything, asked as questions
    auc: float  # area under the ROC curve: how well the evidence tells the two apart, .5 to 1
    slope: float
    offset: float
    slope_before: float
    offset_before: float
