"""Every command in README.md and docs/ is checked, or marked here with the reason.

The commands of the fenced blocks are read from the pages. `tests/wire/test_documented_commands.py` runs the commands
that need a gateway or a collection.
"""

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from cli import ragway
from proxy.api.knowledge.description import whole_document
from tests.support.documented_commands import ROOT, DocumentedCommand, blocks, documented_commands

# Program -> why no test of ours runs the program.
NOT_RUN = {
    "git": "clones over the network",
    "apt": "changes the machine",
    "pip": "changes the environment",
    "docker": "needs Docker",
    "sqlite3": "a program of SQLite",
    "cd": "a word of the shell",
    "export": "a word of the shell",
    ".": "a word of the shell",
    "rm": "removes a file",
}
# Language of a block -> the test of the blocks.
LANGUAGES = {
    "console": "here",
    "bash": "here",
    "python": "here",
    "json": "here",
    "yaml": "tests/test_docs.py",
    "nginx": "tests/wire/test_front_proxy.py",
    "toml": "tests/cli/test_tools.py",
    "markdown": "a document, no command",
    "text": "output or a picture, no command",
}
COMMANDS = documented_commands()


def is_accepted(command: DocumentedCommand) -> None:
    """Raises click.UsageError where `ragway` does not accept the arguments. The command does not run."""
    words = list(command.words[1:])
    called: click.Command | None = ragway
    context = None
    while called is not None:
        context = click.Context(called, parent=context)
        words = called.parse_args(context, words)
        if not isinstance(called, click.Group):
            return
        _, called, words = called.resolve_command(context, [*context._protected_args, *words])


def is_a_target(command: DocumentedCommand) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert {word for word in command.words[1:] if "=" not in word} <= set(targets)


def is_a_program_with_the_options(command: DocumentedCommand) -> None:
    """A program of `benchmarks/` that names each option."""
    source = (ROOT / command.words[1]).read_text("utf-8")
    for word in command.words[2:]:
        if word.startswith("--"):
            assert f'"{word}"' in source, f"{command.words[1]} has no option {word}"


def asks_a_known_path(command: DocumentedCommand) -> None:
    """A path of the gateway, and a body that is JSON."""
    words = command.words
    (url,) = [word for word in words if word.startswith("http://127.0.0.1:8000/")]
    path = url.removeprefix("http://127.0.0.1:8000")
    paths = (*whole_document()["paths"], "/v1/chat/completions", "/v1/admin/keys", "/readyz")
    known = [re.sub(r"\{[^}]*\}", ".+", one) for one in paths]
    assert any(re.fullmatch(pattern, path) for pattern in known), path
    if "-d" in words:
        json.loads(words[words.index("-d") + 1])


CHECKS: dict[str, Callable[[DocumentedCommand], None]] = {
    "ragway": is_accepted,
    "make": is_a_target,
    "python": is_a_program_with_the_options,
    "curl": asks_a_known_path,
}


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_every_command_is_checked_or_marked(
    command: DocumentedCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "openapi.yaml").touch()  # an option may want an existing file
    monkeypatch.chdir(tmp_path)
    if command.program not in NOT_RUN:
        assert command.program in CHECKS, f"check {command.program}, or mark it in NOT_RUN with the reason"
        CHECKS[command.program](command)


@pytest.mark.parametrize("line", ["search --no-such-option x", "keys rotate", "bench report", "serve --port many"])
def test_a_wrong_command_line_is_noticed(line: str) -> None:
    with pytest.raises(click.UsageError):
        is_accepted(DocumentedCommand("", line, {}, ("ragway", *line.split())))


def test_no_program_is_marked_in_vain() -> None:
    assert set(NOT_RUN) == {command.program for command in COMMANDS} - set(CHECKS)


def test_the_commands_of_a_block_are_found_whole() -> None:
    assert len(COMMANDS) > 80
    variables = [command.variables for command in COMMANDS if command.program == "ragway" and command.variables]
    assert {"RAGWAY_RETRIEVAL__K": "6"} in variables


def test_every_block_has_a_language_that_a_test_checks() -> None:
    assert {language for _, language, _ in blocks()} == set(LANGUAGES)


@pytest.mark.parametrize(("page", "text"), [(page, text) for page, language, text in blocks() if language == "python"])
def test_every_python_block_is_python(page: str, text: str) -> None:
    ast.parse(text, filename=page)


@pytest.mark.parametrize(("page", "text"), [(page, text) for page, language, text in blocks() if language == "json"])
def test_every_json_block_is_json_or_json_lines(page: str, text: str) -> None:
    try:
        json.loads(text)
    except json.JSONDecodeError:
        for line in text.splitlines():
            assert isinstance(json.loads(line), dict), page
