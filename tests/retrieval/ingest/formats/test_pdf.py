"""PDF to Markdown: structure, tables, pages, and files that cannot be read."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from retrieval.errors import Unreadable, UnreadableRights
from retrieval.ingest.formats.pdf.document import markdown_of, read_pdf
from retrieval.ingest.formats.pdf.page import Page, Word
from retrieval.ingest.load import parse
from retrieval.records.documents import Document
from tests.support.pdfs import dot, grid, lines, marked, pdf, said

PROSE = (
    "The north ferry sails at noon on every day but Monday,",
    "and takes cars up to two tonnes. Book a place for yours",
    "by telephone, at the latest on the evening before.",
)


def markdown(*pages: str, outline: tuple[tuple[str, int], ...] = ()) -> str:
    return read_pdf(pdf(*pages, outline=outline), None).text


def parsed(data: bytes) -> Document:
    return parse(data, Path("/data/guide.pdf"), "data/guide.pdf", 0.0)


def test_larger_and_bold_lines_are_headings_and_lines_are_joined() -> None:
    page = said(50, 720, "Ferries", size=20) + said(50, 690, "Timetable", size=14) + lines(50, 670, *PROSE)
    page += said(50, 620, "Winter", font="bold") + lines(50, 606, *PROSE)
    paragraph = " ".join(PROSE)
    assert markdown(page) == f"# Ferries\n\n## Timetable\n\n{paragraph}\n\n### Winter\n\n{paragraph}\n"


def test_a_heading_may_take_two_lines() -> None:
    page = lines(50, 720, "How to travel with a car,", "and without one", size=16, pitch=19) + lines(50, 670, *PROSE)
    assert markdown(page).startswith("# How to travel with a car, and without one\n\nThe north")


def test_the_outline_names_the_levels() -> None:
    page = said(50, 720, "Ferries", size=16) + lines(50, 700, *PROSE)
    page += said(50, 650, "Cars", size=16) + lines(50, 630, *PROSE) + said(50, 580, "Prices") + lines(50, 550, *PROSE)
    text = markdown(page, outline=(("Ferries", 0), ("Prices", 0)))
    assert [line for line in text.split("\n") if line.startswith("#")] == ["# Ferries", "# Cars", "# Prices"]


def test_a_title_above_the_outline_is_the_first_level() -> None:
    page = said(50, 760, "Island guide", size=24) + said(50, 720, "Ferries", size=16) + lines(50, 700, *PROSE)
    page += said(50, 650, "Cars", size=13) + lines(50, 630, *PROSE)
    text = markdown(page, outline=(("Ferries", 0),))
    assert [line for line in text.split("\n") if line.startswith("#")] == ["# Island guide", "## Ferries", "### Cars"]


def test_words_that_line_ends_cut_are_whole_and_compounds_keep_their_hyphen() -> None:
    page = lines(
        50, 700, "A state-of-the-art ferry needs a connec-", "tion to the shore, and a state-of-the-", "art crew."
    )
    assert markdown(page) == "A state-of-the-art ferry needs a connection to the shore, and a state-of-the-art crew.\n"


def test_list_items_are_items() -> None:
    page = "".join(
        said(50, y, sign) + said(62, y, text)
        for y, sign, text in ((700, "•", "tickets"), (686, "•", "cars, if they are"), (660, "1.", "First."))
    ) + said(62, 674, "light")
    assert markdown(page) == "- tickets\n- cars, if they are light\n1. First.\n"


def test_drawn_bullets_begin_items_and_other_dots_do_not() -> None:
    """Browsers draw the marks of a list as circles."""
    page = lines(50, 720, *PROSE) + lines(62, 660, "tickets, also for those who", "come late") + said(62, 632, "cars")
    marks = dot(53, 663) + dot(53, 635)
    others = dot(210, 663) + dot(20, 720) + dot(300, 400)
    read = markdown(page + marks + others)
    assert read.endswith("evening before.\n\n- tickets, also for those who come late\n- cars\n")
    assert "•" not in read


def test_items_within_items_and_what_belongs_to_an_item_are_indented() -> None:
    """By the left edges."""
    rows = ((50, "1.", "Load the ship"), (74, "-", "cars first"), (74, "-", "then bicycles"), (50, "2.", "Cast off"))
    page = "".join(
        said(x, 700 - 14 * n, sign) + said(x + 12, 700 - 14 * n, text) for n, (x, sign, text) in enumerate(rows)
    )
    page += said(62, 630, "Not before noon.") + said(50, 600, "Then sail.")
    assert markdown(page) == (
        "1. Load the ship\n   - cars first\n   - then bicycles\n2. Cast off\n\n   Not before noon.\n\nThen sail.\n"
    )


def test_a_list_within_an_item_that_does_not_begin_with_one_is_a_list() -> None:
    page = said(50, 700, "- Route") + said(68, 686, "3. North") + said(68, 672, "4. South")
    text = markdown(page)
    assert MarkdownIt("commonmark").render(text).count("<li>") == 3
    assert text == "- Route\n\n  3. North\n  4. South\n"


def test_tags_say_what_is_in_an_item() -> None:
    page = marked(0, said(80, 700, "-") + said(92, 700, "Route")) + marked(
        1, said(80, 686, "-") + said(92, 686, "Price")
    )
    page += marked(2, said(80, 672, "-") + said(92, 672, "North")) + marked(3, said(92, 650, "sail()", font="mono"))
    page += marked(4, said(80, 620, "Then rest."))
    rows = [("LI", ("L", ("LI", 0), ("LI", 1))), ("LI", ("L", ("LI", 2, ("NonStruct", ("Code", 3)))))]
    text = read_pdf(pdf(page, tags=("Document", ("L", *rows), ("P", 4))), None).text
    assert text == "- - Route\n  - Price\n- - North\n\n    ```\n    sail()\n    ```\n\nThen rest.\n"


def test_a_tagged_table_goes_on_in_the_next_column_without_its_repeated_head() -> None:
    cells = [
        (50, 200, "Route"),
        (120, 200, "Price"),
        (50, 180, "North"),
        (120, 180, "12"),
        (320, 680, "South"),
        (390, 680, "30"),
    ]
    page = marked(9, said(50, 700, "Fares")) + marked(8, said(320, 640, "Then sail."))
    page += "".join(marked(n, said(*cell)) for n, cell in enumerate(cells))
    page += marked(0, said(320, 700, "Route")) + marked(1, said(390, 700, "Price"))
    table = ("Table", *(("TR", ("TD", n), ("TD", n + 1)) for n in (0, 2, 4)))
    text = read_pdf(pdf(page, tags=("Document", ("H1", 9), table, ("P", 8))), None).text
    assert text == "# Fares\n\n| Route | Price |\n| --- | --- |\n| North | 12 |\n| South | 30 |\n\nThen sail.\n"


def test_columns_of_a_tagged_page_are_read_in_the_order_of_its_elements() -> None:
    """Also short ones, whose lines stand beside each other; what has no tags comes last, but for bullets."""
    page = said(50, 300, "No tag.") + marked(0, said(50, 700, "Fares"))
    page += dot(54, 683, 2) + marked(1, said(62, 680, "Cars pay twelve."))
    page += marked(2, said(320, 700, "Times")) + marked(3, said(320, 680, "Boats sail at noon."))
    tags = ("Document", ("H1", 0), ("P", 1), ("H1", 2), ("P", 3))
    assert read_pdf(pdf(page, tags=tags), None).text == (
        "# Fares\n\n- Cars pay twelve.\n\n# Times\n\nBoats sail at noon.\n\nNo tag.\n"
    )


def test_code_within_a_tagged_paragraph_is_part_of_it() -> None:
    """Also a line of code alone, and the two parts of a word of code."""
    page = marked(0, said(50, 700, "Call this one first:")) + marked(1, said(50, 688, "open-", font="mono", size=8))
    page += marked(1, said(50, 676, "valve", font="mono", size=8)) + marked(2, said(50, 640, "sail()", font="mono"))
    tags = ("Document", ("P", 0, ("Code", 1)), ("P", ("Code", 2)))
    assert read_pdf(pdf(page, tags=tags), None).text == "Call this one first: `open-valve`\n\n`sail()`\n"


def test_no_tagged_text_at_the_edge_of_a_page_is_left_out() -> None:
    page = marked(0, said(50, 700, "Loads:")) + marked(1, said(50, 40, "12")) + said(300, 20, "1")
    assert read_pdf(pdf(page, tags=("Document", ("P", 0), ("P", 1))), None).text == "Loads:\n\n12\n"
    code = said(50, 40, "Default:") + said(92, 40, "12", font="mono")
    assert markdown(lines(50, 700, *PROSE) + code).endswith("Default: `12`\n")


def test_a_text_without_cut_words_keeps_its_hyphens() -> None:
    rest = [f"The {n} ferries sail at noon on every day." for n in range(60)]
    page = lines(50, 780, "Set shipOptions, which are all the ship-", "options.", *rest, pitch=11)
    assert "all the ship-options." in markdown(page)


def test_links_are_those_of_markdown_and_addresses_in_the_text_stay() -> None:
    page = lines(50, 700, "Read the list of", "prices, or see ferry.example/cars.")
    fares, cars = "https://ferry.example/fares(winter)", "https://ferry.example/cars"
    places = {(90, 698, 130, 710): fares, (50, 686, 84, 698): fares, (120, 686, 220, 698): cars}
    text = read_pdf(pdf(page, links=places), None).text
    assert text == f"Read the [list of prices]({fares}), or see ferry.example/cars.\n"


def test_links_that_are_no_pages_are_left_out() -> None:
    page = said(50, 700, "Read the list.")
    assert read_pdf(pdf(page, links={(50, 698, 200, 710): "file:///etc/passwd"}), None).text == "Read the list.\n"


def test_paragraphs_that_a_blank_line_parts_stay_two() -> None:
    page = said(50, 700, "See ferry/fares.txt") + said(50, 676, "winter_prices") + lines(50, 640, *PROSE)
    assert markdown(page).startswith("See ferry/fares.txt\n\nwinter_prices\n\nThe north")


def test_code_within_sentences_is_code_and_makes_no_table() -> None:
    rows = (("A", "pier", "lists the ferries."), ("Make an", "pier", "object, then sail."))
    words = []
    for base, texts in zip((112.0, 136.0), rows, strict=True):
        at = 50.0
        for tag, text in enumerate(texts):  # each with a tag of its own, as browsers print them
            mono = text == "pier"
            for part in text.split():
                words.append(Word(part, at, base - 8, at + 5 * len(part), base + 2, base, 10, mono=mono, tag=tag))
                at += 5 * len(part) + 3
    page = Page(1, 600, 800, words)
    assert markdown_of([page])[0] == "A `pier` lists the ferries.\n\nMake an `pier` object, then sail.\n"


def test_code_keeps_its_lines_and_indentation() -> None:
    page = lines(50, 700, *PROSE) + lines(50, 650, "def fare(car):", "    return 12", font="mono")
    assert markdown(page).endswith("\n\n```\ndef fare(car):\n    return 12\n```\n")


def test_headers_footers_and_page_numbers_are_left_out_and_paragraphs_go_on_over_pages() -> None:
    pages = [
        said(50, 770, f"Ferry guide, part {n}") + lines(50, 700 - n, *PROSE[:2]) + said(300, 30, f"- {n} -")
        for n in range(1, 5)
    ]
    pages[-1] += lines(50, 670, PROSE[2])
    read = read_pdf(pdf(*pages), None)
    assert "part" not in read.text
    assert "- 2" not in read.text
    assert " ".join(PROSE) in read.text
    unended = "The ferry of the islands sails at noon on every day but Monday, and takes cars,"
    over = read_pdf(pdf(lines(50, 700, unended), lines(50, 700, "if they are light.")), None)
    assert over.text == f"{unended} if they are light.\n"
    assert [over.text[start:][:3] for start, _ in over.places] == ["The", " if"]
    assert [name for _, name in over.places] == ["page 1", "page 2"]


def test_columns_with_headings_lists_and_code_are_read_one_after_the_other() -> None:
    """Few of their lines are full, and the marks of the right list hang in the gap."""
    page = lines(50, 740, "Before the", "winter", size=18, pitch=22) + lines(50, 690, *PROSE)
    items = ((760, "Drain the pipes of the garden,"), (746, "and leave all taps open."))
    page += "".join(said(318, y, "•") + said(330, y, text) for y, text in items) + said(
        330, 720, "In the cellar", size=14
    )
    page += lines(330, 700, "Move what must not freeze", "inside: seeds, paint, and", "the accumulator.")
    page += said(50, 650, "open(valve)", font="mono")  # written last, as browsers do
    assert markdown(page) == (
        f"# Before the winter\n\n{' '.join(PROSE)}\n\n```\nopen(valve)\n```\n\n"
        "- Drain the pipes of the garden,\n- and leave all taps open.\n\n"
        "## In the cellar\n\nMove what must not freeze inside: seeds, paint, and the accumulator.\n"
    )


def test_columns_are_read_one_after_the_other_whatever_the_order_in_the_file() -> None:
    left = [f"left line {n} of a column with text that fills it" for n in range(9)]
    right = [f"right line {n} of a column with text that fills it" for n in range(9)]
    page = said(50, 740, "Both columns stand below a title that is as wide as both of them", size=16)
    page += "".join(
        said(50, 700 - 12 * n, a) + said(320, 700 - 12 * n, b) for n, (a, b) in enumerate(zip(left, right, strict=True))
    )
    page += said(50, 560, "Notes that stand below both columns, and are as wide as both of them are together, no less")
    text = markdown(page)
    places = [text.index(line) for line in ("Both columns", *left, *right, "Notes")]
    assert places == sorted(places)


TABLE = (("Route", "Price", "Notes"), ("North", "12", "cars too"), ("South", "", "on foot"))


def test_a_ruled_table_has_its_cells_also_empty_and_wrapped_ones() -> None:
    xs, ys = (50, 150, 200, 300), (700, 680, 660, 636)
    page = grid(xs, ys) + "".join(
        said(x + 4, y - 12, cell) for y, row in zip(ys, TABLE, strict=False) for x, cell in zip(xs, row, strict=False)
    )
    page += said(204, 638, "and cycles")
    rows = "| Route | Price | Notes |\n| --- | --- | --- |\n| North | 12 | cars too |\n"
    assert markdown(page + lines(50, 600, *PROSE)) == (
        f"{rows}| South |  | on foot and cycles |\n\n{' '.join(PROSE)}\n"
    )


def test_a_cell_over_two_rows_stands_in_both() -> None:
    page = grid((50, 150, 250), (700, 660)) + "150 680 m 250 680 l S\n"
    page += said(54, 676, "North") + said(154, 688, "noon") + said(154, 668, "midnight")
    assert markdown(page) == "| North | noon |\n| --- | --- |\n| North | midnight |\n"


def test_a_table_without_rules_is_found_by_its_columns() -> None:
    page = lines(50, 740, *PROSE)
    for y, row in (
        (690, ("Route", "Price", "Notes")),
        (672, ("North", "12", "cars up to two tonnes")),
        (642, ("South", "7", "")),
    ):
        page += "".join(said(x, y, cell) for x, cell in zip((50, 150, 220), row, strict=True) if cell)
    page += said(220, 660, "and cycles")
    assert markdown(page).endswith(
        "| Route | Price | Notes |\n| --- | --- | --- |\n| North | 12 | cars up to two tonnes and cycles |\n"
        "| South | 7 |  |\n"
    )


def across(x0: float, x1: float, *ys: float) -> str:
    return "".join(f"{x0} {y} m {x1} {y} l S\n" for y in ys)


def test_rows_of_a_table_with_lines_at_its_head_and_end_are_rows() -> None:
    """As LaTeX sets them: more space at the lines than between rows."""
    page = across(50, 400, 700, 683, 630)
    for y, row in ((688, TABLE[0]), (671, TABLE[1]), (659, TABLE[2]), (647, ("East", "9", "no dogs"))):
        page += "".join(said(x, y, cell) for x, cell in zip((54, 154, 254), row, strict=True) if cell)
    assert markdown(page) == (
        "| Route | Price | Notes |\n| --- | --- | --- |\n| North | 12 | cars too |\n| South |  | on foot |\n"
        "| East | 9 | no dogs |\n"
    )


def test_a_table_of_long_cells_between_lines_is_no_page_in_columns() -> None:
    page = across(50, 500, 700, 683, 600)
    for n in range(7):
        said_by = ("it helps in all of the cases", "and (0.3, 1.2) of a hundred runs")
        page += "".join(said(x, 688 - n * 12 - 5 * (n > 0), cell) for x, cell in zip((54, 300), said_by, strict=True))
    assert markdown(page).count("| it helps in all of the cases | and (0.3, 1.2) of a hundred runs |") == 7


def test_a_first_cell_over_several_rows_leaves_them_apart() -> None:
    page = across(50, 400, 700, 683, 640)
    for y, row in ((688, TABLE[0]), (671, TABLE[1]), (659, ("", "9", "no dogs")), (647, ("East", "8", "none"))):
        page += "".join(said(x, y, cell) for x, cell in zip((54, 154, 254), row, strict=True) if cell)
    assert "| North | 12 | cars too |\n|  | 9 | no dogs |\n| East | 8 | none |" in markdown(page)


def test_cells_that_wrap_in_rows_of_one_pitch_are_whole() -> None:
    rows = [("Route", "Price", "Notes"), ("North", "12", "cars of up to two"), ("", "", "tonnes")]
    rows += [("South ferry of", "7", "no cars at night,"), ("the old town", "", "dogs all day"), ("East", "9", "dogs")]
    page = ""
    for n, row in enumerate(rows):
        cells = zip((50, 122, 180), row, strict=True)
        page += "".join(said(x, 700 - 14 * n, cell) for x, cell in cells if cell)
    assert markdown(page).endswith(
        "| North | 12 | cars of up to two tonnes |\n"
        "| South ferry of the old town | 7 | no cars at night, dogs all day |\n| East | 9 | dogs |\n"
    )


def test_a_table_goes_on_over_a_page_without_its_repeated_head() -> None:
    xs = (50, 150, 250)
    pages = [
        grid(xs, (600, 580, 560))
        + said(54, 588, "Route")
        + said(154, 588, "Price")
        + said(54, 568, f"R{n}")
        + said(154, 568, "9")
        for n in range(2)
    ]
    read = read_pdf(pdf(*pages), None)
    assert read.text == "| Route | Price |\n| --- | --- |\n| R0 | 9 |\n| R1 | 9 |\n"
    assert read.text[read.places[1][0] :].strip() == "| R1 | 9 |"


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from(["", "12", "noon", "a car", "the north ferry"]), min_size=3, max_size=3), min_size=1
    ),
    st.floats(10, 30),
    st.booleans(),
)
def test_words_of_two_rows_are_never_mixed(rows: list[list[str]], pitch: float, ruled: bool) -> None:
    rows = [[f"row{n}", *row] for n, row in enumerate(rows[:20])]
    page = "".join(
        said(x, 700 - n * pitch, cell)
        for n, row in enumerate(rows)
        for x, cell in zip((50, 120, 230, 330), row, strict=True)
    )
    ys = [700 - (n - 0.7) * pitch for n in range(len(rows) + 1)]
    text = markdown(page + grid((45, 115, 225, 325, 420), ys) if ruled else page)
    of_rows = " ".join(text.replace("|", " ").replace("---", " ").replace("#", " ").split())
    assert of_rows == " ".join(" ".join(row) for row in rows).replace("  ", " ").replace("  ", " ").strip()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4000), st.binary(max_size=6)), min_size=1, max_size=12))
def test_a_damaged_pdf_is_read_or_refused(changes: list[tuple[int, bytes]]) -> None:
    data = bytearray(pdf(grid((50, 150), (700, 650, 600)) + lines(54, 690, *PROSE), outline=(("Ferries", 0),)))
    for at, wrong in changes:
        data[at % len(data) : at % len(data) + len(wrong)] = wrong
    with contextlib.suppress(Unreadable):
        read_pdf(bytes(data), None)


def test_text_that_runs_upwards_is_read_too() -> None:
    page = lines(50, 700, *PROSE) + said(580, 100, "Printed on the island", turned=True)
    assert markdown(page).endswith("\n\nPrinted on the island\n")


def test_title_author_and_dates_are_the_files_own() -> None:
    info = {"Title": "Island guide", "Author": "A. Skipper", "CreationDate": "D:20240531120000Z"}
    document = parsed(pdf(lines(50, 700, *PROSE), info=info))
    assert (document.title, document.format) == ("Island guide", "markdown")
    assert document.attributes == {"author": "A. Skipper", "created": "2024-05-31"}
    assert document.places == ((0, "page 1"),)
    for title in ("Microsoft Word - a.docx", "Guide"):
        named = parsed(pdf(said(50, 720, "Ferries", size=20) + lines(50, 690, *PROSE), info={"Title": title}))
        assert named.title == "Ferries"


def test_places_stay_right_if_encoded_bytes_are_cut() -> None:
    noise = "data:image/png;base64," + "iVBORw0KGgoAAAANSUhEUgAA" * 4
    document = parsed(pdf(lines(20, 700, *PROSE) + said(20, 600, noise, size=4), lines(50, 700, "Page two.")))
    assert noise not in document.text
    assert [document.text[start:].strip()[:4] for start, _ in document.places] == ["The ", "Page"]


def test_a_pdf_that_seems_to_name_its_readers_is_refused() -> None:
    with pytest.raises(UnreadableRights):
        parsed(pdf(said(50, 700, "groups: hr")))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (pdf(said(50, 700, "x"), encrypted=True), "encrypted"),
        (b"%PDF-1.7\nhardly anything", "not a readable PDF"),
        (b"", "^empty: the file holds no text"),
        (pdf(""), "empty"),
    ],
    ids=["encrypted", "damaged", "nothing", "empty"],
)
def test_a_pdf_that_cannot_be_read_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        parsed(data)


def test_a_scanned_pdf_without_the_extra_names_it() -> None:
    scan = pdf("q 600 0 0 800 0 0 cm BI /W 1 /H 1 /CS /G /BPC 8 ID \x00 EI Q\n")
    with pytest.raises(Unreadable, match=r"`pip install 'ragway\[ocr\]'`"):
        read_pdf(scan, None)
