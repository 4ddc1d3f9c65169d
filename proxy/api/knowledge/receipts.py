"""The passages of a chat and the reasons: GET /v1/knowledge/receipts/{x-rag-id}."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from starlette.routing import Route

from proxy.api.knowledge.access import Access
from proxy.asgi import Receive, Scope
from proxy.dialects.errors import ApiError
from proxy.exchange import exchange_of
from proxy.observe.receipts.receipt import Receipts
from proxy.observe.receipts.shown import readable_receipt
from runtime.write_behind import EVERY_S

_ID = re.compile(r"rag-[0-9a-f]{24}")  # PostgreSQL takes no NUL
_LOOKS = 3  # until another process has written the receipt


class ReceiptsApi:
    """Receipts, each for readers with the right to read the whole content."""

    def __init__(self, access: Access, receipts: Receipts) -> None:
        self._access = access
        self._receipts = receipts

    def routes(self) -> list[Route]:
        return [self._access.route("/v1/knowledge/receipts/{id}", slow=("GET",), GET=self._read)]

    async def _read(self, scope: Scope, _receive: Receive) -> Mapping[str, Any]:
        id, exchange = scope["path_params"]["id"], exchange_of(scope)
        for look in range(_LOOKS):
            if look:  # also for an existing receipt hidden from the reader: the time must not reveal the receipt
                await asyncio.sleep(EVERY_S)
            async with self._access.asking():
                kept = await self._receipts.find(id) if _ID.fullmatch(id) else None
                found = kept and await readable_receipt(
                    kept, self._access.knowledge, exchange.rights, exchange.owner, exchange.key
                )
            if found:
                return found
        message = f"There is no receipt {id!r}: none was kept (receipts.keep_hours), or it is too old, or not yours."
        raise ApiError(404, message, code="receipt_not_found", param="id")
