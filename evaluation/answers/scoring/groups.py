"""Group questions that count as one question: questions with the same `group`, and questions with the same meaning.

The scores of similar questions are correlated. Counted one by one, similar questions make an interval too narrow: with
five questions per group, Student's t over all questions covers the truth in only 58 to 65 of 100 runs
(`benchmarks/verdicts/intervals.py`). So a group counts once, with the mean of the questions.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from evaluation.answers.records import Question
from evaluation.answers.scoring.normalize import terms

ALIKE = 0.8  # minimum share of common words for two similar questions that expect the same answer
# Answers that many different facts have.
_CHOICES = frozenset(
    (
        "yes no true false none ja nein oui non sí si não sim nee nej"
        " nei evet hayır да нет 是 否 はい いいえ 예 아니요 نعم لا"
    ).split()
)


def groups_of(questions: Iterable[Question]) -> dict[str, str]:
    """Question -> the first question of the group; a question without a group maps to the question itself.

    Questions with a `group` belong only to that group. Other questions form a group if one of these is the same: the
    words (ignoring case and punctuation), the expected answer, and the gold documents. Many facts have an answer like
    "yes": such questions form a group only if most words are the same (ignoring numbers), too. Without a known answer,
    common words prove little: whole programs use one form of question.
    """
    asked = list(questions)
    said = {one.id: terms(_said(one)) for one in asked}
    spread = Counter(word for words in said.values() for word in set(words))
    groups = _Groups(one.id for one in asked)
    known: dict[Hashable, list[tuple[frozenset[str], str]]] = defaultdict(list)
    for one in asked:
        if one.group is not None:
            groups.join(one.id, ("group", one.group))
            continue
        groups.join(one.id, ("words", *said[one.id]) if said[one.id] else ("text", _said(one)))
        for key in _keys(one):
            groups.join(one.id, key)
        expected = (one.reference, *map(tuple, (one.must, one.must_not, one.gold)))
        words = frozenset(word for word in said[one.id] if any(expected) and not word[-1].isdecimal())
        # Two sets that share ALIKE of the words also share one of the rarest words of each set, so other sets are
        # skipped.
        rarest = sorted(words, key=lambda word: (spread[word], word))[: len(words) - int(ALIKE * len(words)) + 1]
        near = (first for word in rarest for other, first in known[expected, word] if _alike(words, other))
        if (first := next(near, None)) is not None:
            groups.unite(one.id, first)
        for word in rarest if groups.first(one.id) == one.id else ():
            known[expected, word].append((words, one.id))
    return {one.id: groups.first(one.id) for one in asked}


def _keys(question: Question) -> Iterator[Hashable]:
    """What the questions of a group have in common, besides words."""
    if question.gold:
        yield "gold", frozenset(question.gold)
    expected = question.must or ([question.reference] if question.reference else [])
    answer = frozenset(tuple(terms(text)) or (text.strip(),) for text in expected)
    if any(len("".join(words)) > 1 and not _CHOICES.issuperset(words) for words in answer):
        yield "answer", answer


class _Groups:
    """Groups of questions, each known by its first question."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._places = {id: at for at, id in enumerate(ids)}
        self._earlier: dict[str, str] = {}
        self._owners: dict[Hashable, str] = {}

    def first(self, id: str) -> str:
        while (earlier := self._earlier.get(id)) is not None:
            id = earlier
        return id

    def join(self, id: str, key: Hashable) -> None:
        """Unite a question with the question that had the key first."""
        self.unite(id, self._owners.setdefault(key, id))

    def unite(self, one: str, other: str) -> None:
        first, second = sorted((self.first(one), self.first(other)), key=self._places.__getitem__)
        if first != second:
            self._earlier[second] = first


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) >= ALIKE * len(one | other)


def _said(question: Question) -> str:
    """The user's messages. Other roles are left out, because many questions share a system prompt."""
    return "\n".join(_text(message) for message in question.messages if message["role"] == "user")


def _text(message: Mapping[str, Any]) -> str:
    """The content of a message; all parts count, because a picture may be the subject of the question."""
    return str(message.get("content"))
