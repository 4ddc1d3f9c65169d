"""The search settings to rungs: the same settings with less switched on, each rung one step more than the one before.

The decision whether to inject anything is left out of all rungs but the last: it takes passages away, and would hide
what an arm finds. The last rung is the settings exactly as they are configured, so a chat gets what it measures.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from retrieval.knowledge import SearchOptions
from retrieval.records.search import Turn

Asking = Literal["last turn", "conversation", "human rewrite"]


@dataclass(frozen=True, slots=True)
class Rung:
    """One way to search. A `reference` rung shows what could be reached; the next one passes it over."""

    name: str
    label: str
    options: SearchOptions
    okapi: bool = False  # rank-bm25's scores in place of the store's own BM25
    asking: Asking = "last turn"
    reference: bool = False

    def turns(self, conversation: Sequence[Turn], human: str) -> Sequence[Turn]:
        """What is asked: the conversation, or its last turn alone, or a person's version of that where there is one."""
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
    if configured.rewrite:
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
    """Both arms fused and nothing after that."""
    return replace(
        configured,
        arms="both",
        rewrite=False,
        mode="hybrid",
        min_relevance=0.0,
        rerank_model="",
        recency_half_life_days=0.0,
        diversity=0.0,
        merge_neighbours=False,
        neighbours=0,
        whole_document_tokens=0,
    )
