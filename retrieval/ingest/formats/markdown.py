"""Markdown to the lines where its blocks begin, as markdown-it reads it (CommonMark and tables).

Only the block parser runs: it knows the lines, and the inline parser's time would be thrown away. markdown-it stops
describing what is nested more than 20 deep; those lines stay part of the innermost block it did describe.
"""

from collections.abc import Sequence
from functools import cache
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from retrieval.ingest.chunking.blocks import Kind, Mark, head, plain

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_LEAVES: dict[str, Kind] = {
    "paragraph_open": "text",
    "heading_open": "text",  # inside a list or a quotation; at the top level it is a heading
    "html_block": "text",
    "hr": "text",
    "fence": "code",
    "code_block": "code",
    "table_open": "table",
}
_CONTAINERS: dict[str, Kind] = {
    "bullet_list": "list",
    "ordered_list": "list",
    "list_item": "item",
    "blockquote": "quote",
}


def marks(text: str) -> list[Mark]:
    """The blocks of Markdown `text` in order. Front matter must be gone: it would read as a heading."""
    tokens = _tokens(text)
    inside: list[tuple[int, list[Mark]]] = [(0, [])]  # of each open container: its first line, its blocks so far
    for index, token in enumerate(tokens):
        line = token.map[0] if token.map else inside[-1][0]
        container = _CONTAINERS.get(token.type.removesuffix("_open").removesuffix("_close"))
        if container and token.nesting == 1:
            inside.append((line, []))
        elif container:
            opened, children = inside.pop()
            inside[-1][1].append(Mark(container, opened, tuple(children)))
        elif token.type == "heading_open" and len(inside) == 1:
            title = plain(tokens[index + 1].content)
            inside[-1][1].append(Mark("heading", line, level=int(token.tag[1:]), heading=title))
        elif token.type in _LEAVES:
            named = _head(tokens, index) if token.type == "table_open" else ""
            inside[-1][1].append(Mark(_LEAVES[token.type], line, heading=named))
    return inside[0][1]


def _head(tokens: "Sequence[Token]", index: int) -> str:
    """The names of the columns of the table that begins at tokens[index]."""
    found = takewhile(lambda token: token.type != "thead_close", islice(tokens, index, None))
    return head([plain(token.content) for token in found if token.type == "inline"])


def first_heading(text: str) -> str:
    """The text of the first level-1 heading, or "" where there is none."""
    return next((mark.heading for mark in marks(text) if mark.kind == "heading" and mark.level == 1), "")


def _tokens(text: str) -> "list[Token]":
    found: list[Token] = []
    # Same length, so that lines and spans stay exact: the parser would turn a lone CR into a line of its own.
    source = text.replace("\r", " ").replace("\0", " ")
    _parser().block.parse(source, _parser(), {}, found)
    return found


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    # Link definitions leave no token behind; as paragraphs they keep their place in the text.
    return MarkdownIt("commonmark").enable("table").disable("reference")
