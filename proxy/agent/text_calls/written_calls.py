"""Calls that a model writes as text: which part of an answer is a gateway tool call.

Models without native tool calls answer with a call's JSON or their template's marks (`spelled_calls`). A model that is
asked by tools writes such text only if its server does not read the marks. Then the text is a call only if it begins a
line and ends the answer; template marks may begin anywhere, and no text may follow on the same line. A quote is not a
call (`quotes`).
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from proxy.agent.text_calls.quotes import is_marked
from proxy.agent.text_calls.spelled_calls import (
    CLOSERS,
    Owns,
    SpelledCall,
    after_marks,
    begins_call,
    in_template,
    spelled_call,
)
from proxy.dialects.replies import ToolCall

_MOST_CHARS = 20_000
_BEGINNING = re.compile(r'\{\s*"name"\s*:\s*"[\w-]*')

Stands = Callable[[ToolCall], bool]  # whether a call occurs word for word in the conversation


def stands_nowhere(_call: ToolCall) -> bool:
    """For a conversation without texts."""
    return False


class LineCall(NamedTuple):
    """A call that begins a line in an answer."""

    call: ToolCall
    template: bool  # in a model's template marks


def is_quote(found: SpelledCall, before: str, text: str, stands: Stands) -> bool:
    """Whether a call's text is a quote. before: the answer before it. text: from the call on."""
    return is_marked(before, text[: found.end], text[found.end :]) or stands(found.call)


def written_call(text: str, before: str, owns: Owns, stands: Stands = stands_nowhere) -> LineCall | None:
    """The call that ends an answer, the first of several; None: the answer is other text.

    text: as in `last_lines`. before: the answer before it.
    """
    begun = begins_call(text, owns, owns)
    if len(text) > _MOST_CHARS or begun is False:
        return None
    if begun is None and after_marks(text)[:1].isalpha() and not in_template(text):  # a name alone
        return None
    found = spelled_call(text, owns)
    if found is None or found.further:
        return None
    after = text[found.end :]
    closers = CLOSERS.match(after)
    rest = after[closers.end() if closers else 0 :]
    if rest and begins_call(rest, owns, owns) is False and (not found.template or "\n" not in after[: -len(rest)]):
        return None
    if is_quote(found, before, text, stands):
        return None
    return LineCall(found.call, found.template)


def last_lines(text: str, owns: Owns, owns_beginning: Owns) -> str:
    """The text from the first place on that may begin a call: a line, or a template mark.

    "." stands for a line that is not a call but may go on. owns_beginning: as in `begins_call`.
    """
    if len(text) > _MOST_CHARS:
        text = "." + text[-_MOST_CHARS:]
    for place in _places(text):
        if may_become_call(text[place:], owns, owns_beginning) and (
            place == 0 or text[place - 1] == "\n" or in_template(text[place:]) or _may_be_template(text[place:])
        ):
            return text[place:]
    return "."


def _places(text: str) -> Iterator[int]:
    """Where a call may begin, each once."""
    begins_line = True
    for at, sign in enumerate(text):
        if begins_line or sign == "<" or (sign == "[" and "[TOOL_CALLS]".startswith(text[at : at + 12])):
            yield at
        begins_line = sign == "\n"
    if begins_line:
        yield len(text)


def _may_be_template(text: str) -> bool:
    return "\n" not in text and ">" not in text and len(text) < 60


def names_call(text: str) -> bool:
    """Whether a text has a call's beginning, up to its name."""
    return _BEGINNING.search(text) is not None


def may_become_call(text: str, owns: Owns, owns_beginning: Owns) -> bool:
    """Whether a text may begin a call."""
    return len(text) <= _MOST_CHARS and (not text.strip() or begins_call(text, owns, owns_beginning) is not False)
