"""ragway doctor: names what is wrong, repairs what can be, and then the search is right again."""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson
import pytest

from retrieval.catalog.builds import Builds
from retrieval.index.index import Index
from retrieval.knowledge import SearchRequest
from retrieval.records.documents import Passage
from retrieval.records.points import Point, Sparse
from retrieval.records.search import Turn
from tests.support.copies import copied
from tests.support.gateway import ragway, serving
from tests.support.plans import plan_for
from tests.wire.test_index_process import until

pytestmark = pytest.mark.models
ASKED = [Turn("user", "How do I use Zephyr from Kotlin?")]


@pytest.fixture(scope="module")
def kept(learned: Callable[[], Path]) -> Path:
    return learned()


@pytest.fixture
def data(kept: Path, tmp_path: Path) -> Path:
    """A data folder of the test's own that holds the corpus as `docs`."""
    return copied(kept, tmp_path / "data")


def doctor(data: Path, *more: str) -> "subprocess.CompletedProcess[str]":
    return ragway("doctor", "--data", str(data), *more, folder=data.parent)


def with_index(data: Path, work: Callable[[Index], Awaitable[object]]) -> None:
    async def opened() -> None:
        index = await Index.open(plan_for(data), serving=False)
        await work(index)
        await index.close()

    asyncio.run(opened())


async def _first(index: Index) -> tuple[str, str, Passage]:
    tenant = index._catalog.collection("docs").tenant
    ((id, passage), *_) = await index._spaces.configured.store.passages(tenant)
    return tenant, id, passage


async def lose(index: Index) -> None:
    tenant, id, _ = await _first(index)
    await index._spaces.configured.store.delete(tenant, [id])


async def _rewrite(index: Index, id: str, tenant: str, text: str) -> None:
    _, first, passage = await _first(index)
    vector = (await index._spaces.configured.store.vectors([first]))[first]
    changed = Passage(**{**{name: getattr(passage, name) for name in Passage.__dataclass_fields__}, "text": text})
    await index._spaces.configured.store.upsert(tenant, [Point(id, changed, {"dense": vector}, Sparse((7,), (1.0,)))])


async def falsify(index: Index) -> None:
    tenant, id, _ = await _first(index)
    await _rewrite(index, id, tenant, "Something else")


async def litter(index: Index) -> None:
    tenant, _, _ = await _first(index)
    await _rewrite(index, "00000000-0000-0000-0000-000000000007", tenant, "Nobody's")


async def leave_a_generation(index: Index) -> None:
    await _rewrite(index, "00000000-0000-0000-0000-000000000008", "docs@2", "Nobody's")


async def interrupt(index: Index) -> None:
    Builds(index._catalog).begin(index._catalog.collection("docs"), embedder="", made_with="other settings")


def test_a_healthy_folder_has_no_findings(data: Path) -> None:
    done = doctor(data)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "nothing is wrong\n")
    done = doctor(data, "--json")
    assert (done.returncode, orjson.loads(done.stdout)) == (0, [])


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lose, "1 of its points are missing"),
        (falsify, "1 of its points are damaged"),
        (litter, "1 points and 0 generations"),
        (leave_a_generation, "0 points and 1 generations"),
        (interrupt, "a rebuild or reindex was interrupted"),
    ],
)
def test_what_is_wrong_with_a_collection_is_named_and_repaired(
    data: Path, harm: Callable[[Index], Awaitable[None]], says: str
) -> None:
    with_index(data, harm)
    done = doctor(data)
    assert done.returncode == 1
    assert f"collection docs: {says}" in done.stdout
    done = doctor(data, "--repair", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [(one["subject"], one["repaired"]) for one in orjson.loads(done.stdout)] == [("collection docs", True)]
    assert doctor(data).returncode == 0

    async def right_again(index: Index) -> None:
        hits = (await index.search.retrieve(SearchRequest(ASKED, ["docs"], k=50))).hits
        assert hits[0].passage.source.endswith("kotlin.md")

    with_index(data, right_again)


def test_a_shard_that_cannot_be_opened_is_made_again_from_the_catalog(data: Path) -> None:
    (shard,) = (data / "index").iterdir()
    (shard / "edge_config.json").write_text("nonsense", "utf-8")
    done = doctor(data)
    assert done.returncode == 1
    assert "points are missing: `ragway rebuild docs`" in done.stdout
    done = doctor(data, "--repair")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "a shard set aside: repaired" in done.stdout
    assert not list((data / "index").glob("*.broken"))


@pytest.mark.parametrize("at", [0, 4096])
def test_a_damaged_catalog_is_named_with_what_to_do(data: Path, at: int) -> None:
    with (data / "catalog.sqlite").open("r+b") as file:
        file.seek(at)
        file.write(b"\xff" * 4096)
    done = doctor(data)
    assert done.returncode == 1
    assert done.stdout.startswith(str(data / "catalog.sqlite"))
    assert "restore the file from a backup" in done.stdout


def test_a_database_of_a_server_that_is_away_is_named(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "ragway.yaml"
    config.write_text("catalog: {url: 'postgresql://ragway@127.0.0.1:1/ragway'}", "utf-8")
    done = doctor(data, "--config", str(config))
    assert done.returncode == 1
    assert "PostgreSQL at 127.0.0.1:1/ragway" in done.stdout


def test_a_qdrant_server_that_is_away_is_named(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "ragway.yaml"
    config.write_text("qdrant: {url: 'http://127.0.0.1:1', timeout_s: 2}", "utf-8")
    done = doctor(data, "--config", str(config))
    assert done.returncode == 1
    assert "127.0.0.1:1" in done.stdout


def test_beside_a_gateway_the_index_is_checked_and_repaired_through_it(data: Path, tmp_path: Path) -> None:
    with_index(data, lose)
    with serving(data, tmp_path, "models: {echo: {lane: echo}}") as gateway:
        problem = "the index of collection 'docs' is incomplete: run `ragway rebuild docs`"
        assert problem in gateway.log.read_text()
        ready = gateway.get("/readyz")
        assert (ready.status_code, ready.json()) == (200, {"status": "ready", "warnings": [problem]})
        done = doctor(data)
        assert done.returncode == 1
        assert done.stdout == "collection docs: 1 of its points are missing: `ragway rebuild docs`\n"
        done = doctor(data, "--repair")
        assert (done.returncode, done.stdout) == (0, "collection docs: 1 of its points are missing: repaired\n")
        done = doctor(data)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "nothing is wrong\n")
        until("no warning", lambda: gateway.get("/readyz").json() == {"status": "ready"})


@pytest.mark.parametrize("lose", [Path.unlink, lambda file: file.write_bytes(b"")], ids=["deleted", "emptied"])
def test_lost_keys_are_named_as_serve_names_them(data: Path, lose: Callable[[Path], None]) -> None:
    made = ragway("keys", "create", "app", "--read", "docs", "--data", str(data), folder=data.parent)
    assert made.returncode == 0, made.stderr
    lose(data / "accounts.db")
    said = doctor(data)
    assert said.returncode == 1, said.stderr
    assert "all keys are gone" in said.stdout
    assert "restore a backup" in said.stdout
