"""A served gateway with collections that clients write, and keys of two teams."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from tests.support.described import described
from tests.support.gateway import Served, ragway, serving

SETTINGS = "models: {echo: {lane: echo}}"


class Shelves:
    """A gateway without documents, and keys: one writes `red*`, one reads them, one is of another team."""

    def __init__(self, served: Served, keys: dict[str, str]) -> None:
        self.served = served
        self.keys = keys

    def call(self, method: str, path: str, body: object = None, *, key: str = "writer", **more: Any) -> httpx.Response:
        shown = {"authorization": f"Bearer {self.keys[key]}"}
        url = f"{self.served.url}/v1/knowledge/{path}"
        return described(httpx.request(method, url, json=body, headers=shown, timeout=60, **more))

    def search(self, query: str, collection: str) -> list[dict[str, Any]]:
        found = self.call("POST", "search", {"query": query, "collections": [collection]})
        assert found.status_code == 200, found.text
        rows: list[dict[str, Any]] = found.json()["data"]
        return rows


@contextlib.contextmanager
def serving_shelves(folder: Path, settings: str = "", *, retrieval: str = "") -> Iterator[Shelves]:
    """One in this folder; settings: sections, retrieval: settings of that one."""
    data = folder / "data"
    data.mkdir()
    rights = {
        "writer": ["--group", "hr", "--read", "red*", "--write", "red*", "--write", "blind", "--team", "red"],
        "reader": ["--read", "red*", "--team", "red"],
        "other": ["--read", "blue*", "--write", "blue*", "--team", "blue"],
    }
    keys = {}
    for name, granted in rights.items():
        done = ragway("keys", "create", name, *granted, "--data", str(data), folder=folder)
        assert done.returncode == 0, done.stderr
        keys[name] = done.stdout.strip()
    with serving(data, folder, f"{SETTINGS}\nretrieval: {{min_relevance: 0.0, {retrieval}}}\n{settings}") as served:
        yield Shelves(served, keys)


def made(shelves: Shelves, name: str, **fields: str) -> str:
    reply = shelves.call("POST", "collections", {"name": name, **fields})
    assert (reply.status_code, reply.json()["id"]) == (201, name), reply.text
    return name
