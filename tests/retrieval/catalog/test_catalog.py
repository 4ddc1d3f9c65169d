"""The catalog: a revision's life, numbers never used twice, generations switched at once, bad files refused."""

import resource
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Connection, event

from retrieval.catalog.builds import Builds
from retrieval.catalog.catalog import Catalog
from retrieval.catalog.document_reader import DocumentReader
from retrieval.catalog.revisions import Collection, Revision, RevisionRecord, point_id, tenant_of
from retrieval.embedding.embed import Matrix
from retrieval.errors import RetrievalError, UnknownCollection
from retrieval.records.documents import Document

PAGE = "/handbook/page.md"


@pytest.fixture
def catalog(reopened: Callable[[], Catalog]) -> Iterator[Catalog]:
    opened = reopened()
    yield opened
    opened.close()


@pytest.fixture
def docs(catalog: Catalog) -> Collection:
    return catalog.create("docs", embedder="tiny", probes=probes())


def probes(seed: int = 1, dimension: int = 3) -> Matrix:
    return np.random.default_rng(seed).normal(size=(4, dimension)).astype(np.float32)


def document(text: str = "Use TLS.", *, source: str = "page.md") -> Document:
    return Document(source, "Connect – Größe 🎈", text, "markdown", 1700000000.25)


def stage(
    catalog: Catalog,
    collection: Collection,
    key: str = PAGE,
    text: str = "Use TLS.",
    *,
    chunks: int = 2,
    generation: int = 0,
    fingerprint: int | None = None,
) -> Revision:
    return catalog.stage(
        collection,
        key,
        document(text),
        content_hash="hash of " + text.replace("\0", ""),
        recipe="r1",
        chunks=chunks,
        generation=generation or collection.generation,
        fingerprint=fingerprint,
    )


# A revision's life


def test_a_staged_revision_is_durable_and_not_visible(catalog: Catalog, docs: Collection) -> None:
    staged = stage(catalog, docs)
    assert (staged.revision, staged.tenant, staged.chunks) == (1, "docs@1", 2)
    assert catalog.document(staged.document, 1) == document()
    assert catalog.current_revisions("docs") == {}
    assert catalog.current([staged.document]) == {}
    assert catalog.chunks("docs") == 0
    assert catalog.leftovers() == [staged]


def test_one_thrown_away_soon_names_documents_alike_each_time(tmp_path: Path) -> None:
    found = []
    for name in ("first", "second"):
        catalog = Catalog.open(tmp_path / f"{name}.sqlite", durable=False)
        shelves = [catalog.create(name, embedder="tiny", probes=probes()) for name in ("docs", "other")]
        found.append([stage(catalog, shelf).document for shelf in shelves])
        catalog.close()
    assert found[0] == found[1]
    assert len(set(found[0])) == 2, "one key in two collections"


def test_publishing_makes_it_the_current_one(catalog: Catalog, docs: Collection) -> None:
    staged = stage(catalog, docs)
    assert catalog.publish(staged) == []
    assert catalog.current_revisions("docs") == {PAGE: RevisionRecord(staged.document, 1, "hash of Use TLS.", "r1")}
    assert catalog.current([staged.document, "unknown"]) == {staged.document: 1}
    assert catalog.chunks("docs") == 2
    assert catalog.leftovers() == []


def test_publishing_again_replaces_the_one_before(catalog: Catalog, docs: Collection) -> None:
    first = stage(catalog, docs)
    catalog.publish(first)
    second = stage(catalog, docs, text="New.", chunks=5)
    assert (second.document, second.revision) == (first.document, 2)
    assert catalog.current([first.document]) == {first.document: 1}
    assert catalog.publish(second) == [first]
    assert catalog.current([first.document]) == {first.document: 2}
    assert catalog.chunks("docs") == 5
    assert catalog.leftovers() == [first]
    assert catalog.document(first.document, 1).text == "Use TLS."


def test_a_publication_and_a_look_at_many_keys_take_as_many_steps_in_a_large_catalog(tmp_path: Path) -> None:
    catalog, counted = Catalog.open(tmp_path / "catalog.sqlite"), Counter[str]()
    docs = catalog.create("docs", embedder="tiny", probes=probes())

    def count(connection: Connection) -> None:
        raw = connection.connection.driver_connection
        assert isinstance(raw, sqlite3.Connection)
        raw.set_progress_handler(lambda: counted.update(["steps"]), 10)  # after each ten steps of SQLite's machine

    def publishing(key: str) -> int:
        staged = stage(catalog, docs, key)
        counted.clear()
        catalog.publish(staged)
        return counted["steps"]

    def looking(keys: Sequence[str]) -> int:
        counted.clear()
        assert catalog.current_revisions("docs", keys).keys() == set(keys)
        return counted["steps"]

    event.listen(catalog.engine, "begin", count)
    keys = [f"{number}.md" for number in range(100)]
    publications = [publishing(key) for key in keys]
    looks = [looking(keys), looking(keys[:10])]
    for number in range(100, 600):
        publishing(f"{number}.md")
    assert 0 < publishing("last.md") <= 2 * publications[0]
    assert 0 < looking(keys) <= 2 * looks[0]
    assert 0 < looking(keys[:10]) <= 2 * looks[1]
    catalog.close()


def test_forgetting_drops_the_old_revision_and_keeps_the_current_one(catalog: Catalog, docs: Collection) -> None:
    first = stage(catalog, docs)
    catalog.publish(first)
    catalog.publish(stage(catalog, docs, text="New."))
    catalog.forget(first)
    assert catalog.leftovers() == []
    assert catalog.document(first.document, 2).text == "New."
    with pytest.raises(KeyError):
        catalog.document(first.document, 1)


def test_retiring_takes_a_document_away(catalog: Catalog, docs: Collection) -> None:
    staged = stage(catalog, docs)
    catalog.publish(staged)
    other = stage(catalog, docs, "/handbook/other.md", chunks=1)
    catalog.publish(other)
    assert catalog.retire(staged.document) == [staged]
    assert list(catalog.current_revisions("docs")) == ["/handbook/other.md"]
    assert catalog.current([staged.document]) == {}
    assert catalog.chunks("docs") == 1
    assert catalog.leftovers() == [staged]
    catalog.forget(staged)
    assert catalog.leftovers() == []


def test_retiring_or_forgetting_what_is_not_there_changes_nothing(catalog: Catalog, docs: Collection) -> None:
    staged = stage(catalog, docs)
    catalog.publish(staged)
    assert catalog.retire("unknown") == []
    catalog.forget(Revision("unknown", 1, "docs@1", 1))
    catalog.forget(Revision(staged.document, 9, "docs@1", 1))
    assert catalog.current([staged.document]) == {staged.document: 1}


def test_numbers_are_never_used_twice(catalog: Catalog, docs: Collection) -> None:
    first = stage(catalog, docs)
    catalog.publish(first)
    for expected in (2, 3, 4):
        crashed = stage(catalog, docs, text="never published")
        assert crashed.revision == expected
        catalog.forget(crashed)
    assert catalog.current([first.document]) == {first.document: 1}


def test_a_document_that_comes_back_shares_no_point_with_the_one_that_went(catalog: Catalog, docs: Collection) -> None:
    gone = stage(catalog, docs)
    catalog.publish(gone)
    catalog.retire(gone.document)
    catalog.forget(gone)
    back = stage(catalog, docs)
    assert back.document != gone.document
    assert not set(back.point_ids()) & set(gone.point_ids())


def test_a_document_that_comes_back_before_it_is_forgotten_goes_on_counting(catalog: Catalog, docs: Collection) -> None:
    gone = stage(catalog, docs)
    catalog.publish(gone)
    catalog.retire(gone.document)
    back = stage(catalog, docs)
    catalog.publish(back)
    catalog.forget(gone)
    assert (back.document, back.revision) == (gone.document, 2)
    assert catalog.current([gone.document]) == {gone.document: 2}


def test_every_state_is_left_over_until_it_is_current_or_forgotten(catalog: Catalog, docs: Collection) -> None:
    retired, replaced, staged = (stage(catalog, docs, key) for key in ("a", "b", "c"))
    for one in (retired, replaced):
        catalog.publish(one)
    catalog.retire(retired.document)
    catalog.publish(stage(catalog, docs, "b", text="New."))
    assert {one.document for one in catalog.leftovers()} == {retired.document, replaced.document, staged.document}


def test_keeps_any_text(catalog: Catalog, docs: Collection) -> None:
    text = "a\x00b\r\n 日本 🎈 " + "x" * 1_000_000
    staged = stage(catalog, docs, text=text)
    assert catalog.document(staged.document, 1).text == text


# Ids of points


def test_ids_of_points_are_the_same_again_and_differ_in_every_part() -> None:
    parts = [
        ("docs@1", "d", 1, 0),
        ("docs@2", "d", 1, 0),
        ("docs@1", "e", 1, 0),
        ("docs@1", "d", 2, 0),
        ("docs@1", "d", 1, 1),
    ]
    assert len({point_id(*part) for part in parts}) == len(parts)
    assert Revision("d", 1, "docs@1", 2).point_ids() == [point_id("docs@1", "d", 1, 0), point_id("docs@1", "d", 1, 1)]
    assert Revision("d", 1, "docs@1", 0).point_ids() == []


def test_ids_of_points_never_change_between_versions() -> None:
    """A data folder outlives the program: another id would leave its old points behind for ever."""
    assert point_id("docs@1", "d", 1, 0) == "7965f1fc-87a5-508b-bdbe-626d2d292e51"


# Collections


def test_a_new_collection_knows_its_embedder(catalog: Catalog) -> None:
    made = catalog.create("docs", embedder="tiny", probes=probes())
    assert (made.name, made.generation, made.embedder, made.tenant) == ("docs", 1, "tiny", "docs@1")
    assert made.probes.dtype == np.float32
    assert np.array_equal(made.probes, probes())


def test_creating_it_again_changes_nothing(catalog: Catalog, docs: Collection) -> None:
    again = catalog.create("docs", embedder="another", probes=probes(2))
    assert (again.embedder, again.generation) == ("tiny", 1)
    assert np.array_equal(again.probes, docs.probes)


def test_an_unknown_collection_names_the_known_ones(catalog: Catalog) -> None:
    with pytest.raises(UnknownCollection, match="no collection 'doc'; there are: none yet"):
        catalog.collection("doc")
    for name in ("wiki", "docs"):
        catalog.create(name, embedder="tiny", probes=probes())
    with pytest.raises(UnknownCollection, match="no collection 'doc'; there are: docs, wiki"):
        catalog.collection("doc")


def test_collections_do_not_see_each_others_documents(catalog: Catalog, docs: Collection) -> None:
    wiki = catalog.create("wiki", embedder="tiny", probes=probes())
    mine, theirs = stage(catalog, docs), stage(catalog, wiki, chunks=7)
    catalog.publish(mine)
    catalog.publish(theirs)
    assert mine.document != theirs.document
    assert catalog.current_revisions("docs")[PAGE].document == mine.document
    assert (catalog.chunks("docs"), catalog.chunks("wiki"), catalog.chunks("none")) == (2, 7, 0)
    catalog.retire(mine.document)
    assert list(catalog.current_revisions("wiki")) == [PAGE]


def test_describes_collections_by_name_with_their_counts(catalog: Catalog) -> None:
    for name in ("wiki", "docs", "empty"):
        catalog.create(name, embedder="tiny", probes=probes())
    docs = catalog.collection("docs")
    before = {info.name: info.updated_s for info in DocumentReader(catalog).collections()}
    for key in ("a", "b"):
        catalog.publish(stage(catalog, docs, key, chunks=3))
    stage(catalog, docs, "c", chunks=100)
    catalog.publish(stage(catalog, docs, "a", text="New.", chunks=4))
    assert [(i.name, i.documents, i.chunks, i.embedder) for i in DocumentReader(catalog).collections()] == [
        ("docs", 2, 7, "tiny"),
        ("empty", 0, 0, "tiny"),
        ("wiki", 0, 0, "tiny"),
    ]
    after = {info.name: info.updated_s for info in DocumentReader(catalog).collections()}
    assert after["docs"] > before["docs"]
    assert after["wiki"] == before["wiki"]
    assert [c.name for c in catalog.collections()] == ["docs", "empty", "wiki"]


# Generations


def test_a_generation_built_beside_takes_over_all_at_once(catalog: Catalog, docs: Collection) -> None:
    old = [stage(catalog, docs, key) for key in ("a", "b")]
    for one in old:
        catalog.publish(one)
    new = [stage(catalog, docs, key, chunks=3, generation=2) for key in ("a", "b")]
    Builds(catalog).ready(new)
    assert {one.tenant for one in new} == {"docs@2"}
    assert catalog.current([one.document for one in old]) == {one.document: 1 for one in old}
    assert catalog.collection("docs").tenant == "docs@1"
    catalog.switch(docs, 2, embedder="better", probes=probes(2, dimension=5))
    switched = catalog.collection("docs")
    assert (switched.tenant, switched.embedder, switched.probes.shape) == ("docs@2", "better", (4, 5))
    assert catalog.current([one.document for one in old]) == {one.document: 2 for one in old}
    assert catalog.chunks("docs") == 6
    assert {one.document for one in catalog.leftovers()} == {one.document for one in old}


def test_switching_leaves_other_collections_and_unfinished_writes_alone(catalog: Catalog, docs: Collection) -> None:
    wiki = catalog.create("wiki", embedder="tiny", probes=probes())
    theirs = stage(catalog, wiki)
    catalog.publish(theirs)
    beside = stage(catalog, wiki, text="staged there", generation=2)
    crashed = stage(catalog, docs, "crashed")
    catalog.switch(docs, 2, embedder="better", probes=probes(2))
    assert catalog.collection("wiki").embedder == "tiny"
    assert catalog.current([theirs.document, crashed.document]) == {theirs.document: 1}
    assert {one.document for one in catalog.leftovers()} == {beside.document, crashed.document}


def test_a_generation_has_points_of_its_own() -> None:
    assert tenant_of("docs", 2) == "docs@2"
    assert not set(Revision("d", 1, "docs@1", 9).point_ids()) & set(Revision("d", 1, "docs@2", 9).point_ids())


@pytest.mark.parametrize("count", [0, 1, 5000])
def test_asks_after_any_number_of_documents(catalog: Catalog, docs: Collection, count: int) -> None:
    staged = stage(catalog, docs)
    catalog.publish(staged)
    assert catalog.current([f"unknown{i}" for i in range(count)]) == {}
    assert catalog.current([staged.document] * count) == ({staged.document: 1} if count else {})


# The file


def test_everything_is_there_when_it_is_opened_again(
    catalog: Catalog, docs: Collection, reopened: Callable[[], Catalog]
) -> None:
    current, left = stage(catalog, docs), stage(catalog, docs, "left")
    catalog.publish(current)
    catalog.close()
    again = reopened()
    assert np.array_equal(again.collection("docs").probes, docs.probes)
    assert again.current([current.document]) == {current.document: 1}
    assert again.document(current.document, 1) == document()
    assert again.leftovers() == [left]
    assert stage(again, docs).revision == 2
    again.close()


def test_what_is_remembered_is_what_is_written(
    catalog: Catalog, docs: Collection, reopened: Callable[[], Catalog]
) -> None:
    """Questions are answered from memory: after every write it must say what one says who reads the file anew."""
    first, second = stage(catalog, docs, fingerprint=2**62), stage(catalog, docs, "other")
    ids = [first.document, second.document]
    steps: list[Callable[[], object]] = [
        lambda: catalog.publish(first),
        lambda: catalog.publish(second),
        lambda: catalog.publish(stage(catalog, docs, text="new", fingerprint=7)),
        lambda: catalog.forget(catalog.leftovers()[0]),
        lambda: catalog.retire(second.document),
        lambda: Builds(catalog).ready([stage(catalog, docs, generation=2)]),
        lambda: catalog.switch(docs, 2, embedder="other", probes=probes(2)),
        lambda: catalog.retire(first.document),
    ]
    seen, said = [], []
    for step in steps:
        catalog.current(ids)
        step()
        reader = reopened()
        assert catalog.current(ids) == reader.current(ids)
        assert catalog.fingerprints(ids) == reader.fingerprints(ids)
        assert catalog.collection("docs").tenant == reader.collection("docs").tenant
        assert catalog.collection("docs").embedder == reader.collection("docs").embedder
        seen.append(list(catalog.current(ids).values()))
        said.append(list(catalog.fingerprints(ids).values()))
        reader.close()
    assert seen == [[1], [1, 1], [2, 1], [2, 1], [2], [2], [3], []]
    assert said == [[2**62], [2**62], [7], [7], [7], [7], [], []]


@pytest.mark.parametrize(
    "content",
    [b"this is no database, but a text of some length" * 50, b"\x00" * 4096, b"SQLite format 3\x00" + b"\xff" * 4096],
)
def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(
        RetrievalError, match=r"catalog\.sqlite is damaged, or is not a database of ragway .* restore the file"
    ):
        Catalog.open(file)
    assert file.read_bytes() == content


def test_a_folder_in_its_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RetrievalError, match="is not a usable catalog"):
        Catalog.open(tmp_path)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RetrievalError, match="is not a usable catalog"):
        Catalog.open(tmp_path / "none" / "catalog.sqlite")


def test_an_empty_file_is_a_new_catalog(file: Path) -> None:
    file.touch()
    opened = Catalog.open(file)
    assert opened.collections() == []
    opened.close()


def test_a_database_of_others_is_refused(file: Path) -> None:
    with sqlite3.connect(file) as sql:
        sql.execute("CREATE TABLE collections (id INTEGER)")
    sql.close()
    with pytest.raises(RetrievalError, match="is not a usable catalog"):
        Catalog.open(file)


@pytest.mark.parametrize("name", ["a b", "ordner #1?x=1", "%41", "größe"])
def test_opens_in_a_folder_of_any_name(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    opened = Catalog.open(folder / "catalog.sqlite")
    opened.create("docs", embedder="tiny", probes=probes())
    opened.close()
    assert sorted(path.name for path in folder.iterdir()) == ["catalog.sqlite"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]


def test_a_disk_that_is_full_is_one_line_and_loses_nothing(file: Path) -> None:
    catalog = Catalog.open(file)
    docs = catalog.create("docs", embedder="tiny", probes=probes())
    catalog.publish(stage(catalog, docs))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))  # every further byte is refused, as on a full disk
    try:
        with pytest.raises(RetrievalError, match="cannot be read or written .* free space"):
            stage(catalog, docs, key="/handbook/other.md")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(catalog.current_revisions("docs")) == [PAGE]
    assert stage(catalog, docs, key="/handbook/other.md").revision == 1
    catalog.close()


# Languages


def test_a_generation_has_the_language_last_set_for_it_or_before_it(catalog: Catalog, docs: Collection) -> None:
    assert (docs.language, docs.tenant) == ("en", "docs@1")
    german = catalog.create("buch", embedder="tiny", probes=probes(0), language="de")
    assert (german.language, german.tenant) == ("de", "buch@1.de")
    assert [catalog.language("buch", generation) for generation in (1, 2, 9)] == ["de", "de", "de"]
    catalog.set_language("buch", 3, "fr")
    assert [catalog.language("buch", generation) for generation in (1, 2, 3, 9)] == ["de", "de", "fr", "fr"]
    catalog.set_language("buch", 3, "en")
    assert catalog.language("buch", 3) == "en"
    assert {row.name: row.language for row in DocumentReader(catalog).collections()} == {"buch": "de", "docs": "en"}


def test_points_of_a_generation_stand_under_its_language(catalog: Catalog) -> None:
    german = catalog.create("buch", embedder="tiny", probes=probes(0), language="de")
    assert stage(catalog, german, "a").tenant == "buch@1.de"
    catalog.set_language("buch", 2, "en")
    assert stage(catalog, german, "a", generation=2).tenant == "buch@2"
    assert {one.tenant for one in catalog.leftovers()} == {"buch@1.de", "buch@2"}
