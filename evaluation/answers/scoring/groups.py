"""Which questions are one question: those of one `group`, and those that ask the same in the same or in other words.

Scores of questions that ask the same move together. Counted one by one they make an interval too narrow: with five
questions in a group, Student's t over all of them holds the truth in 58 to 65 runs of 100
(`benchmarks/verdicts/intervals.py`). So a group counts once, as the mean of its questions.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from evaluation.answers.records import Question
from evaluation.answers.scoring.normalize import terms

ALIKE = 0.8  # share of the words of two questions that both have, where the same answer is expected of both


def groups_of(questions: Iterable[Question]) -> dict[str, str]:
    """Question -> the first question of its group; itself where it stands alone.

    Questions that name a `group` are of that one alone. Of the others those are one that a user asks in the same words,
    but for case and signs, and those of which the same answer is known and that have most of their words in common,
    numbers aside. Where no answer is known, words in common say little: whole programs ask in one form.
    """
    asked = list(questions)
    said = {one.id: terms(_said(one)) for one in asked}
    spread = Counter(word for words in said.values() for word in set(words))
    firsts: dict[Hashable, str] = {}
    known: dict[Hashable, list[tuple[frozenset[str], str]]] = defaultdict(list)
    found: dict[str, str] = {}
    for one in asked:
        if one.group is not None:
            found[one.id] = firsts.setdefault(("group", one.group), one.id)
            continue
        exact = ("words", *said[one.id]) if said[one.id] else ("text", _said(one))
        expected = (one.reference, *map(tuple, (one.must, one.must_not, one.gold)))
        words = frozenset(word for word in said[one.id] if any(expected) and not word[-1].isdecimal())
        # Two sets that share ALIKE of their words share one of the rarest of each, so the others need no look.
        rarest = sorted(words, key=lambda word: (spread[word], word))[: len(words) - int(ALIKE * len(words)) + 1]
        near = (first for word in rarest for other, first in known[expected, word] if _alike(words, other))
        found[one.id] = first = firsts.get(exact) or next(near, one.id)
        firsts.setdefault(exact, first)
        for word in rarest if first == one.id else ():
            known[expected, word].append((words, one.id))
    return found


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) >= ALIKE * len(one | other)


def _said(question: Question) -> str:
    """What the user says, the other roles left out: many questions share a system prompt."""
    return "\n".join(_text(message) for message in question.messages if message["role"] == "user")


def _text(message: Mapping[str, Any]) -> str:
    """A message's content; of one in parts everything, since a picture may be what is asked about."""
    return str(message.get("content"))
