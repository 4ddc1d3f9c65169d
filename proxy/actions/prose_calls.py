"""Calls between the words of an answer, by models that are asked by text.

A call is the name of a tool of the gateway before the arguments (`act_a: {"x": 1}`, `act_a(x=1)`), or an object with
the name at the beginning, in a member in which models write names, with quotes of JSON or of Python:
`{"type": "function", "function": {"name": "act_a"`. A name between other words is no call.
"""

import json
import re
from collections.abc import Callable

from proxy.actions.written_calls import after_marks, as_json, begun_call
from proxy.dialects.replies import ToolCall

Owns = Callable[[str], bool]

PLACES = re.compile(r"[`<\[{]|(?<![\w-])[\w-]+")  # where a call may begin
_BEFORE_NAME = frozenset(
    [f"{one}:" for one in ("name", "function", "function_name", "function_call", "tool", "tool_name", "tool_call")]
    + [f"{one}:" for one in ("tool_calls", "action", "type")]
    + [f"{one}," for one in ("function", "function_call", "tool_call", "tool_use")]
)  # members, and values of `type`
_SIGNS = re.compile(r"""[\s"'\[{]""")
_WORDS = re.compile(r"[^:,}]+[:,}]?|[:,}]")
_MOST_BEFORE_NAME_CHARS = 300
_NAME = re.compile(r"[\w-]+")
_NAMED_ARGUMENTS = re.compile(r"""\(\s*(?:[{"']|\w+\s*=(?!=))""")
_MAY_BE_NAMED_ARGUMENTS = re.compile(r"\(\s*(?:\w+\s*=?)?")
_NO_ARGUMENTS = ("id", "type", "index")  # members beside the name of a call
_BETWEEN = "`\"'*>: \n"  # characters between a name and the arguments
_MOST_BETWEEN_CHARS = 8
_ARGUMENTS = re.compile(r'"?\{')


def begins_call(text: str, owns: Owns, owns_beginning: Owns) -> bool | None:
    """Whether a text, from one of the PLACES on, begins with a call; None: not clear before the text goes on.

    owns: whether a tool of the gateway has this name; owns_beginning: a name with this beginning.
    """
    rest = after_marks(text)
    if rest[:1] in ("", "[", "{"):
        return _is_object_call(rest, owns, owns_beginning)
    named = _NAME.match(rest)
    return named is not None and _is_named_call(named[0], rest[named.end() :], owns, owns_beginning)


def _is_object_call(text: str, owns: Owns, owns_beginning: Owns) -> bool | None:
    members = 0
    for word in _WORDS.findall(_SIGNS.sub("", text[:_MOST_BEFORE_NAME_CHARS])):
        if word in _BEFORE_NAME:
            members += 1
        elif word[-1] in ":,}":
            return members > 0 and word[-1] != ":" and owns(word[:-1])
        else:
            return None if any(one.startswith(word) for one in _BEFORE_NAME) or owns_beginning(word) else False
    return None if len(text) < _MOST_BEFORE_NAME_CHARS else False


def _is_named_call(name: str, rest: str, owns: Owns, owns_beginning: Owns) -> bool | None:
    if not rest:
        return None if owns_beginning(name) else False
    if not owns(name):
        return False
    if rest.startswith("("):
        may_be = _MAY_BE_NAMED_ARGUMENTS.fullmatch(rest) is not None
        return True if _NAMED_ARGUMENTS.match(rest) else None if may_be else False
    after = rest.lstrip(_BETWEEN)
    if len(rest) - len(after) > _MOST_BETWEEN_CHARS:
        return False
    for words in ("Action Input:", "json\n"):
        if words.startswith(after):  # "" too
            return None
        after = after.removeprefix(words).lstrip(_BETWEEN)
    return after.startswith("{") if after else None


def cut_call(text: str, owns_beginning: Owns) -> bool:
    """Whether a text that ends here is the beginning of an object with a call."""
    return begins_call(text + '"}', owns_beginning, owns_beginning) is True


def call_of(text: str, owns: Owns) -> ToolCall | None:
    """The call at the beginning of a text. Other arguments than JSON stay as written: the model reads the fault."""
    if (begun := begun_call(text)) is not None:
        return begun[0]
    named = next((one for one in _NAME.finditer(text) if owns(one[0])), None)
    if named is None:
        return None
    rest = text[named.end() :]
    if rest.startswith("(") and not rest[1:].lstrip().startswith("{"):
        return ToolCall("", named[0], rest[1:].partition(")")[0])
    given = _ARGUMENTS.search(rest)
    if given is None or "}" in rest[: given.start()]:  # the object of the call has ended before
        return ToolCall("", named[0], _members_after(rest))
    try:
        value, _ = json.JSONDecoder(strict=False).raw_decode(rest[given.start() :])
    except (ValueError, RecursionError):
        return ToolCall("", named[0], rest[given.start() :].strip())
    return ToolCall("", named[0], as_json(value))


def _members_after(rest: str) -> str:
    """The members after the name, which are the arguments in a call such as `{"name": "act_a", "x": 1}`."""
    text = "{" + rest.lstrip("\"'").lstrip(", \n")
    try:
        value, _ = json.JSONDecoder(strict=False).raw_decode(text)
    except (ValueError, RecursionError):
        return "{}"
    return json.dumps({name: one for name, one in value.items() if name not in _NO_ARGUMENTS})
