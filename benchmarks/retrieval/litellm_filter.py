"""LiteLLM's semantic filter of tools, asked the questions of a folder; `actions.py --beside` starts this script.

    PYTHON benchmarks/retrieval/litellm_filter.py FOLDER

The interpreter has `litellm[proxy]` and `semantic-router`, and needs no package of ragway. FOLDER has `given.json` and
`vectors.npz`: each text already has a vector, so the times contain no embedding. `answers.json` gets the places of the
tools found for each question, and the milliseconds.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np


class Vectors:
    """The embedding calls of LiteLLM's router, answered from the file."""

    def __init__(self, vector_of: dict[str, Any]) -> None:
        self._vector_of = vector_of

    def embedding(self, input: list[str], model: str, **_: Any) -> Any:
        import litellm

        some = next(iter(self._vector_of.values()))  # for the text "test", by which the router learns the dimension
        vectors = [self._vector_of.get(text, some).tolist() for text in input]
        rows = [{"embedding": vector, "index": place} for place, vector in enumerate(vectors)]
        return litellm.EmbeddingResponse(model=model, data=rows)

    async def aembedding(self, input: list[str], model: str, **named: Any) -> Any:
        return self.embedding(input, model, **named)


async def main() -> None:
    """Ask all questions."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no download
    from litellm.proxy._experimental.mcp_server.semantic_tool_filter import SemanticMCPToolFilter

    folder = Path(sys.argv[1])
    given, vectors = json.loads((folder / "given.json").read_text()), np.load(folder / "vectors.npz")
    vector_of = dict(zip(given["descriptions"], vectors["tools"], strict=True))
    vector_of |= dict(zip(given["questions"], vectors["questions"], strict=True))
    tools = [
        {"name": f"tool-{place}", "description": description} for place, description in enumerate(given["descriptions"])
    ]
    search = SemanticMCPToolFilter("vectors", Vectors(vector_of), top_k=given["k"])  # type: ignore[arg-type]
    search._build_router(tools)
    found, times_ms = [], []
    for question in given["questions"]:
        began = time.perf_counter()
        some = await search.filter_tools(question, tools)
        times_ms.append((time.perf_counter() - began) * 1000)
        # Without a similar tool the filter returns all tools.
        names = [one["name"] for one in some] if len(some) < len(tools) else []
        found.append([int(name.removeprefix("tool-")) for name in names])
    (folder / "answers.json").write_text(json.dumps({"found": found, "ms": times_ms}))


if __name__ == "__main__":
    asyncio.run(main())
