"""An uploaded archive or mail is one document: its members are its parts, cited by their names."""

import io
import zipfile
from collections.abc import AsyncIterator, Mapping
from email.message import EmailMessage
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.index.index import Index
from retrieval.ingest.containers import Packed
from retrieval.ingest.joined import join, parts_of
from retrieval.knowledge import SearchRequest
from retrieval.records.documents import Chunk, Document
from retrieval.records.jobs import DocumentInput, WriteResult
from retrieval.records.search import Turn
from tests.support.pdfs import lines, pdf
from tests.support.plans import plan_for


@pytest.fixture
async def index(data: Path) -> AsyncIterator[Index]:
    opened = await Index.open(plan_for(data), serving=False)
    await opened.writing.create_collection("docs", "en")
    yield opened
    await opened.close()


def packed(files: Mapping[str, str | bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return data.getvalue()


async def put(index: Index, source: str, content: bytes) -> WriteResult:
    (result,) = await index.writing.put("docs", [DocumentInput("it", source, content)])
    return result


async def found(index: Index, question: str) -> list[tuple[str, tuple[str, ...], str]]:
    hits = (await index.search.retrieve(SearchRequest([Turn("user", question)], ["docs"], k=20))).hits
    return [(hit.passage.cited, (hit.passage.title, *hit.passage.headings), hit.passage.text) for hit in hits]


async def test_an_archive_is_one_document_with_its_files_as_places(index: Index) -> None:
    pages = pdf(lines(50, 700, "The green valve opens at 3 bar."), lines(50, 700, "The blue valve opens at 7 bar."))
    files: dict[str, str | bytes] = {
        "notes/a.md": "# Pumps\n\n## Names\n\nThe red pump is called Boreas.",
        "valves.pdf": pages,
        "t.csv": "pump,oil\nred,SAE 40\n",
        "picture.gif": b"GIF89a",
        "old.docx": b"PK",
        "inner.zip": packed({"b.md": "The grey tank holds rain."}),
    }
    result = await put(index, "box.zip", packed(files))
    assert result.state == "created"
    assert result.reason.startswith("without old.docx: damaged, or not a .docx file")
    (cited, path, text) = (await found(index, "What is the red pump called?"))[0]
    assert (cited, path, text.splitlines()[-1]) == (
        "box.zip, notes/a.md",
        ("Box", "Pumps", "Names"),
        "The red pump is called Boreas.",
    )
    blue = [cited for cited, _, text in await found(index, "When does the blue valve open?") if "blue" in text]
    assert blue == ["box.zip, valves.pdf, page 1"]  # where the chunk begins
    assert "box.zip, inner.zip!/b.md" in [cited for cited, *_ in await found(index, "What holds the grey tank?")]
    assert (await index.library.document(result.id, None)).info.title == "Box"
    assert (await put(index, "box.zip", packed(files))).state == "unchanged"


async def test_a_mail_is_one_document_with_its_attachments(index: Index) -> None:
    mail = EmailMessage()
    mail["Subject"], mail["From"] = "Trip to Ulm", "Ada <ada@example.com>"
    mail.set_content("The hotel is called Post.")
    mail.add_attachment("# Tickets\n\nSeat 12, car 7.", subtype="markdown", filename="tickets.md")
    result = await put(index, "trip.eml", mail.as_bytes())
    assert (result.state, result.reason) == ("created", "")
    rows = await found(index, "Which seat?")
    assert ("trip.eml, tickets.md", ("Trip to Ulm", "Tickets"), "# Tickets\n\nSeat 12, car 7.") in rows
    assert {title for _, (title, *_), _ in rows} == {"Trip to Ulm"}
    assert (await index.library.document(result.id, None)).info.attributes["author"] == "Ada <ada@example.com>"


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"a.gif": b"GIF89a"}, "holds no file that can be read"),
        ({"old.docx": b"PK"}, "old.docx: damaged, or not a .docx file"),
        ({"a.md": "A.", "b.md": "---\ngroups: [hr]\n---\nB."}, "its files name different groups of readers"),
    ],
)
async def test_an_archive_that_cannot_be_one_document_is_refused(
    index: Index, files: Mapping[str, str | bytes], reason: str
) -> None:
    result = await put(index, "box.zip", packed(files))
    assert (result.state, result.reason[: len(reason)]) == ("failed", reason)


@given(st.dictionaries(st.sampled_from(["a.md", "b/c.md", "d.md", "e.md"]), st.text("ab \n", min_size=1), min_size=1))
def test_chunks_are_spans_of_the_joined_text(texts: dict[str, str]) -> None:
    """Whatever the members hold, and wherever their chunks lie."""

    def split(document: Document) -> list[Chunk]:
        text = document.text
        spans = [(at, at + 3) for at in range(0, len(text), 3)]
        return [Chunk(n, *span, text[slice(*span)], (), place=document.places[0][1]) for n, span in enumerate(spans)]

    packed_files = Packed("box.zip", packed(texts), 0, 2**20, 2**20)
    parts, _ = parts_of(packed_files, lambda member: Document("", "T", member.data.decode(), "markdown", 0))
    document, chunks = join("box.zip", "", parts, split)
    assert "".join(texts.values()) == "".join(chunk.text for chunk in chunks)
    assert [chunk.ordinal for chunk in chunks] == list(range(len(chunks)))
    for chunk in chunks:
        assert document.text[chunk.start : chunk.start + len(chunk.text)] == chunk.text
        assert chunk.place == [place for offset, place in document.places if offset <= chunk.start][-1]
