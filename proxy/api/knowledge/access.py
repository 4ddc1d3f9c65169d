"""Shared by all routes: caller's rights, search, and answers to index errors."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from msgspec import Struct

from config.sections import ActionsApi, RetrievalSettings
from proxy.api.knowledge.declarations import Closed, Open, doc
from proxy.api.knowledge.endpoint import ApiCall, Rules
from proxy.api.knowledge.forms import UploadOptions
from proxy.api.knowledge.parameters import checked, invalid
from proxy.asgi import Scope
from proxy.body import json_body
from proxy.caller import NotThere, PermittedSearch, Rights, readable_collections, search_permitted, unknown_collection
from proxy.dialects.errors import ApiError, forbidden, method_not_allowed
from proxy.dialects.json_body import by_size
from proxy.observe.receipts.receipt import Receipts
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
from retrieval.knowledge import Knowledge, Library, Writing
from retrieval.records.documents import CollectionInfo, is_reserved
from retrieval.records.search import Retrieved

if TYPE_CHECKING:
    from proxy.agent.actions import Actions
    from proxy.agent.writes.approving import Approvals

ACTIONS = "/v1/actions"
PENDING = ACTIONS + "/pending"
TABLES = "/v1/tables"
_RETRY_AFTER_S = 5  # a dead index process restarts within seconds
WRITE_DEADLINE_S = 60.0  # the first write after a start waits for its child's embedder
# Answers to errors whose message is for clients.
_ANSWERS: Mapping[type[RetrievalError], Callable[[str], ApiError]] = {
    NotThere: partial(ApiError, 404, code="collection_not_found", param="collection"),
    CollectionExists: partial(ApiError, 409, code="collection_exists", param="name"),
    UnknownDocument: partial(ApiError, 404, code="document_not_found", param="document"),
    UnknownFile: partial(ApiError, 404, code="file_not_found", param="file"),
    UnknownJob: partial(ApiError, 404, code="job_not_found", param="job"),
}


class Page(Open, frozen=True, tag_field="object", tag="list"):
    first_id: str | None
    last_id: str | None
    has_more: bool

    @classmethod
    def of(cls, rows: Sequence[Any], limit: int | None = None, *, after: str | None = None) -> Self:
        """A page with the first `limit` rows. after: the id to continue from, if no further row is known."""
        page = list(rows[:limit])
        first_id, last_id = (page[0].id, after or page[-1].id) if page else (None, after)
        return cls(first_id, last_id, len(rows) > len(page) or after is not None, data=page)  # type: ignore[call-arg]


class Deleted(Closed, frozen=True):
    id: str
    object: str
    deleted: Annotated[bool, doc("Always true")]


@dataclass(frozen=True, slots=True)
class KnowledgeCall(ApiCall):
    """A request for documents, within its caller's rights."""

    rules: "Access"

    @property
    def knowledge(self) -> Knowledge:
        return self.rules.knowledge

    @property
    def library(self) -> Library:
        return self.knowledge.library

    @property
    def writing(self) -> Writing:
        return self.knowledge.writing

    @property
    def actions(self) -> "Actions":
        assert self.rules.actions is not None, "the routes of action sets need an API"
        return self.rules.actions

    async def collection(self, name: str) -> CollectionInfo:
        """A readable collection. Raises UnknownCollection, even if it is only unreadable."""
        rows = await readable_collections(self.knowledge, self.rights)
        row = next((row for row in rows if row.name == name), None)
        if row is None:
            raise unknown_collection(name, [row.name for row in rows])
        return row

    async def search(self, asked: PermittedSearch) -> Retrieved:
        """Raises UnknownCollection, RetrievalError."""
        searched = await search_permitted(self.knowledge, asked)
        self.exchange.index_steps(searched.retrieved.timings_ms, searched.began)
        return searched.retrieved


@dataclass(eq=False, repr=False)
class Access(Rules):
    """The index, and settings for its routes."""

    call: ClassVar[type[ApiCall]] = KnowledgeCall

    knowledge: Knowledge
    settings: RetrievalSettings
    _: KW_ONLY
    max_body_bytes: int
    uploads: UploadOptions
    receipts: Receipts
    actions: "Actions | None"  # None: no API is configured
    sets: Mapping[str, ActionsApi]
    approvals: "Approvals | None" = None  # None: no API has calls that a person confirms

    def __post_init__(self) -> None:
        self.set_locks = {name: asyncio.Lock() for name in self.sets}  # so that a put knows whether its set existed

    def check(self, scope: Scope, methods: Sequence[str]) -> None:
        if scope["method"] not in methods:
            raise method_not_allowed(scope["method"], scope["path"], methods)
        if not self.settings.enabled:
            raise no_index()

    async def admit(self, call: ApiCall, *, writes: bool) -> None:
        assert isinstance(call, KnowledgeCall)
        row = await call.collection(call.path["name"])
        if writes:
            must_write(row.name, call.rights)

    async def check_readable(self, names: Sequence[str], rights: Rights) -> None:
        """Raises ApiError 404 if a collection is missing or not readable, 503. Without retrieval, no name is read."""
        if not self.settings.enabled:
            return
        async with self.asking():
            known = [row.name for row in await readable_collections(self.knowledge, rights)]
            if missing := [name for name in names if name not in known]:
                raise unknown_collection(missing[0], known)

    async def fields(self, call: ApiCall, kind: type[Struct]) -> Mapping[str, Any]:
        body = await json_body(call.scope, call.receive, max_bytes=self.max_body_bytes)
        return await by_size(body.raw, lambda: checked(body.fields, kind.__struct_fields__, ""))

    @contextlib.asynccontextmanager
    async def asking(self, *, writing: bool = False, slow: bool = False) -> AsyncIterator[None]:
        deadline_s = WRITE_DEADLINE_S if writing else self.settings.deadline_s
        with index_errors():
            async with asyncio.timeout(None if slow else deadline_s):
                yield


@contextlib.contextmanager
def index_errors() -> Iterator[None]:
    """Turn index errors into answers to a client."""
    try:
        yield
    except TimeoutError as error:
        raise _unavailable("The index took too long: try again later.") from error
    except IndexDown as error:
        raise _unavailable("The index is down, and is started again: try again later.") from error
    except Invalid as error:
        raise invalid(str(error), "name") from error
    except NotReadable as error:
        raise forbidden(f"{error}.", "collection") from error
    except RetrievalError as error:
        if type(error) in _ANSWERS:
            raise _ANSWERS[type(error)](f"{error}.") from error
        if isinstance(error, UnknownCollection):  # the index's message would name all collections
            message = "The collection has just been deleted."
            raise ApiError(404, message, code="collection_not_found", param="collection") from error
        raise _unavailable(f"{error}.") from error


def must_write(name: str, rights: Rights) -> None:
    """Call only for readable content: the answer reveals whether it exists."""
    if name not in rights.write:
        raise forbidden(f"This key may read {name!r} but not write it.", "collection")


def must_make(name: str, rights: Rights) -> None:
    """Call before looking content up: the answer must not reveal whether it exists."""
    if is_reserved(name):
        raise invalid(f"{name!r} is the gateway's own collection: choose another name", "name")
    if name not in rights.write or name not in rights.read:
        raise forbidden(
            f"This key may not make a collection {name!r}: it needs the rights to read and write it.", "name"
        )


def no_index() -> ApiError:
    return _unavailable("This gateway has no index (retrieval.enabled is false).")


def _unavailable(message: str) -> ApiError:
    again = [(b"retry-after", b"%d" % _RETRY_AFTER_S)]
    return ApiError(503, message, code="knowledge_unavailable", type="server_error", headers=again)
