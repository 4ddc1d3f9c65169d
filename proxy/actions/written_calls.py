"""Calls that a model writes as text: models without tool calls of their own answer with the JSON of a call.

Qwen2.5-Coder answers `{"name": "act_listUsers", "arguments": {}}`, fenced or bare; other models put the JSON between
`<tool_call>` tags. Such a text is a call only if the text begins a line, ends the answer, and names a tool of the
gateway.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from proxy.dialects.replies import ToolCall

# Marks before a call: a fence with any language, a tag such as <tool_call> or <|python_tag|>, a list, Mistral's mark.
_MARK = re.compile(r"(?:```(?:\w+(?=[\s{\[<]))?|<(?!think>)\|?\w+\|?>|<function=|\[TOOL_CALLS\]|\[)\s*")
_MOST_MARKS = 3
_MAY_BE_MARK = re.compile(r"`{1,2}|```\w*|<\|?\w*\|?|\[[A-Z_]*")
FENCE = rf"\s*(?:{_MARK.pattern}){{0,{_MOST_MARKS}}}"
# After no mark or one of these marks, an object of a call with a name of no tool is a call, too.
PLAIN_CALL = re.compile(r"\s*(?:```(?:json)?|<tool_call>|<function_call>|\[TOOL_CALLS\])?\s*\{")
CALL = re.compile(FENCE + r'\{\s*"name"\s*:\s*"(?P<name>[^"\\]*)"\s*,\s*"(?:arguments|parameters)"\s*:\s*')
# No two repeats of white space meet in a pattern: a match would take time with a power of the length.
_END = re.compile(r"[\s}\]]*(?:(?:```|</?\|?\w+\|?>)\s*){0,2}")
_NAME = re.compile(r'\{\s*"name"\s*:\s*"([\w-]*)(")?')
_NO_ARGUMENTS = re.compile(FENCE + r'\{\s*"name"\s*:\s*"(?P<name>[^"\\]*)"' + _END.pattern)
_MOST_CHARS = 20_000


def begun_call(text: str) -> tuple[ToolCall, str] | None:
    """The call that a text begins with, and the rest of the text; None: the text begins with other words.

    Arguments that are no JSON stay as written: the model reads what is wrong.
    """
    if (called := CALL.match(text)) is None:
        return None
    rest = text[called.end() :]
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(rest)
    except (ValueError, RecursionError):
        return ToolCall("", called["name"], rest.strip() or "?"), ""
    return ToolCall("", called["name"], as_json(value)), rest[end:]


def as_json(arguments: Any) -> str:
    """The arguments as JSON; some models write the JSON as a text within the JSON of the call."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def after_marks(text: str) -> str:
    """The text after the marks of a call; "" while a mark may go on."""
    rest = text.lstrip()
    for _ in range(_MOST_MARKS):
        if _MAY_BE_MARK.fullmatch(rest):
            return ""
        if (mark := _MARK.match(rest)) is None:
            break
        rest = rest[mark.end() :]
    return rest


def written_call(text: str, owns: Callable[[str], bool]) -> ToolCall | None:
    """The call in an answer, the first of several; None: the answer is another text."""
    if len(text) > _MOST_CHARS:
        return None
    if (alone := _NO_ARGUMENTS.fullmatch(text)) is not None and owns(alone["name"]):
        return ToolCall("", alone["name"], "{}")
    begun = begun_call(text)
    if begun is None or not owns(begun[0].name):
        return None
    end = _END.match(begun[1])
    rest = begun[1][end.end() :] if end is not None else ""
    following = _NAME.match(rest)  # another call, perhaps cut off
    return begun[0] if not rest or (following is not None and owns(following[1])) else None


def last_lines(text: str, owns_beginning: Callable[[str], bool]) -> str:
    """The text from the first line on that may be the beginning of a call.

    "." stands for a line that is no call: the line may go on. owns_beginning: as of `may_become_call`.
    """
    if len(text) > _MOST_CHARS:
        text = "." + text[-_MOST_CHARS:]
    while not may_become_call(text, owns_beginning):
        _, line_end, text = text.partition("\n")
        if not line_end:
            return "."
    return text


def names_call(text: str) -> bool:
    """Whether a text has the beginning of a call up to the name."""
    return _NAME.search(text) is not None


def may_become_call(text: str, owns_beginning: Callable[[str], bool]) -> bool:
    """Whether a text may be the beginning of a call.

    owns_beginning: whether a tool of the gateway has a name with this beginning.
    """
    rest = after_marks(text)
    if not rest.startswith("{") or len(text) > _MOST_CHARS:
        return rest == ""
    named = _NAME.match(rest)
    if named is None:
        compact = "".join(rest.split())
        return '{"name":"'.startswith(compact)
    return owns_beginning(named[1])
