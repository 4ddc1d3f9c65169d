"""Calls that a model writes as text, and texts that only resemble a call."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.agent.text_calls.quotes import is_marked, stands_in
from proxy.agent.text_calls.written_calls import (
    begins_call,
    cut_call,
    last_lines,
    may_become_call,
    names_call,
    spelled_call,
    written_call,
)
from proxy.dialects.replies import ToolCall
from tests.support.rows import all_rows

SPACES = " " * 19_000
SLOW = [  # beginnings of a call before which and after which white space may stand
    "",
    "```json",
    "<tool_call>",
    "{",
    '{"name"',
    '{"name":',
    '{"name": "act_a"',
    '{"name": "act_a"}',
    '{"name": "act_a",',
    '{"name": "act_a", "arguments":',
    '{"name": "act_a", "arguments": {}',
    '{"name": "act_a", "arguments": {}}',
    '{"name": "act_a", "arguments": {}}```',
    "act_a(",
    "act_a(x",
    "act_a(x =",
    "act_a:",
    "```sql\n",
    "```sql\nselect",
]


def owns(name: str) -> bool:
    return name in {"act_a", "```sql"}


def owns_beginning(name: str) -> bool:
    return "act_a".startswith(name)


@pytest.mark.timeout(60)  # a match in quadratic or cubic time takes minutes, or for ever
@pytest.mark.parametrize("begun", SLOW)
def test_much_white_space_ends_at_all(begun: str) -> None:
    for _ in range(20):
        for text in (f"{begun}{SPACES}z", f"{SPACES}{begun}{SPACES}!{SPACES}"):
            written_call(text, "", owns)
            spelled_call(text, owns)
            names_call(text)
            may_become_call(text, owns, owns_beginning)
            begins_call(text, owns, owns_beginning)
            cut_call(text, owns_beginning)
            is_marked(text, text, text)


@all_rows("after", ["", "}", " }", "}}", " } ", "\n}\n```\n", "}</tool_call>", " ``` "])
@all_rows("before", ["", "```json\n", "<tool_call> "])
def test_a_call_without_arguments_is_a_call_with_any_end(before: str, after: str) -> None:
    found = written_call(f'{before}{{"name": "act_a"{after}', "", owns)
    assert found is not None
    assert found.call == ToolCall("", "act_a", "{}")


@pytest.mark.parametrize("after", ["z", "} z", "```z", '}{"name": "other"}'])
def test_a_name_before_other_words_is_no_call(after: str) -> None:
    assert written_call(f'{{"name": "act_a"{after}', "", owns) is None


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("", ""),
        ("Words.", "."),
        ("Words.\n", ""),
        ("Words.\n  ```json\n{", "  ```json\n{"),
        ('Words. {"name": "act_a"', "."),
        ('{"name": "Ann"}\n\n{"name": "act_a', '\n{"name": "act_a'),
        ("a\n" * 500_000 + '{"name": "act_a"', '{"name": "act_a"'),
        ("{ " * 500_000, "."),
    ],
    ids=range(8),
)
def test_a_call_begins_a_line_however_long_the_answer(text: str, last: str) -> None:
    assert last_lines(text, owns, owns_beginning) == last
    in_pieces = ""
    for at in range(max(0, len(text) - 60), len(text)):
        in_pieces = last_lines(in_pieces + text[at], owns, owns_beginning)
    assert in_pieces == last


def takes_sql(name: str) -> bool:
    return name == "```sql"


def never(_name: str) -> bool:
    return False


@given(st.sampled_from(["select 1", "WITH a AS (SELECT 1)\nSELECT * FROM a", "-- `a`\n  Select\t'x'"]), st.data())
def test_a_block_with_a_query_is_a_call_in_any_pieces(sql: str, data: st.DataObject) -> None:
    text = f"  ```sql \n{sql}\n```"
    found = spelled_call(text + "\nWords.", takes_sql)
    assert found is not None
    assert found.call == ToolCall("", "```sql", json.dumps({"sql": sql}))
    assert found.end == len(text)
    cut = text[: data.draw(st.integers(2, len(text)))]
    assert begins_call(cut, takes_sql, never) is not False, "the text waits until it is clear"
    assert spelled_call(cut, takes_sql) is None or cut == text


@pytest.mark.parametrize("code", ["", "insert", "selective", "within", "-", "-- select 1", "1", "{"])
def test_a_block_without_a_query_is_no_call(code: str) -> None:
    assert written_call(f"```sql\n{code}\n```", "", takes_sql) is None
    assert begins_call(f"```sql\n{code}\nwords", takes_sql, never) in {False, None}


@given(st.sampled_from(["select a.b from c where d = 'e'", "SELECT\n1"]), st.sampled_from([" ", "\n", "\n\n  "]))
def test_a_query_that_stands_in_a_text_is_a_quote(sql: str, gap: str) -> None:
    call = ToolCall("", "```sql", json.dumps({"sql": sql}))
    assert stands_in(call, ["", f"The page says: {sql.replace(' ', gap).upper()}; and so on."])
    assert not stands_in(call, [sql[:-1], "query_tables sql"])


@pytest.mark.parametrize("text", ["```\nact_a\n```", "```python\nact_a\n```", "`act_a`", "[to=functions.act_a]"])
def test_the_name_alone_in_code_is_no_call(text: str) -> None:
    assert written_call(text, "", owns) is None
