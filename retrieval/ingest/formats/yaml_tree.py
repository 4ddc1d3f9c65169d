"""YAML as Markdown: its own lines, comments too, below headings by the structure of its mappings.

What is not YAML, such as a template, is one block of lines. Aliases are not followed, so nothing is expanded.
"""

import re
import textwrap
from collections.abc import Iterator

import yaml

from retrieval.errors import Unreadable, groups_outside_markdown
from retrieval.records.attributes import folded_name

_MOST_DEPTH = 100
_MOST_LEVEL = 4  # of headings
_LEAST_LINES = 4  # of a section
_NAMES = ("title", "name", "id")
_FENCES = re.compile("`{3,}")
_LOCKED = re.compile(r"(?:^|[-.])lock\.ya?ml$", re.IGNORECASE)  # pnpm-lock.yaml and the like, written by programs


def is_lock_file(name: str) -> bool:
    return _LOCKED.search(name) is not None


def to_markdown(text: str, *, rights: bool) -> tuple[str, str]:
    """Return the title ("" for none) and the text. Raises Unreadable; UnreadableRights if it names groups."""
    lines = text.split("\n")
    try:
        nodes = _nodes(text)
    except (yaml.YAMLError, ValueError):
        return "", _block(lines)
    if rights and any(_names_groups(node) for node in nodes):
        raise groups_outside_markdown("YAML")
    starts = [0, *(node.start_mark.line for node in nodes[1:]), len(lines)]
    parts = list[str]()
    for at, node in enumerate(nodes):
        title = _document_name(node) if len(nodes) > 1 else ""
        parts += [f"# {title}"] if title else []
        parts += _sections(node, lines, starts[at], starts[at + 1], 2 if title or len(nodes) == 1 else 1)
    title = _named(nodes[0]) if len(nodes) == 1 else ""
    return title, "\n\n".join(part for part in parts if part) + "\n"


def _nodes(text: str) -> list[yaml.Node]:
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):  # before nodes are made: that has no limit
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MOST_DEPTH:
            raise Unreadable("nested too deeply: split the file")
    nodes: list[yaml.Node | None] = [*yaml.compose_all(text, Loader=yaml.CSafeLoader)]
    return [node for node in nodes if node is not None]


def _names_groups(node: yaml.Node) -> bool:
    """Whether a document names groups as front matter does: by their names, not with objects."""
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if isinstance(key, yaml.ScalarNode) and folded_name(key.value) == "groups":
            items = value.value if isinstance(value, yaml.SequenceNode) else [value]
            if all(isinstance(item, yaml.ScalarNode) for item in items):
                return True
    return False


def _sections(node: yaml.Node, lines: list[str], start: int, end: int, level: int) -> Iterator[str]:
    """The lines from start to end, with a heading before each larger part of a mapping or list."""
    rest = start
    entries = list(_entries(node, start, end))
    for at, (title, first, value) in enumerate(entries):
        begun = _with_comments(lines, first, rest)
        until = _with_comments(lines, entries[at + 1][1], first) if at + 1 < len(entries) else end
        if title and level <= _MOST_LEVEL and until - begun >= _LEAST_LINES and _is_block(value):
            yield _block(lines[rest:begun])
            yield f"{'#' * level} {title}"
            yield from _sections(value, lines, begun, until, level + 1)
            rest = until
    yield _block(lines[rest:end])


def _entries(node: yaml.Node, start: int, end: int) -> Iterator[tuple[str, int, yaml.Node]]:
    """A mapping's or list's parts, if written in lines of their own: title, first line and value."""
    before = start - 1
    for entry in node.value if _is_block(node) else ():
        key, value = entry if isinstance(entry, tuple) else (entry, entry)
        title = _named(value) if key is value else key.value
        first = key.start_mark.line
        if before < first < end and isinstance(title, str):
            before = first
            yield " ".join(title.split())[:200], first, value


def _is_block(node: yaml.Node) -> bool:
    return isinstance(node, yaml.CollectionNode) and not node.flow_style


def _scalar(node: yaml.Node, name: str) -> str:
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if key.value == name:
            return " ".join(value.value.split())[:200] if isinstance(value, yaml.ScalarNode) else _named(value)
    return ""


def _named(node: yaml.Node) -> str:
    return next((found for name in _NAMES if (found := _scalar(node, name))), "")


def _document_name(node: yaml.Node) -> str:
    """Of one of several documents, such as "Deployment shop" of Kubernetes."""
    return " ".join(filter(None, (_scalar(node, "kind"), _scalar(node, "metadata") or _named(node))))


def _with_comments(lines: list[str], first: int, least: int) -> int:
    """The first line of the comment right above a line."""
    while first > least and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return first


def _block(lines: list[str]) -> str:
    text = textwrap.dedent("\n".join(line for line in lines if line.strip() != "---")).strip("\n")
    if not text.strip("- ") or ("\n" not in text and text.rstrip().endswith(":")):  # a line that became the heading
        return ""
    fence = "`" * max(3, 1 + max(map(len, _FENCES.findall(text)), default=0))
    return f"{fence}yaml\n{text}\n{fence}"
