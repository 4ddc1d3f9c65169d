"""benchmarks/results/bridges.md is what the program writes: every cell holds in this run, too."""

from benchmarks.conformance.bridges import PAGE, page
from tests.proxy.upstream.translated.provider_lane import QUIET_PYDANTIC, keyless, silent

__all__ = ["keyless", "silent"]  # fixtures of the test
pytestmark = QUIET_PYDANTIC


async def test_every_cell_of_the_page_holds() -> None:
    assert (await page()).splitlines() == PAGE.read_text("utf-8").splitlines()
