"""Every case of `benchmarks/results/openapi.md` holds, and the benchmark notices a case that does not."""

from dataclasses import replace
from pathlib import Path

from benchmarks.common.output import table_row
from benchmarks.conformance.openapi_cases import request_cases, schema_cases
from benchmarks.conformance.openapi_fidelity import difference, measured, misjudged, rows
from tests.support.api_server import ApiRequest

DOCS = Path(__file__).parents[2] / "benchmarks" / "results" / "openapi.md"


async def test_every_case_holds_and_stands_in_the_docs() -> None:
    sent, judged = await measured("")
    assert [one for one in (*sent, *judged) if one.ragway] == []
    written = DOCS.read_text("utf-8")
    rows_of_docs = [table_row(*row) for row in (*rows(sent, peer=False), *rows(judged, peer=False))]
    assert [row for row in rows_of_docs if row[:-1] not in written] == []  # a column of a peer may follow


def test_another_request_is_a_difference() -> None:
    case = next(one for one in request_cases() if one.part == "query: `form`, exploded")
    other = ApiRequest("GET", "/x/0/p?v=other", {}, b"", 1)
    assert difference(case, [other], "/x/0").startswith("query:")
    assert difference(case, [], "/x/0") == "0 requests"
    assert difference(replace(case, expected=None), [other], "/x/0") == "1 requests"


def test_a_schema_without_words_accepts_wrong_values() -> None:
    case = next(one for one in schema_cases() if one.argument == "v")
    assert misjudged(case, {"properties": {"v": {"type": "string"}}}) == "accepts 'left'"
