"""Groups questions that count as one: those with the same `group`, and those with the same meaning.

Similar questions have correlated scores. Counted one by one, they make an interval too narrow: with five questions per
group, Student's t over all questions covers the truth in only 58 to 65 of 100 runs
(`benchmarks/verdicts/intervals.py`). So a group counts once, with its questions' mean.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from evaluation.answers.records import Question
from evaluation.answers.scoring.normalize import terms

ALIKE = 0.8  # minimum share of common words, for similar questions that expect the same answer
# Answers that many different facts have.
_CHOICES = frozenset(
    (
        "yes no true false none ja nein oui non sí si não sim nee nej"
        " nei evet hayır да нет 是 否 はい いいえ 예 아니요 نعم لا"
    ).split()
)


def groups_of(questions: Iterable[Question]) -> dict[str, str]:
    """Question -> the first one in its group; a question without a group maps to itself.

    Questions with a `group` belong only to that. Others form a group if one of these is the same: their words (ignoring
    case and punctuation), expected answer, or gold documents. Many facts have an answer like "yes": such questions form
    a group only if most words are the same (ignoring numbers), too. Without a known answer, common words prove little:
    whole programs use one form of question.
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
        # Two sets that share ALIKE of their words also share one of each set's rarest words, so others are skipped.
        rarest = sorted(words, key=lambda word: (spread[word], word))[: len(words) - int(ALIKE * len(words)) + 1]
        near = (first for word in rarest for other, first in known[expected, word] if _alike(words, other))
        if (first := next(near, None)) is not None:
            groups.unite(one.id, first)
        for word in rarest if groups.first(one.id) == one.id else ():
            known[expected, word].append((words, one.id))
    return {one.id: groups.first(one.id) for one in asked}


def _keys(question: Question) -> Iterator[Hashable]:
    """What questions in a group have in common, besides words."""
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
        """Unite a question with the one that first had this key."""
        self.unite(id, self._owners.setdefault(key, id))

    def unite(self, one: str, other: str) -> None:
        first, second = sorted((self.first(one), self.first(other)), key=self._places.__getitem__)
        if first != second:
            self._earlier[second] = first


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) >= ALIKE * len(one | other)


def _said(question: Question) -> str:
    """User messages. Other roles are left out, because many questions share a system prompt."""
    return "\n".join(_text(message) for message in question.messages if message["role"] == "user")


def _text(message: Mapping[str, Any]) -> str:
    """A message's content; all parts count, because a picture may be what a question is about."""
    return str(message.get("content"))
