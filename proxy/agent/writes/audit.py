"""The log of writes: append-only, an entry for each step of each write, written in the transaction of the step.

Each entry names the hash of the entry before and is signed, so a changed, removed or reordered entry is found. A chain
alone cannot show that its newest entries are gone. So `verify` also compares the writes with their last entries, and
takes heads that somebody noted elsewhere; a receipt (`signed_receipts`) is such a note, too.

Entries have digests. The contents (arguments, shown text, answer) are kept beside the chain where the setting asks for
them, and may be deleted without harm to the chain.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from proxy.agent.writes.sealer import Sealer, WriteSecret
from runtime.database import Database

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from sqlalchemy import Connection

Event = Literal["asked", "shown", "confirmed", "refused", "sent", "answered", "void", "unknown"]
_SIGNED = b"ragway write log\n"  # before the signed bytes: a signature of a receipt is never one of an entry
_AT_A_TIME = 500  # rows in memory
_MOST_PROBLEMS = 20
# The digest of an event that tells what the content must be.
_CONTENT_OF = {"asked": "arguments", "shown": "shown", "answered": "answer"}


class LogEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of one write. Digests are SHA-256 in hex; "" = none."""

    n: int
    at_s: float
    event: Event
    write: str  # id of the pending write
    group: str
    number: int
    set: str
    operation: str
    revision: str
    key: str
    person: str
    state: str  # after the step
    by: str = ""  # who confirmed, if not the person of the conversation
    why: str = ""  # of a refused confirmation
    status: int = 0  # of the answer
    code: str = ""  # the code's id
    arguments: str = ""  # digest of the arguments as the model wrote them
    request: str = ""  # digest of the request
    shown: str = ""  # digest of the text that the person saw
    answer: str = ""  # digest of the answer's body
    previous: str = ""  # `hash_of` the entry before
    earlier: str = ""  # `hash_of` the entry before of the same write


class Head(msgspec.Struct, frozen=True):
    """The newest entry at some time."""

    n: int
    hash: str

    def __str__(self) -> str:
        return f"{self.n}:{self.hash}"


_NO_ENTRY = Head(0, "")


@dataclass(slots=True)
class Verified:
    """What `verify` found."""

    head: Head
    problems: list[str] = field(default_factory=list)


def canonical(entry: LogEntry) -> bytes:
    """The bytes of an entry that are hashed and signed: JSON, fields in order, without defaults."""
    return msgspec.json.encode(entry)


def hash_of(entry: LogEntry) -> str:
    """The hash by which the next entry names an entry."""
    return hashlib.sha256(canonical(entry)).hexdigest()


def text_digest(text: str) -> str:
    """The digest of a content."""
    return hashlib.sha256(text.encode()).hexdigest()


def digest_of_content(entry: LogEntry) -> str:
    """What the digest of an entry's content must be."""
    digest: str = getattr(entry, _CONTENT_OF.get(entry.event, ""), "")
    return digest


class ActionLog:
    """The log in a database of writes."""

    def __init__(self, database: Database, sealer: Sealer, *, content: bool = False) -> None:
        """content: keep the contents, too."""
        self._database, self._sealer, self._content = database, sealer, content

    def append(self, sql: "Connection", secret: WriteSecret, entry: LogEntry, content: str = "") -> None:
        """Write an entry, within the exclusive transaction of the step. n, previous and earlier are set here."""
        from sqlalchemy import select

        from proxy.agent.writes.tables import log, writes

        last = sql.execute(select(log).order_by(log.c.n.desc()).limit(1)).one_or_none()
        own = sql.execute(select(log).where(log.c.write == entry.write).order_by(log.c.n.desc()).limit(1)).one_or_none()
        chained = msgspec.structs.replace(
            entry,
            n=last.n + 1 if last else 1,
            previous=hash_of(_entry(last)) if last else "",
            earlier=hash_of(_entry(own)) if own else "",
        )
        signature = secret.signing_key().sign(_SIGNED + canonical(chained))
        kept = content if self._content else ""
        sql.execute(log.insert().values(**msgspec.structs.asdict(chained), signature=signature, content=kept))
        sql.execute(writes.update().where(writes.c.id == entry.write).values(logged=chained.n))

    def entries(
        self, *, since_s: float = 0.0, write: str = "", key: str | None = None, set: str = "", state: str = ""
    ) -> Iterator[tuple[LogEntry, str]]:
        """Entries with their contents, oldest first. Raises RetrievalError."""
        if self._database.empty():
            return
        from sqlalchemy import select

        from proxy.agent.writes.tables import log

        wanted = [log.c.at_s >= since_s] if since_s else []
        wanted += [log.c.key == key] if key is not None else []
        given = ((log.c.write, write), (log.c.set, set), (log.c.state, state))
        wanted += [column == value for column, value in given if value]
        with self._database.reading() as sql:
            query = select(log).where(*wanted).order_by(log.c.n)
            for row in sql.execution_options(yield_per=_AT_A_TIME).execute(query):
                yield _entry(row), row.content

    def signing_key(self) -> "Ed25519PrivateKey | None":
        """Signs entries and receipts; None: nothing was written yet. Raises RetrievalError."""
        if self._database.empty():
            return None
        with self._database.reading() as sql:
            secret = self._sealer.secret(sql, make=False)
        return None if secret is None else secret.signing_key()

    def verify(self, known: Sequence[Head] = ()) -> Verified:
        """Check all entries, and the writes against their last entries. known: heads that were noted before.

        Raises RetrievalError for a database that cannot be read.
        """
        key = self.signing_key()
        checked = _Check(None if key is None else key.public_key(), {head.n: head.hash for head in known})
        if not self._database.empty():
            with self._database.reading() as sql:
                _check_rows(sql, checked)
        for n in sorted(n for n in checked.known if n > checked.head.n):
            checked.say(f"entry {n} was there, and the log ends with entry {checked.head.n}: the newest are gone")
        return Verified(checked.head, checked.problems)


class _Step(NamedTuple):
    n: int
    hash: str
    state: str


@dataclass(slots=True)
class _Check:
    public_key: "Ed25519PublicKey | None"
    known: dict[int, str]
    head: Head = _NO_ENTRY
    problems: list[str] = field(default_factory=list)
    last: dict[str, "_Step"] = field(default_factory=dict)  # of each write

    def say(self, problem: str) -> None:
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(problem)

    def see(self, entry: LogEntry, signature: bytes, content: str) -> None:
        """Check one entry; in the order of the numbers."""
        if entry.n != self.head.n + 1:
            self.say(f"entry {self.head.n + 1} is gone: entry {entry.n} comes next")
        elif entry.previous != self.head.hash:
            self.say(f"entry {self.head.n or entry.n} is not the one that was written before entry {entry.n}")
        earlier = self.last.get(entry.write)
        if entry.earlier != (earlier.hash if earlier else ""):
            self.say(f"entry {entry.n} follows another entry of {entry.write} than the log has")
        if not self._signed(entry, signature):
            self.say(f"entry {entry.n} was changed, or was not written by this gateway")
        if content and text_digest(content) != digest_of_content(entry):
            self.say(f"the content of entry {entry.n} was changed")
        self.head = Head(entry.n, hash_of(entry))
        if self.known.get(entry.n, self.head.hash) != self.head.hash:
            self.say(f"entry {entry.n} is not the entry that was noted")
        self.last[entry.write] = _Step(entry.n, self.head.hash, entry.state)

    def _signed(self, entry: LogEntry, signature: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature

        if self.public_key is None:
            return False
        try:
            self.public_key.verify(signature, _SIGNED + canonical(entry))
        except InvalidSignature:
            return False
        return True


def _check_rows(sql: "Connection", checked: _Check) -> None:
    """The chain and the writes, both as of one moment."""
    from sqlalchemy import select

    from proxy.agent.writes.tables import log, writes

    if sql.dialect.name == "sqlite":
        sql.exec_driver_sql("BEGIN")  # Python begins a transaction at the first write
    else:
        sql.execution_options(isolation_level="REPEATABLE READ")
    steps = {
        row.id: (row.logged, row.state) for row in sql.execute(select(writes.c.id, writes.c.logged, writes.c.state))
    }
    for row in sql.execution_options(yield_per=_AT_A_TIME).execute(select(log).order_by(log.c.n)):
        checked.see(_entry(row), row.signature, row.content)
    for id, (n, state) in steps.items():
        last = checked.last.get(id)
        if last is None or (last.n, last.state) != (n, state):
            there = f"entry {last.n}, {last.state}" if last else "no entry"
            checked.say(f"{id} is {state} by entry {n}, and the log has {there}")


def _entry(row: Any) -> LogEntry:
    return LogEntry(*row[: len(LogEntry.__struct_fields__)])
