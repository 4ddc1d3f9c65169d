"""Tables as plain text for a terminal, or as Markdown for a page."""

from collections.abc import Sequence

NONE = "–"  # a cell without a value

Rows = Sequence[Sequence[str]]


def table(title: str, head: Sequence[str], rows: Rows, below: Sequence[str], *, markdown: bool) -> str:
    """A title, a table and notes. The first column holds text, others hold numbers."""
    if not markdown:
        return "\n".join([title, *aligned([head, *rows]), *below]) + "\n"
    rule = ["---", *("---:" for _ in head[1:])]
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in [head, rule, *rows]]
    notes = "".join(f"\n- {line}" for line in below)
    return f"**{title}**\n\n" + "\n".join(lines) + "\n" + (notes + "\n" if notes else "")


def aligned(rows: Rows, *, left: int = 1) -> list[str]:
    """Rows as lines of text with equal columns; the first `left` columns are left-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if at < left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def number(value: float | None, form: str = ".3f") -> str:
    return NONE if value is None else format(value, form)


def first_of(names: Sequence[str], most: int) -> str:
    """At most `most` names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
