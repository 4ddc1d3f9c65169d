"""Questions to vectors: those asked lately from memory, those that come together in one call of the model.

While one call computes, the questions that arrive wait and go together in the next: two threads share the rows of a
batch better than two batches share two threads. A question that comes alone waits for nothing. A text that is asked
for twice at once is embedded once.
"""

import asyncio
from collections.abc import Sequence

import numpy as np

from retrieval.embed import Embedder, Matrix
from retrieval.errors import IndexDown
from retrieval.records import Vector

_REMEMBERED = 2000  # vectors of texts asked lately: 3 MB at 384 dimensions
# Questions in one call. 32 that come at once, on two cores: the median one is answered after 97 ms and the last one
# after 154, in calls of 32 after 134 ms both, one by one after 170 ms both; of 8, after 37 ms instead of 40.
_TOGETHER = 8


class Questions:
    """The questions put to one embedder (whose prompts and precision are fixed: a text is its own key)."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._lately: dict[str, Vector] = {}  # the longest unasked first
        self._asked: dict[str, asyncio.Future[Vector]] = {}  # not answered yet
        self._waiting: list[str] = []  # of these, those in no call yet
        self._answering: asyncio.Task[None] | None = None  # there while the model is called

    async def vectors(self, texts: Sequence[str]) -> Matrix:
        """(n, d), a row for each text. Raises what the embedder raises."""
        found = {text: self._lately[text] for text in texts if text in self._lately}
        new = {text: self._ask(text) for text in texts if text not in found}
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
        if self._answering is None:
            self._answering = asyncio.create_task(self._answer())
        return asked

    async def _answer(self) -> None:
        """Call the model until no question waits."""
        while self._waiting:
            texts, self._waiting = self._waiting[:_TOGETHER], self._waiting[_TOGETHER:]
            fault = await self._embed(texts)
            if fault is not None and len(texts) > 1 and not isinstance(fault, IndexDown):
                for text in texts:  # one of them may be what the model cannot take
                    self._settle([text], await self._embed([text]))
            else:
                self._settle(texts, fault)
        # Here and in no callback: a question asked between the task's end and the callback would wait for ever.
        self._answering = None

    async def _embed(self, texts: Sequence[str]) -> BaseException | None:
        """Answer these questions; returns the fault where there was one."""
        # In a thread: onnxruntime releases the GIL, so that the rest of the process goes on meanwhile.
        call = asyncio.ensure_future(asyncio.to_thread(self._embedder.embed_query, texts))
        await asyncio.wait({call})
        fault = call.exception()
        if fault is None:
            for text, vector in zip(texts, call.result(), strict=True):
                self._asked.pop(text).set_result(vector)
        return fault

    def _settle(self, texts: Sequence[str], fault: BaseException | None) -> None:
        if fault is not None:
            for text in texts:
                self._asked.pop(text).set_exception(fault)
