"""Canaries: secrets of tests, and a search for canaries in any usual encoding."""

import base64
import html
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import quote, quote_plus

HEAD, TAIL = "cnryQ", "yrncZ"  # of every canary: half of a canary is found, too


@dataclass(slots=True)
class Canaries:
    """The canaries of one test."""

    made: dict[str, str] = field(default_factory=dict)  # where the canary is used -> canary

    def new(self, place: str, signs: str = "+/&<x>=%") -> str:
        """A canary. signs: characters that encodings write in other ways."""
        return self.made.setdefault(place, f"{HEAD}{len(self.made):03}{signs}v3ry{len(self.made):03}{TAIL}")

    def number(self, place: str) -> str:
        """A canary of digits alone."""
        return self.made.setdefault(place, f"77319902{len(self.made):03}")

    def found_in(self, name: str, content: bytes) -> list[str]:
        """The canaries in the content, as "name: place of the canary: form"."""
        lower = content.replace(b"\0", b"").lower()
        halves = [half for half in (HEAD, TAIL) if half.lower().encode() in lower]
        found = [f"{name}: a piece {half!r}: {_around(lower, half.lower().encode())!r}" for half in halves]
        for place, canary in self.made.items():
            forms = [form for form in forms_of(canary) if form.lower() in lower]
            found += [f"{name}: {place}: {form!r}: {_around(lower, form.lower())!r}" for form in forms]
        return found

    def sent_to(self, requests: Iterable[bytes]) -> set[str]:
        """The places of the canaries in the requests."""
        whole = b"\n".join(requests).lower()
        return {place for place, canary in self.made.items() if any(form.lower() in whole for form in forms_of(canary))}


def forms_of(text: str) -> set[bytes]:
    """A text in the encodings of URLs, HTML, JSON, hexadecimal digits and base64 (within other bytes, too)."""
    raw = text.encode()
    forms = {text, quote(text), quote(text, safe=""), quote_plus(text), html.escape(text), json.dumps(text)[1:-1]}
    forms |= {"".join(f"%{one:02x}" for one in raw), "".join(f"&#{one};" for one in raw), raw.hex()}
    for before in range(3):
        letters = base64.b64encode(b"\0" * before + raw).decode()
        inner = letters[4 if before else 0 : (before + len(raw)) // 3 * 4]
        forms |= {inner, inner.replace("+", "-").replace("/", "_")}
    return {form.encode() for form in forms}


def _around(content: bytes, form: bytes) -> bytes:
    at = content.index(form)
    return content[max(0, at - 60) : at + len(form) + 30]
