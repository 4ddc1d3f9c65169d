"""A schema of an OpenAPI document to a JSON Schema (2020-12) for the arguments of a call.

References stay references, to `$defs` of the new schema, so a schema may be recursive. Keywords of version 3.0
(`nullable`, `exclusiveMinimum: true`, `type: file`) become keywords of JSON Schema. Read-only properties, which a
request must not have, are left out, and so are keywords without a use for a model.
"""

import contextlib
import re
from collections.abc import Mapping
from typing import Any

import orjson

from proxy.actions.openapi.budget import Budget
from proxy.actions.openapi.names import FreeNames
from proxy.actions.openapi.references import BadReference, found
from proxy.actions.schema_check import problems
from proxy.augment.sanitize import quoted

_DROPPED = frozenset({
    "discriminator", "xml", "externalDocs", "example", "nullable", "readOnly", "writeOnly", "$schema", "$id", "$anchor",
    "$dynamicAnchor", "$dynamicRef", "$comment", "$defs", "definitions", "collectionFormat", "allowEmptyValue", "id",
})  # fmt: skip
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_ONES = (
    "items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else", "unevaluatedProperties",
    "unevaluatedItems",
)  # fmt: skip
_MAPS = ("properties", "patternProperties", "dependentSchemas")
_MOST_VALUES = 20_000  # of an operation: a model cannot read a larger schema
_TOO_LARGE = "the schema of the arguments is too large for a model"
_MOST_DESCRIPTION_CHARS = 600
_MOST_NAME_CHARS, _MOST_BASE_CHARS = 64, 50  # of a name in `$defs`; without a number
_UNSAFE = re.compile(r"[^a-zA-Z0-9_.-]+")

Values = dict[str, Any]


class TooLarge(ValueError):
    """A schema with more values than a model can read."""


class SchemaReader:
    """Reads the schemas of one operation; the new schemas share `defs`."""

    def __init__(self, document: Mapping[str, Any], budget: Budget) -> None:
        self.defs: Values = {}
        self._document = document
        self.budget = budget
        self._names: dict[str, str] = {}  # reference -> name in `defs`
        self._free_names = FreeNames(_MOST_NAME_CHARS)
        self._values = 0

    def read(self, schema: Any) -> Any:
        """The JSON Schema. Raises BadReference, TooLarge, DocumentTooLarge."""
        self._count_one()
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            return {}
        if isinstance(reference := schema.get("$ref"), str):
            return self._reference(reference, schema)
        return self._object(schema)

    def is_read_only(self, schema: Any) -> bool:
        """Whether a property's schema, or the schema that the property refers to, is read-only."""
        self.budget.take(1)
        for _ in range(10):
            if not isinstance(schema, dict):
                return False
            if schema.get("readOnly") is True:
                return True
            if not isinstance(reference := schema.get("$ref"), str):
                return False
            schema = found(self._document, reference)
        return False

    def _reference(self, reference: str, schema: Values) -> Values:
        if reference not in self._names:
            target = found(self._document, reference)
            if not isinstance(target, dict | bool):
                raise BadReference(f"the reference {reference!r} leads to no schema")
            name = self._names[reference] = self._free_names.take(_base_of(reference))
            self.defs[name] = {}  # the place of a recursive schema
            self.defs[name] = self.read(target)
        self.budget.take_size(schema)
        made: Values = {"$ref": f"#/$defs/{self._names[reference]}"}
        beside = {name: value for name, value in schema.items() if name != "$ref" and name not in _DROPPED}
        if not str(self._document.get("openapi", "")).startswith("3.1"):  # 3.0 ignores all members beside $ref
            beside = {name: value for name, value in beside.items() if name == "description"}
        if beside:
            return {**self._object(beside), **made}
        return made

    def _count_one(self) -> None:
        self._values += 1
        self.budget.take(1)
        if self._values > _MOST_VALUES:
            raise TooLarge(_TOO_LARGE)

    def _count(self, value: Any) -> None:
        """Count the values within a value. Raises TooLarge."""
        self._count_one()
        if isinstance(value, str):
            self.budget.take_size(value)
        for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            self._count(one)

    def _object(self, schema: Values) -> Values:
        made: Values = {}
        for name, value in schema.items():
            if name in _DROPPED or name.startswith("x-"):
                self.budget.take(1)
                continue
            if name in _LISTS and isinstance(value, list):
                made[name] = [self.read(one) for one in value]
            elif name in _ONES:
                made[name] = self.read(value)
            elif name in _MAPS and isinstance(value, dict):
                made[name] = {str(key): self.read(one) for key, one in value.items() if not self.is_read_only(one)}
            elif name == "description":
                self.budget.take_size(value)
                made[name] = quoted(_shortened(value))
            else:
                self._count(value)
                made[name] = value
        _bounds(made)
        _type(made)
        if isinstance(properties := schema.get("properties"), dict) and isinstance(made.get("required"), list):
            made["required"] = [
                name
                for name in made["required"]
                if isinstance(name, str) and not self.is_read_only(properties.get(name))
            ]
        if not isinstance(made.get("required", []), list):  # `required: true` of a property, a slip from version 2.0
            del made["required"]
        return _with_null(made) if schema.get("nullable") is True else made


def _base_of(reference: str) -> str:
    return _UNSAFE.sub("_", reference.rsplit("/", 1)[-1])[:_MOST_BASE_CHARS] or "schema"


def _bounds(made: Values) -> None:
    """Version 3.0's `exclusiveMinimum: true` beside `minimum`, as a number."""
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(made.get(exclusive), bool) and made.pop(exclusive) and bound in made:
            made[exclusive] = made.pop(bound)


def _type(made: Values) -> None:
    if made.get("type") == "file":
        made["type"] = "string"
    if "enum" in made and not isinstance(made["enum"], list):
        del made["enum"]
    _fit_enum(made)


def _fit_enum(made: Values) -> None:
    """An enum without a value of the type allows nothing: `type: string` beside [1, 2]. The values get the type."""
    kind, listed = made.get("type"), made.get("enum")
    if not isinstance(kind, str) or not listed or any(not problems({"type": kind}, one) for one in listed):
        return
    if kind == "array":  # of values of the enum
        items = made["items"] if isinstance(made.get("items"), dict) else {}
        made["items"] = {**items, "enum": made.pop("enum")}
        return
    fitting = [value for one in listed if not problems({"type": kind}, value := _of_kind(kind, one))]
    if fitting:
        made["enum"] = fitting
    else:
        del made["type"]


def _of_kind(kind: str, value: Any) -> Any:
    """The text of a value, or the value of a text."""
    if kind == "string" and value is not None:
        return orjson.dumps(value).decode()
    with contextlib.suppress(orjson.JSONDecodeError):
        return orjson.loads(value) if isinstance(value, str) else value
    return value


def _with_null(made: Values) -> Values:
    """The schema that allows null, too. An enum needs null among the values."""
    kind = made.get("type")
    if isinstance(kind, str):
        made["type"] = [kind, "null"]
        if "enum" in made and None not in made["enum"]:
            made["enum"] = [*made["enum"], None]
        return made
    return {"anyOf": [made, {"type": "null"}]}


def _shortened(text: object) -> str:
    words = " ".join(text.split()) if isinstance(text, str) else ""
    return words if len(words) <= _MOST_DESCRIPTION_CHARS else words[: _MOST_DESCRIPTION_CHARS - 2] + " …"
