"""Exact terms of a question (identifiers, quoted phrases), and candidates that contain them.

Both arms may take `foo.bar()` for `bar.foo()` or "hot dog" for a dog on a hot day: vectors because the meaning is
nearly the same, BM25 because the words are. Only reading a passage shows whether it contains the exact letters.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from retrieval.lexical.terms import identifiers
from retrieval.records.search import Candidate

# In units of `fuse`, where first rank in both arms is worth 1: enough to separate near-duplicates, and half as much as
# another match of a rare word. nDCG@10 with .03, .05 and .1 on four sets: +.001 to -.001.
_GAIN = 0.1
_MAX_TERMS = 8  # terms per question: a question that quotes a log has hundreds
_PHRASE_WORDS = 4  # a question of at most this many words is itself a phrase, such as: hot dog
# "1.2", "i.e." and "iOS" occur in many texts and mean little: counting any of the three lowered nDCG@10.
_MIN_CHARS = 5
_QUOTED = re.compile(r"[\"“”„«»]([^\"“”„«»\n]{3,80})[\"“”„«»]|「([^」\n]{2,40})」")


class ExactTerm(NamedTuple):
    """An exact term in lower case: its first word, and a pattern of all its words with any separator between."""

    word: str
    pattern: re.Pattern[str]

    def occurs_in(self, text: str) -> bool:
        """Whether a lower-case text contains the term."""
        # Most texts lack the word, and searching for it takes a hundredth of the pattern's time.
        return self.word in text and self.pattern.search(text) is not None


def exact_terms(question: str) -> list[ExactTerm]:
    """A question's exact terms; most questions have none."""
    quoted = [" ".join(filter(None, groups)) for groups in _QUOTED.findall(question)]
    phrases = [phrase for phrase in quoted if len(phrase.split()) > 1]
    # as typed into a search box
    if 2 <= len(question.split()) <= _PHRASE_WORDS and question.replace(" ", "").isalpha():
        phrases.append(question.strip())
    names = [name for name in identifiers(question) if len(name) >= _MIN_CHARS and not name.isalpha()]
    terms = dict.fromkeys(text.casefold() for text in (*phrases, *names))
    return [ExactTerm(text.split()[0], _pattern(text)) for text in list(terms)[:_MAX_TERMS]]


def exact_match_first(
    fused: Sequence[Candidate], texts: Mapping[str, str], terms: Sequence[ExactTerm]
) -> list[Candidate]:
    """Candidates, sorted again: an exact term in their text raises their score, a rare term more.

    texts: candidate id -> text; a candidate without text gains nothing. A term in all texts changes nothing.
    """
    gains = dict.fromkeys(texts, 0.0)
    folded = {id: text.casefold() for id, text in texts.items()}
    for term in terms:
        holders = [id for id, text in folded.items() if term.occurs_in(text)]
        for id in holders:
            gains[id] += _GAIN * (1 - len(holders) / len(texts))
    raised = [
        replace(candidate, score=candidate.score + gain) if (gain := gains.get(candidate.id)) else candidate
        for candidate in fused
    ]
    return sorted(raised, key=lambda candidate: -candidate.score)  # stable: equal scores keep their order


def _pattern(text: str) -> re.Pattern[str]:
    between = r"[\s_-]+".join(re.escape(word) for word in text.split())
    begin = r"(?<!\w)" if text[0].isalnum() else ""
    end = r"(?!\w)" if text[-1].isalnum() else ""
    return re.compile(begin + between + end)
