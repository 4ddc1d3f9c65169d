"""The search of documents as a tool: the model looks up further passages in the collections of the chat."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from proxy.agent.toolbox import Calling, Done, Refused, Tool, ToolResult, arguments_schema
from proxy.caller import PermittedSearch, search_permitted
from proxy.dialects.quoting import quoted_passages
from proxy.dialects.replies import BYTES_PER_TOKEN
from retrieval.errors import RetrievalError
from retrieval.knowledge import Knowledge
from retrieval.records.search import Turn

SEARCH = "search_documents"
_MOST_PASSAGES = 20


@dataclass(eq=False)
class SearchDocuments(Tool):
    """The tool of a chat whose passages were searched for: `exchange.searched` has the collections."""

    knowledge: Knowledge
    explicit: bool  # the client named the collections
    k: int | None  # passages; None: the setting
    deadline_s: float
    name = SEARCH
    description = "Search the documents for further passages, where the passages at hand do not answer the question."
    schema = arguments_schema(
        "query",
        query={"type": "string", "minLength": 1, "description": "A question or keywords, complete in itself"},
        k={"type": "integer", "minimum": 1, "maximum": _MOST_PASSAGES, "description": "Passages, at most"},
    )

    async def call(self, arguments: dict[str, Any], calling: Calling) -> ToolResult:
        exchange = calling.chat.exchange
        asked = PermittedSearch(
            [Turn("user", arguments["query"])],
            exchange.searched,
            exchange.rights,
            self.explicit,
            k=int(arguments["k"]) if "k" in arguments else self.k,  # 3.0 is a whole number, too
            budget_tokens=calling.max_chars // BYTES_PER_TOKEN,
        )
        began = time.perf_counter()
        try:
            async with asyncio.timeout(self.deadline_s):
                found = await search_permitted(self.knowledge, asked)
        except (RetrievalError, TimeoutError):
            return Refused("The documents cannot be searched at present.", "failed")
        finally:
            exchange.ended_step("retrieval", began, ", ".join(exchange.searched), calling.traced)
        passages = found.retrieved.context.passages
        if not passages:
            return Done("No passage was found.")
        exchange.actions = (*exchange.actions, SEARCH)
        exchange.sources = (*exchange.sources, *(passage.source for passage in passages))
        return Done(quoted_passages(passages), known=True)
