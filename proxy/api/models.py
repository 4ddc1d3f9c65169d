"""GET /v1/models and GET /v1/models/NAME: models that the caller may use.

Models named in the settings come first, then those listed by upstreams behind patterns. Each upstream has a time limit;
if it gives no list, its models are left out. GET /v1/models/NAME answers for exactly those, with the upstream's own
object if it has one, and takes prefixes rage/SET/, raw/ and rag/COLLECTION/, too.
A failed lookup is a 502 or 504, never a 404, which programs take for "no such model".
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import orjson

from proxy.asgi import App, Receive, Scope, Send, send_json
from proxy.augment.gate import collection_names, split_model, split_sets
from proxy.caller import Rights
from proxy.dialects.errors import ApiError, upstream_error
from proxy.dialects.target import Target
from proxy.exchange import EXCHANGE, Exchange
from proxy.model_calls import NoAnswer, find_model, list_models
from proxy.upstream.routes import Routes

_WITHIN_S = 5.0  # chat programs wait for the list when they start
_TIMEOUT = "upstream_timeout"

Row = Mapping[str, Any]
CheckCollections = Callable[[Sequence[str], Rights], Awaitable[None]]
CheckSets = Callable[[Sequence[str], Rights], object]


@dataclass(eq=False, repr=False)
class Models:
    """Answers for both paths."""

    routes: Routes
    upstream: App
    check_collections: CheckCollections  # raises ApiError if one is missing or not readable
    _: KW_ONLY
    check_sets: CheckSets | None = None  # the same for action sets; None: there are none
    within_s: float = _WITHIN_S

    async def list(self, scope: Scope, receive: Receive, send: Send) -> None:
        """All models. If they all belong to one upstream, its answer unchanged, errors included."""
        exchange: Exchange = scope[EXCHANGE]
        listers = self.routes.listers()
        rights = exchange.rights
        names = self.routes.names(rights)
        exchange.patterns = self.routes.patterns(rights)
        if not names and rights.models.all and listers == [self.routes.row_of("")]:
            exchange.target, exchange.body = listers[0], b""
            await self.upstream({**scope, "method": "GET"}, receive, send)  # for HEAD, the server leaves out the body
            return
        rows: dict[str, Row] = {name: _described(name) for name in sorted(names)}
        if rights.models.patterns:
            for found in await asyncio.gather(*(self._behind(row, scope) for row in listers)):
                rows |= {id: row for id, row in found.items() if id not in rows}
        if not rows and exchange.error:
            raise upstream_error(
                502, f"The upstream did not list its models: {_public(exchange.error)}.", "upstream_error"
            )
        await send_json(send, 200, orjson.dumps({"object": "list", "data": list(rows.values())}))

    async def one(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """One listed model. Raises ApiError 404 (no such model, collection or set), 502, 504 (the lookup failed)."""
        exchange: Exchange = scope[EXCHANGE]
        asked = scope["path_params"]["name"]
        rest, sets = (asked, "") if self.check_sets is None else split_sets(asked)
        name, _, prefix = split_model(rest)
        target = self.routes.resolve(name, exchange.rights)
        pattern = self.routes.pattern_of(name)
        exchange.patterns = (pattern,) if pattern else ()
        if sets and self.check_sets is not None:
            self.check_sets(collection_names(sets), exchange.rights)
        if prefix:
            await self.check_collections(collection_names(prefix), exchange.rights)
        named = name in self.routes.names(exchange.rights)
        found = None
        if target.lane == "relay" and (named or self.routes.row_of(name) in self.routes.listers()):
            found = await self._looked_up(target, scope, required=not named)
        if found is None and not named:
            raise _not_listed(name, pattern, target)
        if found is None:
            found = orjson.dumps(_described(asked))
        elif target.model != asked:
            found = orjson.dumps({**orjson.loads(found), "id": asked})
        await send_json(send, 200, found)

    async def _looked_up(self, target: Target, scope: Scope, *, required: bool) -> bytes | None:
        """The upstream's own JSON object for the target's model; None: no such model.

        required: without the upstream's answer, nothing is known about the model. Raises ApiError 502, 504.
        """
        exchange: Exchange = scope[EXCHANGE]
        try:
            async with asyncio.timeout(self.within_s):
                return await find_model(self.upstream, target, headers=scope["headers"])
        except (NoAnswer, TimeoutError) as error:
            exchange.error = str(error) or _TIMEOUT
        if not required:
            return None
        status, code = (504, _TIMEOUT) if exchange.error == _TIMEOUT else (502, "upstream_error")
        message = (
            f"The upstream cannot say whether there is a model {target.model!r}: {_public(exchange.error)}. Try again."
        )
        raise upstream_error(status, message, code)

    async def _behind(self, row: Target, scope: Scope) -> dict[str, Row]:
        """Models listed by a pattern's upstream, if the pattern routes them and the caller may use them."""
        exchange: Exchange = scope[EXCHANGE]
        try:
            async with asyncio.timeout(self.within_s):
                listed = await list_models(self.upstream, row, headers=scope["headers"])
        except (NoAnswer, TimeoutError) as error:
            exchange.error = str(error) or _TIMEOUT
            return {}
        granted = [each for each in listed if each["id"] in exchange.rights.models]
        return {each["id"]: each for each in granted if self.routes.row_of(each["id"]) is row}


def _not_listed(name: str, pattern: str, target: Target) -> ApiError:
    """A 404 for a name that only a pattern matches."""
    if target.lane == "relay" and target.model == name:
        message = f"The upstream of {pattern!r} has no model {name!r}: GET /v1/models lists the models."
    else:
        message = (
            f"GET /v1/models lists no model {name!r}. The pattern {pattern!r} takes requests for the name all the same."
        )
    return ApiError(404, message, code="model_not_found", param="model")


def _described(name: str) -> Row:
    return {"id": name, "object": "model", "created": 0, "owned_by": "ragway"}


def _public(error: str) -> str:
    """A logged error without the upstream's address."""
    return error.partition(":")[0]
