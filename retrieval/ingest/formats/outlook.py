"""Outlook's messages (.msg) as messages of the standard library, so that mails are read in one way.

A message is a folder of an OLE file (MS-OXMSG): a stream for each text, one for all numbers and dates, and a folder for
each attachment.
"""

import io
import re
import struct
from datetime import UTC, datetime, timedelta
from email import encoders
from email.message import Message
from email.mime.base import MIMEBase
from email.mime.message import MIMEMessage
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.parser import HeaderParser
from email.utils import format_datetime, formataddr
from typing import TYPE_CHECKING

from retrieval.errors import Unreadable
from retrieval.ingest.formats.decode import decode_part
from retrieval.ingest.formats.office import to_markdown

if TYPE_CHECKING:
    from olefile.olefile import OleDirectoryEntry, OleFileIO

_NUMBERS = "__properties_version1.0"
_ATTACHMENT = "__attach_version1.0_#"
_HEADERS = ("From", "To", "Cc", "Date", "Subject", "Message-ID", "In-Reply-To", "References")
_MOST_DEPTH = 5  # of messages within each other
_SINCE = datetime(1601, 1, 1, tzinfo=UTC)
_MIME_TYPE = re.compile(r"(?!message/|multipart/)[\w.+-]{1,80}/[\w.+-]{1,80}")
_CODE_PAGES = {65001: "utf-8", 20127: "ascii", 20866: "koi8-r", 21866: "koi8-u", 50220: "iso-2022-jp", 51932: "euc-jp"}
# Properties, by number
_HEADER_LINES, _SUBJECT, _TO, _CC = 0x007D, 0x0037, 0x0E04, 0x0E03
_SENDER, _SENDER_SMTP, _SENDER_ADDRESS, _AUTHOR = 0x0C1A, 0x5D01, 0x0C1F, 0x0042
_SENT, _RECEIVED, _ID, _ANSWERED, _REFERENCES = 0x0039, 0x0E06, 0x1035, 0x1042, 0x1039
_PLAIN, _HTML, _RICH, _CODE_PAGE, _OTHER_CODE_PAGE = 0x1000, 0x1013, 0x1009, 0x3FDE, 0x3FFD
_FILE, _LONG_NAME, _SHORT_NAME, _SHOWN_NAME, _FILE_TYPE = 0x3701, 0x3707, 0x3704, 0x3001, 0x370E


def to_message(data: bytes) -> "Message[str, str]":
    """Raises Unreadable if the data is not an Outlook message."""
    import olefile  # only for these files

    try:
        with olefile.OleFileIO(io.BytesIO(data)) as ole:
            return _message(_Folder(ole, ole.root, (), 32), 1)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, struct.error, OverflowError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise Unreadable(f"not an Outlook message, or damaged ({reason}); save it again in Outlook") from error


class _Folder:
    """A message or an attachment: properties by number."""

    def __init__(
        self, ole: "OleFileIO", entry: "OleDirectoryEntry", path: tuple[str, ...], header_bytes: int, code_page: int = 0
    ) -> None:
        """header_bytes: of the stream of numbers. code_page: of the message around, for texts that are not Unicode."""
        self._ole, self._entry, self._path = ole, entry, path
        numbers = self._stream(_NUMBERS)[header_bytes:]
        rows = struct.iter_unpack("<HHI8s", numbers[: len(numbers) // 16 * 16])
        self._numbers: dict[int, bytes] = {id: value for _, id, _, value in rows}
        self.code_page = self.number(_CODE_PAGE) or self.number(_OTHER_CODE_PAGE) or code_page

    def names(self) -> list[str]:
        return [kid.name for kid in self._entry.kids]

    def folder(self, name: str, header_bytes: int) -> "_Folder | None":
        """The folder of this name, if it holds properties."""
        entry = self._entry.kids_dict.get(name.lower())
        if entry is None or _NUMBERS.lower() not in entry.kids_dict:
            return None
        return _Folder(self._ole, entry, (*self._path, name), header_bytes, self.code_page)

    def number(self, id: int) -> int:
        return int.from_bytes(self._numbers.get(id, b"")[:4], "little")

    def date(self, id: int) -> datetime | None:
        ticks = int.from_bytes(self._numbers.get(id, b""), "little")  # of 100 ns
        return _SINCE + timedelta(microseconds=ticks // 10) if ticks else None

    def data(self, id: int) -> bytes | None:
        name = f"__substg1.0_{id:04X}0102"
        return self._stream(name) if name.lower() in self._entry.kids_dict else None

    def text(self, id: int) -> str:
        unicode, other = (f"__substg1.0_{id:04X}{kind}" for kind in ("001F", "001E"))
        if unicode.lower() in self._entry.kids_dict:
            return self._stream(unicode).decode("utf-16-le", "replace").rstrip("\0")
        if other.lower() in self._entry.kids_dict:
            return decode_part(self._stream(other).rstrip(b"\0"), self.charset())
        return ""

    def charset(self) -> str:
        page = self.code_page
        return _CODE_PAGES.get(page) or (f"iso8859-{page - 28590}" if 28590 < page < 28610 else f"cp{page}")

    def _stream(self, name: str) -> bytes:
        with self._ole.openstream([*self._path, name]) as stream:
            data: bytes = stream.read()
        return data


def _message(folder: _Folder, depth: int) -> "Message[str, str]":
    mail = MIMEMultipart()
    for name, value in _headers(folder).items():
        if value.strip():
            mail[name] = " ".join(value.split())
    for text, kind in ((folder.text(_PLAIN), "plain"), (_html(folder), "html")):
        if text.strip():
            mail.attach(MIMEText(text, kind, "utf-8"))
    if not mail.get_payload() and (rich := folder.data(_RICH)):
        mail.attach(MIMEText(_from_rich(rich), "markdown", "utf-8"))
    for name in folder.names():
        if name.startswith(_ATTACHMENT) and (attachment := folder.folder(name, 8)) is not None:
            inner = attachment.folder(f"__substg1.0_{_FILE:04X}000D", 24)
            if inner is not None and depth < _MOST_DEPTH:
                mail.attach(MIMEMessage(_message(inner, depth + 1)))
            elif (data := attachment.data(_FILE)) is not None:
                mail.attach(_attached(attachment, data))
    return mail


def _from_rich(data: bytes) -> str:
    """Return the Markdown of a text in compressed RTF."""
    try:
        return to_markdown(without_compression(data), ".rtf")[1]
    except (Unreadable, struct.error):
        return "(The text is in Outlook's rich text only, which is damaged: save the mail as HTML or as .eml.)"


def without_compression(data: bytes) -> bytes:
    """Return a text in compressed RTF (MS-OXRTFCP): signs, and places in the last 4,096 of them with a length."""
    size, raw_size, kind = struct.unpack_from("<II4s", data)
    if kind == b"MELA":  # not compressed
        return data[16 : 16 + raw_size]
    text, at, end = bytearray(_RTF_BEGIN), 16, min(size + 4, len(data))
    while at < end:
        flags = data[at]
        at += 1
        for bit in range(8):
            if at >= end or len(text) >= raw_size + len(_RTF_BEGIN):
                break
            if not flags >> bit & 1:
                text.append(data[at])
                at += 1
                continue
            (token,) = struct.unpack_from(">H", data, at)
            at += 2
            back = (len(text) - (token >> 4)) % _RTF_WINDOW
            if not back:  # the end
                return bytes(text[len(_RTF_BEGIN) :])
            for _ in range((token & 15) + 2):
                text.append(text[-back] if back <= len(text) else 0x20)
    return bytes(text[len(_RTF_BEGIN) : len(_RTF_BEGIN) + raw_size])


_RTF_WINDOW = 4096
_RTF_BEGIN = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript \fdecor MS Sans Serif"
    rb"SymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0"
    + b"\r\n"
    + rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)  # stands before each text


def _headers(folder: _Folder) -> dict[str, str]:
    """Those of the mail as it was sent, else what Outlook's properties say."""
    sent = HeaderParser().parsestr(folder.text(_HEADER_LINES))
    address = folder.text(_SENDER_SMTP) or folder.text(_SENDER_ADDRESS)
    sender = folder.text(_SENDER) or folder.text(_AUTHOR)
    date = folder.date(_SENT) or folder.date(_RECEIVED)
    known = {
        "From": formataddr((sender, address)) if "@" in address else sender,
        "To": folder.text(_TO),
        "Cc": folder.text(_CC),
        "Date": format_datetime(date) if date else "",
        "Subject": folder.text(_SUBJECT),
        "Message-ID": folder.text(_ID),
        "In-Reply-To": folder.text(_ANSWERED),
        "References": folder.text(_REFERENCES),
    }
    return {name: str(sent[name] or "") or known[name] for name in _HEADERS}


def _html(folder: _Folder) -> str:
    data = folder.data(_HTML)
    return folder.text(_HTML) if data is None else decode_part(data, folder.charset())


def _attached(folder: _Folder, data: bytes) -> MIMEBase:
    named = folder.text(_FILE_TYPE).strip()
    kind, _, subtype = (named if _MIME_TYPE.fullmatch(named) else "application/octet-stream").partition("/")
    part = MIMEBase(kind, subtype)
    part.set_payload(data)
    encoders.encode_base64(part)
    name = folder.text(_LONG_NAME) or folder.text(_SHORT_NAME) or folder.text(_SHOWN_NAME)
    part.add_header("Content-Disposition", "attachment", filename=" ".join(name.split()))
    return part
