"""A part of S3 over loopback: listing and reading the objects of buckets, which are folders on disk."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

_PAGE = 2  # keys in an answer, so that listings have several


class _S3(BaseHTTPRequestHandler):
    """Answers requests that are signed, by whatever key."""

    protocol_version = "HTTP/1.1"
    root: Path
    asked: list[str]

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        self.asked.append(f"{self.command} {key}")
        if "AWS4-HMAC-SHA256" not in self.headers.get("authorization", ""):
            self._error(403, "AccessDenied")
        elif not (self.root / bucket).is_dir():
            self._error(404, "NoSuchBucket")
        elif key:
            file = self.root / bucket / key
            self._send(file.read_bytes(), etag(file)) if file.is_file() else self._error(404, "NoSuchKey")
        else:
            self._list(self.root / bucket, {name: value[0] for name, value in parse_qs(parts.query).items()})

    do_HEAD = do_GET

    def _list(self, bucket: Path, query: dict[str, str]) -> None:
        prefix, delimiter, after = (query.get(name, "") for name in ("prefix", "delimiter", "continuation-token"))
        files = {str(file.relative_to(bucket)): file for file in bucket.rglob("*") if file.is_file()}
        rows = dict[str, str]()
        for key in sorted(key for key in files if key.startswith(prefix)):
            head, found, _ = key.removeprefix(prefix).partition(delimiter or "\0")
            folder = prefix + head + delimiter if found else ""
            if folder:
                rows[folder] = f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>"
            else:
                size = files[key].stat().st_size
                rows[key] = (
                    f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified>"
                    f"<ETag>{etag(files[key])}</ETag><Size>{size}</Size></Contents>"
                )
        left = [key for key in rows if key > after]
        more = f"<NextContinuationToken>{escape(left[_PAGE - 1])}</NextContinuationToken>" if len(left) > _PAGE else ""
        self._send(
            f'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>{str(bool(more)).lower()}'
            f"</IsTruncated><KeyCount>{len(left[:_PAGE])}</KeyCount>{more}"
            f"{''.join(rows[key] for key in left[:_PAGE])}</ListBucketResult>".encode()
        )

    def _error(self, status: int, code: str) -> None:
        self._send(f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode(), status=status)

    def _send(self, body: bytes, tag: str = "", status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.send_header("content-type", "application/octet-stream" if tag else "application/xml")
        if tag:
            self.send_header("etag", tag)
            self.send_header("last-modified", "Fri, 02 Jan 2026 03:04:05 GMT")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def etag(file: Path) -> str:
    return f'"{hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()}"'


@contextmanager
def serving_s3(root: Path) -> Iterator[tuple[str, list[str]]]:
    """Serve each folder below `root` as a bucket; yields the server's address, and method and key of each request."""
    asked: list[str] = []
    handler = type("Handler", (_S3,), {"root": root, "asked": asked})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()
