"""Text in pictures and scanned pages, read by the extra `ocr` from pictures that the tests draw."""

from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from retrieval.errors import Unreadable
from retrieval.ingest.formats import pictures
from retrieval.ingest.load import parse

pytestmark = [
    pytest.mark.models,
    pytest.mark.skipif(not pictures.installed(), reason="the extra `ocr` is not installed"),
]
ROWS = (("Route", "Price", "Notes"), ("North", "12", "cars too"), ("South", "7", "on foot"))


def drawn(*texts: tuple[int, int, int, str]) -> Image.Image:
    """A picture with these texts: x, y, size, text."""
    picture = Image.new("RGB", (900, 400), "white")
    draw = ImageDraw.Draw(picture)
    for x, y, size, text in texts:
        draw.text((x, y), text, font=ImageFont.load_default(size), fill="black")
    return picture


def saved(picture: Image.Image, form: str, **options: object) -> bytes:
    content = BytesIO()
    picture.save(content, form, **options)
    return content.getvalue()


def text_of(data: bytes, name: str) -> str:
    return parse(data, Path(name), name, 0.0).text


@pytest.mark.parametrize(("form", "name"), [("PNG", "a.png"), ("JPEG", "a.JPG"), ("TIFF", "a.tif"), ("WEBP", "a.webp")])
def test_a_picture_is_read_with_its_heading_and_table(form: str, name: str) -> None:
    cells = [
        (x, 180 + 44 * n, 24, cell) for n, row in enumerate(ROWS) for x, cell in zip((60, 300, 540), row, strict=True)
    ]
    picture = drawn((60, 30, 52, "Ferry guide"), (60, 110, 24, "The ferry sails at noon."), *cells)
    assert text_of(saved(picture, form), name) == (
        "# Ferry guide\n\nThe ferry sails at noon.\n\n"
        "| Route | Price | Notes |\n| --- | --- | --- |\n| North | 12 | cars too |\n| South | 7 | on foot |\n"
    )


def test_a_heading_without_letters_below_the_line_is_a_heading() -> None:
    body = [(60, y, 24, f"The ferry of pier {y} sails every day.") for y in (110, 150, 190, 230)]
    picture = drawn((60, 40, 37, "Overview"), *body)
    assert text_of(saved(picture, "PNG"), "a.png").startswith("# Overview\n")


def test_scanned_pages_of_a_pdf_are_read_by_page() -> None:
    pages = [drawn((60, 100, 24, f"The ferry of island {n} sails at noon.")) for n in (1, 2)]
    document = parse(saved(pages[0], "PDF", save_all=True, append_images=pages[1:]), Path("a.pdf"), "a.pdf", 0.0)
    assert document.text.split("\n\n") == [
        f"The ferry of island {n} sails at noon.{end}" for n, end in ((1, ""), (2, "\n"))
    ]
    assert [name for _, name in document.places] == ["page 1", "page 2"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (saved(Image.new("RGB", (300, 200), "white"), "PNG"), "no text was found in the picture"),
        (saved(Image.new("RGB", (300, 200), "white"), "PNG")[:60], "not a readable picture"),
        (b"no picture", "^not a readable picture: open"),
    ],
    ids=["blank", "cut", "no picture"],
)
def test_a_picture_without_text_says_so(data: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        text_of(data, "a.png")


def test_a_scanned_pdf_without_text_says_so() -> None:
    with pytest.raises(Unreadable, match="no text was found"):
        text_of(saved(Image.new("RGB", (300, 200), "white"), "PDF"), "a.pdf")
