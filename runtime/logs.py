"""Log lines of all processes, without client, model or document texts.

An exception's message may quote a prompt, a passage, or a provider's answer with a key. So a traceback has files,
lines and functions, but no messages. asyncio's lines about tasks and callbacks lose results and arguments, library
warnings lose their text. Secrets in a line are blanked: every value of an environment variable with a secret name.
"""

import contextlib
import logging
import os
import re
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from urllib.parse import urlsplit

TIMED = "%(asctime)s %(levelname)s %(message)s"  # a gateway's format
MOST_CHARS = 100  # of a client's name or path
_SECRET_NAME = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD)$")
_SHORTEST_SECRET_CHARS = 8  # a shorter environment value would blank ordinary words
_SAID = re.compile(r"\b(exception|result)=.*?( took [\d.]+ seconds)?\Z", re.DOTALL)
_ARGUMENTS = re.compile(r"(?<=Handle )([^ (]+)\((?!\)).*\)", re.DOTALL)
# Control characters, line ends and direction marks: a terminal obeys them, a log reader sees a new line.
_UNPRINTED = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_WARNED = re.compile(r"(?<=Warning): .*", re.DOTALL)

_ours = logging.getLogger("ragway")

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def to_stderr(level: str, format: str) -> None:
    """Log to standard error: ragway's lines from this level, library lines from WARNING.

    `level` is debug, info, warning or error. Libraries quote URLs, headers and bodies at INFO and DEBUG, so they log
    only from WARNING. asyncio's DEBUG quotes no content and follows `level`.
    """
    handler = _Stderr(Quiet(format))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    logging.captureWarnings(True)  # pydantic's warnings quote unexpected values
    root.setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))
    for name in ("ragway", "asyncio"):
        logging.getLogger(name).setLevel(level.upper())


def write_line(line: str) -> None:
    """Write a line at INFO, four times as fast as `logging.getLogger("ragway").info`.

    For every request's line. If other handlers are installed, it goes through `logging`.
    """
    if not _ours.isEnabledFor(logging.INFO):
        return
    handlers = logging.getLogger().handlers
    if len(handlers) == 1 and isinstance(handlers[0], _Stderr) and not _ours.handlers:
        handlers[0].write_line(line)
    else:
        _ours.info("%s", line)


def truncate(text: str) -> str:
    """The start of a client's text, long enough for a name or a path."""
    return text[:MOST_CHARS] + "…" if len(text) > MOST_CHARS else text


def printable(text: str, *, lines: bool = False) -> str:
    """The text with control characters escaped as in Python, `\\x1b`.

    lines: keep line ends and tabs, for a text of several lines.
    """
    return _UNPRINTED.sub(lambda found: found[0] if lines and found[0] in "\n\t" else ascii(found[0])[1:-1], text)


def host_of(url: str) -> str:
    """A URL's host and port for messages to people: without a password, even if malformed."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2] or "without a host"
    except ValueError:
        return "with a malformed address"


def blanked(text: str) -> str:
    """The text without environment secrets: a server's answer may quote a key."""
    return _blanked(text, secrets_of(os.environ))


def _blanked(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


class _Stderr(logging.Handler):
    """Writes each line with one call, so no lock is needed."""

    def __init__(self, formatter: "Quiet") -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._formatter = formatter

    def handle(self, record: logging.LogRecord) -> bool:
        self._write(self.format(record))
        return True

    def write_line(self, line: str) -> None:
        """A line at INFO."""
        self._write(self._formatter.format_line(line))

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a closed log must not fail a request
            sys.stderr.write(text + "\n")


class Quiet(logging.Formatter):
    """Formats records without exception messages and without secrets."""

    def __init__(self, format: str) -> None:
        super().__init__(format)
        self._secrets = secrets_of(os.environ)
        self._timed = self.usesTime()
        self._second = (0, "")

    def format_line(self, line: str) -> str:
        """The line, formatted like a record at INFO."""
        line = printable(line)
        return _blanked(f"{self._clock(time.time())} INFO {line}" if self._timed else line, self._secrets)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        return self._clock(record.created)

    def _clock(self, now_s: float) -> str:
        second = int(now_s)
        if self._second[0] != second:  # calendar time is worked out once a second, not for every line
            self._second = second, time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
        return f"{self._second[1]},{int((now_s - second) * 1000):03d}"

    def format(self, record: logging.LogRecord) -> str:
        record.exc_text = None  # another handler may have stored the full traceback
        return _blanked(super().format(record), self._secrets)

    def formatMessage(self, record: logging.LogRecord) -> str:
        if record.name == "asyncio":
            record.message = _ARGUMENTS.sub(r"\1(…)", _SAID.sub(r"\1=…\2", record.message))
        elif record.name == "py.warnings":
            record.message = _WARNED.sub("", record.message)
        record.message = printable(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: ExcInfo) -> str:
        """The traceback of an exception and its causes, with types but without messages."""
        return "\n".join(_outline(ei[1])) if ei[1] is not None else ""


def secrets_of(environ: Mapping[str, str]) -> list[str]:
    """An environment's secret values, longest first."""
    values = {value for name, value in environ.items() if _SECRET_NAME.search(name.upper())}
    return sorted((value for value in values if len(value) >= _SHORTEST_SECRET_CHARS), key=len, reverse=True)


def _outline(error: BaseException) -> Iterator[str]:
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    for number, each in enumerate(reversed(chain)):
        yield "then:" if number else "Traceback, without messages:"
        for frame in traceback.extract_tb(each.__traceback__):
            yield f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}'
        yield f"{type(each).__module__}.{type(each).__qualname__}"
        if isinstance(each, BaseExceptionGroup):
            yield from (f"  | {line}" for part in each.exceptions for line in _outline(part))
