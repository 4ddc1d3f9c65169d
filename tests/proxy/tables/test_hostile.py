"""All walls together, on three engines: hostile statements have no effect, show no foreign row, and stall nothing."""

import re
import time
from pathlib import Path

import pytest

from proxy.tables.executor import Executor, QueryFailed
from proxy.tables.guard import NotAllowed, guarded
from tests.proxy.tables.hostile import DIALECTS, hostile
from tests.proxy.tables.shop import CANARY, GRANTS, LIMITS, shop
from tests.support.postgres_server import Postgres

FOREIGN = re.compile(rf"{CANARY}|98765432[12]")
STALL_S = LIMITS.max_seconds + 3


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_hostile_statements(dialect: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    def server() -> Postgres:
        found: Postgres = request.getfixturevalue("postgres")
        return found

    made = shop(dialect, tmp_path, server)
    executor = Executor()
    await executor.query(made.source, "SELECT 1", LIMITS)
    before = made.state()
    ran = refused = 0
    for one in hostile(tmp_path):
        if one.dialect != dialect:
            continue
        started = time.monotonic()
        rows, said = "", ""
        try:
            text = guarded(one.sql, made.database, GRANTS)
            rows = repr((await executor.query(made.source, text, LIMITS, grants=GRANTS)).rows)
            ran += 1
        except (NotAllowed, QueryFailed) as error:
            refused += 1
            said = str(error)
        if "987654321" in one.sql:  # what the statement itself says may come back
            said = said.replace("987654321", "")
        assert not FOREIGN.search(rows + said), one
        assert time.monotonic() - started < STALL_S, one
    assert made.state() == before
    assert ran
    assert refused > 130
    answer = await executor.query(made.source, guarded("SELECT count(*) FROM sales", made.database, GRANTS), LIMITS)
    assert answer.rows == [[3]]
    await executor.close()
