"""The result budget of one chat: tokens for the model, and bytes from the APIs."""

from dataclasses import dataclass, replace

from proxy.apis.call import CallLimits
from proxy.apis.results import cut_middle
from proxy.dialects.token_counts import BYTES_PER_TOKEN, estimated_tokens

_LEAST_CHARS = 400  # of a result: enough for the shape of a list
_LEAST_BYTES = 1 << 16  # of a response


@dataclass(frozen=True, slots=True)
class CallShare:
    """The share of one call."""

    call: CallLimits
    text_bytes: int  # of the result's text
    short: bool  # the remaining budget allows less than a whole result

    def fitted(self, text: str) -> str:
        """The text within the share: letters outside ASCII take several bytes."""
        size = len(text.encode("utf-8", "replace"))
        return text if size <= self.text_bytes else cut_middle(text, len(text) * self.text_bytes // size)


@dataclass(slots=True)
class ResultBudget:
    """The remaining budget of one chat."""

    tokens: int
    size_bytes: int

    def share(self, calls: int, limits: CallLimits) -> CallShare:
        """The share of each call, if so many run together."""
        text_bytes = max(_LEAST_CHARS, self.tokens * BYTES_PER_TOKEN // calls)
        max_bytes = max(_LEAST_BYTES, self.size_bytes // calls)
        limited = replace(
            limits, max_chars=min(limits.max_chars, text_bytes), max_bytes=min(limits.max_bytes, max_bytes)
        )
        return CallShare(limited, text_bytes, text_bytes < limits.max_chars)

    def spend(self, text: str) -> None:
        """Count a text that the model reads."""
        self.tokens = max(0, self.tokens - estimated_tokens(text.encode("utf-8", "replace")))
