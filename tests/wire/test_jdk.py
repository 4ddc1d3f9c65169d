"""The HttpClient of the installed JDK, with `Expect: 100-continue`: JDK 17 hangs after a refusal without a 100."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.gateway import PATIENCE_S, Served

PROGRAM = Path(__file__).resolve().parents[1] / "java" / "ExpectContinue.java"
JAVA = shutil.which("java")


@pytest.mark.skipif(JAVA is None, reason="java is not installed")
def test_the_jdks_client_gets_each_refusal(gateway: Served) -> None:
    assert JAVA is not None
    unknown, chats = gateway.url + "/v1/none", gateway.url + "/v1/chat/completions"
    asked = [
        (unknown, 10),  # refused from the head
        (unknown, 5_000_000),
        (chats, 2_000_000),  # larger than the limit of 1 MB
        (chats, 10),  # read, and refused as no JSON
    ]
    arguments = [argument for url, size_bytes in asked for argument in (url, str(size_bytes))]
    done = subprocess.run(
        [JAVA, str(PROGRAM), *arguments], check=False, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert (done.stdout.split(), done.stderr) == (["404", "404", "413", "400"], "")
