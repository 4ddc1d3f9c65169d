"""The right calls of BFCL and RestBench, as operations of OpenAPI documents and rounds of calls.

BFCL's functions become operations. A hash decides the place of each parameter: path, query, header, cookie or body, in
every style. Only a value that stands in the question goes into the path, because a value of a path is an identifier.
RestBench names the operations in order. The values come from the question, and the identifiers from the results before.

With `writes`, the calls change something: BFCL's functions have other methods than GET, and the last operation of each
question of RestBench, which only reads, is the POST of the same path.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.conformance.reference_request import parameters_of

Json = dict[str, Any]
_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": ""}
_RESPONSES = {"200": {"description": "OK", "content": {"application/json": {}}}}
_BODIES = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
_STYLES: Mapping[str, Json] = {
    "simple": {"in": "path"},
    "label": {"in": "path", "style": "label"},
    "matrix": {"in": "path", "style": "matrix"},
    "simple, exploded": {"in": "path", "explode": True},
    "label, exploded": {"in": "path", "style": "label", "explode": True},
    "matrix, exploded": {"in": "path", "style": "matrix", "explode": True},
    "query": {"in": "query"},
    "query, joined": {"in": "query", "explode": False},
    "query, reserved": {"in": "query", "allowReserved": True},
    "query, spaces": {"in": "query", "style": "spaceDelimited", "explode": False},
    "query, pipes": {"in": "query", "style": "pipeDelimited", "explode": False},
    "query, deep": {"in": "query", "style": "deepObject", "explode": True},
    "query, JSON": {"in": "query", "content": {}},
    "header": {"in": "header"},
    "cookie": {"in": "cookie"},
    "cookie, joined": {"in": "cookie", "explode": False},
    "body": {},
}
_PLAIN = ("query", "query, reserved", "query, JSON", "header", "cookie", "body", "body")
_PLAIN_PATHS = ("simple", "label", "matrix")
_LISTS = ("query", "query, joined", "query, spaces", "query, pipes", "query, JSON", "header", "cookie, joined", "body")
_LIST_PATHS = (*_PLAIN_PATHS, "simple, exploded", "label, exploded", "matrix, exploded")
_OBJECTS = ("query", "query, joined", "query, deep", "query, JSON", "body")
_WRITING = ("post", "put", "patch")
_KNOWN_ID = "8817"  # where no earlier operation finds the identifier
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


@dataclass(frozen=True, slots=True)
class GoldCall:
    """A right call. arguments: from the texts of the results so far."""

    method: str
    path: str
    arguments: Callable[[Sequence[str]], Json]
    words: str  # what the operation does
    id: str  # of the operation

    @property
    def queries(self) -> Sequence[str]:
        """Queries for `find_actions`, one after the other until the operation is a tool."""
        return f"{self.method} {self.path}", self.words, f"{self.words} {self.path}"


@dataclass(frozen=True, slots=True)
class Task:
    """A question with the rounds of right calls."""

    name: str
    set: str
    question: str
    rounds: Sequence[Sequence[GoldCall]]


@dataclass(slots=True)
class GoldSet:
    """An action set with the tasks."""

    name: str
    document: Json
    tasks: list[Task] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what differs from the data
    places: dict[str, int] = field(default_factory=dict)  # how often a parameter stands there

    @property
    def reference(self) -> Json:
        """The document without references."""
        return _without_references(self.document)


def bfcl(folder: Path, limit: int | None, *, writes: bool = False) -> GoldSet:
    """BFCL's functions with one call each, and pairs of two tasks in one question."""
    made = GoldSet("bfcl", {"openapi": "3.1.0", "info": {"title": "BFCL", "version": "1"}, "paths": {}})
    answers = {row["id"]: row["ground_truth"] for row in _rows(folder / "possible_answer/BFCL_v4_simple_python.json")}
    for number, row in enumerate(_rows(folder / "BFCL_v4_simple_python.json")[:limit]):
        question = "\n".join(message["content"] for message in row["question"][0])
        ((_, accepted),) = answers[row["id"]][0].items()
        (function,) = row["function"]
        methods = _WRITING if writes else ("get",)
        values = _chosen(accepted, function)
        made.tasks.append(_bfcl_task(made, number, row["id"], question, function, values, methods))
    singles = list(made.tasks)
    for one, other in zip(singles[::2], singles[1::2], strict=False):
        calls = [*one.rounds[0], *other.rounds[0]]
        made.tasks.append(Task(f"{one.name}+", "bfcl", f"{one.question}\n{other.question}", [calls]))
    return made


def _rows(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()]


def _chosen(accepted: Mapping[str, list[Any]], function: Json) -> Json:
    """The first accepted value of each argument. A first "" leaves out an argument that is not required."""
    chosen: Json = {}
    for name, values in accepted.items():
        given = [value for value in values if value != ""]
        if given and (values[0] != "" or name in function["parameters"].get("required", ())):
            chosen[name] = _plain(given[0])
    return chosen


def _plain(value: Any) -> Any:
    """Within objects, too, each member has a list of accepted values."""
    if isinstance(value, dict):
        return {name: _plain(one[0]) for name, one in value.items() if isinstance(one, list) and one and one[0] != ""}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _bfcl_task(
    made: GoldSet, number: int, name: str, question: str, function: Json, values: Json, methods: Sequence[str]
) -> Task:
    schema = function["parameters"]
    required = schema.get("required", [])
    body_type = _BODIES[_hash(name) % len(_BODIES)]
    path = f"/t{number}/{_slug(function['name'])}"
    parameters: list[Json] = []
    members, arguments = dict[str, Json](), dict[str, Any]()
    for each, given in schema["properties"].items():
        value, needed = values.get(each), each in required
        row = _schema(given)
        style = _style(f"{name}.{each}", row, value, body_type, in_path=needed and _stands(value, question))
        made.places[style] = made.places.get(style, 0) + 1
        if style == "body":
            members[each] = row
            if each in values:
                arguments.setdefault("body", {})[each] = value
            continue
        place = dict(_STYLES[style])
        called = f"X-{each}" if place["in"] == "header" else ("text" if each == "body" else each)
        parameter = {"name": called, "required": needed, **place}
        parameter |= {"content": {"application/json": {"schema": row}}} if "content" in place else {"schema": row}
        parameters.append({**parameter, "description": row.get("description", "")})
        if place["in"] == "path":
            path += f"/{{{called}}}"
        if each in values:
            arguments[called] = value
    operation: Json = {
        "operationId": function["name"],
        "summary": function["description"],
        "parameters": parameters,
        "responses": _RESPONSES,
    }
    if members:
        inner = [each for each in required if each in members]
        body = {"type": "object", "properties": members, "required": inner, "additionalProperties": False}
        operation["requestBody"] = {"required": bool(inner), "content": {body_type: {"schema": body}}}
    method = methods[_hash(f"method {name}") % len(methods)]
    if len(methods) > 1 and not members:
        method = "delete"
    made.document["paths"][path] = {method: operation}
    call = GoldCall(method.upper(), path, lambda _: arguments, function["description"], function["name"])
    return Task(name, "bfcl", question, [[call]])


def _style(seed: str, schema: Json, value: Any, body_type: str, *, in_path: bool) -> str:
    """The place of a parameter, of all places that can hold the value."""
    items = schema.get("items", {})
    flat = not any(isinstance(one, list | dict) for one in (_members(value)))
    styles: tuple[str, ...]
    match schema.get("type"):
        case "array":
            styles = (*_LISTS, *(_LIST_PATHS if in_path else ())) if flat else ("query, JSON", "body")
            flat = flat and items.get("type") not in ("array", "object")
        case "object":
            styles = _OBJECTS if flat and value else ("query, JSON", "body")
            flat = False
        case None:
            styles, flat = ("query, JSON", "body"), False
        case _:
            styles = (*_PLAIN, *(_PLAIN_PATHS * 2 if in_path else ()))
    if not json.dumps(value, ensure_ascii=False).isascii():
        styles = tuple(one for one in styles if one != "header")
    if body_type != "application/json" and not flat:
        styles = tuple(one for one in styles if one != "body")
    return styles[_hash(seed) % len(styles)]


def _members(value: Any) -> Sequence[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def _stands(value: Any, question: str) -> bool:
    """Whether each part of the value stands in the question, word for word."""
    parts = value if isinstance(value, list) else [value]
    return bool(parts) and all(
        not isinstance(one, bool | list | dict | None)
        and re.search(rf"(?<![\w.]){re.escape(str(one).strip().lower())}(?![\w.]*\w)", question.lower())
        and not re.search(r"[.,/\\]", str(one))
        for one in parts
    )


def _schema(given: Any) -> Json:
    """A schema of BFCL as JSON Schema."""
    made = {key: value for key, value in given.items() if key in ("description", "enum", "default")}
    if kind := _TYPES.get(given.get("type"), given.get("type")):
        made["type"] = kind
    if isinstance(given.get("properties"), dict):
        made["properties"] = {name: _schema(one) for name, one in given["properties"].items()}
        made["required"] = given.get("required", [])
    if isinstance(given.get("items"), dict):
        made["items"] = _schema(given["items"])
    return made


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def _slug(name: str) -> str:
    return re.sub(r"\W+", "-", name)


# --- RestBench -------------------------------------------------------------------------------------------------------


def restbench(folder: Path, limit: int | None, *, writes: bool = False) -> GoldSet:
    """RestBench's questions with the operations in order."""
    document = json.loads((folder / "openapi.json").read_text("utf-8"))
    for item in document["paths"].values():
        if writes and "get" in item:
            item["post"] = {**item["get"], "operationId": f"{item['get']['operationId']}-change"}
    made = GoldSet("tmdb", document)
    plain = made.reference
    for row in _rows(folder / "queries.jsonl")[:limit]:
        rounds, question = [], row["text"]
        if "{" in row["meta"]["solution"][0].replace("{media_type}/{time_window}", ""):
            question += f" (id {_KNOWN_ID})"
            made.notes.append(f"{row['_id']}: no search for the identifier, which stands in the question here")
        solutions = row["meta"]["solution"]
        for number, solution in enumerate(solutions, 1):
            method, _, path = solution.partition(" ")
            method = "POST" if writes and number == len(solutions) else method
            if path not in document["paths"]:
                made.notes.append(f"{row['_id']}: {solution} is not in the document")
                continue
            operation = plain["paths"][path][method.lower()]
            words = f"{operation.get('summary', '')}. {operation.get('description', '')}".partition("\n")[0]
            rounds.append(
                [
                    GoldCall(
                        method, path, _tmdb_arguments(plain, method, path, question), words, operation["operationId"]
                    )
                ]
            )
        made.tasks.append(Task(row["_id"], "tmdb", question, rounds))
    return made


def _tmdb_arguments(document: Json, method: str, path: str, question: str) -> Callable[[Sequence[str]], Json]:
    rows = parameters_of(document, method, path)

    def arguments(results: Sequence[str]) -> Json:
        return {row["name"]: _tmdb_value(row, question, results) for row in rows if row.get("required")}

    return arguments


def _tmdb_value(parameter: Json, question: str, results: Sequence[str]) -> Any:
    name, schema = parameter["name"], parameter["schema"]
    if "enum" in schema:
        words = {"tv": "tv|show|series", "movie": "movie|film", "person": "person|actor|people", "day": "today|day"}
        fit = (one for one in schema["enum"] if re.search(words.get(one, r"\A\Z"), question, re.IGNORECASE))
        return next(fit, schema["enum"][-1])
    if name == "query":
        return _title(question)
    if name.endswith("_number"):
        return _ordinal(name.removesuffix("_number"), question)
    found = [one for text in results for one in re.findall(r'"id": ?(\d+)', text)[:1]]
    value = found[-1] if found else _KNOWN_ID
    return int(value) if schema.get("type") == "integer" else value


def _title(question: str) -> str:
    """The longest run of words in capital letters, after the first word."""
    quoted = re.search(r'"([^"]+)"', question)
    runs = re.findall(r"(?<=\s)[A-Z][\w'-]*(?: (?:of |the |and )*[A-Z0-9][\w'-]*)*", question)
    return quoted[1] if quoted else max(runs, key=len, default=" ".join(question.split()[-2:]))


def _ordinal(unit: str, question: str) -> int:
    """The number before or after a unit: "the second episode", "season 2"."""
    words = "|".join(_ORDINALS)
    found = re.search(rf"({words}|\d+)(?:st|nd|rd|th)? {unit}|{unit} (\d+)", question, re.IGNORECASE)
    text = (found[1] or found[2]).lower() if found else "1"
    return _ORDINALS.index(text) + 1 if text in _ORDINALS else int(text)


def _without_references(document: Json) -> Json:
    """The document with parameters in place of references to parameters."""

    def resolved(row: Json) -> Json:
        while "$ref" in row:
            found: Any = document
            for part in row["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            row = found
        return row

    paths: Json = {}
    for path, item in document["paths"].items():
        paths[path] = {**item, "parameters": [*map(resolved, item.get("parameters", []))]}
        for method in _methods(item):
            operation = dict(item[method])
            operation["parameters"] = [*map(resolved, operation.get("parameters", []))]
            operation["responses"] = {name: resolved(one) for name, one in operation["responses"].items()}
            paths[path][method] = operation
    return {**document, "paths": paths}


def _methods(item: Json) -> Iterator[str]:
    return (name for name in ("get", "head", "options", "post", "put", "patch", "delete") if name in item)
