"""File formats: suffix -> parser, which turns a file's bytes into text.

Parsers run in the sandbox (`runtime.sandbox`). A new format is a row of `FORMATS`; its parser imports a large library
on first use.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePath, PurePosixPath

from config.sections import RecordFields
from retrieval.ingest.chunking import questions
from retrieval.ingest.chunking.definitions import GRAMMARS
from retrieval.ingest.formats import front_matter, office, openapi, pictures, records, xml_tree, yaml_tree
from retrieval.ingest.formats.decode import Decoded, decode
from retrieval.ingest.formats.markup import markdown, rst
from retrieval.records.documents import Attribute, Format, Places

# Unicode's line ends besides newline (UAX #14, class BK and NL): as pasted from the web, or as page ends.
_LINE_ENDS = re.compile("[\x0b\x0c\x85\u2028\u2029]")
PEEK_BYTES = 65_536  # of a file, to tell what it holds
_TITLE_WITHIN_CHARS = 20_000  # a heading further down is not the document's title


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """A file's text, and what the file says about it."""

    text: str
    title: str = ""
    front: front_matter.Front = field(default_factory=front_matter.Front)
    places: Places = ()
    note: str = ""  # what a person should know about how it was read
    format: Format | None = None  # if not that of its row
    properties: Mapping[str, Attribute] = field(default_factory=dict)  # attributes, below those of front matter


# Content, source, and whether the content may name readers. Raises Unreadable; UnreadableRights if it does not clearly
# state who may read the document.
Parser = Callable[[bytes, PurePosixPath, bool], ParsedFile]


def _decoded(data: bytes, rights: bool, *, html: bool = False, prose: bool = True) -> Decoded:
    """Return the text, in a format without front matter."""
    decoded = decode(data, html=html)
    text = _LINE_ENDS.sub("\n", decoded.text)
    if rights:
        front_matter.check_unread(text, prose=prose)
    return Decoded(text, decoded.note)


def _markdown(data: bytes, _source: PurePosixPath, rights: bool) -> ParsedFile:
    decoded = _decoded(data, rights=False)
    front, text = front_matter.read(decoded.text, rights=rights)
    title = front.title or markdown.first_heading(text[:_TITLE_WITHIN_CHARS])
    return ParsedFile(text, title, front, note=decoded.note)


def _rst(data: bytes, _source: PurePosixPath, rights: bool) -> ParsedFile:
    decoded = _decoded(data, rights)
    return ParsedFile(decoded.text, rst.first_heading(decoded.text[:_TITLE_WITHIN_CHARS]), note=decoded.note)


def _html(data: bytes, _source: PurePosixPath, rights: bool) -> ParsedFile:
    from retrieval.ingest.formats.webpage import to_markdown  # bs4 and markdownify: only for HTML

    decoded = _decoded(data, rights, html=True)
    title, text = to_markdown(decoded.text)
    return ParsedFile(text, title, note=decoded.note)


def _text(data: bytes, _source: PurePosixPath, rights: bool) -> ParsedFile:
    decoded = _decoded(data, rights)
    return ParsedFile(decoded.text, note=decoded.note)


def _csv(data: bytes, _source: PurePosixPath, rights: bool) -> ParsedFile:
    decoded = _decoded(data, rights, prose=False)
    return ParsedFile(decoded.text, note=decoded.note)


def _code(data: bytes, source: PurePosixPath, rights: bool) -> ParsedFile:
    """The title is "net/__init__.py": many files share a name."""
    decoded = _decoded(data, rights, prose=False)
    return ParsedFile(decoded.text, "/".join(source.parts[-2:]), note=decoded.note)


def _json(data: bytes, source: PurePosixPath, rights: bool) -> ParsedFile:
    """An OpenAPI document, questions and answers, or other records; a text in JSON may contain any line end."""
    if openapi.looks_like_openapi(data[:PEEK_BYTES]):
        return _openapi(data, source, rights)
    if not questions.looks_like_pairs(data[:PEEK_BYTES]):
        return read_records(data, None, rights)
    decoded = decode(data, html=False)
    if rights:
        front_matter.check_unread(decoded.text, prose=False)
    return ParsedFile(questions.pairs_from_json(decoded.text, rights=rights), note=decoded.note)


def read_records(data: bytes, fields: RecordFields | None, rights: bool) -> ParsedFile:
    """JSON whose records have these fields. Raises as a parser."""
    decoded = decode(data, html=False)
    text = records.to_markdown(decoded.text, fields, rights=rights)
    return _made(text, rights, note=decoded.note, prose=False)


def _made(
    text: str,
    rights: bool,
    title: str = "",
    properties: Mapping[str, Attribute] | None = None,
    *,
    places: Places = (),
    note: str = "",
    prose: bool = True,
) -> ParsedFile:
    """Return the Markdown that a reader made of a file; without a title, its first heading is the title.

    prose: lines in it may be front matter, as people write it.
    """
    text = _LINE_ENDS.sub("\n", text)
    if rights:
        front_matter.check_unread(text, prose=prose)
    title = title or markdown.first_heading(text[:_TITLE_WITHIN_CHARS])
    described = front_matter.valid_attributes(properties or {})
    return ParsedFile(text, title, places=places, note=note, format="markdown", properties=described)


def _openapi(data: bytes, _source: PurePosixPath, rights: bool) -> ParsedFile:
    decoded = decode(data, html=False)
    title, text = openapi.to_markdown(decoded.text)
    return _made(text, rights, title, note=decoded.note, prose=False)


def _yaml(data: bytes, source: PurePosixPath, rights: bool) -> ParsedFile:
    if openapi.looks_like_openapi(data[:PEEK_BYTES]):
        return _openapi(data, source, rights)
    decoded = decode(data, html=False)
    title, text = yaml_tree.to_markdown(_LINE_ENDS.sub("\n", decoded.text), rights=rights)
    return _made(text, rights, title, note=decoded.note, prose=False)


def _xml(data: bytes, _source: PurePosixPath, rights: bool) -> ParsedFile:
    title, text = xml_tree.to_markdown(data, rights=rights)
    return _made(text, rights, title, prose=False)


def _notebook(data: bytes, _source: PurePosixPath, rights: bool) -> ParsedFile:
    from retrieval.ingest.formats import notebook

    decoded = decode(data, html=False)
    return _made(notebook.to_markdown(decoded.text), rights, note=decoded.note)


def _mail(data: bytes, _source: PurePosixPath, rights: bool) -> ParsedFile:
    from retrieval.ingest.formats import mail

    read = mail.read(data)
    return _made(read.text, rights, read.subject, read.properties, prose=False)


def _outlook(data: bytes, source: PurePosixPath, rights: bool) -> ParsedFile:
    return _mail(data, source, rights)


def _pdf(data: bytes, source: PurePosixPath, rights: bool) -> ParsedFile:
    from retrieval.ingest.formats.pdf.document import read_pdf  # PDFium: only for PDF

    read = read_pdf(data, pictures.scanned_words if pictures.installed() else None)
    own = read.title if read.title.casefold() != source.stem.casefold() else ""  # many programs name it by the file
    return _made(read.text, rights, own, read.properties, places=read.places)


def _office(data: bytes, source: PurePosixPath, rights: bool) -> ParsedFile:
    title, text, properties = office.to_markdown(data, source.suffix.lower())
    return _made(text, rights, title, properties)


def _markup(data: bytes, source: PurePosixPath, rights: bool) -> ParsedFile:
    ending, decoded = source.suffix.lower(), _decoded(data, rights)
    text = office.subtitles(decoded.text) if ending == ".srt" else decoded.text
    return replace(_office(text.encode(), source, rights), note=decoded.note)


def _picture(data: bytes, _source: PurePosixPath, rights: bool) -> ParsedFile:
    from retrieval.ingest.formats.pdf.document import markdown_of

    pages = pictures.read_picture(data)
    text, places = markdown_of(pages)
    return _made(text, rights, places=places if len(pages) > 1 else ())


FORMATS: dict[str, tuple[Format, Parser]] = {
    **dict.fromkeys((".md", ".markdown", ".mdx"), ("markdown", _markdown)),
    ".rst": ("rst", _rst),
    ".pdf": ("markdown", _pdf),
    **(dict.fromkeys(pictures.ENDINGS, ("markdown", _picture)) if pictures.installed() else {}),
    **dict.fromkeys((".html", ".htm"), ("html", _html)),
    **dict.fromkeys((".txt", ".text"), ("text", _text)),
    **dict.fromkeys((".csv", ".tsv"), ("csv", _csv)),
    **dict.fromkeys((".json", ".jsonl"), ("text", _json)),
    **dict.fromkeys((".yaml", ".yml"), ("markdown", _yaml)),
    **dict.fromkeys((".xml", ".docbook", ".dbk", ".dita", ".rss", ".atom"), ("markdown", _xml)),
    ".eml": ("markdown", _mail),
    ".msg": ("markdown", _outlook),
    ".ipynb": ("markdown", _notebook),
    **dict.fromkeys(GRAMMARS, ("code", _code)),
    **dict.fromkeys(office.TYPES, ("markdown", _office)),
    **dict.fromkeys(office.MARKUP, ("markdown", _markup)),
}
_BINARY = frozenset({_office, _outlook, _pdf, _picture, _xml, _yaml})  # parsers of what no client can send as any text
_TO_MARKDOWN = _BINARY | {_markup, _mail, _notebook}
# Files with members, see `containers`; a mail is a document, too.
CONTAINERS = (".zip", ".tar", ".tgz", ".tbz2", ".txz", ".gz", ".bz2", ".xz", ".mbox", ".eml", ".msg")
READABLE = " ".join(dict.fromkeys((*FORMATS, *CONTAINERS)))  # all endings
_OF_FORMAT = {row[0]: row for row in reversed(FORMATS.values())}  # each format's first row


def why_unused(path: PurePath, beginning: Callable[[int], bytes]) -> str:
    """Return why a file is not of the kind that its name may also mean; "" if it is.

    beginning: returns at most as many of its first bytes.
    """
    ending, first = path.suffix.lower(), partial(beginning, PEEK_BYTES)
    if ending == ".msg":  # also texts of Tcl and ROS
        return "" if first().startswith(office.OLE) else "MSG that is not of Outlook"
    if ending == ".xml":
        return "" if xml_tree.looks_like_text(first()) else "XML without text"
    if ending in (".yaml", ".yml"):
        return "YAML of a package manager" if yaml_tree.is_lock_file(path.name) else ""
    if ending not in (".json", ".jsonl") or openapi.looks_like_openapi(first()) or records.looks_like_text(first()):
        return ""
    return "" if questions.looks_like_pairs(first()) else "JSON without text"


def is_container(path: PurePath) -> bool:
    return path.suffix.lower() in CONTAINERS


def format_of(source: PurePath, path: PurePath, given: Format | None) -> tuple[Format, Parser] | None:
    """Return a file's format and parser; None if its type is not supported.

    The source decides before the path: a link may have an extension although its target has none.
    given: the format of a text, if the caller knows it.
    """
    rows = [FORMATS.get(name.suffix.lower()) for name in (source, path)]
    of_suffix = [row for row in rows if row and (given is None or (given == row[0] and row[1] not in _TO_MARKDOWN))]
    return of_suffix[0] if of_suffix else _OF_FORMAT.get(given) if given else None


def holds_text(path: PurePath) -> bool:
    """Whether a file of this type is text in a format that is read."""
    row = FORMATS.get(path.suffix.lower())
    return row is not None and row[1] not in _BINARY
