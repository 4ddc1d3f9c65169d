"""A quote is no call: of a text of the conversation, in any spelling, and in an answer that marks the quote."""

import html
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.agent.ask.protocol_replies import ProtocolText
from proxy.agent.text_calls.quotes import is_marked, stands_in
from proxy.agent.text_calls.written_calls import last_lines, written_call
from proxy.dialects.replies import ToolCall
from tests.support.call_spellings import SPELLINGS
from tests.support.rows import all_rows

TOOLS = ("act_a", "act_search")


def owns(name: str) -> bool:
    return name in TOOLS


def owns_beginning(letters: str) -> bool:
    return any(tool.startswith(letters) for tool in TOOLS)


def shown_by_text(answer: str, texts: list[str], size: int) -> tuple[str, ToolCall | None]:
    """What a person sees of an answer, and the call, of a model that is asked by text."""

    def claims(name: str, *, begun: bool = False) -> bool:
        return owns_beginning(name) if begun else owns(name)

    text = ProtocolText(claims, lambda call: stands_in(call, texts))
    shown = "".join(text.feed(answer[at : at + size]) for at in range(0, len(answer), size))
    rest, call = text.end()
    return shown + rest, call


def made_by_tools(answer: str, texts: list[str]) -> bool:
    """Whether a model that is asked by tools makes a call in an answer."""
    lines = last_lines(answer, owns, owns_beginning)
    found = written_call(lines, answer.removesuffix(lines), owns, lambda call: stands_in(call, texts))
    return found is not None


names = st.sampled_from(["q", "id", "limit", "with space", "ü"])
values = st.sampled_from(["quoted-raw", "x", "a b c", 'a "b"', "naïve", "C:\\new", 7, 1.5, True, None, ["u", "v"]])
arguments = st.dictionaries(names, values, max_size=3)


def python(given: dict[str, Any]) -> str:
    return repr({"name": "act_search", "arguments": given})


Spelling = Callable[[dict[str, Any]], str]
WRITTEN: dict[str, Spelling] = {
    "JSON": lambda given: json.dumps({"name": "act_search", "arguments": given}),
    "indented": lambda given: json.dumps({"name": "act_search", "arguments": given}, indent=2, ensure_ascii=False),
    "other order": lambda given: json.dumps({"arguments": given, "name": "act_search"}),
    "arguments as text": lambda given: json.dumps({"name": "act_search", "arguments": json.dumps(given)}),
    "a call of an API": lambda given: json.dumps(
        {"type": "function", "function": {"name": "act_search", "arguments": json.dumps(given)}}
    ),
    "Python": python,
    "named": lambda given: f"act_search: {json.dumps(given)}",
    "in parentheses": lambda given: f"act_search({json.dumps(given)})",
}
ESCAPED: dict[str, Callable[[str], str]] = {
    "as written": lambda text: text,
    "in JSON": json.dumps,
    "in JSON in JSON": lambda text: json.dumps(json.dumps(text)),
    "in HTML": html.escape,
    "in a URL": quote,
    "in a block quote": lambda text: "> " + text.replace("\n", "\n> "),
    "in a table": lambda text: f"| note | {text} |",
}
AROUND = {
    "alone": "{}",
    "fenced": "```json\n{}\n```",
    "tagged": "<tool_call>{}</tool_call>",
    "behind words": "So it is:\n{}",
    "behind words, fenced": "Here:\n\n```\n{}\n```",
    "and on": "{}\n\nThat is all.",
}


@given(
    arguments,
    st.sampled_from(sorted(WRITTEN)),
    st.sampled_from(sorted(ESCAPED)),
    st.sampled_from(sorted(WRITTEN)),
    st.sampled_from(sorted(AROUND)),
    st.integers(1, 40),
)
def test_a_call_that_stands_in_the_conversation_is_no_call(
    given: dict[str, Any], source: str, escaped: str, spelled: str, around: str, size: int
) -> None:
    texts = ["Hello.", f"A note. {ESCAPED[escaped](WRITTEN[source](given))} Do not run it."]
    answer = AROUND[around].replace("{}", WRITTEN[spelled](given))
    assert shown_by_text(answer, texts, size) == (answer, None)
    assert not made_by_tools(answer, texts)


@given(arguments, st.sampled_from(sorted(WRITTEN)), st.sampled_from(["alone", "fenced", "tagged"]))
def test_a_call_that_stands_nowhere_is_made(given: dict[str, Any], spelled: str, around: str) -> None:
    """The person names the tool and the values, but writes no call."""
    others = [json.dumps({"name": "act_search", "arguments": {**given, "q": "other"}})] if given else []
    texts = ["Use act_search with q, id, limit: quoted-raw, x, 7.", "The tools are act_a and act_search."]
    answer = AROUND[around].replace("{}", WRITTEN[spelled]({**given, "q": "fresh"}))
    shown, call = shown_by_text(answer, [*texts, *others], 5)
    assert (shown, call is not None and call.name) == ("", "act_search")
    empty = AROUND[around].replace("{}", WRITTEN[spelled]({}))
    assert shown_by_text(empty, texts, 5) == ("", ToolCall("", "act_search", "{}"))


@given(st.integers(1, 30), st.integers(1, 9))
def test_a_part_of_a_quote_is_no_call(cut: int, size: int) -> None:
    """The source or the quote may be cut off."""
    whole = '{"name": "act_search", "arguments": {"q": "quoted raw words", "limit": 20}}'
    assert shown_by_text(whole, [whole[:-1]], size) == (whole, None)
    text = whole[:-cut]
    if '"arguments"' in text:
        assert shown_by_text(f"{text}\n", [f"A note: {whole}"], size)[1] is None
        assert not made_by_tools(text, [f"A note: {whole}"])


@all_rows("kind", SPELLINGS)
@all_rows("size", [1, 7, 1000])
def test_a_quote_of_another_models_call_is_shown_as_written(kind: str, size: int) -> None:
    text = SPELLINGS[kind]
    for source in (text, json.dumps({"note": text}), '{"name": "act_a", "arguments": {"x": 1}}'):
        for answer in (text, f"The line is:\n{text}", f"{text}\nThat is all."):
            assert shown_by_text(answer, [source], size) == (answer, None)
            assert not made_by_tools(answer, [source])


QUOTED = [
    "The user wrote:\n```json\n{}\n```",
    'The user wrote: "{}"',
    "The note says: {}",
    "The note says:\n\n{}",
    "The second line of the document is: {}",
    "Note: the document has {} in it, do not run it.",
    "> {}",
    "He wrote this.\n\n> Please look:\n> ```json\n> {}\n> ```",
    "“{}”",
    "« {} »",
    'It reads "please run {} today".',
    "'{}'",
    "An example of a call:\n```json\n{}\n```",
    "```\nSome code\n{}\n```",
    "- > {}",
    "| text | {} |",
    "Der Kunde schrieb:\n{}",
    "Le client a écrit : {}",
    "This line, {}, is in the mail.",
]
CALLED = [
    "I will look this up.\n{}",
    "Let me look: {}",
    "Action: {}",
    "So: {}",
    "```json\n{}\n```",
    "I read the message. Now I call the tool:\n{}",
    "To find the user, I will call:\n```json\n{}\n```",
    "To read the document:\n{}",
    'You asked for "Ann". I look.\n{}',
    "It's time. {}",
    "{}\nThe result is 3.",
    "```python\nprint(1)\n```\n{}",
]


@all_rows("size", [1, 7, 1000])
@all_rows("call", ['{"name": "act_a", "arguments": {"x": 1}}', 'act_a({"x": 1})', *SPELLINGS.values()])
def test_an_answer_that_marks_a_quote_makes_no_call(call: str, size: int) -> None:
    for form in QUOTED:
        answer = form.replace("{}", call.replace("\n", "\n> ") if "> {}" in form else call)
        assert shown_by_text(answer, [], size) == (answer, None), form
        assert not made_by_tools(answer, []), form


@all_rows("form", CALLED)
def test_an_answer_that_leads_to_a_call_makes_the_call(form: str) -> None:
    _, call = shown_by_text(form.replace("{}", '{"name": "act_a", "arguments": {"x": 1}}'), ["Find Ann."], 3)
    assert call == ToolCall("", "act_a", '{"x": 1}')


def test_a_call_behind_a_quote_is_made() -> None:
    quote = '{"name": "act_a", "arguments": {"x": 7}}'
    call = '{"name": "act_a", "arguments": {"x": 1}}'
    shown, made = shown_by_text(f"The note says: {quote}\n\nI will look this up.\n{call}", [quote], 3)
    assert shown == f"The note says: {quote}\n\nI will look this up.\n"
    assert made == ToolCall("", "act_a", '{"x": 1}')


def test_many_quotes_end_at_all() -> None:
    call = '{"name": "act_a", "arguments": {"x": 1}}'
    answer = "\n".join([call] * 2_000)
    assert shown_by_text(answer, [call], 1000) == (answer, None)


@pytest.mark.parametrize(
    ("before", "text", "marked"),
    [
        ("```\ncode\n", "```\n{}", False),
        ("````\ncode\n", "```\n{}", True),
        ("````\n```\n", "{}", True),
        ("```\ncode\n", "```json\n{}", True),
        ("~~~\ncode\n", "{}", True),
        ("> ```\n", "{}", True),
        ("```\ncode\n```\n", "{}", False),
    ],
)
def test_a_block_of_code_with_other_lines_marks_a_quote(before: str, text: str, marked: bool) -> None:
    assert is_marked(before, text, "") == marked
