"""Reads a reply's injected passages from the gateway's receipts, if it keeps any."""

import asyncio
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import httpx

from evaluation.answers.records import Rag, ShownPassage

_TIMEOUT_S = 5.0
# another gateway process may have written the receipt, which all processes see within a second
_AGAIN_S = 1.0


class ReceiptReader:
    """One gateway's receipts, by reply id."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._none = False  # there is no receipts path
        self._patient = True

    async def of(self, rag: Rag) -> Rag:
        """Add passages and token count, if there is a receipt."""
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
        shown = [
            ShownPassage(*(str(passage.get(name) or "") for name in texts))
            for passage in passages
            if isinstance(passage, dict)
        ]
    injected = row.get("injected")
    return replace(
        rag,
        passages=shown,
        injected_tokens=tokens if isinstance(tokens, int) else None,
        injected_bytes=len(injected.encode("utf-8", "replace")) if isinstance(injected, str) else None,
    )


def _code(row: dict[str, Any]) -> str:
    error = row.get("error")
    return str(error.get("code")) if isinstance(error, dict) else ""
