"""The log: what it says, and that no change of it stays unseen. Receipts: that no bit of them may change."""

import contextlib
import json
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from proxy.agent.writes.audit import Head, LogEntry, hash_of, text_digest
from proxy.agent.writes.pending import PendingStore
from proxy.agent.writes.signed_receipts import (
    BadReceipt,
    ReceiptStep,
    WriteReceipt,
    checked,
    key_id,
    key_of_text,
    key_text,
    receipt_of,
)
from tests.proxy.agent.writes.writing import CODE, NOW_S, OTHER_CODE, WHOSE, add, claim, claimed, opened


@pytest.fixture
def store(tmp_path: Path) -> PendingStore:
    return lived_through(opened(tmp_path, content=True))


def lived_through(store: PendingStore) -> PendingStore:
    """Two writes done and unknown, one given up, one with a wrong code, one that waits."""
    first, second = add(store, 2, group="gr-1")
    claimed(store, group="gr-1")
    store.sending(first.id)
    store.finish(first.id, "done", 204, "gone")
    store.sending(second.id)
    store.finish(second.id, "unknown", 0)
    add(store, group="gr-2", conversation="d")
    store.void(WHOSE["key"], "d")
    add(store, group="gr-3", conversation="e", person="bob")
    claim(store, "gr-3", code=OTHER_CODE, conversation="e", person="bob")
    return store


def entries(store: PendingStore, **chosen: Any) -> list[LogEntry]:
    return [entry for entry, _ in store.log.entries(**chosen)]


def problems(store: PendingStore, *statements: str, known: Sequence[Head] = ()) -> list[str]:
    """What `verify` finds in a copy of the database that was changed by hand."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(store._file.parent, folder, dirs_exist_ok=True)
        with contextlib.closing(sqlite3.connect(Path(folder) / store._file.name)) as sql, sql:
            for statement in statements:
                assert sql.execute(statement).rowcount, statement
        with contextlib.closing(opened(Path(folder))) as copy:
            return copy.log.verify(known).problems


def test_each_step_is_an_entry(store: PendingStore) -> None:
    found = entries(store)
    assert [one.n for one in found] == list(range(1, len(found) + 1))
    first = [one for one in found if one.write == found[0].write]
    assert [(one.event, one.state) for one in first] == [
        ("asked", "pending"), ("shown", "pending"), ("confirmed", "claimed"), ("sent", "claimed"), ("answered", "done"),
    ]  # fmt: skip
    asked, shown, confirmed, sent, answered = first
    assert (asked.key, asked.person, asked.set, asked.operation) == ("key-a", "ann", "shop", "deleteOrder")
    assert (asked.at_s, asked.revision, asked.arguments) == (NOW_S, "0" * 32, text_digest('{"id": 17}'))
    assert shown.shown == text_digest("DELETE https://shop.example/api/orders/17")
    assert asked.request == confirmed.request == sent.request != ""
    assert shown.code == confirmed.code != ""
    assert CODE not in shown.code
    assert (answered.status, answered.answer) == (204, text_digest("gone"))
    others = [(one.event, one.why) for one in found if one.group != "gr-1"]
    assert others == [
        ("asked", ""), ("shown", ""), ("void", ""), ("asked", ""), ("shown", ""), ("refused", "wrong_code"),
    ]  # fmt: skip
    assert [one.event for one in entries(store, state="unknown")] == ["unknown"]
    assert {one.group for one in entries(store, key="key-a")} == {"gr-1", "gr-2", "gr-3"}
    assert entries(store, key="") == entries(store, set="other") == entries(store, since_s=NOW_S + 1) == []
    assert store.log.verify().problems == []
    assert store.log.verify().head == Head(len(found), hash_of(found[-1]))


def test_contents_are_kept_where_asked_for_and_may_be_deleted(store: PendingStore, tmp_path: Path) -> None:
    contents = {entry.event: content for entry, content in store.log.entries() if content}
    assert contents == {
        "asked": '{"id": 17}', "shown": "DELETE https://shop.example/api/orders/17", "answered": "gone",
    }  # fmt: skip
    assert problems(store, "UPDATE write_log SET content = 'other' WHERE n = 1") == [
        "the content of entry 1 was changed"
    ]
    assert problems(store, "UPDATE write_log SET content = ''") == []
    (folder := tmp_path / "without").mkdir()
    without = lived_through(opened(folder))
    assert {content for _, content in without.log.entries()} == {""}


@pytest.mark.parametrize("column", [*LogEntry.__struct_fields__, "signature"])
def test_no_change_of_an_entry_stays_unseen(store: PendingStore, column: str) -> None:
    other = {"n": "1000 + n", "signature": "zeroblob(64)"}
    other |= {number: f'"{number}" + 1' for number in ("number", "status", "at_s")}
    count = len(entries(store))
    for n in (1, count // 2, count):
        value = other.get(column, f"\"{column}\" || 'x'")
        assert problems(store, f'UPDATE write_log SET "{column}" = {value} WHERE n = {n}'), n


def test_no_removed_entry_stays_unseen(store: PendingStore) -> None:
    for n in range(1, len(entries(store)) + 1):
        assert problems(store, f"DELETE FROM write_log WHERE n = {n}"), n
        assert problems(store, f"DELETE FROM write_log WHERE n >= {n}"), n
        assert problems(store, f"DELETE FROM write_log WHERE n <= {n}"), n


def test_no_other_order_stays_unseen(store: PendingStore) -> None:
    for n in range(1, len(entries(store))):
        swapped = (f"UPDATE write_log SET n = {to} WHERE n = {at}" for at, to in ((n, -1), (n + 1, n), (-1, n + 1)))
        assert problems(store, *swapped), n


def test_a_write_that_was_changed_by_hand_is_found(store: PendingStore) -> None:
    assert problems(store, "UPDATE writes SET state = 'pending' WHERE state = 'unknown'")
    assert problems(store, "UPDATE writes SET id = id || 'x' WHERE number = 2")


def test_whoever_writes_the_chain_again_needs_the_key(store: PendingStore) -> None:
    """Hashes alone could be made again by anybody who may write the database."""
    chain = entries(store)
    forged = [msgspec.structs.replace(chain[0], person="eve")]
    for entry in chain[1:]:
        earlier = next((hash_of(one) for one in reversed(forged) if one.write == entry.write), "")
        forged.append(msgspec.structs.replace(entry, previous=hash_of(forged[-1]), earlier=earlier))
    updates = [
        f"UPDATE write_log SET person = '{one.person}', previous = '{one.previous}', earlier = '{one.earlier}' "
        f"WHERE n = {one.n}"
        for one in forged
    ]
    found = problems(store, *updates)
    assert f"entry {len(chain)} was changed, or was not written by this gateway" in found
    assert problems(store, "UPDATE write_secret SET value = zeroblob(32)")


def test_a_noted_head_shows_that_the_newest_writes_are_gone(store: PendingStore) -> None:
    head = store.log.verify().head
    last = entries(store)[-1].write
    gone = (f"DELETE FROM write_log WHERE write = '{last}'", f"DELETE FROM writes WHERE id = '{last}'")
    assert problems(store, *gone) == []
    assert f"entry {head.n} was there" in problems(store, *gone, known=[head])[0]
    assert problems(store, known=[head, Head(1, hash_of(entries(store)[0]))]) == []
    assert problems(store, known=[Head(2, "0" * 64)]) == ["entry 2 is not the entry that was noted"]


def test_a_log_may_grow_while_it_is_checked(store: PendingStore) -> None:
    ended = threading.Event()

    def grow() -> None:
        for n in range(40):
            add(store, group=f"gr-{n + 10}")
        ended.set()

    checker = opened(store._file.parent)
    with ThreadPoolExecutor(1) as threads:
        growing = threads.submit(grow)
        while not ended.is_set() and not growing.done():
            assert checker.log.verify().problems == []
        growing.result()
    checker.close()


# Receipts


@pytest.fixture
def receipt(store: PendingStore) -> str:
    found = receipt_of(store.log, entries(store)[0].write)
    assert found is not None
    return found


@pytest.fixture
def public_key(store: PendingStore) -> Ed25519PublicKey:
    key = store.log.signing_key()
    assert key is not None
    return key.public_key()


def test_a_receipt_has_every_step_of_its_write(store: PendingStore, receipt: str, public_key: Ed25519PublicKey) -> None:
    read = checked(f"{receipt}\n", public_key)
    assert [step.entry for step in read.steps] == entries(store, write=read.write)
    assert [step.content for step in read.steps] == [content for _, content in store.log.entries(write=read.write)]
    assert [step.entry.event for step in read.steps] == ["asked", "shown", "confirmed", "sent", "answered"]
    assert receipt_of(store.log, "pw-0") is None


def test_another_program_reads_it_too(receipt: str, public_key: Ed25519PublicKey) -> None:
    payload = jwt.api_jws.decode_complete(receipt, public_key, algorithms=["EdDSA"])
    assert json.loads(payload["payload"])["steps"][1]["entry"]["event"] == "shown"
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": key_text(public_key)}
    assert jwt.PyJWK(jwk, "EdDSA").key == public_key == key_of_text(key_text(public_key))
    assert payload["header"] == {"alg": "EdDSA", "kid": key_id(public_key), "typ": "ragway-write"}


def test_no_bit_of_a_receipt_may_change(receipt: str, public_key: Ed25519PublicKey) -> None:
    raw = f"{receipt}\n".encode()
    bits = len(raw) * 8
    for at in {*range(0, bits, 5), *range(bits - 40, bits)}:  # all bits take five seconds
        flipped = bytearray(raw)
        flipped[at // 8] ^= 1 << at % 8
        with pytest.raises(BadReceipt):
            checked(flipped.decode("latin-1"), public_key)


def test_a_receipt_of_another_gateway_is_refused(receipt: str) -> None:
    with pytest.raises(BadReceipt, match="another key signed the receipt"):
        checked(receipt, Ed25519PrivateKey.generate().public_key())
    with pytest.raises(BadReceipt, match="43 letters"):
        key_of_text("AAAA")


def test_what_the_key_signed_is_complete_and_a_receipt(
    store: PendingStore, receipt: str, public_key: Ed25519PublicKey
) -> None:
    """Also if somebody who has the key leaves something out."""
    key = store.log.signing_key()
    assert key is not None
    read = checked(receipt, public_key)

    def signed(steps: Sequence[ReceiptStep], typ: str = "ragway-write") -> str:
        payload = msgspec.json.encode(WriteReceipt(read.write, tuple(steps)))
        return jwt.api_jws.encode(payload, key, "EdDSA", {"typ": typ, "kid": ""})

    assert checked(signed(read.steps), public_key) == read
    for steps in ((), read.steps[1:], (*read.steps[:2], *read.steps[3:]), read.steps[::-1]):
        with pytest.raises(BadReceipt, match="a step of the write is missing"):
            checked(signed(steps), public_key)
    with pytest.raises(BadReceipt, match="something else than a receipt"):
        checked(signed(read.steps, "JWT"), public_key)
    shown = msgspec.structs.replace(read.steps[1], content="DELETE /orders/18")
    with pytest.raises(BadReceipt, match="the content of the step “shown” was changed"):
        checked(signed([read.steps[0], shown, *read.steps[2:]]), public_key)
    other = msgspec.structs.replace(read.steps[0], entry=msgspec.structs.replace(read.steps[0].entry, write="pw-1"))
    with pytest.raises(BadReceipt, match="a step is of another write"):
        checked(signed([other]), public_key)
