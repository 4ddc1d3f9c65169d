"""From a source's file to its documents: the file itself, or the members of a container, compared with the catalog.

A member's content hash is its own and, after "@", its container's: hash and number of members. A container whose
members in the catalog all have this hash, and are that many, is not opened. So an interrupted ingest, a member that
failed and one that was deleted lead to opening it again.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from retrieval.catalog.revisions import RevisionRecord
from retrieval.errors import Unreadable
from retrieval.ingest.containers import Member, container_of, file_path, member_key, member_source
from retrieval.ingest.formats.registry import READABLE, is_container
from retrieval.ingest.load import FileCandidate, content_hash, printable_path
from retrieval.ingest.prepare import Preparation
from retrieval.ingest.sources.source import Known, Marks, Source, Unchanged
from retrieval.ingest.splitting import SourceFile
from retrieval.records.ingest import Failure


@dataclass(frozen=True, slots=True)
class ChangedDocument:
    """A new or changed document."""

    candidate: FileCandidate
    file: SourceFile
    content_hash: str  # for the catalog


@dataclass(slots=True)
class Opened:
    """A file's documents, compared with the catalog."""

    changed: list[ChangedDocument] = field(default_factory=list)
    unchanged: int = 0
    gone: Sequence[str] = ()  # keys of members that the container no longer has
    renamed: list[tuple[RevisionRecord, str]] = field(default_factory=list)  # unchanged, with new content hashes
    failures: Sequence[Failure] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)  # reason -> count
    unread: Sequence[str] = ()  # sources of members of an unsupported type


class FileOpening:
    """Opens the files of a source."""

    def __init__(self, source: Source, preparation: Preparation, known: Known, marks: Marks, recipe: str) -> None:
        """known: the collection's documents, with their marks; recipe: that of new documents."""
        self._source, self._preparation = source, preparation
        self._known, self._marks, self._recipe = known, marks, recipe
        self._inside = defaultdict[str, list[str]](list)  # file -> keys
        for key in known:
            self._inside[container_of(key)].append(key)

    async def open(self, candidate: FileCandidate) -> Opened:
        """Raises Unchanged if the catalog has the document; LeftOut, Unreadable."""
        key, known = candidate.key, self._known.get(candidate.key)
        mark, version = self._marks.get(key, ("", ""))
        if is_container(candidate.path) or self._preparation.has_record_documents(candidate.source):
            if mark and candidate.mark == mark and (members := self._whole(key, version)):
                return Opened(unchanged=members)
            file = await self._source.read(candidate)
            return await self._open(candidate, file, self._source.version(file))
        if known is None or (known.content_hash, known.recipe) != (version, self._recipe):
            mark = ""
        if mark and candidate.mark == mark:
            raise Unchanged
        file = await self._source.read(candidate, mark)
        version = self._source.version(file)
        if known is not None and (known.content_hash, known.recipe) == (version, self._recipe):
            self._marks[key] = (file.mark, version)
            raise Unchanged
        records = [inside for inside in self._inside.get(key, []) if inside != key]  # a rule split the file before
        return Opened([ChangedDocument(candidate, file, version)], gone=records)

    async def read(self, key: str, source: str) -> SourceFile:
        """Return the document of this key and source. Raises Unreadable, LeftOut."""
        container = container_of(key)
        inside = printable_path(file_path(key).removeprefix(container))
        file = await self._source.read(FileCandidate(Path(container), source.removesuffix(inside)))
        if container == key:
            return file
        for member in (await self._preparation.unpack(file)).members:
            if member_key(container, member.name) == key:
                path = Path(member.name)
                return _member_file(path, source, member, file)
        raise Unreadable("the archive no longer has the file; ingest the archive again")

    async def _open(self, candidate: FileCandidate, file: SourceFile, version: str) -> Opened:
        container = candidate.key
        self._marks[container] = (file.mark, version)
        if members := self._whole(container, version):
            return Opened(unchanged=members)
        unpacked = await self._preparation.unpack(file)
        mark = _tag(version, len(unpacked.members) + len(unpacked.failures))
        opened, there = Opened(skipped=unpacked.skipped), set[str]()
        for member in unpacked.members:
            key = member_key(container, member.name)
            if self._source.leaves_out(key):
                continue
            there.add(key)
            own = content_hash(member.data + member.shown.encode(), file.sidecars + member.sidecars)
            known = self._known.get(key)
            if known is not None and (known.content_hash.partition("@")[0], known.recipe) == (own, self._recipe):
                opened.unchanged += 1
                opened.renamed.append((known, own + mark))
            else:
                path = Path(member.name or candidate.path)
                source = printable_path(member_source(candidate.source, member.shown or member.name))
                document = _member_file(path, source, member, file)
                opened.changed.append(ChangedDocument(FileCandidate(path, source, key), document, own + mark))
        failed = tuple(member_key(container, failure.path) for failure in unpacked.failures)
        opened.gone = [
            key for key in self._inside.get(container, []) if key not in there and not _is_within(key, failed)
        ]
        opened.failures = [Failure(key, of.reason) for key, of in zip(failed, unpacked.failures, strict=True)]
        opened.unread = [member_source(candidate.source, name) for name in unpacked.unread]
        return opened

    def _whole(self, container: str, version: str) -> int:
        """Return how many members a container has, if the catalog has all of this version; else 0."""
        records = [self._known[key] for key in self._inside.get(container, [])]
        tag = _tag(version, len(records))
        return len(records) * all(one.content_hash.endswith(tag) and one.recipe == self._recipe for one in records)


def _tag(version: str, members: int) -> str:
    """What the content hash of each member ends with. With another format, members may be documents."""
    return f"@{sha256(f'{version} {READABLE}'.encode()).hexdigest()[:16]}/{members}"


def _member_file(path: Path, source: str, member: Member, container: SourceFile) -> SourceFile:
    sidecars = container.sidecars + member.sidecars
    data, modified_s = member.data, member.modified_s
    return SourceFile(path, source, data, modified_s, described=container.described, sidecars=sidecars)


def _is_within(key: str, failed: Sequence[str]) -> bool:
    """Whether a failure leaves open what became of a document."""
    return any(key == one or key.startswith(f"{one}!/") for one in failed)
