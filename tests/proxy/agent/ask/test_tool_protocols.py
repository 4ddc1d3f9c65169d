"""An error about one function is told from an error about all."""

import json

from proxy.agent.ask.tool_protocols import refused_function
from tests.support.rows import all_rows

NAMES = ["act_list", "act_listTugs", "act_read", "find_actions"]


@all_rows(
    ("error", "before", "name"),
    [
        ("Invalid schema for function 'act_listTugs': array schema missing items.", 0, "act_listTugs"),
        ("Invalid schema for function 'act_list': …", 0, "act_list"),
        ("tools[2].function.parameters: bad", 0, "act_read"),
        ("tools[2].function.parameters: bad", 2, "act_list"),
        ("tools.3.custom.input_schema: JSON schema is invalid", 1, "act_read"),
        ("* GenerateContentRequest.tools[0].function_declarations[1].parameters.items: missing", 0, "act_listTugs"),
        (json.dumps({"detail": [{"loc": ["body", "tools", 1, "function"], "msg": "bad"}]}), 0, "act_listTugs"),
        ("tools[0].function.name is bad", 1, ""),  # the client's
        ("tools[9].function.name is bad", 0, ""),
        ("functions: act_list, act_read are too many tools", 0, ""),
        ("this model does not support tools", 0, ""),
        ("Invalid 'tools': array too long. Expected an array with maximum length 128, got 130.", 0, ""),
        ("\ud83d tools[99999999999999999999]".encode("utf-8", "replace").decode(), 0, ""),
    ],
)
def test_the_refused_function_is_known_by_its_name_or_its_place(error: str, before: int, name: str) -> None:
    assert refused_function(error.encode(), NAMES, before) == name
