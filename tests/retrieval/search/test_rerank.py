"""Reranking: by a real cross-encoder of random weights, within bounds of number and time."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from retrieval.errors import RetrievalError
from retrieval.records.documents import Passage, indexed_text
from retrieval.records.search import Hit
from retrieval.search.rerank import CrossEncoderReranker, open_reranker, rerank
from tests.support.tiny_model import make_tiny_cross_encoder

LONG_S = 60.0
TEXTS = [
    "use tls",
    "the office dog is called what " * 40,
    "open a session",
    "",
    "add the driver in kotlin",
    "encrypt connection on wire " * 9,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_cross_encoder(tmp_path_factory.mktemp("cross") / "encoder")


@pytest.fixture(scope="module")
def model(folder: Path) -> Iterator[CrossEncoderReranker]:
    opened = CrossEncoderReranker.open(str(folder))
    yield opened
    opened.close()


def hit(number: int, text: str, *, score: float = 0.01, title: str = "") -> Hit:
    passage = Passage(f"d{number}", 1, 0, title, f"{number}.md", 0.0, (), 0, len(text), text, 1)
    return Hit(f"h{number}", score, passage, {"bm25": number}, {"bm25": score})


async def test_scores_each_text_as_the_model_alone_does(model: CrossEncoderReranker, folder: Path) -> None:
    """Whatever their lengths and their batch; a text that is too long is cut, not refused."""
    from sentence_transformers import CrossEncoder
    from torch.nn import Sigmoid

    scores = await model.scores("how do i use tls", TEXTS, deadline_s=LONG_S)
    assert scores is not None
    alone = CrossEncoder(str(folder), device="cpu")
    expected = [float(alone.predict([("how do i use tls", text)], activation_fn=Sigmoid())[0]) for text in TEXTS]
    assert scores == pytest.approx(expected, abs=1e-5)
    assert all(0 < score < 1 for score in scores)
    assert len(set(scores)) == len(scores)


async def test_nothing_to_read_is_no_score(model: CrossEncoderReranker) -> None:
    assert await model.scores("tls", [], deadline_s=LONG_S) == []


async def test_past_the_deadline_there_is_no_score(model: CrossEncoderReranker) -> None:
    assert await model.scores("tls", TEXTS, deadline_s=0.0) is None
    assert await model.scores("tls", TEXTS, deadline_s=LONG_S) is not None, "the next question is answered again"


async def test_nobody_waits_for_a_busy_model_past_the_deadline(folder: Path) -> None:
    busy, free = threading.Event(), threading.Event()

    class Slow:
        """A model that hangs until it is told."""

        def predict(self, pairs: Sequence[tuple[str, str]], **_: object) -> list[float]:
            busy.set()
            free.wait()
            return [0.5] * len(pairs)

    slow = CrossEncoderReranker(Slow())
    first = asyncio.create_task(slow.scores("a", ["text"], deadline_s=LONG_S))
    await asyncio.to_thread(busy.wait)
    assert await slow.scores("b", ["text"], deadline_s=0.01) is None
    free.set()
    assert await first == [0.5]
    slow.close()


async def test_the_first_candidates_come_by_their_score_and_the_others_behind_them(model: CrossEncoderReranker) -> None:
    hits = [hit(i, text) for i, text in enumerate(TEXTS)]
    found = await rerank(model, "tls", hits, candidates=4, deadline_s=LONG_S)
    assert found is not None
    read, rest = found[:4], found[4:]
    assert [one.score for one in read] == sorted((one.score for one in read), reverse=True)
    assert {one.id for one in read} == {"h0", "h1", "h2", "h3"}
    assert rest == hits[4:]
    for one in read:
        assert one.scores == {"bm25": 0.01, "rerank": one.score}
        assert one.ranks == {"bm25": int(one.id[1:])}


async def test_reads_title_and_headings_with_the_text(model: CrossEncoderReranker) -> None:
    titled = hit(1, "open a session", title="tls in kotlin")
    found = await rerank(model, "tls", [titled], candidates=9, deadline_s=LONG_S)
    shown = await model.scores("tls", [indexed_text("tls in kotlin", (), "open a session")], deadline_s=LONG_S)
    assert found is not None
    assert [found[0].score] == shown


async def test_past_the_deadline_there_is_no_other_order(model: CrossEncoderReranker) -> None:
    assert await rerank(model, "tls", [hit(1, "a")], candidates=4, deadline_s=0.0) is None


async def test_no_model_is_no_reranker() -> None:
    assert await open_reranker("") is None


async def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(RetrievalError, match=r"there is no folder .*rerank_model"):
        await open_reranker(str(tmp_path / "nowhere"))


async def test_missing_weights_are_told(tmp_path: Path) -> None:
    folder = make_tiny_cross_encoder(tmp_path / "encoder")
    for file in folder.glob("*.safetensors"):
        file.unlink()
    with pytest.raises(RetrievalError, match=r"cannot load the reranker .*rerank_model"):
        await open_reranker(str(folder))


async def test_damaged_weights_are_told(tmp_path: Path) -> None:
    folder = make_tiny_cross_encoder(tmp_path / "encoder")
    for file in folder.glob("*.safetensors"):
        file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(RetrievalError, match=r"cannot load the reranker"):
        await open_reranker(str(folder))


async def test_a_classifier_is_refused(tmp_path: Path) -> None:
    folder = make_tiny_cross_encoder(tmp_path / "encoder", outputs=3)
    with pytest.raises(RetrievalError, match=r"3 outputs"):
        await open_reranker(str(folder))
