"""Questions with their answers: a pair is a chunk of its own, and every part of a long answer carries its question.

A pair is a section whose heading is a question, or what stands from a line "Q: …" with a line "A: …" under it to the
next such line. Two pairs in one chunk would be found less well by either question.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from retrieval.attributes import bare
from retrieval.errors import Unreadable, UnreadableRights
from retrieval.ingest.chunking.blocks import plain
from retrieval.ingest.chunking.sections import Section, holding, within

# "Q: ", "**Question 3:** ", "- Q:", "### Q1:"
_MARKER = (
    r"^[^\S\n]*+(?:(?:[-*+>]|\#{{1,6}})[^\S\n]++)?"
    r"[*_]{{0,3}}(?:{words})[^\S\n]?\d{{0,4}}[*_]{{0,3}}[:：][*_]{{0,3}}"
)
_QUESTION = re.compile(
    _MARKER.format(words="Q|Question|Frage|Pregunta|Pergunta|Domanda|Вопрос|问|問|问题|質問") + r"[^\S\n]*+(\S[^\n]*)",
    re.MULTILINE | re.IGNORECASE,
)
_ANSWER = re.compile(
    _MARKER.format(words="A|Answer|R|Antwort|Respuesta|Réponse|Resposta|Risposta|Ответ|答|答案|回答"),
    re.MULTILINE | re.IGNORECASE,
)
_QUESTION_MARKS = ("?", "？", "؟")
_QUESTION_KEYS = ("question", "q", "prompt", "query")
_ANSWER_KEYS = ("answer", "a", "response", "reply")
_KEYED = tuple(
    re.compile(rb'"(?:' + "|".join(keys).encode() + rb')"\s*:', re.IGNORECASE)
    for keys in (_QUESTION_KEYS, _ANSWER_KEYS)
)


def pairs(text: str, sections: Sequence[Section]) -> list[Section]:
    """`sections` with each question and its answer as a section of its own; they cover the same text."""
    found: list[Section] = []
    for section in sections:
        if section.level and section.headings and section.headings[-1].endswith(_QUESTION_MARKS):
            found.append(replace(section, alone=True))
        else:
            found += _split(text, section)
    return found


def _split(text: str, section: Section) -> Iterator[Section]:
    """The section, cut where a pair begins."""
    places = [match for match in _QUESTION.finditer(text, section.body, section.end) if not _in_code(section, match)]
    ends = [match.start() for match in places[1:]] + [section.end] * bool(places)
    asked = [(match, end) for match, end in zip(places, ends, strict=True) if _ANSWER.search(text, match.end(), end)]
    if not asked:  # and a question that nothing answers belongs to the pair before it
        yield section
        return
    start, body, first = section.start, section.body, asked[0][0].start()
    if text[body:first].strip():
        yield replace(section, end=first, blocks=within(section.blocks, body, first))
        start = body = first
    ends = [*(match.start() for match, _ in asked[1:]), section.end]
    for (match, _), end in zip(asked, ends, strict=True):
        headings = (*section.headings, plain(match[1]))
        yield Section(start, body, end, section.level, headings, within(section.blocks, body, end), alone=True)
        start = body = end


def _in_code(section: Section, match: re.Match[str]) -> bool:
    return section.blocks[holding(section.blocks, match.start())].kind in ("code", "table")


def looks_like_pairs(beginning: bytes) -> bool:
    """Whether the first bytes of a JSON file have a key for questions and one for answers."""
    return all(key.search(beginning) for key in _KEYED)


def of_json(text: str, *, rights: bool = True) -> str:
    """The questions and answers of a JSON document, or of one in each line, as "Q: …" and "A: …".

    rights: False where somebody else says who may read the document. Raises Unreadable where it is no JSON, or where no
    object has both (`question` or `q`, `answer` or `a` …); UnreadableRights where an object names groups.
    """
    asked = (pair for value in _values(text) for pair in _asked(value, rights))
    found = [f"Q: {question}\nA: {answer}\n" for question, answer in asked]
    if not found:
        raise Unreadable("JSON without questions and answers: expected objects with the keys question and answer")
    return "\n".join(found)


def _values(text: str) -> Iterator[object]:
    """The JSON document, or the one in each line. Raises Unreadable with the place where it is none."""
    try:
        yield json.loads(text)
        return
    except RecursionError:
        raise Unreadable("JSON nested too deeply") from None
    except ValueError as error:
        whole = error
    begun = all(line.lstrip()[:1] in ("", "{") for line in text.split("\n"))  # an object a line: none goes over two
    for number, line in enumerate(text.split("\n"), 1):
        try:
            if line.strip():
                yield json.loads(line)
                begun = True
        except RecursionError:
            raise Unreadable(f"line {number}: JSON nested too deeply") from None
        except ValueError as error:  # one document over several lines, unless a line before was one
            raise Unreadable(_place(error, number) if begun else _place(whole)) from error


def _place(error: ValueError, line: int = 0) -> str:
    """What is wrong with JSON, and where; line: the one that was read by itself."""
    if not isinstance(error, json.JSONDecodeError):  # a number of too many digits
        return f"not JSON: {error}"
    return f"not JSON: line {line or error.lineno}, column {error.colno}: {error.msg}"


def _asked(value: object, rights: bool) -> Iterator[tuple[str, str]]:
    """The questions and answers of all objects within `value`, in order. rights: names of groups are refused."""
    waiting = [value]
    while waiting:
        at = waiting.pop()
        if isinstance(at, list):
            waiting += reversed(at)
        elif isinstance(at, dict):
            if rights and any(bare(name) == "groups" and _are_names(item) for name, item in at.items()):
                raise UnreadableRights("its objects name groups, and those of Markdown alone are read")
            lowered = {key.lower(): item for key, item in at.items()}
            question, answer = _first(lowered, _QUESTION_KEYS), _first(lowered, _ANSWER_KEYS)
            if question and answer:
                yield " ".join(question.split()), answer
            else:
                waiting += reversed(at.values())


def _are_names(item: object) -> bool:
    """Whether that may be names of groups, and not the groups of a list of questions."""
    return isinstance(item, str) or (isinstance(item, list) and all(isinstance(one, str) for one in item))


def _first(of: Mapping[str, object], keys: Sequence[str]) -> str:
    """What stands under the first of `keys` that is there: text, or several texts as paragraphs."""
    item = next((of[key] for key in keys if of.get(key)), "")
    texts = item if isinstance(item, list) else [item]
    return "\n\n".join(text.strip() for text in texts if isinstance(text, str)).strip()
