"""Calls that a model writes as text: models without tool calls of their own answer with the JSON of a call.

Qwen2.5-Coder answers `{"name": "act_listUsers", "arguments": {}}`, fenced or bare; other models put the JSON between
`<tool_call>` tags. Such a text is a call only if the answer has no other words, and names a tool of the gateway.
"""

import json
import re
from collections.abc import Callable

from proxy.dialects.replies import ToolCall

OPENINGS = ("```json", "```", "<tool_call>", "[TOOL_CALLS]", "<function_call>", "<function=")
FENCE = r"\s*(?:```(?:json)?\s*|<tool_call>\s*|<function_call>\s*|\[TOOL_CALLS\]\s*)?"
CALL = re.compile(FENCE + r'\{\s*"name"\s*:\s*"(?P<name>[^"\\]*)"\s*,\s*"(?:arguments|parameters)"\s*:\s*')
# No two repeats of white space meet in a pattern: a match would take time with a power of the length.
_END = re.compile(r"[\s}]*(?:(?:```|</tool_call>)\s*)?")
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
    return ToolCall("", called["name"], json.dumps(value)), rest[end:]


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


def names_call(text: str) -> bool:
    """Whether a text has the beginning of a call up to the name."""
    return _NAME.search(text) is not None


def may_become_call(text: str, owns_beginning: Callable[[str], bool]) -> bool:
    """Whether a text may be the beginning of a call.

    owns_beginning: whether a tool of the gateway has a name with this beginning.
    """
    rest = text.lstrip()
    for opening in OPENINGS:
        if opening.startswith(rest):  # "" too
            return True
        if rest.startswith(opening):
            rest = rest.removeprefix(opening).lstrip()
            break
    if not rest.startswith("{") or len(text) > _MOST_CHARS:
        return rest == ""
    named = _NAME.match(rest)
    if named is None:
        compact = "".join(rest.split())
        return '{"name":"'.startswith(compact)
    return owns_beginning(named[1])
