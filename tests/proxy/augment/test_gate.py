"""Whether a request is augmented: every control, their order, and what is searched for."""

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest

from config.settings import UTILITY_REQUESTS
from proxy.augment.gate import Decision, decide, with_history
from proxy.augment.skipped import UtilityPrompts
from proxy.dialects.chat import CHAT
from proxy.dialects.errors import ApiError
from proxy.dialects.responses import RESPONSES
from retrieval.records.search import Turn
from tests.support.rows import all_rows

KNOWN = UtilityPrompts.read(UTILITY_REQUESTS)
QUESTION = {"role": "user", "content": "How do I connect?"}
TITLE = {"role": "user", "content": "Provide a concise, 5-word-or-less title for the conversation, using title case "
         "conventions. Only return the title itself."}  # fmt: skip
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}],
}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "42"}


def decided(
    *messages: dict[str, Any],
    model: str = "gpt-4o",
    headers: dict[str, str] | None = None,
    repeated: tuple[tuple[str, str], ...] = (),
    enabled: bool = True,
    collections: tuple[str, ...] = ("docs",),
    utility_prompts: UtilityPrompts = KNOWN,
    actions: bool = False,
    **fields: Any,
) -> Decision:
    request = CHAT.parse(json.dumps({"model": model, "messages": messages or [QUESTION], **fields}).encode())
    pairs = [*(headers or {}).items(), *repeated]
    scope = {"headers": [(key.encode(), value.encode()) for key, value in pairs]}
    return decide(
        request, scope, enabled=enabled, collections=collections, utility_prompts=utility_prompts, actions=actions
    )


def refused(**given: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        decided(**given)
    assert caught.value.status == 400
    assert json.loads(caught.value.body())["error"]["code"] == caught.value.code
    return caught.value


# On and off


def test_a_plain_request_is_augmented_from_the_collections_of_the_setting() -> None:
    assert decided() == Decision(
        model="gpt-4o",
        status="augmented",
        reason="",
        turns=(Turn("user", "How do I connect?"),),
        collections=("docs",),
        explicit=False,
        k=None,
    )


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"enabled": False}, "retrieval is disabled"),
        ({"model": "raw/gpt-4o"}, "raw model"),
        ({"headers": {"x-rag": "off"}}, "x-rag header"),
        ({"headers": {"x-rag": " OFF "}}, "x-rag header"),
        ({"rag": False}, "rag in the body"),
        ({"rag": {"enabled": False}}, "rag in the body"),
    ],
)
def test_each_control_turns_it_off_and_says_so(given: dict[str, Any], reason: str) -> None:
    decision = decided(**given)
    assert (decision.status, decision.reason, decision.turns) == ("off", reason, ())
    assert decision.model == "gpt-4o"


@pytest.mark.parametrize(
    "given",
    [
        {"enabled": False, "headers": {"x-rag": "on"}, "rag": True},
        {"enabled": False, "model": "rag/docs/gpt-4o"},
        {"model": "raw/gpt-4o", "headers": {"x-rag": "on"}, "rag": {"enabled": True, "collections": ["docs"]}},
        {"headers": {"x-rag": "off"}, "rag": {"enabled": True}},
        {"headers": {"x-rag": "off"}, "model": "rag/docs/gpt-4o"},
        {"headers": {"x-rag": "on"}, "rag": False},
        {"model": "rag/docs/gpt-4o", "rag": False},
    ],
)
def test_off_wins_wherever_it_is_said(given: dict[str, Any]) -> None:
    assert decided(**given).status == "off"


@pytest.mark.parametrize(
    "given", [{"headers": {"x-rag": "on"}}, {"headers": {"x-rag": ""}}, {"rag": True}, {"rag": None}, {"rag": {}}]
)
def test_on_changes_nothing_else(given: dict[str, Any]) -> None:
    assert replace(decided(**given), forced=False) == decided()


@pytest.mark.parametrize("value", ["yes", "1", "on, off", "\xff"])
def test_a_header_that_is_neither_on_nor_off_is_a_400(value: str) -> None:
    assert refused(headers={"x-rag": value}).code == "invalid_x_rag"


# All controls together, as one table

SETTINGS: list[dict[str, Any]] = [{}, {"enabled": False}]
PREFIXES = ["", "raw/", "rag/prefix/"]
HEADERS = [None, "on", "off"]
RAGS: list[dict[str, Any] | None] = [
    None,
    *({"rag": said} for said in (True, False, None, {}, {"enabled": True}, {"enabled": False})),
    *({"rag": said} for said in ({"collections": ["body"]}, {"enabled": False, "collections": ["body"]})),
]
CHOSEN = [None, "header"]
TABLE = list(itertools.product(SETTINGS, PREFIXES, HEADERS, RAGS, CHOSEN))


@pytest.mark.parametrize("messages", [(QUESTION,), (TITLE,), (QUESTION, {"role": "user", "content": ""})])
def test_every_combination_of_controls_keeps_one_precedence(messages: tuple[dict[str, Any], ...]) -> None:
    assert len(TABLE) == 324
    for setting, prefix, header, rag, chosen in TABLE:
        headers = {"x-rag": header} if header else {}
        headers |= {"x-rag-collection": chosen} if chosen else {}
        decision = decided(*messages, model=prefix + "gpt-4o", headers=headers, **setting, **(rag or {}))
        wish = (rag or {}).get("rag")
        off = [
            reason
            for reason, said in {
                "retrieval is disabled": setting,
                "raw model": prefix == "raw/",
                "x-rag header": header == "off",
                "rag in the body": wish is False or (isinstance(wish, dict) and wish.get("enabled") is False),
            }.items()
            if said
        ]
        forced = header == "on" or wish is True or (isinstance(wish, dict) and wish.get("enabled") is True)
        if off:
            expected = ("off", off[0])
        elif messages == (TITLE,) and not forced:
            expected = ("skipped", "housekeeping call")
        elif len(messages) == 2:
            expected = ("skipped", "no user text")
        else:
            expected = ("augmented", "")
        case = (setting, prefix, header, rag, chosen)
        assert (decision.status, decision.reason) == expected, case
        assert bool(decision.turns) == (expected[0] == "augmented"), case
        named = (wish.get("collections") if isinstance(wish, dict) else None) or ([chosen] if chosen else [])
        named = named or (["prefix"] if prefix == "rag/prefix/" else [])
        assert (decision.collections, decision.explicit) == (tuple(named or ["docs"]), bool(named)), case
        assert decision.model == "gpt-4o"


def test_housekeeping_is_searched_for_where_the_setting_says_so() -> None:
    assert decided(TITLE).reason == "housekeeping call"
    assert decided(TITLE, utility_prompts=UtilityPrompts()).status == "augmented"


@pytest.mark.parametrize("asked", ["Generate a title for my talk.", "What is the title of chapter 3?"])
def test_a_question_about_a_title_is_searched_for(asked: str) -> None:
    assert decided({"role": "user", "content": asked}).status == "augmented"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("x-rag", ("on", "off")),
        ("x-rag", ("", "off")),
        ("x-rag-collection", ("a", "b")),
        ("x-rag-collection", ("a", "a,b")),
    ],
)
def test_a_header_given_twice_with_different_values_is_a_400(name: str, values: tuple[str, str]) -> None:
    error = refused(repeated=tuple((name, value) for value in values))
    assert error.code == "conflicting_header"
    assert name in error.message


def test_a_header_given_twice_alike_is_one() -> None:
    twice = (("x-rag", "off"), ("x-rag", " off"), ("x-rag-collection", "a"), ("x-rag-collection", "a"))
    decision = decided(repeated=twice)
    assert (decision.reason, decision.collections) == ("x-rag header", ("a",))


# Model and collections


@pytest.mark.parametrize(
    ("name", "model", "collections"),
    [
        ("gpt-4o", "gpt-4o", ("docs",)),
        ("anthropic/claude-3", "anthropic/claude-3", ("docs",)),
        ("rag/wiki/gpt-4o", "gpt-4o", ("wiki",)),
        ("rag/wiki/anthropic/claude-3", "anthropic/claude-3", ("wiki",)),
        ("rag/wiki,notes/gpt-4o", "gpt-4o", ("wiki", "notes")),
        ("rag/raw/gpt-4o", "gpt-4o", ("raw",)),
        ("RAG/wiki/gpt-4o", "RAG/wiki/gpt-4o", ("docs",)),
        ("raw", "raw", ("docs",)),
        ("rag", "rag", ("docs",)),
    ],
)
def test_reads_the_prefix_of_a_model(name: str, model: str, collections: tuple[str, ...]) -> None:
    decision = decided(model=name)
    assert (decision.model, decision.collections, decision.status) == (model, collections, "augmented")
    assert decision.explicit == (collections != ("docs",))


@pytest.mark.parametrize("name", ["raw/", "rag/", "rag/wiki", "rag//gpt-4o", "rag/wiki/"])
def test_half_a_prefix_is_a_400_that_says_the_whole_one(name: str) -> None:
    error = refused(model=name)
    assert (error.code, error.param) == ("invalid_model_prefix", "model")
    assert "rag/COLLECTION/MODEL" in error.message


def test_a_raw_model_may_itself_have_slashes() -> None:
    assert decided(model="raw/anthropic/claude-3").model == "anthropic/claude-3"


def test_the_body_wins_over_the_header_over_the_prefix_over_the_setting() -> None:
    model, headers, rag = "rag/prefix/gpt-4o", {"x-rag-collection": "header"}, {"collections": ["body"]}
    assert decided(model=model, headers=headers, rag=rag).collections == ("body",)
    assert decided(model=model, headers=headers).collections == ("header",)
    assert decided(model=model).collections == ("prefix",)
    assert decided().collections == ("docs",)


def test_an_empty_choice_is_none() -> None:
    for decision in (decided(rag={"collections": []}), decided(headers={"x-rag-collection": " , "})):
        assert (decision.collections, decision.explicit) == (("docs",), False)


def test_reads_several_collections() -> None:
    assert decided(headers={"x-rag-collection": " a ,b,, c d "}).collections == ("a", "b", "c d")
    assert decided(rag={"collections": ["a,b", "ü"]}).collections == ("a,b", "ü")


@pytest.mark.parametrize("k", [1, 8, 100])
def test_takes_k_within_its_bounds(k: int) -> None:
    assert decided(rag={"k": k}).k == k


@pytest.mark.parametrize("k", [0, -1, 101, 1.0, "3", True, [3], 10**30])
def test_a_k_out_of_bounds_is_a_400(k: Any) -> None:
    error = refused(rag={"k": k})
    assert (error.code, error.param) == ("invalid_rag", "rag")
    assert "from 1 to 100" in error.message


@all_rows(
    ("rag", "says"),
    [
        ("on", "an object or a boolean"),
        (1, "an object or a boolean"),
        ([], "an object or a boolean"),
        ({"colections": ["a"]}, "has no 'colections'"),
        ({"\ud800": 1}, "has no '\ud800'"),
        ({"enabled": 1}, "'rag.enabled' in the request body must be"),
        ({"enabled": None}, "'rag.enabled' in the request body must be"),
        ({"collections": "docs"}, "'rag.collections' in the request body must be"),
        ({"collections": [1]}, "'rag.collections' in the request body must be"),
        ({"collections": [""]}, "'rag.collections' in the request body must be"),
        ({"collections": ["\ud800"]}, "'rag.collections' in the request body must be"),
        ({"collections": None}, "'rag.collections' in the request body must be"),
        ({"collections": ["docs"] * 1001}, "at most 1000 collections"),
        ({"collections": ["d" * 1001]}, "at most 1000 characters"),
    ],
)
def test_a_rag_that_cannot_be_read_is_a_400_that_says_why(rag: Any, says: str) -> None:
    error = refused(rag=rag)
    assert (error.code, error.param) == ("invalid_rag", "rag")
    assert says in error.message


def test_a_name_of_megabytes_is_not_quoted() -> None:
    assert len(refused(rag={"x" * 10**6: 1}).message) < 1000


def test_a_header_names_no_more_collections_than_a_body() -> None:
    assert refused(headers={"x-rag-collection": "d," * 1001}).code == "invalid_rag"


def test_bad_controls_are_refused_even_where_it_is_off() -> None:
    assert refused(rag={"k": 0}, enabled=False).code == "invalid_rag"
    assert refused(headers={"x-rag": "maybe"}, model="raw/gpt-4o").code == "invalid_x_rag"
    assert refused(model="", rag=False).code == "missing_model"


# What is searched for


def test_searches_for_the_latest_question_in_its_conversation() -> None:
    conversation = [
        {"role": "system", "content": "Talk like a pirate."},
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "What is TLS?"},
        {"role": "assistant", "content": "Encryption."},
        {"role": "user", "content": "How do I turn it on?"},
    ]
    assert decided(*conversation).turns == (
        Turn("user", "What is TLS?"),
        Turn("assistant", "Encryption."),
        Turn("user", "How do I turn it on?"),
    )


@pytest.mark.parametrize(
    "rounds",
    [
        [CALL, RESULT],
        [CALL, RESULT, RESULT],
        [CALL, RESULT, CALL, RESULT],
        [{"role": "assistant", "content": "Let me look.", "tool_calls": []}, RESULT],
        [{"role": "assistant", "content": "How do"}],
        [{"role": "function", "name": "f", "content": "42"}],
    ],
)
def test_every_tool_round_searches_for_the_same_question(rounds: list[dict[str, Any]]) -> None:
    earlier: list[dict[str, Any]] = [
        {"role": "user", "content": "Hi."},
        CALL,
        RESULT,
        {"role": "assistant", "content": "Hello."},
    ]
    assert decided(*earlier, QUESTION, *rounds) == decided(*earlier, QUESTION)
    assert decided(*earlier, QUESTION).turns == (
        Turn("user", "Hi."),
        Turn("assistant", "Hello."),
        Turn("user", "How do I connect?"),
    )


REMINDER = "<system-reminder>\nThe file a.py was modified.\n</system-reminder>\n"


@pytest.mark.parametrize(
    "message",
    [
        {
            "role": "user",
            "content": [{"type": "text", "text": REMINDER}, {"type": "text", "text": "How do I connect?"}],
        },
        {"role": "user", "content": f"{REMINDER}{REMINDER}How do I connect?"},
        {"role": "user", "content": "How do I connect?<environment_details>\n# Time\n9:00\n</environment_details>"},
    ],
)
def test_the_text_of_a_coding_agent_is_no_part_of_the_question(message: dict[str, Any]) -> None:
    (turn,) = decided(message).turns
    assert turn.text.strip() == "How do I connect?"


def test_a_message_of_a_coding_agent_alone_is_no_question() -> None:
    """Claude Code sends a reminder beside the results of tools; Codex names the folder before the first question."""
    reminder = {"role": "user", "content": REMINDER}
    context = {"role": "user", "content": "<environment_context>\n<cwd>/home</cwd>\n</environment_context>"}
    assert decided(context, QUESTION, CALL, RESULT, reminder).turns == decided(QUESTION).turns
    assert (decided(context).status, decided(context).reason) == ("skipped", "no user text")


@pytest.mark.parametrize("text", ["What is a <system-reminder>?", "</system-reminder> What is that?"])
def test_half_an_element_stays_in_the_question(text: str) -> None:
    assert decided({"role": "user", "content": text}).turns == (Turn("user", text),)


@pytest.mark.parametrize(
    "content",
    [
        None,
        "",
        " \n\t",
        [],
        [IMAGE],
        [{"type": "text", "text": " "}, IMAGE],
        7,
        {"text": "hi"},
        [{"type": "input_audio"}],
    ],
)
def test_a_message_without_text_is_skipped(content: Any) -> None:
    decision = decided(QUESTION, {"role": "user", "content": content})
    assert (decision.status, decision.reason, decision.turns) == ("skipped", "no user text", ())


@pytest.mark.parametrize("role", ["system", "developer", "assistant", "tool", "User"])
def test_a_conversation_without_a_user_is_skipped(role: str) -> None:
    assert decided({"role": role, "content": "hi"}).status == "skipped"


def test_off_is_said_before_skipped() -> None:
    assert decided({"role": "user", "content": ""}, rag=False).reason == "rag in the body"


def test_the_text_beside_an_image_is_searched_for() -> None:
    parts = [{"type": "text", "text": "What is"}, IMAGE, {"type": "text", "text": "this error?"}]
    assert decided({"role": "user", "content": parts}).turns == (Turn("user", "What is\nthis error?"),)


def test_only_the_end_of_a_long_conversation_is_used() -> None:
    messages = [{"role": role, "content": f"{role} {i}"} for i in range(30) for role in ("user", "assistant")]
    turns = decided(*messages, QUESTION).turns
    assert len(turns) == 12
    assert turns[-1] == Turn("user", "How do I connect?")
    assert turns[-2] == Turn("assistant", "assistant 29")


def test_of_a_huge_message_head_and_end_are_kept() -> None:
    (turn,) = decided({"role": "user", "content": "HEAD " + "x" * 3_000_000 + " END"}).turns
    assert turn.text.startswith("HEAD ")
    assert turn.text.endswith(" END")
    assert len(turn.text) <= 20_001


def test_half_a_surrogate_pair_becomes_text_that_can_be_sent_on() -> None:
    (turn,) = decided({"role": "user", "content": "cut \ud83d off"}).turns
    assert turn.text == "cut ? off"


def test_half_a_surrogate_pair_in_a_prefix_names_no_collection_but_can_be_asked_for() -> None:
    decision = decided(model="rag/\ud800/gpt-4o")
    assert (decision.collections, decision.explicit, decision.model) == (("?",), True, "gpt-4o")


# Stored conversations

ITEM = {"role": "user", "content": "Who wrote it?"}
TOOL_RESULT = {"type": "function_call_output", "call_id": "c", "output": "4"}
PICTURE = {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA=="}]}
ANSWER = {"role": "assistant", "content": "A whale."}
BEFORE = [Turn("user", "What is Moby-Dick?"), Turn("assistant", "A book.")]


def decided_response(given: object, rag: object = None, **fields: Any) -> Decision:
    request = RESPONSES.parse(json.dumps({"model": "m", "input": given, "rag": rag, **fields}).encode())
    return decide(request, {"headers": []}, enabled=True, collections=("docs",), utility_prompts=KNOWN)


@all_rows("given", ["Who wrote it?", [ITEM], [ITEM, ITEM], [TOOL_RESULT]])
@all_rows(
    "stored", [{"previous_response_id": "resp_1"}, {"conversation": "conv_1"}, {"conversation": {"id": "conv_1"}}]
)
def test_a_request_that_continues_by_an_id_lacks_the_earlier_turns(given: object, stored: dict[str, Any]) -> None:
    assert decided_response(given, **stored).continues


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ("Who wrote it?", {}),
        ("Who wrote it?", {"previous_response_id": None, "conversation": 5}),
        ([ITEM, ANSWER, ITEM], {"previous_response_id": "resp_1"}),  # the whole history
        ([PICTURE], {"previous_response_id": "resp_1"}),  # a question without text
        ([PICTURE, TOOL_RESULT], {"previous_response_id": "resp_1"}),
        ([], {"previous_response_id": "resp_1"}),
        (None, {"conversation": "conv_1", "instructions": "I"}),
        ("Who wrote it?", {"previous_response_id": "resp_1", "rag": False}),
        (TITLE["content"], {"previous_response_id": "resp_1"}),
    ],
)
def test_all_other_requests_need_no_stored_turn(given: object, fields: dict[str, Any]) -> None:
    assert not decided_response(given, **fields).continues


def test_stored_turns_stand_before_the_turns_of_the_request() -> None:
    decision = decided_response([ITEM], previous_response_id="resp_1")
    assert with_history(decision, BEFORE).turns == (*BEFORE, Turn("user", "Who wrote it?"))
    assert with_history(decision, []) == decision
    repeated = decided_response([{**ITEM, "content": BEFORE[0].text}, ITEM], previous_response_id="resp_1")
    assert with_history(repeated, BEFORE).turns == (*BEFORE, Turn("user", "Who wrote it?"))
    assert len(with_history(decision, BEFORE * 20).turns) == 12


def test_results_of_tools_get_the_passages_of_the_question_before() -> None:
    decision = decided_response([TOOL_RESULT], previous_response_id="resp_1")
    assert (decision.status, decision.reason) == ("skipped", "no user text")
    continued = with_history(decision, BEFORE)
    assert (continued.status, continued.reason, continued.turns) == ("augmented", "", (BEFORE[0],))
    assert with_history(decision, []) == decision


# Action sets


def test_without_configured_actions_no_control_of_actions_is_read() -> None:
    assert decided(model="rage/atlas/gpt-4o", headers={"x-rag-actions": "atlas"}).model == "rage/atlas/gpt-4o"
    assert decided(headers={"x-rag-actions": "atlas"}).action_sets is None
    assert "takes enabled, collections and k." in refused(rag={"actions": ["atlas"]}).message


@pytest.mark.parametrize(
    ("given", "sets"),
    [
        ({}, None),
        ({"model": "rage/atlas,shop/rag/docs/gpt-4o"}, ("atlas", "shop")),
        ({"model": "rage/atlas/gpt-4o", "headers": {"x-rag-actions": "shop"}}, ("shop",)),
        ({"model": "rage/atlas/gpt-4o", "headers": {"x-rag-actions": "Off"}}, ()),
        ({"headers": {"x-rag-actions": "shop"}, "rag": {"actions": ["atlas"]}}, ("atlas",)),
        ({"headers": {"x-rag-actions": "shop"}, "rag": {"actions": []}}, ()),
        ({"rag": {"enabled": False, "actions": ["atlas"]}}, ("atlas",)),
    ],
)
def test_the_body_wins_over_the_header_over_the_prefix(given: dict[str, Any], sets: tuple[str, ...] | None) -> None:
    decision = decided(actions=True, **given)
    assert (decision.action_sets, decision.model) == (sets, "gpt-4o")


@pytest.mark.parametrize("rag", [{"actions": "atlas"}, {"actions": [1]}, {"actions": [""]}])
def test_actions_in_the_body_are_a_list_of_names(rag: dict[str, Any]) -> None:
    assert refused(actions=True, rag=rag).code == "invalid_rag"


def test_with_configured_actions_an_unknown_control_is_told_of_actions() -> None:
    assert "takes enabled, collections, k and actions." in refused(actions=True, rag={"sets": []}).message
