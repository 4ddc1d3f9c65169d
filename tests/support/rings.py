"""Keyrings for tests that need no accounts on a disk."""

from collections.abc import Sequence
from math import inf

from proxy.access.keys import Key, KeyHash, Keyring, hash_of
from proxy.caller import Rights


class Held:
    """Accounts in memory."""

    def __init__(self, locks: Sequence[KeyHash]) -> None:
        self.held = list(locks)
        self.changes = len(self.held)

    def version(self) -> int:
        return self.changes

    def key_hashes(self) -> Sequence[KeyHash]:
        return self.held


def key_hash_of(secret: str, rights: Rights, until_s: float = inf) -> KeyHash:
    """A key with this secret."""
    return KeyHash(hash_of(secret), Key(f"key-{secret}", secret, "", rights, 0.0), until_s)


def ring(*locks: KeyHash, required: bool = False) -> Keyring:
    """The keyring of these keys; without any it is open."""
    return Keyring(Held(locks), required=required)
