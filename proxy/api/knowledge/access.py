"""Shared by all routes: the caller's rights, the search, and the answers to errors of the index."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.routing import Route

from proxy.access import permitted
from proxy.access.rights import Rights
from proxy.api.knowledge.parameters import fields_of, invalid
from proxy.asgi import Receive, Scope, Send, send_json
from proxy.body import whole_body
from proxy.dialects.errors import ApiError, method_not_allowed
from proxy.exchange import exchange_of
from retrieval.errors import (
    CollectionExists,
    IndexDown,
    Invalid,
    NotReadable,
    RetrievalError,
    UnknownCollection,
    UnknownDocument,
    UnknownFile,
    UnknownJob,
)
from retrieval.knowledge import DEFAULT_HIT_OPTIONS, HitOptions, Knowledge
from retrieval.records.documents import CollectionInfo, is_reserved
from retrieval.records.search import Retrieved, Turn

ACTIONS = "/v1/actions"
_RETRY_AFTER_S = 5  # a dead index process restarts within seconds
_WRITE_DEADLINE_S = 60.0  # the first write after a start waits for the embedder of the child process


@dataclass(frozen=True, slots=True)
class ApiReply:
    """An answer with another status than 200."""

    status: int
    body: Mapping[str, Any]


Answer = Callable[[Scope, Receive], Awaitable[Mapping[str, Any] | ApiReply]]


class Access:
    """The documents, within the caller's rights."""

    def __init__(self, knowledge: Knowledge, *, enabled: bool, deadline_s: float, max_body_bytes: int) -> None:
        """enabled: whether there is retrieval. deadline_s: of each index call."""
        self.knowledge = knowledge
        self._enabled = enabled
        self._deadline_s = deadline_s
        self._max_body_bytes = max_body_bytes

    def route(self, path: str, *, writing: Sequence[str] = (), slow: Sequence[str] = (), **answers: Answer) -> Route:
        """A path, with the handler of each method.

        writing: methods that write, apart from PUT and DELETE. slow: methods with deadlines of their own.
        """
        return Route(path, _KnowledgeEndpoint(self, answers, ("PUT", "DELETE", *writing), slow))

    async def collection(self, scope: Scope) -> CollectionInfo:
        """The collection named in the path. Raises UnknownCollection, also for an unreadable collection."""
        name = scope["path_params"]["name"]
        rows = await permitted.readable(self.knowledge, rights_of(scope))
        row = next((row for row in rows if row.name == name), None)
        if row is None:
            raise permitted.unknown(name, [row.name for row in rows])
        return row

    async def check_readable(self, names: Sequence[str], rights: Rights) -> None:
        """Raises ApiError 404 where a collection is missing or not readable, 503. Without retrieval no name is read."""
        if not self._enabled:
            return
        async with self.asking():
            known = [row.name for row in await permitted.readable(self.knowledge, rights)]
            if missing := [name for name in names if name not in known]:
                raise permitted.unknown(missing[0], known)

    async def search(
        self,
        query: str,
        collections: Sequence[str],
        scope: Scope,
        *,
        explicit: bool,
        k: int,
        filter: str,
        hit_options: HitOptions = DEFAULT_HIT_OPTIONS,
    ) -> Retrieved:
        """explicit: whether the caller named the collections. filter: as in `View`.

        Raises UnknownCollection, RetrievalError.
        """
        asked = permitted.PermittedSearch(
            [Turn("user", query)], collections, rights_of(scope), explicit, k=k, filter=filter, hit_options=hit_options
        )
        searched = await permitted.search(self.knowledge, asked)
        exchange_of(scope).index_steps(searched.retrieved.timings_ms, searched.began)
        return searched.retrieved

    async def fields(self, scope: Scope, receive: Receive, *names: str) -> Mapping[str, Any]:
        """The body's fields, all among `names`."""
        return await fields_of(scope, receive, *names, max_bytes=self._max_body_bytes)

    async def body(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body, which is no JSON of the API's own. Raises ApiError 413, 415."""
        raw = await whole_body(scope, receive, max_bytes=self._max_body_bytes)
        exchange_of(scope).end_grant()  # the work may take minutes
        return raw

    def check(self, scope: Scope, methods: Sequence[str]) -> None:
        """Refuse methods without a handler."""
        if scope["method"] not in methods:
            raise method_not_allowed(scope["method"], scope["path"], methods)
        if not self._enabled:
            raise no_index()

    @contextlib.asynccontextmanager
    async def asking(self, *, writing: bool = False, slow: bool = False) -> AsyncIterator[None]:
        """The handler's answer, or the error of the index as an answer. slow: without a deadline."""
        deadline_s = _WRITE_DEADLINE_S if writing else self._deadline_s
        try:
            async with asyncio.timeout(None if slow else deadline_s):
                yield
        except permitted.NotThere as error:
            raise ApiError(404, f"{error}.", code="collection_not_found", param="collection") from error
        except UnknownCollection as error:  # the index's message names all collections
            message = "The collection was deleted meanwhile."
            raise ApiError(404, message, code="collection_not_found", param="collection") from error
        except CollectionExists as error:
            raise ApiError(409, f"{error}.", code="collection_exists", param="name") from error
        except Invalid as error:
            raise invalid(str(error), "name") from error
        except NotReadable as error:
            raise forbidden(f"{error}.", "collection") from error
        except UnknownDocument as error:
            raise ApiError(404, f"{error}.", code="document_not_found", param="document") from error
        except UnknownFile as error:
            raise ApiError(404, f"{error}.", code="file_not_found", param="file") from error
        except UnknownJob as error:
            raise ApiError(404, f"{error}.", code="job_not_found", param="job") from error
        except TimeoutError as error:
            raise _unavailable("The index took too long: try again later.") from error
        except IndexDown as error:
            raise _unavailable("The index is down, and is started again: try again later.") from error
        except RetrievalError as error:
            raise _unavailable(f"{error}.") from error


class _KnowledgeEndpoint:
    """A route: the handler of each method, and the answer to other methods."""

    def __init__(
        self, access: Access, answers: Mapping[str, Answer], writing: Sequence[str], slow: Sequence[str]
    ) -> None:
        self._answers = {**answers, "HEAD": answers["GET"]} if "GET" in answers else answers
        self._access = access
        self._writing = writing
        self._slow = slow

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._access.check(scope, list(self._answers))
        method = scope["method"]
        async with self._access.asking(writing=method in self._writing, slow=method in self._slow):
            found = await self._answers[scope["method"]](scope, receive)
        reply = found if isinstance(found, ApiReply) else ApiReply(200, found)
        await send_json(send, reply.status, orjson.dumps(reply.body))


def rights_of(scope: Scope) -> Rights:
    return exchange_of(scope).rights


def must_write(name: str, rights: Rights) -> None:
    """Call only for readable content: the answer reveals whether the content exists."""
    if name not in rights.write:
        raise forbidden(f"This key may read {name!r}, and not write it.", "collection")


def must_make(name: str, rights: Rights) -> None:
    """Call before looking the content up: the answer must not reveal whether the content exists."""
    if is_reserved(name):
        raise invalid(f"{name!r} is the gateway's own collection: choose another name", "name")
    if name not in rights.write or name not in rights.read:
        raise forbidden(
            f"This key may not make a collection {name!r}: that takes the rights to read and to write it.", "name"
        )


def forbidden(message: str, param: str) -> ApiError:
    return ApiError(403, message, code="forbidden", type="permission_error", param=param)


def no_index() -> ApiError:
    return _unavailable("This gateway has no index (retrieval.enabled is false).")


def _unavailable(message: str) -> ApiError:
    again = [(b"retry-after", b"%d" % _RETRY_AFTER_S)]
    return ApiError(503, message, code="knowledge_unavailable", type="server_error", headers=again)


def listed(rows: Sequence[Mapping[str, Any]], *, more: bool = False) -> dict[str, Any]:
    """A page of rows in the format of OpenAI's lists; more: whether further rows follow the last id."""
    ids = [row["id"] for row in rows]
    first, last = (ids[0], ids[-1]) if ids else (None, None)
    return {"object": "list", "data": rows, "first_id": first, "last_id": last, "has_more": more}
