"""The writes of conversations: sealed until a person confirms them, sent once, and what became of them.

pending -> claimed -> done, failed or unknown; or pending -> void. Each step is one conditional update in an exclusive
transaction, so of two gateways that confirm at the same time, one sends. A claimed write never waits again: if the
gateway dies, the write is unknown, because its bytes may have been sent.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from hmac import compare_digest
from http import HTTPStatus
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from proxy.agent.writes.audit import ActionLog, Event, LogEntry, text_digest
from proxy.agent.writes.sealer import Sealer, WriteSecret
from proxy.apis.request import ApiRequest
from runtime.database import Database

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Select

_FILE = "writes.db"
_MOST_GUESSES = 5  # of a code
_KEEP_S = 30 * 86_400.0  # a finished write, for `sent_lately` and for questions; the log stays

State = Literal["pending", "claimed", "done", "failed", "unknown", "void"]
Why = Literal[
    "wrong_code", "wrong_number", "expired", "used", "void", "other_person", "rights_changed", "four_eyes", "unknown"
]  # four_eyes: another key must confirm. unknown: no such group, or one of another key or conversation


class PendingWrite(msgspec.Struct, frozen=True):
    """A write. Its request is sealed, and comes out with `PendingStore.claim` alone."""

    id: str  # "pw-" and 24 hex digits
    group: str  # the writes of one round have one code
    number: int  # within the group, from 1
    set: str
    operation: str
    revision: str  # of the operation (`proxy.apis.library.revision_of`)
    key: str  # id of the gateway's key; "": none
    person: str  # as the client names the person; "": unknown
    conversation: str  # digest of the visible messages up to the confirmation
    rights: str  # digest of the key's rights
    digest: str  # `digest_of` the request
    arguments: str  # JSON, as the model wrote them
    shown: str  # the text that the person saw
    effect_read: str = ""  # JSON of the read that shows the effect; "": none
    state: State = "pending"
    created_s: float = 0.0
    expires_s: float = 0.0
    finished_s: float = 0.0  # 0: waits, or is being sent
    status: int = 0  # of the answer; 0: none
    attempts: int = 0  # wrong codes
    language: str = "en"  # of the texts for the person


class Claimed(NamedTuple):
    """The writes to send now, in order, with the bytes to send."""

    writes: Sequence[PendingWrite]
    requests: Sequence[ApiRequest]


class SentBefore(NamedTuple):
    """The same request, sent lately."""

    ago_s: float
    done: bool  # False: may have been done


class Denied(NamedTuple):
    """Why nothing is sent."""

    why: Why
    guesses_left: int = 0  # of a wrong code


def digest_of(request: ApiRequest) -> str:
    """The digest of a request: SHA-256 of its JSON, with the body in base64."""
    return hashlib.sha256(_encoded(request)).hexdigest()


class PendingStore(Database):
    """The writes of a data folder or of a server. The first write creates the file. All methods block."""

    def __init__(
        self,
        data: Path,
        url: str = "",
        *,
        sealer: Sealer,
        log_content: bool = False,
        now_s: Callable[[], float] = time,
    ) -> None:
        """url: of a PostgreSQL database; "" = the data folder. log_content: the log keeps contents, too."""
        super().__init__(data / _FILE, url, what="the writes", tables="proxy.agent.writes.tables")
        self._sealer, self._now_s = sealer, now_s
        self.log = ActionLog(self, sealer, content=log_content)

    def add(self, writes: Sequence[PendingWrite], requests: Sequence[ApiRequest], code: str) -> None:
        """Store the writes of a group, each with its request, behind one code. Raises RetrievalError."""
        from proxy.agent.writes.tables import writes as table

        with self.writing() as sql:
            secret = self._secret(sql)
            self._prune(sql, secret)
            for write, request in zip(map(_storable, writes), requests, strict=True):
                if write.state != "pending" or write.digest != digest_of(request):
                    raise ValueError(f"{write.id} is not a pending write of this request")
                own = {
                    "claimed_s": 0.0,
                    "logged": 0,
                    "code": secret.code_digest(code, write.group),
                    "sealed": secret.seal(_encoded(request).decode(), _place(write)),
                }
                sql.execute(table.insert().values(**msgspec.structs.asdict(write), **own))
                named = secret.code_id(code, write.group)
                asked = {"arguments": text_digest(write.arguments), "request": write.digest}
                self._note(sql, secret, write, "asked", write.arguments, **asked)
                self._note(sql, secret, write, "shown", write.shown, shown=text_digest(write.shown), code=named)

    def group_of(self, key: str, conversation: str) -> list[PendingWrite]:
        """The newest group of a conversation, in any state, by number. Raises RetrievalError."""
        from sqlalchemy import select

        from proxy.agent.writes.tables import writes as table

        wanted = (table.c.key == key, table.c.conversation == conversation)
        newest = select(table.c.group).where(*wanted).order_by(table.c.created_s.desc(), table.c.group).limit(1)
        return self._found(*wanted, table.c.group == newest.scalar_subquery())

    def group(self, id: str, key: str | None) -> list[PendingWrite]:
        """A group of a key, in any state, by number. key: None = of any key. Raises RetrievalError."""
        from proxy.agent.writes.tables import writes as table

        return self._found(table.c.group == id, *([] if key is None else [table.c.key == key]))

    def waits(self, key: str, code: str) -> bool:
        """Whether a write of a key waits for this code. Raises RetrievalError."""
        from sqlalchemy import select

        from proxy.agent.writes.tables import writes as table

        wanted = (table.c.key == key, table.c.state == "pending", table.c.expires_s > self._now_s())
        rows = self.rows(select(table.c.group, table.c.code).where(*wanted))
        if not rows:
            return False
        with self.writing() as sql:
            secret = self._secret(sql)
        return any(compare_digest(secret.code_digest(code, group), digest) for group, digest in rows)

    def waiting(self) -> list[PendingWrite]:
        """All writes that wait for a person, oldest first. Raises RetrievalError."""
        from proxy.agent.writes.tables import writes as table

        found = self._found(table.c.state == "pending", table.c.expires_s > self._now_s())
        return sorted(found, key=lambda one: (one.created_s, one.group, one.number))

    def claim(  # noqa: PLR0913 - each must be as it was when the person was asked
        self,
        group: str,
        *,
        code: str | None,
        key: str,
        person: str,
        conversation: str,
        numbers: Collection[int] | None,
        rights: str,
        approver: str = "",
        again_s: float = 0.0,
    ) -> Claimed | Denied:
        """Take the writes of a group, to send each at once; no other call ever gets them. Raises RetrievalError.

        code: None, if the person confirmed by another way than a code. numbers: None takes all; the others become void.
        approver: who confirmed instead of the person, for the log.
        again_s: "used" if the key sent one of the requests within so long; 0: may be sent again.
        """
        from sqlalchemy import select

        from proxy.agent.writes.tables import writes as table

        person = _text(person)
        if self.empty():
            return Denied("unknown")
        with self.writing() as sql:
            now_s, secret = self._now_s(), self._secret(sql)
            mine = (table.c.group == group, table.c.key == key, table.c.conversation == conversation)
            rows = sql.execute(select(table).where(*mine).order_by(table.c.number)).all()
            writes = [_write(row) for row in rows]
            right = code is None or all(compare_digest(secret.code_digest(code, group), row.code) for row in rows)
            why = _why_not(writes, now_s, person=person, rights=rights, right_code=right, numbers=numbers)
            since_s = now_s - again_s
            if again_s and any(
                (sql.execute(_newest_sent(key, one.digest)).scalar() or 0.0) >= since_s for one in writes
            ):
                why = why or "used"
            if why is not None:
                return self._refuse(sql, secret, writes, why, by=approver)
            requests = [
                _request(secret, write, row.sealed)
                for write, row in zip(writes, rows, strict=True)
                if numbers is None or write.number in numbers
            ]
            named = secret.code_id(code, group) if code is not None else ""
            claimed = []
            for write in writes:
                if numbers is not None and write.number not in numbers:
                    self._end(sql, secret, write, "void", by=approver)
                    continue
                taken = sql.execute(
                    table.update()
                    .where(
                        table.c.id == write.id,
                        table.c.state == "pending",
                        table.c.expires_s > now_s,
                        table.c.person == person,
                        table.c.rights == rights,
                        *mine,
                    )
                    .values(state="claimed", claimed_s=now_s, sealed=b"")
                )
                if taken.rowcount != 1:
                    raise RuntimeError(f"{write.id} changed within an exclusive transaction")
                claimed.append(msgspec.structs.replace(write, state="claimed"))
                self._note(sql, secret, claimed[-1], "confirmed", code=named, by=approver, request=write.digest)
        return Claimed(claimed, requests)

    def sending(self, id: str) -> None:
        """Log that the bytes of a claimed write go out now. Call before each request. Raises RetrievalError."""
        with self.writing() as sql:
            for write in self._in_state(sql, "claimed", id):
                self._note(sql, self._secret(sql), write, "sent", request=write.digest)

    def finish(self, id: str, state: Literal["done", "failed", "unknown"], status: int, answer: str = "") -> bool:
        """Note what became of a claimed write; returns whether the write was claimed. Raises RetrievalError.

        status: of the answer; 0: none. answer: its text as the model reads it, of which the log has the digest.
        """
        from proxy.agent.writes.tables import writes as table

        with self.writing() as sql:
            for write in self._in_state(sql, "claimed", id):
                new = {"state": state, "status": status, "finished_s": self._now_s()}
                sql.execute(table.update().where(table.c.id == id, table.c.state == "claimed").values(new))
                text = _text(answer)
                event: Event = "unknown" if state == "unknown" else "answered"
                digest = text_digest(text) if text else ""
                ended = msgspec.structs.replace(write, **new)
                self._note(sql, self._secret(sql), ended, event, text, answer=digest, status=status)
                return True
        return False

    def void(self, key: str, conversation: str) -> int:
        """Give up the waiting writes of a conversation; returns their number. Raises RetrievalError."""
        from proxy.agent.writes.tables import writes as table

        if self.empty():
            return 0
        with self.writing() as sql:
            found = self._found_in(
                sql, table.c.key == key, table.c.conversation == conversation, table.c.state == "pending"
            )
            for write in found:
                self._end(sql, self._secret(sql), write, "void")
        return len(found)

    def state_key(self) -> bytes:
        """The key by which other protocols seal what a client keeps. Raises RetrievalError."""
        with self.writing() as sql:
            return self._secret(sql).state_key()

    def stale(self, older_s: float) -> list[PendingWrite]:
        """The writes that were claimed longer ago, whose gateway died: they are unknown from now on.

        older_s: longer than a call may take. Raises RetrievalError.
        """
        from proxy.agent.writes.tables import writes as table

        wanted = (table.c.state == "claimed", table.c.claimed_s < self._now_s() - older_s)
        if not self._found(*wanted):  # the usual case takes no exclusive transaction
            return []
        with self.writing() as sql:
            return [self._end(sql, self._secret(sql), write, "unknown") for write in self._found_in(sql, *wanted)]

    def sent_lately(self, key: str, digest: str, within_s: float) -> SentBefore | None:
        """The key's newest call with the same request, if that was done or may have been; None: not lately."""
        for claimed_s, state in self.rows(_newest_sent(key, digest)):
            ago_s = max(self._now_s() - claimed_s, 0.0)
            return SentBefore(ago_s, state == "done") if ago_s <= within_s else None
        return None

    def reseal(self) -> int:
        """Seal the database's secret with the newest master key; returns the number sealed. Raises RetrievalError."""
        if self.empty():
            return 0
        with self.writing() as sql:
            return self._sealer.reseal(sql)

    def _secret(self, sql: "Connection") -> WriteSecret:
        secret = self._sealer.secret(sql, make=True)
        assert secret is not None
        return secret

    def _found(self, *wanted: "ColumnElement[bool]") -> list[PendingWrite]:
        if self.empty():
            return []
        with self.reading() as sql:
            return self._found_in(sql, *wanted)

    def _found_in(self, sql: "Connection", *wanted: "ColumnElement[bool]") -> list[PendingWrite]:
        from sqlalchemy import select

        from proxy.agent.writes.tables import writes as table

        return [_write(row) for row in sql.execute(select(table).where(*wanted).order_by(table.c.number))]

    def _in_state(self, sql: "Connection", state: State, id: str) -> Iterable[PendingWrite]:
        from proxy.agent.writes.tables import writes as table

        return self._found_in(sql, table.c.id == id, table.c.state == state)

    def _refuse(
        self, sql: "Connection", secret: WriteSecret, writes: Sequence[PendingWrite], why: Why, *, by: str
    ) -> Denied:
        """Note a confirmation that does not count. A wrong code, and a change of the rights, may end the group."""
        from proxy.agent.writes.tables import writes as table

        waiting = [one for one in writes if one.state == "pending"]
        left = 0
        if why == "wrong_code":
            attempts = 1 + max(one.attempts for one in waiting)
            left = max(_MOST_GUESSES - attempts, 0)
            waiting = [msgspec.structs.replace(one, attempts=attempts) for one in waiting]
            sql.execute(table.update().where(table.c.id.in_([one.id for one in waiting])).values(attempts=attempts))
        for write in waiting:
            self._note(sql, secret, write, "refused", why=why, by=by)
            if why in ("expired", "rights_changed") or (why == "wrong_code" and not left):
                self._end(sql, secret, write, "void", why=why)
        return Denied(why, left)

    def _end(
        self,
        sql: "Connection",
        secret: WriteSecret,
        write: PendingWrite,
        state: Literal["void", "unknown"],
        *,
        why: str = "",
        by: str = "",
    ) -> PendingWrite:
        """End a write that was not answered."""
        from proxy.agent.writes.tables import writes as table

        new = {"state": state, "finished_s": self._now_s()}
        still = (table.c.id == write.id, table.c.state == write.state)
        sql.execute(table.update().where(*still).values(**new, sealed=b""))
        ended = msgspec.structs.replace(write, **new)
        self._note(sql, secret, ended, state, why=why, by=by)
        return ended

    def _prune(self, sql: "Connection", secret: WriteSecret) -> None:
        """End what nobody confirmed in time, and delete what ended long ago."""
        from proxy.agent.writes.tables import writes as table

        now_s = self._now_s()
        for write in self._found_in(sql, table.c.state == "pending", table.c.expires_s <= now_s):
            self._end(sql, secret, write, "void", why="expired")
        ended = table.c.state.not_in(("pending", "claimed"))
        sql.execute(table.delete().where(ended, table.c.finished_s < now_s - _KEEP_S))

    def _note(
        self, sql: "Connection", secret: WriteSecret, write: PendingWrite, event: Event, content: str = "", **more: Any
    ) -> None:
        """Log a step of a write, after which the write is as given."""
        names = ("group", "number", "set", "operation", "revision", "key", "person", "state")
        same = {name: getattr(write, name) for name in names}
        self.log.append(sql, secret, LogEntry(0, self._now_s(), event, write.id, **same, **more), content)


def _why_not(
    writes: Sequence[PendingWrite],
    now_s: float,
    *,
    person: str,
    rights: str,
    right_code: bool,
    numbers: Collection[int] | None,
) -> Why | None:
    """Why a confirmation does not count; None: it does. writes: of the group."""
    ended = [one for one in writes if one.state == "void"]
    late = all(one.finished_s >= one.expires_s for one in ended)
    reasons: dict[Why, bool] = {  # the first counts
        "unknown": not writes,
        "other_person": any(one.person != person for one in writes),
        "used": any(one.state not in ("pending", "void") for one in writes),
        "void": bool(ended) and not late,
        "expired": bool(ended) or any(one.expires_s <= now_s for one in writes),
        "wrong_code": not right_code,
        "rights_changed": any(one.rights != rights for one in writes),
        "wrong_number": numbers is not None and (not numbers or not {*numbers} <= {one.number for one in writes}),
    }
    return next((why for why, holds in reasons.items() if holds), None)


def _newest_sent(key: str, digest: str) -> "Select[Any]":
    """When the key last sent a request that was done, or may have been, and the state."""
    from sqlalchemy import or_, select

    from proxy.agent.writes.tables import writes as table

    one = table.c
    done = or_(
        one.state.in_(("claimed", "done", "unknown")),
        (one.state == "failed") & (one.status >= HTTPStatus.INTERNAL_SERVER_ERROR),
    )
    found = select(one.claimed_s, one.state).where(one.key == key, one.digest == digest, done)
    return found.order_by(one.claimed_s.desc()).limit(1)


def _encoded(request: ApiRequest) -> bytes:
    return msgspec.json.encode(request)


def _place(write: PendingWrite) -> list[str]:
    """What a sealed request belongs to: a row of which any of these was changed does not open."""
    changes = ("state", "finished_s", "status", "attempts", "language")  # language: a later column
    return [f"{name}={getattr(write, name)}" for name in PendingWrite.__struct_fields__ if name not in changes]


def _request(secret: WriteSecret, write: PendingWrite, sealed: bytes) -> ApiRequest:
    """The request of a write. Raises RetrievalError for a row that was changed in the database."""
    from runtime.errors import RetrievalError
    from runtime.sealing import SealingError

    try:
        return msgspec.json.decode(secret.open(sealed, _place(write)), type=ApiRequest)
    except SealingError:  # its text would quote the whole row
        raise RetrievalError(f"{write.id} was changed in the database, and is not sent") from None


def _storable(write: PendingWrite) -> PendingWrite:
    texts = {name: _text(getattr(write, name)) for name in ("person", "arguments", "shown", "effect_read")}
    return msgspec.structs.replace(write, **texts)


def _text(text: str) -> str:
    """A text that both databases store: neither NUL nor half a character."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _write(row: Any) -> PendingWrite:
    return PendingWrite(*row[: len(PendingWrite.__struct_fields__)])
