"""The losses of responses and messages over a chat completion: writes `results/bridges.md`, every cell from a run.

    python benchmarks/conformance/bridges.py [--output FILE]

The bridges run in this process, in front of a scripted upstream on loopback: the relay with the bridge, and the
translated lane for a model of OpenAI's dialect and for a Claude model.
"""

import argparse
import importlib.metadata
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common.output import table_row
from benchmarks.common.processes import ROOT
from benchmarks.conformance.bridge_rows import OF_MESSAGES, OF_RESPONSES, PLAIN, REPLIES, Json, ReplyRow, Row
from proxy.asgi import App
from proxy.dialects import sse
from proxy.dialects.errors import ApiError
from proxy.dialects.messages import MESSAGES
from proxy.dialects.paths import BY_PATH
from proxy.dialects.responses import RESPONSES
from proxy.dialects.target import Target
from proxy.exchange import Exchange
from proxy.upstream.bridges.missing_paths import Bridge
from proxy.upstream.relay import Relay
from proxy.upstream.translated.lane import Translated
from runtime.http_client import Client
from tests.support import anthropic_server
from tests.support.asgi_calls import Call, scope_of
from tests.support.recording_upstream import Recorder, answering, recording
from tests.support.upstream_servers import chunked, head, reply

PAGE = ROOT / "benchmarks" / "results" / "bridges.md"
COLUMNS = {
    "relay": "server with chat completions alone",
    "openai/gpt-4o": "`openai/gpt-4o`, translated lane",
    "anthropic/claude-sonnet-4-5": "`anthropic/claude-sonnet-4-5`, translated lane",
}
_PATIENCE_S = 20.0
_MOST_CELL_CHARS = 160
_AS_JSON = b"content-type: application/json"


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=PAGE)
    parser.parse_args().output.write_text(uvloop.run(page()), "utf-8")
    return 0


async def page() -> str:
    """The page, from a run."""
    lane = Translated(connect_timeout_s=_PATIENCE_S, first_byte_timeout_s=_PATIENCE_S, idle_timeout_s=_PATIENCE_S)
    client = Client(
        connect_timeout_s=_PATIENCE_S,
        first_byte_timeout_s=_PATIENCE_S,
        idle_timeout_s=_PATIENCE_S,
        keepalive_s=_PATIENCE_S,
        max_connections=9,
    )
    relay = Bridge(Relay(client), relearn_after_s=_PATIENCE_S)
    try:
        with recording() as upstream:
            runs = Runs(
                upstream,
                {
                    "relay": relay,
                    **dict.fromkeys(list(COLUMNS)[1:], Bridge(lane, relearn_after_s=_PATIENCE_S, chat_only=True)),
                },
            )
            return "\n".join([line async for line in _lines(runs)]) + "\n"
    finally:
        client.close()
        await lane.close()


class Runs:
    """Runs rows on the columns."""

    def __init__(self, upstream: Recorder, apps: Mapping[str, App]) -> None:
        self._upstream = upstream
        self._apps = apps
        self._plain: dict[tuple[str, str], Json] = {}  # (path, column) -> what the upstream gets of a plain request

    async def request(self, path: str, row: Row, column: str) -> str:
        """The row's members as the upstream gets the members, or the refusal."""
        if (path, column) not in self._plain:
            self._plain[path, column] = (await self._received(path, {}, column))[1]
        status, got = await self._received(path, row.fields, column)
        if status != 200:
            return f"{status} `{got['code'] or got['type']}`"
        return _shown_differences(self._plain[path, column], got)

    async def _received(self, path: str, fields: Json, column: str) -> tuple[int, Json]:
        """200 and the upstream's JSON, or the status and the error."""
        whole = (
            anthropic_server.message(anthropic_server.text("80.")) if "claude" in column else _completion(REPLIES[0])
        )
        self._upstream.fresh().answer = answering(reply(json.dumps(whole).encode(), _AS_JSON))
        status, body, _ = await self._asked(path, {**PLAIN[path], **fields}, column)
        if not self._upstream.requests:
            error = json.loads(body)["error"]
            return status, {"type": error["type"], "code": error.get("code")}
        got: Json = json.loads(self._upstream.requests[0].body)
        return 200, got

    async def reply(self, path: str, row: ReplyRow, *, streamed: bool) -> str:
        """The reply as the client gets the reply."""
        frames = chunked([sse.frame(json.dumps(chunk).encode()) for chunk in _chunks(row)] + [sse.DONE])
        answer = reply(json.dumps(_completion(row)).encode(), _AS_JSON)
        if row.end == "429":
            answer = reply(
                b'{"error":{"message":"Wait.","type":"requests","code":"limit"}}', _AS_JSON, status=b"429 Too Many"
            )
        elif streamed:
            sent = b"".join(frames if row.end == "whole" else [*frames[:2], *_broken(row)])
            answer = head(b"content-type: text/event-stream", b"transfer-encoding: chunked") + sent
        elif row.end == "error":
            answer = reply(b'{"error":{"message":"Busy."}}', _AS_JSON)
        elif row.end == "cut":
            answer = answer[:-20]
        self._upstream.fresh().answer = _then_closing(answer) if row.end == "cut" else answering(answer)
        status, body, whole = await self._asked(path, {**PLAIN[path], "stream": streamed}, "relay")
        if streamed and status == 200:
            return _seen_stream(path, body, whole=whole)
        seen = json.loads(body)
        return (
            _seen(path, seen) if status == 200 else f"{status} `{seen['error'].get('code') or seen['error']['type']}`"
        )

    async def _asked(self, path: str, body: Json, column: str) -> tuple[int, bytes, bool]:
        """Status, body, and whether the reply came to an end."""
        base = self._upstream.url + ("" if "claude" in column else "/v1")
        relayed = column == "relay"
        target = Target(
            "m" if relayed else column,
            "relay" if relayed else "translated",
            base,
            "sk-of-the-upstream",
            dialects=("chat",) if relayed else (),
        )
        sent = json.dumps({**body, "model": target.model}).encode()
        exchange = Exchange(path=path, dialect=BY_PATH[path], target=target, body=sent)
        try:
            call = await Call([sent]).to(self._apps[column], scope_of(path, exchange=exchange))
        except ApiError as error:
            return error.status, error.body(), True
        return call.status, call.body, call.whole


# --- The upstream's side


def _completion(row: ReplyRow) -> Json:
    message = {"role": "assistant", **row.message}
    choice: Json = {"index": 0, "message": message, "finish_reason": row.finish, **row.more}
    usage: Json = {"usage": row.usage} if row.usage else {}
    return {"id": "c-1", "object": "chat.completion", "created": 1, "model": "gpt-x", "choices": [choice], **usage}


def _chunks(row: ReplyRow) -> list[Json]:
    """A chunk for the reasoning, and for each further member of the message."""
    thought: Json = {
        name: row.message[name] for name in ("reasoning_content", "thinking_blocks") if name in row.message
    }
    members = {name: value for name, value in row.message.items() if value is not None and name not in thought}
    rest: list[Json] = [{name: _indexed(value)} for name, value in members.items()]
    deltas: list[Json] = [{"role": "assistant", **thought}, *rest, {}]
    chunks: list[Json] = [{"choices": [{"index": 0, "delta": delta, **row.more}]} for delta in deltas]
    chunks[-1]["choices"][0]["finish_reason"] = row.finish
    usage: list[Json] = [{"choices": [], "usage": row.usage}] if row.usage else []
    head_of: Json = {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-x"}
    return [{**head_of, **each} for each in [*chunks, *usage]]


def _indexed(value: Any) -> Any:
    """The calls of a message as the calls of a chunk."""
    calls = isinstance(value, list) and value and "function" in value[0]
    return [{"index": index, **call} for index, call in enumerate(value)] if calls else value


def _broken(row: ReplyRow) -> list[bytes]:
    return chunked([sse.frame(b'{"error":{"message":"Busy."}}')]) if row.end == "error" else []


def _then_closing(answer: bytes) -> Any:
    async def send(wire: Any, _received: Any) -> None:
        await wire.send(answer)
        await wire.close()
        raise ConnectionResetError

    return send


# --- Cells


def _shown_differences(plain: Json, got: Json) -> str:
    """The difference to a plain request: new, changed and missing members."""
    return "; ".join(_differences(plain, got, "")).replace("|", "\\|") or "left out"


def _differences(before: Any, after: Any, at: str) -> Iterator[str]:
    if type(before) is not type(after) or not isinstance(before, dict | list):
        if before != after:
            yield _shown(at, after)
        return
    names = range(max(len(before), len(after))) if isinstance(after, list) else dict.fromkeys([*after, *before])
    for name in names:
        place = f"{at}[{name}]" if isinstance(name, int) else f"{at}.{name}".removeprefix(".")
        within = [name < len(each) if isinstance(name, int) else name in each for each in (before, after)]
        if within == [True, True]:
            yield from _differences(before[name], after[name], place)
        elif within[1]:
            yield _shown(place, after[name])
        else:
            yield f"without `{place}`"


def _shown(at: str, value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > _MOST_CELL_CHARS:
        text = text[:_MOST_CELL_CHARS] + "…"
    return f"`{at}: {text}`"


def _seen(path: str, reply: Json) -> str:
    """The parts of a whole reply, the end and the usage."""
    if path == RESPONSES.path:
        reason = reply["incomplete_details"]
        end = f"`status: {reply['status']}`" + (f" (`{reason['reason']}`)" if reason else "")
        parts = [_item(item) for item in reply["output"]]
    else:
        end = f"`stop_reason: {reply['stop_reason']}`"
        parts = [_block(block) for block in reply["content"]]
    return "; ".join([*parts, end, _usage(reply["usage"])])


def _item(item: Json) -> str:
    shown = [f"{part['type']} {json.dumps(part.get('text', part.get('refusal')))}" for part in item.get("content", [])]
    shown += [name for name in ("encrypted_content",) if name in item]
    shown += [item["arguments"]] if "arguments" in item else []
    return f"`{item['type']}`: " + ", ".join(f"`{each}`" for each in shown)


def _block(block: Json) -> str:
    shown = {name: value for name, value in block.items() if name not in ("type", "id", "name")}
    return f"`{block['type']}`: `{json.dumps(shown)}`"


def _usage(usage: Json | None) -> str:
    if usage is None:
        return "`usage: null`"
    counts = {
        **usage,
        "total_tokens": 0,
        **usage.get("input_tokens_details", {}),
        **usage.get("output_tokens_details", {}),
    }
    shown = {name: count for name, count in counts.items() if isinstance(count, int) and count}
    return "tokens " + (", ".join(f"{name.removesuffix('_tokens')} {count}" for name, count in shown.items()) or "0")


def _seen_stream(path: str, body: bytes, *, whole: bool) -> str:
    events = [json.loads(data) for data in map(sse.data_of, sse.split(body)[0]) if data]
    if not whole:
        return f"`{events[-1]['type']}` event, connection broken off"
    if path == RESPONSES.path:
        return _seen(path, events[-1]["response"])
    return _seen(path, _accumulated(events))


def _accumulated(events: Sequence[Json]) -> Json:
    """The message of the events, as a client puts the message together."""
    message: Json = {**events[0]["message"], "content": []}
    for event in events:
        if event["type"] == "content_block_start":
            message["content"].append({**event["content_block"], "input": ""})
        elif event["type"] == "content_block_delta":
            block, delta = message["content"][event["index"]], event["delta"]
            name = "input" if delta["type"] == "input_json_delta" else delta["type"].removesuffix("_delta")
            block[name] += delta.get("partial_json", delta.get(name, ""))
        elif event["type"] == "message_delta":
            message |= {**event["delta"], "usage": event["usage"]}
    for block in message["content"]:
        given = block.pop("input")
        if block["type"] == "tool_use":
            block["input"] = _json_or_text(given)
    return message


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


# --- The page


async def _lines(runs: Runs) -> Any:
    yield _HEAD.format(litellm=importlib.metadata.version("litellm"))
    for dialect, rows, title in ((RESPONSES, OF_RESPONSES, "responses"), (MESSAGES, OF_MESSAGES, "messages")):
        yield f"\n## Requests for {title}\n"
        yield table_row("member of the request", *COLUMNS.values())
        yield table_row(*["---"] * (len(COLUMNS) + 1))
        for row in rows:
            yield table_row(row.name, *[await runs.request(dialect.path, row, column) for column in COLUMNS])
        yield f"\n## Replies as {title}\n"
        yield table_row("reply of the upstream", "whole", "streamed")
        yield table_row("---", "---", "---")
        for reply_row in REPLIES:
            cells = [await runs.reply(dialect.path, reply_row, streamed=streamed) for streamed in (False, True)]
            yield table_row(reply_row.name, cells[0], "the same" if cells[1] == cells[0] else cells[1])


_HEAD = """\
# Bridges: what a response and a message keep over a chat completion

<!-- Written by benchmarks/conformance/bridges.py. Do not edit: run the program again. -->

Where an upstream knows only chat completions, or litellm makes the call, ragway asks a chat completion for each
request for a response or a message: [which models](../../docs/use/models.md#upstreams-without-a-dialect). Each cell
below is from a run, with litellm {litellm}:

```console
python benchmarks/conformance/bridges.py
```

In the tables of requests, a cell shows what the upstream gets beyond the plain question. `left out`: the upstream
does not get the member. ragway leaves a member out where the answer stays the same; for a Claude model, litellm also
leaves out an earlier refusal and `json_object`. A status is ragway's answer to the client: the upstream gets
no request, and the message names the member and the remedy. In the tables of replies, a cell shows what the client
gets: the parts, the end and the tokens.

A response repeats `metadata`; `store` is `false` and `truncation` is `disabled` in every response. The usage stands
in the last events of a stream; `message_start` has zeros. A reasoning item carries signed thoughts of a provider in
`encrypted_content`: a client that sends the item back sends the thoughts back. Members that only Claude models know
(`thinking`, signed thoughts, `cache_control`) go to models with `claude` in the name. An empty chunk (`"delta": {{}}`)
keeps a connection alive: the client gets `ping`, or `response.in_progress` again."""

if __name__ == "__main__":
    raise SystemExit(main())
