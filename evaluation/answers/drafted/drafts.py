"""Turns a passage into a drafted question: the request to a model, and a strict check of its reply.

A reply must be one JSON object with a question, a reference answer and facts. Every fact must occur in passage and
reference (compared like answers and facts in scoring). Other replies are dropped with a reason, never repaired.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from evaluation.answers.prompts import PromptTemplate, json_object
from evaluation.answers.records import Question, Reply, ShownPassage
from evaluation.answers.scoring.normalize import terms
from evaluation.answers.scoring.scores import states

PLACES = ("title", "source", "passage")
_ALIKE = 0.8  # minimum share of common words, for similar questions that also share a fact
_ID_BYTES = 5

UNREADABLE = "the reply is not the requested JSON"
CUT_OFF = "the reply was cut off at the longest answer (--set max_tokens=NUMBER)"
NOTHING_TO_ASK = "the model found nothing to ask about"
NOT_IN_PASSAGE = "a fact is not in the passage"
NOT_IN_REFERENCE = "a fact is not in the reference"
IN_QUESTION = "a fact is in the question"
ALIKE = "the question is similar to another question"


class Dropped(ValueError):
    """A reply has no usable question; the text is a short reason that can be counted."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A drafted question."""

    question: str
    reference: str
    facts: tuple[str, ...]


def asking(passage: ShownPassage, collection: str, prompt: PromptTemplate) -> Question:
    """The request for a draft, as a Question: `reference` is the passage, `gold` its source."""
    text = prompt.render(title=passage.title, source=passage.source, passage=passage.text)
    digest = hashlib.blake2b(f"{passage.document}\0{passage.text}".encode(), digest_size=_ID_BYTES).hexdigest()
    messages = [{"role": "user", "content": text}]
    return Question(f"{collection}-{digest}", messages, reference=passage.text, gold=[passage.source])


def draft_of(asked: Question, reply: Reply) -> Draft:
    """A final reply's draft. Raises Dropped."""
    if reply.error is not None:
        raise Dropped(f"the model refused: {reply.error}")
    try:
        return read_reply(reply.said, asked.reference or "")
    except Dropped as error:
        if str(error) == UNREADABLE and reply.finish_reason == "length":
            raise Dropped(CUT_OFF) from error
        raise


def read_reply(text: str, passage: str) -> Draft:
    """A model's reply about a passage. Raises Dropped."""
    try:
        found = json_object(text)
        if found.get("question", "") is None:
            raise Dropped(NOTHING_TO_ASK)
        question, reference = _text(found, "question"), _text(found, "reference")
        facts = found.get("facts")
        if not isinstance(facts, list) or not facts:
            raise ValueError("facts must be a list with something in it")
        draft = Draft(question, reference, tuple(dict.fromkeys(_text({"fact": fact}, "fact") for fact in facts)))
    except Dropped:
        raise
    except (ValueError, RecursionError) as error:
        raise Dropped(UNREADABLE) from error
    for where, reason in ((passage, NOT_IN_PASSAGE), (reference, NOT_IN_REFERENCE)):
        if not all(_stands(fact, where) for fact in draft.facts):
            raise Dropped(reason)
    if any(_stands(fact, question) for fact in draft.facts):
        raise Dropped(IN_QUESTION)
    return draft


def row_of(asked: Question, draft: Draft, reply: Reply, model: str) -> dict[str, Any]:
    """A line for the question file, marked as drafted."""
    at = datetime.fromtimestamp(reply.at_s, UTC).isoformat(timespec="seconds")
    return {
        "id": asked.id,
        "question": draft.question,
        "reference": draft.reference,
        "must": draft.facts,
        "gold": asked.gold,
        "drafted": {"by": model, "at": at, "passage": asked.reference},
    }


class KnownQuestions:
    """Existing questions, to check whether a draft is new."""

    def __init__(self, questions: Iterable[Question]) -> None:
        self._all = [(_words(_asked(question)), {_words(fact) for fact in question.must}) for question in questions]

    def has(self, draft: Draft) -> bool:
        """Whether a question has the same words, or most of them and a common fact."""
        words, facts = _words(draft.question), {_words(fact) for fact in draft.facts}
        return any(
            words == other or (len(words & other) >= _ALIKE * len(words | other) and facts & theirs)
            for other, theirs in self._all
        )

    def add(self, draft: Draft) -> None:
        self._all.append((_words(draft.question), {_words(fact) for fact in draft.facts}))


def _text(found: Mapping[str, Any], name: str) -> str:
    """A non-empty text that can be encoded. Raises ValueError."""
    text = found.get(name)
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{name} must be a text that is not empty")
    text.encode()  # half a surrogate pair has no UTF-8
    return text.strip()


def _stands(fact: str, text: str) -> bool:
    return states(text, terms(text), fact)


def _words(text: str) -> frozenset[str]:
    return frozenset(terms(text))


def _asked(question: Question) -> str:
    content = question.messages[-1].get("content")
    return content if isinstance(content, str) else ""
