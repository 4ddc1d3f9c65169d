"""Buckets as sources: an S3 server over loopback, and what else `fsspec` opens."""

import io
import multiprocessing
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from retrieval.errors import Unreachable
from retrieval.index.index import Index
from retrieval.ingest.sources.bucket import BucketSource
from retrieval.records.sync import SourceReport, SourceSpec
from runtime import sandbox
from tests.support.plans import plan_for, silent
from tests.support.s3_server import serving_s3

SECRET = "the-secret-key"


@pytest.fixture
def buckets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the bucket `handbook`, and credentials where S3's own programs look for them."""
    write(
        tmp_path / "s3" / "handbook", {"docs/travel.md": "# Travel\n\nTake the train.", "docs/a b/ü.md": "# Ü\n\nText."}
    )
    write(tmp_path / "s3" / "handbook", {"docs/film.mp4": "film", "docs/old/x.md": "# X", "other.md": "# Other"})
    for name, value in {
        "AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "eu-central-1",
        "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sandbox, "CONTEXT", multiprocessing.get_context("spawn"))  # with this environment
    return tmp_path / "s3"


@pytest.fixture
def s3(buckets: Path) -> Iterator[tuple[str, list[str]]]:
    with serving_s3(buckets) as server:
        yield server


def write(folder: Path, texts: dict[str, str | bytes]) -> None:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())


def spec(place: str, url: str = "", **fields: object) -> SourceSpec:
    options = {"endpoint_url": url} if url else {}
    return SourceSpec(place, "bucket", (place,), options=options, **fields)  # type: ignore[arg-type]


@asynccontextmanager
async def opened(one: SourceSpec, *, max_bytes: int = 10_000) -> AsyncIterator[BucketSource]:
    async with aclosing(BucketSource(one, max_bytes=max_bytes)) as source:
        yield source


async def test_objects_below_a_place_are_listed_and_read(s3: tuple[str, list[str]]) -> None:
    async with opened(spec("s3://handbook/docs", s3[0], exclude=("old",))) as source:
        found = await source.list()
        files = [await source.read(candidate) for candidate in found.candidates]
    assert [(file.source, file.data.decode(), file.described) for file in files] == [
        ("docs/a b/ü.md", "# Ü\n\nText.", {"url": "s3://handbook/docs/a b/ü.md"}),
        ("docs/travel.md", "# Travel\n\nTake the train.", {"url": "s3://handbook/docs/travel.md"}),
    ]
    assert files[0].modified_s == 1767323045.0
    assert found.skipped == {"excluded": 1, "unsupported type .mp4": 1}


async def test_one_object_is_a_place_too(s3: tuple[str, list[str]]) -> None:
    async with opened(spec("s3://handbook/docs/travel.md", s3[0])) as source:
        (candidate,) = (await source.list()).candidates
        file = await source.read(candidate)
    assert (file.source, file.described) == ("travel.md", {"url": "s3://handbook/docs/travel.md"})


async def test_an_object_over_the_limit_is_named_and_not_read(buckets: Path, s3: tuple[str, list[str]]) -> None:
    write(buckets / "handbook", {"docs/long.md": "x" * 20_000})
    async with opened(spec("s3://handbook/docs", s3[0])) as source:
        (failure,) = (await source.list()).failures
    assert failure.path.endswith("/long.md")
    assert failure.reason.startswith("too large: 20,000 bytes, the limit is 10,000")
    assert "GET docs/long.md" not in s3[1]


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("s3://nothing/docs", "there is nothing at s3://nothing/docs"),
        ("nosuch://handbook", "Protocol not known: nosuch"),
        ("gs://handbook", "gcsfs"),
    ],
)
async def test_what_cannot_be_reached_is_said(s3: tuple[str, list[str]], place: str, reason: str) -> None:
    async with opened(spec(place, s3[0] if place.startswith("s3") else "")) as source:
        with pytest.raises(Unreachable, match=reason):
            await source.list()


async def test_without_credentials_nothing_is_reached_and_none_are_told(
    s3: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    async with opened(spec("s3://handbook/docs", s3[0])) as source:
        with pytest.raises(Unreachable) as refused:
            await source.list()
    assert SECRET not in str(refused.value)


async def test_a_folder_that_cannot_be_listed_ends_the_listing(tmp_path: Path) -> None:
    write(tmp_path / "files", {"a.md": "# A", "inner/b.md": "# B"})
    async with opened(spec(f"file://{tmp_path}/files")) as source:
        assert [one.source for one in (await source.list()).candidates] == ["files/a.md", "files/inner/b.md"]
        (tmp_path / "files").rename(tmp_path / "gone")
        with pytest.raises(Unreachable, match="there is nothing at file://"):
            await source.list()


async def synced(index: Index, one: SourceSpec) -> SourceReport:
    return await index.writing.sync("docs", one, silent)


async def test_a_sync_opens_no_object_twice_and_removes_nothing_unreached(
    buckets: Path, s3: tuple[str, list[str]], data: Path
) -> None:
    url, asked = s3
    box = io.BytesIO()
    with zipfile.ZipFile(box, "w") as archive:
        archive.writestr("in/one.md", "# One\n\nText.")
        archive.writestr("in/two.md", "# Two\n\nText.")
    write(buckets / "handbook", {"docs/box.zip": box.getvalue()})
    index = await Index.open(plan_for(data), serving=False)
    try:
        place = spec("s3://handbook/docs", url)
        assert len((await synced(index, place)).added) == 5
        write(buckets / "handbook", {"docs/travel.md": "# Travel\n\nTake the bus."})
        (buckets / "handbook" / "docs" / "old" / "x.md").unlink()
        asked.clear()
        report = await synced(index, place)
        assert (report.changed, report.removed, report.unchanged) == (["docs/travel.md"], ["docs/old/x.md"], 3)
        assert [one for one in asked if one.startswith("GET docs")] == ["GET docs/travel.md"]
        (buckets / "handbook").rename(buckets / "gone")
        assert (await synced(index, place)).outcome == "unreachable"
        rows = await index.library.documents("docs", after="", limit=9, groups=None)
        assert {row.source for row in rows} == {
            "docs/a b/ü.md", "docs/travel.md", "docs/box.zip/in/one.md", "docs/box.zip/in/two.md"
        }  # fmt: skip
    finally:
        await index.close()


async def test_a_sidecar_is_read_with_its_object(tmp_path: Path) -> None:
    write(tmp_path / "store", {"a.md": "The ape.", "a.md.meta.yaml": "groups: [hr]\n"})
    async with opened(spec(f"file://{tmp_path / 'store'}")) as source:
        [candidate] = (await source.list()).candidates
        file = await source.read(candidate)
    assert (file.data, file.sidecars) == (b"The ape.", (b"groups: [hr]\n",))
