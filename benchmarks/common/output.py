"""The output of a benchmark: progress on standard error, Markdown tables on standard output."""

import sys
from collections.abc import Iterable, Sequence


def say(text: str) -> None:
    """Print progress on standard error: standard output holds only the tables."""
    print(text, file=sys.stderr, flush=True)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, the first column to the left and figures to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(table_row(*line) for line in lines)


def table_row(*cells: str) -> str:
    """A line of a Markdown table."""
    return f"| {' | '.join(cells)} |"
