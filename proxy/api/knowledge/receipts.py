"""A chat's passages and why: GET /v1/knowledge/receipts/{x-rag-id}."""

import asyncio
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from proxy.api.knowledge.access import KnowledgeCall
from proxy.api.knowledge.declarations import Closed, doc, operation
from proxy.dialects.base import Position
from proxy.dialects.errors import ApiError
from proxy.exchange import AnsweredBy, CallOutcome, FoundOutcome, OfferResult
from proxy.observe.receipts.shown import readable_receipt
from runtime.write_behind import EVERY_S

_ID = re.compile(r"rag-[0-9a-f]{24}")  # PostgreSQL takes no NUL
_LOOKS = 3  # until another process has written it


class _ReceiptTurn(Closed, frozen=True):
    role: Literal["user", "assistant"]
    text: str


class _ReceiptQuery(Closed, frozen=True):
    text: str
    reason: str
    parts: Annotated[list[str], doc("The parts of a question with several parts")]


class _ReceiptCollection(Closed, frozen=True):
    name: str
    generation: Annotated[int, doc("Grows with every rebuild")]
    embedder: str
    language: str


class _Candidate(Closed, frozen=True):
    id: str
    score: Annotated[float, doc("Of the fusion")]
    outcome: Literal["kept", "duplicate", "budget", "gone", "irrelevant", "surplus"]
    ranks: Annotated[dict[str, int], doc("By arm")]
    scores: Annotated[dict[str, float], doc("By arm")]
    document: Annotated[str | None, doc("Null, like the following fields, for a deleted document that was not read")]
    revision: int | None
    source: str | None
    title: str | None
    headings: list[str] | None
    start: int | None
    end: int | None


class _Injected(Closed, frozen=True):
    document: str
    revision: int
    collection: str
    source: str
    title: str
    headings: list[str]
    start: int
    end: int
    text: str
    tokens: int


class _Versions(Closed, frozen=True):
    gateway: str
    template: Annotated[str, doc("SHA-256 of the text around the passages")]
    settings: Annotated[dict[str, Any], doc("The settings of retrieval and prompt, by dotted key")]


class _FoundOperation(Closed, frozen=True):
    operation: Annotated[str, doc("SET/OPERATION")]
    outcome: FoundOutcome
    score: Annotated[
        float | None, doc("Of the fusion, of the operation's best text; null for an operation found as a producer only")
    ]
    ranks: Annotated[dict[str, int], doc("By arm")]
    scores: Annotated[dict[str, float], doc("By arm")]


class _OperationSearch(Closed, frozen=True):
    query: Annotated[str, doc("The question as searched for")]
    relevance: Annotated[float | None, doc("Probability that an operation answers the question")]
    found: Annotated[list[_FoundOperation], doc("Best first")]
    changing: Annotated[str, doc("The summary of the best operation, if it could change something; else empty")]


class _Round(Closed, frozen=True):
    started_ms: Annotated[float, doc("Since the request arrived")]
    duration_ms: float | None
    prompt_tokens: int
    completion_tokens: int
    estimated: bool
    finish: Annotated[str, doc("The model's finish_reason")]
    calls: Annotated[int, doc("Of the gateway's tools")]
    way: Annotated[Literal["native", "json_schema", "text", "none"], doc("How the model gets the tools")]


class _Call(Closed, frozen=True):
    round: Annotated[int, doc("Number of the round with the call; 0 for a call that waited for the client")]
    operation: Annotated[str, doc("SET/OPERATION or a tool of the gateway; empty for an unknown tool")]
    outcome: CallOutcome
    status: Annotated[int, doc("Of the API's response; 0: no response")]
    sent: Annotated[bool, doc("Whether a request left the gateway")]
    tries: Annotated[int, doc("With the retries; 0 if not known")]
    started_ms: Annotated[float, doc("Since the request arrived")]
    duration_ms: float | None
    size_bytes: Annotated[int, doc("Of the response")]
    arguments: Annotated[str, doc("JSON, masked and cut")]
    result: Annotated[str, doc("The text for the model, masked and cut")]


class _Actions(Closed, frozen=True):
    sets: list[str]
    offer: Literal["", OfferResult]
    operations: Annotated[list[str], doc("Offered, as SET/OPERATION")]
    searches: Annotated[list[_OperationSearch], doc("The searches for operations, also of the model")]
    left_out: Annotated[list[str], doc("The operations whose definition the model refused in this chat")]
    private: Annotated[list[str], doc("The private action sets of which the conversation has results")]
    forgotten: Annotated[bool, doc("Whether earlier calls of the conversation could not be put back")]
    answered_by: Annotated[AnsweredBy, doc("Empty if the client left, or if a limit refused the first call")]
    rounds: Annotated[list[_Round], doc("The calls of the model")]
    calls: list[_Call]


class Receipt(Closed, frozen=True, tag_field="object", tag="knowledge.receipt"):
    id: Annotated[str, doc("The x-rag-id of the chat")]
    created_at: Annotated[int, doc("Seconds since 1970")]
    model: str
    status: Annotated[Literal["augmented", "empty", "degraded", "off"], doc("x-rag-status")]
    reason: Annotated[str, doc("x-rag-reason")]
    question: Annotated[str, doc("The latest message of the user")]
    turns: Annotated[list[_ReceiptTurn], doc("The conversation used for the search")]
    query: Annotated[_ReceiptQuery | None, doc("The searched question; null without a search")]
    collections: list[_ReceiptCollection]
    k: Annotated[int | None, doc("The client's value; null stands for the setting")]
    budget_tokens: Annotated[int, doc("The token budget of the passages")]
    relevance: float | None
    candidates: Annotated[list[_Candidate], doc("The candidates of all arms, best first by fused score")]
    passages: Annotated[list[_Injected], doc("The injected passages, in order")]
    injected: Annotated[str, doc("The exact text; empty without an injection")]
    sha256: Annotated[str, doc("Of the injected text's UTF-8 bytes, in hexadecimal digits")]
    injected_tokens: int
    position: Position
    versions: _Versions
    timings_ms: dict[str, float]
    actions: Annotated[
        _Actions | None, doc("The operations offered to the model, and the calls; null for a chat without action sets")
    ]


@operation(
    "GET /v1/knowledge/receipts/{id}",
    "receipts",
    "For readers with the right to read the whole content",
    gives=Receipt,
    slow=True,
)
async def read_receipt(call: KnowledgeCall) -> Mapping[str, Any]:
    """The question of a chat, the passages found and the text shown to the model."""
    id, exchange = call.path["id"], call.exchange
    for look in range(_LOOKS):
        if look:  # also for a hidden receipt: time must not reveal that it exists
            await asyncio.sleep(EVERY_S)
        async with call.rules.asking():
            kept = await call.rules.receipts.find(id) if _ID.fullmatch(id) else None
            found = kept and await readable_receipt(kept, call.knowledge, exchange.rights, exchange.owner, exchange.key)
        if found:
            return found
    message = f"There is no receipt {id!r}: it was not kept (receipts.keep_hours), is too old, or is not yours."
    raise ApiError(404, message, code="receipt_not_found", param="id")
