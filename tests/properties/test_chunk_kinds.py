"""Code, tables and pairs, however odd: chunks are exact, complete, in order and within their budget."""

from hypothesis import given
from hypothesis import strategies as st

from retrieval.ingest.chunking.chunk import chunk
from retrieval.ingest.chunking.definitions import GRAMMARS
from retrieval.knowledge import Chunking
from retrieval.records.documents import Document, Format
from tests.support.chunk_promises import assert_exact_complete_in_order_and_within_budget
from tests.support.minilm import minilm

fragments = st.sampled_from(
    ["def f(a):", "class A {", "}", "{", "(", ")", "function g() {", "fn h() {", "public void m() {", "# note",
     "// note", "/*", "*/", "'", '"', "@mark", "export", "return x", "end", "module M", "x = 1;", "é漢👩‍👩‍👧", "\t",
     "    ", "\\", "<?php", "type T struct {", "impl X for Y {", "a,b", ";", "|"]
)  # fmt: skip
gaps = st.sampled_from([" ", "\n", "\n\n", "\n    ", "\r\n", "\r", ""])
soup = st.lists(st.tuples(fragments, gaps), max_size=60).map(lambda found: "".join(a + b for a, b in found))
code = st.tuples(soup, st.just("code"), st.sampled_from(sorted(GRAMMARS)).map(lambda extension: "net/a" + extension))
cells = st.sampled_from(["a", "name", "1.5", "", '"two\nlines"', '"', "漢字", "long " * 20, "a\rb", "?", "\0"])
table = st.lists(st.lists(cells, max_size=6), max_size=20).flatmap(
    lambda rows: st.sampled_from([",", ";", "\t"]).map(lambda mark: "\n".join(mark.join(row) for row in rows))
)
csv = st.tuples(table, st.just("csv"), st.sampled_from(["a.csv", "a.tsv"]))
asked = st.lists(
    st.sampled_from(
        ["Q: What?", "A: That.", "**Q1:** Who?", "## Why?", "# Part", "Text.", "", "- Q: When?", "```", "Answer:",
         "= Wiki =", "= = Deep = =", "| a | b |\n|---|---|\n| c | d |"]
    ), max_size=30,
).map("\n".join)  # fmt: skip
pairs = st.tuples(asked, st.sampled_from(["markdown", "text"]), st.just("faq.md"))
kinds: st.SearchStrategy[tuple[str, Format, str]] = st.one_of(code, csv, pairs)
budgets = st.integers(24, 120).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size // 2)))


@given(kinds, budgets, st.sampled_from(["auto", "structure", "recursive", "fixed"]), st.sampled_from(["", "A title"]))
def test_chunks_of_any_kind_are_exact_complete_in_order_and_within_budget(
    kind: tuple[str, Format, str], budget: tuple[int, int], chunking: Chunking, title: str
) -> None:
    text, format, source = kind
    size, overlap = budget
    document = Document(source, title, text, format, 0.0)
    chunks = chunk(document, tokens=minilm(), chunk_tokens=size, overlap_tokens=overlap, chunking=chunking)
    assert_exact_complete_in_order_and_within_budget(chunks, document, size_tokens=size)
