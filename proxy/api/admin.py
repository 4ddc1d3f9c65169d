"""Keys and usage over HTTP: /v1/admin/… for keys made with --admin, and for every key its own usage.

A key's credentials can be written and deleted, but only their names can be read.

Whoever may make keys may do everything, so a caller without a key may change nothing. While there are no keys, everyone
may read these lists, like /metrics, and an operator makes the first key on the machine by `ragway keys`. Web pages get
no answer, whatever `server.cors_origins` says.

SQL runs in two threads of its own: neither event loop nor checks for revoked keys wait for a sum over a year.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeVar, cast

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.routing import Route

from proxy.access.auth import must_be_json
from proxy.access.grants import BadGrant, acts_of, changed_limits, duration_s, grant_of, key_json
from proxy.access.key_credentials import FIXED, BadCredential, KeyCredentials
from proxy.access.keys import Key as StoredKey
from proxy.access.keys import Keyring
from proxy.access.sql import SqlAccounts, UnknownKey
from proxy.access.usage import COMPARISONS, as_csv, sums, usage_query
from proxy.api.knowledge.declarations import Closed, Open, doc, named, operation
from proxy.api.knowledge.endpoint import ApiCall, Rules, routes_of
from proxy.api.knowledge.parameters import checked, invalid
from proxy.asgi import Scope
from proxy.body import whole_body
from proxy.dialects.errors import ApiError, Headers, forbidden, method_not_allowed
from proxy.dialects.json_body import JsonBody, by_size
from proxy.exchange import EXCHANGE, Exchange
from retrieval.errors import RetrievalError
from runtime import logs
from runtime.sealing import SealingError

USAGE = "/v1/usage"  # a configuration may relay this path instead
_KEYS = "/v1/admin/keys"
_THREADS = 2
_RETRY_AFTER_S = 2

_T = TypeVar("_T")
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Credential = Annotated[str, Meta(min_length=1, max_length=10000)] | None
Granted = Annotated[
    list[Annotated[str, Meta(min_length=1)]] | None, named("Granted", "Names, or prefixes that end with *")
]
Grants = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=300)]] | None,
    named("CallGrants", "Calls of APIs, as atlas:read, tickets:createTicket=auto or !tickets:delete*"),
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
    changes_per_day: Annotated[Limit, doc("Calls a day that change something")] | UnsetType = UNSET


class Key(Open, frozen=True, tag_field="object", tag="admin.key"):
    id: str
    name: str
    team: str
    read: list[str]
    write: list[str]
    groups: Annotated[list[str], doc("A single * stands for all groups")]
    models: list[str]
    act: Annotated[list[str], doc("Grants of calls of APIs")]
    query: Annotated[list[str], doc("Tables, as DATABASE.TABLE")]
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
    calls: Annotated[int, doc("Calls of APIs that were sent")]
    changes: Annotated[int, doc("Part of calls: those that change something")]
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
    act: Grants | UnsetType = UNSET
    query: Annotated[Granted, doc("Tables, as DATABASE.TABLE")] | UnsetType = UNSET
    admin: bool | None = None
    metrics: Annotated[bool | None, doc("Reads /metrics, and all of /readyz")] = None
    expires: Duration | UnsetType = UNSET
    limits: Limits | UnsetType = UNSET


class _ChangedKey(Closed, frozen=True):
    limits: Annotated[Limits, Meta(extra_json_schema={"minProperties": 1})] | UnsetType = UNSET
    act: Annotated[Grants, doc("In place of all grants of calls")] | UnsetType = UNSET
    more_schema: ClassVar[Any] = {"minProperties": 1}


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


@dataclass(eq=False, repr=False)
class Admin(Rules):
    """Administration routes."""

    headers: ClassVar[Headers] = [(b"cache-control", b"no-store")]

    accounts: SqlAccounts
    keyring: Keyring
    credentials: KeyCredentials
    _: KW_ONLY
    max_body_bytes: int

    def __post_init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, "accounts")

    def routes(self, *, usage: bool) -> list[Route]:
        """usage: include the route for a key's own usage."""
        return [route for route in routes_of(self, self) if usage or route.path != USAGE]

    # --- keys --------------------------------------------------------------------------------------------------------

    @operation(f"GET {_KEYS}", "admin", "All keys")
    async def list_keys(self, _call: ApiCall) -> KeyList:
        """All keys, without secrets."""
        return KeyList([_row(key) for key in await self._do(self.accounts.keys)])

    @operation(f"POST {_KEYS}", "admin", _WITH_SECRET, status=201)
    async def create_key(self, call: ApiCall, body: Annotated[Mapping[str, Any], _NewKey]) -> CreatedKey:
        """Make a key."""
        grant = grant_of(body)
        return _with_secret(call, "created", *await self._change(lambda: self.accounts.create(**grant)))

    @operation(f"GET {_KEYS}/{{id}}", "admin", "The key")
    async def read_key(self, call: ApiCall) -> Key:
        """A key, without the secret."""
        return _row(await self._do(lambda: self.accounts.key(call.path["id"])))

    @operation(f"PATCH {_KEYS}/{{id}}", "admin", "The key")
    async def limit_key(self, call: ApiCall, body: Annotated[Mapping[str, Any], _ChangedKey]) -> Key:
        """Change limits of a key (null removes a limit), or its grants of calls of APIs."""
        limits = changed_limits(body.get("limits", {}))
        act = acts_of(body["act"]) if "act" in body else None
        if not limits and act is None:
            raise BadGrant("limits must name some, e.g. rpm", "limits")
        key = await self._change(lambda: self.accounts.change(call.path["id"], limits, act))
        return _row(_changed(call, "limited" if limits else "granted other calls", key))

    @operation(f"DELETE {_KEYS}/{{id}}", "admin", "The key")
    async def revoke_key(self, call: ApiCall) -> Key:
        """Revoke a key."""
        return _row(_changed(call, "revoked", await self._change(lambda: self.accounts.revoke(call.path["id"]))))

    @operation(f"POST {_KEYS}/{{id}}/rotate", "admin", _WITH_SECRET, told={"required": False})
    async def rotate_key(self, call: ApiCall, body: Annotated[Mapping[str, Any], _Rotation]) -> CreatedKey:
        """Replace a key by a new key with the same rights."""
        keep_s = duration_s(body.get("keep"), "keep") or 0.0
        rotated = await self._change(lambda: self.accounts.rotate(call.path["id"], keep_s=keep_s))
        return _with_secret(call, "rotated", *rotated)

    # --- credentials of keys -----------------------------------------------------------------------------------------

    @operation(f"GET {_KEYS}/{{id}}/credentials", "admin", _THE_NAMES)
    async def list_credentials(self, call: ApiCall) -> Credentials:
        """The names of a key's credentials for action sets, without values."""
        return await self._do(lambda: self._names(call.path["id"]))

    @operation(f"PATCH {_KEYS}/{{id}}/credentials/{{set}}", "admin", _THE_NAMES)
    async def change_credentials(
        self, call: ApiCall, body: Annotated[Mapping[str, Any], _ChangedCredentials]
    ) -> Credentials:
        """Set credentials of a key for an action set; null removes a credential."""
        id, values = call.path["id"], _credentials(body)
        await self._do(lambda: self.credentials.change(id, call.path["set"], values))
        logs.write_line(f"{id} has other credentials by {call.exchange.key}")
        return await self._do(lambda: self._names(id))

    @operation(f"DELETE {_KEYS}/{{id}}/credentials/{{set}}", "admin", _THE_NAMES)
    async def remove_credentials(self, call: ApiCall) -> Credentials:
        """Delete all credentials of a key for an action set."""
        id = call.path["id"]
        if await self._do(lambda: self.credentials.remove(id, call.path["set"])):
            logs.write_line(f"{id} has fewer credentials by {call.exchange.key}")
        return await self._do(lambda: self._names(id))

    def _names(self, id: str) -> Credentials:
        self.accounts.key(id)  # raises UnknownKey
        return Credentials([_Credential(one.set, one.name) for one in self.credentials.names(id)])

    # --- usage -------------------------------------------------------------------------------------------------------

    @operation("GET /v1/admin/usage", "admin", "Sums, by group", gives=_SUMS)
    async def read_usage(self, call: ApiCall, query: _UsageQuery) -> Usage | str:
        """Sums of usage."""
        key = query.key
        if key and key != COMPARISONS:
            await self._do(lambda: self.accounts.key(key))  # raises UnknownKey
        return await self._summed(call, query, key, by=query.by)

    @operation(f"GET {USAGE}", "usage", "Sums, by group", gives=_SUMS)
    async def read_own_usage(self, call: ApiCall, query: _OwnUsageQuery) -> Usage | str:
        """Sums of the usage of the caller's key."""
        return await self._summed(call, query, call.exchange.key, by="model" if query.by is None else query.by)

    async def _summed(self, call: ApiCall, asked: _OwnUsageQuery, key: str | None, *, by: str | None) -> Usage | str:
        """Sums, as CSV if the client wants that: by parameter, else by header."""
        try:
            query = usage_query(by=by, since=asked.since, until=asked.until, key=key)
        except ValueError as error:
            raise invalid(str(error), str(error).partition(" ")[0]) from error
        rows = await self._do(lambda: sums(self.accounts, query))
        accepted = b",".join(value for name, value in call.scope["headers"] if name == b"accept")
        if asked.format == "csv" or (asked.format is None and b"text/csv" in accepted.lower()):
            return as_csv(rows, query)
        used = [Used(**row) for row in rows]
        return Usage(cast(Any, query.by), query.since or None, query.until or None, query.key or None, used)

    # --- both --------------------------------------------------------------------------------------------------------

    async def _do(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _change(self, work: Callable[[], _T]) -> _T:
        """Change accounts and refresh this process; others refresh within seconds."""

        def changed() -> _T:  # in one piece, even if the client leaves
            done = work()
            with contextlib.suppress(RetrievalError):  # it is done, and the answer must carry the secret
                self.keyring.refresh()
            return done

        return await self._do(changed)

    def check(self, scope: Scope, methods: Sequence[str]) -> None:
        if scope["path"] != USAGE:
            _must_be_admin(scope)
        if scope["method"] not in methods:
            raise method_not_allowed(scope["method"], scope["path"], methods)

    async def fields(self, call: ApiCall, kind: type[Struct]) -> Mapping[str, Any]:
        """As in `Rules`; an empty body has no fields."""
        body = await whole_body(call.scope, call.receive, max_bytes=self.max_body_bytes)
        if not body:
            return {}
        must_be_json(call.scope)
        return await by_size(body, lambda: checked(JsonBody.parse(body).fields, kind.__struct_fields__))

    @contextlib.asynccontextmanager
    async def asking(self, **_deadlines: bool) -> AsyncIterator[None]:
        try:
            yield
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


def _must_be_admin(scope: Scope) -> None:
    exchange: Exchange = scope[EXCHANGE]
    if not exchange.rights.admin:
        message = "This key may not see or change keys and everybody's usage: use a key made with --admin."
        raise forbidden(message)
    if any(name == b"origin" for name, _ in scope["headers"]):
        message = "Keys and usage are not for web pages: ask without the Origin header."
        raise ApiError(403, message, code="origin_not_allowed", type="permission_error")
    if scope["method"] not in ("GET", "HEAD") and not exchange.key:
        message = "Only an admin's key may change keys here: make the first one with `ragway keys create NAME --admin`."
        raise forbidden(message)


def _credentials(fields: Mapping[str, Any]) -> Mapping[str, str | None]:
    """Name of each credential -> value, or None to remove it. Raises BadGrant."""
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


def _row(key: StoredKey) -> Key:
    return Key(**key_json(key))


def _with_secret(call: ApiCall, what: str, key: StoredKey, secret: str) -> CreatedKey:
    return CreatedKey(**key_json(_changed(call, what, key)), secret=secret)


def _changed(call: ApiCall, what: str, key: StoredKey) -> StoredKey:
    """Log who made the change, and return the changed key."""
    logs.write_line(f"{key.id} was {what} by {call.exchange.key}")
    return key
