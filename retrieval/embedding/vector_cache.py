"""Vectors of documents' texts kept on disk between runs, so that nobody waits twice for the same texts to be embedded.

One SQLite file an embedder, told apart by its name, its dimension and what it makes of the probes: the same model at
another precision has another file. A text is found again by its SHA-256. Only a convenience: whatever is wrong with a
file costs its content and never an answer, and the folder may be deleted at any time.
"""

import contextlib
import logging
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np

from retrieval.embedding.embed import Embedder, Matrix, probe

log = logging.getLogger("ragway")

# The same weights in the same precision agree to 1e-6 on any machine; bf16 and fp32 differ by 1e-4, int8 by 7e-3.
_SAME_COSINE = 0.99999
_MOST_BYTES = 2 * 2**30  # of vectors in one file: 1.4 million of 384 dimensions; then those longest unused go
_BUSY_S = 30.0  # to wait for another process that writes
_AT_ONCE = 500  # keys in one statement; SQLite takes 999 in every version


class CachedEmbedder:
    """Another embedder whose `embed_documents` looks into the cache first; questions go to the model."""

    def __init__(self, inner: Embedder, folder: Path) -> None:
        self.name, self.dimension, self.max_tokens = inner.name, inner.dimension, inner.max_tokens
        self.document_prompt, self.tokenizer_file = inner.document_prompt, inner.tokenizer_file
        self._inner = inner
        self._vectors = _open(folder, inner)

    def embed_query(self, texts: Sequence[str]) -> Matrix:
        return self._inner.embed_query(texts)

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        return self._cached(texts, b"", self._inner.embed_documents)

    def _cached(self, texts: Sequence[str], kind: bytes, embed: Callable[[Sequence[str]], Matrix]) -> Matrix:
        keys = [sha256(kind + text.encode("utf-8", "surrogatepass")).digest() for text in texts]
        found = self._vectors.read(keys)
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if new:
            embedded = dict(zip(new, embed(list(new.values())), strict=True))
            self._vectors.write(embedded)
            found |= embedded
        return np.stack([found[key] for key in keys]) if keys else np.empty((0, self.dimension), np.float32)


class CachedQuestions(CachedEmbedder):
    """The same for questions too: where what is measured is what they find, and not how long that takes."""

    def embed_query(self, texts: Sequence[str]) -> Matrix:
        return self._cached(texts, b"question\0", self._inner.embed_query)


class Vectors:
    """The file of one embedder. Raises sqlite3.Error when it is opened; later faults are logged, and nothing is found.

    May be called from any thread; several processes may share a file.
    """

    def __init__(self, file: Path, *, dimension: int, most_bytes: int = _MOST_BYTES) -> None:
        self._dimension = dimension
        self._lock = threading.Lock()
        self._sql = sqlite3.connect(file, timeout=_BUSY_S, check_same_thread=False, isolation_level=None)
        self._sql.execute("PRAGMA journal_mode=WAL")
        self._sql.execute("PRAGMA synchronous=NORMAL")
        with self._transaction():
            self._sql.execute("CREATE TABLE IF NOT EXISTS probes (vectors BLOB NOT NULL)")
            self._sql.execute("CREATE TABLE IF NOT EXISTS runs (run INTEGER PRIMARY KEY AUTOINCREMENT)")
            self._sql.execute(
                "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL, run INTEGER NOT NULL)"
            )
            self._run = self._sql.execute("INSERT INTO runs DEFAULT VALUES").lastrowid
            self._make_room(most_bytes // (dimension * 4))

    @property
    def probes(self) -> Matrix | None:
        """What identifies the embedder; None in a new file."""
        row = self._sql.execute("SELECT vectors FROM probes").fetchone()
        return None if row is None else np.frombuffer(row[0], "<f4").reshape(-1, self._dimension)

    def belong_to(self, probes: Matrix) -> None:
        self._sql.execute("INSERT INTO probes VALUES (?)", (probes.astype("<f4").tobytes(),))

    def read(self, keys: Sequence[bytes]) -> dict[bytes, Matrix]:
        """Key -> vector of those that are there, marked as used by this run."""
        found: dict[bytes, Matrix] = {}
        unique = list(dict.fromkeys(keys))
        with self._lock, _logged("read"), self._transaction():
            for start in range(0, len(unique), _AT_ONCE):
                part = unique[start : start + _AT_ONCE]
                those = f"WHERE key IN ({','.join('?' * len(part))})"
                for key, vector in self._sql.execute(f"SELECT key, vector FROM vectors {those}", part):
                    found[key] = np.frombuffer(vector, "<f4").astype(np.float32)
                self._sql.execute(f"UPDATE vectors SET run = ? {those} AND run != ?", (self._run, *part, self._run))
        return found

    def write(self, vectors: dict[bytes, Matrix]) -> None:
        """Keep them; they are there for every process when this returns."""
        rows = [(key, vector.astype("<f4").tobytes(), self._run) for key, vector in vectors.items()]
        with self._lock, _logged("written"), self._transaction():
            self._sql.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)

    def close(self) -> None:
        self._sql.close()

    def _make_room(self, most: int) -> None:
        """Delete what was used longest ago, run by run, until at most `most` vectors are left."""
        left, *_ = self._sql.execute("SELECT COUNT(*) FROM vectors").fetchone()
        while left > most:
            oldest = "WHERE run = (SELECT MIN(run) FROM vectors)"
            left -= self._sql.execute(f"DELETE FROM vectors {oldest}").rowcount

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._sql.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._sql.execute("ROLLBACK")
            raise
        self._sql.execute("COMMIT")


class _Nothing:
    """Where there can be no file: nothing is found."""

    def read(self, _keys: Sequence[bytes]) -> dict[bytes, Matrix]:
        return {}

    def write(self, _vectors: dict[bytes, Matrix]) -> None:
        pass


def _open(folder: Path, embedder: Embedder) -> Vectors | _Nothing:
    """The embedder's own file: the first of its name whose probes agree, else a new one."""
    name = re.sub("[^A-Za-z0-9._-]+", "-", embedder.name)[-80:].strip("-.")
    probes = probe(embedder)
    number = 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            vectors = _opened(folder / f"{name}-{embedder.dimension}-{number}.sqlite", embedder.dimension)
            kept = vectors.probes
            if kept is None:
                vectors.belong_to(probes)
                return vectors
            if kept.shape == probes.shape and float(np.sum(kept * probes, axis=1).min()) >= _SAME_COSINE:
                return vectors
            vectors.close()
            number += 1
    except (OSError, sqlite3.Error) as error:
        log.warning("vectors are not kept in %s: %s", folder, error)
        return _Nothing()


def _opened(file: Path, dimension: int) -> Vectors:
    try:
        return Vectors(file, dimension=dimension)
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):  # a disk that is full, a folder without rights, a lock
            raise
        log.warning("%s is broken (%s) and is made anew", file, error)
        for part in (file, *file.parent.glob(file.name + "-*")):  # with its -wal and -shm
            part.unlink(missing_ok=True)
        return Vectors(file, dimension=dimension)


@contextlib.contextmanager
def _logged(what: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        log.warning("vectors could not be %s: %s", what, error)
