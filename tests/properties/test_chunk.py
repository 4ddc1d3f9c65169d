"""Whatever the text, its chunks are exact, complete, within their budget and always the same."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from retrieval.ingest.chunking.chunk import chunk
from retrieval.records.documents import Chunk, Document, Format
from tests.support.chunk_promises import assert_exact_complete_in_order_and_within_budget
from tests.support.minilm import minilm

words = st.sampled_from(
    [
        "alpha",
        "TLS",
        "max_pool_size",
        "e.g.",
        "Done.",
        "漢字。",
        "한국어",
        "👩‍👩‍👧",
        "e\u0301",
        "\u200b",
        "x" * 120,
        "?",
        "\t",
        "  ",
        "[SEP]",
        "ខ្មែរ" * 12,  # letters that the embedder does not know
        "\ue000" * 40,
    ]
)
line = st.lists(words, min_size=1, max_size=12).map(" ".join)
paragraph = st.lists(line, min_size=1, max_size=5).map("\n".join)
indented = paragraph.map(lambda text: "    " + text.replace("\n", "\n    "))
blanks = st.sampled_from(["\n", "\n\n", "\n\n\n", "\n \n", "\r\n\r\n", "\f\n"])

markdown_block = st.one_of(
    paragraph,
    indented,
    st.builds(lambda level, text: "#" * level + " " + text, st.integers(1, 6), line),
    line.map(lambda text: text + "\n---"),
    paragraph.map(lambda text: f"```py\n{text}\n\n{text}\n```"),
    paragraph.map(lambda text: f"```\n{text}"),
    st.lists(line, min_size=1, max_size=6).map(
        lambda rows: "| a | b |\n|---|---|\n" + "\n".join(f"| {r} | {r} |" for r in rows)
    ),
    st.lists(line, min_size=1, max_size=6).map(lambda items: "\n".join(f"- {item}\n  - {item}" for item in items)),
    paragraph.map(lambda text: "> " + text),
    st.text("#-=`>|*+: \n.1)", max_size=30),
)
rst_block = st.one_of(
    paragraph,
    indented,
    st.builds(lambda text, mark: f"{text}\n{mark * max(4, len(text))}", line, st.sampled_from("=-~^")),
    st.builds(lambda text: f"====\n{text}\n====", line),
    st.builds(lambda text, code: f"{text}::\n\n{code}", line, indented),
    st.builds(
        lambda name, body: f".. {name}::\n\n{body}", st.sampled_from(["note", "code-block", "table", "tabs"]), indented
    ),
    st.lists(line, min_size=1, max_size=6).map(lambda items: "\n".join(f"* {item}" for item in items)),
    paragraph.map(lambda text: f"== ==\n{text}\n== =="),
    st.text("=-+|:.* \n", max_size=30),
)


def joined(block: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pieces = st.lists(st.tuples(block, blanks), max_size=12)
    return pieces.map(lambda found: "".join(text + gap for text, gap in found))


texts: st.SearchStrategy[tuple[str, Format]] = st.one_of(
    joined(markdown_block).map(lambda text: (text, "markdown")),
    joined(rst_block).map(lambda text: (text, "rst")),
    joined(paragraph).map(lambda text: (text, "text")),
    st.tuples(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=400),
        st.sampled_from(["markdown", "rst", "text", "html"]),
    ),
)
budgets = st.integers(24, 120).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size // 2)))


def chunks_of(document: Document, size: int, overlap: int) -> list[Chunk]:
    return chunk(document, tokens=minilm(), chunk_tokens=size, overlap_tokens=overlap)


@given(texts, budgets, st.sampled_from(["", "alpha", "A title of five words"]))
def test_chunks_are_exact_complete_in_order_and_within_budget(
    text_format: tuple[str, Format], budget: tuple[int, int], title: str
) -> None:
    text, format = text_format
    size, overlap = budget
    document = Document("source", title, text, format, 0.0)
    chunks = chunks_of(document, size, overlap)
    assert_exact_complete_in_order_and_within_budget(chunks, document, size_tokens=size)
    assert chunks_of(document, size, overlap) == chunks


@given(texts, st.integers(24, 120))
def test_without_overlap_nothing_is_repeated(text_format: tuple[str, Format], size: int) -> None:
    document = Document("source", "Title", text_format[0], text_format[1], 0.0)
    chunks = chunks_of(document, size, 0)
    assert all(before.end <= after.start for before, after in itertools.pairwise(chunks))


@given(texts, budgets)
def test_overlap_changes_no_words_but_repeats_some(text_format: tuple[str, Format], budget: tuple[int, int]) -> None:
    """What is new in each chunk, put together, is the text again."""
    text, format = text_format
    chunks = chunks_of(Document("source", "Title", text, format, 0.0), *budget)
    at, new = 0, ""
    for piece in chunks:
        new += text[max(at, piece.start) : piece.end]
        at = max(at, piece.end)
    assert "".join(new.split()) == "".join(text.split())
