"""The relay's client runs on both event loops that people serve with; its tests do, too."""

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop

SOCKETS = {"test_broken_replies.py", "test_cancellation.py", "test_client.py", "test_connection.py", "test_tls.py"}


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Both loops where sockets are touched directly, asyncio's elsewhere."""
    if item.path.name in SOCKETS:
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}
