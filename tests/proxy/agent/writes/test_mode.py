"""Whether a call that changes something is refused, waits for a person, or is made at once."""

from dataclasses import replace

import msgspec
import pytest

from proxy.agent.writes.mode import mode_of
from proxy.apis.call import Api
from proxy.apis.openapi.operation import CallPolicy, Mode
from proxy.caller import EVERYTHING, NOTHING, Acts, Names, Rights
from tests.proxy.apis.calling import operation
from tests.support.rows import all_rows

READER = replace(NOTHING, read=Names(["actions.things"]))
WRITER = replace(READER, act=Acts(["things:write"]))
FREE_WRITER = replace(READER, act=Acts(["things:write=auto"]))
READ = operation()
WRITE = msgspec.structs.replace(operation("POST"), name="createThing")
MARKED = msgspec.structs.replace(WRITE, confirm=True)


def api(policy: CallPolicy) -> Api:
    return Api("things", "https://things.example", policy=policy)


@pytest.mark.parametrize("rights", [NOTHING, READER, WRITER, FREE_WRITER, EVERYTHING])
def test_without_a_setting_all_that_changes_something_is_refused(rights: Rights) -> None:
    assert mode_of(rights, api(CallPolicy()), WRITE) == "refuse"


@all_rows(
    ("policy", "rights", "mode"),
    [
        (CallPolicy("confirm"), NOTHING, "refuse"),
        (CallPolicy("confirm"), READER, "refuse"),
        (CallPolicy("confirm"), WRITER, "confirm"),
        (CallPolicy("confirm"), FREE_WRITER, "confirm"),
        (CallPolicy("confirm"), EVERYTHING, "confirm"),
        (CallPolicy("confirm", auto=["createThing"]), WRITER, "confirm"),
        (CallPolicy("confirm", auto=["POST /things"]), FREE_WRITER, "auto"),
        (CallPolicy("auto"), READER, "refuse"),
        (CallPolicy("auto"), WRITER, "confirm"),
        (CallPolicy("auto"), FREE_WRITER, "auto"),
        (CallPolicy("auto"), EVERYTHING, "auto"),
        (CallPolicy("auto", confirm=["createThing"]), EVERYTHING, "confirm"),
    ],
)
def test_the_stricter_of_settings_and_key_counts(policy: CallPolicy, rights: Rights, mode: Mode) -> None:
    assert mode_of(rights, api(policy), WRITE) == mode


def test_no_setting_loosens_what_the_document_says() -> None:
    assert mode_of(EVERYTHING, api(CallPolicy("auto", auto=["createThing"])), MARKED) == "confirm"


def test_a_read_is_made_at_once_unless_a_person_confirms_it() -> None:
    assert mode_of(READER, api(CallPolicy()), READ) == "auto"
    assert mode_of(NOTHING, api(CallPolicy()), READ) == "refuse"
    confirmed = api(CallPolicy("auto", confirm=["listThings"]))
    assert mode_of(EVERYTHING, confirmed, READ) == "confirm"
    assert mode_of(READER, confirmed, READ) == "refuse"


def test_an_operation_that_the_settings_keep_from_being_called_is_refused() -> None:
    kept = replace(api(CallPolicy("auto")), never=["createThing"])
    assert mode_of(EVERYTHING, kept, WRITE) == "refuse"


def test_a_reader_may_know_what_nobody_may_call_and_not_what_others_may() -> None:
    assert api(CallPolicy()).why_not_called(WRITE, READER) == "could_change"
    assert api(CallPolicy("confirm")).why_not_called(WRITE, READER) == "not_granted"
    assert api(CallPolicy()).why_not_called(WRITE, replace(READER, act=Acts(["!things:create*"]))) == "not_granted"
