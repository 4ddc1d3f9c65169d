"""The official openai SDK for Node against the served gateway: one run of `tests/node/sdk.mjs` a lane, read here."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import Served

NODE = Path(__file__).resolve().parents[1] / "node"
QUESTION = {"role": "user", "content": "How do I use Zephyr from Kotlin?"}

pytestmark = [
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
    pytest.mark.skipif(not (NODE / "node_modules" / "openai").is_dir(), reason="npm ci was not run in tests/node"),
]


@pytest.fixture(scope="module", params=["relay", "translated"])
def lane(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def results(lane: str, lanes: Served, openai_url: str) -> dict[str, Any]:
    """What the SDK made of each case."""
    done = subprocess.run(
        ["node", NODE / "sdk.mjs", f"{lanes.url}/v1", lane, openai_url],
        check=True,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.stderr == ""
    cases: dict[str, Any] = json.loads(done.stdout)
    assert {name: case["failed"] for name, case in cases.items() if "failed" in case} == {}
    return cases


def messages(content: str) -> list[dict[str, Any]]:
    """What the upstream received after the context, which must come first."""
    context: dict[str, Any]
    rest: list[dict[str, Any]]
    context, *rest = json.loads(content)["received"]["messages"]
    assert context["role"] == "system"
    assert "zephyr-driver-kotlin-coroutine" in context["content"]
    return rest


def test_a_plain_answer(results: dict[str, Any]) -> None:
    plain = results["plain"]
    assert messages(plain["content"]) == [{"role": "system", "content": "Talk like a pirate."}, QUESTION]
    assert plain["finish_reason"] == "stop"
    assert plain["usage"]["total_tokens"] == 18


def test_a_streamed_answer_comes_chunk_by_chunk(results: dict[str, Any]) -> None:
    assert messages(results["streamed"]["content"]) == [QUESTION]
    assert results["streamed"]["finishes"] == [None, None, None, None, "stop"]


def test_a_tool_call_there_and_back(results: dict[str, Any]) -> None:
    call = {"name": "weather", "arguments": '{"city": "Bonn"}'}
    assert results["tools"]["call"] == {"id": "call_1", "type": "function", "function": call}
    question, said, result = messages(results["tools"]["content"])
    assert question == QUESTION
    assert said["tool_calls"][0]["function"] == call
    assert result == {"role": "tool", "tool_call_id": "call_1", "content": "21 degrees"}


def test_a_picture_beside_the_text(results: dict[str, Any]) -> None:
    (message,) = messages(results["picture"]["content"])
    assert message["content"] == [
        {"type": "text", "text": QUESTION["content"]},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}},
    ]


def test_several_choices(results: dict[str, Any]) -> None:
    assert [json.loads(content)["number"] for content in results["choices"]["contents"]] == [0, 1]


def test_the_developer_role(results: dict[str, Any], lane: str) -> None:
    developer, question = messages(results["developer"]["content"])
    role = "developer" if lane == "relay" else "system"  # so litellm
    assert developer == {"role": role, "content": "Answer in one line."}
    assert question == QUESTION


def test_the_headers_say_what_was_done(results: dict[str, Any]) -> None:
    assert results["headers"]["x-rag-status"] == "augmented"
    assert results["headers"]["x-rag-sources"].startswith("handbook/kotlin.md")


def test_errors_are_the_sdks_own(results: dict[str, Any]) -> None:
    assert results["unknown"] == {"kind": "NotFoundError", "status": 404, "code": "model_not_found"}
    assert results["keyless"] == {"kind": "AuthenticationError", "status": 401, "code": "invalid_api_key"}
    assert results["limited"] == {"kind": "RateLimitError", "status": 429, "code": "rate_limit_exceeded"}
