"""The words by which a GET changes something."""

from proxy.apis.call import Api
from proxy.apis.openapi.operation import CallPolicy, Operation
from tests.support.rows import all_rows

NO_ARGUMENTS = {"type": "object", "properties": {}, "required": []}


def operation(name: str, path: str, summary: str = "", method: str = "GET") -> Operation:
    return Operation(name, method, path, NO_ARGUMENTS, summary)


# As in public documents, but for the last three.
@all_rows(
    ("name", "path", "summary"),
    [
        ("deletePadUsingGET", "/deletePad", "deletes a pad"),
        ("delete", "/archive/delete/network", ""),
        ("removeAlert", "/remove/alert/for/{thing}", "Remove an alert for a thing."),
        ("Cancel_a_Ride", "/rides/{id}/cancel", "Cancel a Ride"),
        ("auth_revoke", "/auth.revoke", ""),
        ("get_messages_send", "/messages/send", "Send message by simple GET or POST"),
        ("lockThing", "/lock/{thing}", "Reserve and lock a thing."),
        ("movePadUsingGET", "/movePad", ""),
        ("get_contacts_addToGroup", "/contacts/{contactId}/addToGroup/{groupId}", ""),
        ("operation7", "/v1/things/{id}:cancel", ""),
        ("operation7", "/things/{id}", "Deletes the thing"),
        ("transferMoney", "/do", ""),
    ],
)
def test_a_get_with_the_verb_of_a_change_could_change_something(name: str, path: str, summary: str) -> None:
    assert operation(name, path, summary).effect == "changes"


@all_rows(
    ("name", "path", "summary"),
    [
        ("listDeletedItems", "/deleted-items", "Deleted items"),
        ("getDeletedItems", "/items/deleted", ""),
        ("getBuyOrder", "/projects/{project_id}/buyOrders/{order_id}", "Get a specific buy order"),
        ("GetPayRunFromPaySchedule", "/PaySchedule/{id}/PayRun/{PayRunId}", "Gets the pay run from the pay schedule"),
        ("StopPoint_Disruption", "/StopPoint/{ids}/Disruption", "Gets all disruptions for the specified StopPointId"),
        ("get_transfers", "/transfer", "Transfers"),
        ("getTransfer", "/account/transfer", ""),
        ("getV3MergeRequest", "/projects/{id}/merge_requests/{merge_request_id}", "Get a single merge request"),
        ("listDeleteRequests", "/delete-requests/{id}", "List delete requests"),
        ("cancelStatus", "/cancellations/{id}", "Cancellation status"),
        ("sendgridStatus", "/sendgrid", ""),
        ("getPayments", "/payments", "Payments of an order"),
        ("operation7", "/", ""),
        ("", "", ""),
    ],
)
def test_a_noun_and_a_reading_verb_are_no_false_alarm(name: str, path: str, summary: str) -> None:
    assert operation(name, path, summary).effect == "reads"


def test_a_setting_says_which_operations_only_read() -> None:
    search = operation("searchIssues", "/search", method="POST")
    cancelled = operation("cancel", "/cancel")
    marked = Operation("marked", "GET", "/marked", NO_ARGUMENTS, confirm=True)
    policy = CallPolicy(reads=["POST /search", "cancel", "marked"])
    assert [policy.effect_of(one) for one in (search, cancelled, marked)] == ["reads", "reads", "changes"]
    api = Api("a", "https://x.example", policy=policy)
    assert [api.why_not_called(one) for one in (search, cancelled, marked)] == ["", "", "could_change"]
