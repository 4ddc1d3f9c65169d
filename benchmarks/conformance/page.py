"""Write `results/conformance.md` from the cells of a run: the judges, the versions, then the tables."""

import datetime
import importlib.metadata
import platform
from collections import Counter
from collections.abc import Iterator, Sequence

from benchmarks.common.output import table_row
from benchmarks.conformance.case import Case
from benchmarks.conformance.dialect_cases import PATHS, Row
from benchmarks.conformance.judge import CLOSED_WITHIN_S, kind_of
from benchmarks.conformance.lanes import LIMIT_S, NOT_APPLICABLE, TITLES
from benchmarks.conformance.reply_cases import BASELINE_REPLY, BASELINE_STREAM

Table = dict[str, dict[str, str]]  # a case's title -> lane -> cell
KINDS = ("same", "kept", "changed", "lost", "made up", "refused", NOT_APPLICABLE)
_UNKEPT = ("changed", "lost", "made up", "refused")
_GROUPS = {
    "request": ("Requests", """\
The comparison is between the client's request and the request that the upstream received. Retrieval is on in ragway's
lanes: the inserted message at the head of `messages` must be present, and is removed before the comparison. LiteLLM's
proxy has no retrieval. Rows of one request upstream count the requests that arrived; the proxy's own retries are
off."""),
    "reply": ("Answers that are not streamed", f"""\
The comparison is between the upstream's answer and the answer that the client received: status, media type, end, body.
The rows that name headers compare headers. A change in every answer of a lane stands in the row "{BASELINE_REPLY}"
and is not repeated below."""),
    "stream": ("Streams", f"""\
The same for event streams; events are paired by content. A change in every stream of a lane stands in the row
"{BASELINE_STREAM}" and is not repeated below. In the row about passing on, the upstream sends an event only when the
client has the previous event."""),
    "fault": ("Faults", f"""\
Before the head of an answer: the client must get a status of at least 400 and an error in OpenAI's shape. After the
head: the client must be able to see that the answer is incomplete (the connection broken off, or an error event), with
no `[DONE]` and no `finish_reason` that the upstream did not send. The last rows: the client closes the connection, and
the upstream's connection must close within {CLOSED_WITHIN_S * 1000:.0f} ms, five times out of five. Every lane is
configured to wait {LIMIT_S} s for the first byte, and as long for the next byte. "(2 of 5)" counts the exchanges of a
row."""),
    "provider": ("A provider with a dialect of its own", """\
An upstream that speaks Anthropic's Messages dialect. The expectation is written by hand: the answer that an
OpenAI client should see, and the request that the provider should get. `id`, `created`, `object`, `model` and
`system_fingerprint` are left out of the comparison: the dialect has other values, or none."""),
}  # fmt: skip


def markdown(cases: Sequence[Case], table: Table, rows: Sequence[Row], by_dialect: Table) -> str:
    """The page. table: title of a case -> lane -> cell. by_dialect: title of a row -> path -> cell."""
    return "\n".join(_lines(cases, table, rows, by_dialect)) + "\n"


def _lines(cases: Sequence[Case], table: Table, rows: Sequence[Row], by_dialect: Table) -> Iterator[str]:
    lanes = [key for key in TITLES if any(key in cells for cells in table.values())]
    yield from _head(len(cases))
    yield from _summary(cases, table, lanes)
    yield from _ours(cases, table, [key for key in lanes if key != "litellm"])
    yield from _dialects(rows, by_dialect)
    for group, (title, text) in _GROUPS.items():
        of_group = [case for case in cases if case.group == group]
        yield from ("", f"## {title}", "", text, "", table_row("case", *(TITLES[key] for key in lanes)))
        yield table_row(*["---"] * (len(lanes) + 1))
        for case in of_group:
            yield table_row(_escaped(case.name), *(_escaped(table[case.title][key]) for key in lanes))


def _head(number: int) -> Iterator[str]:
    names = ("litellm", "openai", "httpx", "uvicorn", "starlette")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    yield f"""\
# Conformance: how three lanes keep requests, answers, streams and faults

<!-- Written by benchmarks/conformance/conformance.py. Do not edit: run the program again. -->

{number} cases, each sent through ragway's relay lane, ragway's translated lane (through litellm), and LiteLLM's proxy.
A raw upstream on loopback acts as the case says, and a raw client records the reply. Each cell is the judgement of a
program about the bytes on both sides in a run; only the explanations on this page are written by hand.

Run on {today} with ragway {importlib.metadata.version("ragway")} (the working tree),
{versions},
Python {platform.python_version()}, {platform.system()}:

```console
python benchmarks/conformance/conformance.py
```

## How to read the tables

| cell | meaning |
| --- | --- |
| same | byte for byte |
| kept | the same values, in another spelling where the case is not about the spelling; "kept: …" names the kept part |
| changed: … | another value, or another spelling where the case is about the spelling |
| lost: … | sent, and not received |
| made up: … | received, and not sent |
| refused: … | the lane answered with the error and called no upstream |
| {NOT_APPLICABLE} | the case does not apply to the lane |

- A "changed" of a translating lane is not always a fault. The lane reads and writes the whole body, so spelling is lost
  by design, and some changes help clients. The reader decides whether a change matters.
- A refusal may be right, too: of a parameter that would steer the gateway, or of a parameter that the provider
  does not have.
- LiteLLM's proxy runs as LiteLLM's documentation advises for production, with the best settings for the cases:
  `LITELLM_MODE=PRODUCTION`, `num_retries: 0`, `disable_cooldowns: true`, `drop_params: false`,
  `cancel_on_disconnect: true`, `always_include_stream_usage: false`, one worker, no database, no keys. The
  proxy's pass-through routes beside `/v1/chat/completions` are not compared. The proxy passes the upstream's headers on
  with `llm_provider-` before the names, and can send more of the client's headers on
  (`forward_client_headers_to_llm_api`), which is off by default and in the run.
- Loading and warming happen before the first case. The page measures no speed: see
  [the benchmarks](../README.md)."""


def _summary(cases: Sequence[Case], table: Table, lanes: Sequence[str]) -> Iterator[str]:
    counts = {key: Counter(kind_of(table[case.title][key]) for case in cases) for key in lanes}
    yield from ("", "## Summary", "", "A cell with several words counts under the first.", "")
    yield table_row("", *KINDS)
    yield table_row(*["---"] * (len(KINDS) + 1))
    for key in lanes:
        yield table_row(TITLES[key], *(str(counts[key][kind]) for kind in KINDS))


def _ours(cases: Sequence[Case], table: Table, lanes: Sequence[str]) -> Iterator[str]:
    yield from ("", "## Where ragway changes a message", "", "Every cell of ragway's lanes except same and kept.")
    for key in lanes:
        short = [(case, table[case.title][key]) for case in cases if kind_of(table[case.title][key]) in _UNKEPT]
        yield from ("", f"**{TITLES[key]}**: {len(short) or 'nothing'}.")
        yield from ("", *(f"- {_escaped(case.title)}: {_escaped(cell)}" for case, cell in short)) if short else ()


_PARTS = {"request": "Requests", "reply": "Answers that are not streamed", "stream": "Streams", "fault": "Faults"}


def _dialects(rows: Sequence[Row], by_dialect: Table) -> Iterator[str]:
    yield f"""
## The relay lane, by dialect

{len(rows)} further rows, each as a chat completion, as a request for a response (OpenAI's Responses API) and as a
request for a message (Anthropic's Messages API), to an upstream of the same dialect. The passages must stand at the
dialect's declared place, and are removed before the comparison: the first message, the end of `instructions`, the last
block of `system`. An error of the gateway must have the form of the dialect. {NOT_APPLICABLE}: the API has no such
feature.

For an upstream of another dialect, see [the bridges](bridges.md).
"""
    yield table_row("", *KINDS)
    yield table_row(*["---"] * (len(KINDS) + 1))
    for path in PATHS:
        kinds = Counter(kind_of(by_dialect.get(row.title, {}).get(path, NOT_APPLICABLE)) for row in rows)
        yield table_row(f"`{path}`", *(str(kinds[kind]) for kind in KINDS))
    for part, title in _PARTS.items():
        yield from ("", f"### {title}, by dialect", "", table_row("case", *(f"`{path}`" for path in PATHS)))
        yield table_row(*["---"] * (len(PATHS) + 1))
        for row in (row for row in rows if row.part == part):
            cells = by_dialect.get(row.title, {})
            yield table_row(_escaped(row.name), *(_escaped(cells.get(path, NOT_APPLICABLE)) for path in PATHS))


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
