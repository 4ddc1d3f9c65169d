"""Utility requests: a chat program's own requests for a title, tags, follow-ups, a summary or a search query.

Programs send these to the conversation's model. Passages would cost tokens and spoil answers that must be JSON or four
words. We recognise them by the fixed words that their prompts begin with: people who ask about titles, or quote a
prompt, begin differently. Prompts are data: `config/utility_requests.yaml`, and a file of the user's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from proxy.dialects.base import ConversationMessage

_HEAD_CHARS = 4000  # of a system message: a prompt may begin here
_INSTRUCTIONS = 8  # system messages read at either end of a conversation, which may hold many
_SHORTEST_CHARS = 20  # of fixed words: a person's question may hold fewer by chance


class PromptsError(ValueError):
    """A file of prompts cannot be used; the text names the entry and the expected form."""


@dataclass(frozen=True, slots=True)
class UtilityPrompt:
    """A prompt's first words, and words that must come later ("" for none)."""

    begins: str
    holds: str = ""


@dataclass(frozen=True, slots=True)
class UtilityPrompts:
    """Known prompts: how the newest user message begins, or a line in a system message."""

    user: tuple[UtilityPrompt, ...] = ()
    system: tuple[UtilityPrompt, ...] = ()

    @classmethod
    def read(cls, *files: Path) -> "UtilityPrompts":
        """Read prompts from all files. Raises PromptsError."""
        found = [entry for file in files for entry in _entries(file)]
        return cls(*(tuple(prompt for role, prompt in found if role == wanted) for wanted in ("user", "system")))

    def match(self, messages: Sequence[ConversationMessage]) -> bool:
        """Whether the newest user message, or an instruction, is a known prompt."""
        newest = next((message for message in reversed(messages) if message.role == "user"), None)
        said = "" if newest is None else newest.text.lstrip()
        if any(said.startswith(prompt.begins) and prompt.holds in said for prompt in self.user):
            return True
        instructions = [message.text for message in messages if message.role in ("system", "developer")]
        if len(instructions) > 2 * _INSTRUCTIONS:
            instructions = [*instructions[:_INSTRUCTIONS], *instructions[-_INSTRUCTIONS:]]
        return any(map(self._matches_system, instructions))

    def _matches_system(self, text: str) -> bool:
        """Whether any line begins a known prompt: a message's text parts arrive joined by line feeds."""
        head = "\n" + text[:_HEAD_CHARS]
        return any("\n" + prompt.begins in head and prompt.holds in text for prompt in self.system)


def _entries(file: Path) -> list[tuple[str, UtilityPrompt]]:
    try:
        entries = yaml.load(file.read_text("utf-8"), Loader=yaml.CSafeLoader)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise PromptsError(f"cannot read {file}: {' '.join(str(error).split())}") from error
    if not isinstance(entries, list):
        raise PromptsError(f"{file} must be a list of entries with role, begins and holds")
    return [_entry(entry, f"{file}, entry {number}") for number, entry in enumerate(entries, start=1)]


def _entry(entry: Any, where: str) -> tuple[str, UtilityPrompt]:
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
    return role, UtilityPrompt(begins, holds)
