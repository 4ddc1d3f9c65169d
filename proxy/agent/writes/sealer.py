"""The secret of the database of writes, a random value: the keys for sealing, codes and signatures come from it.

If the environment has a master key, the secret is stored sealed: a person with the database alone can neither read a
sealed request, nor find a code, nor sign an entry of the log. Without a master key, the secret stands in the database,
and a copy of the file has all.
"""

import base64
import hashlib
import hmac
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from runtime.errors import RetrievalError
from runtime.sealing import MasterKey, SealingError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from sqlalchemy import Connection

_BYTES = 32
_ROW = 1
_PLACE = ("the secret of the database of writes",)
_CODE_ID_CHARS = 12


class Sealer:
    """Makes and opens the secret of a database."""

    def __init__(self, master: MasterKey | None) -> None:
        """master: None stores the secret as it is."""
        self._master = master

    def secret(self, sql: "Connection", *, make: bool) -> "WriteSecret | None":
        """The secret of the database; None: none was made yet. make: within an exclusive transaction.

        Raises SealingError for another master key, and RetrievalError for a secret from before the master key: whoever
        may write the database could put such a secret there.
        """
        from sqlalchemy import select

        from proxy.agent.writes.tables import secret

        row = sql.execute(select(secret.c.value, secret.c.sealed).where(secret.c.id == _ROW)).one_or_none()
        if row is None:
            if not make:
                return None
            value = os.urandom(_BYTES)
            sql.execute(secret.insert().values(id=_ROW, **self._stored(value)))
            return WriteSecret(value)
        if row.sealed and self._master is None:
            raise SealingError("the database of writes was made with a master key: set RAGWAY_MASTER_KEY again")
        if not row.sealed and self._master is not None:
            raise RetrievalError(
                "the secret of the database of writes is not sealed yet: run `ragway keys credentials reseal` once"
            )
        return WriteSecret(self._opened(row.value, row.sealed))

    def reseal(self, sql: "Connection") -> int:
        """Seal the secret with the newest master key, within an exclusive transaction; returns the number sealed."""
        from sqlalchemy import select

        from proxy.agent.writes.tables import secret

        row = sql.execute(select(secret.c.value, secret.c.sealed).where(secret.c.id == _ROW)).one_or_none()
        if row is None or self._master is None:
            return 0
        sql.execute(
            secret.update().where(secret.c.id == _ROW).values(self._stored(self._opened(row.value, row.sealed)))
        )
        return 1

    def _stored(self, value: bytes) -> dict[str, object]:
        if self._master is None:
            return {"value": value, "sealed": 0}
        return {"value": self._master.seal(base64.b64encode(value).decode(), _PLACE), "sealed": 1}

    def _opened(self, value: bytes, sealed: int) -> bytes:
        if not sealed or self._master is None:
            return value
        return base64.b64decode(self._master.open(value, _PLACE))


class WriteSecret:
    """The keys that are derived from a database's secret."""

    def __init__(self, value: bytes) -> None:
        self._value = value

    def seal(self, text: str, place: Sequence[str]) -> bytes:
        """The sealed text, for this place alone."""
        return self._seals().seal(text, place)

    def open(self, sealed: bytes, place: Sequence[str]) -> str:
        """The text. Raises SealingError for another place or a changed text."""
        return self._seals().open(sealed, place)

    def code_digest(self, code: str, group: str) -> bytes:
        """What is stored of a code: 40 bits under a plain hash are found within minutes."""
        return hmac.digest(self._key(b"code"), f"{group} {code}".encode(), hashlib.sha256)

    def code_id(self, code: str, group: str) -> str:
        """The name of a code in the log, from which the code cannot be found."""
        return hmac.digest(self._key(b"code id"), f"{group} {code}".encode(), hashlib.sha256).hex()[:_CODE_ID_CHARS]

    def signing_key(self) -> "Ed25519PrivateKey":
        """Signs the log and the receipts."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self._key(b"sign"))

    def state_key(self) -> bytes:
        """Seals what a client keeps between two requests."""
        return self._key(b"state")

    def _seals(self) -> MasterKey:
        return MasterKey(base64.b64encode(self._key(b"seal")).decode(), "the database of writes")

    def _key(self, purpose: bytes) -> bytes:
        return hmac.digest(self._value, b"ragway writes: " + purpose, hashlib.sha256)
