"""ragway tools: what a chat would have, and why."""

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import click
import orjson

from cli.common import as_text, echo, echo_json, errors_as, knowledge, must_exist, opened_accounts, with_settings
from cli.options import Commands
from config.sections import Settings
from config.settings import SettingsError
from retrieval.errors import RetrievalError

if TYPE_CHECKING:
    from proxy.access.keys import Key
    from proxy.asgi import Message, Scope
    from proxy.caller import Rights
    from proxy.exchange import Exchange, FoundOutcome

_OUTCOMES: "Mapping[FoundOutcome, str]" = {
    "offered": "found for the question",
    "surplus": "found, but enough better ones are",
    "irrelevant": "found, but not surely enough for a model without tool calls",
    "could_change": "found, but it could change something",
    "other_server": "found, but at a server that is not called",
    "not_allowed": "found, but left out by the settings",
}


@click.group("tools", cls=Commands)
def command() -> None:
    """Show what models may call in a chat."""


@dataclass(frozen=True, slots=True)
class _Row:
    """Something that a chat has, or has not."""

    kind: str  # documents, operation, tables, gateway, tool
    name: str
    offered: bool | None  # None: the question decides
    why: str


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the rows are made of. exchange: None: no question."""

    settings: Settings
    rights: "Rights"
    exchange: "Exchange | None"


@command.command("list")
@click.argument("question", required=False)
@click.option("--model", help="Model as a chat names it, also with a prefix, as rage/SET/MODEL (default: any).")
@click.option("--key", help="Id of a key, whose rights count (default: all rights).")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
@with_settings
async def list_tools(
    question: str | None, model: str | None, key: str | None, as_json: bool, settings: Settings
) -> int:
    """List what a chat with QUESTION would have, and why: documents, operations, tables and tools. No model is called.

    Without QUESTION, what the settings have.
    """
    if question is not None and not question.strip():
        raise click.UsageError("the question is empty")
    must_exist(settings)
    from proxy.caller import EVERYTHING

    admitted = None
    if key is not None:
        with opened_accounts(settings) as accounts:
            admitted = accounts.key(key)
    rights = EVERYTHING if admitted is None else admitted.rights
    if question is None:
        rows = _rows(_Seen(settings, rights, None))
    else:
        async with _prepared(settings, as_text(question), model or _any_model(settings), admitted) as exchange:
            rows = _rows(_Seen(settings, rights, exchange))
    if as_json:
        echo_json([asdict(one) for one in rows])
        return 0
    width = max((len(one.name) for one in rows), default=0)
    for one in rows:
        word = {True: "yes", False: "no", None: "asks"}[one.offered]
        echo(f"{word:<4}  {one.kind:<9}  {one.name:<{width}}  {one.why}")
    return 0


def _any_model(settings: Settings) -> str:
    return next(iter(settings.models), "any").replace("*", "any")


@asynccontextmanager
async def _prepared(settings: Settings, question: str, model: str, key: "Key | None") -> "AsyncIterator[Exchange]":
    """The exchange of a chat whose model is about to be called. Raises SettingsError, RetrievalError."""
    from cli.assembly.gateway import gateway
    from proxy.caller import EVERYTHING
    from proxy.dialects.chat import CHAT
    from proxy.dialects.errors import ApiError
    from proxy.exchange import EXCHANGE, Exchange

    body = orjson.dumps({"model": model, "messages": [{"role": "user", "content": question}]})
    exchange = Exchange(method="POST", path=CHAT.path, rights=EVERYTHING)
    if key is not None:
        key.admit(exchange)
    scope: Scope = {"type": "http", "method": "POST", "path": CHAT.path, "headers": [], "query_string": b""}
    scope[EXCHANGE] = exchange

    async def receive() -> "Message":
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(_: "Message") -> None:
        raise AssertionError("no model is called, so nothing is answered")

    async with knowledge(settings) as documents:
        made = gateway(settings, documents, ready=str, environ=os.environ)
        try:
            if made.actions is not None:
                made.actions.hidden_rounds = None  # a chat without a conversation
            chat = replace(made.chat, keep_receipt=None, histories=None, compared=None)
            with errors_as(click.ClickException, ApiError):
                await chat(scope, receive, send)
            yield exchange
        finally:
            if made.actions is not None:
                await made.actions.close()
            await made.shadow.close()
            await made.ways.close()


def _rows(seen: _Seen) -> list[_Row]:
    with errors_as(click.ClickException, SettingsError, RetrievalError):
        return [row for rows in _KINDS for row in rows(seen)]


def _documents(seen: _Seen) -> Iterator[_Row]:
    settings, exchange = seen.settings, seen.exchange
    if exchange is None:
        off = "" if settings.retrieval.enabled else "retrieval.enabled is false"
        for name in settings.retrieval.collections:
            refused = off or ("" if name in seen.rights.read else "the key may not read it")
            yield _Row("documents", name, False if refused else None, refused or "searched for each question")
        return
    names = ", ".join(exchange.searched or settings.retrieval.collections)
    sources = ", ".join(dict.fromkeys(exchange.sources))
    yield _Row("documents", names, bool(sources), sources or exchange.rag_reason or exchange.rag_status)


def _operations(seen: _Seen) -> Iterator[_Row]:
    settings, exchange = seen.settings, seen.exchange
    if exchange is None:
        for name, row in settings.actions.items():
            if not seen.rights.may_use(name):
                yield _Row("operation", f"{name}/*", False, "the key may not read the set")
            elif row.offer:
                yield _Row("operation", f"{name}/*", None, "where the search finds an operation")
            else:
                yield _Row("operation", f"{name}/*", None, f"in chats that name the set, as rage/{name}/MODEL")
        return
    if (trace := exchange.action_trace) is None:
        if settings.actions:
            yield _Row("operation", "*", False, "the chat names no set, and no set has offer: true")
        return
    offered = list(trace.operations)
    for one in (found for search in trace.searches for found in search.found):
        yield _Row("operation", one.operation, one.operation in offered, _OUTCOMES[one.outcome])
    found = {one.operation for search in trace.searches for one in search.found}
    for label in offered:
        if label not in found:
            yield _Row("operation", label, True, "in every chat with the set (always)")
    for name in trace.not_ready:
        yield _Row("operation", f"{name}/*", False, "no document of the set is read")
    if [*trace.sets] != [*trace.not_ready] and not offered and not found:
        nothing = "no operation is found" if trace.offer == "offered" else trace.offer
        yield _Row("operation", ", ".join(trace.sets), False, nothing)


def _tables(seen: _Seen) -> Iterator[_Row]:
    settings, exchange = seen.settings, seen.exchange
    search = exchange.action_trace.table_search if exchange is not None and exchange.action_trace is not None else None
    for name, row in settings.tables.items():
        if not seen.rights.may_query(name):
            yield _Row("tables", name, False, "the key may not query it")
        elif exchange is None:
            when = (
                "where a table may answer the question" if row.offer else f"in chats that name it, as rage/{name}/MODEL"
            )
            yield _Row("tables", name, None, when)
        elif search is None or name not in search.databases:
            left_out = "not read yet: ragway tables add" if row.offer else "the chat does not name it"
            yield _Row("tables", name, False, left_out)
        else:
            found = ", ".join(one.partition("/")[2] for one in search.tables if one.startswith(f"{name}/"))
            likely = "" if search.relevance is None else f" (relevance {search.relevance:.2g})"
            yield _Row("tables", name, search.offered, (found or "no table is found") + likely)


def _tools(seen: _Seen) -> Iterator[_Row]:
    from cli.assembly.tools import chat_tools, package_of

    trace = seen.exchange.action_trace if seen.exchange is not None else None
    tools, names = chat_tools(seen.settings.tools), seen.settings.tools
    own = {tool.name for tool in tools}
    offered = [] if trace is None else [one.origin[1] for one in trace.tools.values() if not one.origin[0]]
    for name in offered:
        if name not in own:
            yield _Row("gateway", name, True, "with the operations of the chat")
    for tool, (name, offer) in zip(tools, names.items(), strict=True):
        package = f" (of {package})" if (package := package_of(name)) else ""
        if seen.exchange is None:
            when = "in every chat" if offer == "always" else "where the question seems to need it"
            yield _Row("tool", tool.name, None if offer == "auto" else True, when + package)
        elif tool.name in offered:
            why = "the settings say always" if offer == "always" else "the question seems to need it"
            yield _Row("tool", tool.name, True, why + package)
        else:
            refused = trace.offer if trace is not None and trace.offer not in ("offered", "nothing found") else ""
            off = "retrieval is off" if seen.exchange.rag_status == "off" else ""
            yield _Row("tool", tool.name, False, (off or refused or "the question does not seem to need it") + package)


_KINDS: Sequence[Callable[[_Seen], Iterator[_Row]]] = (_documents, _operations, _tables, _tools)
