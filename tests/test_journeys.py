"""The files of ours that one request or document passes, in order: the map of `docs/why/map.md`, counted and compared.

A switch is a call of one of our functions from another file than the one before; so is the resumption of a coroutine.

Gateway and index run in this process, over their real sockets, so that one recorder sees both. Each journey is taken
once before the recording: what is loaded or cached on first use is no part of the map.
"""

import asyncio
import contextlib
import json
import re
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import pytest

from cli.worker import Serving
from config.settings import load
from retrieval.index.index import Index
from retrieval.rpc.server import IndexServer
from tests.support.plans import plan_for, silent
from tests.support.recording_upstream import COMPLETION
from tests.support.scripted_model import body_of, calls
from tests.support.tiny_model import make_tiny_model
from tests.support.upstream_servers import Wire, reply, upstream
from tests.test_architecture import OURS

ROOT = Path(__file__).parents[1]
_PACKAGES = tuple(f"{ROOT / package}/" for package in OURS)
_MAP = ROOT / "docs" / "why" / "map.md"
# At most so many files, and so many switches of file: a tenth more than usual, as parts of a search run at the same
# time. A journey that needs more has lost its way: join what belongs together, and ask for a thing once.
AT_MOST = {
    "A chat passed through": (18, 66),
    "An augmented chat": (38, 141),
    "A follow-up question": (38, 158),
    "A chat with an action": (63, 416),
    "An ingested document": (32, 178),
}
_INTRODUCTION = """# The map: files that a request passes

The files of this repository whose functions run for one request or document, in the order of the first call. Gateway
and index process are counted together; what is loaded on first use is left out. `tests/test_journeys.py` takes each
journey, compares the list with this page, and holds the numbers of files and of switches: how often a function of
another file runs next, in one measured run. To write this page again: `python -m tests.test_journeys`. Start reading at
the top of a list.
"""
_ABOUT = {
    "A chat passed through": "`raw/MODEL` to a relayed model, on a gateway without keys.",
    "An augmented chat": """A first question, with passages in the prompt. The gateway asks the index over a socket:
`retrieval/rpc/server.py` to `retrieval/search/ranking.py` are the index process.""",
    "A follow-up question": "A question with a conversation before the question (`retrieval.rewrite: local`).",
    "A chat with an action": """A first question, with passages and one operation in the prompt, on a gateway with an
API: the model calls the operation, and answers from the result.""",
    "An ingested document": """One new Markdown file of a folder, in the process that holds the data folder. A sandbox
process reads and splits the file: `retrieval/ingest/formats/` and `retrieval/ingest/chunking/`, not listed here.""",
}
_COMPARED_WITH = {  # the page lists only the differences
    "A follow-up question": "An augmented chat",
    "A chat with an action": "An augmented chat",
}
SHOPS = {
    "openapi": "3.1.0",
    "info": {"title": "Shops", "version": "1"},
    "paths": {"/shops": {"get": {"operationId": "listShops", "summary": "List the shops that sell a thing"}}},
}
HISTORY = [{"role": "user", "content": "Who bought a lamp?"}, {"role": "assistant", "content": "John Doe."}]


@dataclass
class Journey:
    """What one request or document passes."""

    files: list[str] = field(default_factory=list)  # in the order of the first call
    calls: int = 0  # of functions, resumed coroutines and generators too
    switches: int = 0  # calls from another file than the call before


class Recorder:
    """Notes the files whose functions are entered, in every thread that starts after `on`."""

    def __init__(self) -> None:
        self._journey: Journey | None = None
        self._last = ""  # the file of the newest call

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """Profile this thread and all new threads."""
        sys.setprofile(self._event)
        threading.setprofile(self._event)
        try:
            yield
        finally:
            threading.setprofile(None)
            sys.setprofile(None)

    @contextlib.contextmanager
    def journey(self) -> Iterator[Journey]:
        """What is passed until the end."""
        self._last, self._journey = "", Journey()
        try:
            yield self._journey
        finally:
            self._journey = None

    def _event(self, frame: FrameType, event: str, _argument: object) -> None:
        journey = self._journey
        if journey is None or event != "call":
            return
        code = frame.f_code
        if code.co_filename.startswith(_PACKAGES) and code.co_name != "<module>":
            file = code.co_filename.removeprefix(f"{ROOT}/")
            journey.calls += 1
            journey.switches += file != self._last
            self._last = file
            if file not in journey.files:
                journey.files.append(file)


async def answers(wire: Wire) -> None:
    """A model that calls the first tool, and answers from the result."""
    while True:
        asked = json.loads((await wire.request()).body)
        called = "tools" in asked and asked["messages"][-1]["role"] == "user"
        (text,) = body_of(asked, calls((asked["tools"][0]["function"]["name"], {}))) if called else [COMPLETION]
        await wire.send(reply(text, b"content-type: application/json"))


async def lists_shops(wire: Wire) -> None:
    """An API with one operation."""
    while True:
        await wire.request()
        await wire.send(reply(b'[{"shop": "Doe"}]', b"content-type: application/json"))


@contextlib.asynccontextmanager
async def gateway(data: Path, index: Index, **more: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a gateway whose index answers on the data folder's socket. more: settings."""
    async with upstream(answers) as model, IndexServer(index).listening(data):
        flags = {"data": str(data), "models": {"m": {"api_base": f"{model.url}/v1"}}, **more}
        serving = Serving(load(environ={}, flags=flags))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            await serving.connections.listen(listener, 10)
            serving.set_status("")
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            async with httpx.AsyncClient(base_url=url, timeout=60) as client:
                yield client
            await serving.drain(60)


async def chat(client: httpx.AsyncClient, model: str, *messages: dict[str, str]) -> str:
    """x-rag-status of one chat."""
    reply = await client.post("/v1/chat/completions", json={"model": model, "messages": messages})
    assert (reply.status_code, reply.content) == (200, COMPLETION)
    status: str = reply.headers["x-rag-status"]
    return status


def question(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


async def journeys(recorder: Recorder, folder: Path, model: Path) -> dict[str, Journey]:
    """Each journey by its name."""
    docs, data = folder / "docs", folder / "data"
    docs.mkdir()
    plan = plan_for(data, model=str(model))
    plan = replace(plan, search=replace(plan.search, min_relevance=0.0))  # a tiny model's vectors say little
    index = await Index.open(plan, serving=False)
    found = {}
    try:
        for name, thing in (("emily", "Emily Doe bought a kettle"), ("john", "John Doe bought a lamp")):
            (docs / f"{name}.md").write_text(f"# Purchases of {name}\n\nThe last purchase: {thing}.\n", "utf-8")
            with recorder.journey() as journey:
                report = await index.writing.ingest([docs], "docs", silent)
            assert (report.added, report.failures) == (1, ())
            found["An ingested document"] = journey
        async with gateway(data, index) as client:
            for thing in ("kettle", "lamp"):
                with recorder.journey() as journey:
                    assert await chat(client, "raw/m", question(f"Who bought a {thing}?")) == "off"
                found["A chat passed through"] = journey
                with recorder.journey() as journey:
                    assert await chat(client, "m", question(f"Who bought the {thing}?")) == "augmented"
                found["An augmented chat"] = journey
                with recorder.journey() as journey:
                    assert await chat(client, "m", *HISTORY, question(f"And the {thing}?")) == "augmented"
                found["A follow-up question"] = journey
        found["A chat with an action"] = await _with_an_action(recorder, data, index)
    finally:
        await index.close()
    return found


async def _with_an_action(recorder: Recorder, data: Path, index: Index) -> Journey:
    async with upstream(lists_shops) as api:
        actions = {"shops": {"base_url": api.url, "networks": ["127.0.0.0/8"]}}
        async with gateway(data, index, actions=actions) as client:
            made = await client.put("/v1/actions/sets/shops", json=SHOPS)
            assert made.status_code == 201, made.text
            for thing in ("kettles", "lamps"):
                with recorder.journey() as journey:
                    assert await chat(client, "rage/shops/m", question(f"Which shops sell {thing}?")) == "augmented"
        assert len(api.requests) == 2
    return journey


@pytest.fixture(scope="module")
def maps() -> dict[str, Journey]:
    """The journeys, taken in a process of their own: libraries that other tests load change what is called."""
    command = [sys.executable, "-m", "tests.test_journeys", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return {name: Journey(**one) for name, one in json.loads(done.stdout.splitlines()[-1]).items()}


@pytest.mark.parametrize("journey", AT_MOST)
def test_a_journey_passes_few_files(journey: str, maps: dict[str, Journey]) -> None:
    most_files, most_switches = AT_MOST[journey]
    assert len(maps[journey].files) <= most_files, maps[journey].files
    assert maps[journey].switches <= most_switches


@pytest.mark.parametrize("journey", AT_MOST)
def test_the_map_lists_the_files_of_a_journey(journey: str, maps: dict[str, Journey]) -> None:
    """In any order: parts of a search run at the same time."""
    assert listed(journey) == set(maps[journey].files), "write the map again: python -m tests.test_journeys"


def listed(journey: str) -> set[str]:
    """The files of a journey, read from the page."""
    section = _MAP.read_text("utf-8").partition(f"## {journey}:")[2].partition("\n## ")[0]
    lines = re.findall(r"^([-+] )?([a-z]+/\S+\.py)$", section, re.MULTILINE)
    files = listed(_COMPARED_WITH[journey]) if journey in _COMPARED_WITH else set()
    return files - {file for sign, file in lines if sign == "- "} | {file for sign, file in lines if sign != "- "}


def page(maps: dict[str, Journey]) -> str:
    """The map as Markdown."""
    parts = [_INTRODUCTION]
    for journey, about in _ABOUT.items():
        taken, text = maps[journey], about
        files = taken.files
        lines = files
        if journey in _COMPARED_WITH:
            lines = _differences(maps[_COMPARED_WITH[journey]].files, files)
            text += f" The same files as of “{_COMPARED_WITH[journey]}”{', plus (+) and minus (-):' if lines else '.'}"
        block = "\n```text\n" + "\n".join(lines) + "\n```\n" if lines else ""
        parts.append(f"## {journey}: {len(files)} files, {taken.switches} switches\n\n{text}\n{block}")
    return "\n".join(parts)


def _differences(before: list[str], after: list[str]) -> list[str]:
    more = [f"+ {file}" for file in after if file not in before]
    return more + [f"- {file}" for file in before if file not in after]


def main() -> None:
    """Write the map; with --json, print the journeys instead."""
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder()
        with recorder.on():
            maps = asyncio.run(journeys(recorder, Path(folder), make_tiny_model(Path(folder) / "model")))
    if "--json" in sys.argv:
        sys.stdout.write(json.dumps({name: asdict(one) for name, one in maps.items()}) + "\n")
    else:
        _MAP.write_text(page(maps), "utf-8")


if __name__ == "__main__":
    main()
