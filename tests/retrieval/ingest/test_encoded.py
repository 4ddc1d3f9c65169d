"""Pictures, certificates and keys do not become passages; checksums, paths and names stay."""

import base64
import random

import pytest

from retrieval.ingest.encoded import without_encoded_bytes

BYTES = random.Random(7).randbytes(1500)
BASE64 = base64.b64encode(BYTES).decode()
LINES = "\n".join(BASE64[at : at + 64] for at in range(0, len(BASE64), 64))


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (f"![logo](data:image/png;base64,{BASE64})", "![logo](data:image/png,…)"),
        (f"![logo](data:image/svg+xml;charset=utf-8,{'%3Csvg' * 60})", "![logo](data:image/svg+xml;charset=utf-8,…)"),
        (f"url(data:font/woff2;base64,{BASE64}) end", "url(data:font/woff2,…) end"),
        (
            f"-----BEGIN CERTIFICATE-----\n{LINES}\n-----END CERTIFICATE-----",
            "-----BEGIN CERTIFICATE-----\n…\n-----END CERTIFICATE-----",
        ),
        (f"The attachment:\n\n{LINES}\n\nRegards", "The attachment:\n\n…\n\nRegards"),
        (f"key {BYTES.hex()} ends", "key … ends"),
        (f"ssh-rsa {BASE64} ada@example", "ssh-rsa … ada@example"),
        (f'{{"picture": "{BASE64}", "name": "Tove"}}', '{"picture": "…", "name": "Tove"}'),
        (base64.urlsafe_b64encode(BYTES).decode(), "…"),
        (f'{{"picture": "{BASE64}"}}'.replace("/", "\\/"), '{"picture": "…"}'),
        (f'{{"key": "{LINES}"}}'.replace("\n", "\\n"), '{"key": "…"}'),
    ],
)
def test_encoded_bytes_are_cut(written: str, read: str) -> None:
    assert without_encoded_bytes(written) == read


@pytest.mark.parametrize(
    "text",
    [
        "sha512 " + BYTES[:64].hex(),
        "ssh-ed25519 " + BASE64[:68],
        "https://example.com/" + "harbour-office-2024/mooring-rules/" * 20,
        "_" * 600,
        "1" * 600,
        "Donaudampfschifffahrt" * 30,
        r"C:\new\reports2024\berths\rules7" * 20,
        "GATTACA" * 100,
        "data:image/png;base64, is the beginning of a picture",
        "a data: field, and -----BEGIN nothing",
        "\n".join(f"{number} berth {number * 7919:040d}" for number in range(30)),
    ],
)
def test_texts_that_people_ask_for_stay(text: str) -> None:
    assert without_encoded_bytes(text) == text


@pytest.mark.parametrize(
    "text", ["-----BEGIN A-----\n" * 30_000, "data:a/b;" + "c=d;" * 100_000, ("A1b2" * 15 + "\n") * 8000, "A1" * 10**6]
)
def test_a_hostile_text_is_read_too(text: str) -> None:
    assert len(without_encoded_bytes(text)) <= len(text)
