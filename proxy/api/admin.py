"""Keys and usage over HTTP: /v1/admin/… for keys made with --admin, and for every key the key's own usage.

The credentials of a key can be written and deleted, and only the names can be read.

A caller who may make keys may do everything, so a caller without a key may change nothing. While the gateway has no
keys, every caller may read the lists, like /metrics, and the operator makes the first key on the machine by `ragway
keys`. The routes answer no web page, with any `server.cors_origins`.

SQL runs in two separate threads: neither the event loop nor the checks for revoked keys wait for a sum over a year.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import orjson
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.routing import Route

from proxy.access.auth import must_be_json
from proxy.access.grants import BadGrant, changed_limits, duration_s, grant_of, key_json
from proxy.access.key_credentials import FIXED, BadCredential, KeyCredentials
from proxy.access.keys import Key as StoredKey
from proxy.access.keys import Keyring
from proxy.access.sql import SqlAccounts, UnknownKey
from proxy.access.usage import COMPARISONS, UsageQuery, as_csv, sums, usage_query
from proxy.api.knowledge.declarations import Closed, Declaration, Open, doc, handlers_of, named, operation
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
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Credential = Annotated[str, Meta(min_length=1, max_length=10000)] | None
Granted = Annotated[
    list[Annotated[str, Meta(min_length=1)]] | None, named("Granted", "Names, or prefixes that end with *")
]
Duration = Annotated[
    Annotated[str, Meta(pattern="^[0-9]{1,6}[smhdw]$")] | None, named("Duration", "Like 90d, 24h or 30m")
]
Limit = Annotated[Annotated[int, Meta(ge=1)] | None, named("Limit")]
Dollars = Annotated[Annotated[float, Meta(gt=0)] | None, named("Dollars")]


class Limits(Closed, frozen=True):
    rpm: Annotated[Limit, doc("Requests a minute")] | UnsetType = UNSET
    tpm: Annotated[Limit, doc("Tokens a minute")] | UnsetType = UNSET
    concurrency: Annotated[Limit, doc("Requests at once")] | UnsetType = UNSET
    tokens_per_day: Limit | UnsetType = UNSET
    tokens_per_month: Limit | UnsetType = UNSET
    usd_per_day: Dollars | UnsetType = UNSET
    usd_per_month: Dollars | UnsetType = UNSET


class Key(Open, frozen=True, tag_field="object", tag="admin.key"):
    id: str
    name: str
    team: str
    read: list[str]
    write: list[str]
    groups: Annotated[list[str], doc("A single * stands for all groups")]
    models: list[str]
    admin: bool
    metrics: bool
    created_s: Annotated[float, doc("Seconds since 1970")]
    expires_s: float | None
    revoked_s: float | None
    limits: Limits


class KeyList(Closed, frozen=True, tag_field="object", tag="list"):
    data: list[Key]


class _Credential(Closed, frozen=True):
    set: Annotated[str, doc("The name of an action set")]
    name: Annotated[str, doc("secret, user, or fixed. and the name of an argument")]


class Credentials(Closed, frozen=True, tag_field="object", tag="list"):
    data: list[_Credential]


class CreatedKey(Key, frozen=True, kw_only=True):
    secret: str


class Used(Closed, frozen=True):
    requests: int
    failed: int
    prompt_tokens: int
    completion_tokens: int
    injected_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    estimated: Annotated[int, doc("Requests without token counts from the upstream")]
    cost_usd: float
    unpriced: Annotated[int, doc("Requests for models without a known price, not part of cost_usd")]
    mean_total_ms: float | None
    mean_retrieval_ms: float | None
    mean_upstream_ms: float | None
    team: str | UnsetType = UNSET
    key: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    day: str | UnsetType = UNSET


class Usage(Closed, frozen=True, tag_field="object", tag="usage"):
    by: list[Literal["team", "key", "model", "day"]]
    since: str | None
    until: str | None
    key: str | None
    data: list[Used]


class _NewKey(Closed, frozen=True):
    name: Name
    team: Annotated[str, Meta(max_length=200)] | UnsetType = UNSET
    read: Annotated[Granted, doc("Collections")] | UnsetType = UNSET
    write: Annotated[Granted, doc("Collections")] | UnsetType = UNSET
    groups: Annotated[list[str] | None, doc("A single * stands for all groups")] = None
    models: Granted | UnsetType = UNSET
    admin: bool | None = None
    metrics: Annotated[bool | None, doc("Reads /metrics, and all of /readyz")] = None
    expires: Duration | UnsetType = UNSET
    limits: Limits | UnsetType = UNSET


class _KeyLimits(Closed, frozen=True):
    limits: Annotated[Limits, Meta(extra_json_schema={"minProperties": 1})]


class _Rotation(Closed, frozen=True):
    keep: Annotated[Duration, doc("How long the old key still works")] | UnsetType = UNSET


class _ChangedCredentials(Closed, frozen=True):
    secret: Credential = None
    user: Credential = None
    fixed: Annotated[dict[str, Credential] | None, doc("Arguments that no model sees or sets, by name")] = None
    more_schema: ClassVar[Any] = {"minProperties": 1}


class _OwnUsageQuery(Closed, frozen=True):
    by: (
        Annotated[str, doc("Some of team, key, model, day, with commas; default: team,model, or model for /v1/usage")]
        | None
    ) = None
    since: Annotated[str, doc("A day, as 2026-11-22")] | None = None
    until: Annotated[str, doc("A day, included")] | None = None
    format: Annotated[Literal["json", "csv"], doc("Default: by the header Accept")] | None = None


class _UsageQuery(_OwnUsageQuery, frozen=True):
    key: Annotated[str, doc("The id of a key, to sum only this key's usage")] | None = None


_SUMS = {"application/json": Usage, "text/csv": str}
_THE_NAMES = "The names of the key's credentials"
_WITH_SECRET = "The key with the secret, which is shown only once"


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
        return [Route(path, _Endpoint(path, of)) for path, of in handlers_of(self).items() if usage or path != USAGE]

    # --- keys --------------------------------------------------------------------------------------------------------

    @operation(f"GET {_KEYS}", "admin", KeyList, "All keys")
    async def list_keys(self, _scope: Scope, _receive: Receive) -> Reply:
        """All keys, without secrets."""
        keys = await self._do(self._accounts.keys)
        return 200, {"object": "list", "data": [_row(key) for key in keys]}

    @operation(f"POST {_KEYS}", "admin", CreatedKey, _WITH_SECRET, status=201, body=_NewKey)
    async def create_key(self, scope: Scope, receive: Receive) -> Reply:
        """Make a key."""
        grant = grant_of(await self._fields(scope, receive, _NewKey))
        key, secret = await self._change(lambda: grant.make(self._accounts))
        return 201, {**_row(_changed(scope, key, "created")), "secret": secret}

    @operation(f"GET {_KEYS}/{{id}}", "admin", Key, "The key")
    async def read_key(self, scope: Scope, _receive: Receive) -> Reply:
        """A key, without the secret."""
        return 200, _row(await self._do(lambda: self._accounts.key(_id(scope))))

    @operation(f"PATCH {_KEYS}/{{id}}", "admin", Key, "The key", body=_KeyLimits)
    async def limit_key(self, scope: Scope, receive: Receive) -> Reply:
        """Change limits of a key; null removes a limit."""
        fields = await self._fields(scope, receive, _KeyLimits)
        limits = changed_limits(fields.get("limits"))
        if not limits:
            raise BadGrant("limits must name some, e.g. rpm", "limits")
        key = await self._change(lambda: self._accounts.limit(_id(scope), limits))
        return 200, _row(_changed(scope, key, "limited"))

    @operation(f"DELETE {_KEYS}/{{id}}", "admin", Key, "The key")
    async def revoke_key(self, scope: Scope, _receive: Receive) -> Reply:
        """Revoke a key."""
        key = await self._change(lambda: self._accounts.revoke(_id(scope)))
        return 200, _row(_changed(scope, key, "revoked"))

    @operation(
        f"POST {_KEYS}/{{id}}/rotate", "admin", CreatedKey, _WITH_SECRET, body=_Rotation, told={"required": False}
    )
    async def rotate_key(self, scope: Scope, receive: Receive) -> Reply:
        """Replace a key by a new key with the same rights."""
        fields = await self._fields(scope, receive, _Rotation)
        keep_s = duration_s(fields.get("keep"), "keep") or 0.0
        key, secret = await self._change(lambda: self._accounts.rotate(_id(scope), keep_s=keep_s))
        return 200, {**_row(_changed(scope, key, "rotated")), "secret": secret}

    # --- credentials of keys -----------------------------------------------------------------------------------------

    @operation(f"GET {_KEYS}/{{id}}/credentials", "admin", Credentials, _THE_NAMES)
    async def list_credentials(self, scope: Scope, _receive: Receive) -> Reply:
        """The names of a key's credentials for action sets, without values."""
        return 200, await self._do(lambda: self._names(_id(scope)))

    @operation(f"PATCH {_KEYS}/{{id}}/credentials/{{set}}", "admin", Credentials, _THE_NAMES, body=_ChangedCredentials)
    async def change_credentials(self, scope: Scope, receive: Receive) -> Reply:
        """Set credentials of a key for an action set; null removes a credential."""
        fields = await self._fields(scope, receive, _ChangedCredentials)
        values = _credentials(fields)
        await self._do(lambda: self._credentials.change(_id(scope), _set(scope), values))
        logs.write_line(f"{_id(scope)} has other credentials by {exchange_of(scope).key}")
        return 200, await self._do(lambda: self._names(_id(scope)))

    @operation(f"DELETE {_KEYS}/{{id}}/credentials/{{set}}", "admin", Credentials, _THE_NAMES)
    async def remove_credentials(self, scope: Scope, _receive: Receive) -> Reply:
        """Delete all credentials of a key for an action set."""
        if await self._do(lambda: self._credentials.remove(_id(scope), _set(scope))):
            logs.write_line(f"{_id(scope)} has fewer credentials by {exchange_of(scope).key}")
        return 200, await self._do(lambda: self._names(_id(scope)))

    def _names(self, id: str) -> dict[str, object]:
        self._accounts.key(id)  # raises UnknownKey
        rows = [{"set": one.set, "name": one.name} for one in self._credentials.names(id)]
        return {"object": "list", "data": rows}

    # --- usage -------------------------------------------------------------------------------------------------------

    @operation("GET /v1/admin/usage", "admin", _SUMS, "Sums, by group", query=_UsageQuery)
    async def read_usage(self, scope: Scope, _receive: Receive) -> Reply:
        """Sums of usage."""
        asked = query_of(scope, _UsageQuery)
        key = asked.key
        if key and key != COMPARISONS:
            await self._do(lambda: self._accounts.key(key))  # raises UnknownKey for an unknown key
        return await self._summed(scope, asked, key, by=asked.by)

    @operation(f"GET {USAGE}", "usage", _SUMS, "Sums, by group", query=_OwnUsageQuery)
    async def read_own_usage(self, scope: Scope, _receive: Receive) -> Reply:
        """Sums of the usage of the caller's key."""
        asked = query_of(scope, _OwnUsageQuery)
        return await self._summed(scope, asked, exchange_of(scope).key, by="model" if asked.by is None else asked.by)

    async def _summed(self, scope: Scope, asked: _OwnUsageQuery, key: str | None, *, by: str | None) -> Reply:
        try:
            query = usage_query(by=by, since=asked.since, until=asked.until, key=key)
        except ValueError as error:
            raise invalid(str(error), str(error).partition(" ")[0]) from error
        in_csv = _in_csv(scope, asked.format)
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

    async def _fields(self, scope: Scope, receive: Receive, kind: type[Struct]) -> Mapping[str, Any]:
        """The members of the body, all among those of `kind`; an empty body has no members."""
        body = await whole_body(scope, receive, max_bytes=self._max_body_bytes)
        if not body:
            return {}
        must_be_json(scope)
        return await by_size(body, lambda: checked(JsonBody.parse(body).fields, kind.__struct_fields__))


class _Endpoint:
    """One route: the admitted callers, the answer to each method, and the errors of the accounts."""

    def __init__(self, path: str, handlers: Mapping[str, tuple[Declaration, Callable[..., Any]]]) -> None:
        self._own = path == USAGE
        self._answers = {method: handler for method, (_, handler) in handlers.items()}
        if "GET" in self._answers:
            self._answers["HEAD"] = self._answers["GET"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._own:
            _must_be_admin(scope)
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
        message = "This key may not see or change keys and everybody's usage: use a key made with --admin."
        raise ApiError(403, message, code="forbidden", type="permission_error")
    if any(name == b"origin" for name, _ in scope["headers"]):
        message = "Keys and usage are not for web pages: ask without the Origin header."
        raise ApiError(403, message, code="origin_not_allowed", type="permission_error")
    if scope["method"] not in ("GET", "HEAD") and not exchange.key:
        message = "Only an admin's key may change keys here: make the first one with `ragway keys create NAME --admin`."
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


def _row(key: StoredKey) -> dict[str, object]:
    return {"object": "admin.key", **key_json(key)}


def _changed(scope: Scope, key: StoredKey, what: str) -> StoredKey:
    """Log the change with the caller's key, and return the changed key."""
    logs.write_line(f"{key.id} was {what} by {exchange_of(scope).key}")
    return key


def _sums(rows: list[dict[str, Any]], query: UsageQuery) -> dict[str, Any]:
    days = {"since": query.since or None, "until": query.until or None}
    return {"object": "usage", "by": query.by, **days, "key": query.key or None, "data": rows}


def _in_csv(scope: Scope, format: str | None) -> bool:
    """Whether the client wants CSV: by the parameter, else by the header."""
    accepted = b",".join(value for name, value in scope["headers"] if name == b"accept")
    return format == "csv" or (format is None and b"text/csv" in accepted.lower())
