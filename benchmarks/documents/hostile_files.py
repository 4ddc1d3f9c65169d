"""Hostile files over all formats: bombs, entities, links, members that climb, deep nesting, huge dimensions, noise."""

import io
import random
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from retrieval.ingest.chunking.definitions import GRAMMARS
from retrieval.ingest.formats.registry import FORMATS

SAMPLES = Path(__file__).resolve().parents[2] / "tests" / "retrieval" / "ingest" / "formats" / "office"
# File -> the member with its text, and a word there.
_BOXES = {
    "handbook.docx": ("word/document.xml", b"Zephyr"),
    "handbook.odt": ("content.xml", b"Zephyr"),
    "handbook.epub": ("EPUB/text/ch001.xhtml", b"Zephyr"),
    "talk.pptx": ("ppt/slides/slide3.xml", b"weekly"),
    "talk.odp": ("content.xml", b"weekly"),
    "prices.xlsx": ("xl/sharedStrings.xml", b"blue"),
    "prices.ods": ("content.xml", b"blue"),
}
_SEED = 40


def hostile_files(secret: Path, address: str, *, megabytes: int = 300) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents. secret, address: a file and a server that entities and links name.

    megabytes: of each bomb, unpacked.
    """
    file, blanks = secret.as_uri().encode(), b" " * (megabytes * 2**20)
    url = f"http://{address}/x".encode()
    changes: dict[str, Callable[..., bytes]] = {  # a member's text and a word there -> hostile text
        "entity-file": lambda text, word: _declared(b'<!ENTITY x SYSTEM "%s">' % file, text, word),
        "entity-net": lambda text, word: _declared(b'<!ENTITY x SYSTEM "%s">' % url, text, word),
        "entity-outside": lambda text, word: _declared(b'<!ENTITY %% p SYSTEM "%s"> %%p;' % url, text, word),
        "laughs": lambda text, word: _declared(_laughs(), text, word),
        "bomb": lambda text, word: text.replace(word, word + blanks, 1),
        "deep": lambda text, word: _at_end(text, b"<text:span>" * 100_000 + b"</text:span>" * 100_000),
        "links": lambda text, word: _at_end(text, b'<a href="%s"><img src="%s"/></a>' % (url, file)),
    }
    for name, (member, word) in _BOXES.items():
        base, ending = (SAMPLES / name).read_bytes(), Path(name).suffix
        for kind, change in changes.items():
            yield kind + ending, _boxed(base, {member: partial(change, word=word)})
        target = f"../../../../../..{secret.with_name('escaped')}"
        yield "climbs" + ending, _boxed(base, {}, {target: b"x", str(secret.with_name("absolute")): b"x"})
        yield (
            "macro" + ending,
            _boxed(base, {}, {"word/vbaProject.bin": b"\xd0\xcf\x11\xe0" * 99, "Basic/a.xml": b"<x/>"}),
        )
        yield "symlink" + ending, _linked(base, member, secret)
        yield "padded" + ending, _boxed(base, {}, {"media/image1.png": blanks})
        yield "crowd" + ending, _boxed(base, {}, {f"media/{number}.xml": b"" for number in range(20_000)})
        yield "cut" + ending, base[: len(base) // 2]
    relation = (
        b'<Relationship Id="rId99" Type="http://x/attachedTemplate" TargetMode="External" Target="%s"/></Rel' % url
    )
    rels = {"word/_rels/document.xml.rels": lambda text: text.replace(b"</Rel", relation)}
    yield "template.docx", _boxed((SAMPLES / "handbook.docx").read_bytes(), rels)
    yield from _huge()
    yield from _texts(file, url, secret)
    yield from _pdf(blanks, url)
    chance = random.Random(_SEED)
    for ending in [*sorted(FORMATS.keys() - GRAMMARS.keys()), ".py"]:
        yield "noise" + ending, chance.randbytes(5_000)


def _boxed(base: bytes, changes: dict[str, Callable[[bytes], bytes]], more: dict[str, bytes] | None = None) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(base)) as box, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as other:
        for member in box.infolist():
            data = box.read(member)
            other.writestr(member, changes.get(member.filename, bytes)(data), member.compress_type)
        for name, data in (more or {}).items():
            other.writestr(name, data)
    return made.getvalue()


def _linked(base: bytes, member: str, secret: Path) -> bytes:
    """The member becomes a symbolic link to the secret."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(base)) as box, zipfile.ZipFile(made, "w") as other:
        for name in box.namelist():
            entry = zipfile.ZipInfo(name)
            if name == member:
                entry.create_system, entry.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
            other.writestr(entry, str(secret).encode() if name == member else box.read(name))
    return made.getvalue()


def _declared(entities: bytes, text: bytes, word: bytes) -> bytes:
    """XML with a document type that declares the entity x, which takes the word's place."""
    text = re.sub(rb"<!DOCTYPE[^>]*>", b"", text)
    head = re.match(rb"\s*<\?xml[^>]*\?>", text)
    at = head.end() if head else 0
    return text[:at] + b"<!DOCTYPE x [" + entities + b"]>" + text[at:].replace(word, b"&x;", 1)


def _laughs() -> bytes:
    lines = [b'<!ENTITY a0 "ha">']
    lines += [b'<!ENTITY a%d "%s">' % (n, b"&a%d;" % (n - 1) * 10) for n in range(1, 11)]
    return b"".join([*lines, b'<!ENTITY x "&a10;">'])


def _at_end(text: bytes, more: bytes) -> bytes:
    """Put more before the last end tag."""
    before, end, after = text.rpartition(b"</")
    return before + more + end + after


def _huge() -> Iterator[tuple[str, bytes]]:
    """Yield tables that are huge by what they say of themselves."""
    sheet = "xl/worksheets/sheet1.xml"

    def far(text: bytes) -> bytes:
        cell = b'<row r="1048576"><c r="XFD1048576" t="inlineStr"><is><t>far</t></is></c></row></sheetData>'
        return text.replace(b"</sheetData>", cell)

    yield "far.xlsx", _boxed((SAMPLES / "prices.xlsx").read_bytes(), {sheet: far})

    def repeated(text: bytes) -> bytes:
        cell = b'<table:table-cell table:number-columns-repeated="16384" office:value-type="float" office:value="1"/>'
        row = b'<table:table-row table:number-rows-repeated="1048576">' + cell + b"</table:table-row></table:table>"
        return text.replace(b"</table:table>", row, 1)

    yield "repeated.ods", _boxed((SAMPLES / "prices.ods").read_bytes(), {"content.xml": repeated})
    wide = {"word/document.xml": lambda text: text.replace(b"<w:tcPr", b'<w:tcPr><w:gridSpan w:val="2147483647"/', 1)}
    yield "wide.docx", _boxed((SAMPLES / "handbook.docx").read_bytes(), wide)


def _texts(file: bytes, url: bytes, secret: Path) -> Iterator[tuple[str, bytes]]:
    """Yield formats that are one text."""
    path = str(secret).encode()
    yield "braces.rtf", b"{\\rtf1 " + b"{" * 500_000 + b"a" + b"}" * 500_000 + b"}"
    yield "binary.rtf", b"{\\rtf1 {\\*\\bin2147483647 x} text}"
    yield "field.rtf", b'{\\rtf1 {\\field{\\*\\fldinst INCLUDETEXT "' + path + b'"}{\\fldrslt text}}}'
    yield "object.rtf", b"{\\rtf1 {\\object\\objautlink\\objupdate{\\*\\objdata 0105000002000000}} text}"
    for ending in (".doc", ".xls", ".ppt", ".msg"):
        yield "header" + ending, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\xff" * 20_000
    yield "cut.doc", (SAMPLES / "handbook.doc").read_bytes()[:9_000]
    yield "cut.xls", (SAMPLES / "prices.xls").read_bytes()[:4_000]
    yield (
        "input.tex",
        b"\\documentclass{article}\\begin{document}\\input{" + path + b"}\\write18{id}Text.\\end{document}",
    )
    yield "loop.tex", b"\\def\\a{\\a\\a}\\begin{document}\\a Text.\\end{document}"
    yield "include.adoc", b"= Title\n\ninclude::" + path + b"[]\n\nimage::" + url + b"[]\n\nText.\n"
    yield "include.org", b'* Title\n#+INCLUDE: "' + path + b'"\n#+BEGIN_SRC sh :exports results\nid\n#+END_SRC\nText.\n'
    yield "deep.html", b"<div>" * 200_000 + b"text"
    yield "frames.html", b'<iframe src="%s"></iframe><link rel=import href="%s"><p>text</p>' % (file, url)
    yield "quotes.md", b">" * 100_000 + b" text"
    yield "lists.md", b"\n".join(b" " * depth + b"- a" for depth in range(2_000))
    yield "anchors.md", b"---\na: &a [x]\nb: *a\n<<: *a\n---\n\ntext\n"
    yield "pickle.md", b"---\na: !!python/object/apply:os.system [id]\n---\n\ntext\n"
    yield "wide.csv", b",".join([b"a"] * 300_000) + b"\n" + b",".join([b"b"] * 300_000)
    yield "deep.json", b'[{"question": "a", "answer": ' + b"[" * 200_000 + b"]" * 200_000 + b"}]"
    declared = {
        "entity-file.xml": b'<!ENTITY x SYSTEM "%s">' % file,
        "entity-net.dita": b'<!ENTITY x SYSTEM "%s">' % url,
        "entity-outside.xml": b'<!ENTITY %% p SYSTEM "%s"> %%p;' % url,
        "laughs.xml": _laughs(),
        "laughs.rss": _laughs(),
    }
    for name, entities in declared.items():
        yield name, _declared(entities, b'<?xml version="1.0"?><doc><p>text word</p></doc>', b"word")
    yield "deep.jsonl", b'{"text": "one two three four five", "a": ' + b"[" * 200_000
    yield "wide.json", b'[{"a": "one two three four five"}' + b', {"%d": "x"}' * 2_000 % (*range(2_000),) + b"]"
    yield "number.json", b'{"text": "one two three four five", "n": ' + b"9" * 100_000 + b"}"
    yield "deep.xml", b"<a>" * 200_000 + b"text" + b"</a>" * 200_000
    yield "include.xml", b'<doc xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="%s"/>text</doc>' % file
    yield "wide.xml", b"<doc>" + b"".join(b'<r a%d="some text"/>' % n for n in range(50_000)) + b"</doc>"
    yield "deep.yaml", b"[" * 500_000
    yield (
        "laughs.yaml",
        b"a0: &a0 [ha]\n"
        + b"".join(b"a%d: &a%d [%s]\n" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 12)),
    )
    yield "object.yaml", b"a: !!python/object/apply:os.system [id]\nb: text\n"
    yield "times.vtt", b"WEBVTT\n\n" + b"00:01.000 --> 00:02.000\n" * 100_000


def _pdf(blanks: bytes, url: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield PDF files without a table of objects, which readers rebuild."""
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 %s %s]/Contents 4 0 R>>"
    stream = zlib.compress(blanks)
    small = page % (b"600", b"800")
    catalog, pages = b"<</Type/Catalog/Pages 2 0 R/OpenAction 4 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>"
    parts = {
        "bomb.pdf": (
            small,
            b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(stream), stream),
        ),
        "page.pdf": (page % (b"99999999", b"99999999"), b"<</Length 0>>stream\n\nendstream"),
        "loop.pdf": (b"<</Type/Pages/Kids[2 0 R 3 0 R]/Count 99999999>>", b"<<>>"),
        "action.pdf": (small, b"<</S/Launch/F(/bin/sh)/Next<</S/URI/URI(%s)>>>>" % url),
    }
    for name, (third, fourth) in parts.items():
        objects = (catalog, pages, third, fourth)
        body = b"".join(b"%d 0 obj%s\nendobj\n" % (number, one) for number, one in enumerate(objects, 1))
        yield name, b"%PDF-1.7\n" + body + b"trailer<</Root 1 0 R/Size 5>>\n%%EOF"
