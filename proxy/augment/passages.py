"""A chat's passages: their budget, the search within its deadline, and the text to inject.

The search fails open: without a result, the chat goes on, marked `degraded`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from config.sections import InjectSettings, RetrievalSettings
from proxy import permitted
from proxy.augment.context_window import room_tokens
from proxy.augment.gate import Chat
from proxy.augment.inject import Template, in_order
from proxy.augment.rewrite import Rewriter, has_history
from proxy.dialects.errors import ApiError, Headers
from proxy.dialects.json_body import by_size
from proxy.dialects.target import Target
from proxy.exchange import Exchange
from proxy.steps import Step
from retrieval.errors import IndexDown, IndexSilent, IndexStarting, RetrievalError, UnknownCollection, WrongEmbedder
from retrieval.knowledge import Knowledge
from retrieval.records.search import Retrieved

log = logging.getLogger("ragway")
# Kind of failure -> reason in x-rag-reason and metrics; the first match counts.
DEGRADED: Sequence[tuple[type[Exception], str]] = (
    (TimeoutError, "retrieval took too long"),
    (IndexSilent, "index does not answer"),
    (IndexStarting, "index is starting"),
    (IndexDown, "index is down"),
    (WrongEmbedder, "index was built with another embedder"),
    (RetrievalError, "index cannot be searched"),
    (Exception, "internal error"),
)
NOT_THERE = "no such collection yet"
_NO_ROOM = "no room in the model's window"


async def already() -> None:
    """For a gateway that has already started."""


@dataclass(frozen=True, slots=True)
class Passages:
    """Finds passages for chats."""

    knowledge: Knowledge
    template: Template
    retrieval: RetrievalSettings
    inject: InjectSettings
    rewriter: Rewriter | None = None  # None: the index rewrites
    translated_window: Callable[[str], int] | None = None  # a translated model's, in tokens, by litellm; 0: not known
    traced: bool = False  # results say how passages were found
    begun: Callable[[], Awaitable[None]] = already  # awaited before a search, as the gateway may be starting

    async def find(self, chat: Chat, headers: Headers, deadline_s: float) -> None:
        """Set the chat's search result and text to inject; if there is none, the exchange says why."""
        exchange = chat.exchange
        chat.budget_tokens = await by_size(chat.request.raw, lambda: self._budget_tokens(chat))
        if not chat.budget_tokens:
            exchange.rag_status, exchange.rag_reason = "empty", _NO_ROOM
            return
        retrieval = Step("retrieval", exchange.elapsed_ms())
        await self.begun()
        try:
            async with asyncio.timeout(deadline_s):
                searched = await self._search(chat, headers)
            chat.found, exchange.searched = searched.retrieved, searched.collections
            exchange.index_steps(searched.retrieved.timings_ms, searched.began, retrieval)
            chat.injected = self._rendered(searched.retrieved, exchange)
        except UnknownCollection as error:
            if chat.decision.explicit:
                raise ApiError(404, f"{error}.", code="collection_not_found", param="collection") from error
            exchange.rag_status, exchange.rag_reason = "empty", NOT_THERE
        except (RetrievalError, TimeoutError) as error:
            _degrade(exchange, error)
        except Exception as error:  # fail open: our fault may cost context, never the reply
            log.exception("%s retrieval failed", exchange.id)
            _degrade(exchange, error)
        retrieval.duration_ms = exchange.elapsed_ms() - retrieval.started_ms
        retrieval.detail = ", ".join(exchange.searched)
        exchange.steps.append(retrieval)

    def _budget_tokens(self, chat: Chat) -> int:
        """The token budget for passages: as set, or less if a known context window leaves less."""
        most, window_tokens = self.inject.budget_tokens, self._window_tokens(chat.target)
        if not window_tokens:
            return most
        return min(most, room_tokens(chat.request, window_tokens=window_tokens, share=self.inject.window_share))

    def _window_tokens(self, target: Target) -> int:
        """The model's context window: as set, else litellm's; 0: not known."""
        if target.window_tokens or target.lane != "translated" or self.translated_window is None:
            return target.window_tokens
        return self.translated_window(target.model)

    async def _search(self, chat: Chat, headers: Headers) -> permitted.SearchResult:
        """Search for the latest question, as the index or a model rewrites it.

        Raises UnknownCollection, RetrievalError.
        """
        decision = chat.decision
        asked = permitted.PermittedSearch(
            decision.turns,
            decision.collections,
            chat.exchange.rights,
            decision.explicit,
            k=decision.k,
            budget_tokens=chat.budget_tokens,
            traced=self.traced,
        )
        if self.rewriter is None or not has_history(asked.turns):
            return await permitted.search(self.knowledge, asked)
        return await self.rewriter.search(self.knowledge, asked, chat.exchange, headers)

    def _rendered(self, retrieved: Retrieved, exchange: Exchange) -> str:
        """The text to inject; "" if no passage is relevant."""
        exchange.rag_reason = retrieved.query.reason
        passages = retrieved.context.passages
        if not passages:
            exchange.rag_status, exchange.rag_reason = "empty", "nothing relevant found"
            return ""
        exchange.rag_status = "augmented"
        exchange.sources = tuple(passage.source for passage in passages)
        exchange.injected_tokens = retrieved.context.tokens
        return self.template.render(in_order(passages, self.inject.order), exchange.searched)


def _degrade(exchange: Exchange, error: Exception) -> None:
    exchange.rag_status = "degraded"
    exchange.rag_reason = next(reason for kind, reason in DEGRADED if isinstance(error, kind))
    # Only errors that retrieval raises on purpose are sure to quote neither document nor question.
    words = str(error) if isinstance(error, RetrievalError) else type(error).__name__
    exchange.error = words or exchange.rag_reason
