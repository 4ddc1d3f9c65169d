"""Web pages as a source: a server on loopback, whose rules, pages and answers the tests decide."""

import gzip
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from retrieval.errors import Unreachable, Unreadable
from retrieval.index.index import Index
from retrieval.ingest.sources.source import LeftOut
from retrieval.ingest.sources.web import WebSource, normal_url
from retrieval.records.sync import SourceReport, SourceSpec
from tests.support.plans import plan_for, silent

HTML = {"content-type": "text/html; charset=utf-8"}


@dataclass(slots=True)
class Site:
    """What the server answers: path -> status, headers and body."""

    url: str = ""
    pages: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)  # path, and the ETag of the condition

    def page(self, path: str, body: str, status: int = 200, **headers: str) -> str:
        sent = HTML | {name.replace("_", "-"): value for name, value in headers.items()}
        self.pages[path] = status, sent, body.encode()
        return self.url + path

    def sitemap(self, *urls: str) -> str:
        rows = "".join(f"<url><loc>{url}</loc></url>" for url in urls)
        return self.page("/sitemap.xml", f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{rows}</urlset>')


@pytest.fixture
def site() -> Iterator[Site]:
    served = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append((self.path, self.headers.get("if-none-match", "")))
            status, headers, body = served.pages.get(self.path, (404, {}, b""))
            if "etag" in headers and headers["etag"] == self.headers.get("if-none-match"):
                status, body = 304, b""
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield served
        server.shutdown()
        thread.join()


def spec(*places: str, kind: str = "web", **fields: object) -> SourceSpec:
    given = {"networks": ("127.0.0.0/8",), "per_second": 1000.0, **fields}
    return SourceSpec("site", kind, places, **given)  # type: ignore[arg-type]


@asynccontextmanager
async def opened(*places: str, **fields: object) -> AsyncIterator[WebSource]:
    async with aclosing(WebSource(spec(*places, **fields), max_bytes=100_000)) as source:  # type: ignore[arg-type]
        yield source


async def failure(site: Site, path: str = "/a", **fields: object) -> Exception:
    async with opened(site.url + path, **fields) as source:
        (candidate,) = (await source.list()).candidates
        with pytest.raises((LeftOut, Unreadable)) as refused:
            await source.read(candidate)
    return refused.value


async def test_a_sync_asks_on_condition_and_removes_what_is_gone(site: Site, data: Path) -> None:
    a, b, c = (site.page(path, f"<h1>Page</h1><p>About {path}.</p>", etag=f'"{path}1"') for path in ("/a", "/b", "/c"))
    index = await Index.open(plan_for(data), serving=False)

    async def synced(*places: str) -> SourceReport:
        site.asked.clear()
        return await index.writing.sync("docs", spec(*places), silent)

    try:
        assert sorted((await synced(a, b, c)).added) == [a, b, c]
        assert sorted(path for path, _ in site.asked) == ["/a", "/b", "/c", "/robots.txt"]  # none twice
        site.page("/b", "<h1>Page</h1><p>Another text.</p>", etag='"/b2"')
        del site.pages["/c"]
        report = await synced(a, b, c)
        assert (report.changed, report.removed, report.unchanged) == ([b], [c], 1)
        assert sorted(site.asked)[:2] == [("/a", '"/a1"'), ("/b", '"/b1"')]
        site.pages.clear()
        report = await synced(a, b)
        assert (report.outcome, report.kept, report.removed) == ("empty", 2, [])
        (row, *_) = await index.library.documents("docs", after="", limit=9, groups=None)
        assert row.attributes["url"] == row.source
    finally:
        await index.close()


async def test_a_sitemap_names_the_pages_of_its_own_host(site: Site) -> None:
    page = site.page("/docs/a", "<p>A</p>")
    site.sitemap(page, page + "#part", f"{site.url}/old/b", "https://elsewhere.example/c", f"{site.url}/d")
    index = f"<sitemapindex><sitemap><loc>{site.url}/sitemap.xml</loc></sitemap></sitemapindex>"
    site.pages["/index.xml.gz"] = 200, {"content-type": "application/gzip"}, gzip.compress(index.encode())
    async with opened(f"{site.url}/index.xml.gz", kind="sitemap", exclude=("old",), pages=1) as source:
        found = await source.list()
    assert [candidate.source for candidate in found.candidates] == [page]
    assert found.skipped == {"of another host": 1, "excluded": 1, "beyond the limit of pages": 1}


@pytest.mark.parametrize("body", ["<html>", '<!DOCTYPE a [<!ENTITY b "c">]><urlset/>'])
async def test_a_sitemap_that_is_none_cannot_be_reached(site: Site, body: str) -> None:
    async with opened(site.page("/sitemap.xml", body), kind="sitemap") as source:
        with pytest.raises(Unreachable, match="sitemap"):
            await source.list()


async def test_robots_are_respected(site: Site) -> None:
    site.page("/robots.txt", "User-agent: *\nDisallow: /*.html$\nAllow: /a\n")
    site.page("/b.html", "<p>B</p>")
    assert "robots.txt forbids it" in str(await failure(site, "/b.html"))
    assert [path for path, _ in site.asked] == ["/robots.txt"]
    site.page("/robots.txt", "", status=503)
    assert "robots.txt: the server answered with status 503" in str(await failure(site))


async def test_requests_follow_each_other_at_the_rate(site: Site) -> None:
    urls = [site.page(f"/{number}", "<p>A</p>") for number in range(4)]
    began_s = time.monotonic()
    async with opened(*urls, per_second=20.0) as source:
        for candidate in (await source.list()).candidates:
            await source.read(candidate)
    assert time.monotonic() - began_s > 4 / 20  # five requests, with robots.txt


async def test_a_private_address_is_only_called_if_the_settings_say_so(site: Site) -> None:
    site.page("/a", "<p>A</p>")
    assert "127.0.0.1 is not a public address (to allow: `networks`" in str(await failure(site, networks=()))
    assert site.asked == []
    # The server's other name is not in the settings.
    site.page("/a", "", status=302, location=site.url.replace("127.0.0.1", "localhost") + "/b")
    assert "is not a public address" in str(await failure(site))
    assert [path for path, _ in site.asked] == ["/robots.txt", "/a"]


async def test_redirects_and_canonical_addresses_name_one_page(site: Site) -> None:
    site.page("/old", "", status=301, location="/new")
    new = site.page("/new", "<p>New</p>")
    site.page("/print", f'<head><link href="{site.url}/new?" rel="canonical"></head><p>New</p>')
    site.page("/loop", "", status=302, location="/loop")
    async with opened(f"{site.url}/old") as source:
        assert (await source.read((await source.list()).candidates[0])).source == new
    async with opened(new, f"{site.url}/old", f"{site.url}/print") as source:
        _, *others = (await source.list()).candidates
        for candidate in others:
            with pytest.raises(LeftOut, match="the same as another page"):
                await source.read(candidate)
    assert "redirects without an end" in str(await failure(site, "/loop"))


async def test_only_readable_types_within_the_limit_become_documents(site: Site) -> None:
    site.page("/a", "x" * 200_000)
    assert "more than 100,000 bytes" in str(await failure(site))
    site.pages["/a"] = 200, HTML | {"content-encoding": "gzip"}, gzip.compress(b"x" * 50_000_000)
    assert "more than 100,000 bytes" in str(await failure(site))
    site.page("/a", "", content_type="video/mp4")
    assert "unsupported type video/mp4" in str(await failure(site))
    site.page("/a", "", status=500)
    assert "status 500" in str(await failure(site))
    site.pages["/a"] = 200, {"content-type": "text/plain; charset=latin-1"}, "Grüße".encode("latin-1")
    async with opened(f"{site.url}/a") as source:
        file = await source.read((await source.list()).candidates[0])
    assert (file.path.name, file.data.decode("utf-8-sig")) == ("page.txt", "Grüße")


def test_an_address_has_one_spelling() -> None:
    assert normal_url("HTTP://Example.COM:80/a b/%7Ec?q=ü#part") == "http://example.com/a%20b/%7Ec?q=%C3%BC"
    assert normal_url("https://example.com") == "https://example.com/"
