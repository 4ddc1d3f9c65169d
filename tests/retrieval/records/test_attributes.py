"""Attributes and groups: what they may be, and that the catalog keeps them by revision."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from retrieval.catalog.catalog import Catalog
from retrieval.catalog.document_reader import DocumentReader
from retrieval.catalog.revisions import Revision
from retrieval.ingest.ingester import digest
from retrieval.records.attributes import checked_attributes, checked_groups
from retrieval.records.documents import Attribute, Document
from tests.support.rows import all_rows


def test_attributes_are_kept_as_they_are_given() -> None:
    given: dict[str, Attribute] = {"lang": "de", "year": 2024, "price": 1.5, "draft": False, "tags": ["a", "Größe"]}
    assert checked_attributes(given) == given
    assert checked_attributes({}) == {}


@all_rows(
    "bad",
    [
        [], "text", {"": 1}, {"a b": 1}, {"a.b": 1}, {"größe": 1}, {"source": "x"}, {"groups": ["x"]},
        {"Groups": "x"}, {1: 1},
        {"x" * 65: 1}, {"a": None}, {"a": {}}, {"a": float("nan")}, {"a": float("inf")}, {"a": 2**60}, {"a": 10**400},
        {"a": "x" * 513},
        {"a": [1]}, {"a": [["x"]]}, {"a": ["x"] * 65}, {"a": "\0"}, {"a": "\ud800"}, {f"a{i}": i for i in range(17)},
    ],
)  # fmt: skip
def test_what_is_no_attribute_is_refused(bad: object) -> None:
    with pytest.raises(ValueError, match="attribute"):
        checked_attributes(bad)


def test_groups_are_names_each_once() -> None:
    assert checked_groups(["hr", "legal@de", "hr"]) == ("hr", "legal@de")
    assert checked_groups([]) == ()


@pytest.mark.parametrize("bad", ["hr", None, {"hr": 1}, [""], ["*"], ["a*"], [1], ["a b"], ["x" * 65], ["g"] * 33])
def test_what_is_no_group_is_refused(bad: object) -> None:
    with pytest.raises(ValueError, match="group"):
        checked_groups(bad)


def test_a_digest_tells_attributes_and_groups_apart() -> None:
    def made(**more: object) -> str:
        return digest(Document("a", "t", "text", "text", 1.0, **more))  # type: ignore[arg-type]

    said = [made(), made(attributes={"a": 1}), made(attributes={"a": 2}), made(groups=("a",)), made(groups=("b",))]
    assert len({*said}) == 5
    assert made(attributes={"a": 1, "b": 2}) == made(attributes={"b": 2, "a": 1})


@pytest.fixture
def catalog(reopened: Callable[[], Catalog]) -> Iterator[Catalog]:
    opened = reopened()
    yield opened
    opened.close()


def stage(catalog: Catalog, attributes: dict[str, Attribute], *groups: str) -> Revision:
    docs = catalog.create("docs", embedder="tiny", probes=np.ones((4, 3), np.float32))
    document = Document("a.md", "A", "text", "markdown", 1.0, attributes, groups)
    return catalog.stage(docs, "/a.md", document, content_hash="h", recipe="r", chunks=1, generation=1)


def rows(catalog: Catalog) -> tuple[int, int]:
    with catalog.engine.connect() as sql:
        one, other = (
            sql.exec_driver_sql(f"select count(*) from {name}").scalar() for name in ("attributes", "audiences")
        )
    return int(one or 0), int(other or 0)


def test_a_revision_brings_its_attributes_and_takes_them_away(catalog: Catalog) -> None:
    first = stage(catalog, {"year": 2023}, "hr", "legal")
    catalog.publish(first)
    documents = DocumentReader(catalog)
    second = stage(catalog, {"year": 2024, "tags": ["x"]})
    (info,) = documents.page("docs", after="", limit=9, groups=None)
    assert (info.attributes, info.groups) == ({"year": 2023}, ("hr", "legal"))
    (replaced,) = catalog.publish(second)
    info = documents.read(first.document, None).info
    assert (info.attributes, info.groups) == ({"year": 2024, "tags": ["x"]}, ())
    assert catalog.document(first.document, 1).groups == ("hr", "legal")
    catalog.forget(replaced)
    assert rows(catalog) == (1, 0)
    for gone in catalog.retire(first.document):
        catalog.forget(gone)
    assert rows(catalog) == (0, 0)


def test_a_catalog_made_before_has_documents_without_attributes(tmp_path: Path) -> None:
    file = tmp_path / "catalog.sqlite"
    before = Catalog.open(file)
    id = stage(before, {}).document
    before.publish(Revision(id, 1, "docs@1", 1))
    before.close()
    with sqlite3.connect(file) as sql:
        for table in ("attributes", "audiences", "tasks", "jobs", "files", "changes", "catalog_version"):
            sql.execute(f"drop table if exists {table}")
        sql.execute("drop index revisions_by_state")
        sql.execute("create index ix_revisions_state on revisions (state)")
    after = Catalog.open(file)
    try:
        info = DocumentReader(after).read(id).info
        assert (info.attributes, info.groups) == ({}, ())
        after.publish(stage(after, {"a": 1}, "hr"))
        assert DocumentReader(after).read(id, ["hr"]).info.groups == ("hr",)
    finally:
        after.close()
