"""Chats whose model queries a team's database, through a real gateway: official SDKs, a scripted model, SQLite."""

import contextlib
import json
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from config.settings import KEY
from tests.support.action_clients import BY_CHAT, STREAMED, CompletionsChat, SdkChat
from tests.support.action_team import Team
from tests.support.atlas_api import atlas_api
from tests.support.gateway import environment, ragway, serving
from tests.support.recording_upstream import recording
from tests.support.scripted_model import Json, calls, says
from tests.wire.test_mcp import client, result, words

QUESTION = "how many units of Fruity Fedora were sold in the last 7 days?"
SQL = (
    "SELECT SUM(s.units) AS units FROM sales s JOIN products p ON p.id = s.product_id "
    "WHERE p.name = 'Fruity Fedora' AND s.sold_on >= date('2026-11-20')"
)
ANSWER = "12 units of Fruity Fedora were sold in the last 7 days."
CANARIES = ("CANARY-margin", "CANARY-red", "CANARY-salary")
SETTINGS = """
embedder: {{model: hash}}
models:
  gpt-x: {{api_base: "{model}/v1"}}
  gpt-text: {{api_base: "{model}/v1", tools: text}}
  gpt-block: {{api_base: "{model}/v1"}}
  gpt-calls: {{api_base: "{model}/v1"}}
tables:
  shop:
    url: sqlite:///{folder}/shop.sqlite
    tables: [sales, products]
    hide: [products.margin]
    rows: {{sales: "team = {{key.team}}"}}
    offer: true
  other: {{url: "sqlite:///{folder}/other.sqlite"}}
action_calls: {{rounds: 4}}
"""


def shop(file: Path) -> None:
    """The seed's shop: sales with order, time, product, price and units."""
    with contextlib.closing(sqlite3.connect(file)) as sql, sql:
        sql.executescript("""
            CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL, margin TEXT);
            CREATE TABLE sales (
                id INTEGER PRIMARY KEY, sold_on TEXT, product_id INTEGER REFERENCES products (id), units INTEGER,
                team TEXT
            );
            CREATE TABLE salaries (person TEXT, amount TEXT);
            INSERT INTO products VALUES
                (1, 'Fruity Fedora', 19.5, 'CANARY-margin'), (2, 'Plain Panama', 30, 'CANARY-margin');
            INSERT INTO salaries VALUES ('Ann', 'CANARY-salary');
            INSERT INTO sales VALUES
                (1, '2026-11-01', 1, 90, 'blue'), (2, '2026-11-22', 1, 5, 'blue'), (3, '2026-11-25', 1, 7, 'blue'),
                (4, '2026-11-25', 2, 3, 'blue'), (5, '2026-11-25', 1, 1000, 'CANARY-red');
        """)


class Shop(Team):
    """A gateway with databases and keys: of team blue, of team red, and without rights to tables."""

    blue = red = outside = ""

    def key(self, *rights: str, team: str = "") -> str:
        words = ("keys", "create", "k", "--team", team, "--model", "*", *rights, "--data", str(self.served.data))
        done = ragway(*words, folder=self.served.data.parent)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def chat(self, kind: type[SdkChat], model: str = "gpt-x", key: str = "") -> SdkChat:
        return kind(self.served.url, model, key=key or self.blue)

    def post(self, path: str, body: Any = None, key: str = "") -> httpx.Response:
        method = "GET" if body is None else "POST"
        headers = {"authorization": f"Bearer {key or self.blue}"}
        return httpx.request(method, self.served.url + path, json=body, headers=headers, timeout=60)


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("tables")
    shop(folder / "shop.sqlite")
    with contextlib.closing(sqlite3.connect(folder / "other.sqlite")) as sql, sql:
        sql.execute("CREATE TABLE planets (name TEXT, moons INTEGER)")
    with atlas_api() as api, recording() as recorder:
        settings = SETTINGS.format(model=recorder.url, folder=folder)
        (folder / "ragway.yaml").write_text(settings)
        added = ragway("tables", "add", "shop", "--data", "data", folder=folder)
        assert added.returncode == 0, added.stderr
        with serving(folder / "data", folder, settings) as served:
            team = Shop(served, api, recorder)
            team.blue = team.key("--query", "shop.*", "--query", "other.planets", team="blue")
            team.red = team.key("--query", "shop.products", team="red")
            team.outside = team.key("--read", "docs", team="blue")
            until_known(team, team.blue, team.red, team.outside)
            while "tables.other: 1 added" not in served.log.read_text():  # by the start itself
                time.sleep(0.05)
            yield team


def until_known(team: Shop, *keys: str) -> None:
    for key in keys:
        while team.post("/v1/models", key=key).status_code != 200:
            pass


@BY_CHAT
@STREAMED
def test_a_question_is_answered_from_the_rows(team: Shop, kind: type[SdkChat], stream: bool) -> None:
    model = team.script(calls(("query_tables", {"sql": SQL})), says(ANSWER), one_byte=stream)
    reply = team.chat(kind).ask(QUESTION, stream=stream)
    assert reply.text == ANSWER
    assert reply.headers["x-rag-actions"] == "shop/query_tables"
    assert team.tools() == ["query_tables"]
    offered = json.dumps(model.received[0]["tools"])
    assert "sold_on" in offered
    assert not any(word in offered for word in ("margin", "salaries", "salary", *CANARIES))
    rows = model.received[1]["messages"][-1]["content"]
    assert rows.splitlines()[:2] == ["units", "12"], "of the rows of the team"
    receipt = team.post(f"/v1/knowledge/receipts/{reply.headers['x-rag-id']}").text
    assert "Fruity Fedora" in receipt
    assert "sold_on >= date" in receipt
    assert "query of shop: 1 rows" in team.served.log.read_text()


def test_a_model_that_is_asked_in_text_queries_too(team: Shop) -> None:
    call = json.dumps({"name": "query_tables", "arguments": {"sql": SQL}})
    model = team.script(says(f"```json\n{call}\n```"), says(ANSWER))
    assert team.chat(CompletionsChat, "gpt-text").ask(QUESTION).text == ANSWER
    assert "12" in model.received[1]["messages"][-1]["content"]


@STREAMED
@pytest.mark.parametrize("model_name", ["gpt-text", "gpt-block"])
def test_a_block_of_sql_is_a_query(team: Shop, stream: bool, model_name: str) -> None:
    """Small models write SQL for the person in place of a call; words that follow are made up."""
    said = f"To find it, use the query that shows the units:\n\n```sql\n-- units\n{SQL};\n```\n\nIt returns 99."
    model = team.script(says(said), says(ANSWER), one_byte=stream)
    text = team.chat(CompletionsChat, model_name).ask(QUESTION, stream=stream).text
    assert text.endswith(ANSWER)
    assert "SELECT" not in text
    assert "99" not in text
    assert "12" in json.dumps(model.received[1]["messages"][-1])
    if model_name == "gpt-text":
        instructions = model.received[0]["messages"][0]["content"]
        assert "\n- sold_on TEXT\n" in instructions, "a column a line"
        assert "code block alone:\n```sql" in instructions


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("Which SQL counts the units of Fruity Fedora?", f"```sql\n{SQL}\n```"),  # the SQL is the answer
        (QUESTION, "```sql\nCREATE INDEX a ON sales (units)\n```"),
        (QUESTION, f"```sql\n{SQL}\n"),  # cut off
        (QUESTION, f"```\n{SQL}\n```"),
    ],
    ids=["asked for", "no query", "cut", "no language"],
)
@pytest.mark.parametrize("model_name", ["gpt-text", "gpt-block"])
def test_another_block_is_text(team: Shop, asked: str, said: str, model_name: str) -> None:
    model = team.script(says(said), says("no second round"))
    assert team.chat(CompletionsChat, model_name).ask(asked).text == said
    assert len(model.received) == 1


def test_the_block_of_a_model_that_makes_calls_is_text(team: Shop) -> None:
    team.script(calls(("query_tables", {"sql": SQL})), says(ANSWER))
    team.chat(CompletionsChat, "gpt-calls").ask(QUESTION)
    said = f"```sql\n{SQL}\n```"
    team.script(says(said), says("no second round"))
    assert team.chat(CompletionsChat, "gpt-calls").ask(QUESTION).text == said


def test_an_error_of_the_database_goes_back_to_the_model_twice(team: Shop) -> None:
    wrong: Json = calls(("query_tables", {"sql": "SELECT total FROM sales"}))
    model = team.script(wrong, calls(("query_tables", {"sql": SQL})), says(ANSWER))
    assert team.chat(CompletionsChat).ask(QUESTION).text == ANSWER
    assert "total" in model.received[1]["messages"][-1]["content"]
    others = [calls(("query_tables", {"sql": f"SELECT no{number} FROM sales"})) for number in range(3)]
    model = team.script(*others, says("I could not find out."))
    assert team.chat(CompletionsChat).ask(QUESTION).text == "I could not find out."
    assert "Do not query again" in model.received[3]["messages"][-1]["content"]


def test_a_model_that_repeats_a_refused_query_must_answer(team: Shop) -> None:
    wrong = says('{"name": "query_tables", "arguments": {"sql": "SELECT total FROM sales"}}')
    model = team.script(wrong, wrong, says("I could not find out."))
    assert team.chat(CompletionsChat, "gpt-text").ask(QUESTION).text == "I could not find out."
    assert "Answer the question in plain words" in model.received[2]["messages"][-1]["content"]


def test_a_long_value_is_read_on(team: Shop) -> None:
    sql = "SELECT id, id, replace(printf('%900d', id), ' ', 'x') AS long FROM products WHERE id = 1"

    def reads(asked: Json) -> Json:
        id = asked["messages"][-1]["content"].partition("the id ")[2].split()[0]
        return calls(("read_result", {"id": id}))

    model = team.script(calls(("query_tables", {"sql": sql})), reads, says(ANSWER))
    assert team.chat(CompletionsChat).ask(QUESTION).text == ANSWER
    assert "1 of 1 rows are shown, long values cut" in model.received[1]["messages"][-1]["content"]
    whole = model.received[2]["messages"][-1]["content"]
    assert "x" * 899 in whole
    assert "id_2" in whole


def test_a_value_that_no_row_has_brings_similar_values(team: Shop) -> None:
    model = team.script(calls(("query_tables", {"sql": SQL.replace("Fruity Fedora", "Fedora")})), says(ANSWER))
    team.chat(CompletionsChat).ask(QUESTION)
    assert "'Fruity Fedora'" in model.received[1]["messages"][-1]["content"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT margin FROM products",
        "SELECT * FROM salaries",
        "SELECT * FROM sales WHERE team = 'CANARY-red'",
        "SELECT * FROM sales UNION ALL SELECT 1, 2, 3, 4, amount FROM salaries",
        "SELECT p.* FROM products p",
        "DELETE FROM sales",
        "SELECT name FROM sqlite_master",
    ],
)
def test_nothing_beyond_the_rights_reaches_the_model(team: Shop, sql: str) -> None:
    model = team.script(calls(("query_tables", {"sql": sql})), says("Done."))
    reply = team.chat(CompletionsChat).ask(QUESTION)
    seen = json.dumps(model.received[1]["messages"][-1]) + team.post(
        f"/v1/knowledge/receipts/{reply.headers['x-rag-id']}"
    ).text.replace(json.dumps(sql)[1:-1], "")
    assert not any(word in seen.replace(sql, "") for word in CANARIES)
    direct = team.post("/v1/tables/databases/shop/query", {"sql": sql})
    assert not any(word in direct.text.replace(sql, "") for word in CANARIES)


def test_a_key_without_rights_to_tables_is_offered_none(team: Shop) -> None:
    for key in (team.outside,):
        team.script(says("I do not know."))
        assert team.chat(CompletionsChat, key=key).ask(QUESTION).text == "I do not know."
        assert team.tools() == []
        assert team.post("/v1/tables/databases", key=key).json()["data"] == []
        absent, forbidden = (team.post(f"/v1/tables/databases/{name}", key=key) for name in ("none", "shop"))
        assert (absent.status_code, forbidden.status_code) == (404, 404)
        assert absent.text.replace("none", "shop", 1) == forbidden.text


def test_a_database_that_is_not_offered_can_be_named(team: Shop) -> None:
    team.script(calls(("query_tables", {"sql": "SELECT COUNT(*) FROM planets"})), says("None."))
    chat = team.chat(CompletionsChat, "rage/other/gpt-x")
    assert chat.ask("how many planets are there?").text == "None."
    refused = team.post("/v1/chat/completions", chat.body("hi", model="rage/other/gpt-x"), key=team.red)
    assert refused.status_code == 404


async def test_programs_of_mcp_query_within_the_rights_of_the_key(team: Shop) -> None:
    async with client(team.served, team.red) as mcp:
        found = result(await mcp.call_tool("find_tables", {"query": QUESTION}))
        assert found["databases"] == ["shop"]
        assert "sales" not in found["tables"]
        rows = result(await mcp.call_tool("query_tables", {"sql": "SELECT count(*) FROM products"}))
        assert rows["rows"] == [[2]]
        assert "query of shop: 1 rows" in "".join(team.served.log.read_text().splitlines()[-2:])
        assert "there is no table sales" in words(await mcp.call_tool("query_tables", {"sql": "SELECT * FROM sales"}))
    async with client(team.served, team.blue) as mcp:
        text = words(await mcp.call_tool("query_tables", {"sql": "SELECT count(*) FROM planets"}))
        assert "there are: shop, other" in text, "of two databases, none is meant"


def test_a_question_about_something_else_is_offered_no_table(team: Shop) -> None:
    team.script(says("Paris."))
    assert team.chat(CompletionsChat).ask("What is the capital of France?").text == "Paris."
    assert team.tools() == []


def test_a_question_that_a_passage_answers_is_offered_no_unlikely_table(team: Shop) -> None:
    question, data = "what was sold in units?", team.served.data
    (data.parent / "docs").mkdir()
    (data.parent / "docs" / "page.md").write_text("# What was sold in units?\n\nIn units: see the handbook.")
    read = ragway("ingest", "docs", "--collection", "docs", "--data", str(data), folder=data.parent)
    assert read.returncode == 0, read.stderr
    reader = team.key("--query", "shop.*", "--read", "docs", team="blue")
    until_known(team, reader)
    for key, offered in ((team.blue, ["query_tables"]), (reader, [])):
        team.script(says("Read the handbook."))
        team.chat(CompletionsChat, key=key).ask(question)
        assert team.tools() == offered


def test_tables_are_listed_found_and_queried_over_http(team: Shop) -> None:
    rows = team.post("/v1/tables/databases").json()["data"]
    assert [(row["id"], row["tables"]) for row in rows] == [("shop", ["products", "sales"]), ("other", ["planets"])]
    one = team.post("/v1/tables/databases/shop").json()
    assert [column["name"] for column in one["tables"][0]["columns"]] == ["id", "name", "price"]
    found = team.post("/v1/tables/search", {"query": QUESTION})
    assert "sales" in found.text, found.text
    answer = team.post("/v1/tables/databases/shop/query", {"sql": SQL}).json()
    assert (answer["columns"], answer["rows"], answer["cut"]) == (["units"], [{"units": 12}], False)
    assert "query of shop: 1 rows" in "".join(team.served.log.read_text().splitlines()[-2:])
    assert team.post("/v1/tables/databases/shop/query", {"sql": "SELECT nothing FROM sales"}).status_code in (400, 422)
    assert team.post("/v1/tables/databases/shop", key=team.red).json()["tables"][0]["name"] == "products"


async def test_mcp_programs_find_and_query_tables(team: Shop) -> None:
    http = httpx2.AsyncClient(headers={"authorization": f"Bearer {team.blue}"}, timeout=60)
    async with http, Client(streamable_http_client(team.served.url + "/mcp", http_client=http)) as opened:
        await asks_in_mcp(opened)
        refused = await opened.call_tool("query_tables", {"sql": "SELECT margin FROM products", "database": "shop"})
        assert refused.is_error
        assert not any(word in str(refused.content) for word in CANARIES)


async def test_mcp_programs_on_this_machine_find_and_query_tables(team: Shop) -> None:
    environ = environment({KEY: team.blue})
    command = ["-m", "cli", "mcp", "--config", "ragway.yaml", "--data", "data"]
    server = StdioServerParameters(command=sys.executable, args=command, env=environ, cwd=team.served.data.parent)
    async with Client(stdio_client(server)) as opened:
        await asks_in_mcp(opened)


async def asks_in_mcp(opened: Client) -> None:
    assert {tool.name for tool in (await opened.list_tools()).tools} == {
        "search", "fetch", "find_tables", "query_tables",
    }  # fmt: skip
    found = (await opened.call_tool("find_tables", {"query": QUESTION})).structured_content
    assert found is not None
    assert (found["databases"], "sold_on" in found["tables"]) == (["shop", "other"], True)
    rows = (await opened.call_tool("query_tables", {"sql": SQL, "database": "shop"})).structured_content
    assert rows == {"columns": ["units"], "rows": [[12]], "cut": False}
