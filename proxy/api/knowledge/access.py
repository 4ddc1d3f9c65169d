"""Shared by all routes: the caller's rights, the search, and the answers to errors of the index."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Struct
from starlette.routing import Route

from config.sections import RetrievalSettings
from proxy import permitted
from proxy.api.knowledge.declarations import Closed, Declaration, Open, doc, handlers_of
from proxy.api.knowledge.parameters import fields_of, invalid, read_as
from proxy.asgi import Receive, Scope, Send, send_json
from proxy.body import end_grant, whole_body
from proxy.caller import Rights
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
_S = TypeVar("_S", bound=Struct)
_WRITE_DEADLINE_S = 60.0  # the first write after a start waits for the embedder of the child process


class Page(Open, frozen=True, tag_field="object", tag="list"):
    first_id: str | None
    last_id: str | None
    has_more: bool


class Deleted(Closed, frozen=True):
    id: str
    object: str
    deleted: Annotated[bool, doc("Always true")]


class ApiReply(Struct, frozen=True):
    """An answer with another status than 200."""

    status: int
    body: Any


class Access:
    """The documents, within the caller's rights."""

    def __init__(self, knowledge: Knowledge, settings: RetrievalSettings, *, max_body_bytes: int) -> None:
        self.knowledge, self.settings = knowledge, settings
        self._max_body_bytes = max_body_bytes

    def routes(self, *owners: object) -> list[Route]:
        """The routes of the declared handlers of all owners."""
        return [Route(path, _KnowledgeEndpoint(self, handlers)) for path, handlers in handlers_of(*owners).items()]

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
        if not self.settings.enabled:
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

    async def fields(self, scope: Scope, receive: Receive, kind: type[Struct]) -> Mapping[str, Any]:
        """The body's fields, all among those of `kind`, without a check of the values."""
        return await fields_of(scope, receive, kind, max_bytes=self._max_body_bytes)

    async def read(self, kind: type[_S], scope: Scope, receive: Receive) -> _S:
        """The body as a Struct. Raises ApiError 400."""
        return read_as(kind, await self.fields(scope, receive, kind))

    async def body(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body, which is not the API's own JSON. Raises ApiError 413, 415."""
        raw = await whole_body(scope, receive, max_bytes=self._max_body_bytes)
        end_grant(exchange_of(scope))  # the work may take minutes
        return raw

    def check(self, scope: Scope, methods: Sequence[str]) -> None:
        """Refuse methods without a handler."""
        if scope["method"] not in methods:
            raise method_not_allowed(scope["method"], scope["path"], methods)
        if not self.settings.enabled:
            raise no_index()

    @contextlib.asynccontextmanager
    async def asking(self, *, writing: bool = False, slow: bool = False) -> AsyncIterator[None]:
        """The handler's answer, or the error of the index as an answer. slow: without a deadline."""
        deadline_s = _WRITE_DEADLINE_S if writing else self.settings.deadline_s
        try:
            async with asyncio.timeout(None if slow else deadline_s):
                yield
        except permitted.NotThere as error:
            raise ApiError(404, f"{error}.", code="collection_not_found", param="collection") from error
        except UnknownCollection as error:  # the index's message names all collections
            message = "The collection has just been deleted."
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

    def __init__(self, access: Access, handlers: Mapping[str, tuple[Declaration, Callable[..., Any]]]) -> None:
        get = handlers.get("GET")
        self._handlers = handlers if get is None or get[0].streams else {**handlers, "HEAD": get}
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._access.check(scope, list(self._handlers))
        declared, handler = self._handlers[scope["method"]]
        if declared.streams:
            await handler(scope, receive, send)
            return
        writing = declared.writing or declared.method in ("PUT", "DELETE")
        async with self._access.asking(writing=writing, slow=declared.slow):
            found = await handler(scope, receive)
        reply = found if isinstance(found, ApiReply) else ApiReply(200, found)
        await send_json(send, reply.status, msgspec.json.encode(reply.body))


def rights_of(scope: Scope) -> Rights:
    return exchange_of(scope).rights


def must_write(name: str, rights: Rights) -> None:
    """Call only for readable content: the answer reveals whether the content exists."""
    if name not in rights.write:
        raise forbidden(f"This key may read {name!r} but not write it.", "collection")


def must_make(name: str, rights: Rights) -> None:
    """Call before looking the content up: the answer must not reveal whether the content exists."""
    if is_reserved(name):
        raise invalid(f"{name!r} is the gateway's own collection: choose another name", "name")
    if name not in rights.write or name not in rights.read:
        raise forbidden(
            f"This key may not make a collection {name!r}: it needs the rights to read and write it.", "name"
        )


def forbidden(message: str, param: str) -> ApiError:
    return ApiError(403, message, code="forbidden", type="permission_error", param=param)


def no_index() -> ApiError:
    return _unavailable("This gateway has no index (retrieval.enabled is false).")


def _unavailable(message: str) -> ApiError:
    again = [(b"retry-after", b"%d" % _RETRY_AFTER_S)]
    return ApiError(503, message, code="knowledge_unavailable", type="server_error", headers=again)


def ends(rows: Sequence[Any], *, more: bool = False, last: str | None = None) -> tuple[str | None, str | None, bool]:
    """The members of a `Page` beside the rows. more: whether further rows follow the last id."""
    first_id, last_id = (rows[0].id, rows[-1].id) if rows else (None, None)
    return first_id, last_id if last is None else last, more
