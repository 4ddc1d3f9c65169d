"""Write docs/conformance.md from the cells of a run: the judges, the versions, then the tables."""

import datetime
import importlib.metadata
import platform
from collections import Counter
from collections.abc import Iterator, Sequence

from benchmarks.conformance.case import Case
from benchmarks.conformance.judge import CLOSED_WITHIN_S, kind_of
from benchmarks.conformance.lanes import LIMIT_S, NOT_APPLICABLE, TITLES
from benchmarks.conformance.reply_cases import BASELINE_REPLY, BASELINE_STREAM

Table = dict[str, dict[str, str]]  # a case's title -> lane -> cell
KINDS = ("same", "kept", "changed", "lost", "made up", "refused", NOT_APPLICABLE)
_UNKEPT = ("changed", "lost", "made up", "refused")
_GROUPS = {
    "request": ("Requests", """\
What the upstream received is compared with what the client sent. Retrieval is on in ragway's lanes: the one message
that it inserts at the head of `messages` must be there, and is then taken out before comparing. LiteLLM's proxy
retrieves nothing. Rows of one request upstream count the requests that arrived; the proxy's own retries are off."""),
    "reply": ("Answers that are not streamed", f"""\
What the client received is compared with what the upstream sent: status, media type, end, and the body. Headers are
compared in the rows that name them. What a lane changes in every answer stands in the row "{BASELINE_REPLY}" and is
not repeated below it."""),
    "stream": ("Streams", f"""\
The same for event streams; events are paired by what they say. What a lane changes in every stream stands in the row
"{BASELINE_STREAM}" and is not repeated below it. In the row about passing on, the upstream sends an event only when the
client has the one before it."""),
    "fault": ("Faults", f"""\
Before the head of an answer: the client must get a status of at least 400 and an error in OpenAI's shape. After it:
the client must be able to see that the answer is not whole (the connection broken off, or an error event), with no
`[DONE]` and no `finish_reason` that the upstream did not send. The last rows: the client closes its connection, and
the upstream must see its own closed within {CLOSED_WITHIN_S * 1000:.0f} ms, five times out of five. Every lane is
configured to wait {LIMIT_S} s for the first byte, and as long for the next one. "(2 of 5)" counts the exchanges of a
row."""),
    "provider": ("A provider with a dialect of its own", """\
An upstream that speaks Anthropic's Messages dialect. The expectation is written by hand: what an OpenAI client should
see of what the provider said, and what the provider should be asked. `id`, `created`, `object`, `model` and
`system_fingerprint` are left out of the comparison: this dialect has none of them, or others."""),
}  # fmt: skip


def markdown(cases: Sequence[Case], table: Table) -> str:
    """The page."""
    return "\n".join(_lines(cases, table)) + "\n"


def _lines(cases: Sequence[Case], table: Table) -> Iterator[str]:
    lanes = [key for key in TITLES if any(key in cells for cells in table.values())]
    yield from _head(len(cases))
    yield from _summary(cases, table, lanes)
    yield from _ours(cases, table, [key for key in lanes if key != "litellm"])
    for group, (title, text) in _GROUPS.items():
        rows = [case for case in cases if case.group == group]
        yield from ("", f"## {title}", "", text, "", _row("case", *(TITLES[key] for key in lanes)))
        yield _row(*["---"] * (len(lanes) + 1))
        for case in rows:
            yield _row(_escaped(case.name), *(_escaped(table[case.title][key]) for key in lanes))


def _head(number: int) -> Iterator[str]:
    names = ("litellm", "openai", "httpx", "uvicorn", "starlette")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    yield f"""\
# Conformance: what is kept of requests, answers, streams and faults

<!-- Written by benchmarks/conformance/conformance.py. Do not edit: run it again. -->

{number} cases, each sent through ragway's relay lane, its translated lane (through litellm), and LiteLLM's proxy. A raw
upstream on loopback does what the case says, and a raw client records what comes back. Each cell is the judgement of a
program about the bytes on both sides in one run; nothing on this page is written by hand but the explanations.

Run on {today} with ragway {importlib.metadata.version("ragway")} (the working tree),
{versions},
Python {platform.python_version()}, {platform.system()}:

```console
python benchmarks/conformance/conformance.py
```

## How to read it

| cell | meaning |
| --- | --- |
| same | byte for byte |
| kept | the same values, spelled anew where the case is about something else; "kept: …" says what was kept |
| changed: … | another value, or another spelling where the case is about the spelling |
| lost: … | sent, and not received |
| made up: … | received, and not sent |
| refused: … | the lane answered with this error and asked nobody |
| {NOT_APPLICABLE} | the lane has nothing of the kind |

- A "changed" of a lane that translates is not always a fault. It reads everything and writes it anew, so spelling is
  lost by design, and some of what it changes makes clients' lives easier. Whether it matters is for the reader to say.
- A refusal may be right, too: a parameter that would steer the gateway itself, or one that the provider does not have.
- LiteLLM's proxy runs as its documentation advises for production, with the settings that serve these cases best:
  `LITELLM_MODE=PRODUCTION`, `num_retries: 0`, `disable_cooldowns: true`, `drop_params: false`,
  `cancel_on_disconnect: true`, `always_include_stream_usage: false`, one worker, no database, no keys. It has
  pass-through routes beside `/v1/chat/completions`, which are not compared here. It hands the upstream's headers on
  with `llm_provider-` before their names, and can send more of the client's headers on
  (`forward_client_headers_to_llm_api`), which is off by default and here.
- Loading and warming happens before the first case. Nothing here says how fast a lane is: see
  [the benchmarks](../benchmarks/README.md)."""


def _summary(cases: Sequence[Case], table: Table, lanes: Sequence[str]) -> Iterator[str]:
    counts = {key: Counter(kind_of(table[case.title][key]) for case in cases) for key in lanes}
    yield from ("", "## Summary", "", "A cell with several words counts under the first.", "")
    yield _row("", *KINDS)
    yield _row(*["---"] * (len(KINDS) + 1))
    for key in lanes:
        yield _row(TITLES[key], *(str(counts[key][kind]) for kind in KINDS))


def _ours(cases: Sequence[Case], table: Table, lanes: Sequence[str]) -> Iterator[str]:
    yield from ("", "## Where ragway changes something", "", "Every cell of ragway's that is neither same nor kept.")
    for key in lanes:
        short = [(case, table[case.title][key]) for case in cases if kind_of(table[case.title][key]) in _UNKEPT]
        yield from ("", f"**{TITLES[key]}**: {len(short) or 'nothing'}.")
        yield from ("", *(f"- {_escaped(case.title)}: {_escaped(cell)}" for case, cell in short)) if short else ()


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
