"""Words of a question that show that a small tool may help, in the languages of the lists of small talk.

A wrong guess costs little: a tool too many in a request, or a model that computes by itself. Most questions need no
tool, so the search is quick: sets of words, and no pattern for each.
"""

import functools
import re
from dataclasses import dataclass
from typing import Self

_MOST_CHARS = 1_000  # at each end of a message: between them is what a person pasted
_WORD = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d]\w*")
_NUMBER = "#"  # stands for each number of a question


@dataclass(frozen=True, slots=True)
class QuestionText:
    """The parts of a message in which its question stands, in small letters."""

    text: str
    words: frozenset[str]
    line: str  # the words in order between spaces, each number as #
    numbers: int


@functools.lru_cache(maxsize=16)  # all tools look at the questions of one chat
def question_of(message: str) -> QuestionText:
    """A person's message as a question."""
    if len(message) > 2 * _MOST_CHARS:
        message = f"{message[:_MOST_CHARS]}\n{message[-_MOST_CHARS:]}"
    text = message.casefold()
    words = _words(text)
    return QuestionText(text, frozenset(words), f" {' '.join(words)} ", words.count(_NUMBER))


@dataclass(frozen=True, slots=True)
class WordList:
    """Words and phrases that are looked for."""

    whole: frozenset[str]
    beginnings: tuple[str, ...]  # of words
    phrases: tuple[str, ...]  # as in `QuestionText.line`
    parts: tuple[str, ...]  # of the text

    @classmethod
    def of(cls, *lists: str) -> Self:
        """Words separated by commas; a word with * at the end is a beginning, # in a phrase a number.

        Words of Chinese, Japanese, Korean, Arabic and Hindi are found within others: they are written as one.
        """
        whole, beginnings, phrases, parts = set[str](), set[str](), set[str](), set[str]()
        for word in (one.strip().casefold() for text in lists for one in text.split(",")):
            stem = word.removesuffix("*")
            if not word[0].isalpha() or word[0] > "\u052f" or "/" in word:
                parts.add(stem)
            elif len(known := _words(stem)) > 1:
                phrases.add(f" {' '.join(known)}{'' if word.endswith('*') else ' '}")
            else:
                (beginnings if word.endswith("*") else whole).add(stem)
        return cls(frozenset(whole), *(tuple(sorted(some)) for some in (beginnings, phrases, parts)))

    def within(self, question: QuestionText) -> set[str]:
        """The words of a question that are looked for."""
        found = {*(self.whole & question.words)}
        found |= {word for word in question.words if word.startswith(self.beginnings)}
        found |= {one for one in self.phrases if one in question.line}
        return found | {one for one in self.parts if one in question.text}


def _words(text: str) -> list[str]:
    return [_NUMBER if word[0].isdigit() else word for word in _WORD.findall(text.replace(_NUMBER, " 0 "))]
