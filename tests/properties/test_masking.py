"""Masks: no piece of a secret stands in a result, in any usual encoding and wherever the cut is."""

import base64
import html
import json
from collections.abc import Callable
from urllib.parse import quote, quote_plus

from hypothesis import given
from hypothesis import strategies as st

from proxy.apis.credentials import masked
from proxy.apis.results import normalised, result_text

# The secrets and the texts around have no letter in common.
SECRETS = st.text("abcdefgh0123456789/+<>&\"'%=;:é", min_size=8, max_size=30).filter(lambda text: not text.isdecimal())
AROUND = st.text("XYZ", max_size=40)
JSON, HTML, TEXT = "application/json", "text/html", "text/plain"
WRITERS: list[tuple[str, Callable[[str], str]]] = [
    (TEXT, str),
    (TEXT, quote),
    (TEXT, lambda text: quote(text, safe="")),
    (TEXT, lambda text: quote(text, safe="").lower()),
    (TEXT, quote_plus),
    (TEXT, lambda text: text.encode().hex()),
    (TEXT, lambda text: "".join(one.upper() if one.isascii() else one for one in text)),
    (JSON, json.dumps),
    (JSON, lambda text: json.dumps([text], ensure_ascii=False)),
    (JSON, lambda text: json.dumps({text: 1}).replace("<", "\\u003c").replace(">", "\\u003E").replace("/", "\\/")),
    (HTML, html.escape),
    (HTML, lambda text: "".join(f"&#{ord(one)};" if ord(one) < 128 else one for one in text)),
]


def shown(body: bytes, media_type: str, secret: str, max_chars: int) -> str:
    content, bare = normalised(body, media_type)
    result = result_text(masked(content, [secret]), bare, max_chars=max_chars)
    return result.text + result.whole


def pieces(text: str, size: int = 6) -> list[str]:
    return [text[at : at + size] for at in range(len(text) - size + 1)]


@given(SECRETS, AROUND, AROUND, st.sampled_from(WRITERS), st.integers(0, 80), st.sampled_from(["utf-8", "utf-16"]))
def test_no_piece_of_a_secret_is_in_a_result(
    secret: str, before: str, after: str, writer: tuple[str, Callable[[str], str]], max_chars: int, charset: str
) -> None:
    media_type, write = writer
    written = write(secret)
    body = written if media_type == JSON else f"{before} {written} {after}"
    text = shown(body.encode(charset), f"{media_type}; charset={charset}", secret, max_chars)
    assert not [piece for piece in {*pieces(secret), *pieces(written.strip('[{"}]'))} if piece in text]


@given(SECRETS, AROUND, AROUND)
def test_at_most_the_letters_at_the_ends_of_a_secret_stay_in_base64(secret: str, before: str, after: str) -> None:
    packed = base64.b64encode(f"{before}{secret}{after}".encode()).decode()
    text = shown(packed.encode(), TEXT, secret, 10_000)
    assert "…" in text
    assert len(text.replace("…", "")) <= len(packed) - len(secret.encode()) * 8 // 6 + 4


@given(AROUND.filter(lambda text: len(text) > 2), SECRETS, st.sampled_from([TEXT, JSON]))
def test_other_content_stays(text: str, secret: str, media_type: str) -> None:
    body = json.dumps({"a": [text, 1, None, 'quo"te', "\\"]}).encode() if media_type == JSON else text.encode()
    assert masked(normalised(body, media_type)[0], [secret]) == body
