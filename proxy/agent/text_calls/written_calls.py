"""Calls that a model writes as text: which part of an answer is a gateway tool call.

Models without native tool calls answer with a call's JSON or their template's marks. A model that is asked by tools
writes such text only if its server does not read the marks. Then the text is a call only if it begins a line and ends
the answer; template marks may begin anywhere, and no text may follow on the same line. A quote is not a call
(`quotes`).

A call is an object with the name in a member (`{"name": "act_a", "arguments": {}}`, as JSON or as Python's dict), the
name before the arguments (`act_a: {"x": 1}`, `act_a(x=1)`), or the name in a model's template marks:

    <tool_call><function=act_a><parameter=x>1</parameter></function></tool_call>       Qwen3-Coder, Seed
    <tool_call>act_a<arg_key>x</arg_key><arg_value>1</arg_value></tool_call>           GLM
    <|tool_call_begin|>functions.act_a:0<|tool_call_argument_begin|>{"x": 1}           Kimi
    <|channel|>commentary to=functions.act_a <|constrain|>json<|message|>{"x": 1}      harmony (gpt-oss)
    <|python_tag|>act_a.call(x=1)       [act_a(x=1)]                                   Llama
    [TOOL_CALLS]act_a[ARGS]{"x": 1}                                                    Mistral
    <｜tool▁call▁begin｜>function<｜tool▁sep｜>act_a\n```json\n{"x": 1}                DeepSeek
    <invoke name="act_a"><parameter name="x">1</parameter></invoke>                    MiniMax, Claude

One parser reads them all: marks, name, what is between, and arguments in one of four forms. A name between other words
is not a call.

A code block with a query is a call, too, if a tool takes one (`Tool.code`): small models write SQL and do not call.
"""

import ast
import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from proxy.agent.text_calls.quotes import BLOCK_MARK, CLOSERS, is_marked
from proxy.dialects.replies import ToolCall, json_bytes

Owns = Callable[[str], bool]

PLACES = re.compile(r"[`<\[{]|(?<![\w-])[\w-]+")  # where a call may begin
# Template marks: no person or program writes these by chance.
_TEMPLATE_TAG = (
    r"<(?:[|｜][^\n<>]{1,40}[|｜]|(?:[|｜]\w{1,20}[|｜]|[|｜/])?[\w:]{0,20}(?:tool|function|invoke|call)\w{0,20})>"
)
_NAME_TAG = r"<(?:[|｜]\w{1,20}[|｜])?[\w:]{0,20}(?:function|invoke|tool|call)\w{0,20}(?: name)?=[\"']?"
_TEMPLATE = re.compile(rf"(?:{_TEMPLATE_TAG}|{_NAME_TAG}|\[TOOL_CALLS\])\s*", re.IGNORECASE)
_MARK = re.compile(r"(?:```(?:\w+(?=[\s{\[<]))?|<(?!/?think>)/?\w+>|\[)\s*")
_MOST_MARKS = 8
_MAY_BE_MARK = re.compile(r"`{1,2}|```\w*|<[|｜]?[^\n<>{}]{0,40}|\[[A-Z_]*")
# Words that begin a line: Phi-4 mini's, and harmony's if the server has left out its marks.
_OPENING = re.compile(r"functools(?=\[)|to=functions\.")
_OPENINGS = ("functools[", "to=functions.")
_LEADS = ("assistant", "commentary", "analysis", "function", "to=functions.", "functions.", "default_api.", "call:")
_NAME = re.compile(r"[\w-]+")

_BEFORE_NAME = frozenset(
    [f"{one}:" for one in ("name", "function", "function_name", "function_call", "tool", "tool_name", "tool_call")]
    + [f"{one}:" for one in ("tool_calls", "action", "type")]
    + [f"{one}," for one in ("function", "function_call", "tool_call", "tool_use")]
)  # members, and values of `type`
_OTHER_FIRST = ("id:", "tool_call_id:", "index:", "arguments:", "parameters:", "args:")  # members before the name
_SIGNS = re.compile(r"""[\s"'`\[{]""")
_NO_OBJECT = re.compile(r"\{\s*[\[{]")
_WORDS = re.compile(r"[^:,}]+[:,}]?|[:,}]")
_MOST_BEFORE_NAME_CHARS = 300
_MOST_OBJECT_CHARS = 2_000  # read for a name after the arguments
_NAME_MEMBERS = ("name", "function", "function_name", "tool", "tool_name", "action", "recipient_name")
_INNER = ("function", "function_call", "tool_call", "tool_calls", "action")  # members that hold the call object
_ARGUMENTS = ("arguments", "parameters", "args", "kwargs", "action_input", "tool_input", "input")
_NO_ARGUMENTS = ("id", "type", "index", "tool_call_id", *_NAME_MEMBERS)  # members beside the arguments
_MEMBERS = frozenset((*_ARGUMENTS, *_INNER, *_NO_ARGUMENTS))
_GIVEN = re.compile(r'"?[{(]')
_MOST_LEVELS = 4

_PLAIN_BETWEEN = re.compile(r"[`\"'*>: \n]{0,8}(?:Action Input:)?[`\"'*>: \n]{0,8}(?:json\n)?[`\"'*>: \n]{0,8}")
_TEMPLATE_BETWEEN = re.compile(
    r"(?:[`\"'*>:\s]|\d+|\.call(?=\()|commentary|analysis|json|code|\[(?:ARGS|CALL_ID)\]|(?<=\[CALL_ID\])\w+"
    r"|<[|｜][^\n<>]{1,40}[|｜]>){0,20}"
)
_PLAIN_WORDS = ("Action Input:", "json\n")
_TEMPLATE_WORDS = ("commentary", "analysis", "json", "code", ".call(")
_NAMED_ARGUMENTS = re.compile(r"""\(\s*(?:[{"']|\w+\s*=(?!=))""")
_MAY_BE_NAMED_ARGUMENTS = re.compile(r"\(\s*(?:\w+\s*=?)?")
_ELEMENT = re.compile(r"<(?:[|｜]\w+[|｜])?/?[\w:]*(?:arg_key|arg_value|param|arg)\w*[\s=>]")
_MAY_BE_ELEMENT = re.compile(r"<[^\n<>]{0,40}")
_CLOSING = re.compile(r"</|<[|｜]|[`\]]")
_PARAMETER = re.compile(
    r"<(?P<tag>(?:[|｜]\w+[|｜])?[\w:]*param\w*)\s*(?:\sname\s*)?=\s*[\"']?(?P<name>[^\"'<>\s]+)[\"']?[^<>]*>"
    r"(?P<value>.*?)(?:</(?:[|｜]\w+[|｜])?[\w:]*param\w*>|(?=<(?:[|｜]\w+[|｜])?/?[\w:]*(?:param|function|invoke))|\Z)"
    r"|<(?P<kind>\w*)arg_key>(?P<key>.*?)</\w*arg_key>\s*<\w*arg_value>(?P<given>.*?)(?:</\w*arg_value>|\Z)",
    re.DOTALL,
)
_QUOTATION_MARK = re.compile(r'<escape>|<\|"\|>')  # FunctionGemma's and Gemma's
_BARE_MEMBER = re.compile(r"([{,]\s*)([A-Za-z_]\w*)\s*:")
_BLOCK = re.compile(r"\s*(?P<opening>```(?P<language>\w+))[ \t]*\n(?:\s+|--[^\n]*\n)*")
_COMMENT = re.compile(r"-|--[^\n]*")
_WORD_END = re.compile(r"\W")
_QUERY_WORDS = ("select", "with")
_BRACKETS = re.compile(r"\\.|[\"'(){}\[\]]", re.DOTALL)
_WORDS_OF_JSON = {"true": True, "false": False, "null": None}
_MOST_CHARS = 20_000


class SpelledCall(NamedTuple):
    """A call that begins a text."""

    call: ToolCall  # of a code block: with the block's opening for a name
    end: int  # where the call's text ends
    template: bool  # in a model's template marks
    further: bool  # an object with members that a call does not have


class _Head(NamedTuple):
    """Marks that begin a text."""

    rest: str  # after the marks; "": they may go on
    template: bool = False
    listed: bool = False  # the last mark is a list's bracket


def _head(text: str) -> _Head:
    rest, template, listed = text.lstrip(), False, False
    for _ in range(_MOST_MARKS):
        if template and (led := _after_lead(rest)) != rest:
            rest = led
        elif mark := _TEMPLATE.match(rest) or (None if listed else _OPENING.match(rest)):
            rest, template, listed = rest[mark.end() :], True, False
        elif not _MAY_BE_MARK.fullmatch(rest) and (mark := _MARK.match(rest)):
            rest, listed = rest[mark.end() :], mark[0].startswith("[")
        else:
            break
    goes_on = _MAY_BE_MARK.fullmatch(rest) or any(one.startswith(rest) for one in _OPENINGS)
    return _Head("" if goes_on else rest, template, listed)


def after_marks(text: str) -> str:
    """The text after a call's marks; "" while a mark may go on."""
    return _head(text).rest


def _after_lead(rest: str) -> str:
    """The text after a word that precedes names in templates; "": the word may go on."""
    for word in _LEADS:
        if rest.startswith(word) and (not word[-1].isalpha() or not rest[len(word) : len(word) + 1].isalnum()):
            return rest[len(word) :].lstrip()
        if rest and word.startswith(rest):
            return ""
    return rest


def begins_call(text: str, owns: Owns, owns_beginning: Owns) -> bool | None:
    """Whether a text, from one of the PLACES on, begins with a call; None: not clear until it goes on.

    owns: whether a gateway tool has this name; owns_beginning: a name that begins like this.
    """
    block = _BLOCK.match(text)
    if block is not None and owns(block["opening"]):
        return _is_query(text[block.end() :])
    head = _head(text)
    if head.rest[:1] in ("", "[", "{"):
        return _is_object_call(head.rest, owns, owns_beginning)
    named = _NAME.match(head.rest)
    if named is None:
        return False
    return _is_named_call(named[0], head.rest[named.end() :], head, owns, owns_beginning)


def _is_query(code: str) -> bool | None:
    if _COMMENT.fullmatch(code):
        return None
    word = _WORD_END.split(code.lower(), maxsplit=1)[0]
    if len(word) < len(code):
        return word in _QUERY_WORDS
    return None if any(one.startswith(word) for one in _QUERY_WORDS) else False


def in_template(text: str) -> bool:
    """Whether a text begins with a mark of a model's template."""
    return _head(text).template


def _is_object_call(text: str, owns: Owns, owns_beginning: Owns) -> bool | None:
    words = _WORDS.findall(_SIGNS.sub("", text[:_MOST_BEFORE_NAME_CHARS]))
    if _NO_OBJECT.match(text):
        return False
    members = 0
    for word in words:
        if word in _OTHER_FIRST:
            return _has_name(text, owns)
        if word in _BEFORE_NAME:
            members += 1
        elif word[-1] in ":,}":
            return members > 0 and word[-1] != ":" and owns(word[:-1])
        else:
            begun = any(one.startswith(word) for one in (*_BEFORE_NAME, *_OTHER_FIRST))
            return None if begun or owns_beginning(word) else False
    return None if len(text) < _MOST_BEFORE_NAME_CHARS else False


def _has_name(text: str, owns: Owns) -> bool | None:
    """Whether an object that begins with other members has a tool's name."""
    value, end = _decoded(text[:_MOST_OBJECT_CHARS])
    if end:
        return _of_object(value, owns, 0) is not None
    return None if len(text) < _MOST_OBJECT_CHARS else False


def _is_named_call(name: str, rest: str, head: _Head, owns: Owns, owns_beginning: Owns) -> bool | None:
    if not rest:
        return None if owns_beginning(name) else False
    if not owns(name):
        return False
    if rest.startswith("("):
        if head.template or head.listed:
            return True if len(rest) > 1 else None
        may_be = _MAY_BE_NAMED_ARGUMENTS.fullmatch(rest) is not None
        return True if _NAMED_ARGUMENTS.match(rest) else None if may_be else False
    between = (_TEMPLATE_BETWEEN if head.template else _PLAIN_BETWEEN).match(rest)
    after = rest[between.end() if between else 0 :]
    if not after or any(one.startswith(after) for one in (_TEMPLATE_WORDS if head.template else _PLAIN_WORDS)):
        return None
    if after.startswith("{") or not head.template:
        return after.startswith("{")
    if after.startswith("(") or _ELEMENT.match(after) or _CLOSING.match(after):
        return True
    return None if _MAY_BE_ELEMENT.fullmatch(after) or _MAY_BE_MARK.fullmatch(after) else False


def cut_call(text: str, owns_beginning: Owns) -> bool:
    """Whether a text that ends here begins a call: an object, or in template marks."""
    ends = ('"}', "</>") if in_template(text) else ('"}',)
    return any(begins_call(text + end, owns_beginning, owns_beginning) is True for end in ends)


def spelled_call(text: str, owns: Owns) -> SpelledCall | None:
    """The call that a text begins with; None: it begins with other words.

    Arguments that cannot be read stay as written: the model reads the fault.
    """
    if (block := _BLOCK.match(text)) is not None and owns(block["opening"]):
        return _block_call(text, block)
    head = _head(text)
    at = len(text) - len(head.rest)
    if not head.rest:
        return None
    if head.rest[0] not in "{[":
        call, end = _named_call(head.rest, owns)
        return None if call is None else SpelledCall(call, at + end, head.template, further=False)
    value, end = _decoded(head.rest)
    if not end:
        call = _cut_object_call(head.rest, owns)
        return None if call is None else SpelledCall(call, len(text), head.template, further=False)
    call = _of_object(value, owns, 0)
    further = isinstance(value, dict) and not value.keys() <= _MEMBERS
    return None if call is None else SpelledCall(call, at + end, head.template, further)


def _block_call(text: str, block: re.Match[str]) -> SpelledCall | None:
    """The call in a code block. block: its beginning."""
    end = text.find(BLOCK_MARK, block.end())
    if end < 0 or not _is_query(text[block.end() :]):
        return None
    arguments = {block["language"]: text[block.end("opening") : end].strip()}
    call = ToolCall("", block["opening"], json.dumps(arguments))
    return SpelledCall(call, end + len(BLOCK_MARK), template=False, further=False)


def _cut_object_call(text: str, owns: Owns) -> ToolCall | None:
    """The call in an object that is cut off or not JSON."""
    named = next((one for one in _NAME.finditer(text[:_MOST_OBJECT_CHARS]) if owns(one[0])), None)
    if named is None:
        return None
    given = _GIVEN.search(text, named.end())
    rest = text[given.start() if given else named.end() :].strip()
    return ToolCall("", named[0], rest if rest.strip("\"'`}], \n") else "{}")


def _of_object(value: Any, owns: Owns, level: int) -> ToolCall | None:
    """The call in a decoded object, or in a list's first element."""
    if isinstance(value, list):
        value = value[0] if value else None
    if not isinstance(value, dict) or level > _MOST_LEVELS:
        return None
    name = next((value[one] for one in _NAME_MEMBERS if isinstance(value.get(one), str) and owns(value[one])), None)
    if name is None:
        inner = (_of_object(value[one], owns, level + 1) for one in _INNER if one in value)
        return next(filter(None, inner), None)
    given = next((value[one] for one in _ARGUMENTS if one in value), None)
    if given is None:
        given = {one: each for one, each in value.items() if one not in _NO_ARGUMENTS}
    return ToolCall("", name, as_json(given))


def _named_call(text: str, owns: Owns) -> tuple[ToolCall | None, int]:
    named = _NAME.match(text)
    if named is None or not owns(named[0]):
        return None, 0
    name, at = named[0], named.end()
    between = max(found.end() for one in (_PLAIN_BETWEEN, _TEMPLATE_BETWEEN) if (found := one.match(text, at)))
    if text.startswith("(", at) or text.startswith("(", between):
        return _python_call(name, text, text.index("(", at))
    if (given := text[between : between + 1]) == "{":
        value, end = _decoded(text[between:])
        if end and isinstance(value, dict):
            return ToolCall("", name, as_json(value)), between + end
        return ToolCall("", name, text[between:].strip()), len(text)
    if given == "<" and _ELEMENT.match(text, between):
        return _element_call(name, text, between)
    return ToolCall("", name, "{}"), between


def _element_call(name: str, text: str, at: int) -> tuple[ToolCall, int]:
    """A call whose arguments are elements: each value is text, which `typed` reads by the schema."""
    values: dict[str, str] = {}
    end = at
    for one in _PARAMETER.finditer(text, at, at + _MOST_CHARS):
        key, value = (one["name"], one["value"]) if one["key"] is None else (one["key"], one["given"])
        if text[end : one.start()].strip() and values:
            break
        values[key.strip()] = value.removeprefix("\n").removesuffix("\n")
        end = one.end()
    return ToolCall("", name, json.dumps(values)), end


def _python_call(name: str, text: str, at: int) -> tuple[ToolCall, int]:
    """A call with its arguments in parentheses, as in Python, or as one object."""
    end = _balanced(text, at)
    inner = text[at + 1 : end - text.startswith(")", end - 1)]
    value, used = _decoded(inner.strip())
    if used and isinstance(value, dict) and not inner.strip()[used:].strip():
        return ToolCall("", name, as_json(value)), end
    with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError, TypeError):
        called = ast.parse(f"f({inner.strip()})", mode="eval").body
        if isinstance(called, ast.Call) and not called.args and all(one.arg for one in called.keywords):
            values = {str(one.arg): _literal(one.value) for one in called.keywords}
            return ToolCall("", name, json.dumps(values, allow_nan=False)), end
    return ToolCall("", name, inner or "{}"), end


def _literal(node: ast.expr) -> Any:
    """A literal's value. Raises ValueError."""
    if isinstance(node, ast.Name) and node.id in _WORDS_OF_JSON:
        return _WORDS_OF_JSON[node.id]
    return ast.literal_eval(node)


def _decoded(text: str) -> tuple[Any, int]:
    """The value, in JSON or Python, that a text begins with, and where it ends; 0: none."""
    with contextlib.suppress(ValueError, RecursionError):
        return json.JSONDecoder(strict=False).raw_decode(text)
    end = _balanced(text, 0)
    if not text.startswith(("{", "[")) or not end or text[end - 1] not in "}]":
        return None, 0
    for written in (text[:end], _BARE_MEMBER.sub(r'\1"\2":', _QUOTATION_MARK.sub('"', text[:end]))):
        with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError, TypeError):
            value = ast.literal_eval(written)
            json.dumps(value, allow_nan=False)  # sets, bytes and the like cannot be arguments
            return value, end
    return None, 0


def _balanced(text: str, at: int) -> int:
    """Where brackets that open at a place close; if they do not, the text's end."""
    open_brackets, quote = 0, ""
    for one in _BRACKETS.finditer(text, at, at + _MOST_CHARS):
        sign = one[0]
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in "({[":
            open_brackets += 1
        elif sign in ")}]":
            open_brackets -= 1
            if open_brackets <= 0:
                return one.end()
    return len(text)


def as_json(arguments: Any) -> str:
    """Arguments as JSON; some models write them as a string within the call's JSON."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def example(name: str, arguments: Mapping[str, Any] | str = "{}") -> str:
    """A call as text. arguments: a text for what the model wrote, JSON or not."""
    if not isinstance(arguments, str):
        try:
            arguments = json_bytes(arguments).decode()
        except RecursionError:  # no call can send these
            arguments = "{}"
    return f'{{"name": "{name}", "arguments": {arguments}}}'


def typed(call: ToolCall, fits: Callable[[str, Any], bool]) -> ToolCall:
    """The call with text arguments turned into values if only these fit: 7 for "7".

    fits: whether the schema accepts a value for an argument.
    """
    with contextlib.suppress(ValueError, RecursionError):
        given = json.loads(call.arguments)
        if isinstance(given, Mapping):
            values = {name: _typed(name, one, fits) for name, one in given.items()}
            if values != given:
                return ToolCall(call.id, call.name, json.dumps(values), call.custom)
    return call


def _typed(name: str, value: Any, fits: Callable[[str, Any], bool]) -> Any:
    if not isinstance(value, str) or fits(name, value):
        return value
    return next((one for one in _values(value.strip()) if fits(name, one)), value)


def _values(text: str) -> Iterator[Any]:
    with contextlib.suppress(ValueError, RecursionError):
        yield json.loads(text)
    with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError, TypeError):
        yield ast.literal_eval(text)


_MOST_TEXT_CHARS = 20_000
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
    if found.call.name.startswith(BLOCK_MARK):  # what is said before a query is no sign: "the query that shows …"
        before = before.rpartition("\n")[2]
    return is_marked(before, text[: found.end], text[found.end :]) or stands(found.call)


def written_call(text: str, before: str, owns: Owns, stands: Stands = stands_nowhere) -> LineCall | None:
    """The call that ends an answer, the first of several; None: the answer is other text.

    text: as in `last_lines`. before: the answer before it.
    """
    begun = begins_call(text, owns, owns)
    if len(text) > _MOST_TEXT_CHARS or begun is False:
        return None
    if begun is None and after_marks(text)[:1].isalpha() and not in_template(text):  # a name alone
        return None
    found = spelled_call(text, owns)
    if found is None or found.further:
        return None
    after = text[found.end :]
    closers = CLOSERS.match(after)
    rest = after[closers.end() if closers else 0 :]
    words_may_follow = found.template or found.call.name.startswith(BLOCK_MARK)
    if rest and begins_call(rest, owns, owns) is False and not (words_may_follow and "\n" in after[: -len(rest)]):
        return None
    if is_quote(found, before, text, stands):
        return None
    return LineCall(found.call, found.template)


def last_lines(text: str, owns: Owns, owns_beginning: Owns) -> str:
    """The text from the first place on that may begin a call: a line, or a template mark.

    "." stands for a line that is not a call but may go on. owns_beginning: as in `begins_call`.
    """
    if len(text) > _MOST_TEXT_CHARS:
        text = "." + text[-_MOST_TEXT_CHARS:]
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
    return len(text) <= _MOST_TEXT_CHARS and (not text.strip() or begins_call(text, owns, owns_beginning) is not False)
