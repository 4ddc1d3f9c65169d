"""Group questions that count as one question: questions with the same `group`, and questions with the same meaning.

The scores of similar questions are correlated. Counted one by one, similar questions make an interval too narrow: with
five questions per group, Student's t over all questions covers the truth in only 58 to 65 of 100 runs
(`benchmarks/verdicts/intervals.py`). So a group counts once, with the mean of the questions.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from evaluation.answers.records import Question
from evaluation.answers.scoring.normalize import terms

ALIKE = 0.8  # minimum share of common words for two similar questions that expect the same answer


def groups_of(questions: Iterable[Question]) -> dict[str, str]:
    """Question -> the first question of the group; a question without a group maps to the question itself.

    Questions with a `group` belong only to that group. Other questions form a group if the words are the same (ignoring
    case and punctuation), or if the known answer is the same and most words are the same (ignoring numbers). Without a
    known answer, common words prove little: whole programs use one form of question.
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
        # Two sets that share ALIKE of the words also share one of the rarest words of each set, so other sets are
        # skipped.
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
    """The user's messages. Other roles are left out, because many questions share a system prompt."""
    return "\n".join(_text(message) for message in question.messages if message["role"] == "user")


def _text(message: Mapping[str, Any]) -> str:
    """The content of a message; all parts count, because a picture may be the subject of the question."""
    return str(message.get("content"))
