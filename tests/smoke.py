"""Run a gateway beside a real language model, and check what holds for any model, however small: `make smoke`.

    python -m tests.smoke PYTHON [MODEL.gguf]      PYTHON: an interpreter with the packages of requirements/smoke.txt

Each check prints a line with the time. The program prints, and does not check, what only a good model does: repeat a
fact, call an action or a table, propose a call that changes something. Exits 1 when a check fails.
"""

import contextlib
import json
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai

from tests.support.atlas_api import ORG, PASSWORD, USER, atlas_api, document
from tests.support.gateway import environment, serving
from tests.support.shop_api import ShopApi, shop_api
from tests.support.shop_api import document as shop_document

MODEL = "smoke"  # the name in requests
TIMEOUT_S = 600.0
FACT = "5123"
DOCUMENTS = {
    "port.md": f"# Network\n\nThe Zephyr server listens on port {FACT}. The port is set in zephyr.toml.\n",
    "holidays.md": "# Holidays\n\nEach employee of Zephyr has 31 days of holiday in a year.\n",
}
QUESTIONS = [
    {"question": "On which port does the Zephyr server listen?", "must": [FACT]},
    {"question": "How many days of holiday does an employee of Zephyr have?", "must": ["31"]},
]
QUESTION = str(QUESTIONS[0]["question"])
ACTION_QUESTION = "Return all organizations. Which ids do the organizations have?"
SETTINGS = """
models:
  {model}: {{api_base: "{url}/v1"}}
  {model}-text: {{api_base: "{url}/v1", tools: text}}
tables:
  sales: {{url: "sqlite:///sales.sqlite"}}
actions:
  atlas: {{auth: digest, user_env: ATLAS_USER, secret_env: ATLAS_PASSWORD, networks: ["127.0.0.0/8"]}}
  shop: {{writes: confirm, networks: ["127.0.0.0/8"]}}
"""
WRITE_QUESTION = "Cancel the order with the id 17."
TABLE_QUESTION = "How many units of Fruity Fedora were sold since 2026-11-20?"
UNITS = "12"
SALES = """
CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT, price REAL);
CREATE TABLE sales (
    order_id INTEGER PRIMARY KEY, sold_on TEXT, product_id INTEGER REFERENCES products (id), units INTEGER
);
INSERT INTO products VALUES (1, 'Fruity Fedora', 19.5), (2, 'Plain Panama', 30);
INSERT INTO sales VALUES
    (1, '2026-11-01', 1, 90), (2, '2026-11-22', 1, 5), (3, '2026-11-25', 1, 7), (4, '2026-11-25', 2, 3);
"""
ENVIRONMENT = {"ATLAS_USER": USER, "ATLAS_PASSWORD": PASSWORD, "RAGWAY_EMBEDDER__MODEL": "all-MiniLM-L6-v2"}
LIMITS: Any = {"temperature": 0, "max_tokens": 64}


class Checks:
    """The checks so far."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0

    @contextlib.contextmanager
    def check(self, claim: str) -> Iterator[None]:
        """Print whether the block fulfils the claim; the checks after a failure still run."""
        begin = time.monotonic()
        try:
            yield
        except (AssertionError, openai.OpenAIError, anthropic.AnthropicError, httpx.HTTPError) as error:
            self.failed += 1
            print(f"FAILED {time.monotonic() - begin:6.1f} s  {claim}: {type(error).__name__}: {error}", flush=True)
        else:
            self.passed += 1
            print(f"ok     {time.monotonic() - begin:6.1f} s  {claim}", flush=True)


def note(text: str) -> None:
    """Print what is no check, such as the words of the model."""
    print(f"       {'':8}  {' '.join(text.split())}", flush=True)


class Ragway:
    """The commands of `ragway`, on one data folder and one settings file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *args: str, codes: tuple[int, ...] = (0,)) -> str:
        """Standard output of a command. Raises AssertionError for an exit code that is not in `codes`."""
        where = ["--config", str(self.folder / "ragway.yaml"), "--data", str(self.folder / "data")]
        done = subprocess.run(
            [sys.executable, "-m", "cli", *args, *where],
            check=False,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=environment(ENVIRONMENT),
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode in codes, f"exit code {done.returncode}: {done.stdout[-2000:]} {done.stderr[-2000:]}"
        return done.stdout


@contextlib.contextmanager
def serving_model(python: str, file: list[str], log: Path) -> Iterator[str]:
    """The address of a server with the model."""
    command = [python, str(Path(__file__).parent / "support" / "gguf_server.py"), *file]
    with (
        log.open("w") as errors,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            url = next((line.strip() for line in process.stdout if line.startswith("http://")), "")
            if not url:
                raise SystemExit(f"the model's server ended: {log.read_text()[-2000:]}")
            yield url
        finally:
            process.stdin.close()


def check_chats(checks: Checks, url: str) -> None:
    """Chats without and with passages, whole and streamed."""
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=TIMEOUT_S)
    messages: Any = [{"role": "user", "content": QUESTION}]
    raw_tokens = 0
    with checks.check("a chat without passages is answered"):
        raw = client.chat.completions.create(model=f"raw/{MODEL}", messages=messages, **LIMITS)
        assert raw.choices[0].message.content
        assert raw.usage is not None
        raw_tokens = raw.usage.prompt_tokens
        note(f"answer: {raw.choices[0].message.content}")
    with checks.check("a chat is answered with passages"):
        got = client.chat.completions.with_raw_response.create(model=MODEL, messages=messages, **LIMITS)
        assert got.headers["x-rag-status"] == "augmented", got.headers["x-rag-status"]
        augmented = got.parse()
        text = augmented.choices[0].message.content
        assert text
        assert augmented.usage is not None
        note(f"answer: {text}")
        note(f"tokens of the prompt: {raw_tokens} raw, {augmented.usage.prompt_tokens} with passages")
        note(f"the answer {'repeats' if FACT in text else 'does not repeat'} the fact {FACT} of the passage")
        receipt = httpx.get(f"{url}/v1/knowledge/receipts/{got.headers['x-rag-id']}", timeout=TIMEOUT_S)
        assert FACT in receipt.raise_for_status().json()["injected"], "the gateway sent no passage with the fact"
        assert augmented.usage.prompt_tokens > raw_tokens + 20, "the model read no passage"
    body = {"model": MODEL, "messages": messages, "stream": True, "stream_options": {"include_usage": True}, **LIMITS}
    with checks.check("a stream has deltas, the usage and [DONE]"):
        chunks = list(client.chat.completions.create(**body))
        deltas = [c.choices[0].delta.content for c in chunks if c.choices and c.choices[0].delta.content]
        assert len(deltas) > 1, deltas
        assert chunks[-1].usage is not None
        assert chunks[-1].usage.completion_tokens >= len(deltas)
        bytes_sent = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=TIMEOUT_S).content
        assert bytes_sent.endswith(b"data: [DONE]\n\n"), bytes_sent[-100:]
    with checks.check("/v1/responses answers with passages"):
        response = client.responses.with_raw_response.create(
            model=MODEL, input=QUESTION, temperature=0, max_output_tokens=64
        )
        assert response.headers["x-rag-status"] == "augmented", response.headers["x-rag-status"]
        assert response.parse().output_text
    with checks.check("/v1/messages answers with passages"):
        messages_client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, timeout=TIMEOUT_S)
        message = messages_client.messages.with_raw_response.create(model=MODEL, messages=messages, max_tokens=64)
        assert message.headers["x-rag-status"] == "augmented", message.headers["x-rag-status"]
        assert any(block.type == "text" and block.text for block in message.parse().content)


def check_action(checks: Checks, url: str, model: str, way: str) -> None:
    """A chat to which the gateway offers operations of an API. way: in which the model is asked for calls."""
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=TIMEOUT_S)
    with checks.check(f"a chat with actions is answered, asked by {way}"):
        got = client.chat.completions.with_raw_response.create(
            model=f"rage/atlas/raw/{model}",
            messages=[{"role": "user", "content": ACTION_QUESTION}],
            **{**LIMITS, "max_tokens": 256},
        )
        choice = got.parse().choices[0]
        assert choice.finish_reason in {"stop", "length"}, choice
        assert not choice.message.tool_calls, choice
        text = choice.message.content or ""  # Qwen2.5-Coder-1.5B once answered a second result with an empty text
        assert not re.match(r'\s*\{\s*"(say|name)"\s*:', text), f"the answer shows the protocol: {text}"
        note(f"answer: {text[:500]}")
        note(f"the model called: {got.headers.get('x-rag-actions', 'no operation')}")
        note(f"the answer {'has' if ORG in text else 'does not have'} the id {ORG} of the API's answer")


def check_write(checks: Checks, url: str, shop: ShopApi, model: str, way: str) -> None:
    """A chat in which the model may propose a call that changes something, and the person confirms it."""
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=TIMEOUT_S)
    messages: Any = [{"role": "user", "content": WRITE_QUESTION}]

    def answer() -> str:
        model_of_set = f"rage/shop/raw/{model}"
        got = client.chat.completions.create(model=model_of_set, messages=messages, **{**LIMITS, "max_tokens": 256})
        return got.choices[0].message.content or ""

    with checks.check(f"nothing is changed before a person confirms, and once afterwards, asked by {way}"):
        shop.fresh()
        text = answer()
        assert not shop.writes, shop.writes
        note(f"answer: {text[:700]}")
        code = re.search("confirm ([A-Z2-7]{4}-[A-Z2-7]{4})", text)
        if code is None:
            note("the model proposed no call")
            return
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": code[0]}]
        note(f"{code[0]}: {answer()[:500]}")
        assert len(shop.writes) == 1, shop.writes
        note(f"arrived: {shop.writes[0]}")
        answer()
        assert len(shop.writes) == 1, shop.writes


def check_tables(checks: Checks, url: str, model: str, way: str) -> None:
    """A chat in which the model may query a table."""
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=TIMEOUT_S)
    with checks.check(f"a chat with tables is answered, asked by {way}"):
        got = client.chat.completions.with_raw_response.create(
            model=f"rage/sales/raw/{model}",
            messages=[{"role": "user", "content": TABLE_QUESTION}],
            **{**LIMITS, "max_tokens": 256},
        )
        choice = got.parse().choices[0]
        assert choice.finish_reason in {"stop", "length"}, choice
        assert not choice.message.tool_calls, choice
        text = choice.message.content or ""
        note(f"answer: {text[:500]}")
        note(f"the model called: {got.headers.get('x-rag-actions', 'nothing')}")
        note(f"the answer {'has' if UNITS in text else 'does not have'} the number {UNITS} of the table")


def check_bench(ragway: Ragway, url: str) -> None:
    """Two questions raw and with passages. A small model may write on until the longest answer, which is no fault."""
    questions, run = ragway.folder / "questions.jsonl", ragway.folder / "run"
    options = ["--collection", "docs", "--set", "temperature=0,max_tokens=64", "--concurrency", "1", "--yes"]
    where = ["--base-url", url, "--run", str(run)]
    print(ragway.run("bench", str(questions), "--model", MODEL, *options, *where, codes=(0, 3)), flush=True)
    variants = json.loads((run / "report.json").read_text("utf-8"))["variants"]
    assert len(variants) == 2, variants
    assert {fault for variant in variants for fault in variant["faults"]} <= {"cut"}, variants


def main(python: str, file: list[str]) -> int:
    """The number of failed checks."""
    checks, begin = Checks(), time.monotonic()
    with tempfile.TemporaryDirectory() as temporary, atlas_api() as api, contextlib.ExitStack() as stack:
        folder = Path(temporary)
        shop = stack.enter_context(shop_api(folder / "shop.db"))
        documents = folder / "docs"
        documents.mkdir()
        for name, text in DOCUMENTS.items():
            (documents / name).write_text(text, "utf-8")
        (folder / "openapi.json").write_text(json.dumps(document(api.url)), "utf-8")
        (folder / "shop.json").write_text(json.dumps(shop_document(shop.url)), "utf-8")
        (folder / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in QUESTIONS), "utf-8")
        model_url = stack.enter_context(serving_model(python, file, folder / "model.log"))
        with contextlib.closing(sqlite3.connect(folder / "sales.sqlite")) as sql, sql:
            sql.executescript(SALES)
        settings = SETTINGS.format(model=MODEL, url=model_url)
        (folder / "ragway.yaml").write_text(settings, "utf-8")
        ragway = Ragway(folder)
        with checks.check("documents are ingested"):
            ragway.run("ingest", str(documents), "--collection", "docs")
        with checks.check("an OpenAPI document is read, and an operation called by hand"):
            ragway.run("actions", "add", "atlas", str(folder / "openapi.json"))
            assert ORG in ragway.run("actions", "run", "atlas", "listOrganizations")
            ragway.run("actions", "add", "shop", str(folder / "shop.json"))
        with checks.check("a database is read, and queried by hand"):
            ragway.run("tables", "add", "sales")
            assert "105" in ragway.run("tables", "query", "sales", "SELECT SUM(units) FROM sales")
        url = stack.enter_context(serving(folder / "data", folder, settings, **ENVIRONMENT)).url
        check_chats(checks, url)
        for model, way in ((MODEL, "what works"), (f"{MODEL}-text", "text")):
            check_action(checks, url, model, way)
            check_write(checks, url, shop, model, way)
            check_tables(checks, url, model, way)
        with checks.check("`ragway bench` asks two questions raw and with passages"):
            check_bench(ragway, url)
    print(f"{checks.passed} checks passed, {checks.failed} failed, in {time.monotonic() - begin:.0f} s")
    return checks.failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]) > 0)
