"""Office files and e-books, made by pandoc and LibreOffice from the Markdown and the flat sheets beside them."""

import io
import random
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from retrieval.errors import Unreadable, UnreadableRights
from retrieval.ingest.formats.office import TYPES
from retrieval.ingest.load import parse
from retrieval.records.documents import Document

HERE = Path(__file__).parent / "office"
TEXTS = ("handbook.docx", "handbook.odt", "handbook.epub", "handbook.rtf")
SHEETS = ("prices.xlsx", "prices.ods", "prices.xls")
SLIDES = ("talk.pptx", "talk.odp")
_CELLS = re.compile(r" *\| *")


def document(name: str, data: bytes | None = None, groups: tuple[str, ...] | None = None) -> Document:
    content = (HERE / name).read_bytes() if data is None else data
    return parse(content, Path(name), f"docs/{name}", 0.0, groups=groups)


def tables(text: str) -> list[list[str]]:
    """The cells of each line of a table, without the rule below the head."""
    lines = (line for line in text.splitlines() if line.startswith("|") and "---" not in line)
    return [_CELLS.split(line.replace("\\|", "/").strip("| ")) for line in lines]


def headings(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("#")]


def changed(name: str, change: Callable[[str, bytes], bytes]) -> bytes:
    """A zip file with its members changed."""
    made = io.BytesIO()
    with zipfile.ZipFile(HERE / name) as box, zipfile.ZipFile(made, "w") as other:
        for member in box.namelist():
            other.writestr(member, change(member, box.read(member)))
    return made.getvalue()


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_keeps_its_headings_tables_lists_and_footnotes(name: str) -> None:
    read = document(name)
    assert read.format == "markdown"
    assert [one for one in headings(read.text) if one != "# Pump handbook"] == ["# Pumps", "## Costs", "## Care"]
    assert tables(read.text) == [["pump", "euro"], ["red", "120"], ["blue / new", "450"]]
    plain = read.text.replace("`", "")
    for said in ("Keep max_pressure below 4 bar.", "Oil it weekly", "Never run it dry"):
        assert said in plain
    if name != "handbook.rtf":  # whose footnotes are lost
        assert plain.count("A dry pump breaks within an hour.") == 1
        assert read.title == "Pump handbook"
        assert read.attributes["author"] == "Ann Example"
        assert str(read.attributes["created"]).startswith("2026-11-27T")
    assert "[^" not in plain


@pytest.mark.parametrize("name", ["handbook.adoc", "handbook.org", "handbook.tex"])
def test_a_markup_language_keeps_its_headings_and_tables(name: str) -> None:
    read = document(name)
    assert [one.lstrip("# ") for one in headings(read.text)[-3:]] == ["Pumps", "Costs", "Care"]
    assert [cells[:2] for cells in tables(read.text)[:2]] == [["pump", "euro"], ["red", "120"]]
    assert "A dry pump breaks within an hour." in read.text
    assert not {"{%", "CUSTOM_ID", "**TITLE**"} & set(read.text.split())
    with pytest.raises(UnreadableRights):
        document(name, b"groups: [hr]\n\n" + (HERE / name).read_bytes())


@pytest.mark.parametrize("ending", [".srt", ".vtt"])
def test_subtitles_are_what_is_said(ending: str) -> None:
    times = ("00:00:01,000 --> 00:00:04,000", "00:00:05,500 --> 00:00:08,000")
    lines = f"1\n{times[0]}\nWelcome to the course.\n\n2\n{times[1]}\n<i>Never</i> run it dry.\n"
    text = lines if ending == ".srt" else "WEBVTT\n\n" + lines.replace(",", ".")
    assert document("course" + ending, text.encode()).text.split("\n\n") == [
        "Welcome to the course.",
        "Never run it dry.\n",
    ]


@pytest.mark.parametrize("name", SHEETS)
def test_a_sheet_is_a_section_with_its_table(name: str) -> None:
    read = document(name)
    assert headings(read.text) == ["## Sheet Costs", "## Sheet Owners"]
    assert tables(read.text) == [
        ["pump", "euro", "since"],
        ["red", "120", "2024-05-01"],
        ["blue", "450.5", "2025-01-31"],
        ["pump", "owner"],
        ["red", "Oskar"],
    ]
    assert read.title == ("Prices" if name == "prices.xls" else "Pump prices")


def test_a_large_sheet_is_read_whole() -> None:
    row = b"<row>" + b'<c t="inlineStr"><is><t>same value</t></is></c>' * 60 + b"</row>"

    def large(member: str, data: bytes) -> bytes:
        return re.sub(rb"(<sheetData>).*(</sheetData>)", rb"\1" + row * 900 + rb"\2", data, flags=re.DOTALL)

    read = document("prices.xlsx", changed("prices.xlsx", large))
    assert read.text.count("same value") == 2 * 60 * 900  # in both sheets


@pytest.mark.parametrize("name", SLIDES)
def test_a_slide_is_a_section_with_its_notes(name: str) -> None:
    read = document(name)
    assert headings(read.text) == ["## Slide 1: Pump talk", "## Slide 2: Costs", "## Slide 3: Care"]
    care = read.text.partition("## Slide 3: Care")[2]
    assert "Oil it weekly" in care
    assert "a dry pump breaks within an hour" in care
    assert read.text.count("Care") == 1
    assert tables(read.text) == [["pump", "euro"], ["red", "120"], ["blue", "450"]]
    assert "Click to edit" not in read.text


def test_slides_stand_in_their_order_with_their_own_notes() -> None:
    """Files keep the order in which slides were made; the presentation names the order in which they are shown."""

    def turned(member: str, data: bytes) -> bytes:
        if member != "ppt/presentation.xml":
            return data
        shown = re.findall(rb"<p:sldId .*?/>", data)
        return re.sub(rb"(<p:sldIdLst>).*(</p:sldIdLst>)", rb"\1" + b"".join(reversed(shown)) + rb"\2", data)

    read = document("talk.pptx", changed("talk.pptx", turned))
    assert headings(read.text) == ["## Slide 1: Care", "## Slide 2: Costs", "## Slide 3: Pump talk"]
    assert "Notes: Say" in read.text.partition("## Slide 2")[0]


def test_headings_of_rich_text_are_those_of_its_styles() -> None:
    """As LibreOffice writes them."""
    styles = rb"{\stylesheet{\s0 Default;}{\s2\sbasedon0\fs32\b\dbch Heading 1;}{\s12\fs28\b Heading 2;}}"
    cells = rb"\trowd\cellx1000\cellx2000\intbl red\cell 120\cell\row"
    text = (
        rb"{\rtf1\ansi%s\pard\plain \s2{\loch Pumps}\par \pard\plain \s0 Oil them.\par \pard\plain \s12 Prices\par %s}"
    )
    read = parse(text % (styles, cells), Path("a.rtf"), "a.rtf", 0.0)
    assert headings(read.text) == ["# Pumps", "## Prices"]
    assert tables(read.text) == [["red", "120"]]
    assert "TABLE" not in read.text


def test_rows_of_latex_may_take_several_lines() -> None:
    text = r"""\documentclass{article}\begin{document}
\section{Pumps}
Run \texttt{pump\ -\/-oil} weekly.
\begin{longtable}[]{@{}ll@{}}
\toprule
pump & meaning \\
\midrule
\endhead
\texttt{red\_one} & the pump in the
yard, \emph{and} its pipe \\
blue & none \\
\bottomrule
\end{longtable}
\end{document}"""
    read = parse(text.encode(), Path("a.tex"), "a.tex", 0.0)
    assert tables(read.text) == [
        ["pump", "meaning"],
        ["red_one", "the pump in the yard, and its pipe"],
        ["blue", "none"],
    ]
    assert "`pump --oil`" in read.text


def test_old_word_files_keep_their_words_headings_and_tables() -> None:
    read = document("handbook.doc")
    assert read.title == "Pump handbook"
    assert headings(read.text) == ["# Pumps", "## Costs", "## Care"]
    assert tables(read.text) == [["pump", "euro"], ["red", "120"], ["blue / new", "450"]]
    for said in ("The blue pump is called Zephyr.", "- Oil it weekly", "A dry pump breaks within an hour."):
        assert said in read.text


def test_old_presentations_keep_their_tables() -> None:
    read = document("talk.ppt")
    assert headings(read.text) == ["## Slide 1: Pump talk", "## Slide 2: Costs", "## Slide 3: Care"]
    assert tables(read.text) == [["pump", "euro"], ["red", "120"], ["blue", "450"]]
    assert "Oil it weekly" in read.text


def test_the_only_words_of_a_slide_are_its_title() -> None:
    def emptied(member: str, data: bytes) -> bytes:
        if member != "ppt/slides/slide3.xml":
            return data
        _, content = data.split(b"</p:sp>")[:2]
        return data.replace(content + b"</p:sp>", b"").replace(b'type="title"', b'type="body"')

    read = document("talk.pptx", changed("talk.pptx", emptied))
    assert headings(read.text)[-1] == "## Slide 3: Care"
    assert read.text.count("Care") == 1


@pytest.mark.parametrize("name", ["handbook.doc", "talk.ppt"])
def test_damaged_old_files_are_read_or_refused(name: str) -> None:
    good, chance, refused = (HERE / name).read_bytes(), random.Random(40), 0
    for _ in range(60):
        data = bytearray(good)
        for _ in range(chance.choice((1, 8, 64, 512))):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            document(name, bytes(data))
        except Unreadable:
            refused += 1
    assert refused < 60


def test_a_title_that_a_program_gave_is_none() -> None:
    def untitled(member: str, data: bytes) -> bytes:
        return data.replace(b">Pump talk</dc:title>", b">PowerPoint Presentation</dc:title>")

    assert document("talk.pptx", changed("talk.pptx", untitled)).title == "Talk"


@pytest.mark.parametrize("ending", TYPES)
def test_what_is_no_such_file_is_refused_with_what_to_do(ending: str) -> None:
    for data in (b"not an Office file", b"\x00\x01" * 2000, b"PK\x03\x04" + b"x" * 100):
        with pytest.raises(Unreadable, match=rf"^damaged, or not a {ending} file \(.*\); open it in its program"):
            document("a" + ending, data)
    with pytest.raises(Unreadable, match="^empty: the file holds no text"):
        document("a" + ending, b"")


@pytest.mark.parametrize("name", [*TEXTS[:3], *SHEETS, *SLIDES, "handbook.doc", "talk.ppt"])
def test_a_file_that_is_cut_off_is_refused(name: str) -> None:
    data = (HERE / name).read_bytes()
    with pytest.raises(Unreadable, match="^damaged"):
        document(name, data[: len(data) // 2])


def test_a_file_of_another_type_than_its_name_says_is_refused() -> None:
    box = io.BytesIO()
    with zipfile.ZipFile(box, "w") as archive:
        archive.writestr("a.txt", "of an archive")
    for name, data in (("a.docx", box.getvalue()), ("a.pptx", (HERE / "handbook.docx").read_bytes())):
        with pytest.raises(Unreadable, match="damaged, or not a|not a .* file: its content is"):
            document(name, data)


def test_a_file_beyond_the_limits_is_named_so() -> None:
    box = io.BytesIO((HERE / "handbook.docx").read_bytes())
    with zipfile.ZipFile(box, "a") as archive:
        for number in range(10_000):
            archive.writestr(f"media/{number}.xml", b"")
    with pytest.raises(Unreadable, match="^too large or too nested inside to be read safely .*; split the file"):
        document("a.docx", box.getvalue())


def test_a_file_with_a_password_is_named_so() -> None:
    stream = "EncryptedPackage".encode("utf-16-le")
    with pytest.raises(Unreadable, match="^encrypted: save it without a password"):
        document("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 500 + stream + b"\0" * 500)


def test_rights_in_the_text_close_the_document() -> None:
    """Nothing here says for certain who may read it."""

    def named(member: str, data: bytes) -> bytes:
        return (
            data.replace(b"The blue pump", b"groups: [hr] The blue pump") if member.endswith("document.xml") else data
        )

    data = changed("handbook.docx", named)
    with pytest.raises(UnreadableRights):
        document("handbook.docx", data)
    assert document("handbook.docx", data, groups=("hr",)).groups == ("hr",)
