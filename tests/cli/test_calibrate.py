"""ragway calibrate: the curve is kept, used by a running gateway, shown as JSON, named by doctor if it is damaged."""

import json
from pathlib import Path

from tests.support.gateway import ragway, serving

SUBJECTS = ("boiler", "turbine", "crane", "pump", "valve")


def ingested(folder: Path, pages: int) -> tuple[str, str]:
    """Ingest so many pages into a new data folder; how commands name it."""
    where = ("--data", str(folder / "data"))
    for number in range(pages):
        subject = SUBJECTS[number % len(SUBJECTS)]
        text = f"# {subject} {number}\n\nThe {subject} number {number} is checked by the engineer of that hall.\n"
        (folder / "pages").mkdir(exist_ok=True)
        (folder / "pages" / f"{number}.md").write_text(text, "utf-8")
    done = ragway("ingest", "pages", "--collection", "docs", *where, folder=folder)
    assert done.returncode == 0, done.stderr
    return where


def test_a_curve_is_fitted_named_if_damaged_and_reset(tmp_path: Path) -> None:
    where = ingested(tmp_path, 40)
    done = ragway("calibrate", *where, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("hash: slope ")
    assert done.stdout.endswith("40 sentences of docs, 32 unrelated texts\n")
    (file,) = (tmp_path / "data" / "curves").iterdir()
    file.write_text("{", "utf-8")
    ill = ragway("doctor", *where, folder=tmp_path)
    assert ill.returncode == 1
    assert ill.stdout.startswith(f"relevance: the fitted curves in {file} cannot be read")
    assert "run `ragway calibrate`" in ill.stdout
    reset = ragway("calibrate", "--reset", *where, folder=tmp_path)
    assert (reset.returncode, reset.stdout, file.exists()) == (0, "", False)
    assert reset.stderr.endswith("the built-in curves of relevance count again\n")
    assert ragway("doctor", *where, folder=tmp_path).returncode == 0


def test_a_running_gateway_fits_and_uses_the_curve(tmp_path: Path) -> None:
    where = ingested(tmp_path, 40)
    with serving(tmp_path / "data", tmp_path) as gateway:
        done = ragway("calibrate", "--json", *where, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        (found,) = json.loads(done.stdout)
        assert (found["embedder"], found["collections"], found["sentences"]) == ("hash", ["docs"], 40)
        again = json.loads(ragway("calibrate", "--json", *where, folder=tmp_path).stdout)[0]
        assert (again["slope_before"], again["offset_before"]) == (found["slope"], found["offset"])
        assert gateway.ask("Who checks the turbine number 6?").headers["x-rag-status"] == "augmented"


def test_too_few_documents_say_what_is_needed(tmp_path: Path) -> None:
    where = ingested(tmp_path, 3)
    done = ragway("calibrate", *where, folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no collection of hash has the 30 sentences, each of another chunk, that are needed" in done.stderr
