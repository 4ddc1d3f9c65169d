"""A newcomer's folder in one command: every file is read, or named with what to do."""

import json
import shutil
import zipfile
from email.message import EmailMessage
from pathlib import Path

from tests.support.gateway import ragway
from tests.support.pdfs import lines, pdf

OFFICE = Path(__file__).parents[1] / "retrieval" / "ingest" / "formats" / "office"


def make(folder: Path) -> None:
    folder.mkdir()
    for name in ("handbook.docx", "prices.xlsx", "talk.pptx"):
        shutil.copy(OFFICE / name, folder)
    (folder / "crane.pdf").write_bytes(pdf(lines(50, 700, "The crane lifts 8 t.")))
    notebook = {"cells": [{"cell_type": "markdown", "source": "# Tides\n\nThe tide is 3 m."}], "nbformat": 4}
    (folder / "tides.ipynb").write_text(json.dumps(notebook), "utf-8")
    mail = EmailMessage()
    mail["From"], mail["Subject"] = "ada@pier.example", "Dogs in the lounge"
    mail.set_content("Dogs are welcome.")
    mail.add_attachment(b"The rules of the lounge.", maintype="text", subtype="plain", filename="rules.txt")
    (folder / "dogs.eml").write_bytes(mail.as_bytes())
    (folder / "büro.txt").write_bytes("Die Büroräume schließen um fünf Uhr.".encode("latin-1"))
    (folder / "🎉 party.md").write_text("# Party\n\nThe party is on the quay.", "utf-8")
    with zipfile.ZipFile(folder / "box.zip", "w") as archive:
        archive.writestr("notes/a.md", "# Notes\n\nThe winch is green.")
        archive.writestr("notes/song.mp3", b"ID3")
    (folder / "broken.docx").write_bytes(b"no document")
    (folder / "film.mp4").write_bytes(b"film")


def test_every_file_of_a_newcomers_folder_is_answered_for(data: Path, tmp_path: Path) -> None:
    make(tmp_path / "inbox")
    args = ("--data", str(data), "--collection", "inbox", "--json")
    done = ragway("ingest", "inbox", *args, folder=tmp_path)
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert report["added"] == 10  # with the attachment, and the file in the archive
    assert [Path(failure["path"]).name for failure in report["failures"]] == ["broken.docx"]
    assert report["unread"] == ["inbox/film.mp4", "inbox/box.zip/notes/song.mp3"]
    assert [note["source"] for note in report["notes"]] == ["inbox/büro.txt"]
    again = json.loads(ragway("ingest", "inbox", *args, folder=tmp_path).stdout)
    assert (again["added"], again["changed"], again["unchanged"]) == (0, 0, 10)
    found = ragway("search", "How much does the crane lift?", *args, folder=tmp_path)
    passage = json.loads(found.stdout)["hits"][0]["passage"]
    assert (passage["source"], passage["place"]) == ("inbox/crane.pdf", "page 1")
