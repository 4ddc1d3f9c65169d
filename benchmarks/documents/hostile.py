"""Hostile files over all formats, through `ragway ingest` and through the uploads of a real gateway.

    python benchmarks/documents/hostile.py [--megabytes N]

`hostile_files.py` makes them. Every file must be answered for, no other document may wait longer than the limit, the
gateway must still serve, and no connection and no file may be made. strace, a program of Debian's package of this name,
watches all system calls of the reading processes: from the call that confines one, it may open code to read, and
nothing else. Exit code 1: something escaped, or a file has no answer.
"""

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common.output import say, table
from benchmarks.documents.hostile_files import hostile_files

ROOT = Path(__file__).resolve().parents[2]
_LIMIT_S = 20
_SETTINGS = f"""
embedder: {{model: hash}}
ingest: {{max_read_s: {_LIMIT_S}, max_read_mb: 1024}}
"""
_CALL = re.compile(r"^(\d+) +(?:<\.\.\. )?(\w+)(?: resumed>|\()(.*) = (-?\d+)")
_UNFINISHED = re.compile(r"^(\d+) +(\w+)\((.*) <unfinished \.\.\.>$")
_TRACED = "openat,open,creat,connect,socket,execve,fork,vfork,clone,clone3,unlink,rename,mkdir,landlock_restrict_self"
_SYSTEM = ("/lib", "/usr/lib", "/usr/share", "/etc/ld.so", "/sys/devices/system/cpu")
_CODE = (sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), str(ROOT), *_SYSTEM)
_MAKES = re.compile(r"O_(?:WRONLY|RDWR|CREAT|TRUNC)")


@dataclass(slots=True)
class Escapes:
    """What confined processes did in spite of it, from a log of strace."""

    confined: set[str] = field(default_factory=set)  # ids of processes and threads
    refused: Counter[str] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)

    def read(self, lines: Iterable[str]) -> None:
        begun = dict[tuple[str, str], str]()
        for line in lines:
            if unfinished := _UNFINISHED.match(line):
                begun[unfinished[1], unfinished[2]] = unfinished[3]
            elif match := _CALL.match(line):
                pid, call, arguments, result = match.groups()
                self._note(pid, call, begun.pop((pid, call), "") + arguments, int(result))

    def _note(self, pid: str, call: str, arguments: str, result: int) -> None:
        if call == "landlock_restrict_self" and result == 0:
            self.confined.add(pid)
        elif pid in self.confined and result < 0:
            self.refused[call] += 1
        elif pid in self.confined and call in ("clone", "clone3") and "CLONE_THREAD" in arguments:
            self.confined.add(str(result))
        elif pid in self.confined and not (call in ("openat", "open") and _is_code(arguments)):
            self.found.append(f"{call}({arguments[:120]}) = {result}")


def _is_code(arguments: str) -> bool:
    path = re.search(r'"([^"]*)"', arguments)
    return path is not None and path[1].startswith(_CODE) and not _MAKES.search(arguments)


def main() -> int:
    """Make the files, let a command and a gateway read them, and print what came of it."""
    parser = argparse.ArgumentParser(description="Read hostile files.")
    parser.add_argument("--megabytes", type=int, default=300, metavar="N", help="of a bomb, unpacked (default: 300)")
    given = parser.parse_args()
    if shutil.which("strace") is None:
        say("strace is not installed: apt install strace")
        return 2
    with tempfile.TemporaryDirectory() as temporary, socket.create_server(("127.0.0.1", 0)) as trap:
        work = Path(temporary)
        (work / "outside").mkdir()
        secret = work / "outside" / "secret.txt"
        secret.write_text("canary")
        (work / "ragway.yaml").write_text(_SETTINGS)
        folder = work / "files"
        folder.mkdir()
        address = f"127.0.0.1:{trap.getsockname()[1]}"
        for name, data in hostile_files(secret, address, megabytes=given.megabytes):
            (folder / name).write_bytes(data)
        (folder / "good.md").write_text("# Good\n\nThe blue pump is called Zephyr.\n")
        rows = [_ingested(work, folder), _uploaded(work, folder)]
        trap.settimeout(0)
        connections = 0
        with suppress(BlockingIOError):
            while trap.accept():
                connections += 1
        made = sorted(path.name for path in (work / "outside").iterdir() if path != secret)
    head = ["", "files", "read", "refused", "without answer", "longest wait of another", "escapes", "calls refused"]
    print(table(head, [row[0] for row in rows]))
    print(f"\nConnections to the address in the files: {connections}. Files made outside: {made or 'none'}.")
    return 1 if connections or made or any(row[1] for row in rows) else 0


def _traced(work: Path, name: str, *args: str) -> subprocess.Popen[bytes]:
    strace = [
        "strace",
        "-f",
        "-qq",
        "-s",
        "256",
        "-e",
        f"trace={_TRACED}",
        "-e",
        "signal=none",
        "-o",
        str(work / f"{name}.log"),
    ]
    command = [*strace, sys.executable, "-m", "cli", "--config", str(work / "ragway.yaml"), *args]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (work / f"{name}.out").open("w") as out, (work / f"{name}.err").open("w") as err:
        return subprocess.Popen(command, stdout=out, stderr=err, cwd=work, env=environ, start_new_session=True)


def _ingested(work: Path, folder: Path) -> tuple[list[str], bool]:
    """Return a row of the table, and whether something went wrong."""
    files = sum(1 for _ in folder.iterdir())
    data = str(work / "data")
    process = _traced(work, "ingest", "ingest", str(folder), "--collection", "hostile", "--json", "--data", data)
    process.wait(3_000)
    say((work / "ingest.err").read_text(errors="replace")[-3_000:])
    report = json.loads((work / "ingest.out").read_bytes())
    refused = len(report["failures"]) + sum(report["skipped"].values())
    return _row("`ragway ingest`", files, report["added"], refused, "", _escapes(work / "ingest.log"))


def _uploaded(work: Path, folder: Path) -> tuple[list[str], bool]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = _traced(work, "serve", "serve", "--port", str(port), "--data", str(work / "served"))
    url = f"http://127.0.0.1:{port}"
    try:
        _until_ready(process, url)
        collection = f"{url}/v1/knowledge/collections/hostile"
        _asked("POST", f"{url}/v1/knowledge/collections", b'{"name": "hostile"}')
        waits, over = list[float](), threading.Event()
        probe = threading.Thread(target=_probe, args=(collection, waits, over))
        probe.start()
        states = Counter(_upload(collection, file) for file in sorted(folder.iterdir()))
        over.set()
        probe.join()
        good = _posted(f"{url}/v1/knowledge/search", b'{"query": "Zephyr"}', "application/json")
        serves = "Zephyr" in json.dumps(good)
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # strace would pass nothing on
        process.wait(120)
        say((work / "serve.err").read_text(errors="replace")[-3_000:])
    row, wrong = _row(
        "uploads",
        states.total(),
        states["created"],
        states["failed"],
        f"{max(waits):.1f} s",
        _escapes(work / "serve.log"),
    )
    return row, wrong or not serves


def _until_ready(process: subprocess.Popen[bytes], url: str) -> None:
    until = time.monotonic() + 300
    while time.monotonic() < until and process.poll() is None:
        with suppress(OSError), urlopen(f"{url}/healthz", timeout=5):
            return
        time.sleep(0.5)
    raise SystemExit("the gateway does not start")


def _probe(collection: str, waits: list[float], over: threading.Event) -> None:
    """Put harmless documents all the while, and note how long each takes."""
    number = 0
    while not over.wait(0.5):
        number += 1
        began = time.monotonic()
        body = json.dumps({"text": f"Document {number}.", "source": f"{number}.md"}).encode()
        with suppress(HTTPError):  # 503 after a minute: the wait says it
            _asked("PUT", f"{collection}/documents/good-{number}", body)
        waits.append(time.monotonic() - began)


def _upload(collection: str, file: Path) -> str:
    head = f'--x\r\ncontent-disposition: form-data; name="file"; filename="{file.name}"\r\n\r\n'.encode()
    body = head + file.read_bytes() + b"\r\n--x--\r\n"
    told = _posted(f"{collection}/files", body, "multipart/form-data; boundary=x")
    job = f"{collection.partition('/collections')[0]}/jobs/{told.get('id')}"
    while told.get("status") in ("queued", "running"):  # it takes longer than an answer may wait
        time.sleep(1)
        with suppress(HTTPError):  # 503: ask again
            told = _asked("GET", job)
    return str(told["data"][0]["status"])


def _posted(url: str, body: bytes, kind: str) -> dict[str, Any]:
    """Ask again after a 503: a busy machine answers so."""
    until = time.monotonic() + 600
    while True:
        try:
            return _asked("POST", url, body, kind)
        except HTTPError as error:
            if error.code != HTTPStatus.SERVICE_UNAVAILABLE or time.monotonic() > until:
                raise
        time.sleep(1)


def _asked(method: str, url: str, body: bytes | None = None, kind: str = "application/json") -> dict[str, Any]:
    with urlopen(Request(url, body, {"content-type": kind}, method=method), timeout=120) as reply:
        told: dict[str, Any] = json.load(reply)
        return told


def _escapes(log: Path) -> Escapes:
    escapes = Escapes()
    with log.open(errors="replace") as lines:
        escapes.read(lines)
    return escapes


def _row(name: str, files: int, read: int, refused: int, wait: str, escapes: Escapes) -> tuple[list[str], bool]:
    for one in escapes.found[:20]:
        say(f"escaped: {one}")
    without = files - read - refused
    calls = ", ".join(f"{call} {count}" for call, count in sorted(escapes.refused.items()))
    numbers = [str(number) for number in (files, read, refused, without)]
    say(f"{name}: {numbers}, {len(escapes.found)} escapes of {len(escapes.confined)} threads, {wait}")
    row = [name, *numbers, wait, f"{len(escapes.found)} of {len(escapes.confined)} threads", calls]
    return row, bool(escapes.found) or without != 0 or not escapes.confined


if __name__ == "__main__":
    sys.exit(main())
