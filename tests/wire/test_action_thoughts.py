"""Thoughts and signatures of hidden rounds: the model gets back what the model sent, or refuses the request.

The models are strict as the providers document: a 400 where a call comes without the member that came with the call.
"""

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import openai
import pytest

from tests.support.action_clients import CompletionsChat, MessagesChat, ResponsesChat
from tests.support.action_team import ANSWER, CLIENT_TOOL, ORGS, QUESTION, USERS, Team, action_team
from tests.support.atlas_api import ORG
from tests.support.scripted_model import Turn, calls, says
from tests.support.upstream_servers import Received, Wire, chunked, head, reply

Json = dict[str, Any]
WEATHER = ("weather", {"city": "Bonn"})
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    with action_team(tmp_path_factory.mktemp("thoughts")) as team:
        yield team


def new_model() -> str:
    """A model about which the gateway has learned nothing."""
    return f"rage/atlas/gpt-without-{secrets.token_hex(4)}"


@dataclass(frozen=True)
class Provider:
    """The form of a provider's thoughts."""

    of_message: str = ""  # the member of the message
    of_call: str = ""  # the member of the first call
    value: Any = None  # "N" stands for the number of the round
    pieces: tuple[Any, ...] = ()  # of a stream

    def answer(self, number: int, message: Json) -> Json:
        """The message with the thoughts of this round."""
        value, *pieces = (json.loads(json.dumps(one).replace("N", str(number))) for one in (self.value, *self.pieces))
        deltas: list[Json] = [{self.of_message: piece} for piece in pieces] if self.of_message else []
        deltas += [{"content": message["content"]}] if message["content"] else []
        rows = message.get("tool_calls", [])
        for index, call in enumerate(rows):
            name, arguments = call["function"]["name"], call["function"]["arguments"]
            first = {"index": index, "id": call["id"], "type": "function", "function": {"name": name, "arguments": ""}}
            signed = {self.of_call: pieces[0]} if self.of_call and index == 0 else {}
            deltas.append({"tool_calls": [{**first, **signed}]})
            deltas += [{"tool_calls": [{"index": index, "function": {"arguments": one}}]} for one in arguments]
        if self.of_message:
            return {**message, self.of_message: value, "deltas": deltas}
        signed_rows = [{**row, self.of_call: value} if not index else row for index, row in enumerate(rows)]
        return {**message, **({"tool_calls": signed_rows} if rows else {}), "deltas": deltas}

    def turn(self, number: int, message: Json) -> Turn:
        """The answer of a strict model: an error where an earlier round comes without its thoughts."""

        def answered(asked: Json) -> Json:
            rounds = [one for one in asked["messages"] if one["role"] == "assistant"]
            for earlier, given in enumerate(rounds):
                holder = given if self.of_message else (given.get("tool_calls") or [{}])[0]
                name = self.of_message or self.of_call
                wanted = json.loads(json.dumps(self.value).replace("N", str(earlier)))
                if (self.of_message or given.get("tool_calls")) and holder.get(name) != wanted:
                    return {"error": {"message": f"Missing `{name}` in message {earlier}: see #tool-calls"}}
            return self.answer(number, message)

        return answered

    def script(self, team: Team, *messages: Json, one_byte: bool = False) -> Any:
        return team.script(*(self.turn(number, one) for number, one in enumerate(messages)), one_byte=one_byte)


SIGNATURE = {"google": {"thought_signature": "sealedN"}}
PROVIDERS = {
    "gemini": Provider(of_call="extra_content", value=SIGNATURE, pieces=(SIGNATURE,)),
    "deepseek": Provider("reasoning_content", value="Round N. ha ha", pieces=("", "Round N.", " ha", " ha")),
    "deepseek-without-thoughts": Provider("reasoning_content", value="", pieces=("",)),
    "vllm": Provider("reasoning", value="Round N.", pieces=("Round", " N", ".")),
    "openrouter": Provider(
        "reasoning_details",
        value=[
            {"type": "reasoning.text", "text": "Round N.", "format": "f", "index": 0, "signature": "sN"},
            {"type": "reasoning.encrypted", "data": "xyz", "id": "rN", "index": 0},
        ],
        pieces=(
            [{"type": "reasoning.text", "text": "Round ", "format": "f", "index": 0}],
            [{"type": "reasoning.text", "text": "N.", "format": "f", "index": 0}],
            [{"type": "reasoning.text", "signature": "sN", "format": "f", "index": 0}],
            [{"type": "reasoning.encrypted", "data": "xyz", "id": "rN", "index": 0}],
        ),
    ),
    "unknown": Provider("x_state", value={"seal": "zN", "step": 1}, pieces=({"seal": "zN"}, {"step": 1})),
}
BY_PROVIDER = pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS.keys())
SOME = ("gemini", "deepseek", "openrouter")
BY_SOME_PROVIDERS = pytest.mark.parametrize("provider", [PROVIDERS[name] for name in SOME], ids=SOME)


@BY_PROVIDER
@pytest.mark.parametrize("how", ["whole", "stream", "bytes"])
def test_a_strict_model_gets_its_thoughts_back_in_the_rounds_and_in_the_next_question(
    team: Team, provider: Provider, how: str
) -> None:
    model = provider.script(
        team, calls(ORGS), calls(USERS, ORGS, text="Hm."), says(ANSWER), calls(ORGS), says("Bye."),
        one_byte=how == "bytes",
    )  # fmt: skip
    chat = CompletionsChat(team.served.url)
    first = chat.ask(QUESTION, stream=how != "whole")
    assert first.text.endswith(ANSWER)
    kept = [{name: value for name, value in one.items() if name in ("role", "content")} for one in chat.said]
    chat.said = kept  # most clients keep the text alone
    assert chat.ask("And the organizations?", stream=how != "whole").text == "Bye."
    before, after = model.received[2]["messages"], model.received[3]["messages"]
    assert after[: len(before)] == before, "a provider caches by prefix"
    assert after[len(before)]["content"].endswith(ANSWER)
    assert model.received[4]["messages"][: len(after)] == after


@BY_SOME_PROVIDERS
@STREAMED
def test_calls_of_both_kinds_keep_the_thoughts(team: Team, provider: Provider, stream: bool) -> None:
    provider.script(team, calls(ORGS), calls(ORGS, WEATHER), says(ANSWER))
    chat = CompletionsChat(team.served.url, tools=True)
    (call,) = chat.ask(QUESTION, stream=stream).calls
    chat.said[-1] = {name: chat.said[-1].get(name) for name in ("role", "content", "tool_calls")}
    for row in chat.said[-1]["tool_calls"]:
        row.pop("extra_content", None)
    assert chat.results((call.id, "sunny"), stream=stream).text == ANSWER


@STREAMED
@pytest.mark.parametrize("kind", [ResponsesChat, MessagesChat], ids=["responses", "messages"])
@BY_SOME_PROVIDERS
def test_clients_of_other_dialects_have_the_same_rounds(
    team: Team, provider: Provider, kind: type[ResponsesChat | MessagesChat], stream: bool
) -> None:
    model = provider.script(team, calls(ORGS), calls(USERS, text="Hm."), says(ANSWER), says("Bye."))
    chat = kind(team.served.url)
    assert chat.ask(QUESTION, stream=stream).text.endswith(ANSWER)
    assert chat.ask("thanks", stream=stream).text == "Bye."
    contents = [one["content"] for one in model.received[3]["messages"] if one["role"] == "assistant"]
    assert contents == ([None, "Hm.", ANSWER] if provider.of_message else [None, "Hm.", contents[-1]])


def test_a_thought_is_no_source_of_a_value(team: Team) -> None:
    """A model may not invent an id in a thought and send the id with the next question."""
    thought = {"reasoning_content": "Perhaps the id is 77aa88bb99?"}
    model = team.script(
        {**calls(ORGS), **thought},
        {**says(ANSWER), **thought},
        calls(("act_listUsers", {"orgId": "77aa88bb99"})),
        says("Hm."),
    )
    chat = CompletionsChat(team.served.url)
    chat.ask(QUESTION)
    chat.said[-1] = says(ANSWER)
    chat.ask("And now?")
    assert team.api.seen == ["GET /orgs"]
    assert model.received[3]["messages"][1]["reasoning_content"] == thought["reasoning_content"]


@STREAMED
def test_the_client_sees_the_thoughts_of_hidden_rounds(team: Team, stream: bool) -> None:
    provider = PROVIDERS["deepseek"]
    provider.script(team, calls(ORGS), says(ANSWER))
    body = {"model": "rage/atlas/gpt-x", "messages": [{"role": "user", "content": QUESTION}], "stream": stream}
    reply = httpx.post(f"{team.served.url}/v1/chat/completions", json={**body, "tools": [CLIENT_TOOL]}, timeout=60)
    assert ("Round 0." in reply.text) == stream
    assert "Round 1." in reply.text


REFUSALS = {
    "of-thoughts": "property 'messages.1.reasoning_content' is unsupported",
    "of-calls-without-thoughts": "Missing `reasoning_content` in message 1: see #tool-calls",
}


@STREAMED
@pytest.mark.parametrize("words", REFUSALS.values(), ids=REFUSALS.keys())
def test_another_model_that_refuses_the_earlier_rounds_reads_the_rounds_as_text(
    team: Team, words: str, stream: bool
) -> None:
    """The client changes the model in the middle of a conversation."""

    def strict(asked: Json) -> Json:
        refused = any("tool_calls" in one for one in asked["messages"])
        return {"error": {"message": words}} if refused else calls(("act_listUsers", {"orgId": ORG}))

    chat = CompletionsChat(team.served.url)
    first = {**calls(ORGS), "reasoning_content": "So."}
    model = team.script(first, says(ANSWER), strict, strict, says("Again."), calls(ORGS), says("Bye."))
    chat.ask(QUESTION, stream=stream)
    chat.model = "rage/atlas/gpt-native"
    assert chat.ask("Again?", stream=stream).text == "Again."
    assert team.api.seen == ["GET /orgs", f"GET /orgs/{ORG}/users"], "a value of an earlier result counts as known"
    texts = [(one["role"], one["content"]) for one in model.received[3]["messages"]]
    assert [role for role, _ in texts] == ["user", "assistant", "user", "assistant", "user"]
    assert texts[2][1].startswith("Result of act_listOrganizations:\n")
    assert texts[3][1] == ANSWER
    assert chat.ask("Bye?", stream=stream).text == "Bye."
    after = model.received[4]["messages"]
    assert model.received[5]["messages"][: len(after)] == after
    assert all("tools" in asked for asked in model.received)


def test_a_refused_value_is_no_source_where_another_model_reads_the_rounds_as_text(team: Team) -> None:
    refuses = {"error": {"message": REFUSALS["of-thoughts"]}}
    made_up = calls(("act_listUsers", {"orgId": "5f0c9999"}))
    chat = CompletionsChat(team.served.url)
    first = {**made_up, "reasoning_content": "So."}
    model = team.script(first, says("Hm."), refuses, says("Again."), made_up, says(ANSWER))
    chat.ask(QUESTION)
    chat.model = "rage/atlas/gpt-native"
    chat.ask("Again?")
    chat.ask("Just try.")
    assert "Nothing was sent" in model.received[3]["messages"][2]["content"]
    assert model.received[5]["messages"][-1]["content"].startswith("Nothing was sent")
    assert team.api.seen == []


OWN_THOUGHTS = {
    "vllm": "'messages.1': property 'reasoning' is unsupported",
    "gemini": "messages.1.tool_calls.0.extra_content: Extra inputs are not permitted",
}


def refusing_own(provider: str, number: int, message: Json) -> Turn:
    """The answer of a model that refuses its own thoughts."""
    form = PROVIDERS[provider]
    member = form.of_message or form.of_call

    def answered(asked: Json) -> Json:
        for one in asked["messages"]:
            if member in {*one, *(name for call in one.get("tool_calls", ()) for name in call)}:
                return {"error": {"message": OWN_THOUGHTS[provider]}}
        return form.answer(number, message)

    return answered


@STREAMED
@pytest.mark.parametrize("provider", OWN_THOUGHTS)
def test_a_model_that_refuses_its_own_thoughts_gets_the_rounds_without_thoughts(
    team: Team, provider: str, stream: bool
) -> None:
    """Groq sent `reasoning` and refused `reasoning`: https://github.com/karthink/gptel/issues/774."""

    def thinking(number: int, message: Json) -> Turn:
        return refusing_own(provider, number, message)

    first, again = thinking(0, calls(ORGS)), thinking(1, calls(("act_listUsers", {"orgId": ORG})))
    model = team.script(first, again, again, thinking(2, says(ANSWER)), first, thinking(3, says("Bye.")))
    chat = CompletionsChat(team.served.url, new_model())
    assert chat.ask(QUESTION, stream=stream).text == ANSWER
    assert team.api.seen == ["GET /orgs", f"GET /orgs/{ORG}/users"]
    before = model.received[2]["messages"]
    assert model.received[3]["messages"][: len(before)] == before, "a provider caches by prefix"
    chat.said[-1] = says(ANSWER)
    assert chat.ask("And the organizations?", stream=stream).text == "Bye."
    assert len(model.received) == 6, "one refusal teaches"


@STREAMED
@pytest.mark.parametrize("provider", OWN_THOUGHTS)
@pytest.mark.parametrize("rounds", [[(ORGS, WEATHER)], [(ORGS,), (WEATHER,)]], ids=["mixed", "after-a-hidden-round"])
def test_a_result_of_the_client_goes_on_after_a_refusal_of_thoughts(
    team: Team, rounds: list[Any], provider: str, stream: bool
) -> None:
    hidden = [PROVIDERS[provider].answer(number, calls(*named)) for number, named in enumerate(rounds)]
    last = refusing_own(provider, 2, says(ANSWER))
    team.script(*hidden, last, last)
    chat = CompletionsChat(team.served.url, new_model(), tools=True)
    (call,) = chat.ask(QUESTION, stream=stream).calls
    for row in (chat.said[-1], *chat.said[-1]["tool_calls"]):
        row.pop("reasoning", None)
        row.pop("extra_content", None)
    assert chat.results((call.id, "sunny"), stream=stream).text == ANSWER


def test_a_result_of_the_client_goes_on_where_another_chat_learned_the_refusal(team: Team) -> None:
    first = PROVIDERS["vllm"].answer(0, calls(ORGS, WEATHER))
    again, last = refusing_own("vllm", 1, calls(ORGS)), refusing_own("vllm", 2, says(ANSWER))
    model = team.script(first, again, last, last, last)
    name = new_model()
    waiting, other = (CompletionsChat(team.served.url, name, tools=with_tools) for with_tools in (True, False))
    (call,) = waiting.ask(QUESTION).calls
    waiting.said[-1].pop("reasoning")
    assert other.ask(QUESTION).text == ANSWER
    assert waiting.results((call.id, "sunny")).text == ANSWER
    assert len(model.received) == 5


OWN_REFUSAL = {"error": {"message": OWN_THOUGHTS["vllm"]}}
NO_TOOLS = {"error": {"message": "this model does not support tools"}}
TEACH_NOTHING = {"an error of other words": [NO_TOOLS], "a refusal also without thoughts": [OWN_REFUSAL, NO_TOOLS]}


@pytest.mark.parametrize("errors", TEACH_NOTHING.values(), ids=TEACH_NOTHING.keys())
def test_an_error_that_the_thoughts_did_not_cause_teaches_nothing(team: Team, errors: list[Json]) -> None:
    thinking = {**calls(ORGS), "reasoning": "So."}
    model = team.script(thinking, *errors, thinking, says(ANSWER))
    chat = CompletionsChat(team.served.url, "rage/atlas/gpt-native")
    with pytest.raises(openai.APIError, match="does not support tools"):
        chat.ask(QUESTION)
    assert len(model.received) == 1 + len(errors)
    again = CompletionsChat(team.served.url, "rage/atlas/gpt-native")
    assert again.ask(QUESTION).text == ANSWER
    assert model.received[-1]["messages"][1]["reasoning"] == "So."


def test_a_second_refusal_reaches_the_client(team: Team) -> None:
    chat = CompletionsChat(team.served.url)
    model = team.script(calls(ORGS), says(ANSWER), *[{"error": {"message": "too long"}}] * 2)
    chat.ask(QUESTION)
    with pytest.raises(openai.BadRequestError, match="too long"):
        chat.ask("Again?")
    assert len(model.received) == 4


@STREAMED
def test_gemini_through_litellm_gets_the_signature_of_each_call_back(team: Team, stream: bool) -> None:
    """Also with the next question, in Gemini's own dialect."""
    missing: list[int] = []

    async def answer(wire: Wire, received: Received) -> None:
        contents = json.loads(received.body)["contents"]
        rounds = [one["parts"] for one in contents if one["role"] == "model"]
        rounds = [[part for part in parts if "function_call" in part] for parts in rounds]
        called = [parts for parts in rounds if parts]
        missing.extend(
            number for number, parts in enumerate(called) if parts[0].get("thoughtSignature") != f"c2VhbGVk{number}"
        )
        name, arguments = [ORGS, USERS, ("", {})][len(called)]
        call: Json = {"functionCall": {"name": name, "args": arguments}, "thoughtSignature": f"c2VhbGVk{len(called)}"}
        part = call if name else {"text": ANSWER}
        candidate = {"content": {"role": "model", "parts": [part]}, "index": 0, "finishReason": "STOP"}
        usage = {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7}
        whole = json.dumps({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "g-3"}).encode()
        if stream:
            start = head(b"content-type: text/event-stream", b"transfer-encoding: chunked")
            await wire.send(start, *chunked([b"data: %b\n\n" % whole]))
        else:
            await wire.send(reply(whole, b"content-type: application/json"))

    team.answered_by(answer)
    chat = CompletionsChat(team.served.url, "rage/atlas/gemini-x")
    assert chat.ask(QUESTION, stream=stream).text == ANSWER
    chat.said[-1] = says(ANSWER)
    assert chat.ask("Sure?", stream=stream).text == ANSWER
    assert team.api.seen == ["GET /orgs", f"GET /orgs/{ORG}/users"]
    assert missing == []
