"""A receipt of one write: what was asked, shown, confirmed, sent and answered, signed, and checked without the gateway.

A receipt is a JWS (RFC 7515, Ed25519) in compact form, which any JOSE library reads too. Its payload has the log's
entries of the write, each with the hash of the one before. A holder who keeps a receipt also keeps a proof of the log:
an entry that the log has lost or changed since then stands in the receipt.
"""

import base64
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from proxy.agent.writes.audit import ActionLog, LogEntry, digest_of_content, hash_of, text_digest

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

_TYPE = "ragway-write"
_RAW_BYTES = 32  # of a public key


class BadReceipt(ValueError):
    """A receipt that proves nothing; the text says why."""


class ReceiptStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step of the write."""

    entry: LogEntry
    content: str = ""  # if the log keeps contents


class WriteReceipt(msgspec.Struct, frozen=True):
    """The payload."""

    write: str
    steps: tuple[ReceiptStep, ...]


class _Header(msgspec.Struct, frozen=True):
    alg: str
    kid: str
    typ: str


def receipt_of(log: ActionLog, write: str) -> str | None:
    """The receipt of a write, so far; None: the log does not know the write. Raises RetrievalError."""
    steps = tuple(ReceiptStep(entry, content) for entry, content in log.entries(write=write))
    key = log.signing_key()
    if not steps or key is None:
        return None
    header = _Header("EdDSA", key_id(key.public_key()), _TYPE)
    signed = b".".join(_encoded(msgspec.json.encode(part)) for part in (header, WriteReceipt(write, steps)))
    return b".".join((signed, _encoded(key.sign(signed)))).decode()


def checked(receipt: str, public_key: "Ed25519PublicKey") -> WriteReceipt:
    """The content of a receipt that this key signed, complete and in order. Raises BadReceipt."""
    from cryptography.exceptions import InvalidSignature

    parts = receipt.removesuffix("\n").split(".")
    if len(parts) != 3:
        raise BadReceipt("this is not a receipt: it has not three parts with dots between")
    try:
        public_key.verify(_decoded(parts[2]), f"{parts[0]}.{parts[1]}".encode())
    except InvalidSignature:
        raise BadReceipt("another key signed the receipt, or somebody changed it") from None
    try:
        header = msgspec.json.decode(_decoded(parts[0]), type=_Header)
        content = msgspec.json.decode(_decoded(parts[1]), type=WriteReceipt)
    except msgspec.DecodeError as error:
        raise BadReceipt(f"the receipt is of a later version of ragway: {error}") from None
    if (header.alg, header.typ) != ("EdDSA", _TYPE):
        raise BadReceipt("the key signed something else than a receipt of a write")
    _check_chain(content)
    return content


def key_id(public_key: "Ed25519PublicKey") -> str:
    """The thumbprint of a public key (RFC 7638)."""
    jwk = f'{{"crv":"Ed25519","kty":"OKP","x":"{key_text(public_key)}"}}'
    return _encoded(hashlib.sha256(jwk.encode()).digest()).decode()


def key_text(public_key: "Ed25519PublicKey") -> str:
    """A public key as text: 43 characters, the `x` of its JWK (RFC 8037)."""
    return _encoded(public_key.public_bytes_raw()).decode()


def key_of_text(text: str) -> "Ed25519PublicKey":
    """The public key of `key_text`. Raises BadReceipt."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    raw = _decoded(text.strip())
    if len(raw) != _RAW_BYTES:
        raise BadReceipt("a public key has 43 letters, digits, - and _, as `ragway actions verify` prints it")
    return Ed25519PublicKey.from_public_bytes(raw)


def _check_chain(receipt: WriteReceipt) -> None:
    """Raises BadReceipt."""
    entries: Sequence[LogEntry] = [step.entry for step in receipt.steps]
    links = ["", *map(hash_of, entries)]
    if not entries or [one.earlier for one in entries] != links[:-1]:
        raise BadReceipt("a step of the write is missing")
    if {one.write for one in entries} != {receipt.write}:
        raise BadReceipt("a step is of another write")
    for step in receipt.steps:
        if step.content and text_digest(step.content) != digest_of_content(step.entry):
            raise BadReceipt(f"the content of the step “{step.entry.event}” was changed")


def _encoded(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


def _decoded(text: str) -> bytes:
    """Exactly one text has these bytes. Raises BadReceipt."""
    try:
        raw = base64.urlsafe_b64decode(text.encode("ascii") + b"==")
    except ValueError:
        raw = b""
    if _encoded(raw).decode() != text:
        raise BadReceipt("this is not base64url without padding")
    return raw
