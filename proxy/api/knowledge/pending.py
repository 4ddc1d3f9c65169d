"""Calls that wait for a person: for applications with a button, in place of the code line in the chat.

The header x-rag-pending of a chat's reply names the group. For a key that did not ask, there is no such group, unless
the settings want another person's approval.
"""

import re
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from proxy.agent.writes.pending import Denied, State
from proxy.agent.writes.shown import states_of
from proxy.api.knowledge.access import PENDING, KnowledgeCall, Page
from proxy.api.knowledge.declarations import Closed, Open, doc, must, operation
from proxy.api.knowledge.parameters import invalid
from proxy.dialects.base import person_in
from proxy.dialects.errors import ApiError, forbidden

if TYPE_CHECKING:
    from proxy.agent.writes.approving import Approvals, Group

_ONE = PENDING + "/{id}"
_ID = re.compile(r"pg-[0-9a-f]{24}")  # PostgreSQL takes no NUL
_WAY = "button"
_MOST_NUMBERS = 100


class PendingCall(Closed, frozen=True):
    number: Annotated[int, doc("Within the group, from 1")]
    set: str
    operation: str
    state: Annotated[
        State,
        doc(
            "pending: waits. claimed: is being sent. done, failed: as the API answered. unknown: the answer was lost, "
            "so the call may have taken effect. void: given up"
        ),
    ]
    status: Annotated[int | None, doc("Of the API's response; null: none")]
    text: Annotated[str, doc("What is sent, as the person reads it")]


class PendingCalls(Open, frozen=True, tag_field="object", tag="action.pending"):
    id: Annotated[str, doc("Of the header x-rag-pending")]
    created_at: Annotated[int, doc("Seconds since 1970")]
    expires_at: int
    four_eyes: Annotated[bool, doc("Whether a key must approve that did not ask")]
    calls: list[PendingCall]


class AnsweredCalls(PendingCalls, frozen=True, kw_only=True):
    report: Annotated[str, doc("What became of the calls, in the gateway's words; empty: nothing was sent")]


class PendingPage(Page, frozen=True, kw_only=True):
    data: list[PendingCalls]


class _Approval(Closed, frozen=True):
    approve: Annotated[bool, doc("false: give the calls up")]
    numbers: (
        Annotated[
            list[Annotated[int, Meta(ge=1)]],
            Meta(min_length=1, max_length=_MOST_NUMBERS),
            doc("Only these calls; the others are given up. Default: all"),
            must("a list of the calls' numbers"),
        ]
        | UnsetType
    ) = UNSET


@operation(f"GET {PENDING}", "actions", "Oldest first")
async def list_pending_calls(call: KnowledgeCall) -> PendingPage:
    """The calls that wait for an answer by this key."""
    return PendingPage.of([PendingCalls(*_members(one)) for one in await _approvals(call).waiting(call.exchange)])


@operation(f"GET {_ONE}", "actions", "The calls")
async def read_pending_calls(call: KnowledgeCall) -> PendingCalls:
    """The calls of one confirmation, in any state, for 30 days."""
    return PendingCalls(*_members(await _group(call)))


@operation(f"POST {_ONE}", "actions", "The calls, and what became of them", slow=True)
async def answer_pending_calls(call: KnowledgeCall, body: _Approval) -> AnsweredCalls:
    """Send the calls exactly as shown, or give them up. Only the first answer counts.

    If the chat named a person, by the header x-rag-user or in its body, the header must name the same person.
    """
    approvals, numbers = _approvals(call), body.numbers
    async with call.rules.asking():
        group = await _group(call)
        person = person_in(call.scope["headers"])
        if group.own and person != group.writes[0].person:
            raise _denied(Denied("other_person"), group)
    if not body.approve:
        if not await approvals.decline(group):
            group = await _group(call)
            raise _denied(Denied("used" if any(one.state != "void" for one in group.writes) else "void"), group)
        return AnsweredCalls(*_members(await _group(call)), report="")
    sent = await approvals.approve(
        group,
        call.exchange,
        person=person if group.own else group.writes[0].person,
        numbers=None if isinstance(numbers, UnsetType) else set(numbers),
        way=_WAY,
    )
    if isinstance(sent, Denied):
        raise _denied(sent, await _group(call))  # another may have answered meanwhile
    return AnsweredCalls(*_members(await _group(call)), report="\n\n".join(one.report for one in sent))


def _approvals(call: KnowledgeCall) -> "Approvals":
    assert call.rules.approvals is not None, "the routes need a set that allows writes"
    return call.rules.approvals


async def _group(call: KnowledgeCall) -> "Group":
    """The group in the path. Raises ApiError 404, also for one of another key."""
    id = call.path["id"]
    found = await _approvals(call).group(id, call.exchange) if _ID.fullmatch(id) else None
    if found is None:
        raise _missing()
    return found


def _missing() -> ApiError:
    message = f"No calls with this id wait for this key: GET {PENDING} lists those that do."
    return ApiError(404, message, code="pending_not_found", param="id")


def _denied(denied: Denied, group: "Group") -> ApiError:
    match denied.why:
        case "wrong_number":
            return invalid(f"'numbers': the calls have the numbers 1 to {len(group.writes)}", "numbers")
        case "four_eyes":
            return forbidden("Another key than the one that asked must approve these calls. Nothing was sent.", "id")
        case "used":
            text = f"These calls were answered before. Nothing was sent again.\n\n{states_of(group.writes)}"
            code = "pending_used"
        case "void":
            text, code = "These calls were given up: the chat went on otherwise. Nothing was sent.", "pending_void"
        case "expired":
            text, code = "The time for an answer is over. Nothing was sent. Ask again.", "pending_expired"
        case "rights_changed":
            text = "The rights or the API have changed since the calls were shown. Nothing was sent. Ask again."
            code = "rights_changed"
        case _:
            return _missing()
    return ApiError(409, text, code=code, param="id")


def _members(group: "Group") -> Any:
    """The members of a `PendingCalls`."""
    first = group.writes[0]
    calls = [
        PendingCall(one.number, one.set, one.operation, one.state, one.status or None, one.shown)
        for one in group.writes
    ]
    return group.id, int(first.created_s), int(first.expires_s), group.four_eyes, calls
