"""The latest message as queries: rewritten to stand alone, without a second model, and split into its questions.

The query uses history, but does not concatenate all turns: that lowers retrieval (nDCG@10 .610 to .464 on a judged
multi-turn set), because old words drown new ones. A question that depends on history keeps its own words at full weight
and carries earlier turns at a low weight, in terms and vector.

A question whose own words find an almost surely relevant passage stays unchanged: it names its subject. Otherwise two
measures decide whether it depends on history, in any language: its similarity to the history (by the embedder), and its
length (a short question rarely names its whole subject). A question that changes the subject is far from the history
and names its own, so it is searched as asked. docs/why/ranking.md has the measurements.

A message with several questions is searched as a whole and for each, and the results are interleaved: one search for
two questions finds passages between their subjects. On pairs of single questions joined into one message (three judged
sets), a further search for each question raises the share of gold passages in the first ten from .736 to .809, .652 to
.859 and .242 to .319. docs/why/ranking.md has the measurement.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from retrieval.embedding.embed import Matrix
from retrieval.records.search import Query, ScoredId, Turn

# Relative to the question's weight of 1; measured in docs/why/ranking.md.
QUESTION_WEIGHT = 1.0
EARLIER_QUESTION_WEIGHT = 0.3
EARLIER_ANSWER_WEIGHT = 0.3
FIRST_QUESTION_WEIGHT = 0.2  # it names the conversation's subject
# A history text weighs more in terms than in the vector, and less by the root of its length relative to the question:
# a vector has unit length for any text, but an answer of eighty words drowns a question of five.
_WORDS_PER_VECTOR = 1.5
# A question depends on history if its similarity exceeds SLOPE * ln(length / SHORT_CHARS): almost always up to this
# length. Fitted to separate turns of 75 conversations (three judged sets) from first questions put into other
# conversations: area under the ROC curve .93 to .98 on the held-out set.
_SLOPE = 0.22
SHORT_CHARS = 27  # a shorter question rarely names its whole subject
# An answer names its subject early; embedding 75 tokens costs a quarter of embedding 256.
_ANSWER_CHARS = 300
_LONG_CHARS = 2000  # of a message with a pasted log or file: its question stands at the head or the end
_SUBJECT_CHARS = 200  # of an earlier question, as shown to people
_SENTENCE = re.compile(r"(?<=[.?!。？！؟])\s*")


@dataclass(frozen=True, slots=True)
class LatestQuestion:
    """The latest question, and (text, weight) pieces of history that it may depend on, nearest first."""

    question: str
    history: tuple[tuple[str, float], ...]
    subject: str  # the earlier question, as shown to people


def latest_question(turns: Sequence[Turn]) -> LatestQuestion:
    """The latest question of `turns`. Raises ValueError unless they end with the user's."""
    if not turns or turns[-1].role != "user":
        raise ValueError("the last turn must be the user's")
    question = _clip(turns[-1].text)
    questions = [_clip(turn.text) for turn in turns[:-1] if turn.role == "user" and turn.text.strip()]
    questions = [text for text in questions if text != question]  # a repeated question explains nothing
    if not questions:
        return LatestQuestion(question, (), "")
    previous, first = questions[-1], questions[0]
    answer = next((turn.text for turn in reversed(turns[:-1]) if turn.role == "assistant" and turn.text.strip()), "")
    pieces = {previous: EARLIER_QUESTION_WEIGHT}
    if answer:
        pieces.setdefault(answer.lstrip()[:_ANSWER_CHARS], EARLIER_ANSWER_WEIGHT)
    if len(questions) > 1:
        pieces.setdefault(first, FIRST_QUESTION_WEIGHT)
    pieces.pop(question, None)  # an answer that repeats the question
    return LatestQuestion(question, tuple(pieces.items()), _subject(previous, first))


def history_similarity(vectors: Matrix, probes: Matrix) -> float:
    """How similar the question is to its history: 0 as for unrelated texts, 1 for the same text.

    vectors: of the question, then of `LatestQuestion.history`. probes: vectors of unrelated texts, whose cosine
    differs between embedders from 0 to .8.
    """
    if len(vectors) < 2:
        return 0.0
    cosines = probes @ probes.T
    unrelated = float(cosines[~np.eye(len(cosines), dtype=bool)].mean()) if len(cosines) > 1 else 0.0
    return (float((vectors[1:] @ vectors[0]).max()) - unrelated) / max(1 - unrelated, 1e-6)


def depends_on_history(question: str, similarity: float) -> bool:
    """Whether the question cannot be understood without its history."""
    return similarity > _SLOPE * math.log(max(length_chars(question), 1) / SHORT_CHARS)


def query_as_asked(latest: LatestQuestion) -> Query:
    """The query without history. For a short question, its text shows people the history's subject."""
    if not latest.history:
        return _single_text_query(latest.question, "first question", split_questions(latest.question))
    query = _single_text_query(latest.question, "found as asked", split_questions(latest.question))
    return replace(query, text=_with_subject(latest)) if length_chars(latest.question) <= SHORT_CHARS else query


def rewrite(latest: LatestQuestion, similarity: float) -> Query:
    """The query that stands alone. similarity: from `history_similarity`; unused without history."""
    question, parts = latest.question, split_questions(latest.question)
    if not latest.history:
        return query_as_asked(latest)
    if not depends_on_history(question, similarity):
        return _single_text_query(question, "stands alone", parts)
    terms = [(question, QUESTION_WEIGHT)]
    for text, weight in latest.history:
        share = min(1.0, math.sqrt(max(len(question), 1) / len(text)))
        terms.append((text, round(_WORDS_PER_VECTOR * weight * share, 4)))
    vectors = ((question, QUESTION_WEIGHT), *latest.history)
    return Query(_with_subject(latest), tuple(terms), vectors, "leans on the conversation", parts)


def verbatim(turns: Sequence[Turn], *, reason: str) -> Query:
    """The latest question as asked."""
    return _single_text_query(_clip(turns[-1].text), reason, ())


def _single_text_query(question: str, reason: str, parts: tuple[str, ...]) -> Query:
    return Query(question, ((question, QUESTION_WEIGHT),), ((question, QUESTION_WEIGHT),), reason, parts)


def _with_subject(latest: LatestQuestion) -> str:
    """The question as shown to people if it needs history."""
    return f"{latest.question.strip()} (after: {latest.subject})"


def _subject(previous: str, first: str) -> str:
    """The earlier question, for people; a short one follows the conversation's first question."""
    subject = _longest_sentence(previous)
    if first != previous and length_chars(subject) < SHORT_CHARS:
        subject = f"{_longest_sentence(first)} {subject}"
    return subject


def _longest_sentence(text: str) -> str:
    """The longest sentence: "Really? I see. But what does it cost?" asks for the cost."""
    longest = max(_SENTENCE.split(" ".join(text.split())), key=len)
    return longest if len(longest) <= _SUBJECT_CHARS else longest[: _SUBJECT_CHARS - 2] + " …"


def _clip(text: str) -> str:
    """A long text's head and end."""
    if len(text) <= _LONG_CHARS:
        return text
    half = _LONG_CHARS // 2
    return f"{text[:half]} … {text[-half:]}"


# --- several questions in one message ---------------------------------------------------------------------------------


_MOST_PARTS = 3
_MOST_SPLIT_CHARS = 1000  # longer messages carry files or logs, with their own question marks
_MARKS = ("?", "？", "؟")  # the Greek question mark is a semicolon, frequent in code
_AFTER_MARK = re.compile(r"(?<=[?？؟])(?:\s+|(?<=？))")
_LETTER = re.compile(r"[^\W\d_]")
_WIDE = re.compile("[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]")
_WIDE_LETTERS = 2.5  # letters that mean as much as one Chinese, Japanese or Korean character


def split_questions(question: str) -> tuple[str, ...]:
    """A message's questions if it has two or three meaningful ones; else ().

    Text before a question belongs to it ("What? No. Will it harm my cat?" is one question); text after the last one
    belongs to that.
    """
    if len(question) > _MOST_SPLIT_CHARS:
        return ()
    parts: list[str] = []
    pending = ""
    for piece in _AFTER_MARK.split(question):
        pending = f"{pending} {piece.strip()}".strip()
        if pending.endswith(_MARKS) and length_chars(pending) >= SHORT_CHARS / 2 and _LETTER.search(pending):
            parts.append(pending)
            pending = ""
    if parts and pending:
        parts[-1] = f"{parts[-1]} {pending}"
    return tuple(parts) if 1 < len(parts) <= _MOST_PARTS else ()


def variants(query: Query) -> list[Query]:
    """Queries to search: the whole query, and one for each question, with the same history."""
    return [query] + [
        Query(part, ((part, 1.0), *query.terms[1:]), ((part, 1.0), *query.vectors[1:]), query.reason)
        for part in query.parts
    ]


def interleave(searches: Sequence[Mapping[str, Sequence[ScoredId]]]) -> Mapping[str, Sequence[ScoredId]]:
    """Results of several searches as one: per arm each search's first point, then their second points …

    A point found by several searches takes its best place and score.
    """
    arms: dict[str, Sequence[ScoredId]] = {}
    for arm in dict.fromkeys(arm for search in searches for arm in search):
        places: dict[str, tuple[int, int]] = {}
        scores: dict[str, float] = {}
        for number, search in enumerate(searches):
            for rank, point in enumerate(search.get(arm, ())):
                places[point.id] = min((rank, number), places.get(point.id, (rank, number)))
                scores[point.id] = max(point.score, scores.get(point.id, point.score))
        arms[arm] = [ScoredId(id, scores[id]) for id in sorted(places, key=places.__getitem__)]
    return arms


def length_chars(text: str) -> float:
    """A text's length in letters; a Chinese, Japanese or Korean character counts as several."""
    text = text.strip()
    return len(text) if text.isascii() else len(text) + (_WIDE_LETTERS - 1) * len(_WIDE.findall(text))
