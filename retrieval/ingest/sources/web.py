"""Web pages as a source: a list of addresses, or those of a sitemap.

Polite: `robots.txt` is respected (RFC 9309), requests to a host follow each other at a fixed rate, and a page that was
read before is asked for on condition (`If-None-Match`, `If-Modified-Since`). Careful: each resolved address is checked,
also after a redirect; only hosts that the settings name may be at a private address. Pages are parsed where all
documents are (`runtime.sandbox`).
"""

import asyncio
import contextlib
import functools
import mimetypes
import re
import time
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from html import unescape
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin, urlsplit, urlunsplit
from xml.etree import ElementTree

from retrieval.catalog.revisions import RevisionRecord
from retrieval.errors import Unreachable, Unreadable
from retrieval.ingest.containers import container_of
from retrieval.ingest.exclude import excluded
from retrieval.ingest.formats.registry import FORMATS
from retrieval.ingest.load import FileCandidate, FoundFiles, content_hash
from retrieval.ingest.sources.source import Known, LeftOut, Unchanged
from retrieval.ingest.splitting import SourceFile
from retrieval.records.sync import SourceSpec
from runtime.http_client import Client, UpstreamError
from runtime.logs import printable
from runtime.public_addresses import ForbiddenAddress, IPNetwork, checked_addresses, networks_of

if TYPE_CHECKING:
    from protego import Protego

_AGENT = "ragway"
_CONNECT_S, _ANSWER_S, _PAGE_S = 10.0, 30.0, 120.0
_MOST_REDIRECTS = 5
_MOST_ROBOTS_BYTES = 512_000  # RFC 9309 §2.5 asks for at least 500 KiB
_MOST_SITEMAP_BYTES, _MOST_SITEMAPS = 52_428_800, 50  # sitemaps.org: 50 MB
_MOST_KEPT = 20  # pages read for a collection's language, and not asked for again
_CANONICAL = re.compile(rb"<link\b[^>]{0,500}?\brel\s*=\s*[\"']?canonical\b[^>]{0,2000}>", re.IGNORECASE)
_HREF = re.compile(rb"\bhref\s*=\s*(?:\"([^\"]+)\"|'([^']+)')", re.IGNORECASE)
_HEAD_BYTES = 100_000


@dataclass(frozen=True, slots=True)
class _Reply:
    """A server's last answer, after redirects."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes


class WebSource:
    """Pages by their addresses. A page that is gone (404, 410) is removed; one that fails otherwise stays as it was."""

    def __init__(self, spec: SourceSpec, *, max_bytes: int) -> None:
        self._spec = spec
        self._prefix = web_prefix(spec.name)
        self._max_bytes = max_bytes
        self._hosts = {urlsplit(place).hostname for place in spec.places}
        self._client = Client(
            connect_timeout_s=_CONNECT_S,
            first_byte_timeout_s=_ANSWER_S,
            idle_timeout_s=_ANSWER_S,
            keepalive_s=_ANSWER_S,
            max_connections=2,
            resolve=functools.partial(_resolved, self._hosts, networks_of(spec.networks)),
            lenient=True,
        )
        self._robots: dict[str, Protego | None] = {}  # origin -> rules; None: everything is allowed
        self._free_s: dict[str, float] = {}  # host -> when the next request may start
        self._listed: set[str] = set()
        self._kept: dict[str, SourceFile] = {}

    async def list(self) -> FoundFiles:
        skipped = Counter[str]()
        urls: Sequence[str] = [normal_url(place) for place in self._spec.places]
        if self._spec.kind == "sitemap":
            urls = await self._of_sitemaps(urls, skipped)
        found = list[FileCandidate]()
        for url in dict.fromkeys(urls):
            parts = urlsplit(url)
            root = Path(f"/{parts.hostname}")
            path = root / parts.path.lstrip("/")
            if any(excluded(at, root, self._spec.exclude) for at in (path, *path.parents)):
                skipped["excluded"] += 1
            elif len(found) >= self._spec.pages:
                skipped["beyond the limit of pages"] += 1
            else:
                found.append(FileCandidate(Path("page.html"), printable(url), self._prefix + url))
        self._listed = {candidate.source for candidate in found}
        return FoundFiles(tuple(found), dict(skipped), ())

    async def read(self, candidate: FileCandidate, mark: str = "") -> SourceFile:
        if (kept := self._kept.pop(candidate.key, None)) is not None:
            return kept
        etag, _, modified = mark.partition("\n")
        conditions = {"if-none-match": etag, "if-modified-since": modified}
        try:
            reply = await self._get(candidate.source, {name: value for name, value in conditions.items() if value})
        except Unreachable as error:
            raise Unreadable(str(error)) from error
        if reply.status == 304 and mark:
            raise Unchanged
        if reply.status in (404, 410):
            raise LeftOut(f"gone ({reply.status})")
        if reply.status != 200:
            remedy = (
                "allow the gateway there, or take the page off the list" if reply.status < 500 else "try again later"
            )
            raise Unreadable(f"the server answered with status {reply.status}; {remedy}")
        url = self._canonical(reply)
        if url != candidate.source and url in self._listed:
            raise LeftOut("the same as another page")
        file = _as_file(reply, url)
        if len(self._kept) < _MOST_KEPT and not mark:
            self._kept[candidate.key] = file
        return file

    def version(self, file: SourceFile) -> str:
        return content_hash(file.data)

    def gone(self, known: Known, found: FoundFiles, source_of: Callable[[RevisionRecord], str]) -> set[str]:
        there = {candidate.key for candidate in found.candidates}
        return {key for key in known if key.startswith(self._prefix) and container_of(key) not in there}

    def leaves_out(self, key: str) -> bool:
        return False  # no page is a container

    async def aclose(self) -> None:
        self._client.close()

    async def _of_sitemaps(self, sitemaps: Sequence[str], skipped: Counter[str]) -> Sequence[str]:
        """Pages of sitemaps, and of the sitemaps that these name. Raises Unreachable."""
        urls, waiting, seen = list[str](), list(sitemaps), 0
        while waiting:
            sitemap = waiting.pop(0)
            seen += 1
            if seen > _MOST_SITEMAPS:
                skipped["sitemap beyond the limit"] += 1 + len(waiting)
                break
            reply = await self._get(sitemap, {}, _MOST_SITEMAP_BYTES)
            if reply.status != 200:
                raise Unreachable(f"{printable(sitemap)}: the server answered with status {reply.status}")
            pages, inner = await asyncio.to_thread(_sitemap, reply)
            for url in (*pages, *inner):
                if urlsplit(url).hostname not in self._hosts:
                    skipped["of another host"] += 1
                elif url in inner:
                    waiting.append(url)
                else:
                    urls.append(url)
        return urls

    def _canonical(self, reply: _Reply) -> str:
        """The page's own address: as the page says, if that is on the same host."""
        if "html" in reply.headers.get("content-type", "") and (tag := _CANONICAL.search(reply.body[:_HEAD_BYTES])):
            href = _HREF.search(tag[0])
            said = unescape((href[1] or href[2]).decode("utf-8", "replace")) if href else ""
            url = normal_url(urljoin(reply.url, said.strip()))
            if said and urlsplit(url)[:2] == urlsplit(reply.url)[:2]:
                return url
        return reply.url

    async def _get(self, url: str, headers: Mapping[str, str], max_bytes: int | None = None) -> _Reply:
        """Follow redirects, each to a checked address and as robots.txt allows. Raises Unreachable, LeftOut."""
        try:
            async with asyncio.timeout(_PAGE_S):
                for _ in range(_MOST_REDIRECTS + 1):
                    await self._ask_robots(url)
                    reply = await self._ask(url, headers, max_bytes or self._max_bytes)
                    if reply.status not in (301, 302, 303, 307, 308) or "location" not in reply.headers:
                        return reply
                    url = normal_url(urljoin(url, reply.headers["location"]))
        except TimeoutError as error:
            raise Unreachable(f"no whole answer within {_PAGE_S:g} s") from error
        raise Unreachable("the server redirects without an end")

    async def _ask_robots(self, url: str) -> None:
        """Raise LeftOut if the host's rules forbid a page; Unreachable if they cannot be read."""
        from protego import Protego

        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        if origin not in self._robots:
            reply = await self._ask(f"{origin}/robots.txt", {}, _MOST_ROBOTS_BYTES)
            if reply.status >= 500:
                raise Unreachable(f"{origin}/robots.txt: the server answered with status {reply.status}")
            text = reply.body.decode("utf-8", "replace") if reply.status == 200 else None
            self._robots[origin] = None if text is None else await asyncio.to_thread(Protego.parse, text)
        rules = self._robots[origin]
        if rules is not None and not rules.can_fetch(url, _AGENT):
            raise LeftOut("robots.txt forbids it")

    async def _ask(self, url: str, headers: Mapping[str, str], max_bytes: int) -> _Reply:
        """One request, when it is its turn. Raises Unreachable."""
        await self._turn(url)
        sent = {"user-agent": _AGENT, "accept": "text/html, */*;q=0.5", "accept-encoding": "gzip", **headers}
        rows = [(name.encode(), value.encode("latin-1", "replace")) for name, value in sent.items()]
        try:
            response = await self._client.request(b"GET", url, rows, b"")
            try:
                got = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
                unpack = zlib.decompressobj(16 + zlib.MAX_WBITS) if "gzip" in got.get("content-encoding", "") else None
                body = bytearray()
                while piece := await response.read():
                    body += piece if unpack is None else unpack.decompress(piece, max_bytes + 1 - len(body))
                    if len(body) > max_bytes:
                        raise Unreachable(f"too large: more than {max_bytes:,} bytes, the limit (ingest.max_file_mb)")
            finally:
                response.close()
        except (UpstreamError, ForbiddenAddress, ValueError, zlib.error) as error:
            raise Unreachable(printable(str(error))) from error
        return _Reply(url, response.status, got, bytes(body))

    async def _turn(self, url: str) -> None:
        host, now = urlsplit(url).netloc, time.monotonic()
        rules = self._robots.get(f"{urlsplit(url).scheme}://{host}")
        pause_s = max(1 / self._spec.per_second, (rules.crawl_delay(_AGENT) or 0.0) if rules is not None else 0.0)
        start_s = max(now, self._free_s.get(host, now))
        self._free_s[host] = start_s + min(pause_s, _PAGE_S / 4)
        await asyncio.sleep(start_s - now)


async def _resolved(hosts: Set[str | None], networks: Sequence[IPNetwork], host: str, port: int) -> list[str]:
    """A name's addresses, all checked; only these hosts may be in the networks. Raises ForbiddenAddress."""
    allowed = networks if host in hosts else ()
    return await asyncio.to_thread(checked_addresses, host, port, allowed, setting="`networks` of the source")


def web_prefix(name: str) -> str:
    """What the catalog keys of a web source's pages begin with."""
    return f"web:{name}!/"


def normal_url(url: str) -> str:
    """One spelling of an address: no fragment, host in small letters, no default port, unsafe letters quoted."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        return url  # refused later
    host = parts.hostname or ""
    netloc = f"[{host}]" if ":" in host else host
    if port is not None and port != {"http": 80, "https": 443}.get(parts.scheme):
        netloc += f":{port}"
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    return urlunsplit((parts.scheme.lower(), netloc, path, quote(parts.query, safe="/%:@!$&'()*+,;=~-._?"), ""))


def _sitemap(reply: _Reply) -> tuple[list[str], list[str]]:
    """A sitemap's pages, and the sitemaps that it names. Raises Unreachable."""
    text = reply.body
    if text[:2] == b"\x1f\x8b":
        text = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(text, _MOST_SITEMAP_BYTES)
    if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
        raise Unreachable(f"{printable(reply.url)}: a sitemap has no document type")
    try:
        tree = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise Unreachable(f"{printable(reply.url)} is not a sitemap: {error}") from error
    urls = [normal_url(urljoin(reply.url, place.text or "")) for place in tree.iterfind(".//{*}loc")]
    return ([], urls) if tree.tag.endswith("sitemapindex") else (urls, [])


def _as_file(reply: _Reply, url: str) -> SourceFile:
    """Raises LeftOut for a type that cannot be read."""
    said = reply.headers.get("content-type", "text/html")
    kind, _, parameters = said.partition(";")
    kind = kind.strip().lower()
    own = PurePosixPath(urlsplit(url).path).suffix.lower()
    if kind in ("text/html", "application/xhtml+xml"):
        suffix = ".html"
    elif kind == "text/plain":
        suffix = own if own in FORMATS else ".txt"
    else:
        suffix = {"text/markdown": ".md"}.get(kind) or mimetypes.guess_extension(kind) or own
    if suffix not in FORMATS:
        raise LeftOut(f"unsupported type {printable(kind)}")
    data, charset = reply.body, parameters.partition("charset=")[2].strip(" \"'").lower()
    if kind.startswith("text/") and charset not in ("", "utf-8", "utf8"):
        with contextlib.suppress(LookupError):  # an unknown charset: the page itself may say another
            data = b"\xef\xbb\xbf" + data.decode(charset, "replace").encode()
    etag, modified = reply.headers.get("etag", ""), reply.headers.get("last-modified", "")
    try:
        modified_s = parsedate_to_datetime(modified).timestamp() if modified else time.time()
    except ValueError:
        modified_s = time.time()
    mark = f"{etag}\n{modified}" if etag or modified else ""
    return SourceFile(
        Path(f"page{suffix}"), url, data, modified_s, format=FORMATS[suffix][0], mark=mark, described={"url": url}
    )
