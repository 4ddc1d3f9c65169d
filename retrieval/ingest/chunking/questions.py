"""Questions with answers: each pair is a chunk, and every part of a long answer carries its question.

A pair is a section with a question as heading, or text from a line "Q: …" with a line "A: …" below to the next such
line. Two pairs in one chunk would be harder to find by either question.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from retrieval.errors import Unreadable, groups_outside_markdown
from retrieval.ingest.chunking.blocks import plain_heading
from retrieval.ingest.chunking.sections import Section, block_index_at, blocks_between
from retrieval.records.attributes import folded_name

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


def separate_pairs(text: str, sections: Sequence[Section]) -> list[Section]:
    """Return `sections` with each question and answer as a section; they cover the same text."""
    result: list[Section] = []
    for section in sections:
        if section.level and section.headings and section.headings[-1].endswith(_QUESTION_MARKS):
            result.append(replace(section, own_chunk=True))
        else:
            result += _split(text, section)
    return result


def _split(text: str, section: Section) -> Iterator[Section]:
    """Yield a section, cut where a pair begins."""
    places = [match for match in _QUESTION.finditer(text, section.body, section.end) if not _in_code(section, match)]
    ends = [match.start() for match in places[1:]] + [section.end] * bool(places)
    answered = [(match, end) for match, end in zip(places, ends, strict=True) if _ANSWER.search(text, match.end(), end)]
    if not answered:  # a question without an answer belongs to the previous pair
        yield section
        return
    start, body, first = section.start, section.body, answered[0][0].start()
    if text[body:first].strip():
        yield replace(section, end=first, blocks=blocks_between(section.blocks, body, first))
        start = body = first
    ends = [*(match.start() for match, _ in answered[1:]), section.end]
    for (match, _), end in zip(answered, ends, strict=True):
        headings = (*section.headings, plain_heading(match[1]))
        yield Section(
            start, body, end, section.level, headings, blocks_between(section.blocks, body, end), own_chunk=True
        )
        start = body = end


def _in_code(section: Section, match: re.Match[str]) -> bool:
    return section.blocks[block_index_at(section.blocks, match.start())].kind in ("code", "table")


def looks_like_pairs(beginning: bytes) -> bool:
    """Whether a JSON file's first bytes have a key for questions and one for answers."""
    return all(key.search(beginning) for key in _KEYED)


def pairs_from_json(text: str, *, rights: bool = True) -> str:
    """Return questions and answers from a JSON document, or from one per line, as "Q: …" and "A: …".

    rights: False if the caller decides who may read it. Raises Unreadable for invalid JSON, or if no object has both
        keys (`question` or `q`, `answer` or `a` …); UnreadableRights if an object names groups.
    """
    answered = (pair for value in values(text) for pair in _pairs_in(value, rights))
    result = [f"Q: {question}\nA: {answer}\n" for question, answer in answered]
    if not result:
        raise Unreadable("JSON without questions and answers: expected objects with the keys question and answer")
    return "\n".join(result)


def values(text: str) -> Iterator[object]:
    """Yield a JSON document, or each line's. Raises Unreadable, which says where."""
    try:
        yield json.loads(text)
        return
    except RecursionError:
        raise Unreadable("JSON nested too deeply: split the file") from None
    except ValueError as error:
        whole = error
    # one object per line: no object spans two lines
    begun = all(line.lstrip()[:1] in ("", "{") for line in text.split("\n"))
    for number, line in enumerate(text.split("\n"), 1):
        try:
            if line.strip():
                yield json.loads(line)
                begun = True
        except RecursionError:
            raise Unreadable(f"line {number}: JSON nested too deeply: split the object") from None
        except ValueError as error:  # one document over several lines, unless an earlier line was a document
            raise Unreadable(_place(error, number) if begun else _place(whole)) from error


def _place(error: ValueError, line: int = 0) -> str:
    """Return what is wrong with the JSON, and where; line: which line was parsed alone."""
    if not isinstance(error, json.JSONDecodeError):  # a number with too many digits
        return f"not JSON: {error}"
    return f"not JSON: line {line or error.lineno}, column {error.colno}: {error.msg}"


def _pairs_in(value: object, rights: bool) -> Iterator[tuple[str, str]]:
    """Yield questions and answers from all objects within `value`, in order. rights: refuse group names."""
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, list):
            pending += reversed(current)
        elif isinstance(current, dict):
            if rights and any(folded_name(name) == "groups" and are_names(item) for name, item in current.items()):
                raise groups_outside_markdown("JSON")
            lowered = {key.lower(): item for key, item in current.items()}
            question, answer = _first(lowered, _QUESTION_KEYS), _first(lowered, _ANSWER_KEYS)
            if question and answer:
                yield " ".join(question.split()), answer
            else:
                pending += reversed(current.values())


def are_names(item: object) -> bool:
    """Whether an item may name groups: it holds no objects, unlike the groups of a question list."""
    return not isinstance(item, dict) and not (isinstance(item, list) and any(isinstance(one, dict) for one in item))


def _first(of: Mapping[str, object], keys: Sequence[str]) -> str:
    """Return what the first existing key holds: text, or several texts as paragraphs."""
    item = next((of[key] for key in keys if of.get(key)), "")
    texts = item if isinstance(item, list) else [item]
    return "\n\n".join(text.strip() for text in texts if isinstance(text, str)).strip()
