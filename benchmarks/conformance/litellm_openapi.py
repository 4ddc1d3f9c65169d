"""LiteLLM's tools of OpenAPI documents: `openapi_fidelity.py --beside` starts this script.

    PYTHON benchmarks/conformance/litellm_openapi.py FILE

The interpreter has `litellm[proxy]`, and needs no package of ragway. FILE is JSON with `calls` (document, method, path,
arguments, base_url) and `schemas` (document, method, path). Each call is made; the schemas go to standard output.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any


async def main(given: dict[str, Any]) -> None:
    """Make all calls, and print the schemas."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no download
    from litellm.proxy._experimental.mcp_server import openapi_to_mcp_generator as generator

    def operation_of(one: dict[str, Any]) -> Any:
        document = one["document"]
        item = document["paths"][one["path"]]
        return generator.resolve_operation_params(item[one["method"]], item, document.get("components", {}))

    for one in given["calls"]:
        tool = generator.create_tool_function(one["path"], one["method"], operation_of(one), one["base_url"])
        outcomes = await asyncio.gather(tool(**one["arguments"]), return_exceptions=True)
        if isinstance(outcomes[0], BaseException):
            print(f"{one['base_url']}: {outcomes[0]!r}", file=sys.stderr)
    schemas = [generator.build_input_schema(operation_of(one)) for one in given["schemas"]]
    print(json.dumps(schemas))


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text("utf-8"))))
