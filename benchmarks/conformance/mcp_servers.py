"""A tool of any MCP server, called by a chat through a whole gateway with a scripted model.

    pip install mcp-server-time          # anywhere; or a server from npm, or one over HTTP
    python benchmarks/conformance/mcp_servers.py "mcp-server-time" get_current_time '{"timezone": "Europe/Berlin"}'

Prints what the gateway says of the list, whether the chat was offered the tool, and what the model read of the result.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common.output import say
from tests.support.action_clients import CompletionsChat
from tests.support.gateway import serving
from tests.support.recording_upstream import recording
from tests.support.scripted_model import ScriptedModel, calls, says

_LIST_S = 60.0
SETTINGS = """
embedder: {{model: hash}}
models: {{gpt-x: {{api_base: "{model}/v1"}}}}
actions: {{tools: {{mcp: {server}, writes: auto}}}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", help="a URL, or a command")
    parser.add_argument("tool")
    parser.add_argument("arguments", type=json.loads, help="JSON")
    parser.add_argument("--question", help="by which the tool is found (default: its name)")
    say(run(**vars(parser.parse_args())))


def run(server: str, tool: str, arguments: dict[str, Any], question: str | None = None) -> str:
    """What happened, in lines."""
    with tempfile.TemporaryDirectory() as scratch, recording() as recorder:
        folder = Path(scratch)
        settings = SETTINGS.format(model=recorder.url, server=json.dumps(server))
        with serving(folder / "data", folder, settings) as gateway:
            end_s = time.monotonic() + _LIST_S
            while "actions.tools.mcp" not in (log := gateway.log.read_text()) and time.monotonic() < end_s:
                time.sleep(0.1)
            name = f"act_{tool}"
            model = ScriptedModel(recorder.fresh(), [calls((name, arguments)), says("Done.")])
            began = time.perf_counter()
            reply = CompletionsChat(gateway.url, "rage/tools/gpt-x").ask(question or tool.replace("_", " "))
            seconds = time.perf_counter() - began
    offered = [one["function"]["name"] for one in model.received[0].get("tools", ())]
    last = model.received[-1]["messages"][-1]
    lines = [line for line in log.splitlines() if "actions.tools.mcp" in line]
    result = last["content"] if last["role"] == "tool" else "none"
    return "\n".join(
        [*lines, f"offered: {name in offered}", f"{seconds:.2f} s: {result[:500]}", f"reply: {reply.text[:500]}"]
    )


if __name__ == "__main__":
    main()
