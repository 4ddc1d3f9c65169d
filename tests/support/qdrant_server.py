"""A Qdrant server as far as ragway asks it anything: empty of hits, and with whatever fault a test gives it.

`answer` is an answer for `recording_upstream`. What a search finds is nothing; how many points a tenant has is
what the collection was last given, and each is given back by its id.
"""

import re
from dataclasses import dataclass, field

import orjson

from tests.support.recording_upstream import Answer
from tests.support.upstream_servers import Received, Wire, reply

_JSON = b"content-type: application/json"


@dataclass(slots=True)
class Qdrant:
    """A server that holds one collection."""

    dimension: int = 256  # of the embedder `hash`
    points: dict[str, object] = field(default_factory=dict)  # by id, as they were given
    fault: Answer | None = None  # how it answers instead of well, ...
    fault_at: bytes = b""  # ... at requests whose line holds this
    asked: list[bytes] = field(default_factory=list)

    async def answer(self, wire: Wire, received: Received) -> None:
        """One answer."""
        self.asked.append(received.line)
        if self.fault is not None and self.fault_at in received.line:
            await self.fault(wire, received)
            return
        said = self._said(received)
        body = said if "version" in said else {"result": said["result"], "status": "ok", "time": 0.0}
        await wire.send(reply(orjson.dumps(body), _JSON))

    def _said(self, received: Received) -> dict[str, object]:
        method, target, _ = received.line.decode().split(" ")
        path = target.partition("?")[0]
        if path == "/":
            return {"title": "qdrant - vector search engine", "version": "1.19.1"}
        done = {"operation_id": 1, "status": "completed"}
        if path.endswith("/exists"):
            return {"result": {"exists": True}}
        if path.endswith("/points/query/batch"):
            return {"result": [{"points": []} for _ in orjson.loads(received.body)["searches"]]}
        if path.endswith("/points/count"):
            return {"result": {"count": len(self.points)}}
        if method == "PUT" and path.endswith("/points"):
            given = orjson.loads(received.body)["points"]
            self.points |= {point["id"]: point for point in given}
            return {"result": done}
        if method == "POST" and path.endswith("/points"):
            asked = orjson.loads(received.body)["ids"]
            return {"result": [self.points[identifier] for identifier in asked if identifier in self.points]}
        if method == "GET" and re.fullmatch(r"/collections/[^/]+", path):
            return {"result": self._collection()}
        return {"result": done}

    def _collection(self) -> dict[str, object]:
        params = {
            "vectors": {"dense": {"size": self.dimension, "distance": "Cosine"}},
            "sparse_vectors": {"bm25": {"modifier": "idf"}},
        }
        return {
            "status": "green",
            "optimizer_status": "ok",
            "segments_count": 1,
            "payload_schema": {},
            "config": {
                "params": params,
                "hnsw_config": {"m": 0, "ef_construct": 100, "full_scan_threshold": 10_000},
                "optimizer_config": {"default_segment_number": 0, "flush_interval_sec": 5},
            },
        }
