"""Hostile statements, made of kinds, disguises and engines."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

DIALECTS = ("sqlite", "duckdb", "postgres")


class Hostile(NamedTuple):
    kind: str
    dialect: str
    sql: str


_EVERYWHERE = {
    "write": [
        "INSERT INTO sales (id) VALUES (9)",
        "UPDATE sales SET units = 0",
        "DELETE FROM sales",
        "DROP TABLE sales",
        "ALTER TABLE sales ADD COLUMN x INTEGER",
        "CREATE TABLE x (a INTEGER)",
        "CREATE VIEW x AS SELECT 1",
        "CREATE TEMP TABLE x AS SELECT * FROM sales",
        "TRUNCATE TABLE sales",
        "DELETE FROM sales RETURNING *",
        "WITH gone AS (DELETE FROM sales RETURNING *) SELECT * FROM gone",
        "WITH a AS (SELECT 1) INSERT INTO sales (id) SELECT 1",
        "MERGE INTO sales USING customers ON sales.id = customers.id WHEN MATCHED THEN DELETE",
        "SELECT * INTO x FROM sales",
        "EXPLAIN ANALYZE DELETE FROM sales",
        "VACUUM",
        "REINDEX TABLE sales",
        "BEGIN",
        "COMMIT",
        "SAVEPOINT x",
    ],
    "stacked": [
        "SELECT 1; DROP TABLE sales",
        "SELECT 1;; DELETE FROM sales",
        "SELECT 1; COMMIT; DELETE FROM sales",
        "; DELETE FROM sales; SELECT 1",
        "SELECT 1 -- ;\n; DELETE FROM sales",
        "SELECT ';'; DELETE FROM sales",
        "SELECT 1; SELECT 2",
    ],
    "comment": [
        "/* SELECT 1 */ DELETE FROM sales",
        "SELECT 1 /* ; */; DROP TABLE sales --",
        "SELECT /*! 1; */ id FROM secrets",
        "SELECT /* /* nested */ */ code FROM secrets",
        "SELECT 1 -- \nUNION SELECT code FROM secrets",
        "SEL/**/ECT code FROM secrets",
        "SELECT code/**/FROM/**/secrets",
    ],
    "encoding": [
        "SELECT code FROM \"secrets\"",
        "SELECT code FROM SECRETS",
        "SELECT code FROM \uff53ecrets",
        "SELECT\u00a0code\u00a0FROM\u00a0secrets",
        "SELECT code FROM sec\u200brets",
        "SELECT code FROM secrets\x00",
        "SELECT \"code\" FROM \"secrets\" AS \"sales\"",
        "SELECT ssn FROM customers",
        "SELECT \"SSN\" FROM customers",
        "SELECT s\u017fn FROM customers",
        "SELECT 1 FROM secrets\u2028UNION SELECT 2",
    ],
    "other rows": [
        "SELECT * FROM sales UNION ALL SELECT id, code, 1, NULL, code FROM secrets",
        "SELECT id FROM sales EXCEPT SELECT id FROM secrets",
        "SELECT id FROM sales INTERSECT SELECT id FROM secrets",
        "SELECT (SELECT code FROM secrets) FROM sales",
        "SELECT (SELECT max(code) FROM secrets WHERE secrets.id = sales.id) FROM sales",
        "SELECT * FROM sales WHERE EXISTS (SELECT 1 FROM secrets WHERE code LIKE 'k%')",
        "SELECT * FROM sales JOIN secrets USING (id)",
        "SELECT * FROM sales NATURAL JOIN secrets",
        "SELECT * FROM sales, secrets",
        "SELECT * FROM customers, LATERAL (SELECT code FROM secrets) x",
        "WITH sales AS (SELECT * FROM secrets) SELECT * FROM sales",
        "WITH x AS (SELECT * FROM secrets) SELECT * FROM x",
        "WITH RECURSIVE x AS (SELECT code FROM secrets UNION ALL SELECT code FROM x) SELECT * FROM x",
        "SELECT * FROM (SELECT * FROM (SELECT * FROM secrets) a) b",
        "SELECT * FROM (sales JOIN secrets ON sales.id = secrets.id)",
        "SELECT team FROM sales",
        "SELECT sales.team FROM sales",
        "SELECT s.ssn FROM customers AS s",
        "SELECT * FROM sales WHERE team = 'b'",
        "SELECT id FROM sales ORDER BY (SELECT code FROM secrets)",
        "SELECT count(*) FROM sales GROUP BY (SELECT code FROM secrets)",
        "SELECT count(*) FROM sales HAVING (SELECT count(*) FROM secrets) > 0",
        "SELECT CASE WHEN (SELECT count(*) FROM secrets) > 0 THEN 1 ELSE 0 END",
        "SELECT id FROM sales LIMIT (SELECT count(*) FROM secrets)",
        "SELECT sum(units) OVER (ORDER BY (SELECT code FROM secrets)) FROM sales",
        "VALUES ((SELECT code FROM secrets))",
        "SELECT * FROM customers AS c (id, name, ssn)",
        "SELECT customers.* , ssn FROM customers",
        "SELECT _q1.ssn FROM customers",
        "SELECT \"_q1\".\"team\" FROM sales",
        "SELECT \"_q2\".\"ssn\" FROM customers, sales",
        "SELECT * FROM \"_q1\"",
        "WITH \"_q1\" AS (SELECT 1) SELECT * FROM \"_q1\", secrets",
    ],
    "error": [
        "SELECT CAST(note AS INTEGER) FROM sales",
        "SELECT 1 / (units - 987654321) FROM sales",
        "SELECT id FROM sales WHERE 1 / (units - 987654321) > 0",
        "SELECT id FROM sales WHERE CAST(product AS INTEGER) = 1",
        "SELECT id FROM sales WHERE CAST(note AS DATE) > '2020-01-01'",
        "SELECT units * 9223372036854775807 FROM sales",
        "SELECT sum(units * 9000000000) FROM sales",
        "SELECT CAST(units AS SMALLINT) FROM sales",
    ],
    "bomb": [
        "WITH RECURSIVE n AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n",
        "WITH RECURSIVE n AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM n) SELECT x FROM n",
        "WITH RECURSIVE n AS (SELECT 'x' AS x UNION ALL SELECT x || x FROM n) SELECT max(length(x)) FROM n",
        "WITH " + ", ".join(
            ["d0 AS (SELECT 1 AS x UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4)"]
            + [f"d{n} AS (SELECT a.x FROM d{n - 1} a CROSS JOIN d{n - 1} b)" for n in range(1, 5)]
        ) + " SELECT count(*) FROM d4 a CROSS JOIN d3 b WHERE a.x + b.x > 7",
        "SELECT count(*) FROM " + " CROSS JOIN ".join(f"sales s{n}" for n in range(40)),
        "SELECT * FROM " + ", ".join(f"sales s{n}" for n in range(20)),
        "SELECT " + "(" * 500 + "1" + ")" * 500,
        "SELECT " + "NOT " * 900 + "1",
        "SELECT " + "- " * 900 + "1",
        "SELECT " + "(SELECT " * 200 + "1" + ")" * 200,
        "SELECT * FROM sales" + " JOIN sales" * 60,
        "SELECT 1" + " UNION ALL SELECT 1" * 2000,
        "SELECT " + "CASE WHEN 1=1 THEN " * 300 + "1" + " END" * 300,
        "SELECT x" + "[1]" * 900,
        "SELECT '" + "a" * 30_000 + "'",
        "SELECT " + "replace(" * 8 + "'xxxxxxxxxxxxxxxx'" + ", 'x', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx')" * 8,
        "SELECT '" + "a" * 60 + "' LIKE '" + "%a" * 40 + "b'",
    ],
}  # fmt: skip

_OWN = {
    "sqlite": {
        "function": [
            "SELECT load_extension('x')", "SELECT writefile('{f}', 'x')", "SELECT readfile('{f}')",
            "SELECT fts3_tokenizer('x')", "SELECT sqlite_compileoption_get(1)", "SELECT last_insert_rowid()",
            "SELECT edit('x')", "SELECT eval('DELETE FROM sales')",
        ],
        "file": [
            "ATTACH DATABASE '{f}' AS other", "DETACH DATABASE main", "VACUUM INTO '{f}'",
            "SELECT * FROM readfile('{f}')", "SELECT * FROM fsdir('/etc')", "SELECT * FROM csv('/etc/passwd')",
        ],
        "setting": [
            "PRAGMA query_only = OFF", "PRAGMA journal_mode = DELETE", "PRAGMA writable_schema = ON",
            "SELECT * FROM pragma_table_info('secrets')", "SELECT * FROM pragma_database_list",
            "SELECT * FROM pragma_writable_schema(1)", "PRAGMA user_version = 7",
        ],
        "catalog": [
            "SELECT * FROM sqlite_master", "SELECT sql FROM sqlite_schema", "SELECT * FROM main.sqlite_master",
            "SELECT * FROM temp.sqlite_master", "SELECT * FROM sqlite_temp_schema", "SELECT * FROM dbstat",
            "SELECT * FROM main.secrets", "SELECT rowid, * FROM secrets", "SELECT * FROM [secrets]",
            "SELECT * FROM `secrets`", "SELECT * FROM sqlite_dbpage", "SELECT * FROM bytecode('SELECT 1')",
            "SELECT name FROM sqlite_stmt", "SELECT [ssn] FROM customers", "SELECT `ssn` FROM customers",
        ],
        "network": ["SELECT http_get('http://127.0.0.1:9')"],
        "memory": ["SELECT randomblob(1000000000)", "SELECT zeroblob(1000000000)", "SELECT hex(zeroblob(100000000))"],
        "bomb": ["SELECT printf('%1000000000d', 1)", "SELECT length(printf('%.*c', 1000000000, 'x'))"],
    },
    "duckdb": {
        "function": [
            "SELECT getenv('PATH')", "SELECT nextval('s')", "SELECT query('DELETE FROM sales')",
            "SELECT * FROM query('SELECT * FROM secrets')", "SELECT * FROM query_table('secrets')",
            "SELECT current_setting('threads')", "SELECT write_log('x')", "SELECT sleep(30)",
            "SELECT getvariable('x')", "SELECT COLUMNS('ssn') FROM customers",
            "SELECT c.row_to_json() FROM customers c",
        ],
        "file": [
            "SELECT * FROM '/etc/passwd'", "SELECT * FROM read_csv('/etc/passwd')",
            "SELECT * FROM read_text('/etc/passwd')",
            "SELECT * FROM read_blob('/etc/passwd')", "SELECT * FROM glob('/etc/*')", "COPY sales TO '{f}'",
            "COPY (SELECT 1) TO '{f}'", "EXPORT DATABASE '{f}'", "ATTACH '{f}' AS x", "IMPORT DATABASE '{f}'",
            "SELECT * FROM parquet_scan('{f}')", "SELECT * FROM \"/etc/passwd\"", "FROM '/etc/passwd'",
            "SELECT * FROM read_json_auto('/etc/passwd')", "SELECT * FROM sniff_csv('/etc/passwd')",
        ],
        "setting": [
            "SET enable_external_access = true", "SET threads = 64", "RESET lock_configuration", "PRAGMA threads = 9",
            "INSTALL httpfs", "LOAD httpfs", "SET VARIABLE x = 1", "PRAGMA enable_profiling", "CALL pragma_version()",
            "CREATE MACRO f() AS 1", "USE memory", "CHECKPOINT", "FORCE CHECKPOINT", "SET memory_limit = '100GB'",
        ],
        "catalog": [
            "SHOW TABLES", "DESCRIBE secrets", "SUMMARIZE secrets", "SELECT * FROM duckdb_tables()",
            "SELECT * FROM information_schema.tables", "SELECT * FROM sqlite_master", "SELECT * FROM duckdb_settings()",
            "SELECT * FROM main.secrets", "SELECT * FROM shop.main.secrets", "SELECT * FROM pg_catalog.pg_class",
            "FROM secrets", "FROM secrets SELECT code", "PIVOT secrets ON code USING count(*)", "TABLE secrets",
            "UNPIVOT secrets ON code", "SELECT * FROM secrets TABLESAMPLE 1", "SELECT * FROM duckdb_columns()",
        ],
        "memory": [
            "SELECT * FROM range(100000000000)", "SELECT * FROM generate_series(1, 100000000000)",
            "SELECT unnest(range(1000000000))", "SELECT lpad('x', 1000000000, 'y')", "SELECT repeat('x', 1000000000)",
            "SELECT list(x) FROM range(1000000000) AS t(x)", "SELECT string_agg(x) FROM range(1000000000) AS t(x)",
        ],
        "network": ["SELECT * FROM read_csv('http://127.0.0.1:9/x')", "SELECT * FROM 's3://bucket/x.parquet'"],
    },
    "postgres": {
        "function": [
            "SELECT pg_sleep(30)", "SELECT pg_sleep_for('30 seconds')", "SELECT pg_terminate_backend(1)",
            "SELECT nextval('shop_seq')", "SELECT setval('shop_seq', 77)", "SELECT pg_advisory_lock(1)",
            "SELECT pg_try_advisory_lock(42)", "SELECT lo_create(0)", "SELECT lo_from_bytea(0, 'x')",
            "SELECT lo_unlink(1)",
            "SELECT query_to_xml('SELECT * FROM secrets', true, true, '')",
            "SELECT table_to_xml('secrets', true, true, '')",
            "SELECT database_to_xml(true, true, '')", "SELECT cursor_to_xml('x', 1, true, true, '')",
            "SELECT set_config('transaction_read_only', 'off', false)", "SELECT pg_notify('a', 'b')",
            "SELECT pg_reload_conf()", "SELECT pg_rotate_logfile()", "SELECT txid_current()", "SELECT pg_stat_reset()",
            "SELECT ts_stat('SELECT code FROM secrets')", "SELECT xpath_table('id','code','secrets','/','true')",
            "SELECT pg_switch_wal()", "SELECT pg_create_restore_point('x')", "SELECT \"pg_sleep\"(30)",
            "SELECT pg_catalog.pg_sleep(30)", "SELECT * FROM pg_sleep(30)", "SELECT * FROM ROWS FROM (pg_sleep(30))",
            "SELECT count(*) FROM sales WHERE pg_sleep(30) IS NULL",
            "SELECT id FROM sales ORDER BY pg_sleep(30)", "SELECT s.row_to_json FROM sales s, secrets",
        ],
        "file": [
            "COPY sales TO '{f}'", "COPY sales TO PROGRAM 'touch {f}'", "COPY sales FROM '/etc/passwd'",
            "SELECT pg_read_file('/etc/passwd')", "SELECT pg_read_binary_file('/etc/passwd')", "SELECT pg_ls_dir('/')",
            "SELECT * FROM pg_ls_dir('/')", "SELECT lo_import('/etc/passwd')", "SELECT lo_export(1, '{f}')",
            "SELECT pg_stat_file('/etc/passwd')", "SELECT pg_file_write('{f}', 'x', false)", "LOAD 'x'",
            "CREATE EXTENSION file_fdw", "SELECT * FROM pg_read_file('/etc/passwd') AS x",
        ],
        "setting": [
            "SET statement_timeout = 0", "SET SESSION AUTHORIZATION postgres", "SET ROLE postgres", "RESET ALL",
            "DISCARD ALL", "SELECT current_setting('data_directory')", "SHOW data_directory", "LOCK TABLE sales",
            "SELECT * FROM sales FOR UPDATE", "SELECT * FROM sales FOR SHARE NOWAIT", "LISTEN x", "NOTIFY x",
            "PREPARE x AS DELETE FROM sales", "EXECUTE x", "DO $$ BEGIN DELETE FROM sales; END $$", "CALL x()",
            "DECLARE c CURSOR FOR SELECT 1", "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "ALTER ROLE postgres SET statement_timeout = 0", "GRANT ALL ON secrets TO PUBLIC",
            "ALTER SYSTEM SET work_mem = 1",
            "SET TRANSACTION READ WRITE", "EXPLAIN SELECT * FROM secrets",
        ],
        "catalog": [
            "SELECT * FROM pg_catalog.pg_class", "SELECT * FROM pg_class", "SELECT * FROM information_schema.tables",
            "SELECT * FROM pg_shadow", "SELECT * FROM pg_stat_activity", "SELECT 'secrets'::regclass",
            "SELECT 'secrets'::regclass::oid", "SELECT current_user", "SELECT session_user", "SELECT user",
            "SELECT current_catalog", "SELECT current_schema", "SELECT version()", "SELECT inet_server_addr()",
            "SELECT has_table_privilege('secrets', 'SELECT')", "SELECT pg_relation_size('secrets')", "TABLE secrets",
            "SELECT ctid FROM sales", "SELECT xmin FROM sales", "SELECT tableoid FROM sales",
            "SELECT * FROM ONLY secrets",
            "SELECT * FROM public.secrets", "SELECT * FROM secrets TABLESAMPLE SYSTEM (100)",
            "SELECT U&'\\0061'", "SELECT e'a\\'b'", "SELECT $$a$$ FROM secrets", "SELECT * FROM U&\"secrets\"",
            "SELECT pg_get_viewdef('x')", "SELECT col_description(1, 1)", "SELECT to_regclass('secrets')",
        ],
        "memory": [
            "SELECT * FROM generate_series(1, 100000000000)", "SELECT repeat('x', 1000000000)",
            "SELECT lpad('x', 1000000000)", "SELECT array_fill(0, ARRAY[100000000])",
        ],
        "network": [
            "SELECT dblink('host=127.0.0.1', 'SELECT 1')",
            "SELECT * FROM dblink('host=127.0.0.1', 'SELECT 1') AS t(a int)",
            "SELECT dblink_connect('host=127.0.0.1')", "SELECT postgres_fdw_get_connections()",
        ],
    },
}  # fmt: skip


def hostile(folder: Path) -> Iterator[Hostile]:
    """All statements. folder: where a file would appear if a statement could write one."""
    for dialect in DIALECTS:
        for table in (_EVERYWHERE, _OWN[dialect]):
            for kind, statements in table.items():
                for number, text in enumerate(statements):
                    yield Hostile(kind, dialect, text.replace("{f}", str(folder / f"made-{kind}-{number}")))
                    if kind in {"write", "function", "file", "setting"} and number % 4 == 0:
                        yield Hostile(kind, dialect, f"SELECT 1 AS a; {text}".replace("{f}", str(folder / "stacked")))
