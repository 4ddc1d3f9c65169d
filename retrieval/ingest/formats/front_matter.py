"""Front matter: lines between two marks at the beginning of a document, YAML (---) or TOML (+++).

Its fields are the document's attributes, and `groups` names its readers. Attributes only narrow searches, so
unreadable ones are ignored. Rights are never ignored: a name for groups that did not become groups refuses the
document (`UnreadableRights`), whatever stands around it. Such a name is looked for in front matter, and in the first
lines of a document without any. Of 9,098 pages of documentation, 2 have such a line by chance; front matter without
groups lets everyone read them.

YAML is read as YAML 1.2: `NO`, `off`, `9:00` and `01234` are texts. YAML with anchors, aliases, merge keys, tags, deep
nesting or a repeated name is not read. So reading takes linear time (libyaml takes 5 s for 50,000 open brackets,
tomllib 13 s for long dotted keys), and no two readers disagree.
"""

import datetime
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from string import ascii_lowercase
from typing import Any

import yaml

from retrieval.errors import UnreadableRights
from retrieval.ingest.chunking.blocks import plain_heading
from retrieval.lexical.terms import visible
from retrieval.records.attributes import (
    BUILT_IN,
    MOST_ATTRIBUTES,
    MOST_ITEMS,
    checked_attributes,
    checked_groups,
    folded_name,
)
from retrieval.records.documents import Attribute

_MAX_CHARS = 50_000  # longer front matter is not read
_MAX_DEPTH = 20
_MAX_DOTS = 100  # in one line of TOML

_OPENING = re.compile(r"[\s\ufeff\u200b]*(-{3,}|\+{3,})[ \t]*(?:#.*)?\n")
_LIKE_FIELDS = re.compile(
    r"\s{0,40}(?::|\{\s{0,9}[\"'])?[\w.-]{1,64}[\"']?[ \t]{0,9}[:=](?:.+\n)*.*"
)  # to an empty line
_MARK = re.compile(r"^(---|\+\+\+|\.\.\.)(.*)(?:\n|\Z)", re.MULTILINE)
_FIELD = re.compile(r"^[\w.-]+[ \t]*[:=]", re.MULTILINE)
# A name's character as an escape, or a line break within a quoted name.
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U000([0-9a-fA-F]{5})|\n[ \t]*)")
_EXPLICIT = re.compile(r"^[ \t]{0,40}\?[ \t]+(.*)\n[ \t]*:", re.MULTILINE)  # "? name", then ": value"
_BLANKS = re.compile(r"[^\S\n ]")
_TITLE = re.compile(r"^title[ \t]*[:=][ \t]*(.+)$", re.MULTILINE | re.IGNORECASE)
# A name in unusual spellings: quoted, with invisible characters, before a wide sign. Bounded, for linear time.
_WORD = r"([\w.\u00ad\u200b-\u200f\u2060\ufeff-]{4,40})"
_SIGN = r"[ \t]{0,9}[\"'\])}]{0,2}[ \t]{0,9}[:=：＝∶꞉]"
_NAMED = re.compile(rf"(?<![\w$-]){_WORD}{_SIGN}")  # { $group: … } is a stage of MongoDB
_NAMED_FIRST = re.compile(rf"^[^\w\n#]{{0,9}}{_WORD}{_SIGN}", re.MULTILINE)
# The same without front matter: after any signs, but not in a heading, and not quoted and indented (JSON in examples).
_HEAD_LINES = 50
_HEAD_CHARS = 50_000
_NAMED_IN_HEAD = re.compile(
    r"^(?!\#{1,6}[ \t])(?:[ ]{0,3}(?:[^\w\s][^\w\n]{0,19})?|[ \t]{1,40}[^\w\s\"']{0,9}[ \t]{0,4})"
    r"(?<!\$)(?!(?<==)\w+=(?!=))"  # =group= is verbatim text of Org
    rf"{_WORD}[^\w\n]{{0,4}}?[:=：＝∶꞉]",
    re.MULTILINE,
)
# Lines with several names: JSON, a comment, an element, a module of MDX.
_LINES_OF_NAMES = re.compile(r"^ {0,3}(?:(?:[^\w\s][^\w\n]{0,19})?\{|<|export\b).*", re.MULTILINE)
# A block of a programming language; front matter, if in a block, is in one of YAML, TOML, JSON or Markdown.
_CODE = re.compile(
    r"^ {0,3}(`{3,}|~{3,})[ \t]*\{?\.?(?:python|py|r|ruby|perl|php|java|javascript|js|jsx|typescript|ts|tsx|bash|sh"
    r"|shell|console|zsh|powershell|c|cpp|c\+\+|csharp|cs|go|rust|swift|kotlin|scala|sql|hcl|terraform|dockerfile|diff)"
    r"(?![\w+]).*\n(?:.*\n)*? {0,3}\1",
    re.MULTILINE | re.IGNORECASE,
)
_FIRST = re.compile(rf"^[\[\"']{{0,3}}{_WORD}(?![\w-])", re.MULTILINE)
_CUTS = [("groups"[:at], "groups"[at:]) for at in range(7)]
# `groups`, and what one slip makes of it: a letter left out, swapped with the next, replaced, or added.
_GROUPS_SPELLINGS = {
    "groups",
    *(before + after[1:] for before, after in _CUTS),
    *(before + after[1:2] + after[:1] + after[2:] for before, after in _CUTS),
    *(before + letter + after[skipped:] for before, after in _CUTS for letter in ascii_lowercase for skipped in (0, 1)),
}
_PARTS = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")
_OTHER_WORDS = {"apigroups", "newsgroups", "subgroups", "workgroups"}
_MOST_NAME_CHARS = 16  # of a name that ends with "groups", such as user_groups: longer names are those of some API
_HINT = "Write one line `groups: [hr, legal]`"


@dataclass(frozen=True, slots=True)
class Front:
    """What a document's front matter says."""

    title: str = ""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    groups: tuple[str, ...] = ()


class _Loader(yaml.CSafeLoader):
    """YAML 1.2's core schema, without octal and hexadecimal numbers; refuses a repeated name."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        if len(mapping) < len(node.value):
            place: Any = node.start_mark
            raise yaml.MarkedYAMLError(problem="a name occurs twice", problem_mark=place)
        return mapping


_Loader.yaml_implicit_resolvers = {}  # without those of YAML 1.1
for _kind, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9][0-9]{0,300})", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)\.[0-9]*)(?:[eE][-+]?[0-9]{1,3})?", list("-+.0123456789")),
    ("merge", "<<", ["<"]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(f"^(?:{_pattern})$"), _first)


def read(text: str, *, rights: bool = True) -> tuple[Front, str]:
    """Return a Markdown document's front matter, and the text after it.

    A text that merely begins with a thematic break has no `name:` before the next break, and stays whole. The title
    is also found in front matter that no parser accepts.

    rights: False if the caller decides who may read it. Raises UnreadableRights.
    """
    opening = _OPENING.match(text)
    end = _MARK.search(text, opening.end()) if opening else None
    if opening is None or end is None or len(opening[1]) > 3 or end[1] not in (opening[1], "...") or end[2].strip():
        if rights:
            _check_head(text, unended=opening is not None)
        return Front(), text
    block = text[opening.end() : end.start()]
    if block.strip() and not _FIELD.search(block) and not (rights and _mentions(block, _NAMED)):
        if rights:
            _check_head(text)
        return Front(), text
    first_line = text.count("\n", 0, opening.end()) + 1
    try:
        fields = _toml(block) if opening[1] == "+++" else _yaml(block, first_line)
    except ValueError as error:
        if rights and _mentions(block, _NAMED, _FIRST):
            raise _unreadable(error) from error
        fields = {}
    try:
        groups = _groups(fields, block) if rights and fields else ()
    except ValueError as error:
        raise _unreadable(error) from error
    rest = text[end.end() :].lstrip("\n")
    if rights and not groups:
        _check_second(rest)
    return Front(_title(block), valid_attributes(fields), groups), rest


def read_sidecar(data: bytes, *, rights: bool) -> Front:
    """Return what a file beside a document says of it: YAML with the fields of front matter.

    Raises UnreadableRights if it cannot be read as a whole: it may have named groups.
    """
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
        fields = _yaml(text.removeprefix("---\n"), 1)
        groups = _groups(fields, text) if rights else ()
    except ValueError as error:
        raise UnreadableRights(f"its sidecar cannot be read: {error}") from error
    return Front(_title(text), valid_attributes(fields), groups)


def check_unread(text: str, *, prose: bool) -> None:
    """Raise UnreadableRights if a document in a format without front matter seems to name groups in some."""
    opening = _OPENING.match(text)
    if not opening:
        if prose:
            _check_head(text)
        return
    end = _MARK.search(text, opening.end())
    if _mentions(text[opening.end() : end.start() if end else len(text)], _NAMED_FIRST):
        raise UnreadableRights(
            "the front matter names groups, but ragway reads front matter only in Markdown: rename the file to *.md"
        )


def _check_head(text: str, *, unended: bool = False) -> None:
    """Raise UnreadableRights if a text without front matter names groups in its first lines.

    unended: the text begins with a line '---', and what follows may be front matter of any length.
    """
    head = "\n".join(text[:_HEAD_CHARS].split("\n", _HEAD_LINES)[:_HEAD_LINES])
    head = _CODE.sub("", head)
    names = "\n".join(_LINES_OF_NAMES.findall(head))
    if _mentions(head, _NAMED_IN_HEAD) or _mentions(names, _NAMED) or (unended and _mentions(text, _NAMED_FIRST)):
        raise UnreadableRights(
            "the beginning names groups, and not in front matter: put the fields between a line '---' alone at the "
            "very beginning and a line '---' after them. If the beginning does not say who may read the document, "
            "begin it with front matter without groups, such as '---', 'title: X', '---'"
        )


def _check_second(text: str) -> None:
    """Raise UnreadableRights if text after the beginning of a document is front matter that names groups."""
    opening = _OPENING.match(text)
    fields = _LIKE_FIELDS.match(text, opening.end() if opening else 0)
    end = _MARK.search(fields[0]) if fields else None
    if fields and end and _mentions(fields[0][: end.start()], _NAMED_FIRST):
        raise UnreadableRights(
            "lines like front matter name groups, and are not the beginning, with a line '---' alone: move them there"
        )


def _unreadable(error: ValueError) -> UnreadableRights:
    return UnreadableRights(f"the front matter names groups and cannot be read: {error}")


def _yaml(block: str, first_line: int) -> Mapping[Any, Any]:
    """Return its fields. Raises ValueError with the line in the file."""
    if len(block) > _MAX_CHARS:
        raise ValueError(f"{len(block):,} characters, the limit is {_MAX_CHARS:,}. Shorten the front matter")
    try:
        depth = 0
        for event in yaml.parse(block, Loader=yaml.CSafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if problem := _unsupported_feature(event, depth):
                place: Any = event.start_mark  # libyaml's own type, unknown to MarkedYAMLError's types
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=place)
        fields = yaml.load(block, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place_in_file = f"line {mark.line + first_line}: " if mark else ""
        raise ValueError(
            f"{place_in_file}{error.problem or error.context}. Put values in quotes, or correct the line"
        ) from error
    except (yaml.YAMLError, OverflowError, ValueError) as error:  # a date like 2024-99-99, an endless number
        raise ValueError(f"{' '.join(str(error).split())[:200]}. Put values in quotes, or correct the line") from error
    return _checked_fields(fields)


def _unsupported_feature(event: Any, depth: int) -> str:
    """Return which unsupported feature a parser event has; "" without any."""
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
        return "anchors and aliases (&, *) are not supported"
    if getattr(event, "tag", None):
        return "tags (!) are not supported"
    if isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]:
        return "merge keys (<<) are not supported"
    return "nested too deeply" if depth > _MAX_DEPTH else ""


def _toml(block: str) -> Mapping[Any, Any]:
    """Return the fields. Raises ValueError."""
    if len(block) > _MAX_CHARS:
        raise ValueError(f"{len(block):,} characters, the limit is {_MAX_CHARS:,}. Shorten the front matter")
    if any(line.count(".") > _MAX_DOTS for line in block.split("\n")):
        raise ValueError(f"a line has more than {_MAX_DOTS} dots. Shorten the line")
    try:
        return tomllib.loads(block)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{error} of the front matter. Correct the line") from error


def _checked_fields(fields: object) -> Mapping[Any, Any]:
    if fields is None:
        return {}
    if not isinstance(fields, Mapping):
        raise ValueError(f"the front matter is not a list of names and values. {_HINT}")
    return fields


def _groups(fields: Mapping[Any, Any], block: str) -> tuple[str, ...]:
    """Return the groups in these fields. Raises ValueError if groups are named, or nearly, and cannot be read."""
    named = [name for name in fields if isinstance(name, str) and folded_name(name) == "groups"]
    if len(named) > 1:
        raise ValueError(f"groups occur twice, as {named[0]!r} and {named[1]!r}. Keep one line")
    if named:
        groups = fields[named[0]]
        if groups in ("", []):
            raise ValueError(
                "the list of groups is empty. Name groups, or delete the line to let everyone read the document"
            )
        return checked_groups([groups] if isinstance(groups, str) else groups)
    near = next((name for name in _all_names(fields) if _names_groups(name) or "groups" in _parts(name)), None)
    if near is not None or _mentions(block, _NAMED_FIRST):
        raise ValueError(f"{near or 'groups'!r} is not a valid way to write groups. {_HINT}, or rename the field")
    return ()


def _all_names(fields: object) -> Iterator[str]:
    waiting = [fields]
    while waiting:
        match waiting.pop():
            case Mapping() as inner:
                yield from (name for name in inner if isinstance(name, str))
                waiting.extend(inner.values())
            case list() as inner:
                waiting.extend(inner)


def _mentions(text: str, *patterns: re.Pattern[str]) -> bool:
    """Whether a word that may mean groups stands where a name does."""
    texts = [text]  # a backslash is an escape within quotes, and a letter elsewhere: the text is read both ways
    if "\\" in text:
        texts.append(
            _ESCAPE.sub(lambda found: chr(int(code, 16)) if (code := found[1] or found[2] or found[3]) else "", text)
        )
    if not text.isascii():
        texts.append(visible(text))
    texts = [_BLANKS.sub(" ", _EXPLICIT.sub(r"\1:", one)) for one in texts]
    matches = (match for one in texts for pattern in patterns for match in pattern.finditer(one))
    return any(_names_groups(match[1]) for match in matches)


def _names_groups(name: str) -> bool:
    """Whether a name may mean groups: `group`, `gruops`, `user_groups`, `readGroups`, `groups.allowed`."""
    folded, first = folded_name(name), _parts(name)[0]
    if folded in _OTHER_WORDS:
        return False
    if folded in _GROUPS_SPELLINGS or first == "groups":
        return True
    return folded.endswith("groups") and len(folded) <= _MOST_NAME_CHARS


def _parts(name: str) -> list[str]:
    return [folded_name(part) for part in _PARTS.split(name.strip())]


def _title(block: str) -> str:
    match = _TITLE.search(block)
    title = match[1].strip() if match else ""
    if len(title) > 1 and title[0] == title[-1] and title[0] in "\"'":
        title = title[1:-1]
    return plain_heading(title) if title.strip("|>-+ ") else ""


def valid_attributes(fields: Mapping[Any, Any]) -> dict[str, Attribute]:
    """Return valid attributes; objects, names with blanks and surplus attributes are ignored."""
    result: dict[str, Attribute] = {}
    for name, value in fields.items():
        if len(result) < MOST_ATTRIBUTES and name not in BUILT_IN:
            try:
                result |= checked_attributes({name: _plain(value)})
            except ValueError:
                continue
    return result


def _plain(value: object) -> object:
    """Return a list's items as text, without empty ones; a list in a list stays a list."""
    return (
        [_as_text(item) for item in value[: MOST_ITEMS + 1] if item is not None]
        if isinstance(value, list)
        else _dated(value)
    )


def _as_text(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else _dated(value)


def _dated(value: object) -> object:
    """Return dates as text, by ISO 8601."""
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else value  # a datetime is a date
