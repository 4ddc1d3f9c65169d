"""Effects: the read that shows what a write changed, and the call that undoes the write."""

from typing import Any

import pytest

from proxy.apis.openapi.effects import read_arguments, undo_arguments
from proxy.apis.openapi.operation import Effects, Operation
from proxy.apis.openapi.operations import operations_of
from tests.support.rows import all_rows

STATE = {"type": "object", "properties": {"state": {"type": "string"}, "note": {"type": "string"}}}
ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}


def body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"content": {"application/json": {"schema": schema}}, "required": True}}


def query(name: str, *, required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": required, "schema": {"type": "string"}}


def operation(name: str, *parameters: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"operationId": name, "parameters": list(parameters), "responses": {}, **more}


SHOP = {
    "/orders": {
        "get": operation("listOrders", query("tenant"), query("state"), query("fields")),
        "post": operation("createOrder", query("tenant"), **body(STATE)),
    },
    "/orders/{id}": {
        "get": operation("getOrder", ID),
        "put": operation("replaceOrder", ID, **body(STATE)),
        "patch": operation("changeOrder", ID, **body(STATE)),
        "delete": operation("deleteOrder", ID),
    },
    "/orders/{id}/cancel": {"post": operation("cancelOrder", ID)},
    "/orders/{id}/star": {"put": operation("starOrder", ID), "delete": operation("unstarOrder", ID)},
    "/machines/{id}/actions/power_on": {"post": operation("on", ID)},
    "/machines/{id}/actions/start": {"post": operation("start", ID)},
    "/machines/{id}/actions/stop": {"post": operation("stop", ID)},
    "/machines/{id}": {"get": operation("machine", ID)},
    "/rpc/user.info": {"get": operation("user_info", query("user", required=True))},
    "/rpc/user.lock": {"post": operation("user_lock", query("user", required=True))},
    "/rpc/user.unlock": {"post": operation("user_unlock", query("user", required=True))},
    "/rpc/user.create": {"post": operation("user_create", **body(STATE))},
    "/carts/{cart}/lines/{id}": {"delete": operation("dropLine", {**ID, "name": "cart"}, ID)},
    "/carts/{cart}/lines": {"get": operation("lines", {**ID, "name": "cart"})},
    "/mail": {"post": operation("mail", **body(STATE))},
    "/logs/{id}": {"get": operation("logs", ID), "put": operation("createLog", ID, **body(STATE))},
}  # fmt: skip


def effects(paths: dict[str, Any] = SHOP) -> dict[str, Operation]:
    return {one.name: one for one in operations_of({"openapi": "3.0.0", "info": {}, "paths": paths})[0]}


KNOWN = effects()


@all_rows(
    ("name", "read", "created", "undo"),
    [
        ("createOrder", "listOrders", "getOrder", "deleteOrder"),
        ("replaceOrder", "getOrder", "", "replaceOrder"),
        ("changeOrder", "getOrder", "", "changeOrder"),
        ("deleteOrder", "getOrder", "", "createOrder"),
        ("cancelOrder", "getOrder", "", ""),
        ("starOrder", "getOrder", "", "unstarOrder"),
        ("unstarOrder", "getOrder", "", "starOrder"),
        ("start", "machine", "", "stop"),
        ("on", "machine", "", ""),
        ("user_lock", "user_info", "", "user_unlock"),
        ("user_create", "", "user_info", ""),
        ("dropLine", "lines", "", ""),
        ("mail", "", "", ""),
        ("createLog", "logs", "", ""),
    ],
)
def test_reads_and_undoing_calls_follow_from_paths_and_names(name: str, read: str, created: str, undo: str) -> None:
    found = KNOWN[name].effects or Effects()
    assert [one.operation if one else "" for one in (found.read, found.created, found.undo)] == [read, created, undo]


def test_a_reading_operation_has_no_effects() -> None:
    assert [name for name, one in KNOWN.items() if one.effects and one.effect == "reads"] == []


def test_a_value_to_set_is_not_a_value_to_search_by() -> None:
    found = KNOWN["createOrder"].effects
    assert found is not None
    assert found.read is not None
    given = {"tenant": "t", "body": {"state": "open"}}
    assert read_arguments(found.read, given) == {"tenant": "t"}


@pytest.mark.parametrize(
    ("result", "location", "value"),
    [
        ({"id": 7, "state": "open"}, "", 7),
        ({"data": {"id": "a", "owner": {"id": "b"}}}, "", "a"),
        ({"order": {"id": 9}}, "", 9),
        ({}, "https://shop.example/orders/a%20b", "a b"),
        ({"uuid": "u"}, "", "u"),
        ({"owner": {"id": "b"}, "n": 1}, "", None),
        (None, "", None),
    ],
)
def test_what_was_made_is_found_by_the_result_or_the_location(result: Any, location: str, value: Any) -> None:
    found = KNOWN["createOrder"].effects
    assert found is not None
    assert found.created is not None
    assert found.undo is not None
    wanted = None if value is None else {"id": value}
    assert read_arguments(found.created, {"body": {}}, result, location) == wanted
    assert undo_arguments(KNOWN["deleteOrder"], found.undo, {"body": {}}, None, result, location) == wanted


def test_values_are_set_back_to_those_before() -> None:
    found = KNOWN["changeOrder"].effects
    assert found is not None
    assert found.undo is not None
    before = {"data": {"id": 1, "state": "open", "note": "x"}}
    given = {"id": "1", "body": {"state": "closed"}}
    assert undo_arguments(KNOWN["changeOrder"], found.undo, given, before) == {"id": "1", "body": {"state": "open"}}
    assert undo_arguments(KNOWN["changeOrder"], found.undo, given, {"id": 1}) is None
    found = KNOWN["replaceOrder"].effects
    assert found is not None
    assert found.undo is not None
    whole = {"id": "1", "body": {"state": "open", "note": "x"}}
    assert undo_arguments(KNOWN["replaceOrder"], found.undo, given, before) == whole


def test_an_identifier_of_another_path_is_not_taken() -> None:
    paths = {
        "/databases/{id}/shipping": {"post": operation("createShipping", ID, **body(STATE))},
        "/shipping/{id}": {"get": operation("getShipping", ID)},
    }
    found = effects(paths)["createShipping"].effects
    assert found is not None
    assert found.read is None
    assert found.created is not None
    assert found.created.operation == "getShipping"


def test_an_opposite_that_needs_more_is_no_undo() -> None:
    paths = {
        "/s/{id}/attach": {"post": operation("attach", ID, **body({**STATE, "required": ["state"]}))},
        "/s/{id}/detach": {"post": operation("detach", ID)},
    }
    known = effects(paths)
    assert known["detach"].effects is None
    found = known["attach"].effects
    assert found is not None
    assert found.undo is not None
    assert found.undo.operation == "detach"


def test_two_parameters_with_one_name_are_told_apart() -> None:
    name = {**ID, "name": "name"}
    paths = {
        "/schemes/{name}/users": {
            "get": operation("users", name, query("name", required=True)),
            "delete": operation("dropUser", name),
        }
    }
    assert effects(paths)["dropUser"].effects is None


def test_an_identifier_that_the_api_gives_is_not_made_again_by_put() -> None:
    paths = {
        "/projects/{id}": {
            "get": operation("getProject", ID),
            "put": operation("updateProject", ID, **body(STATE)),
            "delete": operation("deleteProject", ID),
        }
    }
    found = effects(paths)["deleteProject"].effects
    assert found is not None
    assert found.undo is None
