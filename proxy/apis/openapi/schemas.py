"""An OpenAPI document's schema to a JSON Schema (2020-12) for call arguments.

References stay references, into the new schema's `$defs`, so schemas may be recursive. Version 3.0 keywords
(`nullable`, `exclusiveMinimum: true`, `type: file`) become JSON Schema keywords. Read-only properties, which a request
must not have, are left out, and so are keywords of no use to a model.
"""

import re
from collections.abc import Mapping
from typing import Any

from proxy.apis.openapi.keywords import LISTS, compiles, kept, mend
from proxy.apis.openapi.names import FreeNames
from proxy.apis.openapi.references import BadReference, ReadBudget, found
from proxy.dialects.quoting import quoted

_ONES = (
    "items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else", "unevaluatedProperties",
    "unevaluatedItems",
)  # fmt: skip
_MAPS = ("properties", "patternProperties", "dependentSchemas")
_MOST_VALUES = 20_000  # per operation: a model cannot read a larger schema
_TOO_LARGE = "the argument schema is too large for a model"
_MOST_DESCRIPTION_CHARS = 600
_MOST_NAME_CHARS, _MOST_BASE_CHARS = 64, 50  # of a name in `$defs`; without its number
_UNSAFE = re.compile(r"[^a-zA-Z0-9_.-]+")

Values = dict[str, Any]


class SchemaTooLarge(ValueError):
    """A schema with more values than a model can read."""


class SchemaReader:
    """Reads one operation's schemas; the new ones share `defs`."""

    def __init__(self, document: Mapping[str, Any], budget: ReadBudget) -> None:
        self.defs: Values = {}
        self.document = document
        self.budget = budget
        self._names: dict[str, str] = {}  # reference -> name in `defs`
        self._free_names = FreeNames(_MOST_NAME_CHARS)
        self._values = 0

    def read(self, schema: Any) -> Any:
        """The JSON Schema. Raises BadReference, SchemaTooLarge, DocumentTooLarge."""
        self._count_one()
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            return {}
        if isinstance(reference := schema.get("$ref"), str):
            return self._reference(reference, schema)
        return self._object(schema)

    def is_read_only(self, schema: Any) -> bool:
        """Whether a property's schema, or one that it refers to, is read-only."""
        self.budget.take(1)
        for _ in range(10):
            if not isinstance(schema, dict):
                return False
            if schema.get("readOnly") is True:
                return True
            if not isinstance(reference := schema.get("$ref"), str):
                return False
            schema = found(self.document, reference)
        return False

    def _reference(self, reference: str, schema: Values) -> Values:
        if reference not in self._names:
            target = found(self.document, reference)
            if not isinstance(target, dict | bool):
                raise BadReference(f"the reference {reference!r} leads to no schema")
            name = self._names[reference] = self._free_names.take(_base_of(reference))
            self.defs[name] = {}  # holds the place of a recursive schema
            self.defs[name] = self.read(target)
        self.budget.take_size(schema)
        made: Values = {"$ref": f"#/$defs/{self._names[reference]}"}
        beside = {name: value for name, value in schema.items() if name != "$ref"}
        if not str(self.document.get("openapi", "")).startswith("3.1"):  # 3.0 ignores all members beside $ref
            beside = {name: value for name, value in beside.items() if name == "description"}
        if beside:
            return {**self._object(beside), **made}
        return made

    def _count_one(self) -> None:
        self._values += 1
        self.budget.take(1)
        if self._values > _MOST_VALUES:
            raise SchemaTooLarge(_TOO_LARGE)

    def _count(self, value: Any) -> None:
        """Count the values within a value. Raises SchemaTooLarge."""
        self._count_one()
        if isinstance(value, str):
            self.budget.take_size(value)
        for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            self._count(one)

    def _object(self, schema: Values) -> Values:
        made: Values = {}
        for name, value in schema.items():
            if name in LISTS:
                if some := value if isinstance(value, list) else [value] if isinstance(value, dict) else []:
                    made[name] = [self.read(one) for one in some]
            elif name in _ONES:
                read = self.read(value)
                made[name] = {} if isinstance(read, bool) and name == "items" else read
            elif name in _MAPS:
                made[name] = self._properties(value, patterns=name == "patternProperties")
            elif name == "description":
                self.budget.take_size(value)
                made[name] = quoted(_shortened(value))
            else:
                self.budget.take(1)
                for one in kept(name, value):
                    self._count(one)
                    made[name] = one
        if isinstance(properties := schema.get("properties"), dict) and isinstance(made.get("required"), list):
            made["required"] = [
                name
                for name in made["required"]
                if isinstance(name, str) and not self.is_read_only(properties.get(name))
            ]
        mend(made)
        return _with_null(made) if schema.get("nullable") is True else made

    def _properties(self, given: Any, *, patterns: bool) -> Values:
        """Schemas of properties that a request may have."""
        made = {}
        for name, one in given.items() if isinstance(given, dict) else ():
            if self.is_read_only(one) or (patterns and not compiles(str(name))):
                continue
            read = self.read(one)
            if read is not False:
                made[str(name)] = {} if read is True else read
        return made


def _base_of(reference: str) -> str:
    return _UNSAFE.sub("_", reference.rsplit("/", 1)[-1])[:_MOST_BASE_CHARS] or "schema"


def _with_null(made: Values) -> Values:
    """The schema that allows null, too. An enum needs null among its values."""
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
