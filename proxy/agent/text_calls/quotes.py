"""Whether a call's text is a call or only a quote.

A document, an API or a mail can hold a call's text, and a model that shows it to a person calls nothing. So the text is
a quote if the call occurs word for word in the conversation, white space, escapes and member order aside, or if the
answer itself marks it as a quote.
"""

import html
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote

from proxy.dialects.replies import ToolCall

BLOCK_MARK = "```"  # begins the name of a call that is a code block
CLOSERS = re.compile(r"(?:[\s}\]),;]+|```|</?[|｜]?[^\n<>{}\"']{1,40}>){0,40}")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_WHITE = {"n": "\n", "r": "\r", "t": "\t", "b": " ", "f": " "}
_MOST_ESCAPES = 6  # of a text in a text in a text
_WORD = re.compile(r"\w+")
_LEAST_WINDOW_CHARS = 400  # around the name, for its arguments; longer arguments have more
_MOST_PLACES = 200  # of a name in one text
_MOST_LEVELS = 20
# Signs before and after a name in a call's text. A name in plain words is not a call.
_CALL_BEFORE = re.compile(
    r"(?:(?:name|function|tool|action|call|invoke|type)\w*\W{1,8}|[<=>\]}.:]\W{0,2})(?:functions\.)?$", re.IGNORECASE
)
_CALL_AFTER = re.compile(r"\W{0,3}\(|\W{0,8}\{|\W{0,3}<")

_BLOCK_QUOTE = re.compile(r"\s*(?:[-*+]\s+|\d+\.\s+)?(?:>|\|)")
_FENCE = re.compile(r"^(?P<before>[ \t>]*)(?P<fence>`{3,}|~{3,})(?P<info>[^`\n]*)$", re.MULTILINE)
_PAIRS = ("“”", "„“", "«»", "‹›", "「」", "『』")
_SENTENCE_END = re.compile(r"[.!?。！？]\s+|(?<![:：\n])\n")
_OPENING = re.compile(r"[\s`~*_\"'(\[{]+$")
_MOST_SENTENCE_CHARS = 300
# Sentences in which a model speaks of its own call.
_OWN = re.compile(
    r"(?i)\b(?:i will|i'll|i’ll|i am going to|i'm going to|let me|let's|let’s|we will|we'll|i need to|i have to|i can"
    r"|i should|i must|ich werde|ich rufe|lass mich|je vais|voy a)\b|^\W*(?:to|um|pour|para)\s"
)
_OTHERS = re.compile(
    r"(?i)\b(?:wr(?:ote|ites?|itten)|sa(?:ys?|id)|reads|stat(?:es?|ed)|contain(?:s|ed|ing)|holds|has|had"
    r"|quot(?:es?|ed|ing)|ask(?:s|ed)|sent|sends|repl(?:y|ies|ied)|answer(?:s|ed)|mention(?:s|ed)|show(?:s|ed|n)|displays"
    r"|includes|told|tells|post(?:s|ed)|pasted|report(?:s|ed)|e\.g|for example|for instance|an? example|such as"
    r"|looks? like"
    r"|(?:second|first|third|last|next|following|this|that|the) (?:line|note|mail|e-?mail|message|document|passage|page"
    r"|text|comment|title|description|field|file|result|letter|ticket|review|sentence|paragraph|value|entry|record)"
    r"|user|person|customer|author|sender|line|note|quote|verbatim|literally"
    r"|schr(?:ieb|eibt)|sagt|sagte|steht|lautet|enthält|zeile|notiz|nachricht|beispiel|kunde|nutzer|benutzer"
    r"|écrit|dit|contient|exemple|ligne|message|escribió|dice|contiene|ejemplo|línea|nota)\b"
)


def stands_in(call: ToolCall, texts: Iterable[str]) -> bool:
    """Whether one of these texts has the call, in any spelling, with all its argument words near its name."""
    if call.name.startswith(BLOCK_MARK):  # the code itself stands there
        code = "".join(plain(" ".join(json.loads(call.arguments).values())).split())
        return any(code in "".join(plain(text).split()) for text in texts)
    words = _words(plain(" ".join(_leaves(call.arguments))))
    window = max(_LEAST_WINDOW_CHARS, 4 * len(call.arguments))
    named = re.compile(rf"(?<![\w-]){re.escape(call.name.casefold())}(?![\w-])")
    return any(_has_call(plain(text), named, words, window) for text in texts)


def _has_call(text: str, named: re.Pattern[str], words: set[str], window: int) -> bool:
    for number, one in enumerate(named.finditer(text)):
        if number >= _MOST_PLACES:
            break
        before = text[max(0, one.start() - 40) : one.start()]
        called = _CALL_BEFORE.search(before) or _CALL_AFTER.match(text, one.end())
        if not called or (words and not _near(text, one, words, window)):
            continue
        return True
    return False


def _near(text: str, name: re.Match[str], words: set[str], window: int) -> bool:
    return words <= _words(text[max(0, name.start() - window) : name.end() + window])


def _words(text: str) -> set[str]:
    """Words; JSON's null is Python's None."""
    return {"null" if word == "none" else word for word in _WORD.findall(text)}


def _leaves(arguments: str) -> Iterator[str]:
    """Argument names and values; if they are cut off, their text without its last word."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        yield re.sub(r"\w+\W*$", "", arguments)
        return
    yield from _parts(value, 0)


def _parts(value: Any, level: int) -> Iterator[str]:
    if level > _MOST_LEVELS:
        return
    if isinstance(value, dict):
        for name, one in value.items():
            yield name
            yield from _parts(one, level + 1)
    elif isinstance(value, list):
        for one in value:
            yield from _parts(one, level + 1)
    else:
        yield value if isinstance(value, str) else json.dumps(value)


def plain(text: str) -> str:
    """Text in small letters without JSON, HTML and URL escapes, however often it was escaped."""
    for _ in range(_MOST_ESCAPES):
        before = text
        if "\\" in text:
            text = _ESCAPE.sub(_unescaped, text)
        if "&" in text:
            text = html.unescape(text)
        if "%" in text:
            text = unquote(text)
        if text == before:
            break
    if not text.isascii():
        text = "".join(one for one in unicodedata.normalize("NFKC", text) if unicodedata.category(one) != "Cf")
    return text.casefold()


def _unescaped(one: re.Match[str]) -> str:
    if one[1]:
        return chr(int(one[1], 16))
    return _WHITE.get(one[2], one[2])


def is_marked(before: str, text: str, after: str) -> bool:
    """Whether an answer marks a call's text as a quote. before, after: the answer around it.

    Marks are a block quote, quotation marks, a code block with other lines, a sentence about what somebody wrote, and a
    sentence that goes on after the text.
    """
    line = before.rpartition("\n")[2]
    if _BLOCK_QUOTE.match(line) or _in_quotation_marks(line) or _in_code(before, text):
        return True
    closers = CLOSERS.match(after)
    rest = after[closers.end() if closers else 0 :]
    goes_on = "\n" not in after[: len(after) - len(rest)] and rest.strip() != ""
    return (goes_on and re.search(r"\w", line) is not None) or _is_said(before)


def _in_quotation_marks(line: str) -> bool:
    if line.count('"') % 2 or line.endswith(("'", "‘", "‚")) or (line.lstrip()[:1] == "'" and line.count("'") % 2):
        return True
    return any(line.count(pair[0]) > line.count(pair[1]) for pair in _PAIRS)


def _in_code(before: str, text: str) -> bool:
    """Whether a text is in a code block after other lines, or in a quoted block."""
    opened: re.Match[str] | None = None
    for one in _FENCE.finditer(before):
        if opened is None:
            opened = one
        elif _closes(one, opened):
            opened = None
    if opened is None or ((first := _FENCE.match(text.lstrip())) and _closes(first, opened)):
        return False
    return before[opened.end() :].strip() != "" or ">" in opened["before"]


def _closes(fence: re.Match[str], opened: re.Match[str]) -> bool:
    return fence["fence"].startswith(opened["fence"]) and not fence["info"].strip()


def _is_said(before: str) -> bool:
    """Whether the sentence before the text speaks of what somebody wrote."""
    lead = _OPENING.sub("", before[-2 * _MOST_SENTENCE_CHARS :])
    if not lead or lead[-1] in ".!?。！？":
        return False
    sentence = _SENTENCE_END.split(lead)[-1][-_MOST_SENTENCE_CHARS:]
    return _OTHERS.search(sentence) is not None and _OWN.search(sentence) is None
