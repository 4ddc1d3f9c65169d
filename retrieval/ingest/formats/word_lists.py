"""Lists in Word files: a level and a number for each item, and what else belongs to it.

In the file, each paragraph names its list and level by itself; programs that write Word files give nested lists, and
further paragraphs of an item, lists of their own. So xberg gets such paragraphs without a number, between marks.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from xml.etree import ElementTree

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_OPEN, _CLOSE, _END = "\ue004", "\ue005", "\ue006"  # private characters
_MARKED = re.compile(f"{_OPEN}(\\d+){_CLOSE}([^{_OPEN}{_END}]*){_END}")
_LEVEL_INDENT = 360  # twentieths of a point, if a level names none
_LEVELS = 9
_NEAR = 60  # the same: is no other indentation
_HEADING = re.compile(r"(?:heading \d|title|subtitle)", re.IGNORECASE)


class Item(NamedTuple):
    """A paragraph of a list."""

    level: int
    sign: str  # "-" or a number; "" for a further paragraph of an item
    list: str = ""


class Paragraph(Protocol):
    """A paragraph, with its own properties by their elements' names."""

    text: str
    said: dict[str, str]
    within: bool  # in a table or box


@dataclass(slots=True)
class _Level:
    sign: str = "-"  # "1." for numbers, "" for none
    start: int = 1
    left: int | None = None


@dataclass(slots=True)
class _ListStyle:
    below: str = ""
    number: str | None = None  # the list's id: "0" for none
    level: str | None = None
    left: str | None = None
    heading: bool = False


@dataclass(slots=True)
class Lists:
    """The lists of a file. styles and numbering: the roots of its parts, None without such a part."""

    styles: ElementTree.Element | None
    numbering: ElementTree.Element | None
    _styles: dict[str, _ListStyle] = field(default_factory=dict)
    _levels: dict[str, dict[int, _Level]] = field(default_factory=dict)  # list -> level -> how it is shown
    _of_style: dict[tuple[str, str], int] = field(default_factory=dict)  # list and style -> level

    def __post_init__(self) -> None:
        if self.styles is not None:
            for style in self.styles.iter(f"{W}style"):
                name = _value(style, "name") or ""
                self._styles[style.get(f"{W}styleId", "")] = _ListStyle(
                    _value(style, "basedOn") or "",
                    _value(style, f"pPr/{W}numPr/{W}numId"),
                    _value(style, f"pPr/{W}numPr/{W}ilvl"),
                    _left(style),
                    _HEADING.fullmatch(name) is not None or style.find(f"{W}pPr/{W}outlineLvl") is not None,
                )
        if self.numbering is not None:
            self._number(self.numbering)

    def _number(self, root: ElementTree.Element) -> None:
        kinds = {one.get(f"{W}abstractNumId"): one for one in root.iter(f"{W}abstractNum")}
        for one in root.iter(f"{W}num"):
            id = one.get(f"{W}numId", "")
            levels = self._levels[id] = {}
            kind = kinds.get(_value(one, "abstractNumId"))
            for level in [*(kind if kind is not None else ()), *one.iter(f"{W}lvl")]:
                if level.tag != f"{W}lvl":
                    continue
                at, form = _int(level.get(f"{W}ilvl")), _value(level, "numFmt")
                shown = (_value(level, "lvlText") or "").strip()
                plain = form in ("bullet", "none") or form is None
                sign = ("-" if shown or form is None else "") if plain else "1."
                left = _left(level)
                levels[at] = _Level(sign, _int(_value(level, "start"), 1), None if left is None else _int(left))
                if (style := _value(level, "pStyle")) is not None:
                    self._of_style[id, style] = at
            for change in one.iter(f"{W}lvlOverride"):
                if (start := _value(change, "startOverride")) is not None:
                    levels.setdefault(_int(change.get(f"{W}ilvl")), _Level()).start = _int(start, 1)

    def items(self, paragraphs: Iterable[Paragraph | None]) -> Iterator[Item | None]:
        """Yield for each paragraph of a text what it is in a list. None: a table."""
        counts: dict[tuple[str, int], int] = {}
        open_items: list[tuple[int, int]] = []  # level and indentation
        held: list[Item | None] = []  # indented paragraphs below an item: further ones of it if the list goes on
        for one in paragraphs:
            styles = list(self._chain(one)) if one is not None else []
            if one is None or one.within or any(style.heading for style in styles):
                yield from [None] * len(held)
                held, open_items = [], []
                yield None
                continue
            id, at = self._place(styles)
            level = self._levels.get(id, {}).get(at, _Level()) if id else None
            left = next((_int(of.left) for of in styles if of.left is not None), None)
            if level is None:
                if not one.text.strip() and open_items:
                    held.append(None)
                    continue
                over = [depth for depth, begin in open_items if left is not None and begin <= left + _NEAR]
                held.append(Item(over[-1], "") if over else None)
                if not over:
                    yield from [None] * len(held)
                    held, open_items = [], []
                continue
            yield from held
            held = []
            if level.sign:
                while open_items and open_items[-1][0] >= at:
                    open_items.pop()
                own = left if "w:ind" in one.said or level.left is None else level.left
                open_items.append((at, (at + 1) * _LEVEL_INDENT if own is None else own))
                for deeper in range(at + 1, _LEVELS):
                    counts.pop((id, deeper), None)
                counts[id, at] = counts.get((id, at), level.start - 1) + 1
                yield Item(at, level.sign.replace("1", str(counts[id, at])), id)
            else:
                yield Item(at, "")
        yield from [None] * len(held)

    def _chain(self, one: Paragraph) -> Iterator[_ListStyle]:
        """Yield a paragraph's own properties, then those of its style, and of the ones below."""
        own = _ListStyle(
            one.said.get("w:pStyle", ""),
            one.said.get("w:numId"),
            one.said.get("w:ilvl"),
            one.said.get("w:ind") or None,
            "w:outlineLvl" in one.said,
        )
        yield own
        style, seen = own.below, set[str]()
        while style in self._styles and style not in seen:
            seen.add(style)
            yield self._styles[style]
            style = self._styles[style].below

    def _place(self, styles: Sequence[_ListStyle]) -> tuple[str, int]:
        """Return a paragraph's list and level; "" for none."""
        id = next((of.number for of in styles if of.number is not None), "0")
        level = next((of.level for of in styles if of.level is not None), None)
        by_style = self._of_style.get((id, styles[0].below), 0)
        at = by_style if level is None else _int(level)
        return ("", 0) if id == "0" else (id, min(max(at, 0), _LEVELS - 1))


def _value(of: ElementTree.Element, path: str) -> str | None:
    found = of.find(f"{W}{path}")
    return None if found is None else found.get(f"{W}val")


def _left(of: ElementTree.Element) -> str | None:
    found = of.find(f"{W}pPr/{W}ind")
    return None if found is None else found.get(f"{W}left", found.get(f"{W}start"))


def _int(text: str | int | None, default: int = 0) -> int:
    return int(text) if text is not None and re.fullmatch(r"-?[0-9]{1,9}", str(text)) else default


def marks(number: int) -> tuple[str, str]:
    """Return what stands before and after the text of item `number`."""
    return f"{_OPEN}{number}{_CLOSE}", _END


def _is_within(item: Item, outer: Item) -> bool:
    """Whether a paragraph is part of an open item. An open item without a sign holds one list alone."""
    if not item.sign:
        return outer.level <= item.level
    return outer.level < item.level and (bool(outer.sign) or outer.list == item.list)


def nested(text: str, items: Sequence[Item]) -> str:
    """Return Markdown with the marked items as lists."""
    parts = list[str]()
    open_items: list[tuple[Item, int]] = []  # with the column of the text
    at, at_text, follows = 0, -1, False
    for found in _MARKED.finditer(text):
        said = found[2].strip()
        if int(found[1]) >= len(items) or not said:
            continue
        between, item = text[at : found.start()], items[int(found[1])]
        if between.strip(f"\n{_OPEN}{_CLOSE}{_END}0123456789"):
            open_items, follows = [], False
        while open_items and not _is_within(item, open_items[-1][0]):
            open_items.pop()
        column = open_items[-1][1] if open_items else 0
        sign = item.sign and item.sign + " "
        begins = column == at_text and sign not in ("- ", "1. ")  # only these two end a paragraph without a blank line
        parts += ["\n" if sign and follows and not begins else between, " " * column]
        outer = open_items[-1][0] if open_items else Item(-1, "")
        for level in range(outer.level + 1, item.level if sign and outer.list != item.list else 0):
            parts.append("- ")
            column += 2
            open_items.append((Item(level, "", item.list), column))
        column += len(sign)
        parts += [sign, said.replace("\n", "\n" + " " * column)]
        if sign:
            open_items.append((item, column))
        at, at_text, follows = found.end(), column, bool(sign)
    return re.sub(f"{_OPEN}\\d+{_CLOSE}|{_END}", "", "".join([*parts, text[at:]]))
