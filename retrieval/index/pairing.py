"""Whether the catalog is the one from which the index beside it was made.

An index whose catalog was lost, emptied or replaced by an older one looks like one without documents: questions would
be answered without passages, and nothing would say why. So the data folder keeps to which catalog the index belongs,
and how often that had changed at the end of the last write. It is never ahead of what the catalog has committed, so no
crash makes a pair look like none. Where there is no index, any catalog is right.
"""

import contextlib
import json
from pathlib import Path

from retrieval.catalog.catalog import Catalog
from retrieval.errors import RetrievalError

_FILE = "pair.json"


class Pairing:
    """The SQLite catalog and the index of one data folder."""

    def __init__(self, data: Path) -> None:
        """Before the catalog is opened, which makes one where there is none. Raises RetrievalError."""
        self._catalog_file, self._index, self._file = data / "catalog.sqlite", data / "index", data / _FILE
        full = self._index.is_dir() and any(shard.is_dir() for shard in self._index.iterdir())
        self._kept = self._read() if full else None
        there = self._catalog_file.exists()
        if full and not (there and self._catalog_file.stat().st_size):
            raise self._refusal("is empty" if there else "is gone")

    def settle(self, catalog: Catalog) -> None:
        """Check the catalog that was opened, which is the index's from now on. Raises RetrievalError."""
        self.check(catalog)
        self.note(catalog)

    def check(self, catalog: Catalog) -> None:
        """Raises RetrievalError where the catalog that was opened is not the index's, or older."""
        name, changes = catalog.identity()
        if self._kept is not None and self._kept[0] != name:
            raise self._refusal("is not the one that was here")
        if self._kept is not None and self._kept[1] > changes:
            raise RetrievalError(
                f"the catalog {self._catalog_file} is older than the index {self._index}: move the index away "
                "and run `ragway rebuild` for each collection, or restore the later catalog"
            )

    def note(self, catalog: Catalog) -> None:
        """Keep how often the catalog has changed. Where that cannot be written, less is noticed later."""
        kept = catalog.identity()
        if kept == self._kept:
            return
        with contextlib.suppress(OSError):
            fresh = self._file.with_suffix(".new")
            fresh.write_text(json.dumps(kept), "utf-8")
            fresh.replace(self._file)
            self._kept = kept

    def _read(self) -> tuple[int, int] | None:
        """None where there is nothing, or half of it after a power cut."""
        try:
            name, changes = json.loads(self._file.read_text("utf-8"))
            return int(name), int(changes)
        except (OSError, ValueError, TypeError):
            return None

    def _refusal(self, what: str) -> RetrievalError:
        return RetrievalError(
            f"the catalog {self._catalog_file} {what}, and the index {self._index} is: restore the catalog from "
            "a backup, or move both away and ingest again"
        )
