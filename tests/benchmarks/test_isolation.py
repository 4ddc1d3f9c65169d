"""The isolation trial: it sees what leaks, and a gateway of ours leaks nothing in some hundred calls."""

from pathlib import Path
from random import Random

import pytest

from benchmarks.common.load import Reply
from benchmarks.isolation import isolation
from benchmarks.isolation.isolation import Call, Caller, Seen, World, judge

OURS, THEIRS = b"zq000000000001", b"zq000000000002"
WORLD = World(["kxaaaaaaaaaaaa", "kxbbbbbbbbbbbb"], {OURS: "kxaaaaaaaaaaaa", THEIRS: "kxbbbbbbbbbbbb",
              b"kxaaaaaaaaaaaa": "kxaaaaaaaaaaaa", b"kxbbbbbbbbbbbb": "kxbbbbbbbbbbbb"})  # fmt: skip
READER = Caller("secret", ("kxaaaaaaaaaaaa",))


def judged(body: bytes, *, status: int = 200, due: int = 200, said: bytes = b"", header: bytes = b"") -> Seen:
    seen = Seen()
    call = Call("chat", b"", due, frozenset([said] if said else []))
    judge(call, READER, Reply(status, {b"x-rag-sources": header}, bytearray(body)), WORLD, seen)
    return seen


def test_what_is_ones_own_is_counted_and_what_is_not_is_named() -> None:
    own = judged(b"it is called " + OURS)
    assert (own.own, own.wrong) == (1, [])
    for leak in (judged(b"it is called " + THEIRS), judged(b"in kxbbbbbbbbbbbb"), judged(b"", header=THEIRS)):
        assert len(leak.wrong) == 1
    assert judged(b"there is no collection kxbbbbbbbbbbbb", status=404, due=404, said=b"kxbbbbbbbbbbbb").wrong == []
    assert len(judged(b"it is called " + OURS, status=401, due=401).wrong) == 1, "nobody is shown anything"
    assert len(judged(b"", status=500).wrong) == 1


@pytest.mark.parametrize("workers", [1, 2])
def test_no_key_sees_what_is_not_its_own(tmp_path: Path, models: Path, workers: int) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "models").symlink_to(models)
    random = Random(workers)
    world = isolation.make_world(data, random)
    with isolation.gateway(tmp_path, data, world, workers) as running:
        seen = isolation.run(running.port, world, random, 300, writes=0.05)
    assert seen.wrong == []
    assert seen.own > 50
    assert {kind.partition(",")[0] for kind in seen.kinds} == {
        "chat", "search", "store search", "collection", "document", "list", "no key", "made", "put", "upload", "delete",
        "file", "shelf", "trespass",
    }  # fmt: skip
