"""Questions to vectors: together when they come together, alone without waiting, each the vector of its own text."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from retrieval.embedding.embed import Matrix, QueryBatcher
from retrieval.errors import IndexDown, RetrievalError


class Slow:
    """An embedder whose calls end when they are let: it makes a vector of a text's length."""

    name, dimension, max_tokens, document_prompt, tokenizer_file = "slow", 2, 8, "", Path()

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.go = threading.Event()
        self.begun = threading.Event()

    def embed_query(self, texts: Sequence[str]) -> Matrix:
        self.calls.append(list(texts))
        self.begun.set()
        assert self.go.wait(10)
        if "down" in texts:
            raise IndexDown("the provider is away")
        if "bad" in texts:
            raise RetrievalError("a text it cannot take")
        return np.array([[len(text), 1] for text in texts], np.float32)

    embed_documents = embed_query


async def until_begun(slow: Slow) -> None:
    await asyncio.to_thread(slow.begun.wait, 10)


async def test_those_that_come_meanwhile_go_together_in_the_next_call() -> None:
    slow = Slow()
    questions = QueryBatcher(slow)
    first = asyncio.create_task(questions.vectors(["one"]))
    await until_begun(slow)
    others = [asyncio.create_task(questions.vectors([f"{'x' * i}"])) for i in range(1, 6)]
    await asyncio.sleep(0)
    slow.go.set()
    assert (await first).tolist() == [[3, 1]]
    assert [(await other).tolist() for other in others] == [[[i, 1]] for i in range(1, 6)]
    assert slow.calls == [["one"], ["x", "xx", "xxx", "xxxx", "xxxxx"]]


async def test_an_embedder_of_single_questions_answers_each_when_it_is_ready() -> None:
    class OneByOne(Slow):
        def __init__(self) -> None:
            super().__init__()
            self.may_end = {text: threading.Event() for text in ("one", "four!", "sixsix")}

        def embed_query(self, texts: Sequence[str]) -> Matrix:
            self.calls.append(list(texts))
            assert self.may_end[texts[0]].wait(10)
            return np.array([[len(text), 1] for text in texts], np.float32)

    slow = OneByOne()
    questions = QueryBatcher(slow, alone=True)
    first, second, third = (asyncio.create_task(questions.vectors([text])) for text in slow.may_end)
    slow.may_end["one"].set()
    assert (await asyncio.wait_for(first, 10)).tolist() == [[3, 1]]
    assert not second.done()
    for event in slow.may_end.values():
        event.set()
    assert [(await second).tolist(), (await third).tolist()] == [[[5, 1]], [[6, 1]]]
    assert slow.calls == [["one"], ["four!"], ["sixsix"]], "one after the other, in the order of questions"


async def test_one_that_comes_alone_is_embedded_at_once_and_then_remembered() -> None:
    slow = Slow()
    slow.go.set()
    questions = QueryBatcher(slow)
    for _ in range(3):
        assert (await questions.vectors(["one", "two!", "one"])).tolist() == [[3, 1], [4, 1], [3, 1]]
    assert slow.calls == [["one", "two!"]]


async def test_a_text_asked_for_twice_at_once_is_embedded_once() -> None:
    slow = Slow()
    questions = QueryBatcher(slow)
    asked = [asyncio.create_task(questions.vectors(["same"])) for _ in range(4)]
    await until_begun(slow)
    slow.go.set()
    assert [vectors.tolist() for vectors in await asyncio.gather(*asked)] == [[[4, 1]]] * 4
    assert slow.calls == [["same"]]


async def test_many_are_embedded_a_few_at_a_time() -> None:
    slow = Slow()
    slow.go.set()
    texts = [f"{i:03}" for i in range(50)]
    assert (await QueryBatcher(slow).vectors(texts)).shape == (50, 2)
    assert [text for call in slow.calls for text in call] == texts
    assert max(len(call) for call in slow.calls) == 8


async def test_one_bad_text_is_the_fault_of_nobody_else() -> None:
    slow = Slow()
    questions = QueryBatcher(slow)
    asked = [asyncio.create_task(questions.vectors([text])) for text in ("one", "bad", "four")]
    await asyncio.sleep(0)
    slow.go.set()
    one, bad, four = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(bad, RetrievalError)
    assert isinstance(one, np.ndarray)
    assert isinstance(four, np.ndarray)


async def test_a_provider_that_is_away_is_not_asked_once_more_for_each() -> None:
    slow = Slow()
    slow.go.set()
    questions = QueryBatcher(slow)
    with pytest.raises(IndexDown):
        await questions.vectors(["one", "down", "four"])
    assert len(slow.calls) == 1
    assert (await questions.vectors(["one"])).tolist() == [[3, 1]]  # nothing of it was remembered


async def test_a_caller_that_leaves_takes_nobody_with_it() -> None:
    slow = Slow()
    questions = QueryBatcher(slow)
    leaving = asyncio.create_task(questions.vectors(["same"]))
    staying = asyncio.create_task(questions.vectors(["same"]))
    await until_begun(slow)
    leaving.cancel()
    slow.go.set()
    assert (await staying).tolist() == [[4, 1]]
    with pytest.raises(asyncio.CancelledError):
        await leaving


async def test_one_that_comes_in_the_moment_a_call_ends_is_answered() -> None:
    slow = Slow()
    questions = QueryBatcher(slow)
    first = asyncio.create_task(questions.vectors(["one"]))
    await until_begun(slow)
    late: list[asyncio.Task[Matrix]] = []
    questions._pending["one"].add_done_callback(lambda _: late.append(asyncio.create_task(questions.vectors(["late"]))))
    slow.go.set()
    await first
    assert (await asyncio.wait_for(late[0], 10)).tolist() == [[4, 1]]
