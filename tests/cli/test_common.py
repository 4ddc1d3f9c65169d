"""What all commands share: how far long work is, where there is no terminal."""

import asyncio
import contextlib
import re

import pytest

from cli.common import ProgressLines


async def test_long_work_prints_a_line_a_while_until_it_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    told = ""

    async def until(line: str) -> None:
        nonlocal told
        async with asyncio.timeout(60):
            while line not in told:
                await asyncio.sleep(0.001)
                told += capsys.readouterr().err

    progress = ProgressLines("ingest docs", "documents", every_s=0.001)
    await until("ingest docs: started\n")
    progress(1, 2000, 0)
    await until("ingest docs: 1 of 2,000 documents, ")
    assert re.search(r"1 of 2,000 documents, [\d,]+ a minute, about \d+ min left", told)
    await until("ingest docs: 1 of 2,000 documents\n")  # nothing more was done since
    progress(2, 2000, 1234, "wiki/prices.csv")
    await until("ingest docs: 2 of 2,000 documents, 1,234 chunks; now wiki/prices.csv\n")
    progress(2000, 2000, 1234)
    capsys.readouterr()
    await asyncio.sleep(0.01)
    assert capsys.readouterr() == ("", "")
    progress(1, 7, 0)  # a rebuild within it was done
    await until("ingest docs: 1 of 7 documents")
    progress.close()
    capsys.readouterr()
    await asyncio.sleep(0.01)
    assert capsys.readouterr() == ("", "")


async def test_lines_say_how_long_the_rest_takes() -> None:
    said: asyncio.Queue[str] = asyncio.Queue()
    with contextlib.closing(ProgressLines("sync docs", "documents", every_s=0.5, say=said.put_nowait)) as progress:
        progress(1, 100_001, 0)
        line = await said.get()
    told = re.fullmatch(r"sync docs: 1 of 100,001 documents, ([\d,]+) a minute, about ([\d.]+) h left", line)
    assert told is not None, line
    assert float(told[2]) * 60 * int(told[1].replace(",", "")) == pytest.approx(100_000, rel=0.1)


async def test_quick_work_prints_none(capsys: pytest.CaptureFixture[str]) -> None:
    progress = ProgressLines("ingest docs", "documents", every_s=3600.0)
    for done in range(3):
        progress(done, 2, done)
    await asyncio.sleep(0)
    assert capsys.readouterr() == ("", "")
