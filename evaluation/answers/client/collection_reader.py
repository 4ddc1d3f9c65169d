"""Reads a collection's documents through the gateway's Knowledge API. Each function raises BenchError."""

from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote

import httpx
import orjson

from evaluation.answers.records import BenchError
from proxy.dialects.replies import read_error

_PAGE = 1000


async def document_ids(client: httpx.AsyncClient, collection: str, *, most: int | None = None) -> list[str]:
    """Document ids, or at least the first `most`."""
    path, ids = f"/v1/knowledge/collections/{quote(collection, safe='')}/documents", list[str]()
    after: dict[str, str] = {}
    while True:
        page = await _read(client, path, collection, {"limit": str(most or _PAGE), **after})
        try:
            ids += [str(row["id"]) for row in page["data"]]
            if not page["has_more"] or (most is not None and len(ids) >= most):
                return ids
            after = {"after": str(page["last_id"])}
        except (KeyError, TypeError) as error:
            raise BenchError(
                f"the list of {collection!r} has an unknown form: is this the address of a ragway gateway?"
            ) from error


async def document(client: httpx.AsyncClient, id: str, collection: str) -> Mapping[str, Any]:
    """A document with its text."""
    return await _read(client, f"/v1/knowledge/documents/{quote(id, safe='')}", collection, {})


async def export(
    client: httpx.AsyncClient, collection: str, failed: str = "cannot be read"
) -> AsyncIterator[tuple[dict[str, Any], int]]:
    """All documents in a collection, each with its line's bytes. failed: words for an error."""
    rest = b""
    try:
        async with client.stream("GET", f"/v1/knowledge/collections/{quote(collection, safe='')}/export") as got:
            if got.status_code != 200:
                raise BenchError(
                    f"the collection {collection!r} {failed}: {got.status_code}: {read_error(await got.aread())[0]}"
                )
            async for part in got.aiter_bytes():
                *lines, rest = (rest + part).split(b"\n")
                for line in lines:
                    yield orjson.loads(line), len(line)
        if rest:
            yield orjson.loads(rest), len(rest)
    except httpx.RequestError as error:
        raise BenchError(f"the collection {collection!r} {failed}: {str(error) or type(error).__name__}") from error
    except orjson.JSONDecodeError as error:
        raise BenchError(
            f"the collection {collection!r} {failed}: its export is not JSON Lines ({error}): is this the address of a "
            "ragway gateway?"
        ) from error


async def _read(client: httpx.AsyncClient, path: str, collection: str, query: Mapping[str, str]) -> dict[str, Any]:
    try:
        got = await client.get(path, params=query)
        row = orjson.loads(got.content)
    except httpx.RequestError as error:
        raise _unreadable(collection, str(error) or type(error).__name__) from error
    except orjson.JSONDecodeError as error:
        why = f"{got.status_code} without JSON: is this the address of a ragway gateway?"
        raise _unreadable(collection, why) from error
    if got.status_code != 200 or not isinstance(row, dict):
        raise _unreadable(collection, f"{got.status_code}: {read_error(got.content)[0]}")
    return row


def _unreadable(collection: str, why: str) -> BenchError:
    return BenchError(f"the collection {collection!r} cannot be read: {why}")
