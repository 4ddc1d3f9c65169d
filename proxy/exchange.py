"""Exchange: the one record that travels with a request.

The log line, the response headers, `Server-Timing`, the metrics, the usage rows and the receipts read the exchange.
The exchange lives in the ASGI scope under `KEY`. Each part of the path writes the fields that only that part knows.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from proxy.access.limits import UNLIMITED, Limits, Ticket
from proxy.access.rights import NOTHING, Rights
from proxy.asgi import Scope

KEY = "ragway.exchange"

RagStatus = Literal["", "augmented", "empty", "skipped", "off", "degraded"]
Lane = Literal["relay", "translated", "echo"]
# Where the passages go: a system message of their own before all others, the end of the client's own first system or
# developer message, or the end of the newest user message.
Position = Literal["lead", "merge", "tail"]


@dataclass(frozen=True, slots=True)
class Target:
    """Where a model's requests go: one row of the `models` setting, resolved for one request."""

    model: str  # the name the upstream knows
    lane: Lane
    api_base: str  # e.g. "https://api.openai.com/v1", no trailing slash; "" where litellm knows better
    api_key: str = field(repr=False)  # "" sends no Authorization; never in a log, wherever this record is shown
    key_of_client: bool = False  # none is configured: the client's own key is passed on
    position: Position = "lead"  # of the passages, where a request gets any
    window_tokens: int = 0  # the model's context window; 0: not known


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a call of a model took."""

    prompt: int  # what was injected included
    completion: int
    cached: int = 0  # of the prompt, in the provider's cache
    reasoning: int = 0  # of the completion
    estimated: bool = False  # the upstream did not say


@dataclass(slots=True)
class Exchange:
    """What is known so far of one request and its reply. Times are milliseconds."""

    id: str = field(default_factory=lambda: "rag-" + os.urandom(12).hex())
    started: float = field(default_factory=time.perf_counter)
    method: str = ""
    path: str = ""
    key: str = ""  # id of the caller's; "" while there are none
    owner: str = ""  # of the files that the caller uploads: its team, or the key by itself; "" while there are no keys
    rights: Rights = NOTHING  # the caller's; `auth` knows them
    limits: Limits = UNLIMITED  # the same
    counted_by: "Callable[[Exchange], None] | None" = field(default=None, repr=False)  # told when it is over
    ticket: Ticket | None = None  # what it holds of the limits
    limited: str = ""  # the limit that it was refused for
    tokens: Tokens | None = None  # None where no model was called
    injected_tokens: int = 0  # of the passages, as the embedder counts
    injected_bytes: int = 0  # of `body`: the passages and the text around them, as JSON
    model: str = ""  # as the client named it
    target: Target | None = None
    listed: bool = False  # the path is one of `upstream.paths`
    body: bytes | None = field(default=None, repr=False)  # for the upstream; None: as it is received
    fields: Mapping[str, Any] | None = field(default=None, repr=False)  # of the client's JSON body; None: not read
    rag_status: RagStatus = ""  # "" where no request for a model was understood
    rag_reason: str = ""
    searched: tuple[str, ...] = ()  # collections
    sources: tuple[str, ...] = ()  # of the injected passages, best first
    timings_ms: dict[str, float] = field(default_factory=dict)  # stage -> ms, in the order they ran
    status: int = 0  # sent to the client
    comparison: str = ""  # where the client asked for one: `proxy.observe.shadow` says whether it is made
    error: str = ""  # what went wrong, in a few words; "" when nothing did

    def elapsed_ms(self) -> float:
        """Milliseconds since the request arrived."""
        return (time.perf_counter() - self.started) * 1000


def exchange_of(scope: Scope) -> Exchange:
    """The exchange of this request. Raises KeyError outside `observe`, which opens it."""
    exchange: Exchange = scope[KEY]
    return exchange
