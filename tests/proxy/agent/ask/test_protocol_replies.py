"""The text of models that write calls as text: in any pieces, the same text and the same call."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.agent.ask.protocol_replies import ProtocolText
from proxy.dialects.replies import ToolCall
from tests.support.call_spellings import ANSWERS, SPELLINGS, WITHOUT_ARGUMENTS
from tests.support.rows import all_rows

TOOLS = ("act_a", "act_ab", "find_actions")
Read = tuple[str, ToolCall | None]


def claims(name: str, *, begun: bool = False) -> bool:
    return any(tool.startswith(name) for tool in TOOLS) if begun else name in TOOLS


def read(text: str, size: int) -> Read:
    """The text for the client and the call, of pieces of this size."""
    reader = ProtocolText(claims)
    shown = "".join(reader.feed(text[at : at + size]) for at in range(0, len(text), size))
    rest, call = reader.end()
    return shown + rest, call


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
CALLS = [  # forms of a call beside the form of the instructions
    'act_a: {"x": 1}',
    '`act_a`: {"x": 1}',
    '**act_a** {"x": 1}',
    'act_a\n```json\n{"x": 1}\n```',
    'act_a({"x": 1})',
    'Action: act_a\nAction Input: {"x": 1}',
    '<function=act_a>{"x": 1}</function>',
    '[TOOL_CALLS] [{"name": "act_a", "arguments": {"x": 1}}]',
    '[{"name": "act_a", "arguments": {"x": 1}}]',
    '{"function": "act_a", "parameters": {"x": 1}}',
    '{"tool": "act_a", "args": {"x": 1}}',
    '{"type": "function", "function": {"name": "act_a", "arguments": {"x": 1}}}',
    '{"tool_calls": [{"function": {"name": "act_a", "arguments": "{\\"x\\": 1}"}}]}',
    '{"action": "act_a", "action_input": {"x": 1}}',
    '{"name": "act_a", "id": "1", "arguments": {"x": 1}}',
    '{"name": "act_a", "arguments": "{\\"x\\": 1}"}',
    '{"name": "act_a", "x": 1}',
    '```JSON\n{"name": "act_a", "arguments": {"x": 1}}\n```',
    '```tool_code\nact_a({"x": 1})\n```',
    '```xml\n<tool_call>{"name": "act_a", "arguments": {"x": 1}}</tool_call>\n```',
    '<tools>\n{"name": "act_a", "arguments": {"x": 1}}\n</tools>',
    '<|python_tag|>{"name": "act_a", "parameters": {"x": 1}}',
    '<|tool_call|>[{"name": "act_a", "arguments": {"x": 1}}]',
]
NO_CALLS = [  # names and objects of an answer
    "I used act_a, act_ab and find_actions.",
    "See `act_a` (the list of users), and act_a().",
    "The tools are [act_a, act_ab], or {act_a}.",
    "act_a is the best. a",
    "find_actions",
    'My file: {"type": "module", "name": "x"}',
    'Write {"name": "Ann", "tool": "act_a"}.',
    '{"arguments": {"name": 1}}',
    "A list: [1, 2], [[], {}], <b>`x`</b>",
    "act_a: none. act_ab = {}",
    "xact_a({}) or act_a-b: {}",
    '```python\nprint({"x": 1})\n``` and <b>{x}</b>, <i>[1]</i> <|x|> 1 < 2',
]
pieces = (
    st.sampled_from(
        [
            *SPELLINGS.values(),
            *ANSWERS,
            *CALLS,
            *NO_CALLS,
            "act_a: {",
            "act_a(",
            "act_a",
            "Action Input: ",
            "[",
            "'",
            '{"type": "function", ',
        ]
    )
    | st.sampled_from(
        ['{"name": "act_a"', ', "arguments": {', "```json\n", "<tool_call>", '{"say": "', '"', "\\", "}", "a"]
    )
    | st.sampled_from(["<think>", "</think>", "\n", "```py\n", "<|a|>", "<", "```"])
)


@given(st.sampled_from(TOOLS), st.dictionaries(st.text(), json_values, max_size=3), st.integers(1, 9))
def test_a_call_is_read_in_all_pieces_and_never_shown(name: str, arguments: dict[str, object], size: int) -> None:
    written = json.dumps({"name": name, "arguments": arguments})
    for text in (
        written,
        f"```json\n{written}\n```",
        f"<tool_call>{written}</tool_call>",
        written + "\n\nThe result is 3.",
    ):
        shown, call = read(text, size)
        assert shown == ""
        assert call is not None
        assert (call.name, json.loads(call.arguments)) == (name, arguments)


@given(
    st.sampled_from(TOOLS),
    st.text(alphabet="abc .<`\n", max_size=20).filter(lambda text: "```" not in text),
    st.integers(1, 9),
)
def test_text_before_a_call_is_shown(name: str, before: str, size: int) -> None:
    call = json.dumps({"name": name, "arguments": {}})
    for block in (call, f"```json\n{call}\n```", f"```{call}```"):
        shown, made = read(f"Well. {before}\n{block}", size)
        assert made == ToolCall("", name, "{}")
        assert f"Well. {before}\n".startswith(shown)
        assert shown.rstrip("`<\n ") == f"Well. {before}".rstrip("`<\n ")


@example("```\nx\n```</think>" + '{"name": "act_a", "arguments": {"x": 1}}', 1)
@example('\n<tool_call>{"name": "act_a", "arguments": {"x": 1}}</tool_call>', 1)
@given(st.lists(pieces | st.text(max_size=4)).map("".join), st.integers(1, 9))
def test_the_pieces_of_any_text_do_not_matter(text: str, size: int) -> None:
    whole = read(text, max(1, len(text)))
    assert read(text, size) == whole


@given(st.text(), st.integers(1, 9))
def test_a_text_without_a_brace_is_shown_as_written(text: str, size: int) -> None:
    said = "a" + text.replace("{", "(")
    assert read(said, size) == (said, None)


OTHER = [
    '[{"name": "Ann", "arguments": {}}]',
    '<div>{"name": "x", "parameters": {}}</div>',
    '{"name": "Ann", "age": 3}',
    '{"a": 1}',
    "[1]",
    '{"name": 3}',
    '"x"',
    "```js\n1\n```",
]


@pytest.mark.parametrize("text", OTHER)
def test_other_json_is_an_answer(text: str) -> None:
    for size in (1, 100):
        assert read(text, size) == (text, None)


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("thought", ['<think>\nI could call act_a({"x": 1}).\n</think>', "Hm, <b>.\n</think>"])
def test_a_thought_before_the_answer_or_the_call_is_shown_as_written(thought: str, size: int) -> None:
    assert read(f"{thought}\n\nAnn.\n", size) == (f"{thought}\n\nAnn.\n", None)
    call = f'{thought}\n\n{{"name": "act_a", "arguments": {{}}}}'
    assert read(call, size) == (thought, ToolCall("", "act_a", "{}"))


@pytest.mark.parametrize("text", ["act_a", " act_a\n", '{"name": "act_a"}'])
def test_a_name_alone_is_a_call_without_arguments(text: str) -> None:
    assert read(text, 1) == ("", ToolCall("", "act_a", "{}"))


def test_a_call_of_an_unknown_name_counts_as_a_call() -> None:
    assert read('{"name": "listUsers", "arguments": {}}', 1) == ("", ToolCall("", "listUsers", "{}"))


@all_rows("size", [1, 3, 1000])
@all_rows("call", CALLS)
def test_a_call_between_the_words_of_an_answer_is_made_and_not_shown(call: str, size: int) -> None:
    text = f"I will look this up. {call}\n\nThe result is {{'made': 'up'}}."
    shown, made = read(text, size)
    assert made is not None
    assert (made.name, json.loads(made.arguments)) == ("act_a", {"x": 1})
    assert shown in (
        "I will look this up. ",
        "I will look this up. Action: ",
        "I will look this up. `",
        "I will look this up. **",
    )


@all_rows("call", CALLS)
def test_a_call_at_the_beginning_of_an_answer_is_made_and_not_shown(call: str) -> None:
    shown, made = read(call, 1)
    assert made is not None
    assert (made.name, json.loads(made.arguments)) == ("act_a", {"x": 1})
    assert shown in ("", "Action: ", "`", "**")


@all_rows("text", [text for text in NO_CALLS if text != "find_actions"])
@all_rows("size", [1, 3, 1000])
def test_names_and_objects_of_an_answer_are_shown_as_written(text: str, size: int) -> None:
    assert read(text, size) == (text, None)


@pytest.mark.parametrize("text", ["act_a(x=y)", "act_a(x=1, *y)", "{'name': 'act_a', 'arguments': {'x': y}}"])
def test_arguments_that_are_no_json_stay_as_written(text: str) -> None:
    """The model reads the fault."""
    shown, made = read(f"So: {text}", 1)
    assert (shown, made is not None and made.name) == ("So: ", "act_a")
    assert made is not None
    assert made.arguments.startswith(("x=", "{'x'"))


@all_rows("size", [1, 3, 1000])
@all_rows("kind", SPELLINGS)
def test_a_call_in_the_spelling_of_another_model_is_made_and_not_shown(kind: str, size: int) -> None:
    for before in ("", "I will look this up.\n"):
        for after in ("", "\n", "\nThe result is made up."):
            shown, made = read(before + SPELLINGS[kind] + after, size)
            assert shown in (before, f"{before}Action: ")
            assert made is not None
            assert (made.name, json.loads(made.arguments)) in [("act_a", {"x": 1}), ("act_a", {"x": "1"})]


@pytest.mark.parametrize("kind", WITHOUT_ARGUMENTS)
def test_a_call_without_arguments_in_the_spelling_of_another_model_is_made(kind: str) -> None:
    for size in (1, 1000):
        assert read(WITHOUT_ARGUMENTS[kind], size) == ("", ToolCall("", "act_a", "{}"))


@all_rows("text", ANSWERS)
def test_answers_with_marks_of_templates_are_shown_as_written(text: str) -> None:
    for size in (1, 3, 1000):
        for whole in (text, f"Well.\n{text}", f"{text}\n\nThat is all."):
            assert read(whole, size) == (whole, None)


@pytest.mark.parametrize("text", ['{"function": "act_', '{"type": "function", "function": {"name": "act_a'])
def test_a_cut_call_is_not_shown(text: str) -> None:
    assert read(f"So: {text}", 1) == ("So: ", None)
