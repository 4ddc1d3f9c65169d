"""Failures of answers and judgements. A failed answer has no meaningful score, so a report counts failures first.

    failed      an error instead of a reply, or a reply that broke off
    refused     a filter or the reply's "refusal" withheld the answer; for judges also a refusal in words
    cut         `finish_reason: length`: the answer was cut off
    empty       a reply without text, or with thoughts alone
    degraded    retrieval failed, and the model got no passages
    unreadable  a judge's reply has the wrong form

An answer that refuses in words is not a failure: it gets a score.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

from evaluation.answers.records import Reply

Fault = Literal["failed", "refused", "cut", "empty", "degraded", "unreadable"]
MANY = 0.05  # a share of failures that can change a mean score enough to matter
# Failure -> words after its number.
FAULT_WORDS: dict[Fault, str] = {
    "failed": "failed", "refused": "refused", "cut": "cut off at the longest answer", "empty": "empty",
    "degraded": "without the search, which failed", "unreadable": "unreadable",
}  # fmt: skip


def fault_of(reply: Reply) -> Fault | None:
    """How a reply failed; None: it is an answer."""
    if reply.error is not None:
        return "failed"
    if reply.refused or reply.finish_reason == "content_filter":
        return "refused"
    if reply.finish_reason == "length":
        return "cut"
    if not reply.said.strip():
        return "empty"
    return "degraded" if reply.rag.status == "degraded" else None


def counted(faults: Iterable[Fault | None]) -> dict[Fault, int]:
    """Fault -> how often, in the order above."""
    found = Counter(faults)
    return {fault: found[fault] for fault in FAULT_WORDS if found[fault]}


def describe_faults(faults: Mapping[Fault, int]) -> str:
    """Faults and how often, in words."""
    return ", ".join(f"{times} {FAULT_WORDS[fault]}" for fault, times in faults.items())
