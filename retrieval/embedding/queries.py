"""Questions to vectors: recent questions from a cache, concurrent questions in a single call of the model.

While one call computes, new questions wait and share the next call: two threads share the rows of one batch better
than two batches share two threads. A text requested twice at the same time is embedded once.

A single question never waits, not even for a thread to wake up: if the question is short and the model runs in this
process, the event loop itself embeds the question. A question that arrives in those 10 ms would wait for the model
anyway.
"""

import asyncio
from collections.abc import Callable, Sequence

import numpy as np

from retrieval.embedding.embed import Embedder, Matrix, OnnxEmbedder
from retrieval.errors import IndexDown
from retrieval.records.points import Vector

_CACHED_TEXTS = 2000  # vectors of recent texts: 3 MB at 384 dimensions
# Questions in one call. 32 questions at once on two cores: with calls of 8 the median question takes 97 ms and the last
# question 154 ms; with calls of 32 both take 134 ms; one by one both take 170 ms. 8 questions at once: 37 ms; one by
# one: 40 ms.
_BATCH_TEXTS = 8
# The longest question that the event loop embeds: some 100 tokens, 25 ms. A chat with 10,000 chunks takes 17.3 ms in
# the event loop and 19.1 ms with a thread (medians of 250, alternating in one run).
_SHORT_CHARS = 400


class QueryBatcher:
    """Embeds the questions for one embedder.

    The embedder's prompts and precision are fixed, so a text is its own cache key.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._cache: dict[str, Vector] = {}  # least recently used first
        self._pending: dict[str, asyncio.Future[Vector]] = {}  # texts without a vector yet
        self._queue: list[str] = []  # pending texts that no call includes yet
        self._retry_singly: list[str] = []  # texts of a failed batch: each text gets a call of its own
        self._running: list[str] = []  # texts of the current call

    async def vectors(self, texts: Sequence[str]) -> Matrix:
        """(n, d), one row per text. Raises the embedder's errors."""
        vectors = {text: self._cache[text] for text in texts if text in self._cache}
        new = {text: self._request(text) for text in texts if text not in vectors}
        if new and not self._running:  # `call_soon`: questions that arrived together share one call
            asyncio.get_running_loop().call_soon(self._run_next)
        for text, vector in new.items():  # shield: another caller may wait for the same text
            vectors[text] = await asyncio.shield(vector)
        for text, row in vectors.items():  # move to the end, so that the least recently used text goes first
            self._cache.pop(text, None)
            self._cache[text] = row
        while len(self._cache) > _CACHED_TEXTS:
            del self._cache[next(iter(self._cache))]
        return np.stack([vectors[text] for text in texts])

    def _request(self, text: str) -> asyncio.Future[Vector]:
        if text in self._pending:
            return self._pending[text]
        pending = self._pending[text] = asyncio.get_running_loop().create_future()
        # retrieve the error: all callers may have left
        pending.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._queue.append(text)
        return pending

    def _run_next(self) -> None:
        """Call the model with waiting texts, unless a call is running."""
        if self._running or not (self._retry_singly or self._queue):
            return
        if self._retry_singly:
            self._running, self._retry_singly = self._retry_singly[:1], self._retry_singly[1:]
        else:
            self._running, self._queue = self._queue[:_BATCH_TEXTS], self._queue[_BATCH_TEXTS:]
        embed, texts = self._embedder.embed_query, self._running
        call: asyncio.Future[Matrix]
        if len(texts) == 1 and len(texts[0]) <= _SHORT_CHARS and isinstance(self._embedder, OnnxEmbedder):
            call = asyncio.ensure_future(_embed_in_loop(embed, texts))
        else:  # onnxruntime releases the GIL, so the process continues
            call = asyncio.get_running_loop().run_in_executor(None, embed, texts)
        call.add_done_callback(self._on_result)

    def _on_result(self, call: asyncio.Future[Matrix]) -> None:
        """Hand out the results of a call, and call the model for the next texts."""
        texts, self._running = self._running, []
        error = asyncio.CancelledError() if call.cancelled() else call.exception()
        if error is None:
            for text, vector in zip(texts, call.result(), strict=True):
                self._pending.pop(text).set_result(vector)
        elif len(texts) > 1 and not isinstance(error, IndexDown):
            self._retry_singly += texts  # one text may be unacceptable to the model
        else:
            for text in texts:
                self._pending.pop(text).set_exception(error)
        self._run_next()


async def _embed_in_loop(embed: Callable[[Sequence[str]], Matrix], texts: Sequence[str]) -> Matrix:
    return embed(texts)
