"""The judges of the conformance table: the observations at both sides of one request -> the text of a cell.

same         byte for byte (for a request with retrieval: except for the one inserted block)
kept         the same values in another spelling; `kept: …` names the kept parts if bytes cannot be compared
changed, lost, made up, refused   as the words say, the worst first
"""

import functools
import gzip
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.conformance.diff import VALUES, Difference, Stream, of_json, of_streams, stream_of, told
from benchmarks.conformance.wire import Answer, Exchange, Script
from proxy.dialects.paths import BY_PATH

Judge = Callable[[Exchange, bool], str]  # second argument: whether the lane is ragway's, which may insert a block

CLOSED_WITHIN_S = 0.25  # the upstream, after the client left
_ORDER = ("lost", "made up", "refused", "changed", "kept", "same")


def worst_first(cells: Sequence[str]) -> str:
    """Join the cells of a case's exchanges; equal cells appear once, with a count."""
    kinds = sorted(dict.fromkeys(cells), key=lambda cell: _ORDER.index(kind_of(cell)))
    if len(kinds) == 1:
        return kinds[0]
    return "; ".join(f"{cell} ({list(cells).count(cell)} of {len(cells)})" for cell in kinds)


def kind_of(cell: str) -> str:
    """The first word or two of a cell."""
    return next(kind for kind in (*_ORDER, "—") if cell.startswith(kind))


def request(*about: str, expect: bytes | None = None, block: bool = True, path: str = "/v1/chat/completions") -> Judge:
    """The upstream got `expect`, or the client's request.

    With `block`, ragway's lanes insert the passages, if the request has passages, at the place of the path's dialect.
    """

    def judge(seen: Exchange, ours: bool) -> str:
        if cell := _not_asked_once(seen):
            return cell
        got = seen.received[0].body
        if ours and block and seen.rag:
            if seen.answer.header(b"x-rag-status") != b"augmented":
                return f"lost: the block, x-rag-status {seen.answer.header(b'x-rag-status').decode()}"
            got, found = _without_block(got, path)
            if not found:
                return "lost: the block is not at the declared place"
        try:
            return told(of_json(seen.sent if expect is None else expect, got), about)
        except ValueError:
            return "changed: the body is not JSON"

    return judge


def travels(*names: bytes) -> Judge:
    """The upstream got these headers as the client sent the headers (see `request_cases.WANTED`)."""

    def judge(seen: Exchange, _ours: bool) -> str:
        if cell := _not_asked_once(seen):
            return cell
        lost = [name.decode() for name in names if not seen.received[0].header(name)]
        return f"lost: {_coded(lost)}" if lost else "kept: all of them"

    return judge


def stays(*names: bytes, secret: bytes = b"") -> Judge:
    """The upstream got none of these headers, and the secret in no place."""

    def judge(seen: Exchange, _ours: bool) -> str:
        if cell := _not_asked_once(seen):
            return cell
        received = seen.received[0]
        passed = [name.decode() for name in names if received.header(name)]
        if passed:
            return f"changed: sent on, {_coded(passed)}"
        if secret and (secret in received.body or any(secret in value for _, value in received.headers)):
            return "changed: sent on"
        return "kept: none of it sent on"

    return judge


def keyed(key: bytes) -> Judge:
    """The upstream got the configured key, and the client's nowhere."""

    def judge(seen: Exchange, ours: bool) -> str:
        if cell := _not_asked_once(seen):
            return cell
        used = seen.received[0].header(b"authorization") or b"Bearer " + seen.received[0].header(b"x-api-key")
        if used != b"Bearer " + key:
            return "changed: another key than the configured one"
        return stays(secret=b"sk-of-the-client")(seen, ours)

    return judge


def target(expected: bytes) -> Judge:
    """The upstream got this path and query."""

    def judge(seen: Exchange, _ours: bool) -> str:
        if cell := _not_asked_once(seen):
            return cell
        got = seen.received[0].target
        return "same" if got == expected else f"changed: `{got.decode()}`"

    return judge


def untrapped(inner: Judge) -> Judge:
    """No connection reached the address in the request or the reply; otherwise the result of `inner`."""

    def judge(seen: Exchange, ours: bool) -> str:
        return "changed: the request went to the address named there" if seen.trapped else inner(seen, ours)

    return judge


def redirected(seen: Exchange, ours: bool) -> str:
    """A redirect is handed on, or told as an error, and not followed."""
    return untrapped(reply() if seen.answer.status == int(seen.script.status[:3]) else fails())(seen, ours)


def once(seen: Exchange, _ours: bool) -> str:
    """One request at the upstream, with any reply."""
    return _not_asked_once(seen) or "kept: one request"


def reply(*about: str, expect: bytes | None = None, made: tuple[str, ...] = ()) -> Judge:
    """The client got the upstream's status, media type and body, or `expect`. `made`: paths a lane has to make up."""

    def judge(seen: Exchange, _ours: bool) -> str:
        if cell := _refused(seen):
            return cell
        found = _framing(seen)
        old, new = _plain(seen.script.body, seen.script.header(b"content-encoding")), _answered(seen)
        if seen.answer.body != seen.script.body or expect is not None:
            try:
                differences = of_json(old if expect is None else expect, new)
            except ValueError:
                differences = [Difference("changed", _other_body(new))] if new != old else []
            found += [each for each in differences if not _excused(each, made) and each.anywhere not in seen.usual]
            found += [] if found else [Difference("space", "")]
        return told(found, about)

    return judge


def reply_headers(*names: bytes) -> Judge:
    """The client got these headers as the upstream sent the headers."""

    def judge(seen: Exchange, _ours: bool) -> str:
        if cell := _refused(seen):
            return cell
        lost: list[str] = []
        renamed: list[str] = []
        changed: list[str] = []
        for name in names:
            value = seen.script.header(name)
            if seen.answer.header(name) == value:
                continue
            if seen.answer.header(b"llm_provider-" + name) == value:
                renamed.append(name.decode())
            else:
                (changed if seen.answer.header(name) else lost).append(name.decode())
        cells = [f"{word}: {_coded(found)}" for word, found in (("lost", lost), ("changed", changed)) if found]
        cells += [f"changed: `llm_provider-` put before {_coded(renamed)}"] if renamed else []
        return "; ".join(cells) or "same"

    return judge


def stream(*about: str, expect: bytes | None = None, made: tuple[str, ...] = ()) -> Judge:
    """The client got the upstream's events, or `expect`'s events, each before the upstream sent the next event."""

    def judge(seen: Exchange, _ours: bool) -> str:
        if cell := _refused(seen):
            return cell
        found = _framing(seen)
        if seen.held_back:
            found.append(Difference("changed", f"held back, {seen.held_back} of {sum(map(bool, seen.script.marks))}"))
        if seen.answer.body != seen.script.body or expect is not None:
            old = _plain(seen.script.body, seen.script.header(b"content-encoding")) if expect is None else expect
            differences = of_streams(old, _answered(seen))
            found += [each for each in differences if not _excused(each, made) and each.anywhere not in seen.usual]
            found += [] if found else [Difference("space", "")]
        return told(found, about)

    return judge


def fails(*statuses: int) -> Judge:
    """One of these statuses before any part of a reply, with an error in OpenAI's form."""

    def judge(seen: Exchange, _ours: bool) -> str:
        answer = seen.answer
        if len(seen.received) > 1:
            return f"made up: {len(seen.received)} requests upstream"
        if answer.end in ("none", "silent"):
            return "lost: no answer at all" if answer.end == "none" else "lost: no answer within the limit"
        if answer.status < 400:
            return f"made up: a {answer.status}"
        return _error_cell(answer.status, answer.body, statuses)

    return judge


def refuses(path: str, *statuses: int) -> Judge:
    """One of these statuses before any part of a reply, with an error in the form of the path's dialect."""

    def judge(seen: Exchange, ours: bool) -> str:
        cell = fails(*statuses)(seen, ours)
        if cell.startswith("kept") and path == "/v1/messages" and not _is_anthropics(seen.answer.body):
            return f"changed: {seen.answer.status}, not in Anthropic's form"
        return cell

    return judge


def cut(path: str) -> Judge:
    """A broken reply looks broken to a reader of the path's dialect: no end, or an error."""

    def judge(seen: Exchange, ours: bool) -> str:
        answer, sent = seen.answer, seen.script.body
        if len(seen.received) != 1 or answer.end in ("none", "silent") or answer.status >= 400:
            return refuses(path)(seen, ours)
        if answer.body == sent and (answer.end == "cut" or seen.script.framing == "close"):
            return "same"
        reader = BY_PATH[path].reader(streamed=_media(seen.script) == b"text/event-stream")
        reader.feed(answer.body)
        reader.close()
        if reader.error:
            return f"kept: an error event, then {'broken off' if answer.end == 'cut' else 'closed in order'}"
        return "made up: an orderly end" if reader.whole or answer.end == "whole" else "kept: broken off"

    return judge


def honest_cut(seen: Exchange, _ours: bool) -> str:
    """A broken reply looks broken: no invented end, and no loss before the break."""
    answer, sent = seen.answer, seen.script.body
    if len(seen.received) != 1 or answer.end in ("none", "silent") or answer.status >= 400:
        return fails()(seen, False)
    if answer.body == sent and (answer.end == "cut" or seen.script.framing == "close"):
        return "same"
    if not _media(seen.script).startswith(b"text/event-stream"):
        return "kept: broken off" if answer.end == "cut" else "made up: an orderly end"
    return _ending(stream_of(sent), stream_of(answer.body), cut=answer.end == "cut")


def _ending(before: Stream, after: Stream, *, cut: bool) -> str:
    invented = ["[DONE]"] if after.done and not before.done else []
    new = [reason for reason in _finishes(after.objects) if reason not in _finishes(before.objects)]
    invented += [f'finish_reason "{new[0]}"'] if new else []
    error = any(isinstance(each, dict) and "error" in each for each in map(_loaded, after.objects))
    if invented or not (cut or error):
        how = ", after an error event" if error else ""
        return f"made up: {', '.join(invented) or 'an orderly end'}{how}"
    if missing := [text for text in _texts(before.objects) if text not in _texts(after.objects)]:
        return f"lost: {len(missing)} of {len(_texts(before.objects))} pieces of text that had come"
    if not error:
        return "kept: broken off"
    return f"kept: an error event, then {'broken off' if cut else 'closed in order'}"


def usual_of(seen: Exchange) -> frozenset[tuple[str, str]]:
    """The changes of a lane in a plain answer, in the form of `Exchange.usual`."""
    of = of_streams if _media(seen.script) == b"text/event-stream" else of_json
    found = of(seen.script.body, _answered(seen))
    return frozenset(each.anywhere for each in found if each.kind in VALUES)


def closes_upstream(seen: Exchange, _ours: bool) -> str:
    """The upstream saw the connection close soon after the client left."""
    if seen.closed_after_s is None:
        return "lost: the upstream is not told" if seen.received else "lost: nothing reached the upstream"
    if seen.closed_after_s > CLOSED_WITHIN_S:
        return f"changed: closed later than {CLOSED_WITHIN_S * 1000:.0f} ms"
    return f"kept: closed within {CLOSED_WITHIN_S * 1000:.0f} ms"


def _not_asked_once(seen: Exchange) -> str:
    if len(seen.received) == 1:
        return ""
    if seen.received:
        return f"made up: {len(seen.received)} requests upstream"
    if seen.answer.status < 400:
        return "lost: nothing reached the upstream"
    return _refusal(seen)


def _refused(seen: Exchange) -> str:
    return _refusal(seen) if not seen.received and seen.answer.status >= 400 else ""


def _refusal(seen: Exchange) -> str:
    error = _error_of(seen.answer.body)
    code = str(error.get("code") or "")
    return f"refused: {seen.answer.status}" + (f" `{code}`" if code and not code.isdigit() else "")


def _error_cell(status: int, body: bytes, statuses: Sequence[int]) -> str:
    error = _error_of(body)
    if not isinstance(error.get("message"), str):
        return f"changed: {status}, not in OpenAI's shape"
    code = str(error.get("code") or "")
    said = f"{status}" + (f" `{code}`" if code and not code.isdigit() else "")
    return f"kept: {said}" if not statuses or status in statuses else f"changed: told as {said}"


def _framing(seen: Exchange) -> list[Difference]:
    """The differences of status, media type, and completeness."""
    answer, status = seen.answer, int(seen.script.status[:3])
    found = []
    if answer.end in ("none", "silent"):
        return [Difference("lost", "no answer" if answer.end == "none" else "no end of the answer")]
    if answer.status != status:
        found.append(Difference("changed", f"status {status} → {answer.status}"))
    if answer.end == "cut":
        found.append(Difference("changed", "broken off"))
    old, new = _media(seen.script), _media(answer)
    if old != new:
        found.append(Difference("changed", f"`{old.decode()}` → `{new.decode()}`"))
    return found


def _media(message: Script | Answer) -> bytes:
    value = message.header(b"content-type") or b"no type"
    return value.partition(b";")[0].strip().lower()


def _answered(seen: Exchange) -> bytes:
    return _plain(seen.answer.body, seen.answer.header(b"content-encoding"))


def _plain(body: bytes, encoding: bytes) -> bytes:
    try:
        return gzip.decompress(body) if encoding == b"gzip" else body
    except (OSError, EOFError):
        return body


def _other_body(body: bytes) -> str:
    return "the body to an error in OpenAI's shape" if _error_of(body) else "the body"


def _excused(difference: Difference, made: Sequence[str]) -> bool:
    return any(difference.text == text or difference.text.startswith(text + " ") for text in made)


def _error_of(body: bytes) -> dict[str, object]:
    found = _loaded(body)
    error = found.get("error") if isinstance(found, dict) else None
    return error if isinstance(error, dict) else {}


def _loaded(text: bytes | str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _choices(objects: Sequence[str]) -> list[dict[str, Any]]:
    events = [each for each in map(_loaded, objects) if isinstance(each, dict)]
    return [choice for each in events for choice in each.get("choices") or ()]


def _finishes(objects: Sequence[str]) -> list[str]:
    return [str(choice["finish_reason"]) for choice in _choices(objects) if choice.get("finish_reason")]


def _texts(objects: Sequence[str]) -> list[str]:
    return [text for choice in _choices(objects) if (text := (choice.get("delta") or {}).get("content"))]


@functools.cache
def _places(path: str) -> Sequence[re.Pattern[bytes]]:
    """The declared places of the inserted passages in a dialect, with any spacing.

    The first group, if any, is what stands there without the passages.
    """
    template = Path(__file__).resolve().parents[2] / "config" / "prompts" / "answer.txt"
    text = re.escape(json.dumps(template.read_text("utf-8")[:40])[1:-1].encode()) + rb'(?:[^"\\]|\\.)*+'
    block = rb'\{\s*"type":\s*"text",\s*"text":\s*"' + text + rb'"\s*\}'
    message = rb'\{\s*"role":\s*"system",\s*"content":\s*"' + text + rb'"\s*\}\s*,?'
    places: Mapping[str, Sequence[bytes]] = {
        # the first message
        "/v1/chat/completions": [rb'("messages"\s*:\s*\[\s*)' + message],
        # a new member, or the end of `instructions`
        "/v1/responses": [rb'(?<=\{)"instructions":"' + text + rb'",()', rb"()\\n\\n" + text + rb'(?=")'],
        # a text that becomes two blocks, the last block, or a new member of the body
        "/v1/messages": [
            rb'\[\{"type":"text","text":("(?:[^"\\]|\\.)*+")\},' + block + rb"\]",
            rb"()," + block + rb"(?=\])",
            rb'(?<=\{)"system":"' + text + rb'",()',
        ],
    }
    return [re.compile(place, re.DOTALL) for place in places[path]]


def _without_block(body: bytes, path: str) -> tuple[bytes, bool]:
    for place in _places(path):
        without, number = place.subn(rb"\1", body, count=1)
        if number:
            return without, True
    return body, False


def _is_anthropics(body: bytes) -> bool:
    found = _loaded(body)
    return isinstance(found, dict) and found.get("type") == "error" and set(_error_of(body)) == {"type", "message"}


def _coded(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
