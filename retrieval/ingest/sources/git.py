"""A Git repository as a source: the files of one branch, from a repository on disk or by its URL.

A process of its own reads the repository (`dulwich`), within limits of time and memory: fetching and unpacking would
hold up searches. It never runs a hook or another program. Over HTTP only the newest commit is fetched, into a bare
repository in the data folder, and each connection goes to a checked address.
"""

import hashlib
import shutil
import socket
import stat
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from retrieval.catalog.revisions import RevisionRecord
from retrieval.errors import RetrievalError, Unreachable, Unreadable
from retrieval.ingest.containers import container_of, file_path
from retrieval.ingest.exclude import excluded
from retrieval.ingest.formats.registry import why_unused
from retrieval.ingest.load import FileCandidate, FoundFiles, too_large, why_left_out
from retrieval.ingest.rules import SIDECAR
from retrieval.ingest.sources.source import Known, LeftOut
from retrieval.ingest.splitting import SourceFile
from retrieval.records.documents import Attribute
from retrieval.records.sync import SourceSpec
from runtime.logs import printable
from runtime.public_addresses import ForbiddenAddress, checked_addresses, networks_of
from runtime.sandbox import Sandbox, SandboxJob

if TYPE_CHECKING:
    from dulwich.objects import ObjectID
    from dulwich.refs import Ref
    from dulwich.repo import Repo
    from urllib3 import PoolManager

_FETCH_S = 1_800.0  # of processor time, for a fetch or a file
_MEMORY_MB = 2_048
_ANSWER_S = 60.0  # for a server to answer
_MOST_PACKS = 20  # each fetch adds one; then the copy is fetched anew
_LFS = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True, slots=True)
class _Tree:
    """A commit's files."""

    commit: str
    committed_s: float
    files: tuple[tuple[str, str], ...]  # path and blobs, by path: the file's, and its sidecar's
    skipped: dict[str, int]


class GitSource:
    """A branch's files. A document's version is its blob: what has not changed is not read again."""

    def __init__(self, spec: SourceSpec, *, data: Path, max_bytes: int) -> None:
        """data: the data folder."""
        died = "the process that reads the repository died, perhaps out of memory"
        work = partial(_reader, spec, data, max_bytes)
        slow = "it may be too large: declare its `paths` as a folder of your own clone"
        job = SandboxJob(work, RetrievalError, slow, died, attempts=1, seconds=_FETCH_S, memory_mb=_MEMORY_MB)
        self._reading: Sandbox[str, Any] = Sandbox(job, processes=1, idle=1)
        self._spec = spec
        self._prefix = key_prefix(spec.name)
        self._shown = repository_name(spec.places[0])
        self._tree = _Tree("", 0.0, (), {})

    async def list(self) -> FoundFiles:
        try:
            self._tree = await self._reading.run("")
        except RetrievalError as error:
            raise Unreachable(str(error)) from error
        found = []
        for path, blob in self._tree.files:
            source = f"{self._shown}/{printable(path)}"
            found.append(FileCandidate(Path(path), source, self._prefix + path, mark=blob))
        return FoundFiles(tuple(found), self._tree.skipped, ())

    async def read(self, candidate: FileCandidate, mark: str = "") -> SourceFile:
        try:
            data, *sidecars = [await self._reading.run(blob) for blob in candidate.mark.split()]
        except RetrievalError as error:
            raise Unreadable(str(error)) from error
        if reason := why_unused(candidate.path, lambda most: data[:most]):
            raise LeftOut(reason)
        described: dict[str, Attribute] = {"commit": self._tree.commit}
        if is_url(self._spec.places[0]):
            described["url"] = self._spec.places[0]
        made_s = self._tree.committed_s
        described_by = tuple(sidecars)
        return SourceFile(
            candidate.path,
            candidate.source,
            data,
            made_s,
            mark=candidate.mark,
            described=described,
            sidecars=described_by,
        )

    def version(self, file: SourceFile) -> str:
        return file.mark

    def gone(self, known: Known, found: FoundFiles, source_of: Callable[[RevisionRecord], str]) -> set[str]:
        there = {candidate.key for candidate in found.candidates}
        ours = [key for key in known if key.startswith(self._prefix)]
        return {key for key in ours if container_of(key) not in there or self.leaves_out(key)}

    def leaves_out(self, key: str) -> bool:
        path = PurePosixPath(file_path(key).removeprefix(self._prefix))
        return _is_excluded(path, self._spec)

    async def aclose(self) -> None:
        await self._reading.close()


def _is_excluded(path: PurePosixPath, spec: SourceSpec) -> bool:
    root = Path("/") / repository_name(spec.places[0])
    return any(excluded(root / at, root, spec.exclude) for at in (path, *path.parents))


def key_prefix(name: str) -> str:
    """What the catalog keys of a repository's documents begin with."""
    return f"git:{name}!/"


def is_url(place: str) -> bool:
    return place.startswith(("http://", "https://"))


def repository_name(place: str) -> str:
    """A repository's name for people: the last part of its address."""
    return PurePosixPath(place.rstrip("/")).name.removesuffix(".git") or "repository"


# --- in the process of its own ---------------------------------------------------------------------------------------


def _reader(spec: SourceSpec, data: Path, max_bytes: int) -> Callable[[str], "_Tree | bytes"]:
    """A function that answers "" with the newest commit's files, and a blob with its bytes."""
    opened: list[Repo] = []

    def answer(wanted: str) -> _Tree | bytes:
        from dulwich.errors import GitProtocolError, NotGitRepository, ObjectFormatException
        from urllib3.exceptions import HTTPError

        try:
            if wanted:
                return _content(opened[0], wanted, max_bytes)
            opened[:] = []
            repo, commit = (_fetched if is_url(spec.places[0]) else _local)(spec, data)
            opened.append(repo)
            return _tree(repo, commit, spec)
        except NotGitRepository as error:
            raise Unreachable("there is no Git repository at this place, or it needs credentials") from error
        except (GitProtocolError, HTTPError, ForbiddenAddress) as error:
            raise Unreachable(f"cannot be fetched: {_why(error)}") from error
        except (ObjectFormatException, KeyError, OSError, ValueError) as error:
            raise Unreachable(f"the repository cannot be read ({type(error).__name__}: {error})") from error

    return answer


def _why(error: BaseException) -> str:
    """The cause, if it is one of ours: a library's text may quote credentials."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ForbiddenAddress):
            return str(seen)
        reason = getattr(seen, "reason", None)
        seen = reason if isinstance(reason, BaseException) else seen.__cause__ or seen.__context__
    return printable(str(error)).partition("://")[0]


def _local(spec: SourceSpec, _data: Path) -> tuple["Repo", "ObjectID"]:
    from dulwich.repo import Repo

    repo = Repo(spec.places[0].removeprefix("file://"))
    return repo, _wanted(dict(repo.get_refs()), spec.branch)


def _fetched(spec: SourceSpec, data: Path) -> tuple["Repo", "ObjectID"]:
    """The copy in the data folder, with the branch's newest commit."""
    from dulwich.client import HttpGitClient
    from dulwich.repo import Repo

    url = spec.places[0]
    folder = data / "sources" / f"{hashlib.sha256(url.encode()).hexdigest()[:20]}.git"
    if folder.exists() and len([*folder.glob("objects/pack/*.pack")]) > _MOST_PACKS:
        shutil.rmtree(folder)
    if not (folder / "HEAD").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, mode=0o700)
        Repo.init_bare(str(folder)).close()
    repo = Repo(str(folder))
    newest: list[ObjectID] = []

    def wants(refs: "Mapping[Ref, ObjectID]", depth: int | None = None) -> "list[ObjectID]":
        newest.append(_wanted(refs, spec.branch))
        return [] if newest[0] in repo.object_store else newest

    user, secret = spec.credentials or (None, None)
    client = HttpGitClient(url, pool_manager=_connections(spec.networks), username=user, password=secret)
    client.fetch("", repo, wants, depth=1)
    return repo, newest[0]


def _wanted(refs: "Mapping[Ref, ObjectID]", branch: str) -> "ObjectID":
    named = {bytes(ref): commit for ref, commit in refs.items()}
    if not branch:
        if b"HEAD" in named:
            return named[b"HEAD"]
        raise Unreachable("the repository has no commit")
    for kind in ("heads", "tags"):
        if (commit := named.get(f"refs/{kind}/{branch}".encode())) is not None:
            return commit
    raise Unreachable(f"the repository has no branch {branch!r}")


def _connections(networks: Sequence[str]) -> "PoolManager":
    """urllib3's connections, each to a checked address, without proxies from the environment."""
    from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
    from urllib3.connection import HTTPConnection, HTTPSConnection

    allowed = networks_of(networks)

    def connect(connection: HTTPConnection) -> socket.socket:
        failed: OSError | None = None
        for address in checked_addresses(connection.host, connection.port, allowed, setting="`networks` of the source"):
            try:
                return socket.create_connection((address, connection.port), _ANSWER_S)
            except OSError as error:
                failed = error
        raise failed or OSError("no address")

    class CheckedPlain(HTTPConnection):
        _new_conn = connect

    class CheckedTls(HTTPSConnection):
        _new_conn = connect

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = CheckedPlain

    class TlsPool(HTTPSConnectionPool):
        ConnectionCls = CheckedTls

    manager = PoolManager(timeout=_ANSWER_S)
    manager.pool_classes_by_scheme = {"http": PlainPool, "https": TlsPool}
    return manager


def _tree(repo: "Repo", commit: "ObjectID", spec: SourceSpec) -> _Tree:
    from dulwich.object_store import iter_tree_contents
    from dulwich.objects import Commit, Tag

    made = repo[commit]
    while isinstance(made, Tag):
        made = repo[made.object[1]]
    if not isinstance(made, Commit):
        raise Unreachable(f"{spec.branch!r} is not a commit")
    wanted = [PurePosixPath(path) for path in spec.paths]
    files, skipped, sidecars = [], Counter[str](), dict[str, str]()
    for entry in iter_tree_contents(repo.object_store, made.tree):
        name = entry.path.decode("utf-8", "replace")
        path = PurePosixPath(name)
        if name.endswith(SIDECAR) and stat.S_ISREG(entry.mode):
            sidecars[name.removesuffix(SIDECAR)] = entry.sha.decode()
            continue
        if wanted and not any(path.is_relative_to(one) for one in wanted):
            continue
        if stat.S_IFMT(entry.mode) == 0o160000:
            skipped["submodule"] += 1
        elif stat.S_ISLNK(entry.mode):
            skipped["symbolic link"] += 1
        elif _is_excluded(path, spec):
            skipped["excluded"] += 1
        elif reason := why_left_out(path):
            skipped[reason] += 1
        else:
            files.append((name, entry.sha.decode()))
    blobs = tuple((name, f"{blob} {sidecars.get(name, '')}".strip()) for name, blob in files)
    return _Tree(made.id.decode(), float(made.commit_time), blobs, dict(skipped))


def _content(repo: "Repo", blob: str, max_bytes: int) -> bytes:
    from dulwich.objects import ObjectID

    data: bytes = repo.object_store.get_raw(ObjectID(blob.encode()))[1]
    if data.startswith(_LFS) and len(data) < 1024:
        raise Unreadable("a Git LFS pointer: the file itself is not in the repository; ingest the folder of a checkout")
    if len(data) > max_bytes:
        raise Unreadable(too_large(len(data), max_bytes))
    return data
