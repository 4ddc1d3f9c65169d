"""What a person reads before a write is sent: the request's own bytes, and nothing that the bytes do not say.

Each line begins with words of the gateway, or with spaces and a mark of the gateway: a value of a stranger never begins
a line, so no value looks like a line of the gateway. Values stand in a Markdown code block, in which nothing is a
link, an image or a heading; a terminal shows the same characters. `visible` names characters that deceive.

Nothing of a request is cut but the middle of a long text, which is named with its length, its digest, and the
addresses within. Requests that are still too long cannot be checked by a person: `CannotShow`.
"""

import email.parser
import email.policy
import hashlib
import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote, unquote, unquote_plus

from proxy.agent.writes.pending import PendingWrite, SentBefore, Why
from proxy.agent.writes.sentences import Sentences, confirm_word, sentences
from proxy.agent.writes.visible import visible, visible_name
from proxy.apis.openapi.operation import FORM, MCP, MULTIPART, Operation, bare_type, is_json
from proxy.apis.request import ApiRequest

MOST_CHARS = 12_000  # of a confirmation: some four pages, which a person still reads
_MOST_LINES = 200
_WIDTH = 100  # characters of a line: a code block does not wrap, and hides what is right of its edge
_LONG_CHARS, _LONG_LINES = 1_000, 20  # of a text that is shown whole
_KEPT_CHARS, _KEPT_LINES = 300, 6  # of the beginning and of the end of a longer text
_MOST_LEVELS = 60
_ONE_LINE_CHARS = 72  # of JSON
_NOW_LINES = 12  # of the state before: what the request names comes first
_IN, _INNER, _GOES_ON = "   ", "     ", "     ↳ "
_FENCE = "```"
_PLAIN_NAME = re.compile(r"[A-Za-z_$@][\w$@-]{0,80}", re.ASCII)
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})
_BESIDE = frozenset({"accept", "content-type", "cookie"})
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
# HTML, marks of thoughts, mathematics and codes of terminals, within which a screen may show nothing of a text, or
# something else.
_HIDING = re.compile(r"<[A-Za-z/!?|]|\u25c1|:::|\$\$|\\(?:[(\[]|begin\b)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_FENCE_LINE = re.compile(r"([ \t]*)(`{3,}|~{3,})(.*)")
_ADDRESS = re.compile(
    r"(?i)\b(?:[a-z][a-z0-9+.-]{1,20}://|www\.)[^\s<>\"'`]+|[^\s<>@\"'`,;:]{1,64}@[^\s<>@\"'`,;]{1,255}\.\w+"
    r"|\b[A-Z]{2}\d{2}(?: ?[A-Z\d]{4}){3,7}(?: ?[A-Z\d]{1,3})?\b"  # IBAN
)


class CannotShow(ValueError):
    """A request that no person could check; the text is for the model. Nothing may be sent."""


@dataclass(frozen=True, slots=True)
class ShownWrite:
    """A write, with what the gateway knows about it."""

    request: ApiRequest  # the bytes that are sent, without credentials
    operation: Operation
    api: str  # name of the set
    key: str = ""  # name of the gateway key; "": the gateway has no keys
    fixed: Mapping[str, Any] = field(default_factory=dict, repr=False)  # argument -> value, which is never shown
    own_query: Collection[str] = ()  # names in the query of the API's address, whose values are never shown
    now: str = ""  # what a read of the same thing says, secrets masked; "": no read
    foreign: Sequence[tuple[str, str, Any]] = ()  # ("passage" or "result", path, value) that no person gave
    sent_before: SentBefore | None = None  # None: not lately


def confirmation(
    texts: Sequence[str], code: str, valid_s: float, language: str = "en", *, four_eyes: bool = False
) -> str:
    """The gateway's reply that shows the writes of a round. Raises CannotShow.

    texts: as from `write_texts`. language: ISO 639-1, as from `language_of`. Without a translation the reply is in
    English. four_eyes: another person has to approve.
    """
    say = sentences(language)
    body = [line for part in texts for line in (*part.split("\n"), "")]
    word = confirm_word(language)
    how = [say.to_do.format(line=f"{word} {code}")]
    if len(texts) > 1:
        how = [say.to_do_all.format(line=f"{word} {code}")]
        how.append(say.to_do_some.format(line=f"{word} {code} 1,2"))
    parts = [say.nothing_sent, "", in_block(body[:-1])]
    leave = say.to_leave.format(minutes=max(1, round(valid_s / 60)))
    for one in [*how, leave, *([say.four_eyes] if four_eyes else [])]:
        parts += ["", one]
    text = "\n".join(parts)
    if len(text) > MOST_CHARS or text.count("\n") > _MOST_LINES:
        raise CannotShow(
            f"The call is too long to be shown to a person ({len(text):,} characters; {MOST_CHARS:,} at most, and "
            f"{_MOST_LINES} lines), so it cannot be confirmed. Make several smaller calls."
        )
    return text


def in_block(lines: Iterable[str]) -> str:
    """Lines of `write_texts` as a Markdown code block."""
    return "\n".join([f"{_FENCE}text", *lines, _FENCE])


def check_before(text: str) -> None:
    """Raise CannotShow for a text of the model that could hide the confirmation after it."""
    if _HIDING.search(text) or _leaves_block_open(text):
        raise CannotShow(
            "This answer has HTML, mathematics, control characters or an open code block, which could hide the call "
            "from the person who confirms it. Ask the user to write again, and then call with plain text before it, "
            "or none."
        )


def _leaves_block_open(text: str) -> bool:
    """Whether a code block may go on behind the text: programs draw Mermaid and HTML. One in a list ends."""
    opened: tuple[str, str] | None = None  # the white space before its marks, the marks
    for line in re.split(r"\r\n?|\n", text):
        found = _FENCE_LINE.fullmatch(line)
        before, marks, info = found.groups() if found is not None else ("", "", "")
        if opened is None:
            opened = (before, marks) if marks and not (marks[0] == "`" and "`" in info) else None
        elif line.strip() and not line.startswith(opened[0]):  # a list, and the block, may have ended before
            return True
        elif before == opened[0] and marks.startswith(opened[1]) and not info.strip():
            opened = None
    return opened is not None


def write_texts(writes: Sequence[ShownWrite], language: str = "en") -> list[str]:
    """The part of the confirmation for each write, numbered where there are several. Raises CannotShow."""
    say = sentences(language)
    numbers = [f"{number}. " if len(writes) > 1 else "" for number in range(1, len(writes) + 1)]
    return ["\n".join(_write(one, number, say)) for one, number in zip(writes, numbers, strict=True)]


def outcome(  # noqa: PLR0913 - each is a part of the text
    write: ShownWrite,
    state: Literal["done", "failed", "unknown"],
    status: int,
    language: str = "en",
    *,
    unsure: bool = False,
    changes: Sequence[str] = (),
    still: str = "",
    settle: str = "",
    undo: str = "",
) -> str:
    """What became of a write, in the gateway's words. Raises CannotShow.

    status: of the answer; 0: none. unsure: of a failed write, whether it may have been done. changes: lines of
    `changes.changes`. settle: the read that tells whether an unsure write was done; still: the unchanged state that the
    read has shown. undo: the call that undoes the write. All are names and JSON, which are made visible.
    """
    say = sentences(language)
    failed = say.broke if unsure else say.failed if status else say.unsent
    words = {"done": say.done, "failed": failed, "unknown": say.unclear if status else say.unknown}
    said = words[state].format(what=visible(shown_address(write)), status=status)
    lines, read = [visible(line) for line in changes], visible(settle)
    if still:
        lines.append(say.still.format(read=read, state=visible(still)))
    elif settle:
        lines.append(say.settle.format(read=read))
    if undo:
        lines.append(say.undo.format(operation=visible(undo)))
    # A stranger's text may begin a line here, and as many backticks behind fewer spaces would end the block.
    pieces = [piece for line in lines for piece in _wrapped(_INNER + line)]
    return f"{said}\n{in_block(pieces)}" if pieces else said


def denial(why: Why, language: str = "en") -> str:
    """The gateway's answer to a code line that does nothing."""
    return sentences(language).denied[why]


def states_of(writes: Sequence[PendingWrite], language: str = "en") -> str:
    """What has become of the calls of a group: a line for each."""
    words = sentences(language).states
    rows = ((one.number, words[one.state], f" ({one.status})" if one.status else "") for one in writes)
    return "\n".join(f"{number}. {word}{status}" for number, word, status in rows)


def shown_address(write: ShownWrite) -> str:
    """Method and URL, without fixed values. Raises CannotShow."""
    return f"{write.request.method} {_url(write)}"


def _write(write: ShownWrite, number: str, say: Sentences) -> Iterator[str]:
    yield from _wrapped(number + visible(shown_address(write)))
    for name, value in _decoded(_url(write)):
        yield from _wrapped(f"{_IN}{say.address} {f'{name} = ' if name else ''}{_quoted(value)}")
    for name, value in _headers(write):
        yield from _wrapped(f"{_IN}{say.header} {_name(name)} = {value}")
    yield from _labelled(say.body, list(_body(write, say)), say)
    who = say.as_key.format(key=_quoted(write.key), api=visible(write.api)) if write.key else ""
    yield from _wrapped(f"{_IN}{say.as_} {who or say.as_gateway.format(api=visible(write.api))}")
    if write.fixed:
        yield from _wrapped(f"{_IN}{say.fixed} {', '.join(map(_name, write.fixed))}")
    if write.now:
        yield from _labelled(say.now, _now(write, say), say, most=_NOW_LINES)
    for origin, path, value in write.foreign:
        words = say.from_passage if origin == "passage" else say.from_result
        yield from _leaf(f"{_IN}{words} {visible(path)}", value, say)
    if write.sent_before is not None:
        words = say.done_before if write.sent_before.done else say.sent_before
        yield f"{_IN}{words.format(seconds=max(1, round(write.sent_before.ago_s)))}"


# --- the address, the headers ----------------------------------------------------------------------------------------


def _url(write: ShownWrite) -> str:
    """The URL with «argument» in place of fixed values. Values have no "/" and no "&" of their own."""
    before, mark, query = write.request.url.partition("?")
    template = write.operation.path.partition("#")[0].partition("?")[0].split("/")
    segments = before.split("/")
    if len(segments) < len(template):
        raise CannotShow("The address of the call does not have the path of the operation.")
    labels = {one.name: one.argument for one in write.operation.parameters if one.place == "path"}
    for at, part in enumerate(reversed(template), 1):
        names = [labels.get(name, "") for name in _PLACEHOLDER.findall(part)]
        if len(names) == 1 and names[0] in write.fixed:
            segments[-at] = _PLACEHOLDER.sub(f"«{names[0]}»", part)
        else:
            segments[-at] = _masked_within(segments[-at], [name for name in names if name in write.fixed], write)
    pairs = [_masked_pair(one, write) for one in query.split("&")] if mark else []
    return "/".join(segments) + mark + "&".join(pairs)


def _masked_within(segment: str, names: Sequence[str], write: ShownWrite) -> str:
    """A segment with several values, of which the fixed ones are not shown."""
    for name in names:
        value = quote(str(write.fixed[name]), safe="-._~")
        if segment.count(value) != 1:
            raise CannotShow("The address of the call has a fixed value and other values that cannot be told apart.")
        segment = segment.replace(value, f"«{name}»")
    return segment


def _masked_pair(pair: str, write: ShownWrite) -> str:
    written = pair.partition("=")[0]
    label = _fixed_label(unquote_plus(written), "query", write)
    return f"{written}=«{label}»" if label else pair


def _fixed_label(name: str, place: str, write: ShownWrite) -> str:
    """The label of a fixed value with this name in the query, a header or the cookies; "": not fixed."""
    if place == "query" and name in write.own_query:
        return name
    for one in write.operation.parameters:
        if one.place != place or one.argument not in write.fixed:
            continue
        value = write.fixed[one.argument]
        members = {str(member) for member in value} if isinstance(value, Mapping) else set[str]()
        same = name.lower() == one.name.lower() if place == "header" else name == one.name
        if same or name.startswith(f"{one.name}[") or name.partition(".")[0] in members:
            return one.argument
    return ""


def _decoded(url: str) -> Iterator[tuple[str, str]]:
    """(name, value) of the parts of a URL that are percent-encoded, as the server reads them."""
    before, _, query = url.partition("?")
    for part in before.split("/")[3:]:
        if "%" in part:
            yield "", unquote(part)
    for pair in query.split("&"):
        if "%" in pair or "+" in pair:
            name, _, value = pair.partition("=")
            yield _name(unquote_plus(name)), unquote_plus(value)


def _headers(write: ShownWrite) -> Iterator[tuple[str, str]]:
    for name, value in write.request.headers:
        if name.lower() not in _BESIDE:
            label = _fixed_label(name, "header", write)
            yield name, f"«{label}»" if label else _quoted(value)
        elif name.lower() == "cookie":
            for pair in value.split("; "):
                inner, _, rest = pair.partition("=")
                label = _fixed_label(unquote(inner), "cookie", write)
                yield f"cookie {inner}", f"«{label}»" if label else _quoted(unquote(rest))


# --- the body --------------------------------------------------------------------------------------------------------

Leaf = tuple[str, Any]  # the path, already visible; a value of JSON, or _Words


class _Words(str):
    """Words of the gateway in place of a value, such as the size of a file."""

    __slots__ = ()


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


def _body(write: ShownWrite, say: Sentences) -> Iterator[Leaf]:
    """The values of the body, one by one; nothing: no body."""
    content = write.request.body
    body = write.operation.body
    media_type = next((value for name, value in write.request.headers if name.lower() == "content-type"), "")
    if body is not None and body.argument in write.fixed:
        yield "", _Words(f"«{body.argument}»")
    elif not content:
        if media_type:
            yield "", _Words(say.empty)
    elif (parsed := _json(content) if is_json(media_type) else None) is not None:
        yield from _leaves_or_line(_tool_call(parsed[0], write) if write.operation.method == MCP else parsed[0])
    elif bare_type(media_type) == FORM and content.isascii():
        for pair in content.decode("ascii").split("&"):
            name, _, value = pair.partition("=")
            yield _name(unquote_plus(name)), unquote_plus(value)
    elif bare_type(media_type) == MULTIPART and (parts := _parts(media_type, content, say)):
        yield from parts
    else:
        yield "", _text_or_file(content, media_type, say)


def _tool_call(value: Any, write: ShownWrite) -> Any:
    """A call of an MCP server's tool, with «argument» in place of fixed values."""
    shown = {name: _Words(f"«{name}»") if name in write.fixed else one for name, one in value["arguments"].items()}
    return {**value, "arguments": shown}


def _json(content: bytes) -> tuple[Any] | None:
    """The value of JSON, with its numbers as written; None: not JSON, or an object has a name twice."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(found := dict(pairs)) < len(pairs):
            raise ValueError
        return found

    try:
        return (json.loads(content, object_pairs_hook=members, parse_int=_Number, parse_float=_Number),)
    except (ValueError, RecursionError):
        return None


def _leaves_or_line(value: Any) -> list[Leaf]:
    """The values within JSON; JSON as one value where it is short and ASCII: other signs may look like quotes."""
    leaves = list(_leaves(value))
    if len(leaves) <= _ONE_LINE_CHARS // 3 and (len(leaves) > 1 or leaves[0][0]):
        line = _compact(value)
        if len(line) <= _ONE_LINE_CHARS and line.isascii():
            return [("", _Words(line))]
    return leaves


def _now(write: ShownWrite, say: Sentences) -> list[Leaf]:
    """The state before: first the values that the request names. A fixed value is not shown."""
    hidden = {str(one): _Words(f"«{name}»") for name, one in write.fixed.items() if isinstance(one, str | int)}
    parsed = _json(write.now.encode("utf-8", "replace"))
    if parsed is None:
        return [("", write.now)]
    try:
        leaves = _leaves_or_line(_without(parsed[0], hidden))
    except CannotShow:
        return [("", _Words(say.none))]
    content = _json(write.request.body)
    named = {path for path, _ in _leaves(content[0])} if content else set[str]()
    return sorted(leaves, key=lambda leaf: leaf[0] not in named)


def _without(value: Any, hidden: Mapping[str, _Words], level: int = 0) -> Any:
    """JSON without the fixed values."""
    if level > _MOST_LEVELS:
        raise CannotShow
    if isinstance(value, dict):
        return {name: _without(one, hidden, level + 1) for name, one in value.items()}
    if isinstance(value, list):
        return [_without(one, hidden, level + 1) for one in value]
    return hidden.get(value, value) if isinstance(value, str) else value


def _leaves(value: Any, path: str = "", level: int = 0) -> Iterator[Leaf]:
    """The values within JSON that have no members, each with its path as customer.lines[0].amount."""
    if level > _MOST_LEVELS:
        raise CannotShow(f"The call has values within more than {_MOST_LEVELS} others, which no person can read.")
    if isinstance(value, dict) and value:
        for name, one in value.items():
            yield from _leaves(one, f"{path}.{_name(name)}" if path else _name(name), level + 1)
    elif isinstance(value, list) and value:
        for at, one in enumerate(value):
            yield from _leaves(one, f"{path}[{at}]", level + 1)
    else:
        yield path, value


def _parts(media_type: str, content: bytes, say: Sentences) -> list[Leaf]:
    """The fields and files of a multipart form; none: not as `build_request` writes a form."""
    head, _, boundary = media_type.partition("boundary=")
    mark = b"--" + boundary.strip('"').encode("utf-8", "replace")
    pieces = content.split(mark)
    if not head or len(pieces) < 3 or pieces[0] or pieces[-1] != b"--\r\n":
        return []
    found = list[Leaf]()
    for piece in pieces[1:-1]:
        written, gap, rest = piece.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        if not gap or not rest.endswith(b"\r\n"):
            return []
        headers = email.parser.BytesHeaderParser(policy=email.policy.HTTP).parsebytes(written)
        name = headers.get_param("name", "", "content-disposition")
        file_name, kind = headers.get_filename(), headers.get("content-type", "")
        value = rest.removesuffix(b"\r\n")
        path = _name(str(name))
        if file_name is None:
            inner = _json(value) if is_json(kind) else None
            if inner is not None:
                found += [
                    (f"{path}.{one}" if one and one[0] != "[" else path + one, each) for one, each in _leaves(inner[0])
                ]
            else:
                found.append((path, _text_or_file(value, kind, say)))
        else:
            found.append((path, _Words(f"{say.file} {_quoted(file_name)}, {_file(value, kind, say)}")))
    return found


def _text_or_file(content: bytes, media_type: str, say: Sentences) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return _Words(_file(content, media_type, say))


def _file(content: bytes, media_type: str, say: Sentences) -> str:
    kind = f"{visible(media_type)}, " if media_type else ""
    return f"{kind}{len(content):,} {say.bytes}, sha256 {hashlib.sha256(content).hexdigest()}"


# --- lines -----------------------------------------------------------------------------------------------------------


def _labelled(label: str, leaves: Sequence[Leaf], say: Sentences, most: int | None = None) -> Iterator[str]:
    """The values below a label; in the line of the label where they are short ASCII. most: lines; None: all."""
    if not leaves:
        yield f"{_IN}{label} {say.none}"
    elif len(leaves) == 1 and not leaves[0][0]:
        yield from _leaf(f"{_IN}{label}", leaves[0][1], say, joint=" ")
    else:
        yield f"{_IN}{label}"
        left, room = len(leaves), _MOST_LINES + 1 if most is None else most
        for path, value in leaves:
            own = list(_leaf(_INNER + path, value, say))
            room -= len(own)
            if room < 0 and most is None:
                raise CannotShow(
                    f"The call is too long to be checked by a person: more than {_MOST_LINES} lines of values."
                )
            if room < 0:
                break
            yield from own
            left -= 1
        if left:
            yield f"{_INNER}… {say.more.format(count=f'{left:,}')}"


def _leaf(head: str, value: Any, say: Sentences, joint: str = " = ") -> Iterator[str]:
    """A value after a head; a text with several lines goes below."""
    if isinstance(value, _Words | _Number) or not isinstance(value, str):
        yield from _wrapped(f"{head}{joint}{value if isinstance(value, str) else json.dumps(value)}")
        return
    lines = value.split("\n")
    if len(value) <= _LONG_CHARS and len(lines) <= _LONG_LINES:
        if len(lines) == 1:
            yield from _wrapped(f"{head}{joint}{_quoted(value)}")
        else:
            yield from _wrapped(f"{head}{joint}{say.text.format(chars=f'{len(value):,}', lines=f'{len(lines):,}')}")
            yield from _barred(lines)
        return
    yield from _wrapped(f"{head}{joint}{say.text.format(chars=f'{len(value):,}', lines=f'{len(lines):,}')}")
    yield f"{_INNER}  sha256 {hashlib.sha256(value.encode('utf-8', 'surrogatepass')).hexdigest()}"
    first, last = _end(value, -1), _end(value, 1)
    middle = value[len(first) : len(value) - len(last)]
    yield from _barred(first.split("\n"))
    yield f"{_INNER}… {say.left_out.format(chars=f'{len(middle):,}')}"
    for one in _addresses(value, len(first), len(value) - len(last)):
        yield from _wrapped(f"{_INNER}… {say.with_address} {_quoted(one)}")
    yield from _barred(last.split("\n"))


def _end(value: str, sign: int) -> str:
    """The beginning (-1) or the end (1) of a long text."""
    some = value[:_KEPT_CHARS] if sign < 0 else value[-_KEPT_CHARS:]
    lines = some.split("\n")
    return "\n".join(lines[:_KEPT_LINES] if sign < 0 else lines[-_KEPT_LINES:])


def _addresses(value: str, start: int, end: int) -> Iterable[str]:
    """The URLs, e-mail addresses and accounts in a text that are not wholly within its shown ends."""
    found = (one for one in _ADDRESS.finditer(value) if one.end() > start and one.start() < end)
    return dict.fromkeys(one[0] for one in found)


def _barred(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield from _wrapped(f"{_INNER}  | {visible(line)}")


def _wrapped(line: str) -> Iterator[str]:
    """A line in pieces that no screen cuts."""
    if len(line) <= _WIDTH and line.isascii():
        yield line
        return
    piece, left = "", _WIDTH
    for one in line:
        if (width := _columns(one)) > left:
            yield piece
            piece, left = _GOES_ON, _WIDTH - len(_GOES_ON)
        piece += one
        left -= width
    yield piece


def _columns(one: str) -> int:
    """The columns that a character takes, or more: Chinese signs take two, and `ﷺ` is as wide as its words."""
    if one.isascii():
        return 1
    return max(len(unicodedata.normalize("NFKC", one)), 2 if unicodedata.east_asian_width(one) in "WF" else 1)


def _quoted(text: str) -> str:
    """A text in quotes, as in JSON."""
    return f'"{visible(text.translate(_ESCAPES))}"'


def _name(name: str) -> str:
    """The name of a member; in quotes where it has other signs than names have."""
    return name if _PLAIN_NAME.fullmatch(name) else f'"{visible_name(name.translate(_ESCAPES))}"'


def _compact(value: Any) -> str:
    """JSON in one line, as people write JSON."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_quoted(name)}: {_compact(one)}' for name, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_compact, value))}]"
    if isinstance(value, _Words | _Number):
        return value
    return _quoted(value) if isinstance(value, str) else json.dumps(value)
