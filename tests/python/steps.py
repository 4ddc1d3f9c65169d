"""Runs the steps of a client program and prints the results as JSON.

A program names a step as docs/use/clients.md names the step, and gets BASE_URL and API_KEY as arguments. The results
have nothing that differs from run to run, so that a run without the gateway gives the same results.
"""

import asyncio
import json
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel

BASE_URL, API_KEY = sys.argv[1:] if len(sys.argv) == 3 else ("", "")
QUESTION = "How do I use Zephyr from Kotlin?"
INSTRUCTIONS = "Answer in one line."
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
MODEL = {"openai": "gpt-5", "anthropic": "claude-sonnet-4-6"}
Step = Callable[[], Awaitable[Any]]


class City(BaseModel):
    """What a structured answer names."""

    city: str


def weather(city: str) -> str:
    """The weather in a city."""
    return f"21 degrees in {city}"


def run(packages: list[str], steps: Mapping[str, Step]) -> None:
    """Writes {"versions": {package: version}, "steps": {step: result}}; a step that fails has {"failed": traceback}."""
    results = asyncio.run(_results(steps))
    written = {"versions": {name: version(name) for name in packages}, "steps": results}
    sys.stdout.write(json.dumps(written, ensure_ascii=False))


async def _results(steps: Mapping[str, Step]) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for name, step in steps.items():
        (result,) = await asyncio.gather(step(), return_exceptions=True)
        failed = isinstance(result, BaseException)
        results[name] = {"failed": "".join(traceback.format_exception(result))} if failed else result
    return results
