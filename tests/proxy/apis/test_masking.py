"""Secrets in texts that are cut."""

import base64
import functools
import json
import re
import textwrap
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.apis.credentials import masked, masked_ends
from tests.support.rows import all_rows

SECRET = "S3cr3t-of/the+API==with=signs"
QUOTED = 'a"b\\c"d' + SECRET


def in_levels(text: str, levels: int) -> str:
    for _ in range(levels):
        text = json.dumps({"v": text})
    return text


FORMS: dict[str, Callable[[str], str]] = {
    "base64 of MIME": lambda secret: base64.encodebytes(b"x" * 40 + secret.encode() + b"y" * 40).decode(),
    "base64 of MIME in JSON": lambda secret: json.dumps(base64.encodebytes(b"ab" + secret.encode() * 3).decode()),
    "base64 of short lines": lambda secret: "\r\n".join(textwrap.wrap(base64.b64encode(secret.encode()).decode(), 10)),
    "base32": lambda secret: base64.b32encode(secret.encode()).decode(),
    "base32 in small letters": lambda secret: base64.b32encode(secret.encode()).decode().lower(),
    "hex with colons": lambda secret: secret.encode().hex(":"),
    "hex with spaces": lambda secret: secret.encode().hex(" ").upper(),
    **{f"JSON, {levels} levels": functools.partial(in_levels, levels=levels) for levels in range(1, 5)},
    "references in JSON": lambda secret: json.dumps("".join(f"&#{ord(letter)};" for letter in secret)),
    "references of references": lambda secret: "".join(f"&amp;#x{ord(letter):x};" for letter in secret),
    "escapes in HTML": lambda secret: (
        "<p>" + "".join(f"\\u{ord(letter):04x}" for letter in secret if letter not in '"\\')
    ),
    "escapes in JSON in JSON": lambda secret: json.dumps("".join(f"\\u{ord(letter):04x}" for letter in SECRET)),
}


@all_rows("form", FORMS)
@all_rows("secret", [SECRET, QUOTED])
def test_a_secret_is_masked_in_each_form(form: str, secret: str) -> None:
    secret = SECRET if form == "escapes in HTML" else secret
    shown = masked(f"before {FORMS[form](secret)} after".encode(), [secret, SECRET]).decode()
    assert shown.startswith("before ")
    assert shown.endswith(" after")
    assert "…" in shown
    packed = {secret, base64.b64encode(secret.encode()).decode()[:16], secret.encode().hex()[:16]}
    bare = re.sub(r"[\s:]|\\\\[rn]", "", shown)
    assert not any(one.lower() in bare.lower() for one in packed)


def test_escapes_without_a_secret_stay() -> None:
    for text in (b'{"a": "\\\\u0041 &#65; <b>"}', b"01:23:45\n67:89 line\nbreaks"):
        assert masked(text, [SECRET]) == text


@given(before=st.integers(0, 3_000), after=st.integers(0, 3_000), times=st.integers(1, 40))
def test_no_part_of_a_secret_is_left_at_a_cut(before: int, after: int, times: int) -> None:
    text = "." * before + SECRET * times + "," * after
    shown = masked_ends(text, [SECRET, "another"], 200)
    assert len(shown) < 300
    assert not any(SECRET[start : start + 4] in shown for start in range(len(SECRET) - 4))


@pytest.mark.parametrize("text", ["", "short", "x" * 200])
def test_a_short_text_stays(text: str) -> None:
    assert masked_ends(text, [SECRET], 200) == text


def test_a_long_text_keeps_both_ends() -> None:
    shown = masked_ends("a" * 5_000_000 + "z" * 5_000_000, [SECRET], 200)
    assert shown == "a" * 100 + " … 9,999,800 characters left out … " + "z" * 100
