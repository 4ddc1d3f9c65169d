"""The values that an argument may have."""

from typing import Any

import msgspec
import pytest

from proxy.apis.call import Api, call, over_limit
from proxy.apis.openapi.operation import Body, CallPolicy
from proxy.apis.request import BadArgument
from proxy.apis.schema_check import problems
from retrieval.errors import RetrievalError
from tests.proxy.apis.calling import OK, QUICK, operation, served_api
from tests.support.api_server import ApiRequest, Reply

SIZE = {"type": "object", "properties": {"size": {"type": "string"}, "disks": {"type": "integer"}}}
CREATE = msgspec.structs.replace(
    operation("POST", "/clusters", "region"),
    body=Body("body", "application/json"),
    schema={
        "type": "object",
        "properties": {
            "region": {"type": "array", "items": {"type": "string"}},
            "body": SIZE,
        },
        "required": [],
    },
)
ALLOWED = {"region": ["eu", "us"], "body.size": ["M10"], "body.disks": ["1", "2"]}
API = Api("things", "https://things.example", policy=CallPolicy(allowed=ALLOWED))


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"region": ["eu", "us"], "body": {"size": "M10", "disks": 2}},
        {"region": "eu", "body": {"other": "x"}},
    ],
)
def test_allowed_values_are_sent(arguments: dict[str, Any]) -> None:
    assert API.request(CREATE, arguments).method == "POST"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"region": ["eu", "cn"]}, "region must be one of eu, us, not cn"),
        ({"region": "cn"}, "region must be one of eu, us, not cn"),
        ({"body": {"size": "M700"}}, "body.size must be one of M10, not M700"),
        ({"body": {"size": ["M10", "M700"]}}, "body.size must be one of M10, not M700"),
        ({"body": {"size": None}}, "body.size must be one of M10, not null"),
        ({"body": {"disks": 3}}, "body.disks must be one of 1, 2, not 3"),
        ({"body": {"disks": True}}, "body.disks must be one of 1, 2, not true"),
        ({"body": '{"size": "M700"}'}, 'body.size must be one of M10, not {"size": "M700"}'),
    ],
)
def test_other_values_are_not_sent(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(BadArgument) as error:
        API.request(CREATE, arguments)
    assert str(error.value) == told


def test_a_model_reads_the_allowed_values_in_the_schema() -> None:
    schema = API.schema_of(CREATE)
    body = schema["properties"]["body"]["properties"]
    assert schema["properties"]["region"]["items"]["enum"] == ["eu", "us"]
    assert (body["size"]["enum"], body["disks"]["enum"]) == (["M10"], [1, 2])
    assert problems(schema, {"region": ["cn"]})
    assert "enum" not in str(CREATE.schema)


async def test_a_call_above_the_limit_of_an_hour_is_not_sent() -> None:
    counted: list[tuple[str, str, int]] = []

    def count(key: str, label: str, most: int) -> float:
        counted.append((key, label, most))
        if len(counted) > 2:
            raise RetrievalError("the database is gone")
        return 0.0 if len(counted) == 1 else 1800.0

    async def answer(_: ApiRequest) -> Reply:
        return OK

    async with served_api(answer, policy=CallPolicy(calls_per_hour={"GET /things": 1, "other": 0})) as made:
        server, api = made
        assert (await call(api, operation(), {}, QUICK)).word == "ok"  # counted by nobody
        api.count = count
        outcomes = [await call(api, operation(), {}, QUICK, owner="key-1") for _ in range(3)]
        assert await over_limit(api, operation("GET", "/free"), "key-1") is None
    assert [one.word for one in outcomes] == ["ok", "limit", "limit"]
    assert outcomes[1].text == "Nothing was sent: listThings may be called 1 times an hour, and again in 30 min."
    assert (len(server.requests), counted[0]) == (2, ("key-1", "things/listThings", 1))
