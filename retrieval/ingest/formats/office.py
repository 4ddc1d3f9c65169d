"""Files of Office programs, e-books and markup languages to Markdown, by xberg: its parsers in Rust are one library
for all of them.

xberg finds headings, lists, tables, notes and properties. Its text recognition, models, cache and crawler stay off, and
it gets bytes, never a path or an address. What is left here is the join: one form for slides and sheets, notes with the
right slide, and a refusal for what xberg reads as something else than its name says.
"""

import asyncio
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from io import BytesIO
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

from retrieval.errors import Unreadable
from retrieval.ingest.formats import slide_tables, word_code, word_tables, writer_code
from retrieval.ingest.formats.markup import whole_words
from retrieval.records.documents import Attribute

if TYPE_CHECKING:
    from xberg import ExtractedDocument, ExtractionConfig

_OPEN_XML = "application/vnd.openxmlformats-officedocument"
_OPEN_DOCUMENT = "application/vnd.oasis.opendocument"
TYPES = {  # ending -> type of the content
    ".docx": f"{_OPEN_XML}.wordprocessingml.document",
    ".pptx": f"{_OPEN_XML}.presentationml.presentation",
    ".xlsx": f"{_OPEN_XML}.spreadsheetml.sheet",
    ".odt": f"{_OPEN_DOCUMENT}.text",
    ".odp": f"{_OPEN_DOCUMENT}.presentation",
    ".ods": f"{_OPEN_DOCUMENT}.spreadsheet",
    ".doc": "application/msword",
    ".ppt": "application/vnd.ms-powerpoint",
    ".xls": "application/vnd.ms-excel",
    ".rtf": "application/rtf",
    ".epub": "application/epub+zip",
}
MARKUP = {  # the same for files of text
    ".adoc": "text/asciidoc",
    ".asciidoc": "text/asciidoc",
    ".org": "text/org",
    ".tex": "application/x-latex",
    ".vtt": "text/vtt",
    ".srt": "text/vtt",
}
_TYPES = TYPES | MARKUP
_ENCRYPTED = "E\0n\0c\0r\0y\0p\0t\0e\0d\0P\0a\0c\0k\0a\0g\0e\0".encode(
    "latin-1"
)  # a stream beside a file with a password
OLE = b"\xd0\xcf\x11\xe0"  # begins Microsoft's files before 2007, and files with a password

# What zipfile, ElementTree and xberg raise for a file that they cannot read.
_FAULTS = (BadZipFile, ElementTree.ParseError, zlib.error, EOFError, LookupError, RuntimeError, ValueError)
_TOO_LARGE = re.compile(r"limit|bomb|too many", re.IGNORECASE)  # in such a message

# Titles that programs give themselves.
_NO_TITLE = re.compile(
    r"(?:powerpoint presentation|(?:microsoft )?(?:word|excel|powerpoint) - .*|untitled.*"
    r"|(?:presentation|document|book|slide) ?\d*|normal|title|)",
    re.IGNORECASE,
)
_SRT_TIME = re.compile(r"^(\d+:\d+:\d+),(\d+ --> \d+:\d+:\d+),(\d+)", re.MULTILINE)
# What xberg shows of the commands beside the text: properties of Org, anchors of LaTeX.
_COMMANDS = re.compile(r"^(?:\*\*\w+\*\*: .*|[\w:.-]+\{%)\n+", re.MULTILINE)
_PICTURE = re.compile(r"!\[([^\]\n]*)\]\(image_\d+\.\w+\)")  # of the file itself: its description is the text
_ANCHOR = re.compile(r"(?<!!)\[\]\(#[^)\s]*\)")  # a link without text, such as pandoc's for each line of code
_REFERENCE = re.compile(r"\[\^\d+\](?!:)")  # to a footnote: its text stands below
_FOOTNOTE = re.compile(r"^\[\^\d+\]:\s*", re.MULTILINE)
_SHEET = re.compile(r"^## (?=\S)", re.MULTILINE)
_HEADING = re.compile(r"#{1,6} (.*)")
_RULE = re.compile(r"^-----$", re.MULTILINE)  # begins each slide
_MOST_TITLE_CHARS = 80

_TABLE_END = re.compile(r"^\[TABLE_ROW\]$\n*", re.MULTILINE)  # xberg's own, below tables of RTF
_TEX_TABLE = re.compile(rb"\\begin\{(longtable|tabular[x*]?)\}.*?\\end\{\1\}", re.DOTALL)
_TEX_ALONE = re.compile(
    rb"\s*\\(?:(?:begin|end)\{(?:longtable|tabular)|(?:top|mid|bottom|c)?rule|hline|cline|end[a-z]+|noalign)"
)
_TEX_CODE = re.compile(rb"\\texttt\{(?:[^{}\\]|\\.)*\}", re.DOTALL)
_TEX_FONT = re.compile(rb"\\(?:texttt|textbf|textit|emph)\{((?:[^{}\\]|\\.)*)\}", re.DOTALL)
_RTF_HEADING = re.compile(rb"\{\\s(\d+)(?!\d)[^{}]*[\s ]heading ([1-9]);\}", re.IGNORECASE)  # a style
_RTF_STYLED = re.compile(rb"\\pard\\plain ?(?:\\(?:ltr|rtl)par)?\\s(\d+)(?!\d)")  # begins a paragraph

_SLIDE_FILE = re.compile(r"ppt/slides/slide(\d+)\.xml")
_RELATIONS = "{http://schemas.openxmlformats.org/package/2006/relationships}Relationship"
_RELATION_ID = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_SLIDES = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"


def to_markdown(data: bytes, ending: str) -> tuple[str, str, Mapping[str, Attribute]]:
    """Return a file's title ("" if it names none), its text, and attributes from its properties. Raises Unreadable."""
    if data.startswith(OLE) and _ENCRYPTED in data:
        raise Unreadable("encrypted: save it without a password")
    try:
        document, text = _read(data, ending)
    except _FAULTS as error:
        reason = " ".join(str(error).split())[:200]
        if _TOO_LARGE.search(reason):
            raise Unreadable(f"too large or too nested inside to be read safely ({reason}); split the file") from error
        remedy = "open it in its program and save it again"
        raise Unreadable(f"damaged, or not a {ending} file ({reason}); {remedy}") from error
    if document.mime_type != _TYPES[ending]:
        raise Unreadable(f"not a {ending} file: its content is {document.mime_type}; name the file by its type")
    title = " ".join((document.metadata.title or "").split())
    text = _FOOTNOTE.sub("", _REFERENCE.sub("", _PICTURE.sub(r"\1", text)))
    return "" if _NO_TITLE.fullmatch(title) else title, text, _attributes(document.metadata)


def subtitles(text: str) -> str:
    """Return subtitles in the format SubRip (.srt) as WebVTT."""
    return "WEBVTT\n\n" + _SRT_TIME.sub(r"\1.\2.\3", text)


def _read(data: bytes, ending: str) -> tuple["ExtractedDocument", str]:
    match ending:
        case ".docx" | ".odt":
            data, code = word_code.without_code(data) if ending == ".docx" else writer_code.without_code(data)
            document = _extracted(data, ending)
            return document, word_code.with_code(document.content, code)
        case ".doc":
            document = _extracted(word_tables.with_marks(data), ending)
            return document, word_tables.with_tables(document.content)
    document = _extracted(_mended(data, ending), ending)
    return document, _text(document, data, ending)


def _mended(data: bytes, ending: str) -> bytes:
    """Return a file without what xberg reads wrongly."""
    match ending:
        case ".rtf":
            if not data.startswith(b"{\\rtf"):  # xberg reads any bytes as such a file
                raise ValueError("it does not begin with {\\rtf")
            return _with_levels(data)
        case ".tex":
            data = whole_words.with_whole_words(data.decode(), ending).encode()
            data = _TEX_CODE.sub(lambda code: code[0].replace(b"\\ ", b" "), data)
            return _TEX_TABLE.sub(lambda table: _in_rows(table[0]), data)
        case ".odp":
            return _without_masters(data)
    return whole_words.with_whole_words(data.decode(), ending).encode() if ending in MARKUP else data


def _text(document: "ExtractedDocument", data: bytes, ending: str) -> str:
    text: str = document.content
    match ending:
        case ".pptx":
            return _slides(_shown(data, [page.content for page in document.pages or ()]))
        case ".ppt":
            slides = slide_tables.with_tables(_RULE.split(text)[1:], slide_tables.tables(data))
            return _slides((slide, "") for slide in slides)
        case ".odp":
            return _slides((slide, "") for slide in _RULE.split(text)[1:])
        case ".xlsx" | ".ods" | ".xls":
            return _SHEET.sub("## Sheet ", text)
        case ".org" | ".tex":  # LaTeX writes -\/- for two hyphens
            return _COMMANDS.sub("", text.replace("-\\\\/-", "--").replace("-\\/-", "--"))
        case ".rtf":
            return _TABLE_END.sub("", text)
        case ".epub":
            return _ANCHOR.sub("", text)
    return text


def _with_levels(data: bytes) -> bytes:
    """Return a text in RTF whose headings have their level; LibreOffice tells it by the name of their style alone."""
    levels = {style[1]: int(style[2]) - 1 for style in _RTF_HEADING.finditer(data)}
    return _RTF_STYLED.sub(
        lambda begun: begun[0] + (b"\\outlinelevel%d" % levels[begun[1]] if begun[1] in levels else b""), data
    )


def _in_rows(table: bytes) -> bytes:
    """Return a table of LaTeX with a line for each row: xberg takes every line for a row, and commands for text."""
    lines: list[bytes] = []
    for line in table.split(b"\n"):
        ended = not lines or lines[-1].rstrip().endswith(b"\\\\") or _TEX_ALONE.match(lines[-1])
        if ended or _TEX_ALONE.match(line):
            lines.append(line)
        else:
            lines[-1] += b" " + line.lstrip()
    return _TEX_FONT.sub(rb"\1", b"\n".join(lines)).replace(b"\\_", b"_").replace(b"\\#", b"#")


def _extracted(data: bytes, ending: str) -> "ExtractedDocument":
    from xberg import ExtractInput, extract
    from xberg.exceptions import XbergError

    given = ExtractInput(kind="bytes", bytes=data, mime_type=_TYPES[ending], filename="file" + ending)
    try:
        return asyncio.run(extract(given, _config(pages=ending == ".pptx"))).results[0]
    except XbergError as error:
        raise ValueError(error) from error


@cache
def _config(*, pages: bool) -> "ExtractionConfig":
    from xberg import ContentFilterConfig, ExtractionConfig, ImageExtractionConfig, PageConfig, SecurityLimits

    return ExtractionConfig(
        output_format="markdown",
        mime_detection_policy="prefer_content",
        use_cache=False,
        disable_ocr=True,
        enable_quality_processing=False,
        # The sandbox limits time and memory. xberg's own limits refuse 100,000 cells, and equal rows as a bomb.
        extraction_timeout_secs=None,
        security_limits=SecurityLimits(max_table_cells=5_000_000, max_compression_ratio=1_000),
        max_archive_depth=0,
        images=ImageExtractionConfig(extract_images=False),
        content_filter=ContentFilterConfig(include_footnotes=True),
        pages=PageConfig(extract_pages=pages),
    )


def _slides(slides: Iterable[tuple[str, str]]) -> str:
    """Return a section for each slide, with its number, so that an answer can name it. slides: text and notes."""
    parts = []
    for number, (slide, notes) in enumerate(slides, 1):
        heading = _HEADING.match(slide.strip())
        title, text = (heading[1], slide.strip()[heading.end() :]) if heading else ("", slide)
        if not heading and len(text) <= _MOST_TITLE_CHARS and "\n" not in text.strip():
            title, text = text.strip(), ""  # the only words of a slide
        text = text.strip().removeprefix(f"{title}\n").strip()  # a slide of .odp has its title twice
        parts += [f"## Slide {number}{': ' if title else ''}{title}", text, notes]
    return "\n\n".join(part for part in parts if part)


def _without_masters(data: bytes) -> bytes:
    """Return a presentation without the masters of its slides, whose "Click to edit" xberg takes for text."""
    kept = BytesIO()
    with ZipFile(BytesIO(data)) as box, ZipFile(kept, "w", ZIP_DEFLATED) as rest:
        for name in box.namelist():
            if name in ("mimetype", "content.xml", "meta.xml", "META-INF/manifest.xml"):
                rest.writestr(name, box.read(name))
    return kept.getvalue()


def _shown(data: bytes, pages: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each slide's text and notes, in the order of the presentation.

    pages: the slides by the numbers of their files, as xberg reads them: in the order in which they were made. It
    takes the first notes for those of the first slide.
    """
    with ZipFile(BytesIO(data)) as box:
        named = _targets(box, "ppt/presentation.xml")
        numbers = {path: int(file[1]) for path in named.values() if (file := _SLIDE_FILE.fullmatch(path))}
        if len(numbers) != len(pages):
            raise ValueError("a slide cannot be read")
        texts = dict(zip(sorted(numbers, key=numbers.__getitem__), pages, strict=True))
        for slide in ElementTree.fromstring(box.read("ppt/presentation.xml")).iter(f"{_SLIDES}sldId"):
            path = named[slide.get(_RELATION_ID, "")]
            notes = [one for one in _targets(box, path).values() if one.startswith("ppt/notesSlides/")]
            said = "\n\n".join(_spoken(ElementTree.fromstring(box.read(one))) for one in notes)
            yield texts[path], said and f"Notes: {said}"


def _targets(box: ZipFile, part: str) -> dict[str, str]:
    """Return the parts that a part names, by relation."""
    place = PurePosixPath(part)
    try:
        relations = ElementTree.fromstring(box.read(f"{place.parent}/_rels/{place.name}.rels"))
    except KeyError:
        return {}
    within = [one for one in relations.iter(_RELATIONS) if one.get("TargetMode") != "External"]
    return {one.get("Id", ""): _resolved(place.parent, one.get("Target", "")) for one in within}


def _resolved(folder: PurePosixPath, target: str) -> str:
    if target.startswith("/"):
        return target[1:]
    parts = list(folder.parts)
    for part in target.split("/"):
        parts = parts[:-1] if part == ".." else [*parts, part]
    return "/".join(parts)


def _spoken(notes: ElementTree.Element) -> str:
    """Return the text of the notes' body, without the slide's number and date beside it."""
    for shape in notes.iter(f"{_SLIDES}sp"):
        place = next(shape.iter(f"{_SLIDES}ph"), None)
        if place is not None and place.get("type") == "body":
            paragraphs = (
                "".join(run.text or "" for run in one.iter(f"{_DRAWING}t")) for one in shape.iter(f"{_DRAWING}p")
            )
            return "\n\n".join(paragraph.strip() for paragraph in paragraphs if paragraph.strip())
    return ""


def _attributes(properties: Any) -> dict[str, Attribute]:
    authors = [" ".join(name.split()) for name in properties.authors or () if name.strip()]
    found = {
        "author": authors[0] if len(authors) == 1 else authors,
        "created": properties.created_at,
        "modified": properties.modified_at,
    }
    return {name: value for name, value in found.items() if value}
