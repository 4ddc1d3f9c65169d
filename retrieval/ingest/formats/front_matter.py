"""Front matter: the lines between two marks at the beginning of a document, YAML (---) or TOML (+++).

Its fields are the document's attributes, and `groups` says who may read the document. Attributes only narrow searches:
what cannot be read of them is passed over. Rights are never passed over: where the front matter names groups, or seems
to, and they cannot be read with certainty, there is no document (`UnreadableRights`).

The YAML has no anchors, aliases, merge keys or tags, and little depth; each name stands once. So reading takes linear
time (libyaml takes 5 s for 50,000 open brackets, tomllib 13 s for long dotted keys), and no two readers disagree.
"""

import datetime
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from string import ascii_lowercase
from typing import Any

import yaml

from retrieval.attributes import BUILT_IN, MOST_ATTRIBUTES, MOST_ITEMS, bare, checked_attributes, checked_groups
from retrieval.errors import UnreadableRights
from retrieval.ingest.chunking.blocks import plain
from retrieval.records.documents import Attribute

_MOST_CHARS = 50_000  # front matter that is longer is not read
_MOST_DEPTH = 20
_MOST_DOTS = 100  # in one line of TOML

_OPENING = re.compile(r"[\s\ufeff\u200b]*(-{3,}|\+{3,})[ \t]*(?:#.*)?\n")
# As other programs have it ("---yaml", ";;;", "{" of JSON), or as a slip makes it (another dash or blank, no mark).
_LIKE_OPENING = re.compile(r"[^\w\n`<#]{1,40}(?:yaml|yml|toml|json)?[^\w\n`<#]{0,9}\n", re.IGNORECASE)
_LIKE_FIELDS = re.compile(r"\s{0,40}:?[\w.-]{1,64}[ \t]{0,9}[:=](?:.+\n)*.*")  # up to an empty line
_MARK = re.compile(r"^(---|\+\+\+|\.\.\.)(.*)(?:\n|\Z)", re.MULTILINE)
_FIELD = re.compile(r"^[\w.-]+[ \t]*[:=]", re.MULTILINE)
_TITLE = re.compile(r"^title[ \t]*[:=][ \t]*(.+)$", re.MULTILINE | re.IGNORECASE)
# A name, as one may write it: quoted, with invisible characters, before a sign of another width. Bounded: linear time.
_WORD = r"([\w\u00ad\u200b-\u200f\u2060\ufeff-]{4,16})"
_SIGN = r"[ \t]{0,9}[\"'\])}]{0,2}[ \t]{0,9}[:=：＝]"
_NAMED = re.compile(rf"(?<![\w-]){_WORD}{_SIGN}")
_NAMED_FIRST = re.compile(rf"^[^\w\n#]{{0,9}}{_WORD}{_SIGN}", re.MULTILINE)
_FIRST = re.compile(rf"^[\"']?{_WORD}(?![\w-])", re.MULTILINE)
_CUTS = [("groups"[:at], "groups"[at:]) for at in range(7)]
# `groups`, and what it becomes by one slip: a letter left out, swapped with the next, another one, one too many.
_MEANT = {
    "groups",
    *(before + after[1:] for before, after in _CUTS),
    *(before + after[1:2] + after[:1] + after[2:] for before, after in _CUTS),
    *(before + letter + after[skipped:] for before, after in _CUTS for letter in ascii_lowercase for skipped in (0, 1)),
}
_HOW = "Write one line `groups: [hr, legal]` in it"


@dataclass(frozen=True, slots=True)
class Front:
    """What a document's front matter says of it."""

    title: str = ""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    groups: tuple[str, ...] = ()


class _Loader(yaml.CSafeLoader):
    """Takes each name once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        made: dict[Any, Any] = super().construct_mapping(node, deep)
        if len(made) < len(node.value):
            place: Any = node.start_mark
            raise yaml.MarkedYAMLError(problem="a name stands twice", problem_mark=place)
        return made


def read(text: str, *, rights: bool = True) -> tuple[Front, str]:
    """What the front matter of a Markdown document says, and the text after it.

    A text that merely begins with a thematic break has no `name:` on the lines up to the next one, and stays whole. The
    title is found in front matter that no parser takes, too. rights: False where somebody else says who may read the
    document. Raises UnreadableRights.
    """
    opening = _OPENING.match(text)
    if not opening:
        if rights:
            _check_beginning(text)
        return Front(), text
    end = _MARK.search(text, opening.end())
    if end is None or len(opening[1]) > 3 or end[1] not in (opening[1], "...") or end[2].strip():
        if rights and _mentions(text[opening.end() :], _NAMED_FIRST):
            raise UnreadableRights(
                "it begins like front matter that names groups, and no line '---' alone ends that: add this line"
            )
        return Front(), text
    block = text[opening.end() : end.start()]
    if block.strip() and not _FIELD.search(block) and not (rights and _mentions(block, _NAMED)):
        return Front(), text
    first_line = text.count("\n", 0, opening.end()) + 1
    try:
        fields = _toml(block) if opening[1] == "+++" else _yaml(block, first_line)
        groups = _groups(fields, block) if rights else ()
    except ValueError as error:
        if rights and _mentions(block, _NAMED, _FIRST):
            raise UnreadableRights(f"its front matter names groups and cannot be read: {error}") from error
        fields, groups = {}, ()
    return Front(_title(block), _attributes(fields), groups), text[end.end() :].lstrip("\n")


def check_unread(text: str, *, prose: bool) -> None:
    """Raises UnreadableRights where a document of another format has front matter that names groups: none is read."""
    opening = _OPENING.match(text)
    if not opening:
        if prose:
            _check_beginning(text)
        return
    end = _MARK.search(text, opening.end())
    if _mentions(text[opening.end() : end.start() if end else len(text)], _NAMED_FIRST):
        raise UnreadableRights("its front matter names groups, and that of Markdown alone is read: name the file *.md")


def _check_beginning(text: str) -> None:
    """Raises UnreadableRights where a text begins with what may be meant as front matter, and that names groups."""
    opening = _LIKE_OPENING.match(text)
    fields = _LIKE_FIELDS.match(text)
    if _mentions(text[opening.end() :] if opening else fields[0] if fields else "", _NAMED_FIRST):
        raise UnreadableRights(
            "it begins like front matter that names groups, and not with a line '---' alone: begin and end it with one"
        )


def _yaml(block: str, first_line: int) -> Mapping[Any, Any]:
    """The fields. Raises ValueError with the line of the file."""
    if len(block) > _MOST_CHARS:
        raise ValueError(f"it has {len(block):,} characters, at most {_MOST_CHARS:,} are read. Shorten it")
    try:
        depth = 0
        for event in yaml.parse(block, Loader=yaml.CSafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if wrong := _unwanted(event, depth):
                place: Any = event.start_mark  # libyaml's own, which MarkedYAMLError's types do not know
                raise yaml.MarkedYAMLError(problem=wrong, problem_mark=place)
        fields = yaml.load(block, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + first_line}: " if mark else ""
        raise ValueError(f"{where}{error.problem or error.context}. Put values in quotes, or mend the line") from error
    except (yaml.YAMLError, OverflowError, ValueError) as error:  # a date like 2024-99-99, a number without end
        raise ValueError(f"{' '.join(str(error).split())[:200]}. Put values in quotes, or mend the line") from error
    return _named(fields)


def _unwanted(event: Any, depth: int) -> str:
    """What an event of the parser has that is not read; "" if nothing."""
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
        return "anchors and aliases (&, *) are not read here"
    if getattr(event, "tag", None):
        return "tags (!) are not read here"
    if isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]:
        return "merge keys (<<) are not read here"
    return "it is nested too deeply" if depth > _MOST_DEPTH else ""


def _toml(block: str) -> Mapping[Any, Any]:
    """The fields. Raises ValueError."""
    if len(block) > _MOST_CHARS:
        raise ValueError(f"it has {len(block):,} characters, at most {_MOST_CHARS:,} are read. Shorten it")
    if any(line.count(".") > _MOST_DOTS for line in block.split("\n")):
        raise ValueError(f"a line has more than {_MOST_DOTS} dots. Shorten it")
    try:
        return tomllib.loads(block)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{error} of the front matter. Mend the line") from error


def _named(fields: object) -> Mapping[Any, Any]:
    if fields is None:
        return {}
    if not isinstance(fields, Mapping):
        raise ValueError(f"it is no list of names and values. {_HOW}")
    return fields


def _groups(fields: Mapping[Any, Any], block: str) -> tuple[str, ...]:
    """The groups that the fields name. Raises ValueError where they are named, or nearly, and cannot be read."""
    named = [name for name in fields if isinstance(name, str) and bare(name) == "groups"]
    if len(named) > 1:
        raise ValueError(f"groups stand twice, as {named[0]!r} and {named[1]!r}. Keep one")
    if named:
        groups = fields[named[0]]
        if groups in ("", []):
            raise ValueError("groups are named, and there are none. Name some, or leave the line out: for everybody")
        return checked_groups([groups] if isinstance(groups, str) else groups)
    near = next((name for name in _names(fields) if bare(name) in _MEANT), None)
    if near is not None or _mentions(block, _NAMED_FIRST):
        raise ValueError(f"{near or 'groups'!r} is not where, or not how, groups are written. {_HOW}, or rename it")
    return ()


def _names(fields: object) -> Iterator[str]:
    """The names at every depth."""
    waiting = [fields]
    while waiting:
        match waiting.pop():
            case Mapping() as inner:
                yield from (name for name in inner if isinstance(name, str))
                waiting.extend(inner.values())
            case list() as inner:
                waiting.extend(inner)


def _mentions(text: str, *where: re.Pattern[str]) -> bool:
    """Whether a word by which a person may mean groups stands where a name stands."""
    return any(bare(found[1]) in _MEANT for of in where for found in of.finditer(text))


def _title(block: str) -> str:
    found = _TITLE.search(block)
    title = found[1].strip() if found else ""
    if len(title) > 1 and title[0] == title[-1] and title[0] in "\"'":
        title = title[1:-1]
    return plain(title) if title.strip("|>-+ ") else ""


def _attributes(fields: Mapping[Any, Any]) -> dict[str, Attribute]:
    """What is no attribute (objects, names with blanks, more than there may be) is passed over."""
    found: dict[str, Attribute] = {}
    for name, value in fields.items():
        if len(found) < MOST_ATTRIBUTES and name not in BUILT_IN:
            try:
                found |= checked_attributes({name: _plain(value)})
            except ValueError:
                continue
    return found


def _plain(value: object) -> object:
    """A list's items as text; a list in a list stays one."""
    return [_as_text(one) for one in value[: MOST_ITEMS + 1]] if isinstance(value, list) else _dated(value)


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else _dated(value)


def _dated(value: object) -> object:
    """Dates as text, by ISO 8601."""
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else value  # a datetime is a date
