"""Questions to vectors: those asked lately from memory, those that come together in one call of the model.

While one call computes, the questions that arrive wait and go together in the next: two threads share the rows of a
batch better than two batches share two threads. A text that is asked for twice at once is embedded once.

A question that comes alone waits for nothing, not even for a thread to wake up: where it is short and the model is in
this process, it is embedded by the event loop itself. What arrives in those 10 ms would have to wait for the model too.
"""

import asyncio
from collections.abc import Callable, Sequence

import numpy as np

from retrieval.embedding.embed import Embedder, Matrix, OnnxEmbedder
from retrieval.errors import IndexDown
from retrieval.records.points import Vector

_REMEMBERED = 2000  # vectors of texts asked lately: 3 MB at 384 dimensions
# Questions in one call. 32 that come at once, on two cores: the median one is answered after 97 ms and the last one
# after 154, in calls of 32 after 134 ms both, one by one after 170 ms both; of 8, after 37 ms instead of 40.
_TOGETHER = 8
# Of a question that the event loop embeds itself: some 100 tokens, 25 ms. A chat with 10,000 chunks takes 17.3 ms so,
# with a thread 19.1 (medians of 250, by turns in one run).
_SHORT_CHARS = 400


class Questions:
    """The questions put to one embedder (whose prompts and precision are fixed: a text is its own key)."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._lately: dict[str, Vector] = {}  # the longest unasked first
        self._asked: dict[str, asyncio.Future[Vector]] = {}  # not answered yet
        self._waiting: list[str] = []  # of these, those in no call yet
        self._alone: list[str] = []  # of those in a call that failed: each is tried by itself
        self._called: list[str] = []  # what the model is called with now

    async def vectors(self, texts: Sequence[str]) -> Matrix:
        """(n, d), a row for each text. Raises what the embedder raises."""
        found = {text: self._lately[text] for text in texts if text in self._lately}
        new = {text: self._ask(text) for text in texts if text not in found}
        if new and not self._called:  # in a moment: those that arrived together go together
            asyncio.get_running_loop().call_soon(self._call)
        for text, vector in new.items():  # shielded: another caller may wait for the same
            found[text] = await asyncio.shield(vector)
        for text, row in found.items():  # asked again: to the end, so that the longest unasked goes first
            self._lately.pop(text, None)
            self._lately[text] = row
        while len(self._lately) > _REMEMBERED:
            del self._lately[next(iter(self._lately))]
        return np.stack([found[text] for text in texts])

    def _ask(self, text: str) -> asyncio.Future[Vector]:
        if text in self._asked:
            return self._asked[text]
        asked = self._asked[text] = asyncio.get_running_loop().create_future()
        asked.add_done_callback(lambda done: done.cancelled() or done.exception())  # all who waited may have left
        self._waiting.append(text)
        return asked

    def _call(self) -> None:
        """Call the model with what waits, unless it is being called."""
        if self._called or not (self._alone or self._waiting):
            return
        if self._alone:
            self._called, self._alone = self._alone[:1], self._alone[1:]
        else:
            self._called, self._waiting = self._waiting[:_TOGETHER], self._waiting[_TOGETHER:]
        embed, texts = self._embedder.embed_query, self._called
        call: asyncio.Future[Matrix]
        if len(texts) == 1 and len(texts[0]) <= _SHORT_CHARS and isinstance(self._embedder, OnnxEmbedder):
            call = asyncio.ensure_future(_here(embed, texts))
        else:  # onnxruntime releases the GIL, so that the rest of the process goes on meanwhile
            call = asyncio.get_running_loop().run_in_executor(None, embed, texts)
        call.add_done_callback(self._answer)

    def _answer(self, call: asyncio.Future[Matrix]) -> None:
        """Answer those who asked, and call the model for the next."""
        texts, self._called = self._called, []
        fault = asyncio.CancelledError() if call.cancelled() else call.exception()
        if fault is None:
            for text, vector in zip(texts, call.result(), strict=True):
                self._asked.pop(text).set_result(vector)
        elif len(texts) > 1 and not isinstance(fault, IndexDown):
            self._alone += texts  # one of them may be what the model cannot take
        else:
            for text in texts:
                self._asked.pop(text).set_exception(fault)
        self._call()


async def _here(embed: Callable[[Sequence[str]], Matrix], texts: Sequence[str]) -> Matrix:
    return embed(texts)
