"""Authentication: a valid key; while no key exists, programs on this machine.

With keys, the one credential is a key, as `Authorization: Bearer KEY` or as `x-api-key: KEY`; every failure is the same
401. The guard removes every header with a key, so that no key of the gateway can travel to an upstream.

Without keys, the gateway listens on loopback only (`ragway serve` refuses other addresses). Loopback alone does not
keep out a web page in a browser on the same machine. So `Host` must be loopback (no DNS rebinding), `Origin` must be
allowed, and a body must be JSON: a page cannot send JSON without a preflight (`must_be_no_page` checks the body after
the routing). With `auth.open`, something else protects the address, and `Host` is not checked.

A body without a type is taken from programs only. Go's `http.NewRequest` names no type. A page that sends a `Blob`
names no type either, but browsers add `Origin` to every POST (Firefox since version 70), and `Sec-Fetch-…` on loopback.
"""

import functools
import ipaddress
import re
from collections.abc import Awaitable, Collection

from proxy.access.keys import Keyring, secret_of
from proxy.asgi import Receive, Scope, Send
from proxy.caller import EVERYTHING, PREFIX
from proxy.dialects.errors import ApiError
from proxy.exchange import EXCHANGE, ModelCall, ModelRoute

_OWN_KEY = PREFIX.encode()
_UNGUARDED = ("/healthz", "/readyz")
_JSON = (b"content-type", b"application/json")  # as nearly all programs send the header
_UPLOADS = re.compile(r"/v1/(files|knowledge/collections/[^/]+/files)")  # forms, which a page may send, too
_API_DOCUMENTS = "/v1/actions/sets/"
_YAML = ("application/yaml", "application/x-yaml", "text/yaml", "application/openapi+yaml")


class Guard:
    """Admits callers with a valid key; without keys, requests that no web page can send."""

    def __init__(self, app: ModelRoute, *, keyring: Keyring, open: bool, origins: Collection[str]) -> None:
        self._app = app
        self._keyring = keyring
        self._open = open
        self._origins = frozenset(origins)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[ModelCall | None]:
        if scope["type"] == "http" and scope["path"] not in _UNGUARDED:
            if self._keyring.closed:
                self._admit(scope)
            else:
                self._check(scope)
                scope[EXCHANGE].rights = EVERYTHING
        return self._app(scope, receive, send)

    def _admit(self, scope: Scope) -> None:
        secret = secret_of(scope["headers"])
        key = self._keyring.key_of(secret) if secret else None
        if key is None:
            message = "No valid key: send one of this gateway's as Authorization: Bearer KEY, or as x-api-key: KEY."
            again = [(b"www-authenticate", b"Bearer")]
            former = self._keyring.former(secret)
            log_text = f"invalid_api_key: {former}" if former else ""
            raise ApiError(401, message, code="invalid_api_key", headers=again, log_text=log_text)
        key.admit(scope[EXCHANGE])
        scope["headers"] = [
            (name, value) for name, value in scope["headers"] if name != b"authorization" and _OWN_KEY not in value
        ]

    def _check(self, scope: Scope) -> None:
        host = origin = ""
        for name, value in scope["headers"]:
            if name == b"host":
                host = value.decode("latin-1")
            elif name == b"origin":
                origin = value.decode("latin-1")
        if not self._open and not is_loopback(_hostname(host)):
            message = f"The Host {host!r} is not this machine: without keys the gateway answers loopback names only."
            raise ApiError(403, message, code="host_not_allowed", type="permission_error")
        if not origin or origin in self._origins:
            return
        # Equal names mean a page of the gateway only where the name is this machine: other names may be rebound.
        if origin.partition("://")[2] != host or not is_loopback(_hostname(host)):
            raise origin_refused(origin)


def origin_refused(origin: str, more: str = "") -> ApiError:
    """The error for a page of a site that is not listed. more: the end of the message."""
    message = f"The web origin {origin!r} may not call this gateway: list it in server.cors_origins{more}."
    return ApiError(403, message, code="origin_not_allowed", type="permission_error")


def must_be_no_page(scope: Scope, *, any_type: bool = False) -> None:
    """Without keys, refuse a body that a web page can send without a preflight. Raises ApiError 403, 415.

    any_type: whether the route takes bodies of other types than JSON, which are then refused from pages alone. Every
    route that acts on a body calls this function: the expected type is known only after the routing.
    """
    if scope[EXCHANGE].key or scope["method"] not in ("POST", "PUT", "PATCH"):
        return
    if not any_type and not _UPLOADS.fullmatch(scope["path"]):
        must_be_json(scope)
    elif not any(name == b"origin" for name, _ in scope["headers"]):  # a present origin is allowed: `Guard` has checked
        _must_be_of_no_site(scope)


def _must_be_of_no_site(scope: Scope) -> None:
    """Refuse a form of another site's page: browsers send sec-fetch-site even where they hide the origin."""
    if any(name == b"sec-fetch-site" and value not in (b"same-origin", b"none") for name, value in scope["headers"]):
        message = "A page of another site may not upload files here."
        raise ApiError(403, message, code="origin_not_allowed", type="permission_error")


def must_be_json(scope: Scope) -> None:
    """Refuse a body that is not JSON: a web page can send other types, and no type, without a preflight.

    An OpenAPI document may be YAML, too, which a web page cannot send without a preflight.
    """
    if _JSON in scope["headers"]:
        return
    given = next((value for name, value in scope["headers"] if name == b"content-type"), None)
    if given is None and not _of_a_page(scope):
        return
    media = (given or b"").decode("latin-1").partition(";")[0].strip().lower()
    if media == "application/json":
        return
    others = _YAML if scope["path"].startswith(_API_DOCUMENTS) else ()
    if media not in others:
        types = " or ".join(("application/json", *others[:1]))
        message = f"Send the body with content-type: {types}, got {media or 'none'!r}."
        raise ApiError(415, message, code="unsupported_content_type")


def _of_a_page(scope: Scope) -> bool:
    """Whether a browser marks the request. Node's `fetch` sends sec-fetch-mode, and neither of the two others."""
    return any(name in (b"origin", b"sec-fetch-site", b"sec-fetch-dest") for name, _ in scope["headers"])


@functools.lru_cache(maxsize=1024)
def is_loopback(host: str) -> bool:
    """Whether a host name or address means this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _hostname(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()
