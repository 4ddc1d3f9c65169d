"""Calls that a model writes as text: models without tool calls of their own answer with the JSON of a call.

Qwen2.5-Coder answers `{"name": "act_listUsers", "arguments": {}}`, fenced or bare; other models put the JSON between
`<tool_call>` tags. Such a text is a call only if the text is the whole answer and names a tool of the gateway.
"""

import re
from collections.abc import Callable

import orjson

from proxy.dialects.replies import ToolCall, json_of

_OPENINGS = ("```json", "```", "<tool_call>")
_CALL = re.compile(r"\s*(?:```(?:json)?\s*|<tool_call>\s*)?(\{.*\})\s*(?:```|</tool_call>)?\s*", re.DOTALL)
_NAME = re.compile(r'\{\s*"name"\s*:\s*"([\w-]*)(")?')
_MOST_CHARS = 20_000


def written_call(text: str, owns: Callable[[str], bool]) -> ToolCall | None:
    """The call in an answer; None: the answer is another text."""
    found = _CALL.fullmatch(text) if len(text) <= _MOST_CHARS else None
    value = json_of(found[1].encode("utf-8", "replace")) if found is not None else None
    if not isinstance(value, dict) or not isinstance(name := value.get("name"), str) or not owns(name):
        return None
    arguments = value.get("arguments", value.get("parameters", {}))
    if not isinstance(arguments, dict) or len(value) > 2:
        return None
    return ToolCall("", name, orjson.dumps(arguments).decode())


def may_become_call(text: str, owns_beginning: Callable[[str], bool]) -> bool:
    """Whether a text may be the beginning of a call.

    owns_beginning: whether a tool of the gateway has a name with this beginning.
    """
    rest = text.lstrip()
    for opening in _OPENINGS:
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
