"""Rerank: a cross-encoder reads each of the first passages with the question; its scores replace the fused order.

The only door to sentence-transformers' `CrossEncoder`, imported only if a model is configured. A pair of 256 tokens
costs as much as embedding a chunk of 256 tokens, so passages and time are bounded: past the deadline the fused order
stays. The model runs in its own thread (torch releases the GIL), a few pairs of similar length at a time, and checks
the clock between batches, so that no work continues for an answered question.
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

TOO_LATE = "rerank took too long"  # part of the query's reason if the fused order stays
RERANK = "rerank"  # key of the reranker's score in `Hit.scores`
_MAX_TOKENS = 512  # per pair: most cross-encoders' window; a longer one makes a long passage slow, not better
# Pairs per batch; the clock is checked between batches. Twenty pairs of 80 to 270 tokens, six layers of 384: 1.5 s of
# CPU with batches of one or four, 1.8 s with one, which pads more and does not fit the cache.
_BATCH = 4


class Reranker(Protocol):
    """Scores passages against a question."""

    async def scores(self, question: str, texts: Sequence[str], *, deadline_s: float) -> list[float] | None:
        """One score from 0 to 1 for each text, in order; None after `deadline_s`."""
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
        """Load a model by name or path (imports torch: seconds), and run it once. Raises RetrievalError."""
        folder = Path(model).expanduser()
        if not folder.is_dir() and (folder.is_absolute() or model.startswith((".", "~"))):
            raise RetrievalError(
                f"there is no folder {model!r}: "
                "set retrieval.rerank_model to a cross-encoder's name or to an existing folder"
            )
        return CrossEncoderReranker(_load(str(folder) if folder.is_dir() else model))

    async def scores(self, question: str, texts: Sequence[str], *, deadline_s: float) -> list[float] | None:
        until = time.perf_counter() + deadline_s
        work = asyncio.get_running_loop().run_in_executor(self._thread, self._scores, question, texts, until)
        # Its thread may be busy with other questions, or within a batch: wait for neither past the deadline.
        done, _ = await asyncio.wait({work}, timeout=deadline_s)
        return work.result() if done else None

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)

    def _scores(self, question: str, texts: Sequence[str], until: float) -> list[float] | None:
        import torch

        scores = [0.0] * len(texts)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))  # similar lengths: padding is wasted work
        for start in range(0, len(order), _BATCH):
            if time.perf_counter() >= until:
                return None
            batch = order[start : start + _BATCH]
            pairs = [(question, texts[i]) for i in batch]
            predictions = self._model.predict(
                pairs, batch_size=_BATCH, show_progress_bar=False, activation_fn=torch.nn.Sigmoid()
            )
            for i, score in zip(batch, predictions, strict=True):
                scores[i] = float(score)
        return scores


async def open_reranker(model: str) -> Reranker | None:
    """The configured reranker, loaded in a thread; None for the name "". Raises RetrievalError."""
    return await asyncio.to_thread(CrossEncoderReranker.open, model) if model else None


def _load(source: str) -> Any:
    from safetensors import SafetensorError
    from sentence_transformers import CrossEncoder

    from retrieval.embedding.export import without_progress_bars

    without_progress_bars()
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
            f"the reranker {source!r} has {outputs} outputs; a reranker has one (the model may be a classifier): "
            "name another cross-encoder in retrieval.rerank_model"
        )
    return model


async def rerank(
    reranker: Reranker, question: str, hits: Sequence[Hit], *, candidates: int, deadline_s: float
) -> list[Hit] | None:
    """Hits with the first `candidates` sorted by reranker score, best first; None past the deadline."""
    first = hits[:candidates]
    passages = [hit.passage for hit in first]
    texts = [indexed_text(passage.title, passage.headings, passage.text, passage.context) for passage in passages]
    scores = await reranker.scores(question, texts, deadline_s=deadline_s)
    if scores is None:
        return None
    scored = [
        replace(hit, score=score, scores={**hit.scores, RERANK: score})
        for hit, score in zip(first, scores, strict=True)
    ]
    return [*sorted(scored, key=lambda hit: -hit.score), *hits[candidates:]]
