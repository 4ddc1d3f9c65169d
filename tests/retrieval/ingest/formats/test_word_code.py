"""Code in Word files keeps its lines, whichever program wrote the file."""

from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

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
_CONSOLAS = '<w:rPr><w:rFonts w:ascii="Consolas"/></w:rPr>'


def run(text: str, letters: str = "") -> str:
    return f'<w:r>{letters}<w:t xml:space="preserve">{text}</w:t></w:r>'


def paragraph(*runs: str, how: str = "") -> str:
    return f"<w:p><w:pPr>{how}</w:pPr>{''.join(runs)}</w:p>"


def styled(style: str, *runs: str) -> str:
    return paragraph(*runs, how=f'<w:pStyle w:val="{style}"/>')


def text_of(*paragraphs: str, declared: str = "UTF-8") -> str:
    file = BytesIO()
    with ZipFile(file, "w") as box:
        box.writestr("[Content_Types].xml", _TYPES)
        box.writestr("_rels/.rels", _RELATIONS)
        head = f'<?xml version="1.0" encoding="{declared}"?>'
        body = f"{head}<w:document {_SPACE}><w:body>{''.join(paragraphs)}</w:body></w:document>"
        box.writestr("word/document.xml", body)
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


def test_a_damaged_document_says_so() -> None:
    with pytest.raises(Unreadable, match="damaged"):
        text_of(styled("Mono", run("fare")), "<w:p>")
