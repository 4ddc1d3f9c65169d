"""From search settings to rungs: each rung switches on one more part of the search.

Only the last rung decides whether to inject anything, because that removes passages and would hide what a retriever
found. It uses the settings exactly as configured, so it measures a real chat.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from retrieval.knowledge import SearchOptions
from retrieval.records.search import Turn

Asking = Literal["last turn", "conversation", "human rewrite"]


@dataclass(frozen=True, slots=True)
class Rung:
    """One search method. A `reference` rung shows what is possible; no rung is compared with it."""

    name: str
    label: str
    options: SearchOptions
    okapi: bool = False  # rank-bm25's scores instead of the store's own BM25
    asking: Asking = "last turn"
    reference: bool = False

    def turns(self, conversation: Sequence[Turn], human: str) -> Sequence[Turn]:
        """The question: the conversation, only its last turn, or a person's rewrite of that."""
        if self.asking == "conversation":
            return conversation
        if self.asking == "human rewrite" and human:
            return [Turn("user", human)]
        return conversation[-1:]


def ladder(configured: SearchOptions, *, okapi: bool, human: bool) -> list[Rung]:
    """The rungs, from the bottom. okapi: rank-bm25 is the configured lexical arm. human: with a person's rewrites."""
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
