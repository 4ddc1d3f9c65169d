"""Right answers that a reader should doubt: rules find a fact in an answer that does not state it.

An answer that repeats a passage holds its facts, and one that denies a fact names it. Both keep their score, but the
report names these questions.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from evaluation.answers.scoring.normalize import holds, terms

_RUN = 8  # terms in a row: answers share shorter runs by chance
_LEAST_TERMS = 40  # a shorter answer may quote a sentence, and answer by that
_COPIED = 0.5  # share of runs
_BEFORE = 4  # terms before a fact
_SENTENCE_END = re.compile(r"(?<=[.!?;。！？])\s+|\n+|,\s")
# Words of denial in the languages of `refusals.py`, as `terms` writes them ("isn't" is isn, t).
_DENIALS = frozenset(
    "not no never neither nor without t nicht kein keine keinen keiner nie ohne ne pas jamais sans non mai senza no"
    " nunca sin não sem niet geen nooit zonder inte ej ikke aldrig uten uden ei eivät älä nie bez не нет ни без"
    " değil yok 不 非 没 無 لا ليس ليست غير".split()
)


def repeats_passage(answer: str, passages: Iterable[str]) -> bool:
    """Whether most of a long answer consists of long word runs from passages."""
    said = terms(answer)
    runs = list(_runs(said))
    if len(said) < _LEAST_TERMS or not runs:
        return False
    known = {run for passage in passages for run in _runs(terms(passage))}
    return sum(run in known for run in runs) >= _COPIED * len(runs)


def denies(answer: str, facts: Sequence[str]) -> bool:
    """Whether a word of denial comes shortly before a fact, in the same part of a sentence, wherever it occurs."""
    wanted = [phrase for fact in facts if (phrase := terms(fact))]
    parts = [terms(part) for part in _SENTENCE_END.split(answer)]
    return any(_denied(phrase, parts) for phrase in wanted)


def _denied(phrase: Sequence[str], parts: Iterable[Sequence[str]]) -> bool:
    """Whether some part has the phrase, and each one that has it denies it."""
    found = [
        any(not _DENIALS.isdisjoint(part[max(0, at - _BEFORE) : at]) for at in _places(phrase, part))
        for part in parts
        if holds(part, phrase)
    ]
    return bool(found) and all(found)


def _places(phrase: Sequence[str], part: Sequence[str]) -> Iterator[int]:
    size = len(phrase)
    return (at for at in range(len(part) - size + 1) if list(part[at : at + size]) == list(phrase))


def _runs(said: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return (tuple(said[at : at + _RUN]) for at in range(len(said) - _RUN + 1))
