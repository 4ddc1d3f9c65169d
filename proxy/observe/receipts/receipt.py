"""What is known of one chat whose question was searched for, and the JSON that is kept of it.

A request makes a `Receipt` of references, which costs it microseconds; `kept` reads them off its way.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import time
from typing import Any

import orjson

from proxy.access.rights import Rights
from proxy.augment.gate import Decision
from proxy.augment.inject import Order, in_order
from proxy.dialects.base import Position
from proxy.exchange import Exchange, Target, durations_ms
from retrieval.records.documents import Groups
from retrieval.records.search import Hit, Retrieved

_MOST_CHARS = 100  # of what a client calls a model


@dataclass(slots=True)  # not frozen: that takes three times as long
class Receipt:
    """One chat: who asked what, what was found (None: nothing was searched), what the model was shown."""

    id: str
    at_s: float
    owner: str
    rights: Rights
    model: str
    status: str
    reason: str
    position: Position
    decision: Decision
    budget_tokens: int
    found: Retrieved | None
    injected: str  # "" where nothing was
    injected_tokens: int
    timings_ms: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Versions:
    """What a gateway injects with, besides what is found."""

    gateway: str  # its version
    template: str  # SHA-256 of the text around the passages
    order: Order
    settings: Mapping[str, Any]  # by dotted key: those that decide what is found and shown


def receipt_of(
    exchange: Exchange, target: Target, decision: Decision, budget_tokens: int, found: Retrieved | None, injected: str
) -> Receipt:
    """The receipt of a chat that goes on to its model. It holds neither the exchange nor what the client sent."""
    return Receipt(
        exchange.id,
        time(),
        exchange.owner,
        exchange.rights,
        exchange.model[:_MOST_CHARS],
        exchange.rag_status,
        exchange.rag_reason,
        target.position,
        decision,
        budget_tokens,
        found,
        injected,
        exchange.injected_tokens,
        durations_ms(exchange.steps),
    )


def kept(receipt: Receipt, versions: Versions) -> bytes:
    """The receipt as JSON. `shown` makes of it what a reader gets; the fields that begin with _ are for that alone."""
    decision, found = receipt.decision, receipt.found
    searched = _NOT_SEARCHED if found is None else _searched(found)
    return orjson.dumps(
        {
            "object": "knowledge.receipt",
            "id": receipt.id,
            "created_at": int(receipt.at_s),
            "model": receipt.model.encode("utf-8", "replace").decode(),  # half a surrogate pair is no JSON
            "status": receipt.status,
            "reason": receipt.reason,
            "question": decision.turns[-1].text,
            "turns": decision.turns,
            **searched,
            "k": decision.k,
            "budget_tokens": receipt.budget_tokens,
            "passages": in_order(found.context.passages, versions.order) if found and receipt.injected else [],
            "injected": receipt.injected,
            "sha256": sha256_of(receipt.injected),
            "injected_tokens": receipt.injected_tokens,
            "position": receipt.position,
            "versions": {"gateway": versions.gateway, "template": versions.template, "settings": versions.settings},
            "timings_ms": receipt.timings_ms,
            "_owner": receipt.owner,
            "_groups": receipt.rights.groups,
            "_asked": [name for name in decision.collections if name in receipt.rights.read],
        }
    )


def sha256_of(text: str) -> str:
    """Of its UTF-8, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


_NOT_SEARCHED: Mapping[str, Any] = {"query": None, "collections": [], "relevance": None, "_trace": None, "_hits": []}


def _searched(found: Retrieved) -> Mapping[str, Any]:
    trace, query = found.trace, found.query
    return {
        "query": {"text": query.text, "reason": query.reason, "parts": query.parts},
        "collections": [] if trace is None else trace.searched,
        "relevance": found.relevance,
        "_trace": trace,
        "_hits": [_hit(hit) for hit in found.hits],
    }


def _hit(hit: Hit) -> dict[str, Any]:
    """Of a passage that was read, what a candidate has not."""
    one = hit.passage
    return {
        "id": hit.id,
        "document": one.document,
        "revision": one.revision,
        "source": one.source,
        "title": one.title,
        "headings": one.headings,
        "start": one.start,
        "end": one.end,
        "groups": one.groups,
        "scores": hit.scores,
    }


def allowed(groups: Sequence[str], reader: Groups) -> bool:
    """Whether who is in these groups may read a document of those."""
    return not groups or reader is None or not set(groups).isdisjoint(reader)
