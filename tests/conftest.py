"""Fixtures are real things: documents on disk, a prepared embedder, a served gateway."""

import contextlib
import gc
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from hashlib import sha256
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from filelock import FileLock
from hypothesis import HealthCheck, settings

from proxy.access.sql import SqlAccounts
from retrieval.catalog.catalog import Catalog
from retrieval.embedding import export
from retrieval.embedding.export import open_embedder
from runtime import sandbox
from tests.support.gateway import Served, ragway, serving
from tests.support.memory import Memory
from tests.support.plans import plan_for
from tests.support.postgres_server import Postgres, running
from tests.support.processes import kill_marked, mark
from tests.support.tiers import tier_of, together, turn
from tests.support.tiny_model import make_tiny_model

MEMORY = Memory()

# What comes out is tested, not how soon: a busy machine fails nothing.
settings.register_profile("ragway", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fast", settings.get_profile("ragway"), max_examples=25)
settings.load_profile("ragway")

CORPUS = {
    "connect.md": """# Connecting

Use `Client.connect(url)` to open a session with the Zephyr server.

## TLS

Pass `tls=True` and the path of the certificate authority as `ca_file` to encrypt the connection on the wire.
""",
    "kotlin.md": """---
title: Zephyr from Kotlin
---

# Install

Add the coroutine driver to Gradle:

```kotlin
implementation("org.zephyr:zephyr-driver-kotlin-coroutine:5.1.0")
```
""",
    "java.md": """# Zephyr from Java

Add the synchronous driver to Maven:

```xml
<artifactId>zephyr-driver-sync</artifactId>
```

Insert one record with `collection.insertOne(record)`.
""",
    "errors.txt": "EADDRNOTAVAIL (99) means that the Zephyr client has no free local port left: widen the port range.",
    "pets.html": "<html><head><title>Pets</title></head><body><p>The office dog is called Bruno.</p></body></html>",
}


@pytest.fixture
def children() -> Callable[[], list[BaseProcess]]:
    """List the child processes that started since the test began: earlier tests of the run may leave idle ones."""
    before = multiprocessing.active_children()
    return lambda: [process for process in multiprocessing.active_children() if process not in before]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import the tests of a tier that `-m` leaves out."""
    tier = tier_of(collection_path.relative_to(Path(__file__).parent).as_posix()) if collection_path.is_file() else ""
    return True if tier and f"not {tier}" in config.option.markexpr else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    paths = {item.path: item.path.relative_to(Path(__file__).parent).as_posix() for item in items}
    items.sort(key=lambda item: turn(paths[item.path]))
    for item in items:
        if tier := tier_of(paths[item.path]):
            item.add_marker(tier)


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Collect no garbage while thousands of tests are made: it takes a third of the time and finds little."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep what was imported out of later collections."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)  # unknown with -p no:xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Each file, or each group of files that shares something large, goes to one worker."""
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False  # by `turn`, and not by the number of tests
    scheduler: Any = LoadScopeScheduling(config, log)
    scheduler._split_scope = lambda nodeid: together(nodeid.partition("::")[0])
    return scheduler


def pytest_configure(config: pytest.Config) -> None:
    if "not system" in config.option.markexpr:  # `make test`
        settings.load_profile("fast")
    # An HTTP client reads all trusted certificates when it is made: 45 ms of processor time, and here it speaks to
    # loopback alone. The certificate in this file has expired, and nobody has its key.
    os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "support" / "nobody.pem")
    # A process that imports everything anew needs .7 s of processor time to read its first document; a fork .15 s.
    sandbox.CONTEXT = multiprocessing.get_context("forkserver")
    if "PYTEST_XDIST_WORKER" not in os.environ:
        mark()
        # A shell that starts a job in the background has the job ignore Ctrl-C; a test run never does.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_keyboard_interrupt() -> None:
    """End at once: workers and servers would take their time, and a server has a session of its own."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        kill_marked()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Have a worker report a test once, and set-up and teardown only if they fail.

    For a short test, three reports cost more than the test: some .6 ms of processor time each, here and in the main
    process.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return None  # pytest's own way
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_runtest_logfinish() -> None:
    MEMORY.release()


@pytest.fixture(scope="session")
def models(request: pytest.FixtureRequest) -> Path:
    """A cache with the default embedder prepared: shared by all data folders, and by test runs (pytest's cache).

    Preparing takes up to half a minute. It is done again when the code that does it has changed.
    """
    made_by = sha256(Path(export.__file__).read_bytes()).hexdigest()[:12]
    cache: Path = request.config.cache.mkdir(f"embedder-{made_by}")
    with FileLock(cache / "lock"):  # of two workers, one prepares and the other waits
        options = plan_for(cache, model="all-MiniLM-L6-v2").embedding  # with the 8-bit graph, where it is used
        open_embedder("all-MiniLM-L6-v2", backend="auto", threads=1, cache=cache, options=options)
    return cache


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentence-transformers model of random weights and dimension 16, saved to a folder."""
    return make_tiny_model(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server, for tests that leave it running."""
    with running() as server:
        yield server


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """An empty data folder."""
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def data_with_model(data: Path, models: Path) -> Path:
    """An empty data folder with the default embedder prepared."""
    (data / "models").symlink_to(models)
    return data


def _write_corpus(folder: Path) -> Path:
    folder.mkdir()
    for name, text in CORPUS.items():
        (folder / name).write_text(text, "utf-8")
    return folder


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder of five small documents about an invented database."""
    return _write_corpus(tmp_path / "handbook")


@pytest.fixture(scope="session")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Makes data folders in which the corpus is ingested as the collection `docs`, for fixtures that outlive a test."""

    def learn() -> Path:
        folder = tmp_path_factory.mktemp("learned")
        data = folder / "data"
        data.mkdir()
        corpus = _write_corpus(folder / "handbook")
        done = ragway("ingest", str(corpus), "--collection", "docs", "--data", str(data), folder=folder)
        assert done.returncode == 0, done.stderr
        return data

    return learn


@pytest.fixture
def served(data: Path, tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Starts `ragway serve` as a process of its own, on the `data` folder; all are ended after the test."""
    with contextlib.ExitStack() as running:
        yield lambda settings="", **environ: running.enter_context(serving(data, tmp_path, settings, **environ))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where an SQLite catalog may be made."""
    return tmp_path / "catalog.sqlite"


@pytest.fixture(params=["sqlite", "postgresql"])
def reopened(request: pytest.FixtureRequest, file: Path) -> Callable[[], Catalog]:
    """Opens the same catalog each time."""
    if request.param == "sqlite":
        return lambda: Catalog.open(file)
    url = request.getfixturevalue("postgres").database()
    return lambda: Catalog.connect(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def catalog_url(request: pytest.FixtureRequest) -> str:
    """The setting `catalog.url` of each database."""
    url: str = request.getfixturevalue("postgres").database() if request.param == "postgresql" else ""
    return url


@pytest.fixture
def opened(catalog_url: str, tmp_path: Path) -> Iterator[Callable[[], SqlAccounts]]:
    """Opens the same accounts each time."""
    made: list[SqlAccounts] = []

    def another() -> SqlAccounts:
        made.append(SqlAccounts(tmp_path, catalog_url))
        return made[-1]

    yield another
    for accounts in made:
        accounts.close()
