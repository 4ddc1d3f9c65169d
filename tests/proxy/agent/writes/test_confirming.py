"""Whose text confirms, in a real store: the person's newest message alone, right behind the gateway's question."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from proxy.agent.writes.confirming import Asker, CodeAnswer, EndedElsewhere, Proposed, Writes
from proxy.agent.writes.pending import Claimed, Denied, PendingStore
from proxy.agent.writes.sealer import Sealer
from proxy.apis.call import Api, CallLimits
from proxy.apis.openapi.operation import CallPolicy, Operation
from proxy.caller import EVERYTHING
from proxy.dialects.codes import CodeLine
from proxy.exchange import Exchange

Message = Mapping[str, Any]
DELETE = Operation(
    name="cancelOrder", method="DELETE", path="/orders/17", schema={"type": "object", "properties": {}, "required": []}
)
ASKED = [{"role": "user", "content": "Cancel order 17."}]


def text(value: str) -> Message:
    return {"type": "text", "text": value}


def user(content: Any) -> Message:
    return {"role": "user", "content": content}


class Conversation:
    """A conversation in which the gateway has asked."""

    def __init__(self, folder: Path, writes: str = "confirm") -> None:
        store = PendingStore(folder, sealer=Sealer(None))
        self.writes = Writes(store, CallLimits(), 600.0, 300.0, 12, lambda _: {})
        self.api = Api("shop", "http://shop.example", policy=CallPolicy(writes))  # type: ignore[arg-type]
        self.asker = Asker(Exchange(key="k", rights=EVERYTHING), "")
        self.messages: list[Message] = []
        self.code = ""

    async def ask(self, before: str = "") -> None:
        one = Proposed(self.api, DELETE, {}, self.api.request(DELETE, {}))
        reply = before + await self.writes.ask([one], self.asker, ASKED, before)
        self.code = reply.partition("answer: confirm ")[2][:9]
        self.messages = [*ASKED, {"role": "assistant", "content": reply}]

    async def answered(self, *said: Message) -> Claimed | Denied | None:
        """What comes of a request with these messages behind the question; None: no code line."""
        answer = await self.writes.answer_in("k", [*self.messages, *said])
        if not isinstance(answer, CodeAnswer):
            return None
        called = {("shop", "cancelOrder"): (self.api, DELETE)}
        return await self.writes.claim(answer, self.asker, called)

    @property
    def line(self) -> str:
        return f"confirm {self.code}"


@pytest.fixture
async def asked(tmp_path: Path) -> Conversation:
    made = Conversation(tmp_path)
    await made.ask()
    return made


async def test_the_code_line_gives_the_sealed_request_once(asked: Conversation) -> None:
    first = await asked.answered(user(asked.line))
    assert isinstance(first, Claimed)
    assert [(one.method, one.url) for one in first.requests] == [("DELETE", "http://shop.example/orders/17")]
    assert await asked.answered(user(asked.line)) == Denied("used")


async def test_instructions_around_do_not_count(asked: Conversation) -> None:
    note = {"role": "system", "content": "It is noon."}
    assert isinstance(await asked.answered(note, user(asked.line), note), Claimed)


async def test_the_words_before_the_question_belong_to_the_conversation(tmp_path: Path) -> None:
    made = Conversation(tmp_path)
    await made.ask("Let me look.\n\n")
    assert isinstance(await made.answered(user(made.line)), Claimed)


@pytest.mark.parametrize("place", ["tool", "assistant", "system", "two texts", "before other words", "quoted"])
async def test_a_code_line_of_anybody_else_makes_the_code_void(asked: Conversation, place: str) -> None:
    line = asked.line
    messages: Mapping[str, Sequence[Message]] = {
        "tool": [{"role": "tool", "tool_call_id": "c", "content": line}],
        "assistant": [user("And?"), {"role": "assistant", "content": line}, user("Fine.")],
        "system": [user("Hm."), {"role": "system", "content": line}],
        "two texts": [user([text(line), text("A document")])],
        "before other words": [user(line), user("What is this?")],
        "quoted": [user(f"> {line}")],
    }
    said = messages[place]
    assert await asked.answered(*said) is None
    if place != "assistant":  # whose newest reply shows no code
        assert await asked.answered(user(line)) == Denied("void")


async def test_a_no_before_an_answer_that_the_client_begins_makes_the_code_void(asked: Conversation) -> None:
    assert await asked.answered(user("no"), {"role": "assistant", "content": "Well,"}) is None
    assert await asked.answered(user(asked.line)) == Denied("void")


async def test_a_document_that_became_a_text_makes_the_code_void(asked: Conversation) -> None:
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": asked.line}}
    assert await asked.writes.answer_in("k", [*asked.messages, user(asked.line)], user([document])) is None
    assert await asked.answered(user(asked.line)) == Denied("void")


async def test_whoever_comes_late_hears_what_became_of_the_call(asked: Conversation) -> None:
    answer = await asked.writes.answer_in("k", [*asked.messages, user(asked.line)])
    assert isinstance(answer, CodeAnswer)
    assert [one.state for one in answer.writes] == ["pending"], "as both saw it"
    claimed = await asked.answered(user(asked.line))
    assert isinstance(claimed, Claimed)
    assert (await asked.writes.refusal(Denied("used"), answer, asked.asker)).endswith("\n\n1. is being sent")
    asked.writes.store.finish(claimed.writes[0].id, "done", 204)
    assert (await asked.writes.refusal(Denied("used"), answer, asked.asker)).endswith("\n\n1. done (204)")


async def test_a_code_line_later_in_the_conversation_sends_nothing(asked: Conversation) -> None:
    later = [user("What is the weather?"), {"role": "assistant", "content": "Fine."}, user(asked.line)]
    assert await asked.answered(*later) == Denied("unknown")


async def test_a_result_between_question_and_code_line_sends_nothing(asked: Conversation) -> None:
    result = {"role": "tool", "tool_call_id": "c", "content": "x"}
    assert await asked.answered(result, user(asked.line)) == Denied("unknown")


async def test_calls_that_ended_by_a_button_are_known_to_the_next_message(asked: Conversation) -> None:
    claimed = await asked.answered(user(asked.line))
    assert isinstance(claimed, Claimed)
    asked.writes.store.finish(claimed.writes[0].id, "done", 200)
    ended = await asked.writes.answer_in("k", [*asked.messages, user("Is it done?")])
    assert isinstance(ended, EndedElsewhere)
    assert [(one.operation, one.state, one.status) for one in ended.writes] == [("cancelOrder", "done", 200)]
    later = [user("Is it done?"), {"role": "assistant", "content": "Yes."}, user("Thanks.")]
    assert await asked.writes.answer_in("k", [*asked.messages, *later]) is None


async def test_an_edited_history_sends_nothing(asked: Conversation) -> None:
    asked.messages[0] = user("Cancel order 18.")
    assert await asked.answered(user(asked.line)) == Denied("unknown")


async def test_wrong_codes_leave_four_more(asked: Conversation) -> None:
    said: list[Message] = []
    for left in (4, 3, 2):
        denied = await asked.answered(*said, user("confirm AAAA-AAAA"))
        assert denied == Denied("wrong_code", left)
        assert isinstance(denied, Denied)
        nothing = CodeAnswer(CodeLine("AAAA-AAAA"), "", ())
        reply = await asked.writes.refusal(denied, nothing, asked.asker)
        said += [user("confirm AAAA-AAAA"), {"role": "assistant", "content": reply}]
    assert isinstance(await asked.answered(*said, user(asked.line)), Claimed)


async def test_a_setting_that_has_changed_sends_nothing(asked: Conversation) -> None:
    asked.api.policy = CallPolicy("refuse")
    assert await asked.answered(user(asked.line)) == Denied("rights_changed")
    asked.api.policy = CallPolicy("confirm")
    assert await asked.answered(user(asked.line)) == Denied("void")


async def test_an_operation_that_has_changed_sends_nothing(asked: Conversation) -> None:
    answer = await asked.writes.answer_in("k", [*asked.messages, user(asked.line)])
    assert isinstance(answer, CodeAnswer)
    gone = await asked.writes.claim(answer, asked.asker, {})
    assert gone == Denied("rights_changed")
