"""The MCP tools of tables, without a gateway around them."""

from pathlib import Path
from typing import Any

from proxy.api.table_tools import TableTools
from proxy.caller import EVERYTHING
from proxy.exchange import Exchange
from proxy.tables.access import Configured, TableQueries
from proxy.tables.executor import Executor
from proxy.tables.library import TableLibrary, TableStore
from proxy.tables.queries import QueryLimits
from proxy.tables.reading import Reading, read_database
from proxy.tables.schema import DatabaseSource
from retrieval.index.index import Index
from tests.proxy.tables.small_shop import make_shop
from tests.support.plans import plan_for

LIMITS = QueryLimits(max_rows=10, max_seconds=20, memory_mb=512, result_bytes=2**20)


class CountingStore(TableStore):
    reads = 0

    def databases(self) -> Any:
        self.reads += 1
        return super().databases()


async def test_a_query_reads_the_databases_once(tmp_path: Path) -> None:
    source = DatabaseSource("sqlite", make_shop(tmp_path / "shop.db"))
    index, store = await Index.open(plan_for(tmp_path / "data"), serving=False), CountingStore(tmp_path / "data")
    row = Configured(lambda _: source, lambda one: one, {}, offer=True)
    queries = TableQueries(TableLibrary(store, index), Executor(), {"shop": row}, LIMITS)
    try:
        await queries.library.add(source, read_database("shop", source, Reading()))
        store.reads = 0
        exchange = Exchange(rights=EVERYTHING)
        found: Any = await TableTools(queries)._query({"sql": "SELECT count(*) AS n FROM products"}, exchange)
        assert found.rows == [[3]]
        assert store.reads == 1
    finally:
        await queries.close()
        await index.close()
