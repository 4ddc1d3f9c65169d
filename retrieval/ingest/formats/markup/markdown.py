"""Markdown to first lines of blocks, as markdown-it reads it (CommonMark and tables).

Only its block parser runs: that knows the lines, and the inline parser's result would be unused. markdown-it describes
no nesting deeper than 20; such lines stay part of the innermost described block.
"""

from collections.abc import Sequence
from functools import cache
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from retrieval.ingest.chunking.blocks import Kind, Mark, plain_heading, table_head

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_LEAVES: dict[str, Kind] = {
    "paragraph_open": "text",
    "heading_open": "text",  # inside a list or a quotation; a heading at the top level
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
    """Return the blocks of Markdown `text` in order. Remove front matter first: it would read as a heading."""
    tokens = _tokens(text)
    inside: list[tuple[int, list[Mark]]] = [(0, [])]  # each open container's first line and blocks so far
    for index, token in enumerate(tokens):
        line = token.map[0] if token.map else inside[-1][0]
        container = _CONTAINERS.get(token.type.removesuffix("_open").removesuffix("_close"))
        if container and token.nesting == 1:
            inside.append((line, []))
        elif container:
            opened, children = inside.pop()
            inside[-1][1].append(Mark(container, opened, tuple(children)))
        elif token.type == "heading_open" and len(inside) == 1:
            title = plain_heading(tokens[index + 1].content)
            inside[-1][1].append(Mark("heading", line, level=int(token.tag[1:]), heading=title))
        elif token.type in _LEAVES:
            column_names = _column_names(tokens, index) if token.type == "table_open" else ""
            inside[-1][1].append(Mark(_LEAVES[token.type], line, heading=column_names))
    return inside[0][1]


def _column_names(tokens: "Sequence[Token]", index: int) -> str:
    """Return the column names of the table at tokens[index]."""
    head = takewhile(lambda token: token.type != "thead_close", islice(tokens, index, None))
    return table_head([plain_heading(token.content) for token in head if token.type == "inline"])


def first_heading(text: str) -> str:
    """Return the text of the first level-1 heading, or ""."""
    return next((mark.heading for mark in marks(text) if mark.kind == "heading" and mark.level == 1), "")


def _tokens(text: str) -> "list[Token]":
    tokens: list[Token] = []
    # Same length, so that lines and spans stay exact: the parser would treat a lone CR as a line end.
    source = text.replace("\r", " ").replace("\0", " ")
    _parser().block.parse(source, _parser(), {}, tokens)
    return tokens


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    # Link definitions leave no token; as paragraphs they keep their place in the text.
    return MarkdownIt("commonmark").enable("table").disable("reference")
