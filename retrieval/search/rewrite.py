"""The conversation to a query that stands alone, without a second model.

History is used, not concatenated: joining all turns into one query lowers retrieval (nDCG@10 .610 to .464 on a
judged multi-turn set), because the old words drown the new ones. Instead a question that leans on what was said
keeps its own words at full weight and carries the earlier turns at a low one, in the words searched and in the vector.

A question whose own words find something sure to be about it is left as it is: it names its subject. Otherwise two
things decide whether it leans on the conversation, and no language is needed for them: how close it is to what was
said (the embedder knows), and how long it is (a short one rarely names all that it is about). A question that changes
the subject is far from what was said and names what it asks for: it is searched as it was asked. docs/rewriting.md
has the measurements.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from retrieval.embedding.embed import Matrix
from retrieval.records.search import Query, Turn
from retrieval.search.split import SHORT_CHARS, length_chars, parts_of

# Of what a question leans on, the question being 1: as docs/rewriting.md has it.
QUESTION_WEIGHT = 1.0
EARLIER_QUESTION_WEIGHT = 0.3
EARLIER_ANSWER_WEIGHT = 0.3
FIRST_QUESTION_WEIGHT = 0.2  # what the whole conversation is about
# Words are so much heavier than vectors, and lighter by the root of how much longer their text is than the question:
# a vector has unit length whatever the text, a list of words has not, and eighty words of an answer drown five.
_WORDS_PER_VECTOR = 1.5
# The probability that something relevant was found (`relevance`) from which a question is left as it was asked. Of the
# gap to a person's rewrites on three judged sets .94, .96 and .98 close .61, .60 and .55 in nDCG@10, .83, .85 and .87
# in recall@10. Without it it is .31 and .70: what needs no history is led away from what it asks for.
SURE_RELEVANCE = 0.96
# A question leans on the conversation where its similarity to it exceeds SLOPE * ln(its length / SHORT_CHARS): up to
# this length nearly always. Fitted to tell the turns of 75 conversations of three judged sets from first questions put
# into other conversations: area under the ROC curve .93 to .98 on the set left out.
_SLOPE = 0.22
# An answer says at its beginning what it is about; embedding 75 tokens costs a quarter of embedding 256.
_ANSWER_CHARS = 300
_LONG_CHARS = 2000  # of a pasted log or file: the question stands at its head or its end
_QUOTED_CHARS = 200  # of an earlier question, in the text that people read
_SENTENCE = re.compile(r"(?<=[.?!。？！؟])\s*")


@dataclass(frozen=True, slots=True)
class Asked:
    """The latest question, and the (text, weight) pieces of the conversation that it may lean on, the nearest first."""

    question: str
    earlier: tuple[tuple[str, float], ...]
    subject: str  # the earlier question as people are shown it


def asked(turns: Sequence[Turn]) -> Asked:
    """What there is to decide on; `turns` ends with the user's turn that asks. Raises ValueError if it does not."""
    if not turns or turns[-1].role != "user":
        raise ValueError("the last turn must be the user's")
    question = _clip(turns[-1].text)
    questions = [_clip(turn.text) for turn in turns[:-1] if turn.role == "user" and turn.text.strip()]
    questions = [text for text in questions if text != question]  # asked again, word for word, it explains nothing
    if not questions:
        return Asked(question, (), "")
    previous, first = questions[-1], questions[0]
    answer = next((turn.text for turn in reversed(turns[:-1]) if turn.role == "assistant" and turn.text.strip()), "")
    pieces = {previous: EARLIER_QUESTION_WEIGHT}
    if answer:
        pieces.setdefault(answer.lstrip()[:_ANSWER_CHARS], EARLIER_ANSWER_WEIGHT)
    if len(questions) > 1:
        pieces.setdefault(first, FIRST_QUESTION_WEIGHT)
    pieces.pop(question, None)  # an answer that repeats it
    return Asked(question, tuple(pieces.items()), _subject(previous, first))


def closeness(vectors: Matrix, probes: Matrix) -> float:
    """How close the question is to what was said before: 0 as unrelated texts are, 1 the same.

    vectors: the question's, then those of `Asked.earlier`. probes: of texts that have nothing in common; embedders
    differ in what they give for that, from 0 to .8.
    """
    if len(vectors) < 2:
        return 0.0
    others = probes @ probes.T
    unrelated = float(others[~np.eye(len(others), dtype=bool)].mean()) if len(others) > 1 else 0.0
    return (float((vectors[1:] @ vectors[0]).max()) - unrelated) / max(1 - unrelated, 1e-6)


def leans(question: str, closeness: float) -> bool:
    """Whether the question needs what was said before to be understood."""
    return closeness > _SLOPE * math.log(max(length_chars(question), 1) / SHORT_CHARS)


def as_asked(said: Asked) -> Query:
    """The question searched for without what was said before; people are shown what a short one follows."""
    if not said.earlier:
        return _alone(said.question, "first question", parts_of(said.question))
    query = _alone(said.question, "found as asked", parts_of(said.question))
    return replace(query, text=_following(said)) if length_chars(said.question) <= SHORT_CHARS else query


def rewrite(said: Asked, closeness: float) -> Query:
    """The question made to stand alone. closeness: see there; of no account where nothing was said before."""
    question, parts = said.question, parts_of(said.question)
    if not said.earlier:
        return as_asked(said)
    if not leans(question, closeness):
        return _alone(question, "stands alone", parts)
    terms = [(question, QUESTION_WEIGHT)]
    for text, weight in said.earlier:
        share = min(1.0, math.sqrt(max(len(question), 1) / len(text)))
        terms.append((text, round(_WORDS_PER_VECTOR * weight * share, 4)))
    vectors = ((question, QUESTION_WEIGHT), *said.earlier)
    return Query(_following(said), tuple(terms), vectors, "leans on the conversation", parts)


def verbatim(turns: Sequence[Turn], *, reason: str) -> Query:
    """The latest question as it was asked."""
    return _alone(_clip(turns[-1].text), reason, ())


def _alone(question: str, reason: str, parts: tuple[str, ...]) -> Query:
    return Query(question, ((question, QUESTION_WEIGHT),), ((question, QUESTION_WEIGHT),), reason, parts)


def _following(said: Asked) -> str:
    """The question as people are shown it where it needs what was said before."""
    return f"{said.question.strip()} (after: {said.subject})"


def _subject(previous: str, first: str) -> str:
    """The earlier question for people: what it says, and the conversation's first one before it where it is short."""
    shown = _gist(previous)
    if first != previous and length_chars(shown) < SHORT_CHARS:
        shown = f"{_gist(first)} {shown}"
    return shown


def _gist(text: str) -> str:
    """The longest sentence: "Really? I see. But what does it cost?" asks for the cost."""
    longest = max(_SENTENCE.split(" ".join(text.split())), key=len)
    return longest if len(longest) <= _QUOTED_CHARS else longest[: _QUOTED_CHARS - 2] + " …"


def _clip(text: str) -> str:
    """The head and the end of a text too long to be a question."""
    if len(text) <= _LONG_CHARS:
        return text
    half = _LONG_CHARS // 2
    return f"{text[:half]} … {text[-half:]}"
