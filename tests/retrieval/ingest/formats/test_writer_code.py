"""Code in OpenDocument texts keeps its lines."""

from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.errors import Unreadable
from retrieval.ingest.load import parse

_SPACES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{address}:1.0"'
    for name, address in (
        ("office", "office"), ("text", "text"), ("table", "table"), ("style", "style"), ("fo", "xsl-fo-compatible"),
    )
)  # fmt: skip
_STYLES = (
    '<style:style style:name="Typed"><style:text-properties style:font-name="Liberation Mono"/></style:style>'
    '<style:style style:name="Small" style:parent-style-name="Typed"/>'
    '<style:style style:name="Prose" style:parent-style-name="Typed">'
    '<style:text-properties fo:font-family="Arial"/></style:style>'
)


def text_of(*parts: str) -> str:
    head = '<?xml version="1.0" encoding="UTF-8"?>'
    kind = "application/vnd.oasis.opendocument.text"
    file = BytesIO()
    with ZipFile(file, "w") as box:
        box.writestr("mimetype", kind)
        styles = f"<office:styles>{_STYLES}</office:styles>"
        box.writestr("styles.xml", f"{head}<office:document-styles {_SPACES}>{styles}</office:document-styles>")
        body = f"<office:automatic-styles/><office:body><office:text>{''.join(parts)}</office:text></office:body>"
        box.writestr("content.xml", f"{head}<office:document-content {_SPACES}>{body}</office:document-content>")
    return parse(file.getvalue(), Path("/data/guide.odt"), "guide.odt", 0.0).text.strip()


def p(text: str, style: str = "Standard") -> str:
    return f'<text:p text:style-name="{style}">{text}</text:p>'


def span(text: str, style: str = "Source_20_Text") -> str:
    return f'<text:span text:style-name="{style}">{text}</text:span>'


BEFORE, AFTER = p("Set the fare."), p("Then sail.")


def test_lines_and_indentation_stay() -> None:
    one = p('if car:<text:line-break/><text:s text:c="4"/>fare = 12 # *crowns*', "Preformatted_20_Text")
    assert text_of(BEFORE, one, AFTER) == "Set the fare.\n\n```\nif car:\n    fare = 12 # *crowns*\n```\n\nThen sail."
    lines = p("a &lt; b", "Typed") + p("", "Small") + p(span("<text:tab/>```"))
    assert text_of(BEFORE, lines, AFTER) == "Set the fare.\n\n````\na < b\n\n\t```\n````\n\nThen sail."


def test_words_in_letters_of_one_width_are_code_and_others_are_not() -> None:
    assert text_of(p(f"The {span('ferry_fare')} of {span(span('cars'), 'Prose')}.")) == "The `ferry_fare` of `cars`."
    assert text_of(p(f"Set {span('fare')}{span('=12', 'Small')} now.")) == "Set `fare=12` now."
    assert text_of(p("No code.", "Prose")) == "No code."


def test_cells_and_items_stay_what_they_are() -> None:
    cells = "".join(f"<table:table-cell>{p(text, 'Typed')}</table:table-cell>" for text in ("fare", "12"))
    item = f"<text:list><text:list-item>{p('sail', 'Typed')}</text:list-item></text:list>"
    text = text_of(BEFORE, f"<table:table><table:table-row>{cells}</table:table-row></table:table>", item)
    assert "| fare | 12 |" in text
    assert text.endswith("sail")
    assert "```" not in text


@given(st.lists(st.tuples(st.sampled_from(["Typed", "Prose", "Small"]), st.booleans()), min_size=1, max_size=6))
@settings(max_examples=40, deadline=None)
def test_no_word_is_lost_or_moved(kinds: list[tuple[str, bool]]) -> None:
    parts = [p(span(f"word{n}") if inner else f"word{n}", style) for n, (style, inner) in enumerate(kinds)]
    words = [word for word in text_of(*parts).replace("`", "").split() if word]
    assert words == [f"word{n}" for n in range(len(kinds))]


def test_a_damaged_text_says_so() -> None:
    with pytest.raises(Unreadable, match="damaged"):
        text_of(p("fare", "Typed"), "<text:p>")
