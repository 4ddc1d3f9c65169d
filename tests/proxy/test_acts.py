"""The grants of calls."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.caller import EVERYTHING, NOTHING, Act, Acts, BadAct, Names, act_of
from tests.support.rows import all_rows

SETS = st.sampled_from(["atlas", "tickets", "t1"])
OPERATIONS = st.sampled_from(["createTicket", "createUser", "deleteTicket", "listTickets", "GET /tickets/{id}"])
EFFECTS = st.sampled_from(["reads", "changes"])


@st.composite
def acts(draw: st.DrawFn, *, denies: bool | None = None) -> Act:
    what = draw(st.sampled_from(["read", "write", "*"]) | OPERATIONS | st.sampled_from(["create*", "GET /t*"]))
    set_name = draw(SETS | st.sampled_from(["t*", "*"]))
    denied = draw(st.booleans()) if denies is None else denies
    automatic = not denied and what != "read" and draw(st.booleans())
    return Act(set_name, what, "auto" if automatic else "confirm", denied)


@given(acts())
def test_a_grant_is_read_as_it_is_written(one: Act) -> None:
    assert act_of(str(one)) == one


@given(st.lists(acts()), acts(denies=True), SETS, OPERATIONS, EFFECTS)
def test_what_is_denied_is_denied_whatever_is_granted(some, denial, set_name, name, effect) -> None:  # type: ignore[no-untyped-def]
    rights = replace(EVERYTHING, act=Acts([*map(str, some), "*:*=auto", str(denial)]))
    if denial.covers(set_name, [name], effect):
        assert rights.mode_of(set_name, [name], effect) == "refuse"


@given(st.lists(acts(denies=False)), SETS, OPERATIONS)
def test_nothing_is_granted_without_a_grant_that_covers_it(some, set_name, name) -> None:  # type: ignore[no-untyped-def]
    mode = replace(NOTHING, act=Acts(list(map(str, some)))).mode_of(set_name, [name], "changes")
    covering = [one for one in some if one.covers(set_name, [name], "changes")]
    assert (mode == "refuse") == (not covering)
    assert (mode != "auto") or any(one.mode == "auto" for one in covering)


@given(st.lists(acts()), SETS, OPERATIONS, EFFECTS, st.randoms())
def test_the_order_of_grants_does_not_count(some, set_name, name, effect, random) -> None:  # type: ignore[no-untyped-def]
    texts = list(map(str, some))
    before = Acts(texts).mode_of(set_name, [name], effect)
    random.shuffle(texts)
    assert Acts([*texts, *texts]).mode_of(set_name, [name], effect) == before


@all_rows(
    ("granted", "name", "mode"),
    [
        ([], "createTicket", "refuse"),
        (["tickets:read"], "createTicket", "refuse"),
        (["tickets:write"], "createTicket", "confirm"),
        (["tickets:*"], "createTicket", "confirm"),
        (["tickets:write", "tickets:createTicket=auto"], "createTicket", "auto"),
        (["tickets:write", "tickets:createTicket=auto"], "deleteTicket", "confirm"),
        (["tickets:write=auto", "tickets:delete*=confirm"], "deleteTicket", "confirm"),
        (["tickets:create*=auto", "tickets:createTicket"], "createTicket", "confirm"),
        (["tickets:create*", "tickets:createTicket=auto"], "createTicket", "auto"),
        (["*:write=auto", "tickets:write"], "createTicket", "confirm"),
        (["*:write=auto", "!tickets:delete*"], "deleteTicket", "refuse"),
        (["atlas:write=auto"], "createTicket", "refuse"),
    ],
)
def test_the_closest_grant_counts(granted: list[str], name: str, mode: str) -> None:
    assert Acts(granted).mode_of("tickets", [name], "changes") == mode


def test_the_right_to_read_a_set_is_a_right_to_what_reads() -> None:
    rights = replace(NOTHING, read=Names(["actions.tickets"]), act=Acts(["!tickets:secret*"]))
    assert rights.mode_of("tickets", ["listTickets"], "reads") == "auto"
    assert rights.mode_of("tickets", ["secretNotes"], "reads") == "refuse"
    assert rights.mode_of("tickets", ["createTicket"], "changes") == "refuse"
    assert rights.mode_of("atlas", ["listOrgs"], "reads") == "refuse"


@pytest.mark.parametrize(
    ("granted", "usable"),
    [
        (["tickets:read"], True),
        (["tick*:createTicket"], True),
        (["tickets:*", "!tickets:*"], False),
        (["tickets:*", "!tickets:write"], True),
        (["!tickets:write"], False),
        (["atlas:read"], False),
    ],
)
def test_a_set_with_a_grant_may_be_used(granted: list[str], usable: bool) -> None:
    assert replace(NOTHING, act=Acts(granted)).may_use("tickets") is usable


@all_rows(
    "text",
    ["", "atlas", "atlas:", ":read", "!", "Atlas:read", "a*b:read", "atlas:a*b", "atlas: read", "atlas:read=auto",
     "!atlas:write=auto", "!atlas:x=confirm", "!!atlas:x", "atlas:x\n", "atlas:" + "x" * 300],
)  # fmt: skip
def test_a_grant_that_cannot_be_read_says_how_grants_are_written(text: str) -> None:
    with pytest.raises(BadAct, match=r"leave =|write (SET:WHAT|read)"):
        act_of(text)
