"""Whether the index in the data folder was made from the catalog beside it.

With a lost, emptied or older catalog, an index looks as if it had no documents: the gateway would answer questions
without passages and without a reason. So the data folder stores the catalog's identity, and its number of changes
after each write. This is never ahead of the committed number, so a crash never separates a pair. Without an index, any
catalog is right.
"""

import contextlib
import json
from pathlib import Path

from retrieval.catalog.catalog import Catalog
from retrieval.errors import RetrievalError

_FILE = "pair.json"


class Pairing:
    """One data folder's SQLite catalog and index."""

    def __init__(self, data: Path) -> None:
        """To be made before the catalog is opened, since opening makes a missing catalog. Raises RetrievalError."""
        self._catalog_file, self._index, self._file = data / "catalog.sqlite", data / "index", data / _FILE
        full = self._index.is_dir() and any(shard.is_dir() for shard in self._index.iterdir())
        self._kept = self._read() if full else None
        there = self._catalog_file.exists()
        if full and not (there and self._catalog_file.stat().st_size):
            raise self._refusal("is empty" if there else "is gone")

    def pair(self, catalog: Catalog) -> None:
        """Check an open catalog, and pair it with the index. Raises RetrievalError."""
        self.check(catalog)
        self.note(catalog)

    def check(self, catalog: Catalog) -> None:
        """Raises RetrievalError for another index's catalog, or an older copy."""
        name, changes = catalog.identity()
        if self._kept is not None and self._kept[0] != name:
            raise self._refusal("is not the one that was here")
        if self._kept is not None and self._kept[1] > changes:
            raise RetrievalError(
                f"the catalog {self._catalog_file} is older than the index {self._index}: move the index away "
                "and run `ragway rebuild` for each collection, or restore the later catalog"
            )

    def note(self, catalog: Catalog) -> None:
        """Store the catalog's number of changes. A failed write is ignored: a later check then finds less."""
        kept = catalog.identity()
        if kept == self._kept:
            return
        with contextlib.suppress(OSError):
            fresh = self._file.with_suffix(".new")
            fresh.write_text(json.dumps(kept), "utf-8")
            fresh.replace(self._file)
            self._kept = kept

    def _read(self) -> tuple[int, int] | None:
        """None without a file, and for half a file after a power cut."""
        try:
            name, changes = json.loads(self._file.read_text("utf-8"))
            return int(name), int(changes)
        except (OSError, ValueError, TypeError):
            return None

    def _refusal(self, what: str) -> RetrievalError:
        return RetrievalError(
            f"the catalog {self._catalog_file} {what}, and the index {self._index} has data: restore the catalog from "
            "a backup, or move both away and ingest again"
        )
