"""The search of documents as a tool: the model looks up further passages in the collections of the chat."""

import asyncio
import time
from typing import Any

from proxy.access import permitted
from proxy.actions.own_tools import OwnTool, ToolAnswer, arguments_schema
from proxy.augment.inject import quoted_passages
from proxy.dialects.token_counts import BYTES_PER_TOKEN
from proxy.exchange import Exchange
from retrieval.errors import RetrievalError
from retrieval.knowledge import Knowledge
from retrieval.records.search import Turn

SEARCH = "search_documents"
_MOST_PASSAGES = 20


def search_documents(
    knowledge: Knowledge, exchange: Exchange, *, explicit: bool, k: int | None, deadline_s: float
) -> OwnTool:
    """The tool of a chat whose passages were searched for: `exchange.searched` has the collections.

    explicit: the client named the collections. k: passages; None: the setting.
    """

    async def answer(arguments: dict[str, Any], max_chars: int) -> ToolAnswer:
        asked = permitted.PermittedSearch(
            [Turn("user", arguments["query"])],
            exchange.searched,
            exchange.rights,
            explicit,
            k=int(arguments["k"]) if "k" in arguments else k,  # 3.0 is a whole number, too
            budget_tokens=max_chars // BYTES_PER_TOKEN,
        )
        began = time.perf_counter()
        try:
            async with asyncio.timeout(deadline_s):
                found = await permitted.search(knowledge, asked)
        except (RetrievalError, TimeoutError):
            return ToolAnswer("The documents cannot be searched at present.", outcome="failed")
        finally:
            exchange.ended_step("retrieval", began, ", ".join(exchange.searched))
        passages = found.retrieved.context.passages
        if not passages:
            return ToolAnswer("No passage was found.")
        exchange.actions = (*exchange.actions, SEARCH)
        exchange.sources = (*exchange.sources, *(passage.source for passage in passages))
        return ToolAnswer(quoted_passages(passages), known=True)

    return OwnTool(
        SEARCH,
        "Search the documents for further passages, where the passages at hand do not answer the question.",
        arguments_schema(
            "query",
            query={"type": "string", "minLength": 1, "description": "A question or keywords, complete in itself"},
            k={"type": "integer", "minimum": 1, "maximum": _MOST_PASSAGES, "description": "Passages, at most"},
        ),
        answer,
    )
