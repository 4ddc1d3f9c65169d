"""Rerank: each of the first passages read together with the question by a cross-encoder, in place of the fused order.

The only door to sentence-transformers' `CrossEncoder`, imported where a model is configured. A pair of 256 tokens
costs as much as embedding a chunk of that length, so both the number of passages and the time are bounded: past the
deadline the fused order stands. The model computes in one thread of its own (torch releases the GIL), a few pairs of
like length at a time, and looks at the clock between them, so that nothing goes on for a question that is answered.
"""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from retrieval.errors import RetrievalError
from retrieval.records.documents import indexed_text
from retrieval.records.search import Hit

TOO_LATE = "rerank took too long"  # the reason's part, where the fused order stood
RERANK = "rerank"  # the name under which a hit keeps the reranker's own score
_MAX_TOKENS = 512  # of a pair: what most cross-encoders read; a longer window makes a long passage slow, not better
# Pairs computed between two looks at the clock. Twenty pairs of 80 to 270 tokens, six layers of 384: 1.5 s of CPU one
# by one or four at a time, 1.8 all at once, which pads more and falls out of the cache.
_BATCH = 4


class Reranker(Protocol):
    """Scores passages against a question."""

    async def scores(self, question: str, texts: Sequence[str], *, deadline_s: float) -> list[float] | None:
        """One score from 0 to 1 for each text, in order; None where that took longer than `deadline_s`."""
        ...

    def close(self) -> None: ...


class CrossEncoderReranker:
    """A sentence-transformers `CrossEncoder`, in a thread."""

    def __init__(self, model: Any) -> None:
        """model: a CrossEncoder with one output."""
        self._model = model
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rerank")

    @staticmethod
    def open(model: str) -> "CrossEncoderReranker":
        """Load a model by name or path (imports torch: seconds), and use it once, so that no question pays for that.

        Raises RetrievalError if that cannot be done.
        """
        folder = Path(model).expanduser()
        if not folder.is_dir() and (folder.is_absolute() or model.startswith((".", "~"))):
            raise RetrievalError(
                f"there is no folder {model!r}: retrieval.rerank_model is a cross-encoder's name, or its folder"
            )
        return CrossEncoderReranker(_loaded(str(folder) if folder.is_dir() else model))

    async def scores(self, question: str, texts: Sequence[str], *, deadline_s: float) -> list[float] | None:
        until = time.perf_counter() + deadline_s
        work = asyncio.get_running_loop().run_in_executor(self._thread, self._scores, question, texts, until)
        # The thread may be busy with others' questions, or within a batch: nobody waits for either past the deadline.
        done, _ = await asyncio.wait({work}, timeout=deadline_s)
        return work.result() if done else None

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)

    def _scores(self, question: str, texts: Sequence[str], until: float) -> list[float] | None:
        import torch

        found = [0.0] * len(texts)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))  # padding is wasted work
        for start in range(0, len(order), _BATCH):
            if time.perf_counter() >= until:
                return None
            batch = order[start : start + _BATCH]
            pairs = [(question, texts[i]) for i in batch]
            said = self._model.predict(
                pairs, batch_size=_BATCH, show_progress_bar=False, activation_fn=torch.nn.Sigmoid()
            )
            for i, score in zip(batch, said, strict=True):
                found[i] = float(score)
        return found


async def open_reranker(model: str) -> Reranker | None:
    """The reranker that the setting names, loaded in a thread; None for "". Raises RetrievalError."""
    return await asyncio.to_thread(CrossEncoderReranker.open, model) if model else None


def _loaded(source: str) -> Any:
    from safetensors import SafetensorError
    from sentence_transformers import CrossEncoder
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # one bar per weight file says nothing to anyone
    try:
        model = CrossEncoder(source, device="cpu", trust_remote_code=False)
        model.max_seq_length = min(_MAX_TOKENS, model.max_seq_length or _MAX_TOKENS)
        outputs = model.num_labels
        model.predict([("warm", "up")], show_progress_bar=False)
    except (OSError, ValueError, RuntimeError, LookupError, TypeError, ImportError, SafetensorError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise RetrievalError(
            f"cannot load the reranker {source!r}: {reason}. Name another cross-encoder in retrieval.rerank_model, "
            'or none ("")'
        ) from error
    if outputs != 1:
        raise RetrievalError(
            f"the reranker {source!r} has {outputs} outputs, one score for a pair was expected: is it a classifier? "
            "Name another cross-encoder in retrieval.rerank_model"
        )
    return model


async def reranked(
    reranker: Reranker, question: str, hits: Sequence[Hit], *, candidates: int, deadline_s: float
) -> list[Hit] | None:
    """The hits with the first `candidates` of them by the reranker's score, best first; None past the deadline."""
    first = hits[:candidates]
    read = [hit.passage for hit in first]
    texts = [indexed_text(one.title, one.headings, one.text, one.context) for one in read]
    scores = await reranker.scores(question, texts, deadline_s=deadline_s)
    if scores is None:
        return None
    scored = [
        replace(hit, score=score, scores={**hit.scores, RERANK: score})
        for hit, score in zip(first, scores, strict=True)
    ]
    return [*sorted(scored, key=lambda hit: -hit.score), *hits[candidates:]]
