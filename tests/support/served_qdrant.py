"""qdrant-client's local mode behind HTTP: a Qdrant server that several processes share, as far as ragway asks it.

`answer` is an answer for `recording_upstream`. One loop asks the client, so calls come one after the other.
"""

import re
from typing import Any

import orjson
from pydantic import BaseModel
from qdrant_client import AsyncQdrantClient, models

from tests.support.recording_upstream import Recorder
from tests.support.upstream_servers import Received, Wire, reply

_JSON = b"content-type: application/json"
_COLLECTION = re.compile(r"/collections/([^/]+)(.*)")


class SharedQdrant:
    """What the server holds. `asked` has the calls that came, as METHOD path."""

    def __init__(self) -> None:
        self._client = AsyncQdrantClient(":memory:")
        self.asked: list[str] = []

    def serve(self, recorder: Recorder) -> str:
        """Answer there from now on; returns the address."""
        recorder.answer = self.answer
        return recorder.url

    async def answer(self, wire: Wire, received: Received) -> None:
        method, target, _ = received.line.decode().split(" ")
        path = target.partition("?")[0]
        self.asked.append(f"{method} {path}")
        if path == "/":
            said: Any = {"title": "qdrant - vector search engine", "version": "1.19.1"}
        else:
            name = path.split("/")[2]
            if (method, path.count("/")) == ("PUT", 2) and await self._client.collection_exists(name):
                exists = {"status": {"error": f"Wrong input: Collection `{name}` already exists!"}, "time": 0.0}
                await wire.send(reply(orjson.dumps(exists), _JSON, status=b"409 Conflict"))
                return
            if path.count("/") > 2 + path.endswith("/exists") and not await self._client.collection_exists(name):
                missing = {"status": {"error": f"Not found: Collection `{name}` doesn't exist!"}, "time": 0.0}
                await wire.send(reply(orjson.dumps(missing), _JSON, status=b"404 Not Found"))
                return
            said = {"result": await self._result(method, path, received.body), "status": "ok", "time": 0.0}
        await wire.send(reply(orjson.dumps(said, default=_plain), _JSON))

    async def _result(self, method: str, path: str, body: bytes) -> Any:
        found = _COLLECTION.fullmatch(path)
        assert found is not None, path
        name, rest = found.groups()
        asked: dict[str, Any] = orjson.loads(body) if body else {}
        client, done = self._client, {"operation_id": 1, "status": "completed"}
        result: Any = done
        match method, rest:
            case "GET", "/exists":
                result = {"exists": await client.collection_exists(name)}
            case "PUT", "":
                wanted = models.CreateCollection(**asked)
                result = await client.create_collection(
                    name, vectors_config=wanted.vectors, sparse_vectors_config=wanted.sparse_vectors
                )
            case "DELETE", "":
                result = await client.delete_collection(name)
            case "GET", "":
                result = await client.get_collection(name)
            case "PUT", "/index":  # the local mode has none
                pass
            case "PUT", "/points":
                await client.upsert(name, [models.PointStruct(**point) for point in asked["points"]])
            case "POST", "/points/delete":
                await client.delete(name, models.FilterSelector(**asked))
            case "POST", "/points/query/batch":
                result = await client.query_batch_points(
                    name, [models.QueryRequest(**one) for one in asked["searches"]]
                )
            case "POST", "/points":
                wanted_points = models.PointRequest(**asked)
                result = await client.retrieve(
                    name,
                    wanted_points.ids,
                    with_payload=bool(wanted_points.with_payload),
                    with_vectors=asked.get("with_vector") or False,
                )
            case "POST", "/points/count":
                result = await client.count(name, models.Filter(**asked["filter"]))
            case "POST", "/points/scroll":
                records, offset = await client.scroll(
                    name, models.Filter(**asked["filter"]), limit=asked["limit"], offset=asked.get("offset")
                )
                result = {"points": records, "next_page_offset": offset}
            case _:
                raise AssertionError(f"{method} {path}")
        return result


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(type(value))
