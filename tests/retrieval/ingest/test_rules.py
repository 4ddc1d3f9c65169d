"""Rules by path, in a folder: records that are documents, and attributes."""

import dataclasses
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from config.sections import IngestRule, RecordFields
from retrieval.index.index import Index
from retrieval.records.ingest import IngestReport
from tests.support.plans import plan_for, silent

FIELDS = RecordFields(("body",), "subject", "key")


@asynccontextmanager
async def opened(data: Path, *rules: IngestRule) -> AsyncIterator[Index]:
    plan = plan_for(data)
    index = await Index.open(
        dataclasses.replace(plan, ingest=dataclasses.replace(plan.ingest, rules=rules)), serving=False
    )
    try:
        yield index
    finally:
        await index.close()


async def documents(index: Index) -> dict[str, dict[str, object]]:
    """source -> attributes."""
    found = await index.library.documents("docs", after="", limit=1000, groups=None)
    return {one.source: dict(one.attributes) for one in found}


def counts(report: IngestReport) -> tuple[int, int, int, int]:
    return report.added, report.changed, report.unchanged, report.removed


async def test_records_come_change_and_go_with_their_file_and_rule(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    rows = [{"key": f"P-{n}", "subject": f"Crane {n}", "body": f"Crane {n} is broken since May."} for n in range(3)]
    (folder / "tickets.json").write_text(json.dumps(rows), "utf-8")
    (folder / "a.md").write_text("---\nteam: mine\n---\n\nThe ape.", "utf-8")
    rules = IngestRule("tickets.json", {}, FIELDS), IngestRule("docs/*", {"team": "pier", "year": 2026})
    async with opened(data, *rules) as index:
        assert counts(await index.writing.ingest([folder], "docs", silent)) == (4, 0, 0, 0)
        found = await documents(index)
        assert set(found) == {"docs/a.md", *(f"docs/tickets.json/P-{n}.md" for n in range(3))}
        assert found["docs/a.md"] == {"team": "mine", "year": 2026}
        rows[1]["body"] = "It works again, says the company."
        (folder / "tickets.json").write_text(json.dumps(rows[:2]), "utf-8")
        assert counts(await index.writing.ingest([folder], "docs", silent)) == (0, 1, 2, 1)
    async with opened(data) as index:  # without rules, the file is one document
        assert counts(await index.writing.ingest([folder], "docs", silent)) == (1, 1, 0, 2)
        assert await documents(index) == {"docs/a.md": {"team": "mine"}, "docs/tickets.json": {}}
        assert counts(await index.writing.ingest([folder], "docs", silent)) == (0, 0, 2, 0)
    async with opened(data, *rules) as index:
        assert counts(await index.writing.ingest([folder], "docs", silent)) == (2, 1, 0, 1)
