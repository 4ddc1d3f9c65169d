"""Secrets in documents: each kind is found, and what only looks like one is not."""

import dataclasses
import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.errors import HoldsSecrets
from retrieval.index.index import Index
from retrieval.ingest.load import parse
from retrieval.ingest.secret_scan import masked, secrets_in
from retrieval.records.ingest import Secret
from tests.retrieval.ingest.test_rules import counts
from tests.support.plans import plan_for, silent
from tests.support.rows import all_rows

ROOT = Path(__file__).resolve().parents[3]
RANDOM = (
    "aZ4kQ9xW2mT7bR5nV8cL3pJ6dF1gH0sYuEiO" * 8
)  # joined with a beginning only here, so that no scanner sees a token
KEY = (
    "-----BEGIN RSA PRIVATE "
    + "KEY-----\nProc-Type: 4,ENCRYPTED\n\n"
    + "MIIEow" * 20
    + "\n-----END RSA PRIVATE KEY-----"
)
SECRETS = {
    "AKIA" + "Z4KQ7XW2MT5BRNVC": "AWS access key",
    "ghp_" + RANDOM[:36]: "GitHub token",
    "github_pat_" + RANDOM[:82]: "GitHub token",
    "glpat-" + RANDOM[:20]: "GitLab token",
    "xoxb-" + "123456789012-" + RANDOM[:24]: "Slack token",
    "https://hooks.slack.com/services/" + "T0AB1CD2E/B0AB1CD2E/" + RANDOM[:24]: "Slack webhook",
    "sk_live_" + RANDOM[:24]: "Stripe key",
    "sk-" + "proj-" + RANDOM[:60]: "OpenAI key",
    "sk-" + "ant-api03-" + RANDOM[:80]: "Anthropic key",
    "AIza" + RANDOM[:35]: "Google API key",
    "GOCSPX-" + RANDOM[:28]: "Google OAuth secret",
    "npm_" + RANDOM[:36]: "npm token",
    "pypi-AgE" + RANDOM[:80]: "PyPI token",
    "SG." + RANDOM[:22] + "." + RANDOM[:43]: "SendGrid key",
    "hf_" + RANDOM[:34]: "Hugging Face token",
    "dop_v1_" + "0a1b2c3d" * 8: "DigitalOcean token",
    "AccountKey=" + RANDOM[:86] + "==": "Azure storage key",
    "eyJ" + RANDOM[:30] + ".eyJ" + RANDOM[:60] + "." + RANDOM[:43]: "JSON web token",
    KEY: "private key",
    "postgresql://app:" + "h7Kq9-zX" + "@db.internal/app": "password in a URL",
    "password: " + "h7Kq9-zXw2": "password or key",
    'DB_PASSWORD="' + 'h7Kq9-zXw2"': "password or key",
    '"client_secret": "' + 'h7Kq9zXw2mT7"': "password or key",
    "api_key = '" + "h7Kq9zXw2mT7b'": "password or key",
}


@pytest.mark.parametrize(
    ("text", "kind"), SECRETS.items(), ids=[f"{kind} {n}" for n, kind in enumerate(SECRETS.values())]
)
def test_each_kind_is_found_and_masked(text: str, kind: str) -> None:
    document = f"Set it so:\n\n    {text}\n\nThen go on."
    [found] = secrets_in(document)
    assert found.kind == kind
    hidden = masked(document)
    assert document[found.start : found.end] not in hidden
    assert f"[{kind}]" in hidden
    assert hidden.startswith("Set it so:\n")
    assert hidden.endswith("\n\nThen go on.")
    assert secrets_in(hidden) == []


@all_rows(
    "text",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "password: <your password>",
        "password = os.environ['DB_PASSWORD']",
        "password: ${DB_PASSWORD_1}",
        "password: changeme123",
        "password: correct-horse",
        "api_key_env: OPENAI_API_KEY_2",
        "secret: vault.read.path2",
        "token = base64.b32decode",
        "https://user:password@example.com",
        "http://127.0.0.1:8000/a@b",
        "The key word: 20260101",
        "sk-learn is a library, hf_model a name, and ghp_ a beginning.",
        "-----BEGIN PRIVATE KEY----- begins a key.",
        "d41d8cd98f00b204e9800998ecf8427e",
    ],
)
def test_what_only_looks_like_a_secret_is_left(text: str) -> None:
    assert secrets_in(f"See {text} there.") == []


def test_our_own_documents_hold_none() -> None:
    files = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "config").glob("*.yaml")]
    assert len(files) > 20
    assert [(file.name, one.kind) for file in files for one in secrets_in(file.read_text("utf-8"))] == []


@pytest.mark.parametrize(
    "text",
    [
        *("password" * 100_000, "password: " * 80_000, "-----BEGIN PRIVATE KEY-----\n" * 30_000, "eyJa.eyJ" * 100_000),
        *("a://" * 200_000, "sk-" * 300_000, "password=" + "a1" * 400_000, "secret:\t \t" * 80_000),
    ],
)
def test_hostile_texts_take_no_longer_than_others(text: str) -> None:
    started = time.process_time()
    secrets_in(text)
    assert time.process_time() - started < 5


@given(st.lists(st.sampled_from([*SECRETS, "a word", "\n", "|", "password:", "é"]), max_size=6))
def test_a_masked_text_keeps_all_else(parts: list[str]) -> None:
    text = " ".join(parts)
    found, hidden = secrets_in(text), masked(text)
    for one, other in pairwise(found):
        assert one.end <= other.start
    at = 0
    for one in found:
        assert hidden.find(f"[{one.kind}]", at) >= at
        at = hidden.index(f"[{one.kind}]", at) + 1
    assert len(hidden) == len(text) - sum(one.end - one.start - len(one.kind) - 2 for one in found)


TOKEN = "ghp_" + RANDOM[:36]


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.md", f"---\ntitle: x\n---\n\n# A\n\nUse {TOKEN} here.\n", 7),
        ("a.txt", f"a\r\nb\r\n{TOKEN}\r\n", 3),
        ("a.py", f'token = "{TOKEN}"\n', 1),
        ("a.html", f"<p>Use {TOKEN} here.</p>", 1),
    ],
)
def test_a_document_names_line_and_kind(name: str, text: str, line: int) -> None:
    document = parse(text.encode(), Path(name), name, 0.0)
    assert document.secrets == ((line, "GitHub token"),)
    hidden = parse(text.encode(), Path(name), name, 0.0, secrets="mask")
    assert hidden.secrets == document.secrets
    assert TOKEN not in hidden.text
    assert "[GitHub token]" in hidden.text
    with pytest.raises(HoldsSecrets, match=f"line {line}: GitHub token") as refused:
        parse(text.encode(), Path(name), name, 0.0, secrets="skip")
    assert TOKEN not in str(refused.value)


async def test_a_mode_is_kept_to_from_then_on(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text(f"Use {TOKEN} here.", "utf-8")
    (folder / "b.md").write_text("The bee.", "utf-8")
    modes: tuple[Literal["warn", "mask", "skip"], ...] = ("warn", "mask", "skip")
    expected = [(2, 0, 0, 0), (0, 2, 0, 0), (0, 1, 0, 1)]
    for mode, changes in zip(modes, expected, strict=True):
        plan = plan_for(data)
        plan = dataclasses.replace(plan, ingest=dataclasses.replace(plan.ingest, secrets=mode))
        index = await Index.open(plan, serving=False)
        try:
            report = await index.writing.ingest([folder], "docs", silent)
            assert counts(report) == changes
            found = await index.library.documents("docs", after="", limit=10, groups=None)
            texts = [(await index.library.document(one.id, None)).text for one in found]
        finally:
            await index.close()
        assert any(TOKEN in text for text in texts) == (mode == "warn")
        assert list(report.secrets) == ([] if mode == "skip" else [Secret("docs/a.md", 1, "GitHub token")])
        assert TOKEN not in json.dumps(dataclasses.asdict(report))
        assert [failure.path for failure in report.failures] == [str(folder / "a.md")] * (mode == "skip")
