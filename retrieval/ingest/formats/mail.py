"""Mail: messages (.eml, .msg) and mailboxes (.mbox) as Markdown, and their attachments.

Mails come from anywhere: a broken header or an unknown character set costs a word, not the mail.
"""

import email
import mimetypes
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message
from email.parser import BytesHeaderParser
from email.utils import parsedate_to_datetime

from retrieval.errors import Unreadable
from retrieval.ingest.formats.decode import decode_part
from retrieval.ingest.formats.office import OLE
from retrieval.records.documents import Attribute

SUFFIXES = frozenset({".eml", ".msg", ".mbox"})
_HEADERS = ("From", "To", "Cc", "Date")  # shown before the text
_FROM_LINE = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From [^\n]*\d\d:\d\d[^\n]*\n")  # between messages of a mailbox
_FROM_ESCAPED = re.compile(rb"^>(>*From )", re.MULTILINE)
_QUOTED_ELSEWHERE = "X-Ragway-Quoted"  # added to a mailbox's message that answers an earlier one
_IDS = re.compile(r"<[^<>\s]{1,998}>")
_UNNAMED = re.compile(r"[\x00-\x1f\x7f/\\:*?\"<>|]+")  # no part of a file's name
_MOST_NAME_CHARS = 80
_MOST_HEADER_CHARS = 20_000  # decoding takes quadratic time
_LIKE_HEADING = re.compile(r"^(#{1,6}\s|(?:=+|-+)[ \t]*$)", re.MULTILINE)
_MOST_INTRODUCTION_CHARS = 300
_ORIGINAL = re.compile(  # Outlook's mark above the mail that is answered
    r"^[ \t]*(?:-{3,}[^\n-]{3,40}-{3,}|_{20,})[ \t]*\n(?=(?:[^\n]*\n){0,2}\**[A-Z][\w ]{1,20}:)", re.MULTILINE
)
_LONG_QUOTE_LINES = 12  # a longer quotation is a copy of the mail, not the sentence that is answered
_PLAIN_SHARE = 0.5  # of the HTML part's words: a plain part with fewer only says to read the other


@dataclass(frozen=True, slots=True)
class Part:
    """An attachment, or a mailbox's message."""

    name: str
    modified_s: float
    read: Callable[[int], bytes]  # returns at most as many bytes


@dataclass(frozen=True, slots=True)
class Mail:
    """A message as Markdown."""

    text: str
    subject: str
    properties: dict[str, Attribute]


def members(kind: str, data: bytes) -> Iterator[Part]:
    """A mail's attachments, or a mailbox's messages."""
    return _messages(data) if kind == ".mbox" else _attachments(_parsed(data))


def read(data: bytes) -> Mail:
    """Raises Unreadable if the data is not a mail."""
    message = _parsed(data)
    headers = {name: _header(message, name) for name in _HEADERS}
    if not any(headers.values()) and not message["Subject"]:
        raise Unreadable(
            "not a mail: expected header lines such as From: and Date:; save it again as EML in a mail program"
        )
    lines = [f"{name}: {value}" for name, value in headers.items() if value]
    text = _body(message)
    if message[_QUOTED_ELSEWHERE]:
        text = without_quotes(text)
    attached = [part.name for part in _attachments(message)]
    last = ["Attachments: " + ", ".join(attached)] if attached else []
    text = "\n\n".join(["  \n".join(lines), text.strip(), *last]).strip() + "\n"
    properties: dict[str, Attribute] = {"author": headers["From"]}
    if sent := _sent(message):
        properties["created"] = sent.isoformat()
    return Mail(text, _header(message, "Subject"), properties)


def _parsed(data: bytes) -> "Message[str, str]":
    if not data.startswith(OLE):
        return email.message_from_bytes(data)
    from retrieval.ingest.formats.outlook import to_message

    return to_message(data)


def without_quotes(text: str) -> str:
    """The text without the mail that it answers: a quotation at the end, or a long one."""
    if original := _ORIGINAL.search(text):
        text = text[: original.start()]
    blocks = re.split(r"((?:^>[^\n]*\n?(?:[ \t]*\n(?=>))?)+)", text, flags=re.MULTILINE)
    last = max((at for at, block in enumerate(blocks) if block.strip()), default=-1)
    kept: list[str] = []
    for at, block in enumerate(blocks):
        if block.startswith(">") and (at == last or block.count("\n") > _LONG_QUOTE_LINES):
            if kept:
                kept[-1] = _without_introduction(kept[-1])
        else:
            kept.append(block)
    return "".join(kept)


def _without_introduction(text: str) -> str:
    """The text without its last paragraph, if this is one or two lines such as "On 3 May, Ada wrote:"."""
    if not text.rstrip().endswith((":", "：")):
        return text
    before, _, last = text.rstrip().rpartition("\n\n")
    if last.count("\n") > 1 or len(last) > _MOST_INTRODUCTION_CHARS:
        return text
    return f"{before}\n\n" if before else ""


def _messages(data: bytes) -> Iterator[Part]:
    starts = [match.span() for match in _FROM_LINE.finditer(data)]
    if not starts or starts[0][0]:
        raise Unreadable(
            "not a mailbox: expected a line that begins with 'From ' before each mail; export the folder again as MBOX"
        )
    names: Counter[str] = Counter()
    seen: set[str] = set()
    for (_, start), (end, _) in zip(starts, [*starts[1:], (len(data), 0)], strict=True):
        raw = _FROM_ESCAPED.sub(rb"\1", data[start:end])
        head = BytesHeaderParser().parsebytes(raw)
        answered = {id for name in ("In-Reply-To", "References") for id in _IDS.findall(str(head.get(name, "")))}
        if answered & seen:
            raw = _QUOTED_ELSEWHERE.encode() + b": in an earlier mail\n" + raw
        seen.update(_IDS.findall(str(head.get("Message-ID", ""))))
        sent = _sent(head)
        name = " ".join(filter(None, (f"{sent:%Y-%m-%d}" if sent else "", _header(head, "Subject") or "mail")))
        yield Part(_numbered(_file_name(name), ".eml", names), _seconds(sent), _reader(raw))


def _attachments(message: "Message[str, str]") -> Iterator[Part]:
    names: Counter[str] = Counter()
    sent = _seconds(_sent(message))
    for part in _leaves(message):
        kind = part.get_content_type()
        if kind == "message/rfc822":
            inner = part.get_payload()
            mail = inner[0] if isinstance(inner, list) and inner else None
            if isinstance(mail, Message):
                name = _file_name(_header(mail, "Subject") or "mail")
                yield Part(_numbered(name, ".eml", names), sent, _reader(mail.as_bytes()))
        elif _is_attached(part):
            stem, dot, ending = _file_name(_given_name(part)).rpartition(".")
            if not stem:
                stem, dot, ending = ending or "attachment", "", mimetypes.guess_extension(kind) or ""
            yield Part(_numbered(stem, dot + ending, names), sent, lambda most, part=part: _payload(part)[:most])  # type: ignore[misc]


def _leaves(message: "Message[str, str]") -> Iterator["Message[str, str]"]:
    pending: list[object] = [message]
    while pending:
        part = pending.pop()
        if not isinstance(part, Message):
            continue
        inner = part.get_payload()
        if part.get_content_maintype() == "multipart" and isinstance(inner, list):
            pending += reversed(inner)
        else:
            yield part


def _is_attached(part: "Message[str, str]") -> bool:
    if part.get_content_disposition() == "attachment" or _given_name(part):
        return True
    return part.get_content_maintype() != "text"


def _given_name(part: "Message[str, str]") -> str:
    try:
        return _decoded(part.get_filename() or "")
    except (UnicodeError, LookupError, ValueError):
        return ""


def _body(message: "Message[str, str]") -> str:
    plain: list[str] = []
    html: list[str] = []
    for part in _leaves(message):
        kind = part.get_content_type()
        if kind in ("text/plain", "text/markdown", "text/html") and not _is_attached(part):
            text = decode_part(_payload(part), str(part.get_content_charset() or ""))
            if kind == "text/html":
                from retrieval.ingest.formats.webpage import to_markdown  # bs4 and markdownify

                html.append(to_markdown(text)[1])
            else:
                plain.append(_LIKE_HEADING.sub(r"\\\1", text) if kind == "text/plain" else text)
    texts = "\n\n".join(plain), "\n\n".join(html)
    words = [len(text.split()) for text in texts]
    return texts[0] if words[0] > words[1] * _PLAIN_SHARE else texts[1]


def _payload(part: "Message[str, str]") -> bytes:
    try:
        payload = part.get_payload(decode=True)
    except (ValueError, LookupError, MessageError):
        return b""
    return payload if isinstance(payload, bytes) else b""


def _header(message: "Message[str, str]", name: str) -> str:
    """A header as one line; raw bytes that are no ASCII are decoded as a text's."""
    value = next((value for key, value in message.raw_items() if key.lower() == name.lower()), "")
    return _decoded(str(value))


def _decoded(value: str) -> str:
    value = value[:_MOST_HEADER_CHARS]
    raw = value.encode("utf-8", "surrogateescape")
    value = decode_part(raw, "") if raw.strip() and not value.isascii() else value
    with suppress(MessageError, LookupError, UnicodeError, ValueError):
        value = str(make_header(decode_header(value)))
    return " ".join(value.split())


def _sent(message: "Message[str, str]") -> datetime | None:
    try:
        sent = parsedate_to_datetime(str(message.get("Date", "")))
        return sent.astimezone(UTC) if sent.tzinfo else sent.replace(tzinfo=UTC)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _seconds(sent: datetime | None) -> float:
    return max(0.0, sent.timestamp()) if sent else 0.0


def _file_name(text: str) -> str:
    return " ".join(_UNNAMED.sub(" ", text).split()).strip(". ")[:_MOST_NAME_CHARS].strip()


def _numbered(stem: str, ending: str, names: Counter[str]) -> str:
    """A name that none before has."""
    name = stem + ending
    while names[name]:
        names[stem + ending] += 1
        name = f"{stem} ({names[stem + ending]}){ending}"
    names[name] += 1
    return name


def _reader(data: bytes) -> Callable[[int], bytes]:
    return lambda most: data[:most]
