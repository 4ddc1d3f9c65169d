"""What the gateway asks the person in place of the model, against an API that counts requests."""

from typing import Any

import orjson
import pytest

from proxy.agent.execution import Execution
from proxy.agent.toolbox import Toolbox
from proxy.agent.tools.operation_tool import OperationTool
from proxy.apis.call import Api
from proxy.apis.openapi.operations import operations_of
from proxy.caller import EVERYTHING
from proxy.dialects.replies import ToolCall
from proxy.dialects.target import ToolProtocol
from proxy.exchange import Exchange
from tests.proxy.apis.calling import served_api
from tests.support.action_offers import action_limits, empty_toolbox
from tests.support.api_server import ApiRequest, Reply

LIMITS = action_limits()
PEOPLE = [{"patient_id": 71, "name": "Ivo Stein"}, {"patient_id": 72, "name": "Lea Marsh"}]
OPTIONAL = {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "Name"}


def query(name: str, schema: Any, *, required: bool = False, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema, "required": required, **more}


def get(name: str, summary: str, *parameters: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"get": {"operationId": name, "summary": summary, "parameters": parameters, **more}}


PATIENT = {"name": "patient_id", "in": "path", "required": True, "schema": {"type": "integer"}}
DRUG = {"name": "drug_id", "in": "path", "required": True, "schema": {"type": "integer"}}
DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "paths": {
        "/patients": get("patients", "The patients", query("name", OPTIONAL, description="Name of the patient")),
        "/patients/{patient_id}/visits": get("visits", "The visits of a patient", PATIENT),
        "/drugs/search": get(
            "search", "Search drugs",
            query("title", {"type": "string"}, required=True, description="Title or part of the title"),
            query("year", {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        ),
        "/drugs/{drug_id}": get("drug", "One drug", DRUG),
        "/wards/{ward_id}": get("ward", "One ward", {**DRUG, "name": "ward_id"}),
        "/wards": get("wards", "The wards"),
        "/shoes": get(
            "shoes", "The shoes in a size",
            query("size", {"enum": ["S", "M", "L"]}, required=True, description="Size of the person"),
            query("colour", {"type": "string"}),
            query("model", {"type": "string"}, required=True),
        ),
    },
}  # fmt: skip
RESULTS = {"/patients": PEOPLE, "/drugs/search": {"results": []}, "/wards": [{"ward_id": 5}, {"ward_id": 6}]}


async def answers(request: ApiRequest) -> Reply:
    path = request.target.partition("?")[0]
    return Reply(body=orjson.dumps(RESULTS.get(path, {"ok": True})), headers=[("Content-Type", "application/json")])


def toolbox(api: Api, way: ToolProtocol = "text") -> Toolbox:
    made = empty_toolbox()
    made.tool_protocol = way
    made.add([OperationTool(one, api) for one in operations_of(DOCUMENT)[0]])
    return made


def chat(made: Toolbox, *said: str, known: tuple[str, ...] = ()) -> Execution:
    return Execution(made, LIMITS, Exchange(rights=EVERYTHING), (*said, *known), said)


async def call(running: Execution, name: str, /, **arguments: Any) -> str:
    return (await running.results([ToolCall("c1", f"act_{name}", orjson.dumps(arguments).decode())]))[0]


def asks(running: Execution, summary: str, *rows: str) -> bool:
    return running.question.splitlines() == [
        f"For “{summary}” I need more information:",
        *(f"- {row}" for row in rows),
    ]


SIZE = "size: Size of the person; one of S, M, L"


@pytest.mark.parametrize("way", ["native", "text"])
@pytest.mark.parametrize("given", [{"size": "M"}, {"size": None}, {"size": ""}, {"size": "<size>"}, {}])
async def test_a_value_that_only_the_person_knows_is_asked_for_at_once(
    way: ToolProtocol, given: dict[str, Any]
) -> None:
    async with served_api(answers) as (server, api):
        api.ask = ("size",)
        running = chat(toolbox(api, way), "Which trail shoes fit me? I'm tall.")
        await call(running, "shoes", model="trail", **given)
    assert asks(running, "The shoes in a size", SIZE)
    assert server.requests == []


@pytest.mark.parametrize("way", ["native", "text"])
@pytest.mark.parametrize("said", ["I wear M.", "medium, please", "In m?"])
async def test_a_value_that_the_person_said_is_sent(way: ToolProtocol, said: str) -> None:
    async with served_api(answers) as (server, api):
        api.ask = ("size",)
        running = chat(toolbox(api, way), "Which trail shoes fit me?", said)
        await call(running, "shoes", model="trail", size="M")
    assert running.question == ""
    assert server.targets == ["/shoes?size=M&model=trail"]


async def test_words_of_the_model_and_of_results_are_no_words_of_the_person() -> None:
    async with served_api(answers) as (_, api):
        api.ask = ("size",)
        running = chat(toolbox(api), "Which trail shoes fit me?", known=("You wear size M.", '{"size": "M"}'))
        await call(running, "shoes", model="trail", size="M")
    assert asks(running, "The shoes in a size", SIZE)


async def test_an_answer_in_another_language_is_taken_after_the_question() -> None:
    question = f"For “The shoes in a size” I need more information:\n- {SIZE}"
    async with served_api(answers) as (server, api):
        api.ask = ("size",)
        running = chat(toolbox(api), "Welche Schuhe trail?", "mittel", known=(question,))
        await call(running, "shoes", model="trail", size="M")
        assert len(server.requests) == 1
        running = chat(toolbox(api), "Welche Schuhe trail?", "Welche gibt es?", known=(question,))
        await call(running, "shoes", model="trail", size="M")
    assert asks(running, "The shoes in a size", SIZE)
    assert len(server.requests) == 1


async def test_an_optional_value_is_asked_for_only_where_the_model_gives_one() -> None:
    async with served_api(answers) as (server, api):
        api.ask = ("colour",)
        running = chat(toolbox(api), "trail shoes in M")
        await call(running, "shoes", model="trail", size="M")
        assert running.question == ""
        await call(running, "shoes", model="trail", size="M", colour="red")
    assert asks(running, "The shoes in a size", "colour")
    assert len(server.requests) == 1


@pytest.mark.parametrize("where", ["parameter", "schema", "operation", "path", "document"])
async def test_the_document_names_values_that_only_a_person_knows(where: str) -> None:
    size = query("size", {"enum": ["S", "M"]}, required=True)
    item = get("shoes", "Shoes", size, query("model", {"type": "string"}))
    document: dict[str, Any] = {"openapi": "3.1.0", "paths": {"/shoes": item}}
    holder = {"parameter": size, "schema": size["schema"], "operation": item["get"], "path": item}.get(where, document)
    holder["x-ragway-ask"] = True if where in ("parameter", "schema") else ["size"]
    (one,), _ = operations_of(document)
    async with served_api(answers) as (server, api):
        made = empty_toolbox()
        made.add([OperationTool(one, api)])
        running = chat(made, "Which shoes fit me?")
        await call(running, "shoes", size="M", model="a")
    assert asks(running, "Shoes", "size: one of S, M")
    assert server.requests == []


@pytest.mark.parametrize("value", [None, "", "  ", "<model>", "your_model", "unknown", "N/A", "null", "…"])
async def test_a_small_model_that_writes_no_value_makes_the_gateway_ask_at_once(value: Any) -> None:
    async with served_api(answers) as (server, api):
        running = chat(toolbox(api), "Which shoes in M?")
        await call(running, "shoes", size="M", model=value)
    assert asks(running, "The shoes in a size", "model")
    assert server.requests == []


async def test_a_word_of_the_person_is_no_placeholder() -> None:
    async with served_api(answers) as (server, api):
        running = chat(toolbox(api), "Which shoes of the model Unknown in M?")
        await call(running, "shoes", size="M", model="Unknown")
    assert len(server.requests) == 1


@pytest.mark.parametrize("value", [None, "", "<drug_id>"])
async def test_the_person_is_asked_for_what_finds_an_identifier(value: Any) -> None:
    async with served_api(answers) as (_, api):
        running = chat(toolbox(api), "What is in my drug?")
        await call(running, "drug", drug_id=value)
        assert asks(running, "One drug", "title: Title or part of the title")
        running = chat(toolbox(api), "Which visits do I have?")
        await call(running, "visits", patient_id=value)
    assert asks(running, "The visits of a patient", "name: Name of the patient")


async def test_an_invented_identifier_leads_to_the_search_with_the_words_of_the_question() -> None:
    async with served_api(answers) as (_, api):
        running = chat(toolbox(api), "Which visits does Lea Marsh have?")
        text = await call(running, "visits", patient_id=123456)
    assert text.endswith(
        "If the question needs the values, call act_patients: answer with "
        '{"name": "act_patients", "arguments": {"name":"Lea Marsh"}}'
    )
    assert running.question == ""


@pytest.mark.parametrize(
    ("passages", "sure", "asked"), [(False, False, True), (True, True, True), (True, False, False)]
)
async def test_an_invented_identifier_of_a_question_that_names_nothing_makes_the_gateway_ask(
    passages: bool, sure: bool, asked: bool
) -> None:
    async with served_api(answers) as (server, api):
        made = toolbox(api)
        made.passages, made.sure = ["a text"] if passages else [], sure
        running = chat(made, "Which visits do I have?")
        text = await call(running, "visits", patient_id=123456)
    assert asks(running, "The visits of a patient", "name: Name of the patient") is asked
    assert text.startswith("Nothing was sent")
    assert server.requests == []


async def test_an_answer_to_the_question_is_the_name() -> None:
    question = "For “The visits of a patient” I need more information:\n- name: Name of the patient"
    async with served_api(answers) as (_, api):
        running = chat(toolbox(api), "Which visits do I have?", "lea marsh", known=(question,))
        text = await call(running, "visits", patient_id=None)
    assert '"arguments": {"name":"lea marsh"}' in text


async def test_a_list_without_filter_is_called_for_an_identifier() -> None:
    async with served_api(answers) as (_, api):
        running = chat(toolbox(api), "What is my ward like?")
        text = await call(running, "ward", ward_id=None)
        assert (running.question, '{"name": "act_wards", "arguments": {}}' in text) == ("", True)
        await call(running, "wards")
        await call(running, "ward", ward_id=5)
    assert asks(running, "One ward", "which one")


async def test_a_row_that_the_person_has_not_named_makes_the_gateway_ask() -> None:
    async with served_api(answers) as (server, api):
        running = chat(toolbox(api, "text"), "Which visits do I have?")
        await call(running, "patients")
        await call(running, "visits", patient_id=71)
    assert asks(running, "The visits of a patient", "which one: name")
    assert "Ivo" not in running.question
    assert server.targets == ["/patients"]


async def test_a_row_that_the_person_named_is_sent() -> None:
    async with served_api(answers) as (server, api):
        running = chat(toolbox(api), "Which visits does Lea Marsh have?")
        await call(running, "patients")
        assert "Now" not in await call(running, "visits", patient_id=72)
    assert server.targets == ["/patients", "/patients/72/visits"]


async def test_another_row_than_the_person_named_is_named_for_the_model() -> None:
    async with served_api(answers) as (server, api):
        running = chat(toolbox(api), "Which visits does Lea Marsh have?")
        await call(running, "patients")
        text = await call(running, "visits", patient_id=71)
    assert '{"name": "act_visits", "arguments": {"patient_id":72}}' in text
    assert running.question == ""
    assert server.targets == ["/patients"]


async def test_a_result_of_an_earlier_question_is_a_list_too() -> None:
    async with served_api(answers) as (server, api):
        earlier = orjson.dumps(PEOPLE).decode()
        running = Execution(
            toolbox(api), LIMITS, Exchange(rights=EVERYTHING), ("My visits?", earlier), ("My visits?",), (earlier,)
        )
        await call(running, "visits", patient_id=71)
    assert asks(running, "The visits of a patient", "which one: name")
    assert server.requests == []


async def test_a_name_that_the_model_made_up_names_no_row() -> None:
    async def one_row(_request: ApiRequest) -> Reply:
        return Reply(body=orjson.dumps(PEOPLE[:1]), headers=[("Content-Type", "application/json")])

    async with served_api(one_row) as (server, api):
        running = chat(toolbox(api), "Which visits do I have?")
        await call(running, "patients", name="Ivo Stein")
        await call(running, "visits", patient_id=71)
    assert asks(running, "The visits of a patient", "which one")
    assert server.targets == ["/patients?name=Ivo%20Stein"]


async def test_after_the_question_the_answer_may_have_other_words() -> None:
    question = "For “The visits of a patient” I need more information:\n- which one: name"
    async with served_api(answers) as (server, api):
        running = chat(toolbox(api), "Which visits do I have?", "the first one", known=(question,))
        await call(running, "patients")
        await call(running, "visits", patient_id=71)
    assert server.targets == ["/patients", "/patients/71/visits"]


async def test_a_model_that_calls_by_tools_chooses_rows_itself() -> None:
    async with served_api(answers) as (server, api):
        running = chat(toolbox(api, "native"), "Which patient has most visits?")
        await call(running, "patients")
        await call(running, "visits", patient_id=71)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ({"title": "Noradol", "year": 2031}, "Leave out `year`, or tell the user that nothing was found."),
        ({"title": "Noradol"}, "Tell the user so, and make up nothing."),
        ({"title": "Noradol", "year": None}, "Tell the user so, and make up nothing."),
    ],
)
async def test_an_empty_result_is_said(given: dict[str, Any], advice: str) -> None:
    async with served_api(answers) as (_, api):
        text = await call(chat(toolbox(api), "What is in Noradol?"), "search", **given)
        native = await call(chat(toolbox(api, "native"), "What is in Noradol?"), "search", **given)
    assert text == f'{{"results":[]}}\n\nNothing was found. {advice}'
    assert native == '{"results":[]}'


@pytest.mark.parametrize("passages", [False, True])
async def test_passages_may_answer_beside_a_result(passages: bool) -> None:
    async with served_api(answers) as (_, api):
        made = toolbox(api)
        made.passages = ["a text"] if passages else []
        text = await call(chat(made, "Drug 123456?"), "drug", drug_id=123456)
    assert ("the passages answer the question" in text) is passages
    assert "answer the user now" in text


@pytest.mark.parametrize(
    ("summary", "row", "answer", "call"),
    [
        ("The visits of a patient", "name: Name of the patient", "I am Lea Marsh.",
         '{"name": "act_patients", "arguments": {"name":"Lea Marsh"}}'),
        ("The visits of a patient", "name: Name of the patient", "lea marsh",
         '{"name": "act_patients", "arguments": {"name":"lea marsh"}}'),
        ("The shoes in a size", SIZE, "M", "one JSON object alone, which calls act_shoes"),
    ],
)  # fmt: skip
async def test_the_model_reads_how_to_go_on_after_the_answer(summary: str, row: str, answer: str, call: str) -> None:
    question = f"For “{summary}” I need more information:\n- {row}"
    async with served_api(answers) as (_, api):
        running = chat(toolbox(api), "And mine?", answer, known=(question,))
        assert running.after_question(question).endswith(f"answer with {call}")
        assert running.after_question("Which one?") == ""
