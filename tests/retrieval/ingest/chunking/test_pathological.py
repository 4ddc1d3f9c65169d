"""Texts that made a quadratic chunker run for minutes; the suite's time limit is the assertion."""

import pytest

from retrieval.records.documents import Format
from tests.retrieval.ingest.chunking.test_chunk import split
from tests.retrieval.ingest.chunking.test_definitions import split as split_code


@pytest.mark.parametrize("format", ["markdown", "rst", "text"])
@pytest.mark.parametrize(
    "text",
    [
        "word " * 40_000,
        "a" * 200_000,
        "# h\n\n" * 5_000,
        "ab\n==\n\n" * 5_000,
        "".join("  " * n + "- a\n" for n in range(300)),
        (">" * 300 + " a\n") * 100,
        "== ==\nx\n\n" * 5_000,
        "```\n" + "x = 1\n" * 5_000,
        "--X\n" * 10_000,
        "|-|-\n" * 5_000,
        "[a](b)" * 20_000,
        "= a" + " " * 500_000,
        ("> " * 19 + "x\n") + "y\n" * 5_000,
    ],
    ids=[
        "line",
        "word",
        "headings",
        "titles",
        "lists",
        "quotes",
        "tables",
        "code",
        "dashes",
        "rules",
        "links",
        "blanks",
        "lazy",
    ],
)
def test_pathological_texts_are_chunked_like_others(format: Format, text: str) -> None:
    assert split(text, format=format, size=254, overlap=32)


@pytest.mark.parametrize(
    "text",
    ["(" * 200_000, "[\n" * 50_000, "{" * 50_000 + "}" * 50_000, "x = 1; " * 50_000, "def f():\n    pass\n" * 20_000,
     "def f():\r\n    pass\r\n" * 100, "\0 x", "é = '👩‍👩‍👧'\n" * 500,
     "class A:\n" + "  def f(self): pass\n" * 10_000],
    ids=["parentheses", "brackets", "braces", "line", "functions", "crlf", "nul", "unicode", "class"],
)  # fmt: skip
def test_pathological_code_is_chunked_like_other_code(text: str) -> None:
    assert split_code(text, size=128)


@pytest.mark.parametrize(
    ("source", "text"), [("a.py", "|-|-\n" * 4_000), ("a.c", "|-|-\n" * 4_000), ("a.js", "/[" * 25_000)]
)
def test_what_is_no_code_is_cut_like_text(source: str, text: str) -> None:
    """tree-sitter alone takes minutes for most of these."""
    assert {one.headings for one in split_code(text, source=source, size=128)} == {()}
