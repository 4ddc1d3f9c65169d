"""Settings: four sources in one order, each value's origin known, every mistake one clear line."""

import contextlib
import dataclasses
import json
import re
import tempfile
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from config.sections import Model, Settings
from config.settings import DEFAULTS, PROMPTS, SettingsError, _read, load


class Source:
    """A settings file in a folder of its own; nothing comes from the environment of the tests."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "ragway.yaml"

    def load(
        self, text: str = "", environ: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None
    ) -> Settings:
        self.file.write_text(text, "utf-8")
        return load(file=self.file, environ=environ or {}, flags=flags)

    def refused(self, text: str = "", environ: Mapping[str, str] | None = None) -> str:
        """The error's text: one line."""
        with pytest.raises(SettingsError) as caught:
            self.load(text, environ)
        message = str(caught.value)
        assert "\n" not in message
        return message


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("url: 'postgresql://me:pw@host/x'", "tables.shop.url must not hold a password"),
        ("url: 'postgresql://host/x?password=pw'", "tables.shop.url must not hold a password"),
        ("url: shop.db", "tables.shop.url must be a database URL, such as postgresql://USER@HOST/DATABASE"),
        ("url: 'sqlite://'", "tables.shop.url must name a file"),
        ("url: 'sqlite:///:memory:'", "tables.shop.url must name a file"),
        ("url: 'sqlite:///a.db?mode=rw'", "tables.shop.url must name a file"),
        ("url: 'sqlite:///a.db', url_env: SHOP", "tables.shop has url and url_env: leave one of the two out"),
        ("files: [a.csv], url_env: SHOP", "tables.shop has url_env and files: leave one of the two out"),
        ("files: [a.doc]", "tables.shop.files must be files with one of the endings .csv, .tsv"),
        ("files: ['https://host/a.csv']", "tables.shop.files must be files with one of the endings"),
        ("hide: [ssn]", "tables.shop.hide names columns as TABLE.COLUMN or *.COLUMN, got 'ssn'"),
        ("rows: {sales: ' '}", "tables.shop.rows.sales is empty"),
        ("rows: {sales: 'team = {team}'}", "tables.shop.rows.sales: {team} is not known; known: {key.team}, {key.id}"),
        ("rows: {sales: 'team = {key.team'}", "tables.shop.rows.sales: {key.team is not known"),
        ("""rows: {sales: "team = '{key.team}'"}""", "tables.shop.rows.sales: write {key.team} without quotes"),
        ("table: [a]", "unknown setting 'tables.shop.table'; did you mean 'tables.shop.tables'?"),
    ],
)
def test_a_row_of_tables_says_what_to_do(source: Source, row: str, message: str) -> None:
    said = source.refused(f"tables: {{shop: {{{row}}}}}")
    assert message in said
    assert "pw" not in said


def test_paths_of_tables_count_from_the_settings_file(source: Source) -> None:
    folder = source.file.parent
    text = (
        "tables:\n"
        "  shop: {url: 'sqlite:///db/shop.db', description: shop.md, rows: {sales: \"k = 'x' AND t = {key.team}\"}}\n"
        "  store: {files: [a.csv, /b.XLSX]}\n"
        "  far: {url: 'postgres://reader@host/x?sslkey=/a'}\n"
    )
    tables = source.load(text).tables
    assert tables["shop"].url == f"sqlite:///{folder}/db/shop.db"
    assert tables["shop"].description == str(folder / "shop.md")
    assert tables["store"].files == (str(folder / "a.csv"), "/b.XLSX")
    assert tables["far"].url == "postgresql://reader@host/x?sslkey=/a"
    assert not tables["shop"].samples
    assert not tables["shop"].offer
    again = load(environ={}, flags=source.load(text).as_flags())
    assert again.tables == tables
    assert "tables: a name has small letters" in source.refused("tables: {Shop: {}}").replace(f" ({source.file})", "")


def test_a_set_bakes_in_a_limited_number_of_operations(source: Source) -> None:
    assert source.load("actions: {atlas: {always: [a, b]}}").actions["atlas"].always == ("a", "b")
    names = ", ".join(f"a{number}" for number in range(21))
    message = source.refused("actions: {atlas: {private: true, public: true}}")
    assert message == "actions.atlas is private and public: leave one of the two out"
    message = source.refused(f"actions: {{atlas: {{always: [{names}]}}}}")
    assert message == "actions.atlas.always names at most 20 operations, got 21"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("auto: [a]", "actions.atlas.auto is set: set actions.atlas.writes to confirm or auto, too"),
        ("confirm: [a]", "actions.atlas.confirm is set: set actions.atlas.writes to confirm or auto, too"),
        (
            "writes: auto, auto: [b], confirm: [a, b]",
            "actions.atlas: b is in confirm and in auto: leave one of the two out",
        ),
        ("four_eyes: [a]", "actions.atlas.four_eyes is set: set actions.atlas.writes to confirm or auto, too"),
        (
            "writes: auto, four_eyes: [a], reads: [a]",
            "actions.atlas: a is in four_eyes and in reads: leave one of the two out",
        ),
        (
            "writes: auto, idempotency_header: a b",
            "actions.atlas.idempotency_header must be a header name, got 'a b'",
        ),
        ("allowed: {size: []}", "actions.atlas.allowed.size names no value: then no call could be right"),
    ],
)
def test_settings_of_writes_that_contradict_each_other_are_refused(source: Source, row: str, message: str) -> None:
    assert source.refused(f"actions: {{atlas: {{{row}}}}}") == message
    assert source.load("actions: {atlas: {writes: confirm, auto: [a]}}").actions["atlas"].auto == ("a",)


@pytest.mark.parametrize(
    ("written", "server"),
    [
        ("https://a.example/mcp", "https://a.example/mcp"),
        ("\"python -m x 'a b'\"", ("python", "-m", "x", "a b")),
        ("[uvx, some-server]", ("uvx", "some-server")),
    ],
)
def test_an_mcp_server_is_an_address_or_a_command(source: Source, written: str, server: object) -> None:
    found = source.load(f"actions: {{box: {{mcp: {written}}}}}")
    assert found.actions["box"].mcp == server
    assert load(environ={}, flags=json.loads(json.dumps(found.as_flags()))).actions == found.actions


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("mcp: ''", "actions.box.mcp must be a URL with http:// or https://, or a command; got ''"),
        ("mcp: []", "actions.box.mcp must be a URL with http:// or https://, or a command; got ()"),
        ('mcp: "a \'b"', "actions.box.mcp is neither a URL nor a command (No closing quotation)"),
        ("mcp: 'http://'", "actions.box.mcp must name a host, and a port from 1 to 65535 or none, got 'http://'"),
        ("mcp: x, spec: a.json", "actions.box has mcp and spec: leave spec out"),
        ("env: [A]", "actions.box.env is set: it is for a row with actions.box.mcp"),
        (
            "mcp: x, auth: bearer, secret_env: A",
            "actions.box.mcp is a command, which gets no auth: name the variables it needs in actions.box.env",
        ),
        (
            "mcp: 'https://a.example', env: [A]",
            "actions.box.env is for a server that is a command: over HTTP, use auth and secret_env",
        ),
    ],
)
def test_a_wrong_mcp_server_is_one_line(source: Source, row: str, message: str) -> None:
    assert source.refused(f"actions: {{box: {{{row}}}}}") == message


@pytest.mark.parametrize("row", ["secret_env: KEY", "user_env: USER", "secret_per_key: true"])
def test_credentials_without_a_kind_are_refused(source: Source, row: str) -> None:
    message = source.refused(f"actions: {{atlas: {{{row}}}}}")
    assert message == f"actions.atlas.{row.partition(':')[0]} is set: set actions.atlas.auth, too"


def test_a_document_is_counted_from_the_folder_of_the_file_that_names_the_document(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    found = source.load("actions: {atlas: {spec: specs/atlas.yaml}}")
    assert found.actions["atlas"].spec == str(source.file.parent / "specs" / "atlas.yaml")
    assert load(environ={}, flags=json.loads(json.dumps(found.as_flags()))).actions == found.actions, (
        "a worker gets the same file"
    )
    environ = {"RAGWAY_ACTIONS": "{atlas: {spec: atlas.yaml}}"}
    assert source.load("", environ).actions["atlas"].spec == "/atlas.yaml"
    url = "https://a.example/openapi.json?v=1"
    assert source.load(f"actions: {{atlas: {{spec: '{url}'}}}}").actions["atlas"].spec == url


@pytest.mark.parametrize("spec", ["ftp://a.example/x", "''", "https://user:s3cret@a.example/x", "https://"])
def test_a_document_is_a_file_or_a_url(source: Source, spec: str) -> None:
    message = source.refused(f"actions: {{atlas: {{spec: {spec}}}}}")
    assert message.startswith("actions.atlas.spec must ")
    assert "s3cret" not in message


# Where a value comes from


def test_flags_win_over_the_environment_over_the_file_over_the_defaults(source: Source) -> None:
    file, environ, flags = "server: {port: 1111}", {"RAGWAY_SERVER__PORT": "2222"}, {"server.port": 3333}
    assert source.load().server.port == 8000
    assert source.load(file).server.port == 1111
    assert source.load(file, environ).server.port == 2222
    assert source.load(file, environ, flags).server.port == 3333


def test_each_value_knows_its_origin(source: Source) -> None:
    file = "server: {port: 1111, host: 127.0.0.2}"
    settings = source.load(file, {"RAGWAY_SERVER__PORT": "2222"}, {"data": "elsewhere"})
    assert settings.origins["server.host"] == str(source.file)
    assert settings.origins["server.port"] == "RAGWAY_SERVER__PORT"
    assert settings.origins["data"] == "command line"
    assert settings.origins["retrieval.k"] == settings.origins["models"] == "default"


def test_a_key_given_leaves_its_neighbours_alone(source: Source) -> None:
    assert source.load("server: {port: 1111}").server == dataclasses.replace(source.load().server, port=1111)


def test_a_flag_that_was_not_given_changes_nothing(source: Source) -> None:
    settings = source.load("server: {port: 1111}", flags={"server.port": None, "data": None})
    assert settings.server.port == 1111
    assert settings.data == "data"


@pytest.mark.parametrize("text", ["# nothing\n", "server:\n  # port: 9000\nauth:\n"])
def test_a_file_or_section_without_values_changes_nothing(source: Source, text: str) -> None:
    assert source.load(text) == source.load()


def test_variables_of_others_are_left_alone(source: Source) -> None:
    assert source.load(environ={"PORT": "1", "RAG_SERVER__PORT": "x", "OPENAI_API_KEY": "k"}) == source.load()


def test_the_keys_of_our_own_clients_are_no_settings(source: Source) -> None:
    assert source.load(environ={"RAGWAY_KEY": "rw-1", "RAGWAY_BENCH_KEY": "rw-2"}) == source.load()


# Values in the environment


@pytest.mark.parametrize(
    "text", ["2024", "1e3", "0x10", "true", "null", "~", "2024-01-31", "a: b", "[a]", "@home", " x", "off"]
)
def test_text_from_the_environment_stays_as_it_is(source: Source, text: str) -> None:
    settings = source.load(environ={"RAGWAY_DATA": text, "RAGWAY_QDRANT__COLLECTION": text})
    assert settings.data == settings.qdrant.collection == text


@pytest.mark.parametrize(
    ("variable", "text", "value"),
    [
        ("RAGWAY_SERVER__PORT", "9000", 9000),
        ("RAGWAY_SERVER__SHUTDOWN_S", "3", 3.0),
        ("RAGWAY_AUTH__OPEN", "true", True),
        ("RAGWAY_RETRIEVAL__REWRITE", "off", "off"),
        ("RAGWAY_RETRIEVAL__COLLECTIONS", "docs", ("docs",)),
        ("RAGWAY_RETRIEVAL__COLLECTIONS", "docs, 2024", ("docs", "2024")),
        ("RAGWAY_RETRIEVAL__COLLECTIONS", "2024", ("2024",)),
        ("RAGWAY_RETRIEVAL__COLLECTIONS", "[docs, wiki]", ("docs", "wiki")),
        ("RAGWAY_RETRIEVAL__COLLECTIONS", "", ()),
        ("RAGWAY_INJECT__TEMPLATE", "", ""),
        ("RAGWAY_UPSTREAM__PATHS", "{/v1/files: gpt-4o}", {"/v1/files": "gpt-4o"}),
        ("RAGWAY_MODELS", "{gpt-4o: {lane: echo}}", {"gpt-4o": Model(lane="echo")}),
    ],
)
def test_reads_every_kind_of_value_from_the_environment(
    source: Source, variable: str, text: str, value: object
) -> None:
    section, _, key = variable.removeprefix("RAGWAY_").lower().partition("__")
    found = getattr(source.load(environ={variable: text}), section)
    assert (getattr(found, key) if key else found) == value


@pytest.mark.parametrize(
    ("variable", "text", "says"),
    [
        ("RAGWAY_SERVER__PORT", "", "server.port (RAGWAY_SERVER__PORT) must be a whole number"),
        ("RAGWAY_SERVER__PORT", "80 00", "a whole number, got '80 00'"),
        ("RAGWAY_SERVER__PORT", "[", "RAGWAY_SERVER__PORT, line 1, column 2: not valid YAML: while parsing"),
        ("RAGWAY_SERVER__PORT", "2024-13-45", "RAGWAY_SERVER__PORT, line 1, column 1: not valid YAML: month"),
        ("RAGWAY_SERVER", "8000", "server (RAGWAY_SERVER) must be a section"),
        ("RAGWAY_SERVER__PROT", "1", "did you mean 'server.port'?"),
        ("RAGWAY_SEVER__PORT", "1", "did you mean 'server'?"),
        ("RAGWAY_DATA", "", "must name a folder"),
    ],
)
def test_names_the_variable_that_cannot_be_used(source: Source, variable: str, text: str, says: str) -> None:
    assert says in source.refused(environ={variable: text})


# Mistakes


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("server: {prot: 1}", "unknown setting 'server.prot'"),
        ("server: {prot: 1}", "did you mean 'server.port'?"),
        ("retreival: {k: 1}", "did you mean 'retrieval'?"),
        ("retrieval: {zzzz: 1}", "known: candidates, collections,"),
        ("1: 2", "unknown setting 1"),
        ("server: {1: 2}", "unknown setting 'server.1'"),
        ("models: {gpt: {api_bas: x}}", "did you mean 'models.gpt.api_base'?"),
        ("models: {gpt: {1: x}}", "unknown setting 'models.gpt.1'"),
    ],
)
def test_an_unknown_key_names_the_nearest_known_one(source: Source, text: str, says: str) -> None:
    assert says in source.refused(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("server: {port: '8000'}", "must be a whole number, got '8000'"),
        ("server: {port: true}", "must be a whole number, got True"),
        ("server: {port: 1.5}", "must be a whole number, got 1.5"),
        ("server: {port: }", "must be a whole number, got None"),
        ("server: {host: 127}", "must be text, got 127"),
        ("server: {shutdown_s: soon}", "must be a number, got 'soon'"),
        ("server: {shutdown_s: true}", "must be a number, got True"),
        ("auth: {open: 1}", "must be true or false, got 1"),
        ("retrieval: {collections: [1]}", "must be a list of texts, got [1]"),
        ("retrieval: {collections: {a: b}}", "must be a list of texts"),
        ("retrieval: {lexical: off}", "must be one of bm25, okapi; got False"),
        ("retrieval: {rewrite: [local]}", "must be one of local, llm, off; got ['local']"),
        ("upstream: {paths: [a]}", "must map texts to texts"),
        ("upstream: {paths: {/v1/files: 1}}", "must map texts to texts: write the value of '/v1/files' in quotes"),
        ("upstream: {paths: {1: /v1/files}}", "must map texts to texts: write 1 in quotes"),
        ("server: 8000", "server"),
        ("server: [host]", "must be a section with keys"),
        ("data: [a]", "must be text"),
        ("retrieval: {k: 3}\nretrieval: {k: 4}", "'retrieval' stands twice"),
        ("retrieval: {k: 3, k: 4}", "'k' stands twice"),
        ("- a\n- b", "must hold sections"),
        ("server: {drain_s: -1}", "must be 0 (off) or more, got -1"),
        ("ingest: {language: xx}", "must be one of auto, ar, az,"),
        ("ingest: {languages: {docs: xx}}", "must map texts to any of auto, ar, az,"),
        ("ingest: {context: [haiku]}", "must be a list of context, keywords, questions; got ['haiku']"),
        ("ingest: {context: [context]}", "needs a model: name one of `models` in ingest.context_model"),
    ],
)
def test_a_value_of_the_wrong_type_says_what_was_expected(source: Source, text: str, says: str) -> None:
    message = source.refused(text)
    assert says in message
    assert "ragway.yaml" in message


def test_the_message_about_an_address_of_a_database_has_no_password(source: Source) -> None:
    message = source.refused("catalog: {url: 'mysql://ragway:hunter22@h/d'}")
    assert "must be postgresql://USER:PASSWORD@HOST:PORT/DATABASE, or empty for SQLite" in message
    assert "hunter22" not in message


def test_the_message_about_a_fixed_argument_that_is_no_text_has_no_value(source: Source) -> None:
    message = source.refused("actions: {atlas: {fixed: {orgId: a, groupId: 4711}}}")
    assert "actions.atlas.fixed must map texts to texts: write the value of 'groupId' in quotes" in message
    assert "4711" not in message


@pytest.mark.parametrize(
    "setting",
    [
        "server: {port: -1}",
        "server: {port: 65536}",
        "server: {max_body_mb: 0}",
        "server: {shutdown_s: 0}",
        "server: {shutdown_s: .inf}",
        "server: {shutdown_s: .nan}",
        "upstream: {connect_timeout_s: -1}",
        "upstream: {max_connections: 0}",
        "retrieval: {k: 0}",
        "retrieval: {candidates: 0}",
        "retrieval: {rrf_k: 0}",
        "retrieval: {min_relevance: 1.1}",
        "retrieval: {min_relevance: -0.1}",
        "retrieval: {min_relevance: .nan}",
        "retrieval: {rerank_candidates: 0}",
        "retrieval: {rerank_deadline_s: 0}",
        "retrieval: {recency_half_life_days: -1}",
        "retrieval: {recency_half_life_days: .inf}",
        "inject: {window_share: .nan}",
        "retrieval: {neighbours: -1}",
        "retrieval: {whole_document_tokens: -1}",
        "inject: {window_share: 1.1}",
        "inject: {budget_tokens: 0}",
        "embedder: {threads: 0}",
        "ingest: {chunk_tokens: 0}",
        "ingest: {overlap_tokens: -1}",
        "ingest: {overlap_tokens: 128}",
        "ingest: {max_file_mb: 0}",
    ],
)
def test_a_value_out_of_range_is_refused(source: Source, setting: str) -> None:
    section, key = re.findall(r"\w+", setting)[:2]
    assert f"{section}.{key}" in source.refused(setting)


@pytest.mark.parametrize(
    "setting",
    [
        "server: {port: 0}",
        "server: {port: 65535}",
        "retrieval: {min_relevance: 0}",
        "retrieval: {min_relevance: 1}",
        "retrieval: {neighbours: 0}",
        "inject: {window_share: 1}",
        "ingest: {overlap_tokens: 0}",
        "ingest: {overlap_tokens: 90}",
    ],
)
def test_the_ends_of_a_range_are_in_it(source: Source, setting: str) -> None:
    ((section, values),) = yaml.safe_load(setting).items()
    ((key, value),) = values.items()
    assert getattr(getattr(source.load(setting), section), key) == value


def test_a_whole_number_will_do_for_a_number(source: Source) -> None:
    value = source.load("retrieval: {min_relevance: 1}").retrieval.min_relevance
    assert (value, type(value)) == (1.0, float)


def test_off_without_quotes_is_the_text_off(source: Source) -> None:
    assert source.load("retrieval: {rewrite: off}").retrieval.rewrite == "off"


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("server: [", 1, 10), ("a: b: c", 1, 5), ("\tserver:", 1, 1), ("data: 2024-13-45", 1, 7),
        ("data: !!python/name:os.system x", 1, 7), ("server:\n  port: 1\n  port: 2", 3, 3),
        ("server:\r\n  host: a\r\n  port: 80: 3\r\n", 3, 11), ("server:\n  host: 'a\x01b'", 2, 11),
        ("{1: 2, [a]: 3}", 1, 8), ("data: a\n---\ndata: b", 2, 1), ("data: *nobody", 1, 7),
    ],
)  # fmt: skip
def test_bad_yaml_is_one_line_that_says_where(source: Source, text: str, line: int, column: int) -> None:
    message = source.refused(text)
    assert f"ragway.yaml, line {line}, column {column}: not valid YAML: " in message
    assert len(message.splitlines()) == 1
    assert "<unicode" not in message


@given(st.text(st.sampled_from("server: [port{}]'\"\n\t-&*!|>%@`#,?\x00\x01é2024-13-45~"), max_size=40))
def test_any_text_is_settings_or_is_refused(text: str) -> None:
    with contextlib.suppress(SettingsError), tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ragway.yaml"
        file.write_text(text, "utf-8", newline="")
        load(file=file, environ={})


def test_the_defaults_have_no_key_twice() -> None:
    assert _read(DEFAULTS) == yaml.safe_load(DEFAULTS.read_bytes())


def test_a_file_of_brackets_is_refused(source: Source) -> None:
    assert "not valid YAML: nested too deeply" in source.refused("[" * 5000)


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "latin.yaml"
    file.write_bytes(b"# x\ndata: caf\xe9")
    with pytest.raises(SettingsError, match=r"latin\.yaml, line 2, column 10: not valid YAML: not in UTF-8"):
        load(file=file, environ={})


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.yaml: No such file"):
        load(file=tmp_path / "none.yaml", environ={})
    with pytest.raises(SettingsError, match="Is a directory"):
        load(file=tmp_path, environ={})


# Models


def test_reads_the_rows_of_models(source: Source) -> None:
    text = """
    models:
      gpt-4o:
      claude: {model: anthropic/claude-3, api_key_env: MY_KEY, lane: translated}
      "local/*": {api_base: "http://127.0.0.1:11434/v1", lane: relay}
      "*": {lane: echo}
    """
    assert source.load(text).models == {
        "gpt-4o": Model(),
        "claude": Model(model="anthropic/claude-3", api_key_env="MY_KEY", lane="translated"),
        "local/*": Model(api_base="http://127.0.0.1:11434/v1", lane="relay"),
        "*": Model(lane="echo"),
    }


@pytest.mark.parametrize("text", ["models:", "models: {}", ""])
def test_no_models_is_an_empty_mapping(source: Source, text: str) -> None:
    assert source.load(text).models == {}


@pytest.mark.parametrize(
    ("models", "says"),
    [
        ("[gpt-4o]", "must map names to rows"),
        ("gpt-4o", "must map names to rows"),
        ("{1: {}}", "a name is text"),
        ("{'': {}}", "a name is text"),
        ("{'g*t': {}}", "a * at the end"),
        ("{'**': {}}", "a * at the end"),
        ("{gpt: relay}", "gpt must hold keys"),
        ("{gpt: {lane: fast}}", "models.gpt.lane must be one of auto, relay, translated, echo; got 'fast'"),
        ("{gpt: {lane: off}}", "models.gpt.lane must be one of"),
        ("{gpt: {model: 4}}", "models.gpt.model must be text"),
        ("{gpt: {api_base: api.openai.com}}", "models.gpt.api_base must start with http"),
        ("{gpt: {window_tokens: 0}}", "models.gpt.window_tokens must be at least 1, got 0"),
        ("{gpt: {window_tokens: big}}", "models.gpt.window_tokens must be a whole number, got 'big'"),
        ("{gpt: {dialects: [chat, x]}}", "models.gpt.dialects must be a list of chat, responses, messages; got"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(source: Source, models: str, says: str) -> None:
    assert says in source.refused(f"models: {models}")


# The file of defaults


def keys_of_the_schema() -> set[str]:
    hints = typing.get_type_hints(Settings)
    keys = set()
    for name, hint in hints.items():
        if dataclasses.is_dataclass(hint):
            keys |= {f"{name}.{field.name}" for field in dataclasses.fields(hint)}
        elif name != "origins":
            keys.add(name)
    return keys


def keys_of_the_file() -> dict[str, str]:
    """Dotted key -> the help beside it."""
    keys: dict[str, str] = {}
    section = ""
    for line in DEFAULTS.read_text("utf-8").splitlines():
        found = re.match(r"( *)(\w+):(.*)$", line)
        if found is None:
            continue
        indent, name, rest = found.groups()
        comment = rest.partition(" # ")[2].strip()
        if indent:
            keys[f"{section}.{name}"] = comment
        elif rest.strip() and (not rest.strip().startswith("#") or name in ("models", "actions", "tables", "sources")):
            keys[name] = comment
        section = section if indent else name
    return keys


def test_every_setting_has_a_default_and_every_default_a_setting(source: Source) -> None:
    assert set(keys_of_the_file()) == keys_of_the_schema()
    assert set(source.load().origins) == keys_of_the_schema()


def test_each_client_gives_up_an_idle_connection_before_its_server_does(source: Source) -> None:
    clients_s, servers_s = 90.0, 5.0  # Go's and Rust's clients; Node's and uvicorn's servers
    settings = source.load()
    assert settings.server.keepalive_s > clients_s
    assert settings.upstream.keepalive_s < servers_s


def test_every_setting_has_one_line_of_help() -> None:
    assert [key for key, help_ in keys_of_the_file().items() if not help_] == []


def test_only_the_rows_of_models_have_defaults_in_code() -> None:
    """A default lives once, in default.yaml; a row of models has none there."""
    for hint in typing.get_type_hints(Settings).values():
        if dataclasses.is_dataclass(hint):
            assert all(field.default is dataclasses.MISSING for field in dataclasses.fields(hint)), hint


def test_the_defaults_are_safe_to_serve(source: Source) -> None:
    settings = source.load()
    assert settings.server.host == "127.0.0.1"
    assert not settings.auth.open
    assert settings.server.cors_origins == ()
    assert (PROMPTS / "answer.txt").is_file()


def test_settings_cannot_be_changed_afterwards(source: Source) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        source.load().server.port = 1  # type: ignore[misc]


# Addresses


@pytest.mark.parametrize("name", ["", "X-API-Key:", "X Key", "Schlüssel"])
def test_a_key_of_an_api_goes_into_a_header_with_a_possible_name(source: Source, name: str) -> None:
    row = f"auth: api_key, secret_env: KEY, key_name: '{name}'"
    assert "actions.atlas.key_name must be a header name" in source.refused(f"actions: {{atlas: {{{row}}}}}")
    assert source.load(f"actions: {{atlas: {{{row}, key_in: query}}}}").actions["atlas"].key_name == name


def test_a_password_in_the_address_of_an_api_belongs_into_a_variable(source: Source) -> None:
    refusal = source.refused("actions: {atlas: {base_url: 'https://u:hunter22@h'}}")
    assert "name the variable in api_key_env, or for actions in user_env and secret_env" in refusal


@pytest.mark.parametrize(
    "base",
    ["http://h", "https://h.example/v1/", "http://127.0.0.1:8080/v1", "http://[::1]:1/v1", "http://h/a@b?key=x@y"],
)
def test_an_address_that_can_be_called_is_taken(source: Source, base: str) -> None:
    assert source.load(f"models: {{x: {{api_base: '{base}'}}}}").models["x"].api_base == base


@pytest.mark.parametrize(
    ("base", "says"),
    [
        ("h/v1", "must start with http:// or https://, got 'h/v1'"),
        ("", "must start with http://"),
        ("ftp://h", "must start with http://"),
        ("http://u:hunter22@h/v1", "must not hold a user or a password, got one for '…h/v1'"),
        ("http://hunter22@h", "must not hold a user or a password"),
        ("http://u:hunter22@h:x/v1", "must not hold a user or a password"),
        ("u:hunter22@h", "must start with http://"),
        ("http://", "must name a host"),
        ("http:///v1", "must name a host"),
        ("http://h:99999", "a port from 1 to 65535"),
        ("http://h:0/v1?k=hunter22", "a port from 1 to 65535"),
        ("http://[::1/v1", "must name a host"),
        ("http://h/v1#hunter22", "without a #"),
        ("http://h/a b", "in ASCII without spaces"),
        ("http://hö/v1", "in ASCII without spaces"),
        ("http://h/\u007f", "in ASCII without spaces"),
    ],
)
def test_an_address_that_cannot_be_called_is_refused_without_its_password(source: Source, base: str, says: str) -> None:
    refusal = source.refused(environ={"RAGWAY_MODELS": json.dumps({"x": {"api_base": base}})})
    assert "models.x.api_base" in refusal
    assert says in refusal
    assert "hunter22" not in refusal.replace("#hunter22", "")


# sources


def test_a_folder_of_a_source_is_counted_from_the_file_that_declares_it(tmp_path: Path) -> None:
    file = tmp_path / "ragway.yaml"
    file.write_text("sources: {handbook: [{folder: hb, exclude: [drafts]}, {folder: /srv/team, name: team}]}")
    here, there = load(file=file, environ={}).sources["handbook"]
    assert (here.folder, here.name, here.exclude) == (str(tmp_path / "hb"), str(tmp_path / "hb"), ("drafts",))
    assert (there.folder, there.name, there.exclude) == ("/srv/team", "team", None)


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        ("[a]", "must map collections to lists of sources, got ['a']"),
        ("{docs: {folder: a}}", "docs must have a list of sources, got {'folder': 'a'}"),
        ("{docs: [{foldr: a}]}", "unknown setting 'sources.docs[0].foldr'; did you mean 'sources.docs[0].folder'?"),
        ("{docs: [{exclude: [a]}]}", "sources.docs[0] must have exactly one of folder, git, web, sitemap"),
        ("{docs: [{folder: a, git: b}]}", "sources.docs[0] must have exactly one of folder, git"),
        ("{docs: [{folder: a, branch: b}]}", "sources.docs[0].branch is not an option of a source with `folder`"),
        ("{docs: [{folder: a, every: 1w}]}", "sources.docs[0].every must be a time such as 30s, 15m, 1h or 7d"),
        ("{docs: [{git: 'git@example.com:a/b.git'}]}", "ssh and git:// are not called"),
        ("{docs: [{git: 'ssh://example.com/b.git'}]}", "ssh and git:// are not called"),
        ("{docs: [{git: 'https://me:secret@example.com/b.git'}]}", "must not hold a user or a password"),
        ("{docs: [{git: 'https://a.example/b.git', networks: [10.0.0.0/33]}]}", "sources.docs[0].networks: "),
        ("{docs: [{bucket: handbook}]}", "sources.docs[0].bucket must be an address such as s3://bucket/folder"),
        ("{docs: [{bucket: 'https://a.example/b'}]}", "for web pages, use `web`"),
        ("{docs: [{bucket: 's3://a', options: {secret: x}}]}", "must not hold credentials (secret)"),
        ("{docs: [{bucket: 'ftp://me:x@a.example/b'}]}", "must not hold credentials (a user)"),
        (
            "{docs: [{folder: /a}, {folder: /a}]}",
            "sources.docs has two sources '/a': give one of the two another `name`",
        ),
    ],
)
def test_a_wrong_source_is_refused_with_its_place(yaml: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "ragway.yaml"
    file.write_text(f"sources: {yaml}")
    with pytest.raises(SettingsError) as refused:
        load(file=file, environ={})
    assert message in str(refused.value)
