"""Git repositories as sources: made by git itself, read from disk and over its own HTTP server."""

import base64
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from retrieval.errors import Unreachable, Unreadable
from retrieval.index.index import Index
from retrieval.ingest.sources.git import GitSource
from retrieval.ingest.sources.source import LeftOut
from retrieval.records.sync import SourceReport, SourceSpec
from tests.support.git_server import commit, git, serving_git
from tests.support.plans import plan_for, silent

LOOPBACK = ("127.0.0.0/8",)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repositories" / "docs"
    commit(folder, readme="# Read me\n\nStart here.", guide="# Guide\n\nOne step.")
    return folder


def spec(place: str | Path, **fields: object) -> SourceSpec:
    return SourceSpec("docs", "git", (str(place),), **fields)  # type: ignore[arg-type]


@asynccontextmanager
async def opened(place: str | Path, data: Path, **fields: object) -> AsyncIterator[GitSource]:
    async with aclosing(GitSource(spec(place, **fields), data=data, max_bytes=10_000)) as source:
        yield source


async def test_a_branch_of_a_repository_on_disk_is_read_as_committed(repository: Path, data: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    (repository / "guide.md").write_text("not committed")
    async with opened(repository, data) as source:
        found = await source.list()
        files = [await source.read(candidate) for candidate in found.candidates]
    assert [(file.source, file.data) for file in files] == [
        ("docs/guide.md", b"# Guide\n\nOne step."),
        ("docs/readme.md", b"# Read me\n\nStart here."),
    ]
    assert files[0].described == {"commit": head}
    assert files[0].modified_s == 1767323045.0
    assert [candidate.key for candidate in found.candidates] == ["git:docs!/guide.md", "git:docs!/readme.md"]


async def test_paths_branches_and_exclusions_are_kept(repository: Path, data: Path) -> None:
    git(repository, "checkout", "-q", "-b", "next")
    for folder in ("api", "api/old", "api/.github"):
        (repository / folder).mkdir()
        (repository / folder / "a.md").write_text(f"# {folder}")
    commit(repository)
    async with opened(repository, data, branch="next", paths=("api",), exclude=("old",)) as source:
        found = await source.list()
    assert [candidate.source for candidate in found.candidates] == ["docs/api/a.md"]
    assert found.skipped == {"excluded": 1, "hidden or generated": 1}


async def test_what_is_no_file_of_the_repository_is_named(repository: Path, data: Path) -> None:
    (repository / "link.md").symlink_to("guide.md")
    (repository / "film.mp4").write_bytes(b"film")
    (repository / "data.json").write_text('{"a": 1}')
    commit(repository, lfs="version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", long="x" * 20_000)
    inner = repository.parent / "inner"
    commit(inner, a="# A")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "vendor")
    commit(repository)
    async with opened(repository, data) as source:
        found = await source.list()
        by_name = {candidate.path.name: candidate for candidate in found.candidates}
        assert found.skipped == {
            "hidden or generated": 1, "symbolic link": 1, "submodule": 1, "unsupported type .mp4": 1
        }  # fmt: skip
        with pytest.raises(Unreadable, match="Git LFS pointer"):
            await source.read(by_name["lfs.md"])
        with pytest.raises(Unreadable, match="too large: 20,000 bytes"):
            await source.read(by_name["long.md"])
        with pytest.raises(LeftOut, match="JSON without text"):
            await source.read(by_name["data.json"])


@pytest.mark.parametrize("branch", ["", "main", "v1"])
async def test_a_repository_by_url_is_fetched_and_fetched_again(repository: Path, data: Path, branch: str) -> None:
    git(repository, "tag", "-m", "One", "v1")
    with serving_git(repository.parent) as (url, _):
        for text in ("# Guide\n\nOne step.", "# Guide\n\nTwo steps."):
            head = commit(repository, guide=text)
            git(repository, "tag", "-f", "-m", "Two", "v1")
            async with opened(f"{url}/docs", data, branch=branch, networks=LOOPBACK) as source:
                found = await source.list()
                file = await source.read(found.candidates[0])
            assert file.data == text.encode()
            assert file.described == {"commit": head, "url": f"{url}/docs"}


async def test_credentials_are_sent_and_needed(repository: Path, data: Path) -> None:
    header = "Basic " + base64.b64encode(b"git:token").decode()
    with serving_git(repository.parent, header) as (url, _):
        async with opened(f"{url}/docs", data, networks=LOOPBACK, credentials=("git", "token")) as source:
            assert len((await source.list()).candidates) == 2
        async with opened(f"{url}/docs", data, networks=LOOPBACK) as source:
            with pytest.raises(Unreachable) as refused:
                await source.list()
    assert "token" not in str(refused.value)


async def test_a_private_address_is_not_called_unless_allowed(repository: Path, data: Path) -> None:
    with serving_git(repository.parent) as (url, asked):
        async with opened(f"{url}/docs", data) as source:
            with pytest.raises(Unreachable, match=r"127\.0\.0\.1 is not a public address \(to allow: `networks`"):
                await source.list()
    assert asked == []


@pytest.mark.parametrize(
    ("place", "fields", "reason"),
    [
        ("", {"branch": "nxt"}, "no branch 'nxt'"),
        ("nothing", {}, "there is no Git repository"),
        ("http://127.0.0.1:9/docs", {"networks": LOOPBACK}, "cannot be fetched"),
    ],
)
async def test_what_cannot_be_reached_is_said(
    repository: Path, data: Path, place: str, fields: dict[str, object], reason: str
) -> None:
    where = place if place.startswith("http") else str(repository / place)
    async with opened(where, data, **fields) as source:
        with pytest.raises(Unreachable, match=reason):
            await source.list()


async def synced(index: Index, place: Path) -> SourceReport:
    return await index.writing.sync("docs", spec(place), silent)


async def test_a_sync_follows_commits_and_reads_no_blob_twice(repository: Path, data: Path) -> None:
    index = await Index.open(plan_for(data), serving=False)
    try:
        assert len((await synced(index, repository)).added) == 2
        commit(repository, guide="# Guide\n\nTwo steps.", new="# New\n\nThree.")
        (repository / "readme.md").rename(repository / "start.md")
        commit(repository)
        report = await synced(index, repository)
        assert (report.added, report.changed, report.moved) == (
            ["docs/new.md"], ["docs/guide.md"], [("docs/readme.md", "docs/start.md")]
        )  # fmt: skip
        (row, *_) = await index.library.documents("docs", after="", limit=9, groups=None)
        assert "commit" in row.attributes
        # Were a blob read again, this would fail.
        blob = git(repository, "rev-parse", "HEAD:new.md")
        (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
        again = await synced(index, repository)
        assert (again.unchanged, again.failures) == (3, ())
        reports = await index.writing.remove_undeclared("docs", [])
        assert len(reports[0].removed) == 3
    finally:
        await index.close()


async def test_a_sidecar_is_read_with_its_file(repository: Path, data: Path) -> None:
    (repository / "guide.md.meta.yaml").write_text("groups: [hr]\n", "utf-8")
    commit(repository)
    async with opened(repository, data, paths=("guide.md",)) as source:
        found = await source.list()
        [candidate] = found.candidates
        file = await source.read(candidate)
        assert file.sidecars == (b"groups: [hr]\n",)
        assert source.version(file) != candidate.mark.split()[0]
