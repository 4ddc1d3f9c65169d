"""Histories of stored conversations: written after the reply, found by the same key and id, forgotten in time."""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from proxy.asgi import App, Receive, Scope, Send
from proxy.augment.history import Histories
from proxy.dialects.replies import Tokens
from proxy.dialects.responses import RESPONSES
from proxy.exchange import Exchange
from proxy.observe.metrics import Metrics
from retrieval.errors import RetrievalError
from retrieval.records.search import Turn
from runtime.record_store import RecordStore
from tests.proxy.observe.test_metrics import value
from tests.support.asgi_calls import Call, scope_of
from tests.support.encodings import COMPRESSORS, ENCODINGS

NOON_S = 1_795_348_830.0
TURNS = [Turn("user", "Who wrote Moby-Dick?")]
Reply = tuple[int, list[tuple[bytes, bytes]], Sequence[bytes]]


def store(folder: Path, url: str = "", *, now_s: Callable[[], float] | None = None) -> RecordStore:
    clock = {} if now_s is None else {"now_s": now_s}
    return RecordStore(folder, url, keep_s=3600, max_bytes=1 << 20, kind="histories", **clock)


@pytest.fixture
def histories(tmp_path: Path) -> Iterator[Histories]:
    """The queue of a gateway whose database does not exist yet."""
    kept = store(tmp_path)
    yield Histories(kept, Metrics().histories)
    kept.close()


def whole(id: str = "resp_1", text: str = "Herman Melville.", **more: Any) -> bytes:
    content = [{"type": "output_text", "text": text}]
    output = [{"type": "message", "role": "assistant", "content": content}]
    return json.dumps({"id": id, "object": "response", "status": "completed", "output": output, **more}).encode()


def streamed(text: str, **fields: Any) -> list[bytes]:
    request = RESPONSES.parse(json.dumps({"model": "m", "input": "Q", "stream": True, **fields}).encode())
    return list(RESPONSES.reply_frames(request, [text[i : i + 4] for i in range(0, len(text), 4)], Tokens(1, 1)))


def id_in(frames: Sequence[bytes]) -> str:
    id: str = json.loads(frames[0].partition(b"data: ")[2])["response"]["id"]
    return id


def upstream_of(pieces: Sequence[bytes], *headers: tuple[bytes, bytes], status: int = 200) -> App:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": list(headers)})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return app


async def replied(
    histories: Histories,
    pieces: Sequence[bytes],
    *headers: tuple[bytes, bytes],
    status: int = 200,
    key: str = "key-1",
    conversation: str = "",
    turns: Sequence[Turn] = TURNS,
) -> Call:
    """The client's side of a reply whose history is stored."""
    exchange = Exchange(key=key, dialect=RESPONSES)
    app = histories.remembering(upstream_of(pieces, *headers, status=status), exchange, conversation, turns)
    return await Call().to(app, scope_of("/v1/responses", exchange=exchange))


async def found(histories: Histories, id: str = "resp_1", key: str = "key-1") -> list[tuple[str, str]]:
    return [(turn.role, turn.text) for turn in await histories.find(key, id, deadline_s=60)]


STREAM = (b"content-type", b"text/event-stream; charset=utf-8")


async def test_a_whole_reply_is_found_by_its_id_and_by_its_conversation(histories: Histories) -> None:
    call = await replied(histories, [whole()[:50], whole()[50:]], conversation="conv_1")
    assert call.body == whole()
    said = [("user", "Who wrote Moby-Dick?"), ("assistant", "Herman Melville.")]
    assert [await found(histories, id) for id in ("resp_1", "conv_1", "resp_2")] == [said, said, []]
    assert await found(histories, key="key-2") == []


@pytest.mark.parametrize("size", [1, 7, 10**6])
async def test_a_stream_passes_byte_for_byte_and_is_found_by_the_id_of_the_first_event(
    histories: Histories, size: int
) -> None:
    frames = streamed("Herman Melville wrote the book.")
    body = b"".join(frames)
    pieces = [body[i : i + size] for i in range(0, len(body), size)]
    assert (await replied(histories, pieces, STREAM)).chunks == pieces
    assert (await found(histories, id_in(frames)))[-1] == ("assistant", "Herman Melville wrote the book.")


async def test_a_stream_that_broke_off_is_found_with_the_question_alone(histories: Histories) -> None:
    frames = streamed("Herman Melville.")
    await replied(histories, [frames[0], frames[1][:20]], STREAM)
    assert await found(histories, id_in(frames)) == [("user", "Who wrote Moby-Dick?")]


async def test_a_client_that_leaves_after_the_last_event_leaves_a_history(histories: Histories) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await upstream_of([whole()])(scope, receive, send)
        await asyncio.Event().wait()  # the upstream has not closed the connection

    exchange, call = Exchange(key="key-1", dialect=RESPONSES), Call()
    asking = asyncio.create_task(
        call.to(histories.remembering(app, exchange, "", TURNS), scope_of("/v1/responses", exchange=exchange))
    )
    await call.until_sent(3)
    call.left.set()
    await asking
    assert len(await found(histories)) == 2


async def test_only_the_beginning_of_a_long_answer_and_the_ends_of_a_long_question_are_kept(
    histories: Histories,
) -> None:
    frames = streamed("Herman Melville. " * 40_000, instructions="Be brief. " * 1500)
    turns = [Turn("user", f"{n} " + "lorem " * 4000 + "why?") for n in range(30)]
    await replied(histories, frames, STREAM, turns=turns)
    kept = await found(histories, id_in(frames))
    assert len(kept) == 12
    assert (len(kept[-1][1]), kept[-1][1][:16]) == (300, "Herman Melville.")
    assert kept[-2][1].startswith("29 lorem")
    assert kept[-2][1].endswith("why?")
    assert max(len(text) for _, text in kept) <= 1003


async def test_a_reply_of_any_length_is_found_with_the_question(histories: Histories) -> None:
    await replied(histories, [whole(text="x" * 300_000)])
    assert await found(histories) == [("user", "Who wrote Moby-Dick?")]
    frames = streamed("Herman Melville.", instructions='An "id" is no {"response":{"id":"x"}}. ' * 10_000)
    await replied(histories, frames, STREAM)
    assert await found(histories, id_in(frames)) == [("user", "Who wrote Moby-Dick?")]


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_a_compressed_reply_is_read(histories: Histories, encoding: str) -> None:
    packed, header = COMPRESSORS[encoding](whole()), (b"content-encoding", encoding.encode())
    assert (await replied(histories, [packed], header)).body == packed
    assert len(await found(histories)) == 2
    damaged = b"damaged" + packed
    assert (await replied(histories, [damaged], header, key="key-2")).body == damaged
    assert await found(histories, key="key-2") == []


async def test_a_reply_in_an_unknown_encoding_leaves_no_history(histories: Histories) -> None:
    await replied(histories, [whole()], (b"content-encoding", b"odd"))
    assert await found(histories) == []


async def test_a_background_response_is_found_before_the_response_has_an_answer(histories: Histories) -> None:
    await replied(histories, [whole(status="queued", output=[])])
    assert await found(histories) == [("user", "Who wrote Moby-Dick?")]


async def test_a_refusal_and_a_reply_without_an_id_leave_no_history(histories: Histories) -> None:
    await replied(histories, [b'{"id":"resp_1"}'], status=429, conversation="conv_1")
    await replied(histories, [b'{"object":"response"}'], conversation="conv_1")
    await replied(histories, [b"<html>"], conversation="conv_1")
    assert [await found(histories, id) for id in ("resp_1", "conv_1")] == [[], []]


async def test_a_history_is_written_and_read_by_others_until_the_history_is_too_old(
    catalog_url: str, tmp_path: Path
) -> None:
    past_s = 0.0
    kept, others = (store(tmp_path, catalog_url, now_s=lambda: NOON_S + past_s) for _ in range(2))
    metrics = Metrics()
    writing, reading = Histories(kept, metrics.histories), Histories(others, metrics.histories)
    keeping = asyncio.create_task(writing.run())
    await replied(writing, [whole()], key="")
    writing.stop()
    await keeping
    assert value(metrics, "histories_total", outcome="written") == 1
    assert len(await found(reading, key="")) == 2
    assert await found(reading, key="key-1") == []
    past_s = 1e9
    assert await found(reading, key="") == []
    others.close()


async def test_a_forgotten_history_is_gone_in_the_queue_and_in_the_database(tmp_path: Path) -> None:
    kept = store(tmp_path)
    histories = Histories(kept, Metrics().histories)
    await replied(histories, [whole()])
    await replied(histories, [whole()], key="key-2")
    histories.stop()
    await histories.run()
    histories.forget("key-1", "resp_1")
    assert await found(histories) == []
    await histories.run()
    assert (await found(histories), len(await found(histories, key="key-2"))) == ([], 2)
    assert b"Moby" in b"".join(kept.every())
    histories.forget("key-2", "resp_1")
    await histories.run()
    assert b"Moby" not in b"".join(kept.every())
    kept.close()


class WrittenBetween(RecordStore):
    """A store to which another worker writes a history after each look."""

    def read(self, id: str) -> bytes | None:
        content = super().read(id)
        self.put([(id, time.time(), orjson.dumps(TURNS))])
        return content


async def test_a_second_look_finds_what_another_worker_is_about_to_write(tmp_path: Path) -> None:
    kept = WrittenBetween(tmp_path, keep_s=3600, max_bytes=1 << 20, kind="histories")
    histories = Histories(kept, Metrics().histories)
    assert await found(histories, "conv_1") == [], "the first request of a conversation does not wait"
    assert await histories.find("key-1", "resp_1", deadline_s=60, again=True) == TURNS
    kept.close()


async def test_after_a_failed_read_the_database_rests(histories: Histories, tmp_path: Path) -> None:
    (tmp_path / "receipts.db").write_bytes(b"no database " * 1000)
    with pytest.raises(RetrievalError):
        await histories.find("key-1", "resp_1", deadline_s=60)
    assert await histories.find("key-1", "resp_1", deadline_s=60) == ()


async def test_no_log_holds_a_question(histories: Histories, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    (tmp_path / "receipts.db").write_bytes(b"no database " * 1000)
    await replied(histories, [whole()])
    histories.stop()
    await histories.run()
    assert "histories are not written" in caplog.text
    assert "Moby" not in caplog.text
    assert "Melville" not in caplog.text
