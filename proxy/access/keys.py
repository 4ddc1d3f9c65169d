"""Keys in memory: looked up by hash, at most a second behind the accounts.

While no key was ever created, every caller that reaches the gateway may do everything (`auth` decides which callers
reach the gateway). From the first key on, a caller without a valid key may do nothing, also while the accounts cannot
be read: a revocation then counts late, a new key is unknown, and no caller gains a right.
"""

import asyncio
import hashlib
import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from proxy.caller import PREFIX, UNLIMITED, Limits, Rights, carries_key
from proxy.dialects.errors import ApiError, Headers
from proxy.exchange import Exchange
from retrieval.errors import RetrievalError

log = logging.getLogger("ragway")
_SECRET_BYTES = 32  # random: a key cannot be derived or guessed
_LOOK_S = 1.0  # between two refreshes; a revocation counts within 5 s


@dataclass(frozen=True, slots=True)
class Key:
    """A key without its secret."""

    id: str
    name: str
    team: str
    rights: Rights
    created_s: float
    expires_s: float | None = None
    revoked_s: float | None = None
    limits: Limits = UNLIMITED

    def admit(self, exchange: Exchange) -> None:
        """Make an exchange one of this key."""
        exchange.owner = f"team:{self.team}" if self.team else self.id
        exchange.key, exchange.key_name, exchange.team = self.id, self.name, self.team
        exchange.rights, exchange.limits = self.rights, self.limits


@dataclass(frozen=True, slots=True)
class KeyHash:
    """The hash of a secret, with the key of the secret and the end of the validity."""

    hash: bytes
    key: Key
    until_s: float  # inf: no end


class Accounts(Protocol):
    """The stored keys."""

    def version(self) -> int:
        """0 before the first key; another number after each change. Raises RetrievalError."""
        ...

    def key_hashes(self) -> Sequence[KeyHash]:
        """The hashes of all keys that are not revoked. Raises RetrievalError."""
        ...


def new_secret() -> str:
    """A new secret for a key's holder; the gateway stores the hash alone."""
    return PREFIX + secrets.token_urlsafe(_SECRET_BYTES)


def hash_of(secret: str) -> bytes:
    """SHA-256: 256 random bits need no slower hash."""
    return hashlib.sha256(secret.encode()).digest()


def bearer(headers: Headers) -> str:
    """The secret of `Authorization: Bearer SECRET`; "" for no such header, or for two."""
    given = [value for name, value in headers if name == b"authorization"]
    if len(given) != 1:
        return ""
    scheme, _, secret = given[0].strip().partition(b" ")
    secret = secret.strip()
    return secret.decode("ascii") if scheme.lower() == b"bearer" and secret.isascii() else ""


def secret_of(headers: Headers) -> str:
    """The secret that a client sends as `Authorization: Bearer SECRET` or as `x-api-key: SECRET`; "": no secret.

    An `x-api-key` without a key of this gateway is meant for the upstream. Raises ApiError 400 for two secrets.
    """
    secrets = {value.strip().decode("latin-1") for name, value in headers if carries_key(name, value)}
    if secret := bearer(headers):
        secrets.add(secret)
    if len(secrets) > 1:
        message = "The request has two different keys, in Authorization and in x-api-key: send one key of this gateway."
        raise ApiError(400, message, code="conflicting_header")
    return secrets.pop() if secrets else ""


class Keyring:
    """All valid keys, by the hash of the secret."""

    def __init__(self, accounts: Accounts, *, required: bool) -> None:
        """required: whether a key is needed even before the first key is created.

        Raises RetrievalError where the accounts cannot be read.
        """
        self._accounts = accounts
        self._version = 0
        self._locks: Mapping[bytes, KeyHash] = {}
        self.trouble = ""  # why the keys cannot be read now
        self.closed = required  # a key is needed
        self.refresh()

    def key_of(self, secret: str) -> Key | None:
        """The key with this secret; None: no valid key."""
        lock = self._locks.get(hash_of(secret))
        if lock is None or time.time() >= lock.until_s:
            return None
        return lock.key

    def rights_of(self, id: str) -> Rights | None:
        """The rights of the key with this id; None: no valid key."""
        key = self._named(id)
        return key.rights if key is not None else None

    def limits_of(self, id: str) -> Limits:
        """The limits of the key with this id; none without a valid key."""
        key = self._named(id)
        return key.limits if key is not None else UNLIMITED

    def _named(self, id: str) -> Key | None:
        now_s = time.time()
        return next((one.key for one in self._locks.values() if one.key.id == id and now_s < one.until_s), None)

    def former(self, secret: str) -> str:
        """Which key the invalid secret belonged to, for the log: the operator can find the program that uses it."""
        lock = self._locks.get(hash_of(secret)) if secret else None
        if lock is None:
            return ""
        if lock.key.revoked_s is not None:
            return f"{lock.key.id} is revoked"
        expired = lock.key.expires_s is not None and time.time() >= lock.key.expires_s
        return f"{lock.key.id} has expired" if expired else f"a secret of {lock.key.id} before its rotation"

    def refresh(self) -> None:
        """Take over changes of the accounts. Raises RetrievalError."""
        version = self._accounts.version()
        if version and version != self._version:
            self._locks = {lock.hash: lock for lock in self._accounts.key_hashes()}
            self._version = version
            self.closed = True

    async def watch(self) -> None:
        """Refresh every second, for ever."""
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                await asyncio.to_thread(self.refresh)
                self.trouble = ""
            except RetrievalError as error:
                if str(error) != self.trouble:
                    log.error("keys are as they were: %s", error)
                self.trouble = str(error)
