"""How long one request's body blocks all other requests: ragway compared with an app that parses JSON with Starlette.

    python benchmarks/relay/hostile_bodies.py [--megabytes 23] [--times 3]

Each server has one worker. During a body's upload and reply, a probe requests /healthz repeatedly. The probe's longest
wait shows how long the event loop was blocked. The host of a virtual machine may pause the machine, so the result is
the smallest of several runs. Markdown on standard output.
"""

import argparse
import http.client
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common import servers
from benchmarks.common.output import table
from benchmarks.common.processes import Running

_CHAT = "/v1/chat/completions"
_HEAD = b'{"model":"bench","model":"bench","messages":'
_USER = b'[{"role":"user","content":"'


def bodies(size: int) -> dict[str, tuple[str, bytes]]:
    """By name: the path, and a body of about so many bytes."""

    def listed(unit: bytes, most: int = size) -> bytes:
        return b"[" + b",".join([unit] * min(size // (len(unit) + 1), most)) + b"]"

    def said(unit: bytes, head: bytes = b'{"model":"bench","messages":') -> bytes:
        return head + _USER + unit * (size // len(unit)) + b'"}]}'

    members = b",".join(b'"%d":1' % i for i in range(size // 11))
    return {
        "a long text": (_CHAT, said(b"a")),
        "a long text in Chinese": (_CHAT, said("日".encode())),
        "a repeated model and empty lists": (_CHAT, _HEAD + listed(b"[]") + b"}"),
        "a repeated model and empty objects": (_CHAT, _HEAD + listed(b"{}") + b"}"),
        "a repeated model, as many lists as are read": (_CHAT, _HEAD + listed(b"[]", 99_000) + b"}"),
        "a repeated model and a text of brackets": (_CHAT, said(b"[{:,", _HEAD)),
        "a repeated model and a text of escapes": (_CHAT, said(b'\\"', _HEAD)),
        "half surrogate pairs": (_CHAT, said(b"\\ud800")),
        "long numbers": (_CHAT, _HEAD + listed(b"1" * 4000) + b"}"),
        "many numbers": ("/v1/embeddings", b'{"model":"bench","input":' + listed(b"1") + b"}"),
        "unknown fields, a chat": (_CHAT, b'{"model":"bench","messages":[],' + members + b"}"),
        "unknown fields, a search": ("/v1/knowledge/search", b"{" + members + b"}"),
        "a filter of empty lists": ("/v1/knowledge/search", b'{"query":"x","filter":' + listed(b"[]") + b"}"),
        "empty lists for a tool": ("/mcp", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + listed(b"[]") + b"}"),
    }  # fmt: skip


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=23.0, help="of a body (default 23)")
    parser.add_argument("--times", type=int, default=3, help="each body is sent (default 3)")
    arguments = parser.parse_args()
    sent = bodies(int(arguments.megabytes * 1e6))
    found: dict[str, dict[str, tuple[float, int]]] = {}
    with tempfile.TemporaryDirectory(prefix="ragway-bench-") as made, servers.mock_upstream(Path(made)) as upstream:
        folder = Path(made)
        systems: dict[str, Callable[[], Running]] = {
            "ragway": lambda: servers.ragway(folder, "ragway", upstream.port, data=folder / "data", retrieval=True),
            "Starlette": lambda: servers.uvicorn(folder, "json_app", {}),
        }
        for name, system in systems.items():
            running = system()
            try:
                found[name] = {
                    what: min(_stall_ms(running.port, path, body) for _ in range(arguments.times))
                    for what, (path, body) in sent.items()
                }
            finally:
                running.stop()
    rows = [
        [what, f"{ours:.0f}", str(status), f"{theirs:.0f}", f"{ours / theirs:.2f}"]
        for what, (ours, status) in found["ragway"].items()
        for theirs, _ in [found["Starlette"][what]]
    ]
    heads = [f"body of {arguments.megabytes:g} MB", "ragway: longest wait, ms", "answer", "Starlette, ms", "ratio"]
    print(table(heads, rows))
    return 0


def _stall_ms(port: int, path: str, body: bytes) -> tuple[float, int]:
    """The longest wait of a probe while the body is sent and answered, and the answer's status."""
    over, longest_ms = threading.Event(), 0.0

    def probe() -> None:
        nonlocal longest_ms
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        while not over.is_set():
            began = time.perf_counter()
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            longest_ms = max(longest_ms, (time.perf_counter() - began) * 1000)
            time.sleep(0.002)
        connection.close()

    thread = threading.Thread(target=probe)
    thread.start()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        accepted = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        try:
            connection.request("POST", path, body, accepted)
            status = connection.getresponse().status
        except ConnectionError:  # the server refused before reading the whole body
            status = 0
        connection.close()
    finally:
        over.set()
        thread.join()
    return longest_ms, status


if __name__ == "__main__":
    sys.exit(main())
