"""Code in OpenDocument texts keeps its lines, and lists their levels and numbers."""

import re
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


_LISTS = (
    '<text:list-style style:name="Mixed"><text:list-level-style-bullet text:level="1"/>'
    '<text:list-level-style-number text:level="2"/></text:list-style>'
    '<text:list-style style:name="Alone"><text:list-level-style-number text:level="1"/></text:list-style>'
)


def text_of(*parts: str) -> str:
    head = '<?xml version="1.0" encoding="UTF-8"?>'
    kind = "application/vnd.oasis.opendocument.text"
    file = BytesIO()
    with ZipFile(file, "w") as box:
        box.writestr("mimetype", kind)
        styles = f"<office:styles>{_STYLES}{_LISTS}</office:styles>"
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


def test_cells_stay_cells() -> None:
    cells = "".join(f"<table:table-cell>{p(text, 'Typed')}</table:table-cell>" for text in ("fare", "12"))
    text = text_of(BEFORE, f"<table:table><table:table-row>{cells}</table:table-row></table:table>")
    assert "| fare | 12 |" in text
    assert "```" not in text


def items(*parts: str, style: str = "", start: int = 0) -> str:
    named, first = f' text:style-name="{style}"' if style else "", f' text:start-value="{start}"' if start else ""
    inner = "".join(f"<text:list-item{first if not n else ''}>{part}</text:list-item>" for n, part in enumerate(parts))
    return f"<text:list{named}>{inner}</text:list>"


def test_lists_have_the_signs_of_their_levels() -> None:
    """Also bullets above numbers, as LibreOffice writes what Word wrote."""
    inner = items(p("cars"), p("vans"))
    assert text_of(BEFORE, items(p("load") + inner, p("sail"), style="Mixed")) == (
        "Set the fare.\n\n- load\n  1. cars\n  2. vans\n- sail"
    )
    assert text_of(items(p("load") + items(p("cars"), style="Alone"), style="Mixed")) == "- load\n  1. cars"
    assert text_of(items(p("load"), p("sail"), style="Alone", start=4)) == "4. load\n5. sail"
    assert text_of(items(items(p("cars")), style="Mixed")) == "- 1. cars"
    assert text_of(items(p("load"))) == "- load"


def test_what_else_is_in_an_item_belongs_to_it() -> None:
    assert text_of(items(p("load") + p("wait") + p("x = 1", "Typed") + p("y = 2", "Typed"), p("go", "Typed"))) == (
        "- load\n\n  wait\n\n  ```\n  x = 1\n  y = 2\n  ```\n\n- `go`"
    )
    heading = '<text:h text:outline-level="2">Fares</text:h>'
    assert "## Fares" in text_of(items(heading, style="Alone"), p("Twelve."))


@given(st.lists(st.tuples(st.sampled_from(["Typed", "Prose", "Small"]), st.booleans(), st.integers(0, 3)), min_size=1))
@settings(max_examples=40, deadline=None)
def test_no_word_is_lost_or_moved(kinds: list[tuple[str, bool, int]]) -> None:
    parts = list[str]()
    for n, (style, inner, depth) in enumerate(kinds):
        part = p(span(f"word{n}") if inner else f"word{n}", style)
        for level in range(depth):
            part = items(part, style=("Mixed", "Alone", "")[level])
        parts.append(part)
    assert re.findall(r"word\d+", text_of(*parts)) == [f"word{n}" for n in range(len(kinds))]


def test_a_damaged_text_says_so() -> None:
    with pytest.raises(Unreadable, match="damaged"):
        text_of(p("fare", "Typed"), "<text:p>")
