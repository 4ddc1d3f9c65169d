"""The requests and the expected replies."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from benchmarks.common.load import Check, Mismatch, Reply, post
from benchmarks.common.mock_upstream import WORDS
from benchmarks.common.servers import MODEL, PACED

# The size of a typical application's prompt: with question and parameters, a body of 1 KB.
_SYSTEM = (
    "You are the assistant of the support desk. Answer in the language of the question, in at most four sentences. "
    "Name the setting or the command the reader needs, exactly as it is written. Where you are not sure, say so, and "
    "say what you would have to know. Never invent a setting, a command or an address. If the question is about an "
    "invoice, a contract or a person, do not answer it but name the office that does: accounts for invoices, sales "
    "for contracts, the front desk for everything else. Keep a friendly and matter-of-fact tone. Do not repeat the "
    "question. Use a list only where there are at least three things to tell apart."
)


def questions(passages: Sequence[str]) -> Iterator[str]:
    """Endless questions that the passages answer. Each question contains a new number, so no cache can help."""
    for number, passage in enumerate(cycle(passages), 10_000):
        words = " ".join(passage.split()[:14]).rstrip(".,;:")
        yield f"Ticket {number}: why is it that {words[:90]}?"


def chat(question: str, *, model: str = MODEL, stream: bool = False) -> bytes:
    """The bytes of a chat completion's request."""
    messages = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": question}]
    fields = {"model": model, "messages": messages, "temperature": 0.2, "max_tokens": 400, "stream": stream}
    # The mock upstream reads the pace from the path, a gateway from the model; both agree here.
    path = "/paced/v1/chat/completions" if model == PACED else "/v1/chat/completions"
    return post(path, json.dumps(fields).encode())


def in_dialect(path: str, question: str, *, stream: bool = False, stored: bool = False) -> bytes:
    """The bytes of the same request in the dialect of a path: the same texts, length of the answer and temperature.

    stored: the provider stores the response, so that the gateway stores the question for a request that continues.
    """
    instructions: dict[str, Any] = {"/v1/responses": {"instructions": _SYSTEM}, "/v1/messages": {"system": _SYSTEM}}
    user = [{"role": "user", "content": question}]
    length = "max_output_tokens" if path == "/v1/responses" else "max_tokens"
    if path not in instructions:
        return chat(question, stream=stream)
    conversation = {"input" if path == "/v1/responses" else "messages": user}
    fields = {"model": MODEL, **instructions[path], **conversation, "temperature": 0.2, length: 400, "stream": stream}
    return post(path, json.dumps({**fields, **({"store": stored} if path == "/v1/responses" else {})}).encode())


def through_gateway(request: bytes) -> bytes:
    """The same request to a gateway, which knows no /paced."""
    return request.replace(b"POST /paced/", b"POST /", 1)


_WORD = re.compile(rb"\bword\d+\b")


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected replies of one system."""

    title: str
    rag_status: bytes | None  # of the header x-rag-status
    body: bytes  # direct's
    same_bytes: bool  # False: only the same text, from a system that builds a new reply

    def check(self) -> Check:
        """A function that raises Mismatch for a wrong reply."""
        text = text_of(self.body)

        def check(reply: Reply) -> None:
            if reply.broken:
                raise Mismatch(f"{self.title}: a reply broke off: {reply.broken}")
            if reply.status != 200:
                raise Mismatch(f"{self.title} answered with {reply.status}: {bytes(reply.body[:300])!r}")
            if reply.headers.get(b"x-rag-status") != self.rag_status:
                found = reply.headers.get(b"x-rag-status"), reply.headers.get(b"x-rag-reason")
                raise Mismatch(f"{self.title}: expected x-rag-status {self.rag_status!r}, got {found}")
            if reply.body != self.body and (self.same_bytes or text_of(bytes(reply.body)) != text):
                what = "bytes" if self.same_bytes else "text"
                raise Mismatch(f"{self.title}: a reply's {what} differ from direct's: {bytes(reply.body[:300])!r}")

        return check


def words_lost(body: bytes) -> int:
    """The number of words missing from a streamed reply; each word has a frame."""
    return len(WORDS - set(_WORD.findall(body)))


def text_of(body: bytes) -> str:
    """The text of a reply's first choice, streamed or not. Raises Mismatch where the stream has no end."""
    try:
        if not body.startswith(b"data: "):
            return _content(json.loads(body)["choices"], "message")
        if not body.rstrip().endswith(b"data: [DONE]"):
            raise Mismatch(f"a stream without its end: {body[-300:]!r}")
        return "".join(_content(event["choices"], "delta") for event in _events(body))
    except (ValueError, KeyError, TypeError) as error:
        raise Mismatch(f"no chat completion: {body[:300]!r}") from error


def _events(body: bytes) -> Iterable[dict[str, Any]]:
    for line in body.splitlines():
        if line.startswith(b"data: {"):
            yield json.loads(line.removeprefix(b"data: "))


def _content(choices: list[dict[str, Any]], part: str) -> str:
    return choices[0][part].get("content") or "" if choices else ""
