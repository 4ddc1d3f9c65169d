"""The search settings to rungs: each rung switches one more part of the search on.

Only the last rung decides whether to inject anything, because the decision removes passages and would hide the result
of a retriever. The last rung uses the settings exactly as configured, so the rung measures a real chat.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from retrieval.knowledge import SearchOptions
from retrieval.records.search import Turn

Asking = Literal["last turn", "conversation", "human rewrite"]


@dataclass(frozen=True, slots=True)
class Rung:
    """One search method. A `reference` rung shows the possible gain; no rung is compared with a reference."""

    name: str
    label: str
    options: SearchOptions
    okapi: bool = False  # rank-bm25's scores in place of the store's own BM25
    asking: Asking = "last turn"
    reference: bool = False

    def turns(self, conversation: Sequence[Turn], human: str) -> Sequence[Turn]:
        """The question: the conversation, the last turn alone, or a person's rewrite of the last turn."""
        if self.asking == "conversation":
            return conversation
        if self.asking == "human rewrite" and human:
            return [Turn("user", human)]
        return conversation[-1:]


def ladder(configured: SearchOptions, *, okapi: bool, human: bool) -> list[Rung]:
    """The rungs, from the bottom. okapi: the lexical arm configured is rank-bm25. human: with a person's rewrites."""
    bare = _bare(configured)
    rungs = [
        Rung("rank-bm25", "rank-bm25", replace(bare, arms="bm25"), okapi=True),
        Rung("bm25", "BM25", replace(bare, arms="bm25")),
        Rung("dense", "dense", replace(bare, arms="dense")),
        Rung("hybrid", "hybrid", bare, okapi=okapi),
    ]
    above = bare
    if configured.rewrite != "off":
        above = replace(above, rewrite=configured.rewrite)
        rungs.append(Rung("rewriting", "+ rewriting", above, okapi=okapi, asking="conversation"))
    if human:
        rungs.append(Rung("human", "(human rewrite)", bare, okapi=okapi, asking="human rewrite", reference=True))
    if configured.rerank_model:
        above = replace(
            above,
            rerank_model=configured.rerank_model,
            rerank_candidates=configured.rerank_candidates,
            rerank_deadline_s=configured.rerank_deadline_s,
        )
        rungs.append(Rung("rerank", "+ rerank", above, okapi=okapi, asking="conversation"))
    rungs.append(Rung("configured", "as configured", configured, okapi=okapi, asking="conversation"))
    return rungs


def _bare(configured: SearchOptions) -> SearchOptions:
    """Both retrievers fused, without any later stage."""
    return replace(
        configured,
        arms="both",
        rewrite="off",
        mode="hybrid",
        min_relevance=0.0,
        rerank_model="",
        recency_half_life_days=0.0,
        merge_neighbours=False,
        neighbours=0,
        whole_document_tokens=0,
    )
