"""JSON Schemas of types, in a form that client generators can read.

Many cannot read an enum or a constant without a type, need a format to choose a number's type, and read "a type or
null" only as a list of both. A Struct that extends another is an `allOf` of both.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from proxy.api.knowledge.declarations import NAMED, STRUCTS, choices_of

_SCHEMAS = "#/components/schemas/"
_FORMATS = {"integer": "int64", "number": "double"}
_NULL = {"type": "null"}


class Schemas:
    """Schemas of types; named ones are collected."""

    def __init__(self, *, formats: bool = True) -> None:
        """formats: include number formats."""
        self.components: dict[str, Any] = {}
        self._formats = _FORMATS if formats else {}
        self._choices: dict[frozenset[Any], tuple[Any, ...]] = {}

    def content(self, media: str, kind: Any) -> dict[str, Any]:
        """A type's schema, by media type. kind: None for bytes; or types by media type."""
        kinds = kind if isinstance(kind, Mapping) else {media: kind}
        return {name: {} if one is None else {"schema": self.schema(one)} for name, one in kinds.items()}

    def form(self, kind: type[msgspec.Struct]) -> dict[str, Any]:
        """A form whose fields that are objects or lists of texts are JSON."""
        schema = self.schema(kind)
        parsed = [name for name, one in schema["properties"].items() if "$ref" in one]
        encoding = {"encoding": {name: {"contentType": "application/json"} for name in parsed}} if parsed else {}
        return {"multipart/form-data": {"schema": schema, **encoding}}

    def query(self, kind: type[msgspec.Struct]) -> Iterator[dict[str, Any]]:
        """Query parameters; objects are JSON."""
        for name, told in self.schema(kind)["properties"].items():
            schema = _without_null(told)
            described = {"description": schema.pop("description")} if "description" in schema else {}
            content = {"content": {"application/json": {"schema": schema}}} if "$ref" in schema else {"schema": schema}
            yield {"name": name, "in": "query", **content, **described}

    def schema(self, kind: Any) -> dict[str, Any]:
        """A type's schema."""
        (schema,), parts = msgspec.json.schema_components([kind], ref_template=_SCHEMAS + "{name}")
        self._choices |= {frozenset(values): values for values in choices_of(kind)}
        written: dict[str, Any] = self._written(schema, parts)
        return written

    def _written(self, node: Any, parts: Mapping[str, Any]) -> Any:
        """One node in a schema; parts: the Structs in it, by name."""
        if isinstance(node, list):
            return [self._written(item, parts) for item in node]
        if not isinstance(node, dict):
            return node
        if name := node.get("$ref", "").removeprefix(_SCHEMAS):
            return {**self._struct(name, parts), **{key: node[key] for key in node if key != "$ref"}}
        node = {key: value for key, value in node.items() if key != "$must"}
        if name := node.pop("$named", ""):
            text = {"description": node.pop("description")} if "description" in node else {}
            if name not in self.components:
                self.components[name] = {}  # a schema may contain itself
                named = NAMED[name]
                told = {"description": named.text} if named.text else {}
                union = {"oneOf": [self.schema(kind) for kind in named.one_of]} if named.one_of else {}
                self.components[name] = {**told, **self._written({**node, **named.schema}, parts), **union}
            return {"$ref": _SCHEMAS + name, **text}
        node = {
            key: value if key in ("enum", "const", "required", "default") else self._written(value, parts)
            for key, value in node.items()
        }
        return self._for_generators(node)

    def _struct(self, name: str, parts: Mapping[str, Any]) -> dict[str, Any]:
        """A reference to a Struct's schema, or the schema itself if the Struct has no public name."""
        if name in self.components:
            return {"$ref": _SCHEMAS + name}
        kind = STRUCTS[name]
        told = {key: value for key, value in parts[name].items() if key != "title" and value != []}
        told |= getattr(kind, "more_schema", {})
        told["properties"] = {
            key: {of: is_ for of, is_ in one.items() if of != "default" or is_ is not None}
            for key, one in told["properties"].items()
        }
        if name.startswith("_"):
            written: dict[str, Any] = self._written(told, parts)
            return written
        self.components[name] = {}
        base = kind.__base__
        if base is not None and issubclass(base, msgspec.Struct) and base.__struct_fields__ and base.__name__[0] != "_":
            known = self.schema(base)  # only its own members are added to its base's
            own = [key for key in told["properties"] if key not in base.__struct_fields__ and key != "object"]
            required = [key for key in told.get("required", ()) if key in own]
            part = {"type": "object", "properties": {key: told["properties"][key] for key in own}}
            part |= {"required": required} if required else {}
            self.components[name] = {"allOf": [known, self._written(part, parts)]}
        else:
            self.components[name] = self._written(told, parts)
        return {"$ref": _SCHEMAS + name}

    def _for_generators(self, node: dict[str, Any]) -> dict[str, Any]:
        """The node in a form that client generators can read."""
        node.pop("discriminator", None)
        union = node.get("anyOf", [])
        if len(union) == 2 and union[1] == _NULL and isinstance(union[0].get("type"), str):
            node = {**union[0], **{key: value for key, value in node.items() if key != "anyOf"}}
            node["type"] = [node["type"], "null"]
            if "enum" in node:
                node["enum"] = [*node["enum"], None]
        if isinstance(node.get("enum"), list) and "type" not in node:
            node["type"] = "string"
            node["enum"] = [*self._choices.get(frozenset(node["enum"]), node["enum"])]
            if len(node["enum"]) == 1:
                (node["const"],) = node.pop("enum")
        kind = node["type"][0] if isinstance(node.get("type"), list) else node.get("type")
        number = self._formats.get(kind) if isinstance(kind, str) else None  # else it is a property called "type"
        return node if number is None else {"format": number, **node}


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema for a parameter that may be left out."""
    if isinstance(schema.get("type"), list):
        schema = {**schema, "type": schema["type"][0]}
    if "enum" in schema:
        schema = {**schema, "enum": [one for one in schema["enum"] if one is not None]}
    (only, *_) = schema.pop("anyOf", [{}])
    return {**schema, **only}
