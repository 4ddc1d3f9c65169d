"""The model's calls against a server that counts: a right call is sent, and each wrong form of the call is not."""

import asyncio
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import httpx
import orjson
import pytest

from proxy.agent.execution import Execution
from proxy.agent.toolbox import Calling, Refused, Tool, Toolbox, ToolResult, arguments_schema
from proxy.agent.tools.operation_tool import OperationTool
from proxy.apis.call import Api
from proxy.apis.openapi.operations import operations_of
from proxy.caller import EVERYTHING, Acts, Rights
from proxy.dialects.replies import ToolCall
from proxy.dialects.target import ToolProtocol
from proxy.exchange import ActionTrace, Exchange, FoundOperation, OperationSearch
from tests.proxy.apis.calling import accepts, served_api
from tests.support.action_offers import action_limits, empty_toolbox
from tests.support.api_server import ApiRequest, Reply
from tests.support.rows import all_rows

PATIENCE_S = 10.0  # less than the 30 s of a call
LIMITS = action_limits()
QUESTION = "Which admins of organization 5f0c1e joined since 2024? Show 20 of team red/blue, please."


def parameter(name: str, place: str, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": schema, **more}


DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "t", "version": "1"},
    "paths": {
        "/groups/{groupId}/orgs/{orgId}/users": {
            "get": {
                "operationId": "listUsers",
                "summary": "List users",
                "parameters": [
                    parameter("groupId", "path", {"type": "string"}, required=True),
                    parameter("orgId", "path", {"type": "string"}, required=True, description="Id of the organization"),
                    parameter("role", "query", {"enum": ["admin", "member"]}),
                    parameter("limit", "query", {"type": "integer", "minimum": 1, "maximum": 100}),
                    parameter("since", "query", {"type": "array"}),
                    parameter("team", "query", {"type": "array", "items": {"type": "string"}}),
                ],
                "responses": {"200": {"description": "ok"}},
            },
            "delete": {
                "operationId": "deleteUsers",
                "parameters": [
                    parameter("groupId", "path", {"type": "string"}, required=True),
                    parameter("orgId", "path", {"type": "string"}, required=True),
                ],
                "responses": {"200": {"description": "ok"}},
            },
        }
    },
}
GOLD = {"orgId": "5f0c1e", "role": "admin", "limit": 20, "team": ["red/blue"]}


def toolbox(api: Api) -> Toolbox:
    made = empty_toolbox()
    made.add([
        OperationTool(one, api) for one in operations_of(DOCUMENT)[0]
    ])  # fmt: skip
    return made


def execution(api: Api, *known: str) -> Execution:
    return Execution(toolbox(api), LIMITS, Exchange(rights=EVERYTHING), known or (QUESTION,))


async def result(running: Execution, arguments: Any, name: str = "act_listUsers") -> str:
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    return (await running.results([ToolCall("c1", name, text)]))[0]


async def slow(_request: ApiRequest) -> Reply:
    return Reply(hold=True)


async def users(request: ApiRequest) -> Reply:
    return Reply(body=b'[{"id": "u77", "name": "Ann"}]', headers=[("Content-Type", "application/json")])


async def test_a_right_call_is_sent_with_the_fixed_arguments() -> None:
    async with served_api(users, fixed={"groupId": "fixed-group"}, secrets=["fixed-group"]) as (server, api):
        text = await result(execution(api), GOLD)
    assert server.targets == ["/groups/fixed-group/orgs/5f0c1e/users?role=admin&limit=20&team=red%2Fblue"]
    assert "u77" in text


@pytest.mark.parametrize("number", ["98765432109876543210", "-9223372036854775809"])
async def test_a_whole_number_beyond_64_bits_is_sent_with_all_digits(number: str) -> None:
    arguments = f'{{"orgId": "5f0c1e", "since": [{number}], "team": ["a"]}}'
    async with served_api(users, fixed={"groupId": "g1"}) as (server, api):
        assert "u77" in await result(execution(api, f"{QUESTION} since {number}"), arguments)
        huge = arguments.replace(number, "9" * 5000)
        assert "not a JSON object" in await result(execution(api, QUESTION), huge)
    assert server.targets == [f"/groups/g1/orgs/5f0c1e/users?since={number}&team=a"]


@pytest.mark.parametrize("arguments", ["", " ", "null"])
async def test_a_call_without_arguments_is_a_call_with_an_empty_object(arguments: str) -> None:
    """Some Llama models write null for a tool that takes no arguments."""
    async with served_api(users, fixed={"groupId": "g1"}) as (_server, api):
        assert "orgId is missing" in await result(execution(api), arguments)


def changed(**more: Any) -> dict[str, Any]:
    return {name: value for name, value in {**GOLD, **more}.items() if value is not ...}


async def test_an_unexpected_error_of_one_call_is_a_text_and_ends_no_other_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Fault(Tool):
        name = "fault"
        description = ""
        schema = arguments_schema("id", id={"type": "string"})

        async def call(self, arguments: dict[str, Any], calling: Calling) -> ToolResult:
            raise ZeroDivisionError("a fault of the gateway")

    async with served_api(accepts, fixed={"groupId": "fixed-group"}) as (_, api):
        running = execution(api)
        running._toolbox.add([Fault()])
        gold = ToolCall("c1", "act_listUsers", orjson.dumps(GOLD).decode())
        texts = await running.results([gold, ToolCall("c2", "fault", '{"id": "x"}')])
    assert texts == ['{"ok":true}', "The call failed: the gateway has a fault, which its log describes. "
                     "Go on without this result."]  # fmt: skip
    assert [one.outcome for one in running._trace.calls] == ["ok", "failed"]
    assert [record.exc_info is not None for record in caplog.records] == [True]


async def test_a_fault_of_the_credentials_ends_no_chat_and_no_run(caplog: pytest.LogCaptureFixture) -> None:
    class Fault(httpx.Auth):
        def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
            raise ZeroDivisionError
            yield request

    async with served_api(accepts, Fault(), fixed={"groupId": "fixed-group"}) as (_, api):
        running = execution(api)
        assert (await result(running, GOLD)).startswith("The call failed: the gateway has a fault")
    assert "a call of things/listUsers failed" in caplog.text


async def test_a_call_that_the_client_does_not_wait_for_is_no_success() -> None:
    async with served_api(slow, fixed={"groupId": "fixed-group"}) as (server, api):
        chat = execution(api)
        running = asyncio.create_task(result(chat, GOLD))
        await server.arrived.wait()
        running.cancel()
        await asyncio.wait({running})
    (traced,) = chat._trace.calls
    assert (traced.outcome, traced.sent, traced.status) == ("failed", True, 0)
    assert traced.duration_ms is not None


MUTANTS: dict[str, tuple[Any, str]] = {
    "missing": (changed(orgId=...), "orgId is missing (Id of the organization)"),
    "number for text": (changed(orgId=5), "orgId must be a text, not 5"),
    "text for number": (changed(limit="twenty"), 'limit must be a whole number, not "twenty"'),
    "text for list": (changed(team="red,blue"), "team must be a list"),
    "object for text": (changed(orgId={"id": "5f0c1e"}), "orgId must be a text"),
    "null": (changed(orgId=None), "orgId must be a text, not null"),
    "too large": (changed(limit=1000), "limit must be at most 100, not 1000"),
    "unknown value": (changed(role="owner"), 'role must be one of "admin", "member", not "owner"'),
    "value in capitals": (changed(role="ADMIN"), "role must be one of"),
    "placeholder": (
        changed(orgId="your_organization_id"),
        "stand neither in the conversation nor in an earlier result",
    ),
    "bracket": (changed(orgId="<orgId>"), "orgId: '<orgId>'"),
    "template": (changed(orgId="{orgId}"), "orgId: '{orgId}'"),
    "digits": (changed(orgId="12345"), "orgId: '12345'"),
    "invented": (changed(orgId="5f0c1f"), "orgId: '5f0c1f'"),
    "placeholder in a list": (changed(team=["your_team"]), "team: 'your_team'"),
    "traversal": (changed(orgId="../5f0c1e"), "orgId must not be"),
    "traversal by backslash": (changed(orgId="5f0c1e\\.."), "orgId must not be"),
    "dots": (changed(orgId=".."), "orgId: '..'"),
    "empty": (changed(orgId=""), "orgId: ''"),
    "line break": (changed(orgId="5f0c1e\r\n"), "orgId must not be"),
    "number with a point": (changed(since=[{"id": 98765.0}]), "since.id: 98765"),
    "too many values": (changed(since=[1] * 600), "the arguments have more than 500 values or 10 levels: send less"),
    "extra": (changed(groups=1), "groups is unknown"),
    "look-alike name": (changed(orgId=..., orgID="5f0c1e"), "orgID is unknown (did you mean orgId?)"),
    "look-alike letter": (changed(orgId="5f0с1e"), "orgId"),  # a Cyrillic с
    "fixed argument": (changed(groupId="mine"), "groupId is unknown"),
    "no object": ("[1]", "the arguments are not a JSON object"),
    "no JSON": ("orgId=5f0c1e", "the arguments are not a JSON object"),
    "cut JSON": ('{"orgId": "5f0c1e"', "the arguments are not a JSON object"),
    "nothing": ("", "orgId is missing"),
}


@all_rows("kind", MUTANTS)
async def test_a_wrong_call_is_not_sent_and_the_model_gets_the_reason(kind: str) -> None:
    arguments, reason = MUTANTS[kind]
    async with served_api(users, fixed={"groupId": "fixed-group"}, secrets=["fixed-group"]) as (server, api):
        text = await result(execution(api), arguments)
    assert server.requests == []
    assert text.startswith("Nothing was sent")
    assert reason in text
    assert "fixed-group" not in text


async def test_a_call_that_could_change_something_is_not_sent() -> None:
    async with served_api(users, fixed={"groupId": "g1"}) as (server, api):
        text = await result(execution(api), {"orgId": "5f0c1e"}, "act_deleteUsers")
    assert server.requests == []
    assert "This gateway only reads" in text


async def test_a_call_of_a_found_operation_that_could_change_something_gets_the_reason() -> None:
    found = FoundOperation("atlas/dropUsers", "could_change", 1.0, {}, {})
    trace = ActionTrace(searches=[OperationSearch("drop", 0.9, [found])])
    async with served_api(users) as (server, api):
        running = Execution(toolbox(api), LIMITS, Exchange(rights=EVERYTHING, action_trace=trace), (QUESTION,))
        text = await result(running, {}, "act_dropUsers")
        assert running.repeats(ToolCall("c2", "act_dropUsers", "{}"))
    assert server.requests == []
    assert text == "Nothing was sent: dropUsers could change something. This gateway only reads."
    (traced,) = trace.calls
    assert (traced.set, traced.operation, traced.outcome) == ("atlas", "atlas/dropUsers", "could_change")


async def test_an_operation_that_the_caller_has_no_right_to_is_not_called() -> None:
    async with served_api(users, fixed={"groupId": "g1"}) as (server, api):
        exchange = Exchange(rights=Rights(act=Acts(["things:other"])))
        text = await result(Execution(toolbox(api), LIMITS, exchange, (QUESTION,)), {"orgId": "5f0c1e"})
    assert server.requests == []
    assert text == "Nothing was sent: this key may not call things/listUsers."


async def test_a_value_that_was_refused_is_refused_again() -> None:
    async with served_api(users, fixed={"groupId": "g1"}) as (server, api):
        running = execution(api)
        texts = [await result(running, changed(orgId="5f0c1f")) for _ in range(3)]
    assert server.requests == []
    assert all("5f0c1f" in text for text in texts)


async def test_a_value_of_an_earlier_result_is_sent() -> None:
    async with served_api(users, fixed={"groupId": "g1"}) as (server, api):
        running = execution(api)
        assert "u77" in await result(running, GOLD)
        assert "u77" in await result(running, changed(orgId="u77"))
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("asked", "arguments", "sent"),
    [
        ("filter.city_id", {"filter": {"city_id": "vienna"}}, True),
        ("filter.city_id", {"filter": {"area_id": "vienna"}}, False),
        ("code_id: Code", {"code_id": "vienna"}, True),
        ("code_id: Code", {"code": "vienna"}, False),
    ],
)
async def test_a_word_answers_the_gateways_question_for_the_same_argument_alone(
    asked: str, arguments: dict[str, Any], sent: bool
) -> None:
    members = {"type": "object", "properties": {"city_id": {}, "area_id": {}}}
    rows = [parameter("code", "query", {}), parameter("code_id", "query", {}, description="Code")]
    rows.append(parameter("filter", "query", members, style="deepObject", explode=True))
    document = {"openapi": "3.1.0", "paths": {"/stays": {"get": {"operationId": "stays", "parameters": rows}}}}
    (one,) = operations_of(document)[0]
    async with served_api(users) as (server, api):
        made = empty_toolbox()
        made.add([OperationTool(one, api)])
        question = f"For “stays” I need more information:\n- {asked}"
        await result(Execution(made, LIMITS, Exchange(rights=EVERYTHING), (question, "Wien")), arguments, "act_stays")
    assert (server.requests != []) is sent


ROWS = [{"id": f"u{n}", "name": f"user {n}"} for n in range(2000)]


async def many(_request: ApiRequest) -> Reply:
    return Reply(body=orjson.dumps({"results": ROWS}), headers=[("Content-Type", "application/json")])


def budgeted(api: Api, **limits: Any) -> Execution:
    return Execution(toolbox(api), replace(LIMITS, **limits), Exchange(rights=EVERYTHING), (QUESTION,))


def id_in(text: str) -> str:
    return text.partition("with the id ")[2].split()[0]


async def test_a_cut_result_stays_on_the_shelf_and_the_values_that_are_read_there_can_be_sent() -> None:
    async with served_api(many, fixed={"groupId": "g1"}) as (server, api):
        running = execution(api)
        cut = await result(running, GOLD)
        assert "read_result" in cut
        assert "Nothing was sent" in await result(running, changed(orgId="u1777"))
        page = await result(running, {"id": id_in(cut), "path": "/results/1770-1779"}, "read_result")
        assert orjson.loads(page) == ROWS[1770:1780]
        assert "read_result" in await result(running, changed(orgId="u1777"))
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"id": "abc"}, "No result has this id"),
        ({}, "id is missing"),
        ({"id": "abc", "start": -1}, "start must be at least 0"),
        ({"id": "abc", "page": 2}, "page is unknown"),
    ],
)
async def test_a_wrong_call_of_the_shelf_gets_a_sentence(arguments: dict[str, Any], reason: str) -> None:
    async with served_api(many, fixed={"groupId": "g1"}) as (_, api):
        running = execution(api)
        await result(running, GOLD)
        assert reason in await result(running, arguments, "read_result")


async def test_an_unknown_path_does_not_make_a_value_of_the_path_known() -> None:
    async with served_api(many, fixed={"groupId": "g1"}) as (server, api):
        running = execution(api)
        id = id_in(await result(running, GOLD))
        text = await result(running, {"id": id, "path": "/results/5f0c1f"}, "read_result")
        assert text == "The path names no place: this place has 2000 elements, from 0; a range is 0-9."
        assert "Nothing was sent" in await result(running, changed(orgId="5f0c1f"))
    assert len(server.requests) == 1


async def test_a_short_result_needs_no_shelf() -> None:
    async with served_api(users, fixed={"groupId": "g1"}) as (_, api):
        running = execution(api)
        assert "read_result" not in await result(running, GOLD)
        text = await result(running, {"id": "x"}, "read_result")
        assert text.startswith("Nothing was sent: no tool has the name")


@pytest.mark.parametrize("word", ["user", "пользователь", "利用者"])
async def test_the_results_of_a_chat_share_the_tokens(word: str) -> None:
    async def named(_request: ApiRequest) -> Reply:
        rows = [{"id": n, "name": f"{word * 10} {n}"} for n in range(2000)]
        return Reply(body=orjson.dumps(rows), headers=[("Content-Type", "application/json")])

    async with served_api(named, fixed={"groupId": "g1"}) as (_, api):
        running = budgeted(api, settings=replace(LIMITS.settings, result_tokens=2500))
        texts = [await result(running, GOLD) for _ in range(8)]
    sizes = [len(text.encode()) for text in texts]
    notes = 8 * 250
    assert sum(sizes) <= 2500 * 4 + 8 * 400 + notes
    assert sizes[0] > 4000
    assert "shorter now" not in texts[0]
    assert all("shorter now" in text and len(text.encode()) < 400 + 250 for text in texts[-4:])


async def test_ten_thousand_calls_are_few_entries_in_the_trace_and_in_the_header() -> None:
    async with served_api(accepts, fixed={"groupId": "fixed-group"}) as (server, api):
        running = execution(api)
        running.chat.calls_left = 12
        gold = orjson.dumps(GOLD).decode()
        texts = await running.results([ToolCall(f"c{number}", "act_listUsers", gold) for number in range(10_000)])
        again = await running.results([ToolCall("c", "act_listUsers", gold)])
    assert len(server.requests) == 12
    assert texts[:12] == ['{"ok":true}'] * 12
    assert set(texts[12:] + again) == {
        "Nothing was sent: the limit of calls for this answer is reached. Answer with what is known."
    }
    assert [one.outcome for one in running._trace.calls] == ["ok"] * 12 + ["limit"] * 2
    assert running._trace.calls[12].result.startswith("(9,988 calls) Nothing was sent")
    running._trace.calls *= 100
    assert len(list(running._trace.timings(0.0))) == 20
    assert len(" ".join(running._trace.words())) < 300


async def test_arguments_of_the_wrong_type_are_sent_as_the_schema_says() -> None:
    async with served_api(accepts, fixed={"groupId": "fixed-group"}) as (server, api):
        assert await result(execution(api), changed(limit="20", team="red/blue", since=None)) == '{"ok":true}'
        assert await result(execution(api), GOLD) == '{"ok":true}'
    assert server.targets[0] == server.targets[1]


async def test_no_call_starts_after_the_bytes_of_a_chat() -> None:
    async with served_api(many, fixed={"groupId": "g1"}) as (server, api):
        running = budgeted(api, total_bytes=100_000)
        assert not running.over
        for _ in range(3):
            await result(running, GOLD)
        assert running.over
        assert "limit" in await result(running, GOLD)
    assert len(server.requests) == 2


async def test_a_call_of_another_tool_is_answered_with_the_names_of_all_tools() -> None:
    async with served_api(users) as (server, api):
        made = toolbox(api)
        made.taken = {"weather", "clock"}
        text = await result(Execution(made, LIMITS, Exchange(rights=EVERYTHING), (QUESTION,)), {}, "get_weather")
    assert text.endswith(
        "no tool has the name 'get_weather'. The tools are act_listUsers, act_deleteUsers, clock, weather."
    )
    assert server.targets == []


@all_rows("name", ["act_listUsers", "listUsers"])
@all_rows("way", ["native", "text"])
@all_rows("value", ['"caf\\ud83d"', "9" * 30, *("[" * n + "]" * n for n in (400, 1000)), "NaN"])
async def test_a_value_that_cannot_be_written_ends_no_chat(value: str, way: ToolProtocol, name: str) -> None:
    one = ToolCall("c1", name, f'{{"orgId": "5f0c1e", "q": {value}}}')
    async with served_api(users, fixed={"groupId": "g1"}) as (server, api):
        made = toolbox(api)
        made.tool_protocol = way
        running = Execution(made, LIMITS, Exchange(rights=EVERYTHING), (QUESTION,))
        (text,) = await running.results([one])
        assert running.repeats(one)
    assert text.startswith("Nothing was sent: ")
    assert server.requests == []


async def test_half_a_pair_of_surrogates_in_a_wrong_call_ends_no_chat() -> None:
    async with served_api(users, fixed={"groupId": "fixed-group"}) as (server, api):
        running = execution(api)
        running._toolbox.tool_protocol = "text"
        await result(running, {"role": "admin"})  # without the id: the next wrong call may have another fault
        text = await result(running, '{"orgId": "5f0c1e", "team": ["\\ud83d"], "x": 1}')
    assert text.endswith('{"name": "act_listUsers", "arguments": {"orgId": "5f0c1e", "team": ["\\ud83d"]}}')
    assert server.requests == []


async def test_half_a_pair_of_surrogates_does_not_reach_a_search() -> None:
    async with served_api(users) as (_, api):
        running, asked = execution(api), []

        class Search(Tool):
            name = "search"
            description = ""
            schema = arguments_schema("query", query={"type": "string"})

            async def call(self, arguments: dict[str, Any], calling: Calling) -> ToolResult:
                asked.append(arguments)
                return Refused("The search does not work at present.", "failed")

        running._toolbox.add([Search()])
        await result(running, '{"query": "party \\ud83d"}', "search")
    assert asked == [{"query": "party ?"}]
