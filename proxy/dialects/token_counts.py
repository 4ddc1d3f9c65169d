"""How many tokens a model call takes: as the upstream reports, or else an estimate."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

BYTES_PER_TOKEN = 4
ATTACHMENT_TOKENS = 1000  # per image or sound: its bytes do not tell how many
# To find base64 in one pass: each base64 character becomes an x, any other byte a space. A regular expression for runs
# took 0.5 s for 14 MB of text, and 20 s for 4 MB of 1,900-letter words.
_BASE64 = bytes(
    ord("x" if chr(code).isascii() and (chr(code).isalnum() or chr(code) in "+/=") else " ") for code in range(256)
)
_LONG_RUN = b"x" * 2000
# Within a text, quotes would be escaped, so a match is a member's name.
_USAGE = re.compile(rb'"usage"\s*:\s*\{')
_TIER = re.compile(rb'"service_tier"\s*:\s*"(\w{1,32})"')
_DECODER = json.JSONDecoder()
_MESSAGE_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
_MOST_TOKENS = 10**12  # per call: no real count is larger, and no column could hold its price


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens used by one model call, or by several together."""

    prompt: int  # injected passages included
    completion: int
    cached: int = 0  # of the prompt, read from the provider's cache
    reasoning: int = 0  # of the completion
    estimated: bool = False  # the upstream did not report every count
    cache_writes: int = 0  # of the prompt, written to the provider's cache
    hour_cache_writes: int = 0  # of these, kept for an hour
    tier: str = field(default="", compare=False)  # the provider's, with its own price; "": not named
    # Each call, if there are several. Prices depend on the length of a single prompt.
    parts: tuple["Tokens", ...] = field(default=(), compare=False, repr=False)

    @property
    def calls(self) -> tuple["Tokens", ...]:
        return self.parts or ((self,) if self.prompt or self.completion else ())

    def plus(self, other: "Tokens") -> "Tokens":
        numbers = ("prompt", "completion", "cached", "reasoning", "cache_writes", "hour_cache_writes")
        return Tokens(
            **{name: getattr(self, name) + getattr(other, name) for name in numbers},
            estimated=self.estimated or other.estimated,
            tier=self.tier or other.tier,
            parts=(*self.calls, *other.calls),
        )


def estimated_tokens(body: bytes) -> int:
    """A rough estimate for a request body: one token for four bytes, a thousand for an attachment."""
    if len(body) < 4000:
        return -(-len(body) // BYTES_PER_TOKEN)
    signs, size, attachments = body.translate(_BASE64), len(body), 0
    at = signs.find(_LONG_RUN)
    while at >= 0:
        end = signs.find(b" ", at)
        end = len(signs) if end < 0 else end
        size, attachments = size - (end - at), attachments + 1
        at = signs.find(_LONG_RUN, end)
    return -(-size // BYTES_PER_TOKEN) + attachments * ATTACHMENT_TOKENS


def holds_attachment(start: bytes) -> bool:
    """Whether a base64 image or sound begins in a JSON body's first bytes."""
    return _LONG_RUN in start.translate(_BASE64)


def tokens_of_reply(reported: Tokens | None, text_bytes: int, request: bytes, *, final: bool) -> Tokens:
    """A reply's tokens: as reported, if that is `final`, else an estimate.

    A report is not final if more text came after it (a message reports its prompt at the beginning), or if the reply
    did not reach its end: when a client leaves, nobody knows the rest.
    """
    if reported is not None and final:
        return reported
    known = reported or Tokens(estimated_tokens(request), 0)
    answer = max(known.completion, -(-text_bytes // BYTES_PER_TOKEN))
    return replace(known, completion=answer, estimated=True)


def reported_tokens(usage: Mapping[str, Any]) -> Tokens | None:
    """Counts in OpenAI's `usage`, as chat completions or responses spell them; None: no prompt count.

    Embeddings report only a prompt.
    """
    prompt = _count(usage, "prompt_tokens", "input_tokens")
    if prompt is None:
        return None
    completion = _count(usage, "completion_tokens", "output_tokens") or 0
    in_details, out_details = ("prompt_tokens_details", "input_tokens_details"), ("completion_tokens_details",)
    cached = min(_detail(usage, in_details, "cached_tokens"), prompt)
    reasoning = _detail(usage, (*out_details, "output_tokens_details"), "reasoning_tokens")
    written = _detail(usage, in_details, "cache_write_tokens", "cache_creation_tokens")
    written = min(written or _count(usage, "cache_creation_input_tokens") or 0, prompt - cached)
    return Tokens(prompt, completion, cached, min(reasoning, completion), cache_writes=written, tier=_tier(usage))


def cumulative_tokens(usages: Sequence[Mapping[str, Any]]) -> Tokens | None:
    """Counts in the `usage` objects of one Anthropic message; None: no count.

    Later events repeat or raise earlier counts, so the largest ones hold. If `iterations` lists several model calls,
    such as a compaction, their sums count. `input_tokens` leaves out what the provider's cache wrote or read.
    """
    totals = [total for usage in usages if (total := _total_of_iterations(usage))] or usages
    most = dict.fromkeys(_MESSAGE_COUNTS, -1)
    for usage in totals:
        for name in most:
            if (count := _count(usage, name)) is not None:
                most[name] = max(most[name], count)
    new, written, cached, completion = most.values()
    if new < 0 and completion < 0:
        return None
    written, cached, completion = max(0, written), max(0, cached), max(0, completion)
    prompt = max(0, new) + written + cached
    hour = max((_detail(usage, ("cache_creation",), "ephemeral_1h_input_tokens") for usage in usages), default=0)
    thought = max((_detail(usage, ("output_tokens_details",), "thinking_tokens") for usage in usages), default=0)
    return Tokens(
        min(prompt, _MOST_TOKENS),
        completion,
        cached,
        min(thought, completion),
        cache_writes=written,
        hour_cache_writes=min(hour, written),
        tier=next(filter(None, map(_tier, reversed(usages))), ""),
    )


def _total_of_iterations(usage: Mapping[str, Any]) -> Mapping[str, int]:
    iterations = usage.get("iterations")
    calls = [each for each in iterations if isinstance(each, dict)] if isinstance(iterations, list) else []
    totals = {name: sum(_count(call, name) or 0 for call in calls) for name in _MESSAGE_COUNTS}
    return {name: min(total, _MOST_TOKENS) for name, total in totals.items()} if calls else {}


def usages_in(end: bytes) -> Iterator[Mapping[str, Any]]:
    """The `usage` objects near a reply's end, last one first."""
    for found in reversed(list(_USAGE.finditer(end))):
        try:
            usage, _ = _DECODER.raw_decode(end[found.end() - 1 :].decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue
        yield usage


def tier_in(end: bytes) -> str:
    """The service tier named last near the end of an OpenAI reply; "": none."""
    return next((found[1].decode() for found in reversed(list(_TIER.finditer(end)))), "")


def _tier(usage: Mapping[str, Any]) -> str:
    tier = usage.get("service_tier")
    return tier if isinstance(tier, str) else ""


def _count(counts: Mapping[str, Any], *names: str) -> int | None:
    """The first count among these members; a whole number written as 11.0 is one, too."""
    for name in names:
        value = counts.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS:
            return int(value) if value == int(value) else None
    return None


def _detail(usage: Mapping[str, Any], groups: Sequence[str], *names: str) -> int:
    for group in groups:
        details = usage.get(group)
        if isinstance(details, dict):
            return _count(details, *names) or 0
    return 0
