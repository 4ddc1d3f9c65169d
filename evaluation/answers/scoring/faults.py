"""What went wrong with an answer or a judgement, so that its score says nothing: counted, and told before any verdict.

    failed      an error in place of a reply, or one that broke off
    refused     a filter, or the model by the reply's own "refusal", kept it back; of a judge also in words
    cut         `finish_reason: length`: more would have come
    empty       a reply without text
    degraded    the gateway could not search, and the model got no passages
    unreadable  of a judge: something else than what was asked for

An answer in words that says that it cannot be given is none of these: it is an answer, and is scored.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

from evaluation.answers.records import Reply

Fault = Literal["failed", "refused", "cut", "empty", "degraded", "unreadable"]
MANY = 0.05  # a share of failures that can move a mean score by a difference that matters
# Fault -> what is said of so many.
TOLD: dict[Fault, str] = {
    "failed": "failed", "refused": "refused", "cut": "cut off at the longest answer", "empty": "empty",
    "degraded": "without the search, which failed", "unreadable": "unreadable",
}  # fmt: skip


def fault_of(reply: Reply) -> Fault | None:
    """What is wrong with a reply; None: it is an answer."""
    if reply.error is not None:
        return "failed"
    if reply.refused or reply.finish_reason == "content_filter":
        return "refused"
    if reply.finish_reason == "length":
        return "cut"
    if not (reply.answer or "").strip():
        return "empty"
    return "degraded" if reply.rag.status == "degraded" else None


def counted(faults: Iterable[Fault | None]) -> dict[Fault, int]:
    """Fault -> how often, in the order above."""
    found = Counter(faults)
    return {fault: found[fault] for fault in TOLD if found[fault]}


def told(faults: Mapping[Fault, int]) -> str:
    """Faults and how often, in words."""
    return ", ".join(f"{times} {TOLD[fault]}" for fault, times in faults.items())
