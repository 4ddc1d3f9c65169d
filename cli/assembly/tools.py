"""From the setting `tools` to the tools that chats are offered: the gateway's own, and those of other packages.

A package offers a tool by an entry point of the group `ragway.tools`: a subclass of `Tool`, an object of one, or a
function that makes one.
"""

import importlib
import re
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import orjson

from config.sections import ToolOffer
from config.settings import SettingsError
from proxy.agent.toolbox import PREFIX, Tool
from proxy.agent.tools.document_search import SEARCH
from proxy.agent.tools.operation_tool import FIND
from proxy.agent.tools.read_result import ReadResult

GROUP = "ragway.tools"
BUILT_IN = {
    "calculator": "proxy.agent.tools.calculator:Calculator",
    "dates": "proxy.agent.tools.dates:Dates",
    "units": "proxy.agent.tools.units:Units",
}
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TAKEN = (FIND, SEARCH, ReadResult.name)


def chat_tools(named: Mapping[str, ToolOffer]) -> list[Tool]:
    """The tools of the setting, in its order. Raises SettingsError."""
    tools = [_tool(name) for name in named]
    twice = [name for name, count in Counter(one.name for one in tools).items() if count > 1]
    if twice:
        raise SettingsError(f"tools: two tools have the name {twice[0]!r} for the model: leave one of them out")
    return tools


def package_of(name: str) -> str:
    """The package of a tool; "" for one of the gateway's own."""
    return "" if name in BUILT_IN else _package(_entry_point(name))


def _tool(name: str) -> Tool:
    if name in BUILT_IN:
        module, _, kind = BUILT_IN[name].partition(":")
        made: Tool = getattr(importlib.import_module(module), kind)()
        return made
    entry = _entry_point(name)
    try:
        loaded = entry.load()
        tool = loaded if _is_tool(loaded) else loaded()
        wrong = _wrong(tool)
    except Exception as error:  # of code that is not the gateway's
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise SettingsError(f"tools: {name!r} of the package {_package(entry)} cannot be loaded: {said}") from error
    if wrong:
        raise SettingsError(f"tools: {name!r} of the package {_package(entry)}: {wrong}")
    found: Tool = tool
    return found


def _entry_point(name: str) -> EntryPoint:
    """Raises SettingsError."""
    offered = entry_points(group=GROUP)
    found = [one for one in offered if one.name == name]
    if not found:
        known = ", ".join([*BUILT_IN, *sorted({one.name for one in offered} - {*BUILT_IN})])
        raise SettingsError(f"tools: there is no tool {name!r}; there are: {known}")
    if len({one.value for one in found}) > 1:
        packages = " and ".join(sorted({_package(one) for one in found}))
        raise SettingsError(f"tools: {name!r} is a tool of {packages}: uninstall one of them")
    return found[0]


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value


def _is_tool(value: Any) -> bool:
    return Tool in type(value).__mro__


def _wrong(tool: Any) -> str:
    """What a tool of another package lacks; "": nothing."""
    if not _is_tool(tool):
        return f"it makes a {type(tool).__name__}, and not a subclass of proxy.agent.toolbox.Tool"
    missing = [one for one in ("name", "description", "schema") if not getattr(tool, one, None)]
    if missing:
        return f"the tool has no {missing[0]}"
    if not isinstance(tool.name, str) or not _NAME.fullmatch(tool.name) or tool.name.startswith(PREFIX):
        return f"the name {tool.name!r} must have letters, digits, _ and -, at most 64, and not begin with {PREFIX}"
    if tool.name in _TAKEN or tool.name in BUILT_IN:
        return f"the name {tool.name!r} is taken by a tool of the gateway"
    schema = tool.schema
    if not isinstance(schema, Mapping) or schema.get("type") != "object" or not {"properties", "required"} <= {*schema}:
        return "the schema must be that of an object, with `properties` and `required`"
    orjson.loads(tool.definition(tool.name))
    return ""
