"""A serving gateway syncs declared sources: when they are due, and as soon as a watched folder changes."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway import PATIENCE_S, Served, ragway, serving

SETTINGS = (
    "retrieval: {min_relevance: 0}\n"
    "sources:\n"
    "  docs: [{folder: watched, watch: true}, {folder: polled, every: 1s}, {folder: still, every: 7d}]\n"
)


@pytest.fixture
def gateway(data: Path, tmp_path: Path) -> Iterator[Served]:
    for name in ("watched", "polled", "still"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "first.md").write_text(f"# First\n\nThe {name} folder says aardvark.")
    with serving(data, tmp_path, SETTINGS) as running:
        yield running


def found(gateway: Served, word: str) -> set[str]:
    """Sources of the documents that a search for a word finds."""
    body = b'{"collections": ["docs"], "query": "%s"}' % word.encode()
    reply = gateway.post(body, "/v1/knowledge/search").json()
    return {hit["source"] for hit in reply.get("data", []) if word in hit["text"]}


def wait_for(gateway: Served, word: str, sources: set[str]) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while (there := found(gateway, word)) != sources:
        assert time.monotonic() < until_s, (there, gateway.log.read_text())
        time.sleep(0.1)  # the gateway reports no end of a sync


def test_sources_are_synced_at_the_start_when_due_and_after_a_change(gateway: Served, tmp_path: Path) -> None:
    wait_for(gateway, "aardvark", {"watched/first.md", "polled/first.md", "still/first.md"})
    for name in ("watched", "polled", "still"):
        (tmp_path / name / "second.md").write_text(f"# Second\n\nA new text of the {name} folder says zymurgy.")
    wait_for(gateway, "zymurgy", {"watched/second.md", "polled/second.md"})
    for name in ("watched", "polled"):
        (tmp_path / name / "second.md").unlink()
    wait_for(gateway, "zymurgy", set())
    assert f"source {tmp_path / 'watched'}" in gateway.log.read_text()
    listed = ragway("collections", "docs", "--data", str(gateway.data), folder=tmp_path).stdout
    assert listed.count(" synced 20") == 3


def test_a_folder_that_is_empty_is_told_once(gateway: Served, tmp_path: Path) -> None:
    wait_for(gateway, "aardvark", {"watched/first.md", "polled/first.md", "still/first.md"})
    (tmp_path / "polled" / "first.md").unlink()
    (tmp_path / "watched" / "third.md").write_text("# Third\n\nThis says quagga.")
    wait_for(gateway, "quagga", {"watched/third.md"})
    told = f"{tmp_path / 'polled'} is empty: its 1 documents stay"
    until_s = time.monotonic() + PATIENCE_S
    while told not in gateway.log.read_text():
        assert time.monotonic() < until_s
        time.sleep(0.1)
    os.utime(tmp_path / "watched" / "third.md")
    time.sleep(2.5)  # two more syncs
    assert gateway.log.read_text().count(told) == 1
