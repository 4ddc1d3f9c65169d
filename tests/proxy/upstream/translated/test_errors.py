"""What goes wrong behind the translated lane, as the client sees it: never a clean end, never a guess, never a key."""

import json
import socket

import openai
import pytest

from proxy.dialects.chat import CHAT
from proxy.dialects.messages import MESSAGES
from proxy.dialects.responses import RESPONSES
from tests.proxy.upstream.translated.provider_lane import (
    A_TEXT,
    AN_ANSWER,
    API_KEY,
    HELLO,
    QUIET_PYDANTIC,
    Gateway,
    chunk,
    claude,
    data_in,
    events,
    frames,
    gpt,
    keyless,
    raw_answer,
    serving,
    silent,
)
from tests.support import anthropic_server as anthropic
from tests.support.anthropic_server import Json, Reply, json_reply, scripted

__all__ = ["keyless", "silent"]  # fixtures that every test here uses
pytestmark = QUIET_PYDANTIC


class TestCutStreams:
    """A stream that broke off is an error to the client, whatever litellm makes of it."""

    @pytest.mark.parametrize("ending", ["eof", "broken"])
    @pytest.mark.parametrize("received", range(3, len(A_TEXT) - 1))
    async def test_anthropic(self, received: int, ending: anthropic.Ending) -> None:
        async with claude(events(A_TEXT[:received], ending=ending)) as (_, gateway):
            await self.expect_cut(gateway)

    @pytest.mark.parametrize("ending", ["eof", "broken"])
    @pytest.mark.parametrize("received", [1, 2])
    async def test_openai(self, received: int, ending: anthropic.Ending) -> None:
        async with gpt(events(AN_ANSWER[:received], ending=ending)) as (_, gateway):
            await self.expect_cut(gateway)

    @pytest.mark.parametrize("model", ["deepseek/deepseek-chat", "groq/llama", "mistral/small", "azure/deployment"])
    async def test_other_providers(self, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AZURE_API_VERSION", "2024-10-21")
        async with (
            scripted(events(AN_ANSWER[:2], ending="eof")) as upstream,
            serving(upstream.url + "/v1", model) as gateway,
        ):
            await self.expect_cut(gateway)

    async def test_one_of_two_choices_unfinished(self) -> None:
        parts = frames(chunk({"content": "A"}), chunk({"content": "B"}, index=1), chunk({}, finish_reason="stop"))
        async with gpt(events(parts)) as (_, gateway):
            await self.expect_cut(gateway, finished=1)

    async def test_within_a_frame(self) -> None:
        async with gpt(events([AN_ANSWER[0], AN_ANSWER[1][:40]], ending="eof")) as (_, gateway):
            await self.expect_cut(gateway)

    async def test_an_error_inside_the_stream(self) -> None:
        failing = [*A_TEXT[:3], anthropic.error_event("overloaded_error", "Overloaded")]
        async with claude(events(failing)) as (_, gateway):
            error = await self.expect_cut(gateway, type="overloaded_error", log_text="upstream_error")
            assert error["message"] == "Overloaded"

    async def test_a_chunk_that_is_not_json(self) -> None:
        async with gpt(events([AN_ANSWER[0], b"data: {nonsense\n\n"])) as (_, gateway):
            await self.expect_cut(gateway)

    async def test_silence(self) -> None:
        reply = events(AN_ANSWER, hold_before=2)
        async with gpt(reply, patience_s=1.0) as (_, gateway):
            error = await self.expect_cut(gateway)
            assert error["code"] == "upstream_timeout"
            await reply.peer_left.wait()

    async def test_the_sdk_raises(self) -> None:
        async with claude(events(A_TEXT[:3], ending="eof")) as (_, gateway):
            stream = await gateway.client.chat.completions.create(model="mine", messages=HELLO, stream=True)
            with pytest.raises(openai.APIError, match="broke off"):
                _ = [each async for each in stream]

    @pytest.mark.parametrize("received", [0, 1, 2])
    async def test_before_the_first_chunk_it_is_a_502(self, received: int) -> None:
        async with claude(events(A_TEXT[:received], ending="eof")) as (_, gateway):
            with pytest.raises(openai.InternalServerError) as failed:
                await gateway.client.chat.completions.create(model="mine", messages=HELLO, stream=True)
        assert (failed.value.status_code, failed.value.code) == (502, "upstream_cut")

    async def expect_cut(
        self, gateway: Gateway, *, finished: int = 0, type: str = "upstream_error", log_text: str = ""
    ) -> Json:
        """The error of a stream that ends with an error frame and a broken connection."""
        answer = await raw_answer(gateway, {"stream": True})
        *chunks, last = data_in(answer)
        assert chunks[0]["choices"][0]["delta"]["content"] in ("Hel", "A")
        reasons = [choice["finish_reason"] for each in chunks for choice in each["choices"]]
        assert len(reasons) - reasons.count(None) == finished
        error: Json = last["error"]
        assert error["type"] == type
        assert b"[DONE]" not in answer
        assert not answer.endswith(b"0\r\n\r\n")  # chunked encoding left unterminated
        assert gateway.exchanges[0].error.startswith(log_text or error["code"])
        return error


class TestErrors:
    """The provider's status and words, in OpenAI's shape."""

    async def test_a_rate_limit_keeps_its_retry_after(self) -> None:
        limited = json_reply(
            anthropic.error("rate_limit_error", "Slow down."), status=429, headers=[("retry-after", "7")]
        )
        for stream in (False, True):
            async with claude(limited) as (_, gateway):
                with pytest.raises(openai.RateLimitError) as failed:
                    await gateway.client.chat.completions.create(model="mine", messages=HELLO, stream=stream)
            assert failed.value.body == {
                "message": "Slow down.",
                "type": "rate_limit_error",
                "param": None,
                "code": "rate_limit_error",
            }
            assert failed.value.response.headers["retry-after"] == "7"
            assert gateway.exchanges[0].status == 429

    async def test_overloaded_stays_529(self) -> None:
        async with claude(json_reply(anthropic.error("overloaded_error", "Overloaded"), status=529)) as (_, gateway):
            with pytest.raises(openai.InternalServerError) as failed:
                await gateway.client.chat.completions.create(model="mine", messages=HELLO)
        assert (failed.value.status_code, failed.value.type) == (529, "overloaded_error")

    async def test_the_status_is_the_provider_s_not_a_guess_from_its_words(self) -> None:
        words = {"message": "no such model; rate limit", "type": "invalid", "param": "model", "code": "not_found"}
        async with gpt(json_reply({"error": words}, status=404)) as (_, gateway):
            with pytest.raises(openai.NotFoundError) as failed:
                await gateway.client.chat.completions.create(model="mine", messages=HELLO)
        assert failed.value.body == words

    async def test_an_echoed_key_is_blanked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTHER_API_KEY", "another-secret")
        words = f"bad key {API_KEY} (and another-secret)"
        said = {"message": words, "type": f"t {API_KEY}", "code": f"c {API_KEY}", "param": f"p {API_KEY}"}
        async with claude(json_reply({"error": said}, status=401)) as (_, gateway):
            answer = await raw_answer(gateway, {})
        assert b"401" in answer.partition(b"\r\n")[0]
        error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
        assert error == {"message": "bad key *** (and ***)", "type": "t ***", "code": "c ***", "param": "p ***"}
        assert gateway.exchanges[0].error == "the upstream answered 401"

    async def test_an_error_keeps_its_nulls_its_param_and_the_provider_s_headers(self) -> None:
        said = {"message": "No such model.", "type": "invalid_request_error", "param": "model", "code": None}
        headers = [("x-request-id", "r-1"), ("x-ratelimit-remaining-tokens", "0"), ("retry-after-ms", "70")]
        async with gpt(json_reply({"error": said}, status=404, headers=headers)) as (_, gateway):
            with pytest.raises(openai.NotFoundError) as failed:
                await gateway.client.chat.completions.create(model="mine", messages=HELLO)
        assert failed.value.body == said
        assert set(headers) <= set(failed.value.response.headers.items())

    @pytest.mark.parametrize("stream", [False, True])
    @pytest.mark.parametrize("model", ["openai/gpt-4o", "deepseek/deepseek-chat"])
    async def test_an_error_in_a_200_is_a_502_in_the_provider_s_words(self, model: str, stream: bool) -> None:
        said = {"message": f"Out of memory, {API_KEY}.", "type": "server_error", "param": None, "code": "oom"}
        async with (
            scripted(json_reply({"error": said})) as upstream,
            serving(upstream.url + "/v1", model) as gateway,
        ):
            with pytest.raises(openai.InternalServerError) as failed:
                await gateway.client.chat.completions.create(model="mine", messages=HELLO, stream=stream)
        assert failed.value.status_code == 502
        assert failed.value.body == {**said, "message": "Out of memory, ***."}
        assert upstream.connections == 1

    @pytest.mark.parametrize("path", [CHAT.path, RESPONSES.path, MESSAGES.path])
    @pytest.mark.parametrize("said", [
        {"detail": [{"loc": ["body", "messages"], "msg": "field required", "type": "missing"}]},
        {"error": {"message": [{"loc": ["body", "messages"], "msg": "field required"}]}},
    ])  # fmt: skip
    async def test_a_list_of_faults_is_told_in_words(self, path: str, said: Json) -> None:
        async with gpt(json_reply(said, status=422)) as (_, gateway):
            asking = {"messages": HELLO, "max_tokens": 9} if path != RESPONSES.path else {"input": "Q"}
            answer = await raw_answer(gateway, asking, path)
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"] == "body.messages: field required"

    async def test_a_page_of_html_is_reported_with_its_status(self) -> None:
        async with gpt(Reply([b"<html>down</html>"], status=503, content_type="text/html")) as (_, gateway):
            with pytest.raises(openai.InternalServerError) as failed:
                await gateway.client.chat.completions.create(model="mine", messages=HELLO)
        assert (failed.value.status_code, failed.value.type) == (503, "upstream_error")

    @pytest.mark.parametrize("stream", [False, True])
    @pytest.mark.parametrize("model", ["anthropic/claude-sonnet-4-5", "openai/gpt-4o"])
    async def test_nobody_there_is_a_502_without_the_address(self, model: str, stream: bool) -> None:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        async with serving(f"http://127.0.0.1:{port}", model) as gateway:
            with pytest.raises(openai.InternalServerError) as failed:
                await gateway.client.chat.completions.create(model="mine", messages=HELLO, stream=stream)
        assert (failed.value.status_code, failed.value.code) == (502, "upstream_unreachable")
        assert str(port) not in failed.value.message

    @pytest.mark.parametrize("stream", [False, True])
    async def test_no_answer_in_time_is_a_504(self, stream: bool) -> None:
        reply = Reply([], hold_before=0)
        async with claude(reply, patience_s=0.2) as (_, gateway):
            with pytest.raises(openai.InternalServerError) as failed:
                await gateway.client.chat.completions.create(model="mine", messages=HELLO, stream=stream)
            await reply.peer_left.wait()
        assert (failed.value.status_code, failed.value.code) == (504, "upstream_timeout")

    async def test_an_unknown_provider_is_an_error_not_a_traceback(self) -> None:
        async with serving("", "nosuch/model", api_key="") as gateway:
            with pytest.raises(openai.BadRequestError, match="LLM Provider NOT provided"):
                await gateway.client.chat.completions.create(model="mine", messages=HELLO)
