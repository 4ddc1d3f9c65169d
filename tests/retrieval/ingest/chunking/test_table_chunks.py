"""Tables row by row: rows whole, the head with every chunk, and every row found by what stands in it."""

import pytest

from retrieval.ingest.chunking.chunk import chunk
from retrieval.records.documents import Chunk, Document, Format, indexed_text
from tests.support.minilm import minilm
from tests.support.rows import all_rows


def split(text: str, *, format: Format = "csv", source: str = "prices.csv", size: int = 64) -> list[Chunk]:
    document = Document(source, "Prices", text, format, 0.0)
    chunks = chunk(document, tokens=minilm(), chunk_tokens=size, overlap_tokens=16)
    assert [piece.ordinal for piece in chunks] == list(range(len(chunks)))
    assert all(piece.text == text[piece.start : piece.end] for piece in chunks)
    covered = {at for piece in chunks for at in range(piece.start, piece.end)}
    assert all(at in covered for at, letter in enumerate(text) if not letter.isspace())
    assert max(minilm().counts([indexed_text("Prices", c.headings, c.text) for c in chunks]), default=0) <= size
    return chunks


def lines(chunks: list[Chunk]) -> list[str]:
    return [line for piece in chunks for line in piece.text.split("\n")]


ROWS = [f"lamp {n},{n}.50,in stock" for n in range(60)]
CSV = "\n".join(["name,price,state", *ROWS]) + "\n"


def test_rows_are_whole_and_none_is_repeated() -> None:
    assert lines(split(CSV)) == ["name,price,state", *ROWS]


def test_every_chunk_but_the_first_carries_the_head() -> None:
    chunks = split(CSV)
    assert len(chunks) > 5
    assert chunks[0].headings == ()
    assert chunks[0].text.startswith("name,price,state\n")
    assert {piece.headings for piece in chunks[1:]} == {("name | price | state",)}


def test_rows_fill_a_chunk() -> None:
    assert all(minilm().count(indexed_text("Prices", c.headings, c.text)) > 48 for c in split(CSV)[:-1])


@pytest.mark.parametrize(("delimiter", "source"), [(";", "a.csv"), ("\t", "a.csv"), ("\t", "a.tsv"), ("|", "a.csv")])
def test_other_delimiters_are_read_from_the_first_line(delimiter: str, source: str) -> None:
    assert split(CSV.replace(",", delimiter), source=source)[-1].headings == ("name | price | state",)


def test_a_first_row_with_a_number_is_no_head() -> None:
    assert {piece.headings for piece in split("\n".join(ROWS))} == {()}


@all_rows(
    ("top", "row", "head"),
    [
        ("sep=;\nItem;Name;Price", "A{n};lamp;{n},50", "Item | Name | Price"),
        ("Stock of the north depot\n\nItem;Name;Price", "A{n};lamp;{n},50", "Item | Name | Price"),
        ("Stock, all depots, 2024\nItem;Name;Price", "A{n};lamp;{n},50", "Item | Name | Price"),
        ("# made by a program, v2\nItem,Name,Price", "A{n},lamp,{n}", "Item | Name | Price"),
        ('"Name, full";"Price, EUR"', "lamp {n};{n},50", "Name, full | Price, EUR"),
        (",Jan,Feb", "{n},1.5,2.5", " | Jan | Feb"),
        ("Country,2019,2020", "land {n},4,5", "Country | 2019 | 2020"),
        ("Name;Price;", "lamp {n};{n};", "Name | Price"),
        ("Fees 2024,,\n,,\nItem,Name,Price", "A{n},lamp,{n}", "Item | Name | Price"),
        ("// made by a program, v2\nItem,Name", "A{n},lamp", "Item | Name"),
        ('Name, "Price, EUR"', 'lamp {n}, "{n},50"', "Name | Price, EUR"),
        ("Name,2024-01,2024-02", "lamp {n},4,5", "Name | 2024-01 | 2024-02"),
        ("Name,01/2024,31.12.2024", "lamp {n},4,5", "Name | 01/2024 | 31.12.2024"),
        ("Name,0-5,6-12", "lamp {n},4,5", "Name | 0-5 | 6-12"),
        ("Name\tPrice", "lamp {n}\t{n},50", "Name | Price"),
    ],
)
def test_the_head_is_found_below_titles_and_with_any_delimiter(top: str, row: str, head: str) -> None:
    text = "\n".join([top, *(row.format(n=n) for n in range(60))])
    chunks = split(text)
    assert chunks[0].text.startswith(top)
    assert {piece.headings for piece in chunks[1:]} == {(head,)}


@pytest.mark.parametrize(
    "row", ["{n},lamp", "lamp,2019", "lamp,,on", "a{n}", "2019,2020", "lamp;{n},5", "lamp,2024-01-31", "lamp,1-{n}"]
)
def test_rows_without_a_head_have_none(row: str) -> None:
    assert {piece.headings for piece in split("\n".join(row.format(n=n) for n in range(99)))} == {()}


def test_a_quoted_cell_of_several_lines_stays_in_its_row() -> None:
    rows = [f'lamp {n},"first line\nsecond ""quoted"", line"' for n in range(20)]
    chunks = split("\n".join(["name,text", *rows]))
    assert len(chunks) > 3
    assert all(any(row in piece.text for piece in chunks) for row in rows)


def test_a_row_longer_than_a_chunk_is_cut_and_each_part_has_the_head() -> None:
    chunks = split("name,text\nlamp," + "a word and another " * 60 + "\nlast,row\n")
    assert len(chunks) > 4
    assert all(piece.headings == ("name | text",) for piece in chunks[1:])


def test_a_head_of_over_half_a_chunk_is_left_out() -> None:
    wide = ",".join(f"column number {n}" for n in range(60))
    assert {piece.headings for piece in split(wide + "\n" + "\n".join(ROWS))} == {()}


def test_rows_of_questions_and_answers_are_a_chunk_each() -> None:
    rows = [f"How much is lamp {n}?,It costs {n}." for n in range(5)]
    assert [piece.text for piece in split("\n".join(["Question,Answer", *rows]))] == ["Question,Answer", *rows]


@pytest.mark.parametrize(
    "text",
    ['a,"b', 'a,b\n"' + "x\n" * 400, "a,b\rc,d\r" * 50, "a,b\n" + "x" * 150_000 + ",y\nc,d\n", ",\n,\n", "a,b", "\na",
     "\n\na,b\n\n", "\ufeffa,b\n1,2\n", "é,ü\n漢,字\n" * 50, '"' * 999, "a\0b,c\n" * 9],
    ids=["open", "open lines", "cr", "huge cell", "empty cells", "one row", "one cell", "blank lines", "bom", "unicode",
         "quotes", "nul"],
)  # fmt: skip
def test_odd_tables_are_chunked_completely(text: str) -> None:
    assert split(text)


MARKDOWN = "| name | price |\n| --- | --- |\n" + "\n".join(f"| lamp {n} | {n}.50 and more |" for n in range(40))


def test_a_long_markdown_table_has_its_head_with_every_part() -> None:
    chunks = split(f"# Shop\n\n## Lamps\n\nAll of them:\n\n{MARKDOWN}\n", format="markdown")
    parts = [piece for piece in chunks if "| lamp" in piece.text]
    assert len(parts) > 5
    assert parts[0].text.count("| name | price |") == 1
    assert all(piece.headings == ("Shop", "Lamps", "name | price") for piece in parts[1:])


def test_a_short_markdown_table_does_not_repeat_its_head() -> None:
    (piece,) = split("## Lamps\n\n| name | price |\n| --- | --- |\n| lamp | 1 |\n", format="markdown")
    assert piece.headings == ("Lamps",)


def test_text_behind_a_long_table_is_under_its_own_heading() -> None:
    chunks = split(f"## Lamps\n\n{MARKDOWN}\n\n## Returns\n\n{'Send it back to us. ' * 8}\n", format="markdown")
    assert chunks[-1].headings == ("Returns",)


def test_a_table_of_10_000_rows_is_chunked_like_others() -> None:
    """The suite's time limit is the assertion."""
    rows = [f"lamp {n},{n}.50,in stock" for n in range(10_000)]
    assert lines(split("\n".join(["name,price,state", *rows]), size=200))[1:] == rows
