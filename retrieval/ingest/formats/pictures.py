"""Text in pictures: photographs, screenshots, and scanned pages of a PDF, by RapidOCR (the extra `ocr`).

Its models (PP-OCRv6, for Chinese, English and other languages in Latin letters) come in its wheel; nothing is
downloaded. It gives lines with their places, which are laid out as the words of a PDF's page are.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from io import BytesIO
from statistics import median
from typing import TYPE_CHECKING, Any

from retrieval.errors import Unreadable
from retrieval.ingest.formats.pdf.page import Page, Word

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Picture = NDArray[np.uint8]  # (height, width, 3), blue first

ENDINGS = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp")
INSTALL = "`pip install 'ragway[ocr]'` lets ragway read pictures"
_DOTS_PER_INCH = 116  # of a scanned page as the model gets it; at 200 it loses blanks between words
_MOST_PIXELS = 4000  # in one direction
_FONT = 0.72  # of a line's height
_DESCENDS = re.compile(r"[gjpqyQ,;()\[\]{}|/]")  # letters below the line
_WITHOUT = 1.2  # a line's box is so much lower without them
_LARGER = 1.3  # times the usual height: another size; less is the difference between "one" and "Apply"
_THREADS = 1  # two take half as much processor time again


def installed() -> bool:
    return find_spec("rapidocr") is not None


def read_picture(data: bytes) -> list[Page]:
    """Return the text of a picture, or of each page of a TIFF. Raises Unreadable."""
    import numpy as np
    from PIL import Image, ImageOps, ImageSequence, UnidentifiedImageError

    pages = []
    try:
        with Image.open(BytesIO(data)) as picture:
            for number, frame in enumerate(ImageSequence.Iterator(picture), 1):
                upright = ImageOps.exif_transpose(frame.convert("RGB"))
                pixels = np.asarray(upright)[:, :, ::-1]
                words = words_in(pixels, 1.0)
                pages.append(Page(number, upright.width, upright.height, words))
    except UnidentifiedImageError as error:
        raise Unreadable("not a readable picture: open it in a viewer and save it again") from error
    except (Image.DecompressionBombError, OSError, SyntaxError, ValueError) as error:
        raise Unreadable(f"not a readable picture ({error}): open it in a viewer and save it again") from error
    if not any(page.words for page in pages):
        raise Unreadable("no text was found in the picture; leave it out, or write its text into a file")
    return pages


def scanned_words(pdf: Any, index: int) -> list[Word]:
    """Return the words of a PDF's page that is a picture, with places in points."""
    page = pdf[index]
    try:
        scale = min(_DOTS_PER_INCH / 72, _MOST_PIXELS / max(page.get_size()))
        return words_in(page.render(scale=scale).to_numpy()[:, :, :3], 1 / scale)
    finally:
        page.close()


def words_in(picture: "Picture", scale: float) -> list[Word]:
    """Return words in reading order of their lines. scale: points per pixel."""
    import numpy as np

    found = _model()(np.ascontiguousarray(picture))
    if found.boxes is None:
        return []
    heights = [
        float(np.hypot(*(box[3] - box[0]))) * (1 if _DESCENDS.search(text) else _WITHOUT)
        for box, text in zip(found.boxes, found.txts, strict=True)
    ]
    usual = median(heights)
    words = []
    for box, text, height in zip(found.boxes, found.txts, heights, strict=True):
        (x0, y0), (x1, y1) = box.min(axis=0) * scale, box.max(axis=0) * scale
        size = _FONT * scale * (usual if usual / _LARGER < height < usual * _LARGER else height)
        letter = (x1 - x0) / max(1, len(text))
        at = 0
        for part in text.split():
            at = text.index(part, at)
            place = x0 + at * letter
            words.append(Word(part, place, y0, place + len(part) * letter, y1, y1 - 0.2 * (y1 - y0), size))
            at += len(part)
    return words


@cache
def _model() -> Any:
    threads = {f"EngineConfig.onnxruntime.{kind}_op_num_threads": _THREADS for kind in ("intra", "inter")}
    with _quiet():
        from rapidocr import RapidOCR

        return RapidOCR(params={"Global.log_level": "error", "Global.use_cls": False, **threads})


@contextmanager
def _quiet() -> Iterator[None]:
    """Drop what is written to standard error: onnxruntime warns of each device that the sandbox does not show it."""
    kept, (read, write) = os.dup(2), os.pipe()
    os.dup2(write, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        for descriptor in (kept, read, write):
            os.close(descriptor)
