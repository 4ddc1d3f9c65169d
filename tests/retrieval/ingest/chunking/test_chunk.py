"""What stays together, what is cut, and what a chunk says of its place: one example a claim."""

import itertools
import textwrap

import pytest

from retrieval.errors import Unreadable
from retrieval.ingest.chunking.chunk import chunk
from retrieval.records.documents import Chunk, Document, Format, indexed_text
from tests.support.minilm import minilm

SENTENCE = "The quick brown fox jumps over the lazy dog near the river bank. "  # 14 tokens


def split(
    text: str, *, format: Format = "markdown", title: str = "Guide", size: int = 64, overlap: int = 0
) -> list[Chunk]:
    """The chunks of a text, after checking what holds for every text."""
    document = Document("guide.md", title, text, format, 0.0)
    chunks = chunk(document, tokens=minilm(), chunk_tokens=size, overlap_tokens=overlap)
    covered = {at for piece in chunks for at in range(piece.start, piece.end)}
    assert [piece.ordinal for piece in chunks] == list(range(len(chunks)))
    assert all(piece.text == text[piece.start : piece.end] for piece in chunks)
    assert all(at in covered for at, letter in enumerate(text) if not letter.isspace())
    assert max(minilm().counts([indexed_text(title, c.headings, c.text) for c in chunks]), default=0) <= size
    return chunks


def holding(chunks: list[Chunk], words: str) -> Chunk:
    """The first chunk with these words in it."""
    return next(piece for piece in chunks if words in piece.text)


@pytest.mark.parametrize("text", ["", " ", "\n\n\t\n", "\u2003\n"])
def test_text_without_words_has_no_chunks(text: str) -> None:
    assert split(text) == []


def test_a_short_document_is_one_chunk() -> None:
    text = "# Guide\n\nHello.\n"
    assert split(text) == [Chunk(0, 0, 15, "# Guide\n\nHello.", ())]


def test_keeps_the_heading_path_without_the_documents_title() -> None:
    text = f"# Guide\n\n{SENTENCE * 3}\n\n## Connection\n\n{SENTENCE * 3}\n\n### TLS\n\nSet tls=true. {SENTENCE * 2}\n"
    chunks = split(text)
    assert [piece.headings for piece in chunks] == [(), ("Connection",), ("Connection", "TLS")]
    assert chunks[2].text.startswith("### TLS\n\nSet tls=true.")


def test_keeps_a_level_1_heading_that_is_not_the_title() -> None:
    chunks = split(f"# Part one\n\n{SENTENCE}\n\n## Setup\n\n{SENTENCE * 3}", title="Guide")
    assert chunks[-1].headings == ("Part one", "Setup")


def test_heading_path_is_free_of_markup() -> None:
    (piece,) = split("## The `tls` [option](https://example.org/tls) {#tls}\n\nText.")
    assert piece.headings == ("The tls option",)


def test_every_chunk_of_a_long_section_carries_its_headings() -> None:
    chunks = split("## Connection\n\n### TLS\n\n" + SENTENCE * 20)
    assert len(chunks) > 3
    assert {piece.headings for piece in chunks} == {("Connection", "TLS")}


def test_a_setext_heading_is_a_heading() -> None:
    chunks = split(f"Guide\n=====\n\n{SENTENCE * 3}\n\nConnection\n----------\n\n{SENTENCE * 3}")
    assert [piece.headings for piece in chunks] == [(), ("Connection",)]


def test_a_comment_in_code_is_no_heading() -> None:
    chunks = split(f"## Shell\n\n```sh\n# install\nmake\n```\n\n{SENTENCE * 6}")
    assert {piece.headings for piece in chunks} == {("Shell",)}


def test_a_heading_stands_with_what_follows_it() -> None:
    sections = "".join(f"## Section {n}\n\n{SENTENCE * 3}\n\n" for n in range(6))
    chunks = split(sections)
    assert len(chunks) == 6
    assert all(piece.text.startswith(f"## Section {n}\n") for n, piece in enumerate(chunks))


def test_headings_with_only_headings_below_them_begin_the_first_section() -> None:
    chunks = split(f"# Guide\n\n## Setup\n\n### Linux\n\n{SENTENCE * 2}\n\n## Use\n\n{SENTENCE * 3}")
    assert chunks[0].text.startswith("# Guide\n\n## Setup\n\n### Linux\n\nThe quick")
    assert chunks[0].headings == ("Setup", "Linux")


def test_a_heading_before_a_block_of_a_whole_chunk_is_not_left_alone() -> None:
    code = "```\n" + "".join(f"value_{n} = {n}\n" for n in range(9)) + "```\n"
    chunks = split(f"## Values\n\n{code}", size=64)
    assert all("value_" in piece.text for piece in chunks)


def test_fenced_code_stays_whole() -> None:
    code = '```python\nclient = connect(\n\n    "db://host",\n\n    tls=True,\n)\n```'
    chunks = split(f"{SENTENCE * 3}\n\nDo as follows:\n\n{code}\n\n{SENTENCE * 3}")
    assert code in holding(chunks, "```python").text


def test_what_leads_to_code_stands_with_it() -> None:
    code = "```\n" + "option = value\n" * 12 + "```"
    chunks = split(f"{SENTENCE * 2}\n\nDo as follows:\n\n{code}\n\nDone.")
    assert holding(chunks, "```").text.startswith("Do as follows:\n\n```")


def test_a_table_stays_whole() -> None:
    table = "| option | default |\n| --- | --- |\n| tls | off |\n| pool | 100 |\n| wait | 10 s |"
    chunks = split(f"{SENTENCE * 3}\n\n{table}\n\n{SENTENCE * 3}")
    assert table in holding(chunks, "| option").text


def test_list_items_stay_whole() -> None:
    items = [f"- Option number {n} is there.\n  {SENTENCE}Mind it.\n" for n in range(9)]
    chunks = split("".join(items))
    assert len(chunks) > 1
    assert all(any(item.rstrip() in piece.text for piece in chunks) for item in items)


def test_an_items_code_stays_in_the_item() -> None:
    item = "1. Run this:\n\n   ```sh\n   make\n\n   make test\n   ```\n\n   and wait."
    chunks = split(f"{SENTENCE * 3}\n\n{item}\n2. {SENTENCE * 2}\n3. {SENTENCE * 2}\n")
    assert item in holding(chunks, "1. Run").text


def test_an_oversized_code_block_is_cut_between_lines() -> None:
    lines = [f"call_number_{n}(first, second)" for n in range(60)]
    chunks = split("```\n" + "\n".join(lines) + "\n```")
    assert len(chunks) > 3
    assert all(any(line in piece.text for piece in chunks) for line in lines)


def test_an_oversized_code_block_is_cut_at_blank_lines_first() -> None:
    function = "def f(a, b):\n    return a + b - a * b\n"
    chunks = split("```python\n" + "\n".join([function] * 12) + "```", size=100)
    assert len(chunks) > 2
    assert all(piece.text.startswith("def f") for piece in chunks[1:])


def test_an_oversized_table_is_cut_between_rows() -> None:
    rows = [f"| option_{n} | what it does, at length |" for n in range(40)]
    chunks = split("| name | text |\n| --- | --- |\n" + "\n".join(rows))
    assert len(chunks) > 3
    assert all(any(row in piece.text for piece in chunks) for row in rows)


def test_an_oversized_paragraph_is_cut_between_sentences() -> None:
    chunks = split(SENTENCE * 20)
    assert len(chunks) > 3
    assert all(piece.text.startswith("The quick") and piece.text.endswith("bank.") for piece in chunks)


def test_chinese_is_cut_between_sentences() -> None:
    chunks = split("连接数据库之前请先启用加密。" * 30)
    assert len(chunks) > 3
    assert all(piece.text.startswith("连接") and piece.text.endswith("。") for piece in chunks)


@pytest.mark.parametrize(
    "text",
    ["漢" * 3000, "👩‍👩‍👧 " * 300, "a" * 20_000, "한국어" + " 한국어" * 300, ".-" * 2000, "é" * 99 + "x" * 30_000],
)
def test_what_has_no_seams_is_cut_all_the_same(text: str) -> None:
    chunks = split(text)
    assert len(chunks) > 1
    assert all(len(piece.text) <= 32 * 64 for piece in chunks)


def test_words_are_not_cut_where_blanks_are_near() -> None:
    chunks = split("word " * 500)
    assert all(set(piece.text.split()) == {"word"} for piece in chunks)


def test_carriage_returns_do_not_move_the_spans() -> None:
    text = f"# Guide\r\n\r\n{SENTENCE * 3}\r\n\r\n## TLS\r\n\r\n{SENTENCE * 3}\r\n"
    chunks = split(text)
    assert [piece.headings for piece in chunks] == [(), ("TLS",)]
    assert chunks[1].text.startswith("## TLS")


def test_code_keeps_its_first_lines_indentation() -> None:
    chunks = split(SENTENCE * 4 + "\n\n    indented = 1\n    more = 2\n\n" + SENTENCE * 4)
    assert "    indented = 1\n    more = 2" in holding(chunks, "indented").text


def test_short_deep_sections_share_a_chunk_under_the_headings_they_share() -> None:
    entries = "".join(f"### method_{n}\n\nReturns {n}.\n\n" for n in range(4))
    (piece,) = split(f"## Methods\n\n{entries}")
    assert piece.headings == ("Methods",)
    assert all(f"### method_{n}" in piece.text for n in range(4))


def test_sections_of_level_2_do_not_share_a_chunk() -> None:
    chunks = split(f"## Install\n\n{SENTENCE}\n\n## Use\n\n{SENTENCE}\n", size=128)
    assert [piece.headings for piece in chunks] == [("Install",), ("Use",)]


def test_a_tiny_section_joins_its_neighbour() -> None:
    (piece,) = split(f"# Guide\n\nBriefly.\n\n## Use\n\n{SENTENCE}\n", size=128)
    assert piece.text.startswith("# Guide\n\nBriefly.\n\n## Use")


def test_a_long_sections_end_is_not_a_crumb() -> None:
    chunks = split(f"{SENTENCE * 2}\n\n{SENTENCE * 2}\n\nA last remark on this and that.\n")
    assert [piece.text.startswith("The quick") for piece in chunks] == [True, True]


def test_overlap_repeats_whole_sentences_of_the_same_section() -> None:
    chunks = split(SENTENCE * 12, overlap=20)
    assert all(piece.text.startswith("The quick") for piece in chunks)
    for before, after in itertools.pairwise(chunks):
        assert before.start < after.start < before.end < after.end
        assert 0 < minilm().count(before.text[after.start - before.start :]) <= 20


def test_no_overlap_repeats_nothing() -> None:
    chunks = split(SENTENCE * 12, overlap=0)
    assert all(before.end <= after.start for before, after in itertools.pairwise(chunks))


def test_a_chunk_is_on_the_page_of_its_first_character_that_is_not_repeated() -> None:
    text = SENTENCE * 12
    first, second, *_ = unplaced = split(text, overlap=20)
    assert second.start < first.end
    assert {piece.place for piece in unplaced} == {""}
    document = Document("a.pdf", "Guide", text, "markdown", 0.0, places=((0, "page 1"), (first.end, "page 2")))
    chunks = chunk(document, tokens=minilm(), chunk_tokens=64, overlap_tokens=20)
    assert [piece.place for piece in chunks] == ["page 1", *["page 2"] * (len(unplaced) - 1)]


def test_overlap_does_not_cross_a_heading() -> None:
    sections = "".join(f"## Section {n}\n\n{SENTENCE * 3}\n\n" for n in range(4))
    chunks = split(sections, overlap=20)
    assert all(before.end <= after.start for before, after in itertools.pairwise(chunks))


def test_overlap_never_repeats_a_part_of_code() -> None:
    code = "```\n" + "option = value\n" * 10 + "```"
    chunks = split(f"{SENTENCE}\n\n{code}\n\n{SENTENCE * 3}", overlap=20)
    after = next(piece for piece in chunks if piece.start > 0 and "option" not in piece.text)
    assert after.text.startswith("The quick")
    assert sum("option = value\n```" in piece.text for piece in chunks) == 1


def test_a_heading_path_of_over_half_a_chunk_is_shortened_to_the_nearest() -> None:
    chunks = split(f"## {'out ' * 30}\n\n### {'mid ' * 30}\n\n#### TLS\n\n{SENTENCE * 8}")
    assert chunks[-1].headings == ("TLS",)


def test_a_title_that_leaves_no_room_is_an_error_and_not_a_cut() -> None:
    with pytest.raises(Unreadable, match="the title leaves 0 of a chunk's 64 tokens"):
        split("Text.", title="word " * 100)


@pytest.mark.parametrize(("size", "overlap"), [(15, 0), (64, 64), (64, -1)])
def test_a_budget_that_cannot_work_is_refused(size: int, overlap: int) -> None:
    with pytest.raises(ValueError, match=r"(chunk|overlap)_tokens=.*expected"):
        split("Text.", size=size, overlap=overlap)


@pytest.mark.parametrize("format", ["markdown", "text"])
@pytest.mark.parametrize(("outer", "inner"), [("=", "=="), ("==", "==="), ("=", "= ="), ("= =", "= = =")])
def test_headings_of_a_wiki_are_headings(outer: str, inner: str, format: Format) -> None:
    text = f"{outer} Trains {outer}\n{SENTENCE * 4}\n {inner} Night trains {inner} \n{SENTENCE * 4}\n{SENTENCE}"
    chunks = split(text, format=format)
    assert [piece.headings for piece in chunks[:1] + chunks[-1:]] == [("Trains",), ("Trains", "Night trains")]
    assert holding(chunks, "Night").text.lstrip().startswith(inner)


@pytest.mark.parametrize("line", ["a = b = c", "= a", "a =", "== a =", "x == y", "    = code =", "= ="])
def test_other_equals_signs_are_no_headings(line: str) -> None:
    assert split(f"{SENTENCE}\n\n{line}\n\n{SENTENCE}")[-1].headings == ()


def test_lines_that_end_sentences_are_cut_before_other_sentences() -> None:
    line = SENTENCE.strip() + " And so on."
    chunks = split("\n".join([line] * 9), format="text")
    assert all(piece.text.startswith("The quick") and piece.text.endswith("so on.") for piece in chunks)


def rst(text: str, size: int = 64) -> list[Chunk]:
    return split(textwrap.dedent(text), format="rst", size=size)


def test_rst_titles_have_levels_in_order_of_appearance() -> None:
    chunks = rst(f"""
        =====
        Guide
        =====

        {SENTENCE * 3}

        Connection
        ==========

        {SENTENCE * 3}

        TLS
        ---

        {SENTENCE * 3}

        Use
        ===

        {SENTENCE * 3}
    """)
    assert [piece.headings for piece in chunks] == [(), ("Connection",), ("Connection", "TLS"), ("Use",)]


def test_rst_literal_blocks_stay_whole() -> None:
    literal = "Do as follows::\n\n    client = connect(\n\n        tls=True,\n    )\n"
    chunks = split(f"{SENTENCE * 3}\n\n{literal}\n{SENTENCE * 3}\n", format="rst")
    assert literal.rstrip() in holding(chunks, "connect(").text


def test_rst_code_directives_stay_whole() -> None:
    code = ".. code-block:: python\n   :caption: app.py\n\n   client = connect()\n\n   client.close()"
    chunks = split(f"{SENTENCE * 3}\n\n{code}\n\n{SENTENCE * 3}\n", format="rst")
    assert code in holding(chunks, "code-block").text


@pytest.mark.parametrize(
    "table",
    [
        "+------+-----+\n| tls  | off |\n+======+=====+\n| pool | 100 |\n+------+-----+",
        "====  =====\nname  value\n====  =====\ntls   off\n\npool  100\n====  =====",
        ".. list-table::\n\n   * - tls\n     - off\n\n   * - pool\n     - 100",
    ],
)
def test_rst_tables_stay_whole(table: str) -> None:
    chunks = split(f"{SENTENCE * 3}\n\n{table}\n\n{SENTENCE * 3}\n", format="rst")
    assert table in holding(chunks, "tls").text


def test_rst_list_items_stay_whole() -> None:
    items = [f"* Option number {n}.\n\n  {SENTENCE}Mind it.\n" for n in range(9)]
    chunks = split("\n".join(items), format="rst")
    assert len(chunks) > 1
    assert all(any(item.rstrip() in piece.text for piece in chunks) for item in items)


def test_a_code_directive_within_a_note_stays_whole() -> None:
    code = ".. code-block:: sh\n\n      make\n\n      make test"
    note = f".. note::\n\n   {SENTENCE * 2}\n\n   {code}\n\n   {SENTENCE * 2}"
    assert code in holding(split(note, format="rst"), "code-block").text


def test_an_rst_transition_is_no_title() -> None:
    chunks = split(f"{SENTENCE * 2}\n\n-------\n\n{SENTENCE * 2}", format="rst")
    assert {piece.headings for piece in chunks} == {()}


def test_plain_text_is_cut_between_paragraphs() -> None:
    chunks = split("\n\n".join([SENTENCE * 2] * 6), format="text")
    assert all(piece.text.startswith("The quick") and piece.text.endswith("bank.") for piece in chunks)
    assert len(chunks) == 3


def test_a_number_sign_in_plain_text_is_no_heading() -> None:
    assert split("# not a heading\n\ntext", format="text")[0].headings == ()
