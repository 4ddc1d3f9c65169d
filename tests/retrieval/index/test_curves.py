"""Fitted curves in the data folder: read as written, and refused if damaged or another model's."""

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retrieval.errors import RetrievalError
from retrieval.index.curves import FOLDER, forget_curves, read_curves, write_curves
from retrieval.index.index import Index
from retrieval.records.documents import Document
from retrieval.search.ranking import CURVES, Curve
from tests.support.plans import plan_for, silent

PROBES = np.eye(4, 8, dtype=np.float32)
OTHER = np.roll(PROBES, 1, axis=1)
CURVE = Curve(2.5, -3.0, 2.6)


def the_file(data: Path) -> Path:
    (file,) = (data / FOLDER).iterdir()
    return file


def test_curves_are_read_as_written_and_words_alone_keep_theirs(tmp_path: Path) -> None:
    assert read_curves(tmp_path, "m", PROBES) is None
    write_curves(tmp_path, "m", PROBES, {"both": CURVE})
    assert read_curves(tmp_path, "m", PROBES) == {**CURVES, "both": CURVE}
    assert read_curves(tmp_path, "n", PROBES) is None
    forget_curves(tmp_path, "m", PROBES)
    forget_curves(tmp_path, "m", PROBES)
    assert read_curves(tmp_path, "m", PROBES) is None


def test_another_models_curves_are_refused(tmp_path: Path) -> None:
    write_curves(tmp_path, "m", PROBES, {"both": CURVE})
    with pytest.raises(RetrievalError, match="are another model's"):
        read_curves(tmp_path, "m", OTHER)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 2000), byte=st.integers(0, 255))
def test_a_damaged_file_is_refused_or_has_a_curve(tmp_path: Path, at: int, byte: int) -> None:
    write_curves(tmp_path, "m", PROBES, {"both": CURVE})
    content = bytearray(the_file(tmp_path).read_bytes())
    content[at % len(content)] = byte
    the_file(tmp_path).write_bytes(content)
    with contextlib.suppress(RetrievalError):
        curves = read_curves(tmp_path, "m", PROBES)
        assert curves is not None
        assert all(curve.slope > 0 for curve in curves.values())


@pytest.mark.parametrize("numbers", ['"slope":-1.0', '"slope":0.0', '"slope":1e999', '"slope":"x"'])
def test_numbers_that_are_no_curve_are_refused(tmp_path: Path, numbers: str) -> None:
    write_curves(tmp_path, "m", PROBES, {"both": CURVE})
    text = the_file(tmp_path).read_text("utf-8")
    assert '"slope":2.5' in text
    the_file(tmp_path).write_text(text.replace('"slope":2.5', numbers), "utf-8")
    with pytest.raises(RetrievalError, match="cannot be read"):
        read_curves(tmp_path, "m", PROBES)


def page(number: int) -> Document:
    subject = ("boiler", "turbine", "crane")[number % 3]
    lines = [f"The {subject} number {n} is checked by the engineer of hall {number % 3}." for n in range(4)]
    return Document(f"{number}.md", f"{subject} {number}", "\n\n".join(lines), "markdown", 1.0)


async def test_a_fit_is_used_at_once_after_a_restart_and_until_it_is_reset(tmp_path: Path) -> None:
    plan = plan_for(tmp_path / "data")
    index = await Index.open(plan, serving=False)
    with pytest.raises(RetrievalError, match="there is no collection to take sentences from"):
        await index.writing.calibrate(silent)
    await index.writing.learn([page(0)], "small", silent)
    with pytest.raises(RetrievalError, match="has the 30 sentences, each of another chunk"):
        await index.writing.calibrate(silent)
    await index.writing.learn([page(n) for n in range(60)], "docs", silent)
    told: list[tuple[int, int]] = []
    (found,) = await index.writing.calibrate(lambda done, total, *_: told.append((done, total)))
    assert found.collections == ("docs",)
    assert told[-1][0] == told[-1][1] == len(told) == 2 * (found.sentences + found.unrelated)
    assert found.auc > 0.9
    assert found.slope_before == CURVES["both"].slope != found.slope
    assert index.curve == "the curve that `ragway calibrate` fitted for hash"
    (again,) = await index.writing.calibrate(silent)
    assert (again.slope, again.offset) == (found.slope, found.offset) == (again.slope_before, again.offset_before)
    await index.close()

    index = await Index.open(plan, serving=False)
    assert index.curve.endswith("fitted for hash")
    assert await index.writing.calibrate(silent, reset=True) == []
    assert index.curve == "the default embedder's curve; `ragway calibrate` fits another"
    await index.close()
    assert not list((tmp_path / "data" / FOLDER).iterdir())


async def test_curves_that_cannot_be_used_are_named_and_the_built_in_ones_count(tmp_path: Path) -> None:
    plan = plan_for(tmp_path / "data")
    index = await Index.open(plan, serving=False)
    embedder = index._spaces.configured.embedder
    await index.close()
    write_curves(tmp_path / "data", "hash", np.zeros((4, embedder.dimension), np.float32), {"both": CURVE})
    index = await Index.open(plan, serving=False)
    assert [problem.endswith("are another model's") for problem in index.curve_problems] == [True]
    assert index.curve.startswith("the default embedder's curve")
    await index.close()
