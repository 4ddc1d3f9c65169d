"""The writing part of `isolation`: each caller writes an own shelf, and tries to write foreign shelves.

The content of a shelf is known exactly, because a caller runs one action at a time. A token of a replaced or deleted
document, or of a collection deleted before the name was reused, belongs to no key and must never appear.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from urllib.parse import quote

Ask = Callable[[str, str, str, object, int], Awaitable[bytes]]  # kind, method, path, body, status due -> body
_BOUNDARY = "zzz"
_COLLECTIONS = "/v1/knowledge/collections"
_STORES = "/v1/vector_stores"
# Unusual keys and file names; {id}: of a foreign document.
_ODD_KEYS = (
    "../../etc/passwd",
    "/etc/passwd",
    "api:x",
    "{id}",
    "a b",
    "a%2Fb",
    "größe",
    "'; DROP TABLE documents; --",
    "@1",
)
_ODD_NAMES = ("..\\..\\x.md", "../../x.md", "/root/x.md", "a' OR 1=1 --.md", "{id}.md", "%00.md")


@dataclass(frozen=True, slots=True)
class Form:
    """A form body: fields and one file."""

    name: str
    content: str
    fields: dict[str, str] = field(default_factory=dict)

    def encoded(self) -> tuple[bytes, bytes]:
        """Content type and body."""
        parts = [
            f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in self.fields.items()
        ]
        head = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{self.name}"\r\n\r\n'
        whole = "".join([*parts, head, self.content, f"\r\n--{_BOUNDARY}--\r\n"])
        return b"multipart/form-data; boundary=" + _BOUNDARY.encode(), whole.encode()


@dataclass(slots=True)
class Shelf:
    """A collection that one caller writes."""

    name: str = ""
    there: bool = False
    tokens: dict[str, bytes] = field(default_factory=dict)  # key -> token of the document
    files: list[str] = field(default_factory=list)  # ids of the caller's uploaded files
    jobs: list[str] = field(default_factory=list)
    alone: asyncio.Lock = field(default_factory=asyncio.Lock)


class Shelving:
    """Random actions on shelves."""

    def __init__(self, of: dict[bytes, str], others: Callable[[Shelf], Sequence[Shelf]], random: Random) -> None:
        """of: the owner of each token, updated here. others: all shelves except the given shelf."""
        self._of = of
        self._others = others
        self._random = random
        self._actions = itertools.cycle(
            [self._put, self._upload, self._keep_file, self._renew, self._put_many, self._delete]
        )

    async def act(self, shelf: Shelf, ask: Ask, foreign: Sequence[str], readable: Sequence[str], id: str) -> None:
        """Run a random action.

        foreign: unreadable collections, readable: read-only collections; id: of a foreign document.
        """
        async with shelf.alone:
            if not shelf.there:
                await ask("made", "POST", _COLLECTIONS, {"name": shelf.name}, 201)
                shelf.there = True
            await next(self._actions)(shelf, ask, id)
            await self._look(shelf, ask)
            await self.trespass(shelf, ask, foreign, readable, id)

    async def trespass(self, shelf: Shelf, ask: Ask, foreign: Sequence[str], readable: Sequence[str], id: str) -> None:
        """Try to write something that belongs to another caller."""
        name = self._random.choice([*foreign, *readable])
        status = 403 if name in readable else 404
        below = f"{_COLLECTIONS}/{name}"
        text = {"text": "This must not be written."}
        calls: list[tuple[str, str, object, int]] = [
            ("PUT", f"{below}/documents/a", text, status),
            ("POST", f"{below}/documents", {"documents": [{"key": id, **text}]}, status),
            ("POST", f"{below}/files", Form("a.md", "This must not be written."), status),
            ("DELETE", below, None, status),
            ("DELETE", f"{below}/documents/a", None, 404),
            ("POST", _COLLECTIONS, {"name": name}, 403),
            ("POST", _STORES, {"name": name}, 403),
            ("DELETE", f"{_STORES}/{name}", None, status),
            ("DELETE", f"/v1/knowledge/documents/{id}", None, 404),
        ]
        if id not in shelf.tokens:  # the id may also be a key of the caller: _ODD_KEYS
            calls += [(method, f"{_STORES}/{shelf.name}/files/{id}", None, 404) for method in ("GET", "DELETE")]
        other = self._random.choice(self._others(shelf))
        for job in other.jobs[-1:]:
            calls += [(method, f"/v1/knowledge/jobs/{job}", None, 404) for method in ("GET", "DELETE")]
        for file in other.files[-1:]:
            calls += [("GET", f"/v1/files/{file}", None, 404), ("GET", f"/v1/files/{file}/content", None, 404)]
            calls += [("DELETE", f"/v1/files/{file}", None, 404)]
            ids = [*shelf.files[-1:], file]  # one foreign file among own files
            calls += [("POST", f"{_STORES}/{shelf.name}/file_batches", {"file_ids": ids}, 404)]
        method, path, body, due = self._random.choice(calls)
        await ask("trespass", method, path, body, due)

    async def _put(self, shelf: Shelf, ask: Ask, _id: str) -> None:
        key = f"{self._random.randrange(8)}.md"
        due = 200 if key in shelf.tokens else 201
        body = {"text": self._text(shelf, key)}
        await ask("put", "PUT", f"{_COLLECTIONS}/{shelf.name}/documents/{quote(key)}", body, due)

    async def _put_many(self, shelf: Shelf, ask: Ask, id: str) -> None:
        keys = ["0.md", self._random.choice(_ODD_KEYS).replace("{id}", id)]
        documents = [{"key": key, "text": self._text(shelf, key)} for key in keys]
        await ask("put", "POST", f"{_COLLECTIONS}/{shelf.name}/documents", {"documents": documents}, 200)

    async def _upload(self, shelf: Shelf, ask: Ask, id: str) -> None:
        name = self._random.choice(_ODD_NAMES).replace("{id}", id)
        key = name.replace("\\", "/").rpartition("/")[2]
        form = Form(name, self._text(shelf, key), {"attributes": '{"year": 2024}'})
        await ask("upload", "POST", f"{_COLLECTIONS}/{shelf.name}/files", form, 200)

    async def _delete(self, shelf: Shelf, ask: Ask, _id: str) -> None:
        key = f"{self._random.randrange(8)}.md"
        due = 200 if key in shelf.tokens else 404
        await ask("delete", "DELETE", f"{_COLLECTIONS}/{shelf.name}/documents/{quote(key)}", None, due)
        self._of.pop(shelf.tokens.pop(key, b""), None)

    async def _renew(self, shelf: Shelf, ask: Ask, id: str) -> None:
        """Delete a collection and create a collection with the same name."""
        await ask("delete", "DELETE", f"{_COLLECTIONS}/{shelf.name}", None, 200)
        for token in shelf.tokens.values():
            self._of.pop(token)
        shelf.tokens.clear()
        shelf.jobs.clear()
        await ask("made", "POST", _COLLECTIONS, {"name": shelf.name}, 201)
        await self._put(shelf, ask, id)

    async def _keep_file(self, shelf: Shelf, ask: Ask, _id: str) -> None:
        form = Form("kept.md", "A file that nobody attached.", {"purpose": "assistants"})
        await ask("file", "POST", "/v1/files", form, 200)

    async def _look(self, shelf: Shelf, ask: Ask) -> None:
        """Check that the shelf shows exactly the known content."""
        shown = await ask("shelf", "GET", f"{_COLLECTIONS}/{shelf.name}/export", None, 200)
        for key, token in shelf.tokens.items():
            if token not in shown:
                raise AssertionError(f"{key!r} of {shelf.name} is not in its export: {shown[:500]!r}")
        query = {"query": "What is it called?", "collections": [shelf.name], "k": 100}
        await ask("shelf", "POST", "/v1/knowledge/search", query, 200)
        path = self._random.choice(["/v1/knowledge/jobs", "/v1/files", f"{_STORES}/{shelf.name}/files", _STORES])
        await ask("shelf", "GET", path, None, 200)

    def _text(self, shelf: Shelf, key: str) -> str:
        """A text with a new token for a key; the token of the replaced text then belongs to no key."""
        token = f"zq{self._random.randbytes(6).hex()}"
        self._of.pop(shelf.tokens.get(key, b""), None)
        shelf.tokens[key] = token.encode()
        self._of[token.encode()] = shelf.name
        return f"It is called {token}."
