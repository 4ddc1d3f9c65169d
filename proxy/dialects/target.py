"""Where a model's requests go."""

from dataclasses import dataclass, field
from typing import Literal

from proxy.dialects.base import Position

Lane = Literal["relay", "translated", "echo"]
ToolProtocol = Literal["native", "text", "none"]  # proxy.agent.ask.tool_protocols


@dataclass(frozen=True, slots=True)
class Target:
    """Where a model's requests go: a row of the `models` setting, resolved for one request."""

    model: str  # as the upstream names it
    lane: Lane
    api_base: str  # e.g. "https://api.openai.com/v1", no trailing slash; "": litellm chooses
    api_key: str = field(repr=False)  # "": no Authorization header; not in the repr, so never in a log
    key_of_client: bool = False  # no key configured: the client's own is passed on
    position: Position = "lead"  # of passages
    window_tokens: int = 0  # the model's context window; 0: not known
    dialects: tuple[str, ...] = ()  # names of dialects that it speaks; empty: not stated
    tools: ToolProtocol | None = None  # how to ask the model for tool calls; None: learned
    row: str = field(default="", compare=False)  # its name in metrics
