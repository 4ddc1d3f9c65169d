"""The logging of this process, put back as it was after a test that had commands of ours run in it."""

import contextlib
import logging
from collections.abc import Iterator

_NAMES = ("", "ragway", "asyncio")


@contextlib.contextmanager
def kept_logging() -> Iterator[None]:
    """Undo at the end what `runtime.logs.to_stderr` does."""
    loggers = [logging.getLogger(name) for name in _NAMES]
    handlers, levels = loggers[0].handlers[:], [logger.level for logger in loggers]
    try:
        yield
    finally:
        logging.captureWarnings(False)
        loggers[0].handlers[:] = handlers
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
