"""Keys and usage over HTTP: /v1/admin/… for keys made with --admin, and for every key the key's own usage.

The credentials of a key can be written and deleted, and only the names can be read.

A caller who may make keys may do everything, so a caller without a key may change nothing. While the gateway has no
keys, every caller may read the lists, like /metrics, and the operator makes the first key on the machine by `ragway
keys`. The routes answer no web page, with any `server.cors_origins`.

SQL runs in two separate threads: neither the event loop nor the checks for revoked keys wait for a sum over a year.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import orjson
from starlette.routing import Route

from proxy.access.auth import must_be_json
from proxy.access.grants import BadGrant, changed_limits, duration_s, grant_of, key_json
from proxy.access.key_credentials import FIXED, BadCredential, KeyCredentials
from proxy.access.keys import Key, Keyring
from proxy.access.sql import SqlAccounts, UnknownKey
from proxy.access.usage import COMPARISONS, UsageQuery, as_csv, sums, usage_query
from proxy.api.knowledge.parameters import checked, invalid, query_of
from proxy.asgi import Receive, Scope, Send, send_json, send_whole
from proxy.body import whole_body
from proxy.dialects.errors import ApiError, method_not_allowed
from proxy.dialects.json_body import JsonBody, by_size
from proxy.exchange import exchange_of
from retrieval.errors import RetrievalError
from runtime import logs
from runtime.sealing import SealingError

USAGE = "/v1/usage"  # a configuration may relay the path instead
_KEYS = "/v1/admin/keys"
_THREADS = 2
_RETRY_AFTER_S = 2
_NO_STORE = [(b"cache-control", b"no-store")]

_T = TypeVar("_T")
Reply = tuple[int, Mapping[str, Any] | str]  # status, and JSON or CSV
Answer = Callable[[Scope, Receive], Awaitable[Reply]]


class Admin:
    """The routes of administration."""

    def __init__(
        self, accounts: SqlAccounts, keyring: Keyring, credentials: KeyCredentials, *, max_body_bytes: int
    ) -> None:
        self._accounts = accounts
        self._keyring = keyring
        self._credentials = credentials
        self._max_body_bytes = max_body_bytes
        self._threads = ThreadPoolExecutor(_THREADS, "accounts")

    def routes(self, *, usage: bool) -> list[Route]:
        """usage: with the route for a key's own usage."""
        own = [Route(USAGE, _Endpoint({"GET": self._own_usage}, check=lambda _: None))] if usage else []
        return [
            Route(_KEYS, _Endpoint({"GET": self._list, "POST": self._create}, check=_must_be_admin)),
            Route(
                _KEYS + "/{id}",
                _Endpoint({"GET": self._read, "PATCH": self._limit, "DELETE": self._revoke}, check=_must_be_admin),
            ),
            Route(_KEYS + "/{id}/rotate", _Endpoint({"POST": self._rotate}, check=_must_be_admin)),
            Route(_KEYS + "/{id}/credentials", _Endpoint({"GET": self._list_credentials}, check=_must_be_admin)),
            Route(
                _KEYS + "/{id}/credentials/{set}",
                _Endpoint(
                    {"PATCH": self._change_credentials, "DELETE": self._remove_credentials}, check=_must_be_admin
                ),
            ),
            Route("/v1/admin/usage", _Endpoint({"GET": self._usage}, check=_must_be_admin)),
            *own,
        ]

    # --- keys --------------------------------------------------------------------------------------------------------

    async def _list(self, _scope: Scope, _receive: Receive) -> Reply:
        keys = await self._do(self._accounts.keys)
        return 200, {"object": "list", "data": [_row(key) for key in keys]}

    async def _create(self, scope: Scope, receive: Receive) -> Reply:
        names = ("name", "team", "read", "write", "groups", "models", "admin", "metrics", "expires", "limits")
        grant = grant_of(await self._fields(scope, receive, *names))
        key, secret = await self._change(lambda: grant.make(self._accounts))
        return 201, {**_row(_changed(scope, key, "created")), "secret": secret}

    async def _read(self, scope: Scope, _receive: Receive) -> Reply:
        return 200, _row(await self._do(lambda: self._accounts.key(_id(scope))))

    async def _limit(self, scope: Scope, receive: Receive) -> Reply:
        fields = await self._fields(scope, receive, "limits")
        limits = changed_limits(fields.get("limits"))
        if not limits:
            raise BadGrant("limits must name some, e.g. rpm", "limits")
        key = await self._change(lambda: self._accounts.limit(_id(scope), limits))
        return 200, _row(_changed(scope, key, "limited"))

    async def _revoke(self, scope: Scope, _receive: Receive) -> Reply:
        key = await self._change(lambda: self._accounts.revoke(_id(scope)))
        return 200, _row(_changed(scope, key, "revoked"))

    async def _rotate(self, scope: Scope, receive: Receive) -> Reply:
        fields = await self._fields(scope, receive, "keep")
        keep_s = duration_s(fields.get("keep"), "keep") or 0.0
        key, secret = await self._change(lambda: self._accounts.rotate(_id(scope), keep_s=keep_s))
        return 200, {**_row(_changed(scope, key, "rotated")), "secret": secret}

    # --- credentials of keys -----------------------------------------------------------------------------------------

    async def _list_credentials(self, scope: Scope, _receive: Receive) -> Reply:
        return 200, await self._do(lambda: self._names(_id(scope)))

    async def _change_credentials(self, scope: Scope, receive: Receive) -> Reply:
        fields = await self._fields(scope, receive, "secret", "user", "fixed")
        values = _credentials(fields)
        await self._do(lambda: self._credentials.change(_id(scope), _set(scope), values))
        logs.write_line(f"{_id(scope)} has other credentials by {exchange_of(scope).key}")
        return 200, await self._do(lambda: self._names(_id(scope)))

    async def _remove_credentials(self, scope: Scope, _receive: Receive) -> Reply:
        if await self._do(lambda: self._credentials.remove(_id(scope), _set(scope))):
            logs.write_line(f"{_id(scope)} has fewer credentials by {exchange_of(scope).key}")
        return 200, await self._do(lambda: self._names(_id(scope)))

    def _names(self, id: str) -> dict[str, object]:
        self._accounts.key(id)  # raises UnknownKey
        rows = [{"set": one.set, "name": one.name} for one in self._credentials.names(id)]
        return {"object": "list", "data": rows}

    # --- usage -------------------------------------------------------------------------------------------------------

    async def _usage(self, scope: Scope, _receive: Receive) -> Reply:
        asked = query_of(scope, "by", "since", "until", "key", "format")
        key = asked.get("key")
        if key and key != COMPARISONS:
            await self._do(lambda: self._accounts.key(key))  # raises UnknownKey for an unknown key
        return await self._summed(scope, asked, key, by=asked.get("by"))

    async def _own_usage(self, scope: Scope, _receive: Receive) -> Reply:
        asked = query_of(scope, "by", "since", "until", "format")
        return await self._summed(scope, asked, exchange_of(scope).key, by=asked.get("by", "model"))

    async def _summed(self, scope: Scope, asked: Mapping[str, str], key: str | None, *, by: str | None) -> Reply:
        try:
            query = usage_query(by=by, since=asked.get("since"), until=asked.get("until"), key=key)
        except ValueError as error:
            raise invalid(str(error), str(error).partition(" ")[0]) from error
        in_csv = _in_csv(scope, asked.get("format"))
        rows = await self._do(lambda: sums(self._accounts, query))
        return 200, as_csv(rows, query) if in_csv else _sums(rows, query)

    # --- both --------------------------------------------------------------------------------------------------------

    async def _do(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _change(self, work: Callable[[], _T]) -> _T:
        """Change the accounts and refresh this process; other processes refresh within seconds."""

        def changed() -> _T:
            done = work()
            with contextlib.suppress(RetrievalError):  # the change is done, and the answer must carry the secret
                self._keyring.refresh()
            return done

        return await self._do(changed)

    async def _fields(self, scope: Scope, receive: Receive, *names: str) -> Mapping[str, Any]:
        """The members of the body, all among the names; an empty body has no members."""
        body = await whole_body(scope, receive, max_bytes=self._max_body_bytes)
        if not body:
            return {}
        must_be_json(scope)
        return await by_size(body, lambda: checked(JsonBody.parse(body).fields, names))


class _Endpoint:
    """One route: the admitted callers, the answer to each method, and the errors of the accounts."""

    def __init__(self, answers: Mapping[str, Answer], *, check: Callable[[Scope], None]) -> None:
        self._answers = {**answers, "HEAD": answers["GET"]} if "GET" in answers else answers
        self._check = check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._check(scope)
        if scope["method"] not in self._answers:
            raise method_not_allowed(scope["method"], scope["path"], list(self._answers))
        try:
            status, body = await self._answers[scope["method"]](scope, receive)
        except BadGrant as error:
            raise invalid(str(error), error.param) from error
        except BadCredential as error:
            raise invalid(str(error), "credentials") from error
        except SealingError as error:
            raise ApiError(503, f"{error}.", code="master_key_unavailable", type="server_error") from error
        except UnknownKey as error:
            raise ApiError(404, f"{error}.", code="key_not_found", param="id") from error
        except RetrievalError as error:
            again = [(b"retry-after", b"%d" % _RETRY_AFTER_S)]
            message = f"The accounts cannot be reached: {error}."
            raise ApiError(503, message, code="accounts_unavailable", type="server_error", headers=again) from error
        if isinstance(body, str):
            await send_whole(send, status, body.encode(), b"text/csv; charset=utf-8", _NO_STORE)
        else:
            await send_json(send, status, orjson.dumps(body), _NO_STORE)


def _must_be_admin(scope: Scope) -> None:
    exchange = exchange_of(scope)
    if not exchange.rights.admin:
        message = "This key may not see or change keys and the usage of all: that takes one made with --admin."
        raise ApiError(403, message, code="forbidden", type="permission_error")
    if any(name == b"origin" for name, _ in scope["headers"]):
        message = "Keys and usage are not for web pages: ask without the header Origin."
        raise ApiError(403, message, code="origin_not_allowed", type="permission_error")
    if scope["method"] not in ("GET", "HEAD") and not exchange.key:
        message = (
            "Keys are changed here by an admin's key only: make the first one by `ragway keys create NAME --admin`."
        )
        raise ApiError(403, message, code="forbidden", type="permission_error")


def _id(scope: Scope) -> str:
    id: str = scope["path_params"]["id"]
    return id


def _set(scope: Scope) -> str:
    name: str = scope["path_params"]["set"]
    return name


def _credentials(fields: Mapping[str, Any]) -> Mapping[str, str | None]:
    """Name of each credential -> value, or None to remove the credential. Raises BadGrant."""
    fixed = fields.get("fixed")
    if not isinstance(fixed, Mapping | None):
        raise BadGrant("fixed must be an object: the name of each argument, and the value", "fixed")
    values = {name: value for name, value in fields.items() if name != "fixed"}
    values |= {FIXED + name: value for name, value in (fixed or {}).items()}
    wrong = next((name for name, value in values.items() if not isinstance(value, str | None)), None)
    if wrong is not None:
        raise BadGrant(f"{wrong} must be a text, or null to remove the credential", wrong)
    if not values:
        raise BadGrant("the body must name some of secret, user and fixed", "secret")
    return values


def _row(key: Key) -> dict[str, object]:
    return {"object": "admin.key", **key_json(key)}


def _changed(scope: Scope, key: Key, what: str) -> Key:
    """Log the change with the caller's key, and return the changed key."""
    logs.write_line(f"{key.id} was {what} by {exchange_of(scope).key}")
    return key


def _sums(rows: list[dict[str, Any]], query: UsageQuery) -> dict[str, Any]:
    days = {"since": query.since or None, "until": query.until or None}
    return {"object": "usage", "by": query.by, **days, "key": query.key or None, "data": rows}


def _in_csv(scope: Scope, format: str | None) -> bool:
    """Whether the client wants CSV: by the parameter, else by the header."""
    if format not in (None, "csv", "json"):
        raise invalid("'format' must be csv or json", "format")
    accepted = b",".join(value for name, value in scope["headers"] if name == b"accept")
    return format == "csv" or (format is None and b"text/csv" in accepted.lower())
