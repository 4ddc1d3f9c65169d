"""GET /v1/models and GET /v1/models/NAME: the models that the caller may call.

Models named in the settings come first, then the models listed by upstreams behind patterns. Each upstream has a time
limit; the models of an upstream without a list are left out. GET /v1/models/NAME finds exactly the listed models.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson

from proxy.asgi import App, Receive, Scope, Send, send_json
from proxy.errors import ApiError, upstream_error
from proxy.exchange import Target, exchange_of
from proxy.model_calls import NoAnswer, list_models
from proxy.upstream.routes import Routes

_WITHIN_S = 5.0  # a chat program waits for the list when starting

Row = Mapping[str, Any]


class Models:
    """The answers of both paths."""

    def __init__(self, routes: Routes, upstream: App, *, within_s: float = _WITHIN_S) -> None:
        self._routes = routes
        self._upstream = upstream
        self._within_s = within_s

    async def list(self, scope: Scope, receive: Receive, send: Send) -> None:
        """All models. Where all models belong to one upstream, the upstream's answer unchanged, errors included."""
        exchange, listers = exchange_of(scope), self._routes.listers()
        rights = exchange.rights
        names = self._routes.names(rights)
        if not names and rights.models.all and listers == [self._routes.row_of("")]:
            exchange.target, exchange.body = listers[0], b""
            await self._upstream(scope, receive, send)
            return
        rows: dict[str, Row] = {name: _described(name) for name in sorted(names)}
        if rights.models.patterns:
            for found in await asyncio.gather(*(self._behind(row, scope) for row in listers)):
                rows |= {id: row for id, row in found.items() if id not in rows}
        if not rows and exchange.error:
            raise upstream_error(502, f"The upstream gave no list of its models: {exchange.error}.", "upstream_error")
        await send_json(send, 200, orjson.dumps({"object": "list", "data": list(rows.values())}))

    async def one(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """A model of the list, or 404."""
        exchange, name = exchange_of(scope), scope["path_params"]["name"]
        found: Row | None = None
        if name in self._routes.names(exchange.rights):
            found = _described(name)
        elif name in exchange.rights.models:
            row = self._routes.row_of(name)
            if row is not None and row in self._routes.listers():
                found = (await self._behind(row, scope)).get(name)
        if found is None and exchange.error:
            message = f"The upstream gave no list of its models ({exchange.error}), so {name!r} cannot be looked up."
            raise ApiError(404, message, code="model_not_found", param="model")
        if found is None:
            raise self._routes.absent(name, exchange.rights)
        await send_json(send, 200, orjson.dumps(found))

    async def _behind(self, row: Target, scope: Scope) -> dict[str, Row]:
        """The models listed by a pattern's upstream, routed by the pattern and allowed to the caller."""
        exchange = exchange_of(scope)
        try:
            async with asyncio.timeout(self._within_s):
                listed = await list_models(self._upstream, row, headers=scope["headers"])
        except (NoAnswer, TimeoutError) as error:
            exchange.error = str(error) or "upstream_timeout"
            return {}
        granted = [each for each in listed if each["id"] in exchange.rights.models]
        return {each["id"]: each for each in granted if self._routes.row_of(each["id"]) is row}


def _described(name: str) -> Row:
    return {"id": name, "object": "model", "created": 0, "owned_by": "ragway"}
