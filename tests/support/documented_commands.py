"""The shell commands in the fenced blocks of README.md and docs/."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "index.md", *sorted((ROOT / "docs").glob("*/*.md"))]
_SHELLS = ("console", "bash")
_BLOCK = re.compile(r"^```(\S*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_VARIABLE = re.compile(r"[A-Z_]+=")
_PLACEHOLDER = re.compile(r"<[^>]*>")  # <PyTorch's CPU wheel index>


@dataclass(frozen=True, slots=True)
class DocumentedCommand:
    """One command of a page."""

    page: str
    line: str  # as printed, with continued lines joined
    variables: dict[str, str]  # set in front of the command
    words: tuple[str, ...]  # the program and the arguments

    @property
    def program(self) -> str:
        """The program's name, without a folder."""
        return self.words[0].rpartition("/")[2] or self.words[0]

    def __str__(self) -> str:
        return f"{self.page}: {self.line}"


def blocks() -> list[tuple[str, str, str]]:
    """Every fenced block: page, language, text."""
    return [(path.name, language, text) for path in PAGES for language, text in _BLOCK.findall(path.read_text("utf-8"))]


def documented_commands() -> list[DocumentedCommand]:
    """Every command, in the order of the pages. In a block with a prompt (`$ `) the other lines are output."""
    return [
        command
        for page, language, text in blocks()
        if language in _SHELLS
        for line in _command_lines(text)
        for command in _commands_of(page, line)
    ]


def _command_lines(text: str) -> list[str]:
    lines = text.replace("\\\n", " ").splitlines()
    with_prompt = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return with_prompt or lines


def _commands_of(page: str, line: str) -> list[DocumentedCommand]:
    words = shlex.split(_PLACEHOLDER.sub("PLACEHOLDER", line), comments=True)
    found = []
    while words:
        end = words.index("&&") if "&&" in words else len(words)
        found.append(_command(page, " ".join(line.split()), words[:end]))
        words = words[end + 1 :]
    return found


def _command(page: str, line: str, words: list[str]) -> DocumentedCommand:
    variables = {}
    while words and _VARIABLE.match(words[0]):
        name, _, variables[name] = words[0].partition("=")
        words = words[1:]
    if ">" in words:  # the file of the output
        words = words[: words.index(">")]
    return DocumentedCommand(page, line, variables, tuple(words))
