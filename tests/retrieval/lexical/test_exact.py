"""End to end, with the default embedder: what is searched for literally comes before what is merely like it."""

from pathlib import Path

import pytest

from retrieval.index.index import Index
from retrieval.knowledge import SearchRequest
from retrieval.records.search import Turn
from tests.support.plans import plan_for, silent

pytestmark = pytest.mark.models

# What is asked -> the page that holds it, and pages made of nearly the same words.
PAGES = {
    "printer-a300.md": "# Paper\n\nThe fancy-printer-A300 takes paper of 80 grams. Open the tray below.",
    "printer-a200.md": "# Paper\n\nThe fancy-printer-A200 takes paper of 90 grams. Open the tray behind it.",
    "printer-b300.md": "# Paper\n\nThe fancy-printer-B300 takes paper of 100 grams. Open the tray above.",
    "local-port.md": "# Errors\n\nEADDRNOTAVAIL (99): the client has no free local port left.",
    "in-use.md": "# Errors\n\nEADDRINUSE (98): the client found the local port taken by another.",
    "refused.md": "# Errors\n\nECONNREFUSED (111): nobody listens at the other port, 99 times of 100.",
    "reset.md": "# Browser\n\nERR_CONNECTION_RESET says that the other side broke the line off.",
    "closed.md": "# Browser\n\nERR_CONNECTION_CLOSED says that the other side hung up. Reset it and err no more.",
    "old-space.md": "# Memory\n\nStart it with --max-old-space-size and a number of megabytes.",
    "semi-space.md": "# Memory\n\n--max-semi-space-size is for the young generation.",
    "fixed-123.md": "# Releases\n\nVersion 1.2.3 fixes a leak in the reader.",
    "fixed-132.md": "# Releases\n\nVersion 1.3.2 fixes a leak in the writer.",
    "fixed-321.md": "# Releases\n\nVersion 3.2.1 fixes a leak in the cache.",
    "foo-bar.md": "# Interface\n\nfoo.bar() opens the door and returns a key.",
    "bar-foo.md": "# Interface\n\nbar.foo() shuts the door and takes a key.",
    "cve-1234.md": "# Security\n\nCVE-2026-1234 lets a reader see the pages of others.",
    "cve-1243.md": "# Security\n\nCVE-2026-1243 lets a writer see the pages of others.",
    "ann.md": "# People\n\nWrite to ann.lee@example.com about invoices.",
    "lee.md": "# People\n\nWrite to lee.ann@example.com about orders.",
    "food.md": "# Canteen\n\nOn Fridays there is a hot dog with mustard for everybody.",
    "weather.md": "# Canteen\n\nOn hot days the terrace is open, and a dog may come along.",
    "pets.md": "# Office\n\nA dog in the office needs a bowl of fresh water at noon when it is hot.",
}


QUESTIONS = {
    "What paper does the fancy-printer-A300 take?": "printer-a300.md",
    "fancy-printer-A200": "printer-a200.md",
    "What is EADDRNOTAVAIL (99)?": "local-port.md",
    "EADDRNOTAVAIL": "local-port.md",
    "My browser says ERR_CONNECTION_RESET": "reset.md",
    "ERR_CONNECTION_CLOSED": "closed.md",
    "How do I use --max-old-space-size?": "old-space.md",
    "What was fixed in version 1.2.3?": "fixed-123.md",
    "What was fixed in version 1.3.2?": "fixed-132.md",
    "3.2.1": "fixed-321.md",
    "What does foo.bar() do?": "foo-bar.md",
    "What does bar.foo() do?": "bar-foo.md",
    "Am I affected by CVE-2026-1234?": "cve-1234.md",
    "CVE-2026-1243": "cve-1243.md",
    "Who answers ann.lee@example.com?": "ann.md",
    "lee.ann@example.com": "lee.md",
    'Where do I get a "hot dog"?': "food.md",
    "hot dog": "food.md",
}


@pytest.mark.parametrize("lexical", ["bm25", "okapi"])
async def test_what_was_asked_for_literally_is_found_first(lexical: str, tmp_path: Path) -> None:
    folder, data = tmp_path / "pages", tmp_path / "data"
    folder.mkdir()
    data.mkdir()
    for name, text in PAGES.items():
        (folder / name).write_text(text, "utf-8")
    index = await Index.open(plan_for(data, {"retrieval.lexical": lexical}), serving=False)
    try:
        report = await index.writing.ingest([folder], "docs", silent)
        assert (report.added, report.failures) == (len(PAGES), ())
        first = {}
        for question in QUESTIONS:
            found = await index.search.retrieve(SearchRequest([Turn("user", question)], ["docs"], k=5))
            first[question] = found.hits[0].passage.source.rpartition("/")[2]
    finally:
        await index.close()
    assert first == QUESTIONS
