"""Keys as a request meets them: looked up by their hash, in memory, as the accounts have them a second ago.

While there has never been a key, everybody who can reach the gateway may do everything (and `auth` sees to it who can
reach it). From the first one on, who shows none that is valid may do nothing, also where the accounts cannot be read:
what was revoked meanwhile is then known late, what is new is not known, and nobody gains a right.
"""

import asyncio
import hashlib
import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from proxy.access.limits import UNLIMITED, Limits
from proxy.access.rights import Rights
from proxy.errors import Headers
from retrieval.errors import RetrievalError

log = logging.getLogger("ragway")
PREFIX = "sk-rag-"  # of every key of ours
_SECRET_BYTES = 32  # drawn by the system: nothing about a key can be derived or guessed
_LOOK_S = 1.0  # between two looks at the accounts; a revocation counts within 5


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


@dataclass(frozen=True, slots=True)
class Lock:
    """What opens with a secret: the key, from the secret's hash, until a time."""

    hash: bytes
    key: Key
    until_s: float  # inf: for good


class Accounts(Protocol):
    """Where keys are kept."""

    def version(self) -> int:
        """0 while there has never been a key; another number after each change. Raises RetrievalError."""
        ...

    def locks(self) -> Sequence[Lock]:
        """Of all keys that are not revoked. Raises RetrievalError."""
        ...


def new_secret() -> str:
    """A key as its holder has it; only `hash_of` it is kept."""
    return PREFIX + secrets.token_urlsafe(_SECRET_BYTES)


def hash_of(secret: str) -> bytes:
    """SHA-256: of 256 random bits nothing slower is needed."""
    return hashlib.sha256(secret.encode()).digest()


def bearer(headers: Headers) -> str:
    """The secret of the one `Authorization: Bearer SECRET`; "" where there is none, or two, or something else."""
    given = [value for name, value in headers if name == b"authorization"]
    if len(given) != 1:
        return ""
    scheme, _, secret = given[0].strip().partition(b" ")
    secret = secret.strip()
    return secret.decode("ascii") if scheme.lower() == b"bearer" and secret.isascii() else ""


class Keyring:
    """All valid keys, by the hash of their secret."""

    def __init__(self, accounts: Accounts, *, required: bool) -> None:
        """required: whether a key is needed also while there has never been one.

        Raises RetrievalError where the accounts cannot be read: without them nobody could be told apart.
        """
        self._accounts = accounts
        self._version = 0
        self._locks: Mapping[bytes, Lock] = {}
        self._trouble = ""
        self.closed = required  # a key is needed
        self.look()

    def key_of(self, secret: str) -> Key | None:
        """The key with this secret, where it is valid now."""
        lock = self._locks.get(hash_of(secret))
        if lock is None or time.time() >= lock.until_s:
            return None
        return lock.key

    def look(self) -> None:
        """Take over what has changed. Raises RetrievalError."""
        version = self._accounts.version()
        if version and version != self._version:
            self._locks = {lock.hash: lock for lock in self._accounts.locks()}
            self._version = version
            self.closed = True

    async def watch(self) -> None:
        """Look again and again, for ever."""
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                await asyncio.to_thread(self.look)
                self._trouble = ""
            except RetrievalError as error:
                if str(error) != self._trouble:
                    log.error("keys are as they were: %s", error)
                self._trouble = str(error)
