"""What a question says literally: identifiers and phrases in quotation marks, and which candidates hold them as such.

Both arms may take `foo.bar()` for `bar.foo()` or "hot dog" for a dog on a hot day: the vectors because it means nearly
the same, the words because they are the same. Whether the very letters stand in a passage is seen by reading it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from retrieval.lexical.terms import identifiers
from retrieval.records.search import Candidate

# Of what first ranks in both arms are worth, as `fuse` counts: enough to part near-duplicates, half of what one more
# match of a rare word is. nDCG@10 with .03, .05 and .1 on four sets: +.001 to -.001.
_WORTH = 0.1
_MOST = 8  # literals of one question: one that quotes a log has hundreds
_SHORT = 4  # words of a question that is a phrase itself, such as: hot dog
# "1.2", "i.e." and "iOS" stand in many places and mean little there: each alone lowered nDCG@10 where it was counted.
_LEAST_CHARS = 5
_QUOTED = re.compile(r"[\"“”„«»]([^\"“”„«»\n]{3,80})[\"“”„«»]|「([^」\n]{2,40})」")


class Literal(NamedTuple):
    """What a question says literally, in lower case: its first word, and all of it with whatever joins its words."""

    word: str
    pattern: re.Pattern[str]

    def stands_in(self, text: str) -> bool:
        """Whether a text in lower case holds it."""
        # Most do not hold the word, which is seen in a hundredth of the pattern's time.
        return self.word in text and self.pattern.search(text) is not None


def literals(question: str) -> list[Literal]:
    """What to look for; empty for most questions."""
    quoted = [" ".join(filter(None, found)) for found in _QUOTED.findall(question)]
    phrases = [phrase for phrase in quoted if len(phrase.split()) > 1]
    if 2 <= len(question.split()) <= _SHORT and question.replace(" ", "").isalpha():  # typed into a search box
        phrases.append(question.strip())
    names = [name for name in identifiers(question) if len(name) >= _LEAST_CHARS and not name.isalpha()]
    wanted = dict.fromkeys(text.casefold() for text in (*phrases, *names))
    return [Literal(text.split()[0], _pattern(text)) for text in list(wanted)[:_MOST]]


def literal_first(fused: Sequence[Candidate], texts: Mapping[str, str], wanted: Sequence[Literal]) -> list[Candidate]:
    """The candidates in a new order: those whose text holds what was said literally gain by it, the rarer the more.

    texts: id -> what a candidate says; one that is not in it gains nothing. What all of them hold changes nothing.
    """
    gains = dict.fromkeys(texts, 0.0)
    folded = {id: text.casefold() for id, text in texts.items()}
    for literal in wanted:
        holders = [id for id, text in folded.items() if literal.stands_in(text)]
        for id in holders:
            gains[id] += _WORTH * (1 - len(holders) / len(texts))
    raised = [replace(one, score=one.score + gain) if (gain := gains.get(one.id)) else one for one in fused]
    return sorted(raised, key=lambda one: -one.score)  # stable: equals keep the order they had


def _pattern(text: str) -> re.Pattern[str]:
    between = r"[\s_-]+".join(re.escape(word) for word in text.split())
    begin = r"(?<!\w)" if text[0].isalnum() else ""
    end = r"(?!\w)" if text[-1].isalnum() else ""
    return re.compile(begin + between + end)
