"""Sealed values: database texts that only the master key opens (AES-256-GCM, a random nonce for each).

A value's place is authenticated with it: if a person copies it to another row, it does not open. The master key comes
from the environment, never from the database.
"""

import base64
import os
from collections.abc import Sequence

import orjson

from runtime.errors import RetrievalError

_VERSION = b"\x01"
_NONCE_BYTES = 12
_KEY_BYTES = 32
_MAKE = "openssl rand -base64 32"


class SealingError(RetrievalError):
    """A value cannot be sealed or opened. The text names the master key's variable, and has no secret."""


class MasterKey:
    """Seals with the newest master key; opens with any."""

    def __init__(self, text: str, variable: str) -> None:
        """text: the environment variable's value: keys in base64, newest first, with commas between.

        A bad text is an error at first use.
        """
        self._text, self._variable = text, variable

    def seal(self, value: str, place: Sequence[str]) -> bytes:
        """The sealed value, for this place only. Raises SealingError."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(_NONCE_BYTES)
        sealed = AESGCM(self._keys()[0]).encrypt(nonce, value.encode(), _bound(place))
        return _VERSION + nonce + sealed

    def open(self, sealed: bytes, place: Sequence[str]) -> str:
        """The value. Raises SealingError: another master key, another place or a changed value."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        start = len(_VERSION) + _NONCE_BYTES
        for key in self._keys() if sealed.startswith(_VERSION) and len(sealed) > start else ():
            try:
                return AESGCM(key).decrypt(sealed[len(_VERSION) : start], sealed[start:], _bound(place)).decode()
            except InvalidTag:
                continue
        raise SealingError(
            f"{' / '.join(place)} does not open with the master key in {self._variable}: add the key that sealed "
            "the value, after a comma, or store the value again"
        )

    def _keys(self) -> list[bytes]:
        if not self._text.strip():
            raise SealingError(f"the environment variable {self._variable} is not set: make a master key by `{_MAKE}`")
        try:
            keys = [base64.b64decode(part.strip(), validate=True) for part in self._text.split(",")]
        except ValueError:  # without a cause: its text may quote the key
            keys = []
        if not keys or any(len(key) != _KEY_BYTES for key in keys):
            raise SealingError(
                f"{self._variable} must have {_KEY_BYTES} random bytes in base64, as `{_MAKE}` prints, or several keys "
                "with commas between"
            )
        return keys


def _bound(place: Sequence[str]) -> bytes:
    """The place as bytes; two places never have the same bytes."""
    return orjson.dumps(list(place))
