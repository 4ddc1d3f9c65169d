"""Code in Word files keeps its lines, whichever program wrote the file."""

from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from retrieval.errors import Unreadable
from retrieval.ingest.load import parse

_SPACE = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Override PartName="/word/document.xml" ContentType='
    '"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
)
_RELATIONS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" Type='
    '"http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/>'
    "</Relationships>"
)
_STYLES = (
    '<w:style w:styleId="Pre"><w:name w:val="Preformatted Text"/></w:style>'
    '<w:style w:styleId="Mono"><w:name w:val="Typed"/><w:rPr><w:rFonts w:ascii="Liberation Mono"/></w:rPr></w:style>'
    '<w:style w:styleId="Small"><w:name w:val="Small"/><w:basedOn w:val="Mono"/></w:style>'
)
_KINDS = {1: ("bullet", "•"), 2: ("decimal", "%1."), 3: ("bullet", " ")}  # pandoc's third is a further paragraph's
_NUMBERING = "".join(
    f'<w:abstractNum w:abstractNumId="{id}">'
    + "".join(
        f'<w:lvl w:ilvl="{level}"><w:start w:val="1"/><w:numFmt w:val="{form}"/><w:lvlText w:val="{sign}"/>'
        f'<w:pPr><w:ind w:left="{720 * (level + 1)}"/></w:pPr></w:lvl>'
        for level in range(9)
    )
    + "</w:abstractNum>"
    for id, (form, sign) in _KINDS.items()
) + "".join(
    f'<w:num w:numId="{id}"><w:abstractNumId w:val="{kind}"/></w:num>' for id, kind in ((1, 1), (2, 2), (3, 3), (4, 1))
)
_CONSOLAS = '<w:rPr><w:rFonts w:ascii="Consolas"/></w:rPr>'


def run(text: str, letters: str = "") -> str:
    return f'<w:r>{letters}<w:t xml:space="preserve">{text}</w:t></w:r>'


def paragraph(*runs: str, how: str = "") -> str:
    return f"<w:p><w:pPr>{how}</w:pPr>{''.join(runs)}</w:p>"


def styled(style: str, *runs: str) -> str:
    return paragraph(*runs, how=f'<w:pStyle w:val="{style}"/>')


def numbered(text: str, level: int, list: int, style: str = "") -> str:
    how = f'<w:pStyle w:val="{style}"/><w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{list}"/></w:numPr>'
    return paragraph(run(text), how=how)


def text_of(*paragraphs: str, declared: str = "UTF-8") -> str:
    file = BytesIO()
    with ZipFile(file, "w") as box:
        box.writestr("[Content_Types].xml", _TYPES)
        box.writestr("_rels/.rels", _RELATIONS)
        head = f'<?xml version="1.0" encoding="{declared}"?>'
        body = f"{head}<w:document {_SPACE}><w:body>{''.join(paragraphs)}</w:body></w:document>"
        box.writestr("word/document.xml", body)
        box.writestr("word/numbering.xml", f"{head}<w:numbering {_SPACE}>{_NUMBERING}</w:numbering>")
        box.writestr("word/styles.xml", f"{head}<w:styles {_SPACE}>{_STYLES}</w:styles>")
    return parse(file.getvalue(), Path("/data/guide.docx"), "guide.docx", 0.0).text.strip()


BEFORE, AFTER = paragraph(run("Set the fare.")), paragraph(run("Then sail."))


def test_line_breaks_and_indentation_stay() -> None:
    code = styled("Pre", run("if car:"), "<w:r><w:br/></w:r>", run("    fare = 12 # *crowns*"))
    assert text_of(BEFORE, code, AFTER) == "Set the fare.\n\n```\nif car:\n    fare = 12 # *crowns*\n```\n\nThen sail."


@pytest.mark.parametrize("style", ["Mono", "Small"])
def test_paragraphs_that_follow_each_other_are_one_block(style: str) -> None:
    code = styled(style, run("a &lt; b")) + styled(style) + styled(style, "<w:r><w:tab/></w:r>", run("```"))
    assert text_of(BEFORE, code, AFTER) == "Set the fare.\n\n````\na < b\n\n\t```\n````\n\nThen sail."


def test_the_font_of_all_runs_makes_code_and_the_font_of_some_does_not() -> None:
    code = paragraph(run("fare ", _CONSOLAS), run("= 12", _CONSOLAS))
    prose = paragraph(run("The "), run("&lt;", _CONSOLAS), run("ferry_fare&gt; ", _CONSOLAS), run("counts."))
    assert text_of(code, prose) == "```\nfare = 12\n```\n\nThe `<ferry_fare>` counts."


def test_cells_and_items_stay_what_they_are() -> None:
    cells = "".join(f"<w:tc>{styled('Mono', run(text))}</w:tc>" for text in ("fare", "12"))
    item = paragraph(run("sail", _CONSOLAS), how='<w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr>')
    text = text_of(BEFORE, f"<w:tbl><w:tr>{cells}</w:tr></w:tbl>", item)
    assert "| `fare` | `12` |" in text
    assert "```" not in text
    assert "`sail`" in text


def test_lists_within_lists_keep_their_level_and_number() -> None:
    """Each level is a list of its own, as pandoc writes it, and further paragraphs have a list without a sign."""
    items = numbered("load", 0, 2), numbered("cars", 1, 1), numbered("not vans", 1, 3), numbered("cast off", 0, 2)
    code = numbered("x = 1", 0, 3, "Mono")
    assert text_of(BEFORE, *items, code, numbered("wait", 0, 3), numbered("sail", 0, 2), AFTER) == (
        "Set the fare.\n\n1. load\n   - cars\n\n     not vans\n\n2. cast off\n\n   ```\n   x = 1\n   ```\n\n"
        "   wait\n\n3. sail\n\nThen sail."
    )


def test_indented_paragraphs_between_items_belong_to_the_item_above() -> None:
    """As LibreOffice and Word write them."""
    deep, flat = (paragraph(run("wait"), how=f'<w:ind w:left="{left}"/>') for left in (1440, 720))
    items = numbered("load", 0, 2), numbered("cars", 1, 1)
    end = numbered("sail", 0, 2)
    assert text_of(*items, deep, end) == "1. load\n   - cars\n\n     wait\n\n2. sail"
    assert text_of(*items, flat, paragraph(), end) == "1. load\n   - cars\n\n   wait\n\n2. sail"
    assert text_of(*items, flat, AFTER) == "1. load\n   - cars\n\nwait\n\nThen sail."


def test_rows_that_are_lists_within_an_item_stay_apart() -> None:
    rows = [numbered(text, 1, list) for list, row in ((1, ("route", "price")), (4, ("north", "12"))) for text in row]
    assert text_of(BEFORE, *rows, AFTER) == "Set the fare.\n\n- - route\n  - price\n- - north\n  - 12\n\nThen sail."


@example([(1, 2), (0, 1), (1, 2)])  # a list within an item that begins with 2
@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([1, 2, 3, 4, 9])), min_size=1, max_size=8))
@settings(max_examples=40, deadline=None)
def test_no_item_is_lost_or_moved(places: list[tuple[int, int]]) -> None:
    text = text_of(BEFORE, *(numbered(f"item{n}", *place) for n, place in enumerate(places)), AFTER)
    said = [token.content for token in MarkdownIt("commonmark").parse(text) if token.type == "inline"]
    assert said == ["Set the fare.", *(f"item{n}" for n in range(len(places))), "Then sail."]


def test_a_damaged_document_says_so() -> None:
    with pytest.raises(Unreadable, match="damaged"):
        text_of(styled("Mono", run("fare")), "<w:p>")
