"""Vectors of document texts, kept on disk between runs, so that no text is embedded twice.

Each embedder has one SQLite file, identified by its name, dimension and probe vectors: the same model in another
precision has another file. A text's SHA-256 is the key. The cache is only a convenience: a damaged file costs cached
vectors and never a result, and the folder may be deleted at any time.
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

from retrieval.embedding.embed import PROBES, Embedder, Matrix, probe
from runtime.database import write_ahead

log = logging.getLogger("ragway")

# The same weights in the same precision agree to 1e-6 on any machine; bf16 and fp32 differ by 1e-4, int8 by 7e-3.
_SAME_COSINE = 0.99999
_MAX_BYTES = 2 * 2**30  # vectors in one file: 1.4 million of 384 dimensions; the least recently used go first
_BUSY_S = 30.0  # wait for another process that writes
_KEYS_PER_STATEMENT = 500  # keys in one statement; every SQLite version accepts 999


class CachedEmbedder:
    """An embedder whose `embed_documents` reads a cache first; questions go to the model."""

    def __init__(self, inner: Embedder, folder: Path) -> None:
        self.name, self.dimension, self.max_tokens = inner.name, inner.dimension, inner.max_tokens
        self.document_prompt, self.tokenizer_file = inner.document_prompt, inner.tokenizer_file
        self._inner = inner
        self._vectors = _open_vector_file(folder, inner, probe(inner))

    def embed_query(self, texts: Sequence[str]) -> Matrix:
        return self._inner.embed_query(texts)

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        return self._from_cache(self._vectors, texts, b"", self._inner.embed_documents)

    def _from_cache(
        self, file: "VectorFile | None", texts: Sequence[str], kind: bytes, embed: Callable[[Sequence[str]], Matrix]
    ) -> Matrix:
        keys = [sha256(kind + text.encode("utf-8", "surrogatepass")).digest() for text in texts]
        cached = file.read(keys) if file else {}
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in cached}
        if new:
            embedded = dict(zip(new, embed(list(new.values())), strict=True))
            if file:
                file.write(embedded)
            cached |= embedded
        return np.stack([cached[key] for key in keys]) if keys else np.empty((0, self.dimension), np.float32)


class CachedQueryEmbedder(CachedEmbedder):
    """Caches questions as well: to measure what questions find, not how long a search takes.

    Their file is identified by the probes as questions: with another precision or prompt than documents', another one.
    """

    def __init__(self, inner: Embedder, folder: Path) -> None:
        super().__init__(inner, folder)
        self._questions = _open_vector_file(folder, inner, inner.embed_query(PROBES))

    def embed_query(self, texts: Sequence[str]) -> Matrix:
        return self._from_cache(self._questions, texts, b"question\0", self._inner.embed_query)


class VectorFile:
    """One embedder's file. Opening may raise sqlite3.Error; later errors are logged, and reads find no vectors.

    Thread-safe; several processes may share a file.
    """

    def __init__(self, file: Path, *, dimension: int, max_bytes: int = _MAX_BYTES) -> None:
        self._dimension = dimension
        self._lock = threading.Lock()
        self._sql = sqlite3.connect(file, timeout=_BUSY_S, check_same_thread=False, isolation_level=None)
        write_ahead(self._sql)
        self._sql.execute("PRAGMA synchronous=NORMAL")
        with self._transaction():
            self._sql.execute("CREATE TABLE IF NOT EXISTS probes (vectors BLOB NOT NULL)")
            self._sql.execute("CREATE TABLE IF NOT EXISTS runs (run INTEGER PRIMARY KEY AUTOINCREMENT)")
            self._sql.execute(
                "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL, run INTEGER NOT NULL)"
            )
            self._run = self._sql.execute("INSERT INTO runs DEFAULT VALUES").lastrowid
            self._make_room(max_bytes // (dimension * 4))

    @property
    def probes(self) -> Matrix | None:
        """Vectors that identify the embedder; None in a new file."""
        row = self._sql.execute("SELECT vectors FROM probes").fetchone()
        return None if row is None else np.frombuffer(row[0], "<f4").reshape(-1, self._dimension)

    def set_probes(self, probes: Matrix) -> None:
        self._sql.execute("INSERT INTO probes VALUES (?)", (probes.astype("<f4").tobytes(),))

    def read(self, keys: Sequence[bytes]) -> dict[bytes, Matrix]:
        """Return key -> vector for cached keys, and mark these as used by this run."""
        cached: dict[bytes, Matrix] = {}
        unique = list(dict.fromkeys(keys))
        with self._lock, _logged("read"), self._transaction():
            for start in range(0, len(unique), _KEYS_PER_STATEMENT):
                batch = unique[start : start + _KEYS_PER_STATEMENT]
                where = f"WHERE key IN ({','.join('?' * len(batch))})"
                for key, vector in self._sql.execute(f"SELECT key, vector FROM vectors {where}", batch):
                    cached[key] = np.frombuffer(vector, "<f4").astype(np.float32)
                self._sql.execute(f"UPDATE vectors SET run = ? {where} AND run != ?", (self._run, *batch, self._run))
        return cached

    def write(self, vectors: dict[bytes, Matrix]) -> None:
        """Store vectors. Once this has returned, every process can read them."""
        rows = [(key, vector.astype("<f4").tobytes(), self._run) for key, vector in vectors.items()]
        with self._lock, _logged("written"), self._transaction():
            self._sql.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)

    def close(self) -> None:
        self._sql.close()

    def _make_room(self, max_vectors: int) -> None:
        """Delete the least recently used vectors, run by run, until at most `max_vectors` are left."""
        left, *_ = self._sql.execute("SELECT COUNT(*) FROM vectors").fetchone()
        while left > max_vectors:
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


def _open_vector_file(folder: Path, embedder: Embedder, probes: Matrix) -> VectorFile | None:
    """Open an embedder's file: the first of its name whose probes agree, or a new one. None if none can be opened."""
    name = re.sub("[^A-Za-z0-9._-]+", "-", embedder.name)[-80:].strip("-.")
    number = 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            vectors = _open_file(folder / f"{name}-{embedder.dimension}-{number}.sqlite", embedder.dimension)
            stored_probes = vectors.probes
            if stored_probes is None:
                vectors.set_probes(probes)
                return vectors
            if (
                stored_probes.shape == probes.shape
                and float(np.sum(stored_probes * probes, axis=1).min()) >= _SAME_COSINE
            ):
                return vectors
            vectors.close()
            number += 1
    except (OSError, sqlite3.Error) as error:
        log.warning("vectors are not cached in %s: %s", folder, error)
        return None


def _open_file(file: Path, dimension: int) -> VectorFile:
    try:
        return VectorFile(file, dimension=dimension)
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):  # a full disk, missing rights, a lock
            raise
        log.warning("%s is damaged (%s): starting a new file", file, error)
        for part in (file, *file.parent.glob(file.name + "-*")):  # with its -wal and -shm files
            part.unlink(missing_ok=True)
        return VectorFile(file, dimension=dimension)


@contextlib.contextmanager
def _logged(what: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        log.warning("the vector cache could not be %s: %s", what, error)
