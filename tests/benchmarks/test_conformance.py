"""The conformance table: its judges, every case through our relay, and that the committed page has them all."""

import gzip
import json
import re
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks.common.processes import Running
from benchmarks.conformance import judge
from benchmarks.conformance.case import COMPLETION, QUESTION, Case, chat
from benchmarks.conformance.conformance import CASES, PAGE
from benchmarks.conformance.dialect_cases import ROWS
from benchmarks.conformance.diff import Difference, of_json, of_streams, stream_of, told
from benchmarks.conformance.lanes import NOT_APPLICABLE, TITLES, Lane, applies, learn, run, start, warm
from benchmarks.conformance.page import KINDS, markdown
from benchmarks.conformance.reply_cases import DONE, PLAIN, ROLE, STOP, WORDS
from benchmarks.conformance.wire import (
    EVENTS,
    Answer,
    Exchange,
    Pairs,
    Received,
    Script,
    ask,
    ask_and_leave,
    post,
    upstream,
)
from proxy.dialects.errors import ApiError
from proxy.dialects.paths import BY_PATH

RELAY = Lane("relay", 0)
IN_THE_RELAY = [case for case in CASES if applies(case, RELAY)]
PLACE = Path(__file__).resolve().parents[2] / "config" / "prompts" / "answer.txt"
BLOCK = b'{"role":"system","content":"%b\\n\\n[1]"}' % PLACE.read_text("utf-8")[:60].encode()


# --- The cases, through our relay


@pytest.fixture(scope="module")
def nobody() -> Iterator[int]:
    """A port that is taken, and where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture(scope="module")
def port() -> int:
    """Where the scripted upstream listens: one for each test, all on the port that the gateway was told."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        found: int = free.getsockname()[1]
    return found


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory, models: Path, nobody: int, port: int) -> Iterator[Running]:
    """`ragway serve` with the handbook of two pages, as the script starts it."""
    folder = tmp_path_factory.mktemp("conformance")
    running = start("relay", folder, port, nobody, learn(folder, models))
    yield running
    running.stop()


async def cells(relay: Running, port: int, cases: Sequence[Case]) -> dict[str, str]:
    async with upstream(port) as script, upstream() as trap:
        lane = Lane("relay", relay.port)
        usual = await warm(lane, script)
        return {case.title: await run(case, lane, script, trap, usual) for case in cases}


@pytest.mark.parametrize("group", ["request", "reply", "stream"])
async def test_the_relay_keeps_every_byte(relay: Running, port: int, group: str) -> None:
    found = await cells(relay, port, [case for case in IN_THE_RELAY if case.group == group])
    assert len(found) > 40
    assert {title: cell for title, cell in found.items() if judge.kind_of(cell) not in ("same", "kept")} == {}
    assert [title for title, cell in found.items() if cell == "kept"] == [], "nothing is spelled anew"


async def test_the_relay_tells_every_fault_as_one(relay: Running, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "CLOSED_WITHIN_S", 1.0)  # tests share their machine; the page is held to its limit
    found = await cells(relay, port, [case for case in IN_THE_RELAY if case.group == "fault"])
    assert len(found) > 20
    assert {title: cell for title, cell in found.items() if judge.kind_of(cell) not in ("same", "kept")} == {}


async def test_the_relay_keeps_every_dialect(relay: Running, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "CLOSED_WITHIN_S", 1.0)
    async with upstream(port) as script, upstream() as trap:
        lane = Lane("relay", relay.port)
        found = {
            f"{row.title}, {path}": await run(case, lane, script, trap, {})
            for row in ROWS
            for path, case in row.cases.items()
        }
    assert len(found) > 200
    assert {title: cell for title, cell in found.items() if judge.kind_of(cell) not in ("same", "kept")} == {}
    assert [title for title, cell in found.items() if cell == "kept"] == [], "nothing is spelled anew"


# --- The page


def test_the_page_has_a_column_for_every_dialect() -> None:
    text = PAGE.read_text("utf-8").partition("## The relay lane, by dialect")[2].partition("\n## ")[0]
    summary, *tables = [_rows(part) for part in text.split("\n### ")]
    assert [row[0] for row in summary[1:]] == [f"`{path}`" for path in BY_PATH]
    rows = [row for table in tables for row in table[1:]]
    assert [row[0] for row in rows] == [_escaped(row.name) for row in ROWS]
    assert all(table[0] == ["case", *(f"`{path}`" for path in BY_PATH)] for table in tables)
    for row, cells in zip(ROWS, rows, strict=True):
        assert [cell != NOT_APPLICABLE for cell in cells[1:]] == [path in row.cases for path in BY_PATH], row.title
    for number, path in enumerate(BY_PATH, start=1):
        kinds = [judge.kind_of(cells[number]) for cells in rows]
        assert summary[number] == [f"`{path}`", *(str(kinds.count(kind)) for kind in KINDS)]


def test_titles_of_rows_are_unique_and_a_row_without_a_dialect_is_an_exception() -> None:
    assert len({row.title for row in ROWS}) == len(ROWS) > 60
    assert sum(len(row.cases) == len(BY_PATH) for row in ROWS) > 0.9 * len(ROWS)


def test_the_page_has_a_row_for_every_case_and_a_cell_for_every_lane() -> None:
    text = PAGE.read_text("utf-8")
    for title, cases in _by_heading(text).items():
        assert [row[0] for row in cases] == [_escaped(case.name) for case in CASES if case.group == _GROUPS[title]]
        assert {len(row) for row in cases} == {1 + len(TITLES)}
        for row in cases:
            assert all(judge.kind_of(cell) for cell in row[1:]), row
    assert set(_by_heading(text)) == set(_GROUPS)


def test_the_page_counts_its_own_cells() -> None:
    text = PAGE.read_text("utf-8")
    summary = {row[0]: row[1:] for row in _rows(text.partition("## Summary")[2].partition("\n## ")[0])}
    kinds = summary[""]
    for number, lane in enumerate(TITLES.values(), start=1):
        of_lane = [judge.kind_of(row[number]) for rows in _by_heading(text).values() for row in rows]
        assert summary[lane] == [str(of_lane.count(kind)) for kind in kinds]


_GROUPS = {
    "Requests": "request", "Answers that are not streamed": "reply", "Streams": "stream", "Faults": "fault",
    "A provider with a dialect of its own": "provider",
}  # fmt: skip


def _by_heading(text: str) -> dict[str, list[list[str]]]:
    sections = {part.partition("\n")[0]: part for part in text.split("\n## ")[1:]}
    return {title: _rows(sections[title])[1:] for title in _GROUPS if title in sections}


def _rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|") and not line.startswith("| ---")]
    return [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def _escaped(name: str) -> str:
    return name.replace("\n", " ")


def test_the_page_lists_our_shortcomings_and_not_theirs() -> None:
    table = {case.title: dict.fromkeys(TITLES, "same") for case in CASES}
    table[CASES[0].title] = {"relay": "lost: `a|b`", "translated": "kept", "litellm": "made up: `c`"}
    text = markdown(CASES, table, [], {})
    ours = text.partition("## Where ragway changes a message")[2].partition("\n## ")[0]
    assert f"- {CASES[0].title}: lost: `a\\|b`" in ours
    assert "**ragway, translated**: nothing." in ours
    assert "made up" not in ours


def test_titles_are_unique_and_there_are_enough_of_them() -> None:
    assert len({case.title for case in CASES}) == len(CASES) >= 60


# --- The judges


@pytest.mark.parametrize(("sent", "got", "cell"), [
    (b'{"a":1}', b'{"a":1}', "same"),
    (b'{"a":1,"b":2}', b'{ "b": 2, "a": 1 }', "kept"),
    (b'{"a":1}', b"{}", "lost: `a: 1`"),
    (b'{"a":"x"}', b"{}", "lost: `a`"),
    (b"{}", b'{"a":null}', "made up: `a: null`"),
    (b'{"a":{"b":[1,"x"]}}', b'{"a":{"b":[1,"y"]}}', 'changed: `a.b[1]` "x" → "y"'),
    (b'{"a":[1]}', b'{"a":[1,2]}', "made up: `a[1]: 2`"),
    (b'{"a":[1,2]}', b'{"a":[1]}', "lost: `a[1]: 2`"),
    (b'{"a":1}', b'{"a":true}', "changed: `a` 1 → true"),
    (b'{"a":1}', b'{"a":2}', "changed: `a` 1 → 2"),
    (b'{"a":0.10000000000000000555}', b'{"a":0.1}', "changed: `a` 0.10000000000000000555 → 0.1"),
    (b'{"a":"x"}', b'{"b":"x"}', "changed: `a` moved to `b`"),
    (b'{"a":"x"}', b'{"b":{"a":"x"}}', "changed: `a` moved to `b`"),
    (b'{"a":null}', b'{"b":null}', "lost: `a: null`; made up: `b: null`"),
    (b'{"id":"1"}', b'{"id":"2"}', "changed: `id`"),
])  # fmt: skip
def test_differences_in_values_are_named(sent: bytes, got: bytes, cell: str) -> None:
    assert told(of_json(sent, got)) == cell


@pytest.mark.parametrize(("about", "sent", "got"), [
    ("space", b'{"a": 1}', b'{"a":1}'),
    ("order", b'{"a":1,"b":2}', b'{"b":2,"a":1}'),
    ("numbers", b'{"a":1.50e2}', b'{"a":150}'),
    ("escapes", b'{"a":"\\u00e9"}', '{"a":"é"}'.encode()),
    ("escapes", b'{"a":"\\u00e9","b":1}', '{"a":"é"}'.encode()),
    ("duplicates", b'{"a":1,"a":2}', b'{"a":2}'),
])  # fmt: skip
def test_spelling_counts_where_the_case_is_about_it(about: str, sent: bytes, got: bytes) -> None:
    found = of_json(sent, got)
    assert about in {each.kind for each in found}
    assert told(found, [about]).partition(": ")[0] in ("changed", "lost")
    assert told([each for each in found if each.kind == about]) == "kept"


@pytest.mark.parametrize(("got", "cell"), [
    (PLAIN, "same"),
    ([each.replace(b'":', b'": ') for each in PLAIN], "kept"),
    (PLAIN[:-1], "lost: [DONE]"),
    ((*PLAIN[:2], *PLAIN[3:]), "lost: a content event"),
    ((ROLE, *PLAIN), "made up: a role event"),
    ([each.replace(b'"stop"', b'"length"') for each in PLAIN], 'changed: `choices[0].finish_reason` "stop" → "length"'),
    ((*PLAIN[:4], DONE), "lost: a finish event"),
    ((*PLAIN, b'data: {"error":{"message":"m"}}\n\n'), "made up: an error event"),
    ((*PLAIN[:-1], b'data: {"choices":[],"usage":{"total_tokens":1}}\n\n', DONE), "made up: a usage event"),
])  # fmt: skip
def test_differences_between_streams_are_named(got: Sequence[bytes], cell: str) -> None:
    assert told(of_streams(b"".join(PLAIN), b"".join(got))) == cell


@pytest.mark.parametrize(("about", "sent"), [
    ("comments", b": hello\n\n" + ROLE), ("fields", b"event: x\nid: 1\n" + ROLE), ("BOM", b"\xef\xbb\xbf" + ROLE),
    ("lines", ROLE.replace(b"\n", b"\r\n")),
])  # fmt: skip
def test_what_browsers_forget_of_a_stream_counts_where_the_case_is_about_it(about: str, sent: bytes) -> None:
    found = of_streams(sent, ROLE)
    assert told(found) == "kept"
    assert told(found, [about]).startswith("changed: ")


def test_a_stream_is_read_as_browsers_do() -> None:
    read = stream_of(b"\xef\xbb\xbf: c\r\ndata: a\ndata:b\r\rid: 7\ndata:  c\n\ndata: cut")
    assert (read.data, read.comments, read.fields, read.bom) == (["a\nb", " c", "cut"], ["c"], [("id", "7")], True)


def test_a_cell_lists_a_few_and_counts_the_rest() -> None:
    many = [Difference("lost", str(number)) for number in range(6)]
    assert told([*many, *many]) == "lost: 0, 1, 2, 3 and 2 more"


def exchange(sent: bytes = b"", got: bytes = b"", headers: Pairs = (), answer: Answer | None = None) -> Exchange:
    """A request that came once."""
    return Exchange(sent, Script((COMPLETION,)), [Received(b"/v1", headers, got)], answer or Answer())


AUGMENTED = Answer(200, ((b"x-rag-status", b"augmented"),), b"", "whole")


def test_the_inserted_block_may_be_the_only_difference() -> None:
    sent = chat("")
    got = sent.replace(b'"messages":[', b'"messages":[' + BLOCK + b",")
    check = judge.request("space")
    assert check(exchange(sent, got, answer=AUGMENTED), True) == "same"
    assert check(exchange(sent, got.replace(BLOCK + b",", BLOCK + b", "), answer=AUGMENTED), True).startswith("changed")
    assert check(exchange(sent, got.replace(b"TLS", b"SSL"), answer=AUGMENTED), True).startswith("changed: `messages")
    assert check(exchange(sent, sent, answer=AUGMENTED), True) == "lost: the block is not at the declared place"
    assert check(exchange(sent, sent), True).startswith("lost: the block")
    of_another = check(exchange(sent, got), False)
    assert of_another.startswith('made up: `messages[1]`; changed: `messages[0].role` "user" → "system"')


TEXT = json.dumps(json.loads(BLOCK)["content"])[1:-1].encode()
SYSTEM_BLOCK = b'{"type":"text","text":"%b"}' % TEXT


@pytest.mark.parametrize(("path", "sent", "got"), [
    ("/v1/responses", b'{"input":"Q"}', b'{"instructions":"%b","input":"Q"}' % TEXT),
    ("/v1/responses", b'{"instructions":"I","input":"Q"}', b'{"instructions":"I\\n\\n%b","input":"Q"}' % TEXT),
    ("/v1/messages", b'{"messages":[]}', b'{"system":"%b","messages":[]}' % TEXT),
    ("/v1/messages", b'{"system":"I"}', b'{"system":[{"type":"text","text":"I"},%b]}' % SYSTEM_BLOCK),
    ("/v1/messages", b'{"system":[{"x":1}]}', b'{"system":[{"x":1},%b]}' % SYSTEM_BLOCK),
])  # fmt: skip
def test_the_block_stands_at_the_declared_place_of_the_dialect(path: str, sent: bytes, got: bytes) -> None:
    check = judge.request(path=path)
    assert check(exchange(sent, got, answer=AUGMENTED), True) == "same"
    assert check(exchange(sent, got.replace(b"}", b',"a":1}', 1), answer=AUGMENTED), True) != "same"
    elsewhere = sent[:-1] + b',"passages":"%b"}' % TEXT
    assert check(exchange(sent, elsewhere, answer=AUGMENTED), True) == "lost: the block is not at the declared place"


def test_an_error_has_the_form_of_the_dialect() -> None:
    openais = b'{"error":{"message":"m","type":"t","param":null,"code":"gone"}}'
    anthropics = b'{"type":"error","error":{"type":"not_found_error","message":"m"},"request_id":"r"}'
    assert judge.refuses("/v1/responses", 404)(answered(openais, CUT, status=404), True) == "kept: 404 `gone`"
    assert judge.refuses("/v1/messages", 404)(answered(anthropics, CUT, status=404), True) == "kept: 404"
    wrong = judge.refuses("/v1/messages", 404)(answered(openais, CUT, status=404), True)
    assert wrong == "changed: 404, not in Anthropic's form"


@pytest.mark.parametrize("path", BY_PATH)
def test_a_cut_stream_must_look_cut_in_every_dialect(path: str) -> None:
    row = next(row for row in ROWS if row.title == "stream: plain")
    (whole,) = row.cases[path].scripts
    half = Script(whole.pieces[:3], headers=EVENTS, framing="chunked", end="fin")
    error = BY_PATH[path].error_frame(ApiError(502, "It broke off.", code="upstream_cut"), "rag-1")
    check = judge.cut(path)
    assert check(answered(half.body, half, end="cut"), True) == "same"
    assert check(answered(half.pieces[0], half, end="cut"), True) == "kept: broken off"
    assert check(answered(half.body + error, half, end="cut"), True) == "kept: an error event, then broken off"
    assert check(answered(whole.body, half), True) == "made up: an orderly end"
    assert check(answered(half.body, half), True) == "made up: an orderly end"


def test_a_refusal_a_second_request_and_silence_are_told_apart() -> None:
    refused = Exchange(b"", Script(), answer=Answer(400, (), b'{"error":{"message":"m","code":"no_n"}}', "whole"))
    assert judge.request()(refused, False) == "refused: 400 `no_n`"
    assert judge.once(refused, False) == "refused: 400 `no_n`"
    assert judge.request()(Exchange(b"", Script()), False) == "lost: nothing reached the upstream"
    twice = exchange()
    twice.received *= 2
    assert judge.once(twice, False) == "made up: 2 requests upstream"
    assert judge.request()(twice, False) == "made up: 2 requests upstream"


def test_headers_and_keys_are_looked_for_where_they_must_and_must_not_be() -> None:
    seen = exchange(headers=((b"cookie", b"a=1"), (b"authorization", b"Bearer sk-right")))
    assert judge.stays(b"cookie", b"via")(seen, True) == "changed: sent on, `cookie`"
    assert judge.stays(b"via")(seen, True) == "kept: none of it sent on"
    assert judge.travels(b"cookie", b"via")(seen, True) == "lost: `via`"
    assert judge.keyed(b"sk-right")(seen, True) == "kept: none of it sent on"
    assert judge.keyed(b"sk-other")(seen, True) == "changed: another key than the configured one"
    leaky = exchange(got=b"sk-of-the-client", headers=seen.received[0].headers)
    assert judge.keyed(b"sk-right")(leaky, True) == "changed: sent on"
    leaky.trapped = 1
    assert judge.untrapped(judge.once)(leaky, True) == "changed: the request went to the address named there"


def answered(
    body: bytes, script: Script, *, end: str = "whole", status: int = 200, headers: Pairs | None = None
) -> Exchange:
    """An exchange whose client got this."""
    assert end in ("whole", "cut", "none", "silent")
    answer = Answer(status, script.headers if headers is None else headers, body, end)  # type: ignore[arg-type]
    return Exchange(b"", script, [Received(b"/v1", (), b"")], answer)


def test_of_a_reply_status_type_end_and_body_are_compared() -> None:
    script = Script((COMPLETION,))
    check = judge.reply("encoding")
    assert check(answered(COMPLETION, script), False) == "same"
    assert check(answered(COMPLETION, script, status=201), False) == "changed: status 200 → 201"
    assert check(answered(COMPLETION, script, end="cut"), False) == "changed: broken off"
    assert check(answered(b"", script, end="silent"), False).startswith("lost: no end of the answer")
    html = ((b"content-type", b"text/html"),)
    assert check(answered(COMPLETION, script, headers=html), False) == "changed: `application/json` → `text/html`"
    packed = Script((gzip.compress(COMPLETION),), headers=(*script.headers, (b"content-encoding", b"gzip")))
    assert check(answered(COMPLETION, packed, headers=script.headers), False) == "kept"
    assert judge.reply_headers(b"content-encoding")(answered(b"", packed, headers=()), False) == (
        "lost: `content-encoding`"
    )
    usual = answered(COMPLETION.replace(b'"gpt-4o-2024-08-06"', b'"gpt-4o"'), script)
    assert check(usual, False) == 'changed: `model` "gpt-4o-2024-08-06" → "gpt-4o"'
    usual.usual = judge.usual_of(usual)
    assert check(usual, False) == "kept"


CUT = Script((ROLE, WORDS[0]), headers=EVENTS, framing="chunked", end="fin")
ERROR = b'data: {"error":{"message":"m"}}\n\n'


@pytest.mark.parametrize(("body", "end", "cell"), [
    (ROLE + WORDS[0], "cut", "same"),
    (ROLE + WORDS[0], "whole", "made up: an orderly end"),
    (ROLE + WORDS[0] + DONE, "whole", "made up: [DONE]"),
    (ROLE + WORDS[0] + DONE, "cut", "made up: [DONE]"),
    (ROLE + WORDS[0] + STOP, "cut", 'made up: finish_reason "stop"'),
    (ROLE + WORDS[0] + ERROR + DONE, "whole", "made up: [DONE], after an error event"),
    (ROLE + WORDS[0] + ERROR, "whole", "kept: an error event, then closed in order"),
    (ROLE + WORDS[0] + ERROR, "cut", "kept: an error event, then broken off"),
    (WORDS[0], "cut", "kept: broken off"),
    (ROLE, "cut", "lost: 1 of 1 pieces of text that had come"),
    (b"", "none", "lost: no answer at all"),
    (ROLE, "silent", "lost: no answer within the limit"),
])  # fmt: skip
def test_a_cut_stream_must_look_cut(body: bytes, end: str, cell: str) -> None:
    assert judge.honest_cut(answered(body, CUT, end=end), False) == cell


def test_an_error_before_the_head_has_openais_shape() -> None:
    body = b'{"error":{"message":"m","type":"t","param":null,"code":"gone"}}'
    check = judge.fails(502)
    assert check(answered(body, CUT, status=502), False) == "kept: 502 `gone`"
    assert check(answered(body, CUT, status=500), False) == "changed: told as 500 `gone`"
    assert check(answered(b"Bad Gateway", CUT, status=502), False) == "changed: 502, not in OpenAI's shape"
    assert check(answered(COMPLETION, CUT), False) == "made up: a 200"


def test_the_upstream_must_be_closed_soon() -> None:
    seen = exchange()
    assert judge.closes_upstream(seen, False) == "lost: the upstream is not told"
    seen.closed_after_s = 0.1
    assert judge.closes_upstream(seen, False) == "kept: closed within 250 ms"
    seen.closed_after_s = 0.3
    assert judge.closes_upstream(seen, False) == "changed: closed later than 250 ms"


def test_the_worst_of_several_exchanges_stands_first() -> None:
    assert judge.worst_first(["same", "same"]) == "same"
    assert judge.worst_first(["same", "kept: a", "lost: b", "same"]) == (
        "lost: b (1 of 4); kept: a (1 of 4); same (2 of 4)"
    )
    assert [judge.kind_of(cell) for cell in ("made up: x", "—", "kept", "refused: 400")] == [
        "made up",
        NOT_APPLICABLE,
        "kept",
        "refused",
    ]


# --- Both ends of the wire, without a lane between


async def direct(script: Script) -> Exchange:
    async with upstream() as server:
        seen = Exchange(chat(""), script)
        await server.play(seen)
        await ask(server.port, post(server.port, seen.sent, ((b"x-a", b"1"),)), seen, server)
        return seen


async def test_with_no_lane_between_everything_is_the_same() -> None:
    for case in CASES:
        for script in case.scripts[:1]:
            if script.end == "whole" and not script.raw:
                seen = await direct(script)
                assert (seen.answer.status, seen.answer.body) == (int(script.status[:3]), script.body), case.title
                assert (seen.received[0].body, seen.answer.end, seen.held_back) == (chat(""), "whole", 0), case.title
                assert seen.received[0].header(b"x-a") == b"1"


@pytest.mark.parametrize(("script", "end", "body"), [
    (Script((ROLE, WORDS[0]), framing="chunked", end="fin"), "cut", ROLE + WORDS[0]),
    (Script((ROLE, WORDS[0]), framing="chunked", end="reset", marks=(b"", b"alpha")), "cut", ROLE + WORDS[0]),
    (Script((ROLE,), framing="close", end="fin"), "whole", ROLE),
    (Script((ROLE,), headers=((b"content-length", b"999"),), end="fin"), "cut", ROLE),
    (Script(headless=True, end="fin"), "none", b""),
    (Script(headless=True, end="reset"), "none", b""),
])  # fmt: skip
async def test_the_client_tells_a_cut_from_an_end(script: Script, end: str, body: bytes) -> None:
    seen = await direct(script)
    assert (seen.answer.end, seen.answer.body) == (end, body)


async def test_the_upstream_notices_a_mark_that_does_not_come() -> None:
    seen = await direct(Script((b"a", b"b"), framing="chunked", marks=(b"never", b"b")))
    assert (seen.held_back, seen.answer.body) == (1, b"ab")


async def test_a_client_that_leaves_is_seen_by_the_upstream() -> None:
    async with upstream() as server:
        seen = Exchange(chat(""), Script((WORDS[0],), headers=EVENTS, framing="chunked", end="silent"))
        await server.play(seen)
        await ask_and_leave(server.port, post(server.port, seen.sent, ()), seen, server, after=b"alpha")
    assert judge.closes_upstream(seen, False).startswith("kept")
    assert QUESTION.encode() in seen.received[0].body
