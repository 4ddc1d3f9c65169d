"""Whatever is done to confirmations: never unconfirmed, never twice. `benchmarks/writes/machine.py` plays longer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.write_machine import Fleet, fleet, play


@pytest.fixture(scope="module")
def gateways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder: Path = tmp_path_factory.mktemp("machine")
    with fleet(folder) as gateways:
        yield gateways


def test_a_write_arrives_if_confirmed_and_once(gateways: Fleet) -> None:
    play(gateways, steps=60, number=39, each=20)
    assert gateways.counts["confirmed"] + gateways.counts["confirmed at the same time"] > 0
