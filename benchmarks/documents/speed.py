"""How fast documents are read and put into a collection, beside markitdown.

Three sets: a folder of HTML pages (Debian's `python3-doc`), 200 Office files and PDFs that LibreOffice, pandoc and
Chromium make of this documentation (`twins.py`), and a Git repository of 2,000 files of the installed packages. Each is
read without an index, in turns with markitdown if markitdown reads its files, and put into a new collection by
`ragway sync` with each embedder. CPU seconds are those of all processes: a busy machine changes them little.

    python -m venv DIR && DIR/bin/pip install 'markitdown[docx,pptx,xlsx,xls,pdf]'
    python -m benchmarks.documents.speed --work FOLDER --pages /usr/share/doc/python3.11/html \\
        --markitdown DIR/bin/python
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.output import say, table
from benchmarks.documents.twins import make, texts

_ROOT = Path(__file__).resolve().parents[2]
_OFFICE_FILES, _GIT_FILES = 200, 2_000
_TEXTS = 14  # each in some 15 forms
_SKIPPED = ("html", "epub", "tex", "org", "adoc")  # forms of `twins.py` that are not Office files or PDF
_RAGWAY = """
import sys
from pathlib import Path
from retrieval.ingest.load import load
for path in sys.stdin.read().splitlines():
    load(Path(path), Path(path).name, max_bytes=10**9)
"""
_MARKITDOWN = """
import sys
from markitdown import MarkItDown
reader = MarkItDown()
failed = 0
for path in sys.stdin.read().splitlines():
    try:
        reader.convert(path)
    except Exception:
        failed += 1
print(failed)
"""


@dataclass(frozen=True, slots=True)
class Use:
    """What a command needed."""

    seconds: float
    cpu_s: float
    megabytes: float  # most at once, of all its processes
    out: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for the made files, kept between runs")
    parser.add_argument("--pages", type=Path, help="folder of HTML pages")
    parser.add_argument("--markitdown", type=Path, help="a Python that has markitdown")
    parser.add_argument("--rounds", type=int, default=3, help="turns of reading (default: 3)")
    parser.add_argument("--embedders", nargs="*", default=["hash", "all-MiniLM-L6-v2"])
    parser.add_argument("--most", type=int, help="files of each set at most, drawn at random")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    sets = {
        **({"HTML pages": drawn(sorted(given.pages.rglob("*.html")), given.most)} if given.pages else {}),
        "Office and PDF": drawn(office_files(given.work), given.most),
        "Git repository": drawn(code_files(), given.most),
    }
    print(_reading(sets, given.markitdown, given.rounds), flush=True)
    print()
    print(_ingesting(sets, given.embedders, given.work))


def drawn(files: Sequence[Path], most: int | None) -> list[Path]:
    return list(files) if most is None else sorted(random.Random(7).sample(files, min(most, len(files))))


def office_files(work: Path) -> list[Path]:
    made = make(work / "twins", texts(_TEXTS))
    found = [file for column, files in made.items() if column not in _SKIPPED for file in files]
    return drawn(found, _OFFICE_FILES)


def code_files() -> list[Path]:
    """Return code and texts of the installed packages."""
    place = Path(sysconfig.get_path("purelib"))
    found = [file for ending in ("py", "md", "rst", "txt") for file in place.rglob(f"*.{ending}")]
    return drawn(sorted(file for file in found if 200 < file.stat().st_size < 200_000), _GIT_FILES)


def _reading(sets: dict[str, list[Path]], markitdown: Path | None, rounds: int) -> str:
    rows = []
    for name, files in sets.items():
        readers = {"ragway": [sys.executable, "-c", _RAGWAY]}
        if markitdown is not None and name != "Git repository":
            readers["markitdown"] = [str(markitdown), "-c", _MARKITDOWN]
        uses: dict[str, list[Use]] = {reader: [] for reader in readers}
        for _ in range(rounds):
            for reader, command in readers.items():
                uses[reader].append(used(command, "\n".join(map(str, files))))
                say(f"{name}, {reader}: {uses[reader][-1].cpu_s:.1f} s")
        for reader, found in uses.items():
            ratio = [use.cpu_s / own.cpu_s for use, own in zip(found, uses["ragway"], strict=True)]
            least = min(use.cpu_s for use in found)
            failed = found[0].out.strip() or "0"
            times = "" if reader == "ragway" else f"{min(ratio):.1f}–{max(ratio):.1f}"
            rows.append([name, reader, str(len(files)), failed, f"{least:.1f}", f"{len(files) / least:.0f}", times])
    head = ["reading alone", "reader", "files", "not read", "CPU s", "files a CPU second", "times ragway's"]
    return table(head, rows)


def _ingesting(sets: dict[str, list[Path]], embedders: Sequence[str], work: Path) -> str:
    rows = []
    for name, files in sets.items():
        for embedder in embedders:
            with tempfile.TemporaryDirectory(dir=work) as temporary:
                place = Path(temporary)
                source = _git(place, files) if name == "Git repository" else _folder(place, files)
                (place / "ragway.yaml").write_text(f"embedder: {{model: {embedder}}}\nsources: {{docs: [{source}]}}\n")
                models = work / "models"
                models.mkdir(exist_ok=True)
                (place / "data").mkdir()
                (place / "data" / "models").symlink_to(models.absolute())
                ragway = [sys.executable, "-m", "cli"]
                settings = ["--config", str(place / "ragway.yaml"), "--data", str(place / "data")]
                use = used([*ragway, "sync", *settings], "", place)
                listed = used([*ragway, "collections", "--json", *settings], "", place)
            (collection,) = json.loads(listed.out)
            chunks = collection["chunks"]
            say(f"{name}, {embedder}: {use.out[:300]}")
            rows.append(
                [name, embedder, str(len(files)), f"{chunks:,}", f"{use.seconds:.0f}", f"{use.cpu_s:.0f}",
                 f"{chunks / use.seconds:.0f}", f"{chunks / use.cpu_s:.0f}", f"{use.megabytes:.0f}"]
            )  # fmt: skip
    head = ["ingest", "embedder", "files", "passages", "s", "CPU s", "passages a second", "a CPU second", "MB"]
    return table(head, rows)


def _folder(place: Path, files: Sequence[Path]) -> str:
    _copied(place / "files", files)
    return "{folder: files}"


def _git(place: Path, files: Sequence[Path]) -> str:
    repository = place / "repository"
    _copied(repository, files)
    for command in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]):
        subprocess.run(["git", *command], cwd=repository, check=True)
    return "{git: repository}"


def _copied(folder: Path, files: Sequence[Path]) -> None:
    for n, file in enumerate(files):
        target = folder / f"{n // 100:03}" / f"{n:04}-{file.name}"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)


def used(command: Sequence[str], given: str, cwd: Path | None = None) -> Use:
    """Run a command; return what it and its processes needed."""
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as lines, tempfile.TemporaryFile("w+") as out:
        lines.write(given)
        lines.seek(0)
        environ = {**os.environ, "PYTHONPATH": str(_ROOT)}
        process = subprocess.Popen(command, stdin=lines, stdout=out, stderr=subprocess.DEVNULL, cwd=cwd, env=environ)
        most = 0.0
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            most = max(most, sum(_own_memory_mb(one) for one in _family(process.pid)))
            time.sleep(0.2)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        return Use(time.monotonic() - began, usage.ru_utime + usage.ru_stime, most, out.read())


def _family(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in children:
            yield from _family(int(child))


def _own_memory_mb(pid: int) -> float:
    """Return a process's memory; what it shares with others counts in parts."""
    try:
        match = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    except OSError:
        return 0.0
    return int(match[1]) / 1024 if match else 0.0


if __name__ == "__main__":
    main()
