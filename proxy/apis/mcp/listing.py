"""The list of an MCP server's tools: a document of its own kind, which is read as OpenAPI documents are."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import msgspec
import orjson

from proxy.apis.openapi.keywords import without_circles
from proxy.apis.openapi.names import FreeNames, in_latin
from proxy.apis.openapi.operation import MCP, Operation, Uncallable
from proxy.apis.openapi.operations import MOST_NAME_CHARS, UNSAFE_ARGUMENT, UNSAFE_NAME
from proxy.apis.openapi.references import BadReference, DocumentTooLarge, ReadBudget
from proxy.apis.openapi.schemas import SchemaReader, SchemaTooLarge
from proxy.apis.openapi.size import MOST_BYTES, fitted

_BEGINS = b'{"mcp":'


class ListedTool(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    schema: dict[str, Any]  # of the arguments, as the server has it
    title: str = ""
    description: str = ""
    read_only: bool = False


class Listing(msgspec.Struct, frozen=True):
    """What a server says about itself and its tools."""

    mcp: dict[str, str]  # title and description, as `info` of an OpenAPI document
    tools: Sequence[ListedTool]


def is_listing(raw: bytes) -> bool:
    """Whether a document is a list of tools."""
    return raw.startswith(_BEGINS)


def operations_of(raw: bytes, most: int) -> tuple[dict[str, Any], list[Operation], list[Uncallable]]:
    """The server as an OpenAPI document without paths, its tools, and those that cannot be called.

    Raises DocumentTooLarge, msgspec.DecodeError.
    """
    listing = msgspec.json.decode(raw, type=Listing)
    if len(listing.tools) > most:
        raise DocumentTooLarge(f"the server has more than {most:,} tools, the most here")
    callable_, uncallable, budget = list[Operation](), list[Uncallable](), ReadBudget()
    names, seen = FreeNames(MOST_NAME_CHARS), set[str]()
    for tool in listing.tools:
        try:
            if tool.name in seen:
                raise SchemaTooLarge("the server lists the name twice")
            seen.add(tool.name)
            callable_.append(_operation(tool, names, budget))
        except (BadReference, SchemaTooLarge) as error:
            uncallable.append(Uncallable(MCP, tool.name, str(error)))
        except (TypeError, AttributeError, KeyError, RecursionError) as error:
            uncallable.append(Uncallable(MCP, tool.name, f"the schema of the arguments is not JSON Schema ({error})"))
    return {"info": listing.mcp}, callable_, uncallable


def _operation(tool: ListedTool, names: FreeNames, budget: ReadBudget) -> Operation:
    schema = fitted(_schema(tool.schema, budget))
    if schema is None:
        raise SchemaTooLarge(f"the required arguments take more than {MOST_BYTES:,} bytes, the most for a tool")
    plain = UNSAFE_NAME.sub("_", in_latin(tool.name)).strip("_") or "tool"
    return Operation(
        name=names.take(plain[:MOST_NAME_CHARS]),
        method=MCP,
        path=quote(tool.name.encode("utf-8", "replace"), safe=""),
        schema=schema,
        summary=tool.title,
        description=tool.description,
        operation_id=tool.name,
        read_only=tool.read_only,
    )


def _schema(given: dict[str, Any], budget: ReadBudget) -> dict[str, Any]:
    """The arguments as for an operation: an optional argument whose name models may not write is left out.

    Raises BadReference, SchemaTooLarge, DocumentTooLarge.
    """
    reader = SchemaReader(given, budget)
    properties = given.get("properties") or {}
    required = [name for name in given.get("required") or () if name in properties]
    made: dict[str, Any] = {}
    for name, one in properties.items():
        budget.take_size(one)
        if UNSAFE_ARGUMENT.search(name) or not 0 < len(name) <= MOST_NAME_CHARS:
            if name in required:
                raise SchemaTooLarge(f"the argument {name[:MOST_NAME_CHARS]!r} has a name that models cannot write")
            continue
        read = reader.read(one)
        made[name] = {} if isinstance(read, bool) else read  # some providers take objects alone
    schema = {"type": "object", "properties": made, "required": required, "additionalProperties": False}
    if isinstance(given.get("additionalProperties"), dict) or given.get("additionalProperties") is True:
        schema["additionalProperties"] = True
    if reader.defs:
        without_circles(reader.defs)
        schema["$defs"] = reader.defs
    try:
        orjson.dumps([[schema]])
    except orjson.JSONEncodeError as error:
        raise SchemaTooLarge(f"the argument schema cannot be written as JSON ({error})") from error
    return schema
