"""What holds of OpenAPI: for each part of the specification, whether the right requests are sent.

    python benchmarks/conformance/openapi_fidelity.py [--beside PYTHON]

Each call of `openapi_cases.py` goes to an API on loopback that records the request, which must equal the request of
`reference_request.py`, written from RFC 6570. A wrong call must send nothing. The schema that a model gets must accept
and refuse the same values as the document, judged by `jsonschema`. Requests with a body are built by the gateway and
sent by this script, because the gateway sends no request that could change something.

PYTHON is an interpreter with `litellm[proxy]`: LiteLLM's tools of the same documents are called with the same arguments
in the same run. The table goes to standard output, the differences to standard error. Exit code 1: a case of ragway
differs.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from jsonschema import Draft202012Validator

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common.output import say, table
from benchmarks.conformance.openapi_cases import (
    RequestCase,
    SchemaCase,
    operation_of,
    request_cases,
    schema_cases,
)
from benchmarks.conformance.reference_request import received_request
from proxy.apis.call import Api, CallLimits, call
from proxy.apis.openapi.operation import Operation
from proxy.apis.request import BadArgument
from proxy.apis.schema_check import problems
from proxy.apis.specs import read_document
from runtime.public_addresses import networks_of
from tests.support.api_server import ApiRequest, Reply, api_server

Json = dict[str, Any]
_PEER = Path(__file__).with_name("litellm_openapi.py")


class Result(NamedTuple):
    """The differences of a case; "": none."""

    part: str
    ragway: str
    litellm: str


def operation(document: Json) -> Operation:
    """The one operation, as the gateway reads the document."""
    (found,) = read_document(json.dumps(document).encode()).operations
    return found


async def send(case: RequestCase, base_url: str) -> None:
    """Make the call as `ragway actions run` does."""
    api = Api("cases", base_url, networks=networks_of(["127.0.0.0/8"]))
    try:
        one = operation(case.document)
        names = {parameter.name: parameter.argument for parameter in one.parameters}  # a model gives `page_size`
        arguments = {names.get(name, name): value for name, value in case.arguments.items()}
        if problems(api.schema_of(one), arguments):
            return
        if not one.why_not_called:
            await call(api, one, arguments, CallLimits())
            return
        try:
            built = api.request(one, arguments)
        except BadArgument:
            return
        async with httpx.AsyncClient(trust_env=False) as client:
            await client.request(built.method, built.url, headers=list(built.headers), content=built.body)
    finally:
        await api.close()


def difference(case: RequestCase, received: Sequence[ApiRequest], prefix: str) -> str:
    """The difference between the expected request and the received requests; "": none."""
    if case.expected is None or not received:
        return "" if case.expected is None and not received else f"{len(received)} requests"
    one = received[0]
    target = one.target.removeprefix(prefix).replace("+", "%20")  # a space in both ways of encoding
    made = received_request(one.method, target, one.headers, one.body)
    if not any(name == "accept" for name, _ in case.expected.headers):
        made = replace(made, headers=tuple(pair for pair in made.headers if pair[0] != "accept"))
    return "; ".join(case.expected.differences(made, decoded=case.decoded))


def misjudged(case: SchemaCase, schema: Mapping[str, Any]) -> str:
    """The values that the schema of the arguments judges wrong; "": none."""
    judge = Draft202012Validator(schema)
    wrong = [one for one in case.wrong if judge.is_valid({case.argument: one})]
    right = [one for one in case.right if not judge.is_valid({case.argument: one})]
    return "; ".join([*(f"accepts {one!r}" for one in wrong), *(f"refuses {one!r}" for one in right)])


async def measured(peer: str) -> tuple[list[Result], list[Result]]:
    """The results of the requests and of the schemas. peer: LiteLLM's interpreter; "" measures ragway alone."""
    calls, schemas = list(request_cases()), list(schema_cases())
    received: dict[str, list[ApiRequest]] = {}

    async def answer(request: ApiRequest) -> Reply:
        received.setdefault("/".join(request.target.split("/")[:3]), []).append(request)
        return Reply(200, b"{}", [("content-type", "application/json")])

    async with api_server(answer) as server:
        for number, case in enumerate(calls):
            await send(case, f"{server.base_url}/ragway/{number}")
        theirs = await asyncio.to_thread(_peer, peer, calls, schemas, server.base_url) if peer else []

    def found(number: int, who: str) -> str:
        return difference(calls[number], received.get(f"/{who}/{number}", []), f"/{who}/{number}")

    sent = [Result(case.part, found(at, "ragway"), found(at, "litellm")) for at, case in enumerate(calls)]
    judged = []
    for at, one in enumerate(schemas):
        mine = misjudged(one, operation(one.document).schema)
        judged.append(Result(one.part, mine, misjudged(one, theirs[at]) if peer else ""))
    return sent, judged


def _peer(python: str, calls: Sequence[RequestCase], schemas: Sequence[SchemaCase], base_url: str) -> Sequence[Json]:
    """LiteLLM's schemas, after LiteLLM's calls."""
    given: dict[str, list[Json]] = {"calls": [], "schemas": []}
    for number, case in enumerate(calls):
        method, path = operation_of(case.document)
        one = {"document": case.document, "method": method, "path": path, "arguments": case.arguments}
        given["calls"].append({**one, "base_url": f"{base_url}/litellm/{number}"})
    for schema in schemas:
        method, path = operation_of(schema.document)
        given["schemas"].append({"document": schema.document, "method": method, "path": path})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "given.json"
        file.write_text(json.dumps(given), "utf-8")
        done = subprocess.run([python, str(_PEER), str(file)], capture_output=True, check=True, text=True)
    schemas_of: Sequence[Json] = json.loads(done.stdout.splitlines()[-1])
    return schemas_of


def rows(results: Sequence[Result], *, peer: bool) -> list[list[str]]:
    """A row for each part: the number of cases, and how many hold."""
    made = []
    for part in dict.fromkeys(one.part for one in results):
        cases = [one for one in results if one.part == part]
        held = [sum(not one.ragway for one in cases), *([sum(not one.litellm for one in cases)] if peer else [])]
        made.append([part, str(len(cases)), *map(str, held)])
    return made


async def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Check each part of OpenAPI with real requests.")
    parser.add_argument("--beside", metavar="PYTHON", default="", help="interpreter with litellm[proxy]")
    given = parser.parse_args()
    sent, judged = await measured(given.beside)
    heads = ["cases", "ragway", *(["LiteLLM"] if given.beside else [])]
    for title, results in (("requests", sent), ("the schema for the model", judged)):
        print(table([title, *heads], rows(results, peer=bool(given.beside))) + "\n")
    for one in (*sent, *judged):
        if one.ragway:
            say(f"ragway: {one.part}: {one.ragway}")
        if given.beside and one.litellm:
            say(f"LiteLLM: {one.part}: {one.litellm}")
    return int(any(one.ragway for one in (*sent, *judged)))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
