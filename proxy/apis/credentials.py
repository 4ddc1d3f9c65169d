"""The credentials of an API: added to a request last, so that no other part of the gateway sees a secret."""

import asyncio
import contextlib
import hashlib
import re
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Literal
from urllib.parse import quote_plus, unquote_plus

import httpx
import orjson

from proxy.apis.openapi.operation import Parameter, name_parts
from proxy.apis.response_body import read_within

Where = Literal["header", "query", "cookie"]

_EARLY_S = 30.0  # a token is renewed before the end
_MOST_TOKEN_BYTES = 1 << 16  # of the token endpoint's response, and of a response that refuses a token
_MOST_CHALLENGE_CHARS = 4_000
_HASHES = {"md5": "md5", "sha-256": "sha256", "sha-512-256": "sha512_256"}  # RFC 7616 §6.1
# [scheme] name=value, where the value may stand in quotes
_CHALLENGE_PART = re.compile(r'(?<![\w-])(?:([\w-]+)\s+)?([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')
_PROOF = re.compile(r'\b(?:response|cnonce)="([^"]+)"')


class NoToken(Exception):
    """The token endpoint gave no token; the text has no secret."""


class ApiKey(httpx.Auth):
    """A key in a header, the query or a cookie; also a token, as `Bearer TOKEN` in the header `authorization`."""

    def __init__(self, key: str, where: Where, name: str) -> None:
        self._key, self.where, self.name = key, where, name

    def is_written_as(self, parameter: Parameter) -> bool:
        """Whether a parameter has the place and the name of the key."""
        return parameter.place == self.where and name_parts(parameter.name) == name_parts(self.name)

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if self.where == "header":
            for name in {one for one in request.headers if name_parts(one) == name_parts(self.name)}:
                del request.headers[name]
            request.headers[self.name] = self._key
        elif self.where == "query":
            pair = str(httpx.QueryParams({self.name: self._key}))
            query = request.url.query.decode("ascii")  # as written by style: httpx would encode the values again
            request.url = request.url.copy_with(query="&".join([*self._others(query, "&"), pair]).encode("ascii"))
        else:
            cookies = self._others(request.headers.get("cookie", ""), "; ")
            request.headers["cookie"] = "; ".join([*cookies, f"{self.name}={self._key}"])
        yield request

    def _others(self, written: str, sign: str) -> list[str]:
        """The pairs without the key's name, which a member of an object or a redirect may have."""
        own = name_parts(self.name)
        return [one for one in written.split(sign) if one and name_parts(unquote_plus(one.partition("=")[0])) != own]


class Digest(httpx.Auth):
    """HTTP Digest (RFC 7616) with qop=auth. A nonce is used again, with the next count.

    httpx.DigestAuth ignores `stale`, fails on an algorithm that httpx does not know, and starts the count again when
    two requests get the same nonce.
    """

    def __init__(self, user: str, password: str) -> None:
        self._user, self._password = user, password
        self._challenge: dict[str, str] = {}
        self._count = 0  # of requests with the nonce
        self._session_nonce = ""  # of this side, for the challenge

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        for attempt in (1, 2, 3):
            answered = bool(self._challenge)
            if answered:
                request.headers["authorization"] = self._answer(request)
            response = yield request
            challenge = self._learnt(response)
            if not challenge:
                return
            if answered and attempt > 1 and challenge.get("stale", "").lower() != "true":
                return  # the API refuses the user or the password

    def probed_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """The request once, after a GET without its body that brings the newest challenge.

        If the API wants no credentials for the GET, the request itself brings the first challenge.
        """
        self._learnt((yield httpx.Request("GET", request.url, headers={"user-agent": request.headers["user-agent"]})))
        if not self._challenge:
            yield from self.auth_flow(request)
            return
        request.headers["authorization"] = self._answer(request)
        yield request

    def _learnt(self, response: httpx.Response) -> dict[str, str]:
        """The challenge of a response, for the next answer; none: {}."""
        challenge = _digest_challenge(response) if response.status_code == 401 else {}
        if challenge and challenge["nonce"] != self._challenge.get("nonce"):
            self._challenge, self._count, self._session_nonce = challenge, 0, secrets.token_hex(16)
        return challenge

    def _answer(self, request: httpx.Request) -> str:
        row = self._challenge
        algorithm = row.get("algorithm", "MD5")
        bare = algorithm.lower().removesuffix("-sess")

        def hashed(*parts: str) -> str:
            return hashlib.new(_HASHES[bare], ":".join(parts).encode(), usedforsecurity=False).hexdigest()

        self._count += 1
        realm, nonce, count, own_nonce = row["realm"], row["nonce"], f"{self._count:08x}", secrets.token_hex(16)
        user = hashed(self._user, realm, self._password)
        if bare != algorithm.lower():  # a session: some servers read the first cnonce, and some the newest
            own_nonce = self._session_nonce
            user = hashed(user, nonce, own_nonce)
        uri = request.url.raw_path.decode("ascii")
        middle = (nonce, count, own_nonce, "auth") if "qop" in row else (nonce,)  # without qop: RFC 2069
        hides_user = row.get("userhash", "").lower() == "true"
        quoted = {
            "username": hashed(self._user, realm) if hides_user else self._user,
            "realm": realm,
            "nonce": nonce,
            "uri": uri,
            "response": hashed(user, *middle, hashed(request.method, uri)),
        }
        bare_values = {"algorithm": algorithm} if "algorithm" in row else {}
        if "qop" in row:
            quoted["cnonce"] = own_nonce
            bare_values |= {"qop": "auth", "nc": count}
        if "opaque" in row:
            quoted["opaque"] = row["opaque"]
        if hides_user:
            bare_values["userhash"] = "true"
        values = [f'{name}="{_escaped(value)}"' for name, value in quoted.items()]
        return "Digest " + ", ".join([*values, *(f"{name}={value}" for name, value in bare_values.items())])


class ClientCredentials(httpx.Auth):
    """OAuth 2.0 client credentials (RFC 6749 §4.4): a cached token, fetched by one request at a time.

    A 401 has the token fetched again, once.
    """

    def __init__(
        self,
        token_url: str,
        client_id: str,
        client_secret: str,
        scope: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._token_url, self._scope, self._clock = token_url, scope, clock
        self._client = quote_plus(client_id), quote_plus(client_secret)  # RFC 6749 §2.3.1
        self.token, self._until_s = "", 0.0
        self._fetching = asyncio.Lock()
        self._failures, self._failure = 0, ""  # of the token endpoint: the number, and the last

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Raises NoToken."""
        for attempt in (1, 2):
            failures = self._failures
            async with self._fetching:
                if not self.token or self._clock() > self._until_s:
                    if self._failures != failures:  # another request asked meanwhile, in vain
                        raise NoToken(self._failure)
                    answer = yield self._token_request()
                    self._keep(answer.status_code, (await read_within(answer, _MOST_TOKEN_BYTES))[0])
            sent = self.token
            request.headers["authorization"] = f"Bearer {sent}"
            response = yield request
            if response.status_code != 401 or attempt == 2:
                return
            if self.token == sent:  # no other request has fetched a new token meanwhile
                self.token = ""
            # The request for the token needs a connection, which all waiting requests would keep.
            await read_within(response, _MOST_TOKEN_BYTES)
            await response.aclose()

    def _token_request(self) -> httpx.Request:
        fields = {"grant_type": "client_credentials"} | ({"scope": self._scope} if self._scope else {})
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        asked = httpx.Request("POST", self._token_url, data=fields, headers=headers)
        return next(httpx.BasicAuth(*self._client).auth_flow(asked))

    def _keep(self, status: int, content: bytes) -> None:
        try:
            row = orjson.loads(content) if 200 <= status < 300 else {}
            token, seconds = row["access_token"], float(row.get("expires_in") or 300)
            if not isinstance(token, str) or not token:
                raise TypeError("the token is not a text")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._failures += 1
            self._failure = f"the token endpoint answered with status {status} and no token"
            raise NoToken(self._failure) from error
        self.token, self._until_s = token, self._clock() + max(seconds - _EARLY_S, seconds / 2)


async def sent_once(auth: httpx.Auth | None, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
    """The requests that send a request once, whatever the API answers: before it, one for a challenge or a token."""
    if isinstance(auth, Digest) and request.method not in ("GET", "HEAD"):
        for_challenge = auth.probed_flow(request)
        with contextlib.suppress(StopIteration):
            step = next(for_challenge)
            while True:
                step = for_challenge.send((yield step))
        return
    flow = (auth or httpx.Auth()).async_auth_flow(request)
    async with contextlib.aclosing(flow):
        step = await anext(flow)
        while isinstance(auth, ClientCredentials) and step is not request:
            step = await flow.asend((yield step))
        response = yield step
        if isinstance(auth, ClientCredentials) and response.status_code == 401:
            auth.token = ""  # the next request fetches another
        elif isinstance(auth, Digest):
            with contextlib.suppress(StopAsyncIteration):
                while True:
                    response = yield await flow.asend(response)


def sent_credentials(request: httpx.Request) -> list[str]:
    """What the Authorization header of a request has after the scheme, and the digest's proofs in the header."""
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    return [value, *(_PROOF.findall(value) if scheme == "Digest" else ())]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _digest_challenge(response: httpx.Response) -> dict[str, str]:
    """The parts of the first challenge that Digest can answer; none: {}."""
    challenges: list[dict[str, str]] = []
    for scheme, name, quoted, bare in _CHALLENGE_PART.findall(
        ", ".join(response.headers.get_list("www-authenticate"))[:_MOST_CHALLENGE_CHARS]
    ):
        if scheme:
            challenges.append({"": scheme.lower()})
        if challenges:
            challenges[-1][name.lower()] = re.sub(r"\\(.)", r"\1", quoted) if quoted else bare
    return next(filter(_is_supported, challenges), {})


def _is_supported(row: dict[str, str]) -> bool:
    algorithm = row.get("algorithm", "MD5").lower().removesuffix("-sess")
    qops = [one.strip().lower() for one in row.get("qop", "auth").split(",")]
    return row[""] == "digest" and {"realm", "nonce"} <= row.keys() and algorithm in _HASHES and "auth" in qops
