"""Keys: what opens, what does not, and that every failure is the same."""

import asyncio
import threading
import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.access.auth import Guard
from proxy.access.keys import KeyHash, Keyring, bearer, hash_of, new_secret
from proxy.asgi import Message, Receive, Scope, Send
from proxy.caller import EVERYTHING, NOTHING, Names, Rights
from proxy.dialects.errors import ApiError, Headers
from proxy.exchange import EXCHANGE, Exchange
from retrieval.errors import RetrievalError
from retrieval.records.documents import is_reserved
from tests.support.rings import Held, key_hash_of, ring

MINE = "sk-rag-mine"
READER = Rights(read=Names(["docs"]))


async def admitted(headers: Headers, keyring: Keyring, path: str = "/v1/models") -> tuple[Exchange, Headers]:
    """What those behind the guard see. Raises the ApiError of a refusal."""
    seen: list[Headers] = []

    async def inside(scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append(scope["headers"])

    async def never(*_: object) -> Message:
        raise AssertionError("the guard looks at the head of a request only")

    exchange = Exchange()
    scope: Scope = {"type": "http", "method": "GET", "path": path, "headers": headers, EXCHANGE: exchange}
    guard = Guard(inside, keyring=keyring, open=False, origins=())
    await guard(scope, never, never)  # type: ignore[arg-type]
    (headers,) = seen
    return exchange, headers


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_a_key_opens_and_travels_no_further(scheme: str) -> None:
    keyring = ring(key_hash_of(MINE, READER))
    exchange, seen = await admitted([(b"x", b"1"), (b"authorization", f"{scheme} {MINE}".encode())], keyring)
    assert (exchange.rights, exchange.key) == (READER, f"key-{MINE}")
    assert seen == [(b"x", b"1")]


BEARER = (b"authorization", f"Bearer {MINE}".encode())
UPSTREAMS = (b"x-api-key", b"sk-ant-1")


@pytest.mark.parametrize("sent", [[], [BEARER]])
async def test_a_key_as_x_api_key_opens_and_travels_no_further(sent: Headers) -> None:
    headers = [(b"x", b"1"), (b"x-api-key", MINE.encode()), *sent]
    exchange, seen = await admitted(headers, ring(key_hash_of(MINE, READER)))
    assert (exchange.rights, seen) == (READER, [(b"x", b"1")])


async def test_an_x_api_key_for_the_upstream_stays() -> None:
    exchange, seen = await admitted([BEARER, UPSTREAMS], ring(key_hash_of(MINE, READER)))
    assert (exchange.rights, seen) == (READER, [UPSTREAMS])


@pytest.mark.parametrize("other", [(b"authorization", b"Bearer sk-ant-1"), (b"x-api-key", b"sk-rag-other")])
async def test_two_keys_are_a_400(other: tuple[bytes, bytes]) -> None:
    with pytest.raises(ApiError, match="two different keys") as caught:
        await admitted([(b"x-api-key", MINE.encode()), other], ring(key_hash_of(MINE, READER)))
    assert (caught.value.status, caught.value.code) == (400, "conflicting_header")


REFUSED: dict[str, Headers] = {
    "none": [],
    "empty": [(b"authorization", b"")],
    "no secret": [(b"authorization", b"Bearer ")],
    "another": [(b"authorization", b"Bearer sk-rag-other")],
    "a beginning": [(b"authorization", b"Bearer sk-rag-min")],
    "more behind it": [(b"authorization", b"Bearer sk-rag-minee")],
    "two words": [(b"authorization", b"Bearer sk-rag-mine sk-rag-mine")],
    "two headers": [(b"authorization", b"Bearer sk-rag-mine"), (b"authorization", b"Bearer sk-rag-mine")],
    "another scheme": [(b"authorization", b"Basic sk-rag-mine")],
    "no scheme": [(b"authorization", b"sk-rag-mine")],
    "its hash": [(b"authorization", b"Bearer " + hash_of(MINE).hex().encode())],
    "not ASCII": [(b"authorization", b"Bearer sk-rag-m\xc3\xadne")],
    "NUL": [(b"authorization", b"Bearer sk-rag-mine\x00")],
    "SQL": [(b"authorization", b"Bearer ' or 1=1 --")],
    "another in x-api-key": [(b"x-api-key", b"sk-rag-other")],
    "a scheme in x-api-key": [(b"x-api-key", b"Bearer sk-rag-mine")],
    "a key of an upstream": [(b"x-api-key", b"sk-ant-1")],
    "api-key": [(b"api-key", b"sk-rag-mine")],
    "a megabyte": [(b"authorization", b"Bearer " + b"a" * 2**20)],
}


@pytest.mark.parametrize("headers", REFUSED.values(), ids=REFUSED)
async def test_everything_else_is_the_same_refusal(headers: Headers) -> None:
    with pytest.raises(ApiError) as caught:
        await admitted(headers, ring(key_hash_of(MINE, READER)))
    error = caught.value
    assert (error.status, error.code, error.headers) == (401, "invalid_api_key", [(b"www-authenticate", b"Bearer")])
    assert error.message.endswith("send one of this gateway's as Authorization: Bearer KEY, or as x-api-key: KEY.")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_health_needs_no_key_and_gives_no_rights(path: str) -> None:
    exchange, _ = await admitted([], ring(key_hash_of(MINE, READER)), path)
    assert exchange.rights == NOTHING


async def test_an_expired_key_is_no_key() -> None:
    shown = [(b"authorization", f"Bearer {MINE}".encode())]
    await admitted(shown, ring(key_hash_of(MINE, READER, time.time() + 60)))
    with pytest.raises(ApiError, match="No valid key"):
        await admitted(shown, ring(key_hash_of(MINE, READER, time.time() - 1)))


async def test_a_key_can_be_required_before_there_is_one() -> None:
    here = [(b"host", b"localhost")]
    exchange, _ = await admitted(here, ring())
    assert exchange.rights == EVERYTHING
    with pytest.raises(ApiError, match="No valid key"):
        await admitted(here, ring(required=True))


def test_the_last_key_that_goes_opens_nothing() -> None:
    held = Held([key_hash_of(MINE, READER)])
    keyring = Keyring(held, required=False)
    held.held, held.changes = [], 2  # revoked
    keyring.refresh()
    assert keyring.closed
    assert keyring.key_of(MINE) is None
    held.changes = 0  # and as if there had never been one
    keyring.refresh()
    assert keyring.closed


class Failing(Held):
    """Accounts that cannot be read from the second look on."""

    def __init__(self, locks: Sequence[KeyHash]) -> None:
        super().__init__(locks)
        self.failed = threading.Semaphore(0)
        self.fails = False

    def version(self) -> int:
        if self.fails:
            self.failed.release()
            raise RetrievalError("the disk is gone")
        return super().version()


async def test_what_cannot_be_read_leaves_the_keys_as_they_were(caplog: pytest.LogCaptureFixture) -> None:
    held = Failing([key_hash_of(MINE, READER)])
    keyring = Keyring(held, required=False)
    held.fails = True
    watching = asyncio.create_task(keyring.watch())
    for _ in range(2):  # with the second look the first is told
        assert await asyncio.to_thread(held.failed.acquire, timeout=100)
    watching.cancel()
    assert caplog.text.count("the disk is gone") == 1
    assert keyring.closed
    assert keyring.key_of(MINE) is not None
    with pytest.raises(RetrievalError, match="the disk is gone"):
        Keyring(held, required=False)


def test_secrets_are_long_and_differ() -> None:
    made = {new_secret() for _ in range(100)}
    assert len(made) == 100
    assert all(len(secret) >= 43 and bearer([(b"authorization", b"Bearer " + secret.encode())]) for secret in made)


NAMES = st.text(alphabet="ab-./é", max_size=6)


@given(st.lists(st.tuples(NAMES, st.booleans()), max_size=6), NAMES)
def test_names_are_granted_as_they_are_or_by_their_beginning(granted: list[tuple[str, bool]], name: str) -> None:
    names = Names([text + "*" if pattern else text for text, pattern in granted])
    beginnings = [text for text, pattern in granted if pattern and not is_reserved(name)]
    whole = [text for text, pattern in granted if not pattern]
    assert (name in names) is (name in whole or name.startswith(tuple(beginnings)))
    assert names.all is any(pattern and not text for text, pattern in granted)


def test_nothing_is_granted_that_was_not() -> None:
    assert "docs" not in NOTHING.read
    assert "m" not in NOTHING.models
    assert not NOTHING.admin
    assert "" not in Names(["docs"])
    assert "docs" not in Names(["docs2"])
    assert "Docs" not in Names(["docs"])
    for own in (".actions", ".memory.ann"):
        assert own not in Names(["*", ".*", own[:4] + "*"])
    assert "./models/a.gguf" in Names(["*"]), "a name of a model"
