"""Which dialect a path speaks: the one table that a further dialect is added to."""

from collections.abc import Mapping

from proxy.dialects.base import Dialect
from proxy.dialects.chat import CHAT

BY_PATH: Mapping[str, Dialect] = {dialect.path: dialect for dialect in (CHAT,)}
