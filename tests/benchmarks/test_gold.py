"""The replay of right and wrong calls: its reference of HTTP requests, its wrong calls, and a small set in full."""

import json
from pathlib import Path
from typing import Any

import pytest
import uvloop

from benchmarks.conformance.gold import measured, summary
from benchmarks.conformance.gold_mutants import KINDS, mutants
from benchmarks.conformance.gold_tasks import bfcl, restbench
from benchmarks.conformance.reference_request import received_request, reference_request

FUNCTIONS: list[tuple[str, dict[str, Any], str, dict[str, list[Any]]]] = [
    (
        "ship.track",
        {
            "parcel_id": {"type": "string", "description": "The parcel"},
            "legs": {"type": "array", "items": {"type": "integer"}},
            "speed": {"type": "string", "enum": ["slow", "fast"]},
            "weight": {"type": "float", "description": "In kilograms"},
        },
        "Where is the parcel px77 on the fast legs 3 and 4?",
        {"parcel_id": ["px77"], "legs": [[3, 4]], "speed": ["fast"], "weight": [2.0, ""]},
    ),
    (
        "mix_paint",
        {"colours": {"type": "array", "items": {"type": "string"}}, "size": {"type": "dict", "properties": {}}},
        "Mix blue and dark green for a wall of 3 by 4 metres",
        {"colours": [["blue", "dark green"]], "size": [{"width": [3], "height": [4]}]},
    ),
]
FILMS = {
    "openapi": "3.0.0",
    "info": {"title": "Films", "version": "1"},
    "paths": {
        "/search/film": {
            "get": {
                "operationId": "searchFilms",
                "summary": "Search films",
                "parameters": [{"name": "query", "in": "query", "required": True, "schema": {"type": "string"}}],
                "responses": {"200": {"description": "OK"}},
            }
        },
        "/film/{film_id}/season/{season_number}": {
            "parameters": [{"$ref": "#/components/parameters/film"}],
            "get": {
                "operationId": "season",
                "summary": "Show a season of a film",
                "parameters": [
                    {"name": "season_number", "in": "path", "required": True, "schema": {"type": "integer"}}
                ],
                "responses": {"200": {"description": "OK"}},
            },
        },
    },
    "components": {
        "parameters": {"film": {"name": "film_id", "in": "path", "required": True, "schema": {"type": "integer"}}}
    },
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in the form of both benchmarks."""
    made = tmp_path / "bfcl" / "possible_answer"
    made.mkdir(parents=True)
    rows, answers = [], []
    for number, (name, properties, question, accepted) in enumerate(FUNCTIONS):
        parameters = {"type": "dict", "properties": properties, "required": list(properties)[:2]}
        function = {"name": name, "description": f"{name} of things", "parameters": parameters}
        asked = [[{"role": "user", "content": question}]]
        rows.append(json.dumps({"id": f"s{number}", "question": asked, "function": [function]}))
        answers.append(json.dumps({"id": f"s{number}", "ground_truth": [{name: accepted}]}))
    (tmp_path / "bfcl" / "BFCL_v4_simple_python.json").write_text("\n".join(rows))
    (made / "BFCL_v4_simple_python.json").write_text("\n".join(answers))
    films = tmp_path / "films"
    films.mkdir()
    (films / "openapi.json").write_text(json.dumps(FILMS))
    solution = ["GET /search/film", "GET /film/{film_id}/season/{season_number}", "GET /gone"]
    row = {"_id": "f1", "text": "Who made the second season of Blue Hills?", "meta": {"solution": solution}}
    (films / "queries.jsonl").write_text(json.dumps(row))
    return tmp_path


@pytest.mark.parametrize("writes", [False, True], ids=["reads", "writes"])
def test_every_right_call_arrives_and_no_wrong_call(folder: Path, writes: bool) -> None:
    sets = [bfcl(folder / "bfcl", None, writes=writes), restbench(folder / "films", None, writes=writes)]
    bench = uvloop.run(measured(folder, sets, forms=1, writes=writes))
    assert bench.faults == []
    assert bool(bench.confirmed["bfcl"]) == writes
    assert bench.calls == bench.equal
    assert sum(bench.sent.values()) == 0
    assert bench.mutants == bench.explained
    page = summary(bench)
    assert "| DeepSeek (recorded) | 4/4 | 4/4 |" in page
    assert "tmdb: f1: GET /gone is not in the document" in page


def test_the_wrong_calls_have_every_kind(folder: Path) -> None:
    made = bfcl(folder / "bfcl", None)
    found = set()
    for task in made.tasks[:2]:
        (call,) = task.rounds[0]
        for one in mutants(made.document, call.method, call.path, "act_ship_track", call.arguments([])):
            assert (one.tool, one.arguments) != ("act_ship_track", call.arguments([]))
            found.add(one.kind)
    assert found <= set(KINDS)
    assert {"missing", "wrong type", "placeholder", "extra", "unknown operation", "look-alike name"} <= found


# The examples of OpenAPI 3.1.1, "Style Examples", and of RFC 6570.
STYLES: list[tuple[dict[str, Any], Any, str]] = [
    ({"in": "path", "style": "matrix"}, ["blue", "black"], "/p/;color=blue,black"),
    ({"in": "path", "style": "matrix", "explode": True}, ["blue", "black"], "/p/;color=blue;color=black"),
    ({"in": "path", "style": "matrix", "explode": True}, {"R": 100, "G": 200}, "/p/;R=100;G=200"),
    ({"in": "path", "style": "label"}, ["blue", "black"], "/p/.blue,black"),
    ({"in": "path", "style": "label", "explode": True}, ["blue", "black"], "/p/.blue.black"),
    ({"in": "path"}, {"R": 100, "G": 200}, "/p/R,100,G,200"),
    ({"in": "path", "explode": True}, {"R": 100, "G": 200}, "/p/R=100,G=200"),
    ({"in": "path"}, "a/b c", "/p/a%2Fb%20c"),
    ({"in": "query"}, ["blue", "black"], "/p/{color}?color=blue&color=black"),
    ({"in": "query", "explode": False}, {"R": 100, "G": 200}, "/p/{color}?color=R,100,G,200"),
    ({"in": "query"}, "", "/p/{color}?color="),
    ({"in": "query"}, 5.0, "/p/{color}?color=5"),
    ({"in": "query"}, 1e-9, "/p/{color}?color=1e-9"),
    ({"in": "query"}, True, "/p/{color}?color=true"),
    ({"in": "query", "style": "spaceDelimited", "explode": False}, ["a", "b"], "/p/{color}?color=a%20b"),
    ({"in": "query", "style": "pipeDelimited", "explode": False}, ["a", "b"], "/p/{color}?color=a%7Cb"),
    ({"in": "query", "style": "deepObject", "explode": True}, {"R": 1}, "/p/{color}?color%5BR%5D=1"),
]


@pytest.mark.parametrize(("place", "value", "target"), STYLES)
def test_the_reference_writes_the_examples_of_the_specification(place: dict[str, Any], value: Any, target: str) -> None:
    operation = {"parameters": [{"name": "color", **place, "schema": {}}], "responses": {}}
    made = reference_request({"paths": {"/p/{color}": {"get": operation}}}, "GET", "/p/{color}", {"color": value})
    assert made.path + ("?" + "&".join(made.query) if made.query else "") == target


def test_each_difference_of_a_request_is_found() -> None:
    body = b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\nx y\r\n--b--\r\n'
    headers = {"x-a": "1", "cookie": "c=1; d=2", "content-type": "multipart/form-data; boundary=b", "host": "h"}
    one = received_request("GET", "/p?a=1&b=2", headers, body)
    assert (one.cookies, one.body) == (("c=1", "d=2"), [("a", "x y")])
    for name, changed in [
        ("method", received_request("POST", "/p?a=1&b=2", headers, body)),
        ("path", received_request("GET", "/q?a=1&b=2", headers, body)),
        ("query", received_request("GET", "/p?b=2&a=1", headers, body)),
        ("headers", received_request("GET", "/p?a=1&b=2", {**headers, "x-b": ""}, body)),
        ("cookies", received_request("GET", "/p?a=1&b=2", {**headers, "cookie": "c=1"}, body)),
        ("body", received_request("GET", "/p?a=1&b=2", headers, body.replace(b"x y", b"x+y"))),
    ]:
        (difference,) = one.differences(changed, decoded=False)
        assert difference.startswith(f"{name}: ")
