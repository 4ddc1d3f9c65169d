"""Which dialect each path speaks. A new dialect is a new entry here."""

from collections.abc import Mapping

from proxy.dialects.base import Dialect
from proxy.dialects.chat import CHAT
from proxy.dialects.messages import MESSAGES
from proxy.dialects.responses import RESPONSES

BY_PATH: Mapping[str, Dialect] = {dialect.path: dialect for dialect in (CHAT, RESPONSES, MESSAGES)}
DIALECT_NAMES: Mapping[str, str] = {CHAT.path: "chat", RESPONSES.path: "responses", MESSAGES.path: "messages"}
