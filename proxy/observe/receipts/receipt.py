"""Receipts of chats whose question was searched for, in passages or operations, and their JSON.

A request makes a `Receipt` of references, in microseconds; `serialize_receipt` reads them later, in a thread.
"""

import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import time
from typing import Any, ClassVar

import orjson

from proxy.augment.gate import Chat, Decision, turns_of
from proxy.dialects.quoting import Order, in_order
from proxy.exchange import ActionTrace, Exchange, durations_ms
from retrieval.records.documents import Groups
from retrieval.records.search import Hit, Retrieved
from runtime.record_store import RecordStore
from runtime.write_behind import Count, WriteBehindQueue

_MOST_CHARS = 100  # of the client's model name


@dataclass(slots=True)  # not frozen: a frozen instance takes three times as long to make
class Receipt:
    """A chat: its question, search result (None: no search) and injected text."""

    id: str
    at_s: float
    exchange: Exchange  # before the model call, without the client's body
    decision: Decision
    budget_tokens: int
    found: Retrieved | None
    injected: str  # "": no text
    size_bytes: ClassVar[int] = 0  # its number is limited


@dataclass(frozen=True, slots=True)
class Versions:
    """What determines the injected text besides the documents."""

    gateway: str  # version
    template: str  # SHA-256 of the text around passages
    order: Order
    settings: Mapping[str, Any]  # by dotted key: settings for search and injection


def receipt_of(chat: Chat) -> Receipt:
    """The receipt as it is before the model call, without the client's body."""
    decision, steps = chat.decision, [*chat.exchange.steps]
    if not decision.turns:
        decision = replace(decision, turns=turns_of(chat.request.messages()))
    exchange = replace(chat.exchange, body=None, fields=None, granted_mb=0, after_reply=[], steps=steps)
    return Receipt(exchange.id, time(), exchange, decision, chat.budget_tokens, chat.found, chat.injected)


def serialize_receipt(receipt: Receipt, versions: Versions) -> bytes:
    """The receipt as JSON. Members that begin with _ are only for `shown`, which makes the readers' version."""
    exchange, decision, found = receipt.exchange, receipt.decision, receipt.found
    searched_for = exchange.rag_status not in ("off", "skipped")
    model = exchange.model[:_MOST_CHARS].encode("utf-8", "replace").decode()  # no half surrogate pairs
    searched = _NOT_SEARCHED if found is None else _searched(found)
    return orjson.dumps(
        {
            "object": "knowledge.receipt",
            "id": receipt.id,
            "created_at": int(receipt.at_s),
            "model": model,
            "status": exchange.rag_status,
            "reason": exchange.rag_reason,
            "question": decision.turns[-1].text,
            "turns": decision.turns,
            **searched,
            "k": decision.k,
            "budget_tokens": receipt.budget_tokens,
            "passages": in_order(found.context.passages, versions.order) if found and receipt.injected else [],
            "injected": receipt.injected,
            "sha256": sha256_of(receipt.injected),
            "injected_tokens": exchange.injected_tokens,
            "position": exchange.target and exchange.target.position,
            "versions": {"gateway": versions.gateway, "template": versions.template, "settings": versions.settings},
            "timings_ms": durations_ms(exchange.steps),
            "actions": None if exchange.action_trace is None else _actions(exchange.action_trace),
            "_key": exchange.key,
            "_owner": exchange.owner,
            "_groups": exchange.rights.groups,
            "_asked": [name for name in decision.collections if name in exchange.rights.read] if searched_for else [],
        }
    )


def sha256_of(text: str) -> str:
    """SHA-256 of the UTF-8 bytes, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def _actions(trace: ActionTrace) -> dict[str, Any]:
    """Offer, rounds and calls."""
    rounds = [
        {
            "started_ms": one.started_ms,
            "duration_ms": one.duration_ms,
            "prompt_tokens": one.tokens.prompt,
            "completion_tokens": one.tokens.completion,
            "estimated": one.tokens.estimated,
            "finish": one.finish,
            "calls": one.calls,
            "way": one.tool_protocol,
        }
        for one in trace.rounds
    ]
    return {
        "sets": list(trace.sets),
        "offer": trace.offer,
        "operations": trace.operations,
        "searches": trace.searches,
        "left_out": trace.left_out,
        "private": list(trace.private),
        "forgotten": trace.forgotten,
        "answered_by": trace.answered_by,
        "rounds": rounds,
        "calls": [
            {"round": trace.round_of(call), **{name: getattr(call, name) for name in _OF_A_CALL}}
            for call in trace.calls
        ],
    }


_OF_A_CALL = (
    "operation", "outcome", "status", "sent", "tries", "started_ms", "duration_ms", "size_bytes", "arguments",
    "result",
)  # fmt: skip
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
    """What a passage has that a candidate in the trace lacks."""
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
    """Whether a reader may read a document. groups: the document's; reader: the reader's."""
    return not groups or reader is None or not set(groups).isdisjoint(reader)


class Receipts(WriteBehindQueue[Receipt]):
    """This process's unwritten receipts, and access to all stored ones."""

    def __init__(self, store: RecordStore, versions: Versions, count: Count) -> None:
        super().__init__(store, lambda one: serialize_receipt(one, versions), count)

    def keep(self, chat: Chat) -> None:
        """Keep a searched chat's receipt: at once, or after a reply that may take several rounds."""
        receipt, trace = receipt_of(chat), chat.exchange.action_trace
        if trace is not None and trace.offer == "offered":
            chat.exchange.after_reply.append(functools.partial(self.add, receipt))
        else:
            self.add(receipt)

    async def find(self, id: str) -> dict[str, Any] | None:
        """The receipt as JSON; None: there is none with this id. Raises RetrievalError."""
        record = await self.find_record(id)
        content = self._content(record) if isinstance(record, Receipt) else record
        found: dict[str, Any] | None = None if content is None else orjson.loads(content)
        return found
