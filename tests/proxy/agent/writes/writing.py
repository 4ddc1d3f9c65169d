"""Writes as the gateway stores them."""

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from proxy.agent.writes.pending import Claimed, Denied, PendingStore, PendingWrite, digest_of
from proxy.agent.writes.sealer import Sealer
from proxy.apis.request import ApiRequest
from runtime.sealing import MasterKey

CODE, OTHER_CODE = "KX7M-4QPD", "AAAA-2222"
NOW_S = 1_800_000_000.0
VALID_S = 600.0
WHOSE: dict[str, Any] = {"key": "key-a", "person": "ann", "conversation": "c" * 64, "rights": "r1"}


def request_of(number: int = 17, body: bytes = b'{"reason": "wrong size \xf0\x9f\x91\x9f"}') -> ApiRequest:
    return ApiRequest(
        "DELETE", f"https://shop.example/api/orders/{number}", (("content-type", "application/json"),), body
    )


def write_of(request: ApiRequest, *, number: int = 1, now_s: float = NOW_S, **changed: Any) -> PendingWrite:
    write = PendingWrite(
        id=f"pw-{secrets.token_hex(12)}",
        group="gr-1",
        number=number,
        set="shop",
        operation="deleteOrder",
        revision="0" * 32,
        digest=digest_of(request),
        arguments='{"id": 17}',
        shown=f"{request.method} {request.url}",
        created_s=now_s,
        expires_s=now_s + VALID_S,
        **WHOSE,
    )
    return msgspec.structs.replace(write, **changed)


def add(store: PendingStore, count: int = 1, *, code: str = CODE, **changed: Any) -> list[PendingWrite]:
    """A stored group of `count` writes of different orders."""
    requests = [request_of(17 + number) for number in range(count)]
    writes = [write_of(one, number=number, **changed) for number, one in enumerate(requests, 1)]
    store.add(writes, requests, code)
    return writes


def claim(
    store: PendingStore,
    group: str = "gr-1",
    *,
    code: str | None = CODE,
    numbers: tuple[int, ...] | None = None,
    **other: Any,
) -> Claimed | Denied:
    return store.claim(group, code=code, numbers=numbers, **{**WHOSE, **other})


def claimed(store: PendingStore, **given: Any) -> list[PendingWrite]:
    done = claim(store, **given)
    assert isinstance(done, Claimed), done
    return [*done.writes]


def opened(
    folder: Path,
    url: str = "",
    *,
    now_s: Callable[[], float] = lambda: NOW_S,
    master: MasterKey | None = None,
    content: bool = False,
) -> PendingStore:
    return PendingStore(folder, url, sealer=Sealer(master), log_content=content, now_s=now_s)
