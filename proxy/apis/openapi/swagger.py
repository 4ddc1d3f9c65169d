"""A Swagger 2.0 document in OpenAPI 3.0 form."""

from collections.abc import Mapping
from typing import Any

from proxy.apis.openapi.operation import FORM, MULTIPART
from proxy.apis.openapi.references import BadReference, ReadBudget, path_item, resolved

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
_OF_PARAMETER = ("name", "in", "required", "description", "collectionFormat", "allowEmptyValue", "schema", "type")
_STYLES = {  # collectionFormat -> style, explode; tsv has no style in version 3
    "csv": ("form", False),
    "ssv": ("spaceDelimited", False),
    "pipes": ("pipeDelimited", False),
    "multi": ("form", True),
}
_VALUES_OF_PARAMETER = 6  # members of a version 3.0 parameter

Values = dict[str, Any]


class _Unsupported(ValueError):
    """Part of an operation that version 3.0 cannot express."""


def upgraded(document: Mapping[str, Any]) -> Values:
    """The document in version 3.0 form. Raises DocumentTooLarge."""
    paths, budget = document.get("paths"), ReadBudget()
    return {
        **document,
        "openapi": "3.0.3",
        "servers": _servers(document),
        "paths": {
            path: _item(document, item, budget) for path, item in (paths if isinstance(paths, dict) else {}).items()
        },
    }


def _servers(document: Mapping[str, Any]) -> list[Values]:
    host, base = document.get("host"), document.get("basePath") or ""
    if not isinstance(host, str) or not host:
        return [{"url": base}] if base else []
    schemes = document.get("schemes") or ["https"]
    scheme = next((one for one in ("https", "http") if one in schemes), schemes[0])
    base, host = base.strip() if isinstance(base, str) else "", host.strip()
    path = base and f"/{base.removeprefix('/')}"  # some documents leave out the slash
    return [{"url": f"{scheme}://{host.rstrip('/')}{path}"}]


def _item(document: Mapping[str, Any], given: Any, budget: ReadBudget) -> Any:
    """The path item, with members from references; a faulty one keeps its fault."""
    item, fault = path_item(document, given)
    budget.take(1 + len(item))
    if fault and not item:
        return given
    made: Values = {"$ref": given["$ref"]} if fault else {}
    for method, operation in item.items():
        if method in _METHODS:
            try:
                made[method] = _operation(document, operation, item.get("parameters") or [], budget)
            except _Unsupported as error:
                made[method] = str(error)
            except (BadReference, TypeError, AttributeError, KeyError) as error:
                made[method] = f"not written as Swagger 2.0 ({error})"  # a fault costs only one operation
    return made


def _operation(document: Mapping[str, Any], operation: Values, shared: list[Any], budget: ReadBudget) -> Values:
    """The operation, with its path's parameters as its own: in version 3, bodies are not parameters."""
    budget.take_size(operation, shared, operation.get("parameters"))
    given: dict[tuple[Any, Any], Values] = {}
    for one in [*shared, *(operation.get("parameters") or [])]:
        parameter = resolved(document, one)
        given[parameter.get("name"), parameter.get("in")] = parameter
    kept = {name: value for name, value in operation.items() if name not in ("parameters", "responses")}
    made: Values = {**kept, "parameters": [], "responses": _responses(document, operation, budget)}
    fields: list[Values] = []
    for parameter in given.values():
        budget.take(_VALUES_OF_PARAMETER)
        budget.take_size(parameter)
        if parameter.get("in") == "body":
            consumed = operation.get("consumes") or document.get("consumes") or ["application/json"]
            budget.take_size(consumed)
            content = {media_type: {"schema": parameter.get("schema", {})} for media_type in consumed}
            made["requestBody"] = {
                "required": parameter.get("required", False),
                "description": parameter.get("description", ""),
                "content": content,
            }
        elif parameter.get("in") == "formData":
            fields.append(parameter)
        else:
            made["parameters"].append(_parameter(parameter))
    if fields:
        made["requestBody"] = _form(fields, operation.get("consumes") or document.get("consumes") or [])
    return made


def _schema(parameter: Values) -> Values:
    """The schema of a parameter that is not a body: members beside name and place."""
    schema = {name: value for name, value in parameter.items() if name not in _OF_PARAMETER}
    if parameter.get("type") == "file":
        return {**schema, "type": "string", "format": "binary"}
    return {**schema, "type": parameter.get("type")} if "type" in parameter else schema


def _parameter(parameter: Values) -> Values:
    made = {
        "name": parameter.get("name"),
        "in": parameter.get("in"),
        "required": parameter.get("required", False),
        "description": parameter.get("description", ""),
        "schema": _schema(parameter),
    }
    if parameter.get("type") == "array":
        style, explode = _style(parameter)
        made |= {"style": style, "explode": explode}
    return made


def _style(parameter: Values) -> tuple[str, bool]:
    """A list's style, and whether each element is written apart. Raises _Unsupported."""
    written, place = parameter.get("collectionFormat", "csv"), parameter.get("in")
    one_style = place in ("path", "header")
    if written == "tsv" or (one_style and written in ("ssv", "pipes")):
        raise _Unsupported(
            f"the parameter {parameter.get('name')!r} has the collectionFormat {written!r}, which cannot be written "
            f"in a {place}"
        )
    style, explode = _STYLES.get(written, _STYLES["csv"])
    return "simple" if one_style else style, explode


def _form(fields: list[Values], consumed: list[str]) -> Values:
    files = any(one.get("type") == "file" for one in fields)
    media_type = next((one for one in consumed if one in (FORM, MULTIPART) and (not files or one == MULTIPART)), "")
    made = [_parameter(one) for one in fields]
    schema = {
        "type": "object",
        "properties": {one["name"]: {**one["schema"], "description": one["description"]} for one in made},
        "required": [one["name"] for one in made if one["required"]],
    }
    encoding = {one["name"]: {"style": one["style"], "explode": one["explode"]} for one in made if "style" in one}
    content = {media_type or (MULTIPART if files else FORM): {"schema": schema, "encoding": encoding}}
    return {"required": bool(schema["required"]), "content": content}


def _responses(document: Mapping[str, Any], operation: Values, budget: ReadBudget) -> Values:
    produced = operation.get("produces") or document.get("produces") or ["application/json"]
    made: Values = {}
    responses = operation.get("responses")
    for status in responses if isinstance(responses, dict) else {}:
        budget.take_size(produced)
        made[str(status)] = {"content": {media_type: {} for media_type in produced}}
    return made
