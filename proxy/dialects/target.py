"""Where a model's requests go."""

from dataclasses import dataclass, field
from typing import Literal

from proxy.dialects.base import Position

Lane = Literal["relay", "translated", "echo"]
ToolProtocol = Literal["native", "text", "none"]  # proxy.agent.ask.tool_protocols


@dataclass(frozen=True, slots=True)
class Target:
    """Where a model's requests go: one row of the `models` setting, resolved for a request."""

    model: str  # the upstream's name of the model
    lane: Lane
    api_base: str  # e.g. "https://api.openai.com/v1", no trailing slash; "": litellm chooses
    api_key: str = field(repr=False)  # "": no Authorization header; not in the repr, so never in a log
    key_of_client: bool = False  # no key is configured: the client's own key is passed on
    position: Position = "lead"  # of the passages
    window_tokens: int = 0  # the model's context window; 0: not known
    dialects: tuple[str, ...] = ()  # names of the dialects that the upstream speaks; empty: not stated
    tools: ToolProtocol | None = None  # how the model is asked for calls of operations; None: learned
    row: str = field(default="", compare=False)  # name of the row, in the metrics
