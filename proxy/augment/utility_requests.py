"""Which requests are a chat program's own: a title, tags, follow-ups, a summary, a search query. They ask nothing.

Programs send them to the same model as the conversation. Passages would cost tokens there and spoil answers that must
be JSON or four words. Recognised by the fixed words of their prompts alone, where a prompt begins: a person who asks
about titles, or quotes such a prompt, begins otherwise. The prompts are data: `config/utility_requests.yaml`, and a
file of the user's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from proxy.dialects.chat import text_of

_HEAD_CHARS = 4000  # of a system message: where a prompt of this kind would stand
_INSTRUCTIONS = 8  # system messages looked at from either end of a conversation, which may have any number
_SHORTEST_CHARS = 20  # of what a prompt is known by: shorter, a person's question may have it


class PromptsError(ValueError):
    """A file of prompts that cannot be used: which entry, and what was expected."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt by its first words, and by words that must come later ("" for none)."""

    begins: str
    holds: str = ""


@dataclass(frozen=True, slots=True)
class Housekeeping:
    """The known prompts: those that are the newest user message, and those that a line of a system message begins."""

    user: tuple[Prompt, ...] = ()
    system: tuple[Prompt, ...] = ()

    @classmethod
    def read(cls, *files: Path) -> "Housekeeping":
        """The prompts of the files together. Raises PromptsError."""
        found = [entry for file in files for entry in _entries(file)]
        return cls(*(tuple(prompt for role, prompt in found if role == wanted) for wanted in ("user", "system")))

    def is_in(self, messages: Sequence[dict[str, Any]]) -> bool:
        """Whether the newest user message, or an instruction to the model, is one of the prompts."""
        newest = next((message for message in reversed(messages) if message["role"] == "user"), None)
        if newest is not None and self._asks(text_of(newest.get("content")).lstrip()):
            return True
        instructions = [message for message in messages if message["role"] in ("system", "developer")]
        if len(instructions) > 2 * _INSTRUCTIONS:
            instructions = [*instructions[:_INSTRUCTIONS], *instructions[-_INSTRUCTIONS:]]
        return any(self._instructs(text_of(message.get("content"))) for message in instructions)

    def _asks(self, text: str) -> bool:
        return any(text.startswith(prompt.begins) and prompt.holds in text for prompt in self.user)

    def _instructs(self, text: str) -> bool:
        """A line may begin such a prompt: what was a list of parts arrives joined."""
        head = "\n" + text[:_HEAD_CHARS]
        return any("\n" + prompt.begins in head and prompt.holds in text for prompt in self.system)


def _entries(file: Path) -> list[tuple[str, Prompt]]:
    try:
        entries = yaml.safe_load(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise PromptsError(f"cannot read {file}: {' '.join(str(error).split())}") from error
    if not isinstance(entries, list):
        raise PromptsError(f"{file} must be a list of entries with role, begins and holds")
    return [_entry(entry, f"{file}, entry {number}") for number, entry in enumerate(entries, start=1)]


def _entry(entry: Any, where: str) -> tuple[str, Prompt]:
    if not isinstance(entry, dict):
        raise PromptsError(f"{where} must have role, begins and holds, got {entry!r:.80}")
    for name, value in entry.items():
        if name not in ("role", "begins", "holds"):
            raise PromptsError(f"{where} has {name!r:.80}, but an entry has only role, begins and holds")
        if not isinstance(value, str):
            raise PromptsError(f"{where}: {name} must be text, got {value!r:.80}")
    role, begins, holds = entry.get("role"), entry.get("begins", "").lstrip(), entry.get("holds", "")
    if role not in ("user", "system"):
        raise PromptsError(f"{where}: role must be user or system, got {role!r:.80}")
    if not begins:
        raise PromptsError(f"{where}: begins must be the first words of the prompt")
    if len(begins + holds) < _SHORTEST_CHARS:
        words = f"begins and holds have {len(begins + holds)} characters together"
        raise PromptsError(f"{where}: {words}, too few to tell a program from a person: give {_SHORTEST_CHARS} or more")
    if role == "system" and len(begins) > _HEAD_CHARS:
        raise PromptsError(f"{where}: begins must have at most {_HEAD_CHARS} characters")
    return role, Prompt(begins, holds)
