"""The credentials of an API: added to a request last, so that no other part of the gateway sees a secret."""

import asyncio
import time
from collections.abc import AsyncGenerator, Generator
from typing import Literal

import httpx
import orjson

Kind = Literal["none", "api_key", "basic", "bearer", "digest", "oauth2"]
Where = Literal["header", "query", "cookie"]

_EARLY_S = 30.0  # a token is renewed before the end


class NoToken(Exception):
    """The token endpoint gave no token; the text has no secret."""


class ApiKey(httpx.Auth):
    """A key in a header, the query or a cookie."""

    def __init__(self, key: str, where: Where, name: str) -> None:
        self._key, self._where, self._name = key, where, name

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if self._where == "header":
            request.headers[self._name] = self._key
        elif self._where == "query":
            pair = str(httpx.QueryParams({self._name: self._key}))
            query = request.url.query.decode("ascii")  # as written by style: httpx would encode the values again
            request.url = request.url.copy_with(query=f"{query}&{pair}".lstrip("&").encode("ascii"))
        else:
            cookies = [request.headers["cookie"]] if "cookie" in request.headers else []
            request.headers["cookie"] = "; ".join([*cookies, f"{self._name}={self._key}"])
        yield request


class Bearer(httpx.Auth):
    """A token in the Authorization header."""

    def __init__(self, token: str) -> None:
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["authorization"] = f"Bearer {self._token}"
        yield request


class ClientCredentials(httpx.Auth):
    """OAuth 2.0 client credentials (RFC 6749 §4.4): a cached token, fetched by one request at a time.

    A 401 has the token fetched again, once.
    """

    requires_response_body = False

    def __init__(self, token_url: str, client_id: str, client_secret: str, scope: str = "") -> None:
        self._token_url, self._client, self._scope = token_url, (client_id, client_secret), scope
        self._token, self._until_s = "", 0.0
        self._fetching = asyncio.Lock()

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Raises NoToken."""
        for attempt in (1, 2):
            async with self._fetching:
                if not self._token or time.monotonic() > self._until_s:
                    answer = yield self._token_request()
                    await answer.aread()
                    self._keep(answer)
            sent = self._token
            request.headers["authorization"] = f"Bearer {sent}"
            response = yield request
            if response.status_code != 401 or attempt == 2:
                return
            if self._token == sent:  # no other request has fetched a new token meanwhile
                self._token = ""

    def _token_request(self) -> httpx.Request:
        fields = {"grant_type": "client_credentials"} | ({"scope": self._scope} if self._scope else {})
        asked = httpx.Request("POST", self._token_url, data=fields, headers={"accept": "application/json"})
        return next(httpx.BasicAuth(*self._client).auth_flow(asked))

    def _keep(self, answer: httpx.Response) -> None:
        try:
            row = orjson.loads(answer.content) if answer.status_code == 200 else {}
            self._token, seconds = row["access_token"], float(row.get("expires_in", 300))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise NoToken(f"the token endpoint answered with status {answer.status_code} and no token") from error
        self._until_s = time.monotonic() + max(seconds - _EARLY_S, seconds / 2)
