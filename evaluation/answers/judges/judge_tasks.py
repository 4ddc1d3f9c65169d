"""A model judges answers: faithfulness to passages, relevance, correctness against a reference, preference.

Prompts are files. A judge's reply is read strictly: one JSON object in the expected form, with or without a code fence.
Any other reply has no score; missing scores are stored and counted, never guessed. Two answers are shown in both orders
and both judgements count, because judges prefer a position (Zheng et al. 2023, "Judging LLM-as-a-Judge"). Scores are
from 0 to 1.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from evaluation.answers.prompts import PromptTemplate, json_object
from evaluation.answers.records import Question, Reply
from evaluation.answers.scoring.faults import Fault
from proxy.dialects.replies import Tokens

Kind = Literal["faithfulness", "relevance", "correctness", "preference"]
KINDS: tuple[Kind, ...] = get_args(Kind)
JudgePrompts = Mapping[Kind, PromptTemplate]

_PLACES: Mapping[Kind, tuple[str, ...]] = {
    "faithfulness": ("passages", "question", "answer"),
    "relevance": ("question", "answer"),
    "correctness": ("question", "reference", "answer"),
    "preference": ("question", "reference", "first", "second"),
}
_MOST_POINTS = 5
_FIRST = {"first": 1.0, "neither": 0.5, "second": 0.0}


class JudgementKey(NamedTuple):
    """What a judge is asked about. `against`: the other variant in a preference; `order` 1: it comes first."""

    question: str
    variant: str
    against: str | None
    repeat: int
    kind: Kind
    order: int


@dataclass(frozen=True, slots=True)
class JudgeTask:
    """A question for a judge."""

    key: JudgementKey
    prompt: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """A judge's answer to a task.

    score None: `reason` says why the reply is unreadable, or `error` why there is none.
    """

    question: str
    variant: str
    against: str | None
    repeat: int
    kind: Kind
    order: int
    score: float | None  # of `variant`, from 0 to 1; preference: 1 prefers `variant`, 0.5 prefers neither
    verdict: str | None
    reason: str
    usage: Tokens | None
    cost_usd: float | None
    model: str
    at_s: float = 0.0  # when asked, in seconds since the epoch
    error: str | None = None  # None: the judge replied
    prompt: str = ""  # its hash
    fault: Fault | None = None  # why there is no verdict

    @property
    def key(self) -> JudgementKey:
        return JudgementKey(self.question, self.variant, self.against, self.repeat, self.kind, self.order)


@dataclass(frozen=True, slots=True)
class JudgeReply:
    """A judge's reply, read."""

    score: float | None
    verdict: str | None
    reason: str


def read_prompts(folder: Path) -> JudgePrompts:
    """Read judge_KIND.txt of every kind. Raises BenchError if a file cannot be read or lacks a placeholder."""
    return {kind: PromptTemplate.read(folder / f"judge_{kind}.txt", _PLACES[kind]) for kind in KINDS}


def tasks(
    questions: Mapping[str, Question],
    replies: Iterable[Reply],
    baselines: Mapping[str, str],
    prompts: JudgePrompts,
    *,
    kinds: Sequence[Kind] = KINDS,
) -> Iterator[JudgeTask]:
    """All tasks for replies with an answer, in reply order.

    baselines: variant -> the one to compare with. Faithfulness needs known passages, correctness a reference,
    preference an answer from both variants to the same question in the same repeat.
    """
    answered = {reply.asked: reply for reply in replies if reply.error is None and reply.said.strip()}
    for reply in answered.values():
        question = questions.get(reply.question)
        if question is None:
            continue
        against = baselines.get(reply.variant)
        other = answered.get((reply.question, against, reply.repeat)) if against else None
        yield from _tasks_of(question, reply, other, prompts, kinds)


def in_both_orders(judgements: Iterable[Judgement]) -> dict[JudgementKey, tuple[float, float]]:
    """Key of each pair of answers -> its scores in both orders, for pairs with two readable judgements."""
    found: dict[JudgementKey, dict[int, float]] = {}
    for one in judgements:
        if one.kind == "preference" and one.score is not None:
            found.setdefault(one.key._replace(order=0), {})[one.order] = one.score
    return {key: (orders[0], orders[1]) for key, orders in found.items() if len(orders) == 2}


def read_reply(kind: Kind, text: str, order: int = 0) -> JudgeReply:
    """Parse a judge's reply. In any other form, it has no score; the reason says what is wrong."""
    try:
        found = json_object(text)
        if kind == "faithfulness":
            return _claims(found)
        return _preference(found, order) if kind == "preference" else _points(found)
    except (ValueError, RecursionError) as error:
        return JudgeReply(None, None, f"unreadable: {error}: {text.strip()[:200]!r}")


def asked_text(question: Question) -> str:
    """The question as shown to the judge: the last message, preceded by its history."""
    said = [f"{message.get('role', '')}: {_content(message)}" for message in question.messages[:-1]]
    last = _content(question.messages[-1])
    return "\n".join(["Before it was said:", *said, "", "The question:", last]) if said else last


def _tasks_of(
    question: Question, reply: Reply, other: Reply | None, prompts: JudgePrompts, kinds: Sequence[Kind]
) -> Iterator[JudgeTask]:
    shown = "\n\n".join(f"[{n}] {one.title}\n{one.text}" for n, one in enumerate(reply.rag.passages or (), 1))
    values = {"question": asked_text(question), "answer": reply.said, "reference": question.reference or ""}
    given = {"faithfulness": bool(shown), "relevance": True, "correctness": bool(question.reference)}
    for kind in KINDS:
        if kind in kinds and given.get(kind):
            key = JudgementKey(question.id, reply.variant, None, reply.repeat, kind, 0)
            yield JudgeTask(key, prompts[kind].render(passages=shown, **values))
    if "preference" in kinds and other is not None:
        both = (reply.said, other.said)
        for order, (first, second) in enumerate((both, both[::-1])):
            key = JudgementKey(question.id, reply.variant, other.variant, reply.repeat, "preference", order)
            yield JudgeTask(key, prompts["preference"].render(first=first, second=second, **values))


def _content(message: Mapping[str, Any]) -> str:
    """A message's text: its content, or the text parts of that."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part)


def _reason(found: Mapping[str, Any]) -> str:
    reason = found.get("reason", "")
    if not isinstance(reason, str):
        raise ValueError("reason must be text")
    return reason


def _claims(found: Mapping[str, Any]) -> JudgeReply:
    """Share of supported claims; an answer without claims has no score, but that is not a failure."""
    claims = found.get("claims")
    if not isinstance(claims, list):
        raise ValueError("claims must be a list")
    supported = []
    for claim in claims:
        if not isinstance(claim, dict) or not isinstance(claim.get("supported"), bool):
            raise ValueError("each claim must be an object with supported: true or false")
        supported.append(claim["supported"])
    verdict = f"{sum(supported)} of {len(supported)} claims supported"
    return JudgeReply(sum(supported) / len(supported) if supported else None, verdict, _reason(found))


def _points(found: Mapping[str, Any]) -> JudgeReply:
    score = found.get("score")
    if isinstance(score, bool) or not isinstance(score, int) or not 1 <= score <= _MOST_POINTS:
        raise ValueError(f"score must be a whole number from 1 to {_MOST_POINTS}, got {score!r}")
    return JudgeReply((score - 1) / (_MOST_POINTS - 1), f"{score} of {_MOST_POINTS}", _reason(found))


def _preference(found: Mapping[str, Any], order: int) -> JudgeReply:
    better = found.get("better")
    if not isinstance(better, str) or better not in _FIRST:
        raise ValueError(f"better must be first, second or neither, got {better!r}")
    first = _FIRST[better]
    return JudgeReply(first if order == 0 else 1 - first, better, _reason(found))
