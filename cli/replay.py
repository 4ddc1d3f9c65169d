"""ragway replay: passages that a chat with a receipt would get today, and how they differ."""

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import click
import orjson

from cli.common import arms_text, echo, echo_json, knowledge, minute_text, must_exist, with_settings
from config.sections import Settings
from proxy.access.usage import OPERATOR
from proxy.augment.rewrite import has_history
from proxy.caller import Names, PermittedSearch, Rights, search_permitted
from proxy.exchange import Exchange
from proxy.observe.receipts.replay import Outcome, differences, outcome, today
from retrieval.errors import RetrievalError
from retrieval.knowledge import Knowledge
from retrieval.records.search import Turn

_SIGNS = {"added": "+", "removed": "-", "changed": "~", "moved": ">"}


@click.command("replay")
@click.argument("id")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object: the receipt, what is injected today, the changes."
)
@with_settings
async def command(id: str, as_json: bool, settings: Settings) -> int:
    """Search again for a chat with a receipt, and print the differences to the passages of the receipt.

    ID is the x-rag-id of the chat's reply. The command searches for the same conversation, with the groups of the
    chat's key, in today's documents and with today's settings; the model is not called. The exit code is 0 with or
    without differences.
    """
    must_exist(settings)
    kept = _receipt(settings, id)
    async with knowledge(settings) as documents:
        was = outcome(kept)
        # Without a search for passages, as with `x-rag: off`, a chat's receipt is about operations.
        now = await _today(settings, documents, kept) if kept["_asked"] or kept.get("actions") is None else was
        ids = list({one["document"] for one in was["passages"]})
        changes = differences(was, now, await documents.library.locations(ids, None))
    if as_json:
        told = {"id": id, "created_at": kept["created_at"], "was": was, "now": now, "changes": changes}
        echo_json({**told, "actions": kept.get("actions")})
    else:
        _print(kept, was, now, changes)
    return 0


def _receipt(settings: Settings, id: str) -> Mapping[str, Any]:
    """The stored receipt. Raises RetrievalError."""
    from cli.assembly.stores import record_store

    with closing(record_store(settings)) as opened:
        content = opened.read(id)
    if content is None:
        raise RetrievalError(
            f"there is no receipt {id!r}: it is the x-rag-id of a reply to a question that was searched for, not older "
            f"than receipts.keep_hours ({settings.receipts.keep_hours:g})"
        )
    found: dict[str, Any] = orjson.loads(content)
    return found


async def _today(settings: Settings, documents: Knowledge, kept: Mapping[str, Any]) -> Outcome:
    """What passages the chat would get now. Raises RetrievalError, SettingsError."""
    from cli.assembly.chats import rewriter, template, versions
    from cli.assembly.models import model_calls

    known = {row.name for row in await documents.library.collections(None)}
    names = [name for name in kept["_asked"] if name in known]
    if not names and not kept["collections"]:  # there was none to search, and there is none today
        return outcome(kept)
    if not names:
        raise RetrievalError(f"all searched collections were deleted: {', '.join(kept['_asked'])}")
    groups = kept["_groups"]
    asked = PermittedSearch(
        [Turn(**turn) for turn in kept["turns"]],
        names,
        Rights(read=Names(names), groups=None if groups is None else tuple(groups)),
        explicit=True,
        k=kept["k"],
        budget_tokens=_budget_tokens(settings, kept),
        traced=True,
    )
    async with model_calls(settings) as (models, routes):
        asking = rewriter(settings, models, routes)
        if asking is None or not has_history(asked.turns):
            searched = await search_permitted(documents, asked)
        else:
            searched = await asking.search(documents, asked, Exchange(key=OPERATOR), [])
    return today(searched.retrieved, names, template(settings), versions(settings))


def _budget_tokens(settings: Settings, kept: Mapping[str, Any]) -> int:
    """Today's budget, or less if the model's window left less room at the time."""
    setting: int = settings.inject.budget_tokens
    given: int = kept["budget_tokens"]
    return setting if given == kept["versions"]["settings"]["inject.budget_tokens"] else min(setting, given)


def _print(kept: Mapping[str, Any], was: Outcome, now: Outcome, changes: Mapping[str, Any]) -> None:
    echo(f"{kept['id']}, {minute_text(kept['created_at'])}: {_counted(was)}")
    echo(f"today: {_counted(now)}")
    echo("the injected text is the same" if changes["injected"] is None else "the injected text is different")
    for part in ("query", "template", "gateway"):
        if changes[part] is not None:
            echo(f"{part}: {_short(changes[part]['was'])} -> {_short(changes[part]['now'])}")
    for one in changes["passages"]:
        places = " -> ".join(str(place) for place in (one["was"], one["now"]) if place is not None)
        path = " > ".join(part for part in (one["title"], *one["headings"]) if part)
        echo(f"{_SIGNS[one['change']]} {one['change']} [{places}] {path} ({one['source']})")
    for one in changes["documents"]:
        echo(f"document {one['source']}: {one['change']} since")
    for one in (*changes["collections"], *changes["settings"]):
        echo(f"{one['name']}: {_short(one['was'])} -> {_short(one['now'])}")
    if kept.get("actions") is not None:
        _print_actions(kept["actions"])


def _print_actions(actions: Mapping[str, Any]) -> None:
    """Operations that the chat was offered, the model's rounds, and its calls. No call is made again."""
    operations = ", ".join(actions["operations"]) or "none"
    echo(f"operations of {', '.join(actions['sets'])}: {actions['offer']}: {operations}")
    for one in actions.get("searches", ()):  # older versions' receipts lack them
        relevance = "" if one["relevance"] is None else f", relevance {one['relevance']:.2f}"
        echo(f"searched: {one['query']}{relevance}")
        for found in one["found"]:
            arms = arms_text(found["ranks"], found["scores"]) or "a producer"
            echo(f"  {found['operation']}: {found['outcome']} ({arms})")
    for number, one in enumerate([None, *actions["rounds"]]):  # first, calls before any round
        if one is not None:
            tokens = f"{one['prompt_tokens']}+{one['completion_tokens']} tokens"
            echo(f"round {number}: {_ms(one)}, {tokens}, {one['finish'] or 'no end'}, {one['calls']} calls")
        for call in actions["calls"]:
            if call["round"] == number:
                echo(
                    f"  {call['operation'] or 'unknown tool'}: {call['outcome']}, status {call['status']}, {_ms(call)}"
                )


def _ms(one: Mapping[str, Any]) -> str:
    return "not over" if one["duration_ms"] is None else f"{one['duration_ms']:.0f} ms"


def _counted(one: Outcome) -> str:
    return f"{one['status']} ({one['reason']}), {len(one['passages'])} passages, {one['injected_tokens']} tokens"


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"generation {value['generation']}, {value['embedder']}, {value['language']}"
    if isinstance(value, str) and len(value) == 64:  # a digest
        return value[:12]
    return "none" if value is None else str(value)
