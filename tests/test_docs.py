"""README.md and docs/ say what the code does: settings, commands, error codes, links and files are compared with it."""

import ast
import dataclasses
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from cli import COMMANDS, ragway
from config.sections import ActionsApi, DeclaredSource, Model, TableSource
from config.settings import DEFAULTS, load
from proxy.augment.middleware import DEGRADED
from proxy.dialects.paths import BY_PATH
from proxy.dialects.target import Lane
from proxy.exchange import RagStatus
from proxy.observe.metrics import STAGES, Metrics
from retrieval.ingest.formats import pictures
from retrieval.ingest.formats.registry import CONTAINERS, FORMATS
from tests.support.rows import all_rows

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "docs" / "index.md", *sorted((ROOT / "docs").glob("*/*.md"))]
MOVED = sorted({*(ROOT / "docs").glob("*.md")} - {*PAGES})  # old paths: each says where the page is now
BESIDE = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "benchmarks").rglob("*.md"))]
_IDS = [str(page.relative_to(ROOT)) for page in PAGES]
_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


def rows(text: str) -> list[list[str]]:
    """The cells of every table row, headers and rules included; an escaped | does not end a cell."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


@functools.cache
def defaults() -> dict[str, object]:
    """Dotted key -> default, of config/default.yaml."""
    found: dict[str, object] = {}
    for section, value in yaml.safe_load(DEFAULTS.read_text("utf-8")).items():
        if isinstance(value, dict) and section not in ("models", "actions", "tables", "sources"):
            found |= {f"{section}.{key}": entry for key, entry in value.items()}
        else:
            found[section] = value
    return found


@functools.cache
def documented_settings() -> dict[str, str]:
    """Dotted key -> the default's cell, of every settings table of the pages of settings."""
    tables = [*rows(page("reference/configuration.md")), *rows(page("reference/tables.md"))]
    return {cells[0].strip("`"): cells[1].strip("`") for cells in tables if re.fullmatch(r"`[\w.]+`", cells[0])}


def test_every_setting_is_documented_and_no_other() -> None:
    of_rows = {
        f"{section}.NAME.{field.name}"
        for section, kind in (
            ("models", Model),
            ("actions", ActionsApi),
            ("tables", TableSource),
            ("sources", DeclaredSource),
        )
        for field in dataclasses.fields(kind)
    }
    assert set(documented_settings()) == set(defaults()) | of_rows


@all_rows("key", defaults())
def test_the_documented_default_is_the_default(key: str) -> None:
    assert yaml.safe_load(documented_settings()[key]) == defaults()[key]


def command_pages() -> str:
    return page("reference/command-line.md") + page("reference/judging-commands.md")


def section_of(command: str) -> str:
    """What the pages of commands say under the command's own heading."""
    found = re.search(rf"^## ragway {command}\b.*?(?=^## |^# |\Z)", command_pages(), re.MULTILINE | re.DOTALL)
    assert found, f"neither page of commands has a section '## ragway {command}'"
    return found[0]


def options_of(name: str) -> set[str]:
    """--collection, -k …: without --help and what is shared."""
    command = ragway.get_command(click.Context(ragway), name)
    assert command is not None
    options = [one for part in _parts(command) for one in part.params if isinstance(one, click.Option)]
    return {text for option in options for text in option.opts} - {"--config", "--data"}


def _parts(command: click.Command) -> list[click.Command]:
    """The command and all commands of the group."""
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    return [command, *(part for one in inner for part in _parts(one))]


def shared_section() -> str:
    return page("reference/command-line.md").partition("## Options that every command takes")[2].partition("\n## ")[0]


@all_rows("name", COMMANDS)
def test_every_command_has_a_section_with_its_options_and_no_other(name: str) -> None:
    written = {match for code in _CODE.findall(section_of(name)) for match in re.findall(r"(?<!\S)--?[a-z-]+", code)}
    assert written == options_of(name)


def test_the_command_line_page_has_no_command_that_does_not_exist() -> None:
    assert set(re.findall(r"^## ragway (\w+)", command_pages(), re.MULTILINE)) == set(COMMANDS)


def test_the_options_every_command_takes_are_documented() -> None:
    for option in ("--config", "--data", "--help", "-h", "--version"):
        assert re.search(rf"`(?:ragway )?{option}\b", shared_section()), option


@pytest.mark.parametrize("path", PAGES, ids=_IDS)
def test_no_page_calls_a_command_that_does_not_exist(path: Path) -> None:
    text = path.read_text("utf-8")
    code = "\n".join([*_FENCE.findall(text), *_CODE.findall(text)])
    assert set(re.findall(r"(?:^|[ /])ragway ([a-z]+)", code, re.MULTILINE)) <= set(COMMANDS)


def codes() -> set[str]:
    """Every error code that a client of the gateway can get: literals given as `code`, or assigned to that name."""
    found: set[str] = set()
    for file in sorted((ROOT / "proxy").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            found.update(_codes_of(node))
    return found


def _codes_of(node: ast.AST) -> Iterator[str]:
    given: list[ast.expr] = []
    if isinstance(node, ast.Call):
        given = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
        if isinstance(node.func, ast.Name) and node.func.id in ("upstream_error", "_refused"):
            given += node.args[2:3]
    elif isinstance(node, ast.Assign):
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = zip(target.elts, value.elts, strict=True)
            given = [right for left, right in pairs if isinstance(left, ast.Name) and left.id == "code"]
        elif isinstance(target, ast.Name) and target.id == "code":
            given = [value]
    for expression in given:
        if isinstance(expression, ast.Constant) and isinstance(expression.value, str):
            yield expression.value


def test_codes_are_found_however_they_are_written() -> None:
    assert {"model_not_found", "unknown_path", "method_not_allowed", "upstream_cut", "upstream_bad_reply"} <= codes()


def test_every_error_code_is_in_troubleshooting_and_no_other() -> None:
    table = page("use/troubleshooting.md").partition("## Error codes of the gateway")[2]
    assert {cells[0].strip("`") for cells in rows(table) if cells[0].startswith("`")} == codes()


def test_every_status_is_explained() -> None:
    for status in get_args(RagStatus):
        for text in ((ROOT / "README.md").read_text("utf-8"), page("use/asking.md")):
            assert f"`{status}`" in text, status


def test_troubleshooting_names_every_reason_of_a_degraded_chat_and_none_that_the_code_does_not_give() -> None:
    told = {code for cells in rows(page("use/troubleshooting.md")) for code in _CODE.findall(cells[0]) if " " in code}
    augment = ast.parse((ROOT / "proxy" / "augment" / "middleware.py").read_text("utf-8"))
    reasons = {reason for _, reason in DEGRADED}
    assert reasons <= told
    assert reasons == {code for cells in rows(_failures()) for code in _CODE.findall(cells[0]) if " " in code}
    assert told <= {*_texts(augment)}


def _failures() -> str:
    return page("use/operations.md").partition("## What happens when retrieval fails")[2].partition("\n## ")[0]


def test_every_metric_is_documented_and_no_other() -> None:
    table = page("use/operations.md").partition("## Metrics")[2].partition("\n## ")[0]
    metrics = Metrics(upstreams={"gpt": "host"}, data=Path())
    families = text_string_to_metric_families(metrics.text(ready=True).decode())
    counters = {f"{family.name}_total" if family.type == "counter" else family.name for family in families}
    assert {cells[0].strip("`") for cells in rows(table) if cells[0].startswith("`")} == counters
    for stage in STAGES:
        assert f"`{stage}`" in table, stage


def _texts(tree: ast.AST) -> Iterator[str]:
    return (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))


def test_every_lane_is_in_the_table_of_lanes() -> None:
    table = page("use/models.md").partition("## What the lanes are")[2].partition("\n## ")[0]
    assert {cells[0].strip("`") for cells in rows(table) if cells[0].startswith("`")} == {*get_args(Lane), "auto"}


def test_every_file_ending_that_is_read_is_listed_and_no_other() -> None:
    table = page("use/your-documents.md").partition("## Which file formats are read")[2].partition("\n## ")[0]
    listed = set(re.findall(r"`(\.\w+)`", "\n".join("|".join(cells) for cells in rows(table))))
    assert listed == {*FORMATS, *CONTAINERS, *pictures.ENDINGS}


@pytest.mark.parametrize("path", [*PAGES, *MOVED, *BESIDE], ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(path: Path) -> None:
    for target in _LINK.findall(_FENCE.sub("", path.read_text("utf-8"))):
        if re.match(r"\w+://", target):
            continue
        file, _, anchor = target.partition("#")
        linked = path.parent / file if file else path
        assert linked.exists(), f"{path.name} links to {target}, which does not exist"
        if anchor:
            assert anchor in anchors(linked), f"{path.name} links to {target}, which has no such heading"


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = _HEADING.findall(_FENCE.sub("", path.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@functools.cache
def tops() -> set[str]:
    """What stands at the top of the repository."""
    return {entry.name for entry in ROOT.iterdir()} - {"data", ".venv"}


@pytest.mark.parametrize("path", PAGES, ids=_IDS)
def test_no_page_names_a_file_of_the_project_that_does_not_exist(path: Path) -> None:
    for code in _CODE.findall(_FENCE.sub("", path.read_text("utf-8"))):
        top, slash, _ = code.partition("/")
        of_the_project = slash and top in tops() and re.fullmatch(r"[\w./-]+", code)
        at_the_top = re.fullmatch(r"[A-Z]\w+\.md|Makefile|Dockerfile|compose\.yaml|\.env\.example|\w+\.toml", code)
        if of_the_project or at_the_top:
            assert (ROOT / code).exists(), f"{path.name} names {code}, which does not exist"


def test_the_documentation_is_listed_whole_on_its_first_page_and_in_the_readme() -> None:
    pages = {str(path.relative_to(ROOT / "docs")) for path in PAGES if path.parent.parent == ROOT / "docs"}
    assert pages <= set(_LINK.findall(page("index.md")))
    assert {f"docs/{name}" for name in pages} <= set(_LINK.findall((ROOT / "README.md").read_text("utf-8")))


@pytest.mark.parametrize("path", PAGES, ids=_IDS)
def test_no_page_is_longer_than_a_reader_reads(path: Path) -> None:
    text = path.read_text("utf-8")
    assert words(text) <= 3_000
    assert max((words(cell) for cells in rows(text) for cell in cells), default=0) <= 40


def words(text: str) -> int:
    return sum(re.search(r"\w", part) is not None for part in re.split(r"[\s|]+", text))


def test_each_old_path_leads_to_the_page_in_one_line() -> None:
    assert len(MOVED) > 30
    for path in MOVED:
        (line,) = path.read_text("utf-8").splitlines()
        assert _LINK.findall(line), path


def test_a_stranger_gets_to_an_answer_within_forty_lines() -> None:
    head = "\n".join((ROOT / "README.md").read_text("utf-8").splitlines()[:40])
    for needed in ("make run", "make test", "curl", "/v1/chat/completions", "x-rag-status: augmented", "[1] "):
        assert needed in head, needed


def test_the_promised_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    value = r'(?:<[^>]*>|"[^"]*"|\S+)'  # of a variable: ARGS="--quick"
    call = re.compile(rf"^(?:[A-Z_]+={value} )*make ((?:[A-Z_]+={value} ?|[a-z-]+ ?)+)", re.MULTILINE)
    named: set[str] = set()
    for path in PAGES:
        text = path.read_text("utf-8")
        code = "\n".join([*_FENCE.findall(text), *_CODE.findall(text)])
        named |= {word for words in call.findall(code) for word in re.sub(f"[A-Z_]+={value}", "", words).split()}
    assert {"run", "test", "clean"} <= named
    assert named <= targets


def test_the_readme_names_the_paths_that_get_passages() -> None:
    text = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert all(f"`{path}`" in text for path in BY_PATH)


def blocks(language: str) -> list[tuple[str, str]]:
    """Every block of a language in the documentation: its page, and its text."""
    fence = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return [(path.name, text) for path in PAGES for text in fence.findall(path.read_text("utf-8"))]


@pytest.mark.parametrize(("name", "text"), blocks("yaml"))
def test_every_settings_file_of_the_documentation_is_read(name: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "ragway.yaml"
    file.write_text(text, "utf-8")
    settings = load(file=file, environ={}, flags={})
    assert str(file) in settings.origins.values(), f"{name}: nothing of it was taken"
