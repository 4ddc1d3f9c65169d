"""What a gateway's receipts say of the passages behind a reply; nothing where it keeps none."""

import asyncio
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import httpx

from evaluation.answers.records import Rag, Shown

_TIMEOUT_S = 5.0
_AGAIN_S = 1.0  # another process of the gateway may have made it, and tells within a second


class Receipts:
    """The receipts of one gateway, read by the ids of its replies."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._none = False  # it knows no such path
        self._patient = True

    async def of(self, rag: Rag) -> Rag:
        """The same with its passages and their tokens, where there is a receipt to read."""
        row = await self._read(rag.id)
        if row is None and self._patient and not self._none:
            await asyncio.sleep(_AGAIN_S)
            row = await self._read(rag.id)
            self._patient = row is not None
        return rag if row is None else _with(rag, row)

    async def _read(self, id: str) -> dict[str, Any] | None:
        if self._none or not id:
            return None
        try:
            got = await self._client.get(f"/v1/knowledge/receipts/{quote(id, safe='')}", timeout=_TIMEOUT_S)
            row = got.json()
        except (httpx.RequestError, ValueError):
            return None
        if not isinstance(row, dict):
            return None
        self._none = got.status_code == 404 and _code(row) == "unknown_path"
        return row if got.status_code == 200 else None


def _with(rag: Rag, row: dict[str, Any]) -> Rag:
    passages, tokens = row.get("passages"), row.get("injected_tokens")
    shown = None
    if isinstance(passages, list):
        texts = ("source", "title", "text", "document")
        shown = [Shown(*(str(each.get(name) or "") for name in texts)) for each in passages if isinstance(each, dict)]
    return replace(rag, passages=shown, injected_tokens=tokens if isinstance(tokens, int) else None)


def _code(row: dict[str, Any]) -> str:
    error = row.get("error")
    return str(error.get("code")) if isinstance(error, dict) else ""
