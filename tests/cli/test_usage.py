"""`ragway usage` in both databases: a table, CSV and JSON of the same sums, and clear words where there is nothing."""

import csv
import io
import json
import subprocess
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from proxy.access.sql import SqlAccounts
from proxy.access.usage import UsageRow, write
from proxy.caller import EVERYTHING
from proxy.dialects.replies import Tokens
from tests.support.gateway import ragway, refused

Usage = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def usage(catalog_url: str, tmp_path: Path) -> Usage:
    """The command on the accounts of `opened`."""
    environ: Mapping[str, str] = {"RAGWAY_CATALOG__URL": catalog_url} if catalog_url else {}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return ragway("usage", *words, "--data", str(tmp_path), folder=tmp_path, environ=environ)

    return run


@pytest.fixture
def keys(opened: Callable[[], SqlAccounts]) -> list[str]:
    """Two keys of two teams that used something on two days."""
    accounts = opened()
    first, second = (accounts.create(team, EVERYTHING, team=team)[0].id for team in ("blue", "red"))
    rows = [
        row(first, "2026-11-01", "gpt-4o", Tokens(1000, 200), ms=100),
        row(first, "2026-11-02", "gpt-4o", Tokens(500, 100, estimated=True), ms=300),
        row(second, "2026-11-02", "=own\x1b[2J", Tokens(7, 0), status=502, price_of="own"),
    ]
    with accounts.writing() as sql:
        write(sql, rows)
    return [first, second]


def row(
    key: str, day: str, model: str, tokens: Tokens, *, ms: float = 10, status: int = 200, price_of: str = "gpt-4o"
) -> UsageRow:
    at_s = datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() + 80_000
    where = ("rag-1", at_s, key, "/v1/chat/completions", model, price_of)
    return UsageRow(*where, status, tokens, 5, ms, {}, (), kept=True, calls=3, changes=1)


def test_a_table_has_a_line_for_each_sum_and_one_for_all(usage: Usage, keys: list[str]) -> None:
    done = usage()
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "team  model     requests  failed  prompt  completion  injected  calls  changes  estimated   dollars  mean ms",
        "blue  gpt-4o           2       0   1,500         300        10      6        2          1    0.0067      200",
        "red   =own?[2J         1       1       7           0         5      3        1          0         ?       10",
        "all                    3       1   1,507         300        15      9        3          1  0.0067+?      137",
    ]
    assert done.stderr == "without 1 requests for models whose price is not known\n"


def test_days_and_keys_are_chosen(usage: Usage, keys: list[str]) -> None:
    rows = json.loads(usage("--by", "day,key", "--since", "2026-11-02", "--json").stdout)
    assert [(row["day"], row["key"]) for row in rows] == [("2026-11-02", key) for key in sorted(keys)]
    rows = json.loads(usage("--by", "day", "--until", "2026-11-01", "--json").stdout)
    assert [(row["day"], row["prompt_tokens"]) for row in rows] == [("2026-11-01", 1000)]
    (only,) = json.loads(usage("--by", "key", "--key", keys[1], "--json").stdout)
    assert (only["key"], only["requests"], only["cost_usd"], only["unpriced"]) == (keys[1], 1, 0, 1)


def test_csv_has_what_json_has_and_no_formula(usage: Usage, keys: list[str]) -> None:
    as_csv, as_json = usage("--by", "model", "--csv"), usage("--by", "model", "--json")
    rows = list(csv.DictReader(io.StringIO(as_csv.stdout)))
    told = json.loads(as_json.stdout)
    assert [row["model"] for row in rows] == ["'=own?[2J", "gpt-4o"]
    for row, other in zip(rows, told, strict=True):
        numbers = {name: float(value or 0) for name, value in row.items() if name != "model"}
        assert numbers == {name: value or 0 for name, value in other.items() if name != "model"}


def test_where_nothing_was_recorded_that_is_said(usage: Usage, opened: Callable[[], SqlAccounts]) -> None:
    done = usage()
    assert (done.returncode, done.stdout) == (0, "")
    assert "no usage was recorded yet" in done.stderr
    key, _ = opened().create("idle", EVERYTHING)
    done = usage("--key", key.id)
    assert (done.returncode, done.stdout) == (0, "")
    assert "for this key and these days" in done.stderr
    assert json.loads(usage("--json").stdout) == []
    assert usage("--csv").stdout.startswith("team,model,requests,failed,")


def test_an_unknown_key_is_named(usage: Usage) -> None:
    assert "there is no key 'key-1'" in refused(usage("--key", "key-1"))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--by", "user"], "by must be some of team, key, model, day"),
        (["--by", "day,day"], "each once"),
        (["--since", "yesterday"], "since must be a day like"),
        (["--until", "2026-02-30"], "until must be a day like"),
        (["--since", "2026-11-02", "--until", "2026-11-01"], "since must not be after until"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(tmp_path: Path, words: list[str], why: str) -> None:
    done = ragway("usage", *words, "--data", str(tmp_path / "data"), folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    assert not (tmp_path / "data").exists()
