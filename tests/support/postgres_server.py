"""A PostgreSQL of its own on loopback, in a folder that goes away with it; skipped where none is installed.

It runs as the user `postgres` where the tests run as root, which it refuses to be.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

_SCHEMAS = count()
_STARTS_S = 30.0


def programs() -> Path | None:
    """The folder of initdb and postgres: Debian has them outside of PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    if found:
        return found[-1].parent
    initdb = shutil.which("initdb")
    return Path(initdb).resolve().parent if initdb else None


@dataclass(slots=True)
class Postgres:
    """A server that can be stopped and started again."""

    bin: Path
    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "fsync": "off",
            "max_connections": "300",
        }
        flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            command = [str(self.bin / "postgres"), "-D", str(self.folder / "data"), *flags]
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, user=_user(), group=_user(), extra_groups=_groups()
            )
        until = time.monotonic() + _STARTS_S
        ready = [str(self.bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(ready, check=False).returncode:
            assert self.process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < until, (self.folder / "log").read_text()

    def stop(self) -> None:
        """Stop it without waiting for anybody who is connected."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait()
            self.process = None

    def database(self) -> str:
        """The address of an empty database: a schema of its own in the only one there is."""
        import psycopg

        schema = f"test_{next(_SCHEMAS)}"
        with psycopg.connect(self._base, autocommit=True) as sql:
            sql.execute(f"CREATE SCHEMA {schema}".encode())
        return f"{self._base}?options=-csearch_path%3D{schema}"

    def value(self, query: str) -> object:
        """The one value that a query returns."""
        import psycopg

        with psycopg.connect(self._base, autocommit=True) as sql:
            (value,) = sql.execute(query.encode()).fetchone() or (None,)
        return value

    @property
    def _base(self) -> str:
        return f"postgresql://postgres:s3cret-database@127.0.0.1:{self.port}/postgres"


@contextlib.contextmanager
def running() -> Iterator[Postgres]:
    """One that runs as long as the block."""
    found = programs()
    if found is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt install postgresql)")
    with tempfile.TemporaryDirectory(prefix="ragway-postgres-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if os.getuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        password = folder / "password"
        password.write_text("s3cret-database")
        password.chmod(0o644)
        command = [
            str(found / "initdb"), "-D", str(folder / "data"), "-U", "postgres", "-A", "scram-sha-256", "--pwfile",
            str(password), "-E", "UTF8", "--locale", "C.UTF-8", "--no-sync",
        ]  # fmt: skip
        made = subprocess.run(
            command, check=False, capture_output=True, text=True, user=_user(), group=_user(), extra_groups=_groups()
        )
        assert made.returncode == 0, made.stderr
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = Postgres(found, folder, port)
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _user() -> str | None:
    return "postgres" if os.getuid() == 0 else None


def _groups() -> list[str] | None:
    return [] if os.getuid() == 0 else None
