"""The commands of README.md and docs/ run as printed: `ragway` on a small collection, `curl` against a gateway.

Each `ragway` command starts from the same folder: the files and the collection that the pages speak of.
`tests/test_documented_commands.py` checks the arguments of the commands that are not run here.
"""

import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.documented_commands import DocumentedCommand, documented_commands
from tests.support.gateway import PATIENCE_S, Served, ragway, serving

# Command of ragway -> the tests that run the command.
RUN_ELSEWHERE = {
    "serve": "tests/wire/test_gateway.py",
    "bench": "tests/wire/test_bench.py and tests/wire/test_live.py",
    "replay": "tests/cli/test_replay.py",
    "reindex": "tests/cli/test_reindex.py",  # the documented embedder would be downloaded
    "mcp": "tests/wire/test_mcp.py",
    "actions": "tests/cli/test_actions.py",  # the documented set is a description of an API elsewhere
}
COMMANDS = documented_commands()
RAGWAY = [one for one in COMMANDS if one.program == "ragway" and one.words[1] not in RUN_ELSEWHERE]
CURL = [one for one in COMMANDS if one.program == "curl"]
KEY_ID, RECEIPT_ID = "key-561ee2ea9f3f", "rag-6f1d3c1e7c0b5b0e9a553d1f"  # as the pages print the ids
SETTINGS = """
models: {"*": {lane: echo}}
retrieval: {collections: [handbook], min_relevance: 0.0}
actions: {atlas: {base_url: https://cloud.mongodb.com, writes: confirm}}
sources: {team: [{folder: team}]}
tables: {shop: {files: [sales.csv]}}
"""
VARIABLES = {
    "RAGWAY_MASTER_KEY": base64.b64encode(bytes(32)).decode(),
    "ATLAS_KEY_OF_SEARCH": "s3cret",
    "ATLAS_GROUP_OF_SEARCH": "5f0c1e",
}
ROOMS = """
    Amber Basalt Cedar Dahlia Ebony Fennel Garnet Hazel Indigo Jasper Kelp Lavender
    Maple Nickel Olive Pepper Quartz Rose Saffron Thyme Umber Vanilla Willow Xenon
    Yarrow Zinc Almond Birch Clover Daisy Elder Fern Ginger Heather Iris Juniper
    Lilac Moss Nettle Oak
""".split()
FILES = {
    "handbook/tls.md": "# TLS\n\nConnect with TLS on port 5123.",
    "handbook/old.md": "# Old\n\nThe old page.",
    "handbook/drafts/new.md": "# New\n\nA draft.",
    "home/handbook/holidays.md": "# Holidays\n\nYou get 30 days of holiday.",
    "hb/a.md": "# Expenses\n\nKeep the receipts.",
    "team/policies.md": "# Policies\n\nLock the door.",
    "notes.md": "# Notes\n\nA note.",
    "manual.html": "<h1>Manual</h1><p>Press the red button.</p>",
    "prices.csv": "part,price\npump,12\n",
    "sales.csv": "product,units\nFruity Fedora,12\n",
    "tickets.jsonl": "".join(
        json.dumps(
            {
                "key": key,
                "fields": {"subject": f"A pump of hall {hall}", "solution": "Open the valve below the pump and wait."},
                "description": f"The pump in hall {hall} leaks, and the floor is wet in the morning.",
            }
        )
        + "\n"
        for key, hall in (("P-17", 3), ("P-18", 4))
    ),
    # `ragway calibrate` needs 30 sentences, each of another chunk.
    **{f"handbook/rooms/{name}.md": f"# {name}\n\nThe room {name} has {len(name)} windows.\n" for name in ROOMS},
    "judged/handbook/docs/tls.md": "# TLS\n\nConnect with TLS on port 5123.",
    "judged/handbook/queries.jsonl": json.dumps({"_id": "q1", "text": "How do I connect with TLS?"}),
    "judged/handbook/qrels.tsv": "q1\ttls.md\t1\n",
    "judged/atlas/queries.jsonl": json.dumps({"_id": "q1", "text": "Which users does my organization have?"}),
    "judged/atlas/qrels.tsv": "q1\tlistOrganizationUsers\t1\n",
    "openapi.yaml": """
openapi: 3.1.0
info: {title: Atlas}
paths:
  /orgs/{orgId}/users:
    parameters: [{name: orgId, in: path, required: true}]
    get: {operationId: listOrganizationUsers}
""",
    "ragway.yaml": SETTINGS,
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, models: Path) -> Path:
    """A folder with the files of the pages, a collection, an action set and the results of an evaluation."""
    folder = tmp_path_factory.mktemp("prepared")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    (folder / "data").mkdir()
    (folder / "data" / "models").symlink_to(models)
    run("ingest", "handbook", "--collection", "handbook", folder=folder)
    run("ingest", "notes.md", "--collection", "faq", folder=folder)
    run("actions", "add", "atlas", "openapi.yaml", folder=folder)
    run("tables", "add", "shop", folder=folder)
    run("eval", "judged/handbook", "--json", "before.json", folder=folder)
    return folder


@pytest.fixture
def folder(prepared: Path, tmp_path: Path) -> Path:
    """A copy for one test."""
    return shutil.copytree(prepared, tmp_path / "copy", symlinks=True)


def run(*words: str, folder: Path, **variables: str) -> str:
    """The standard output of a `ragway` command that must end well."""
    done = ragway(*words, folder=folder, environ={"HOME": str(folder / "home"), **variables})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("command", RAGWAY, ids=str)
def test_a_documented_ragway_command_ends_well(command: DocumentedCommand, folder: Path) -> None:
    words = list(command.words[1:])
    if KEY_ID in words:
        run("keys", "create", "app", "--read", "handbook", folder=folder)
        (key,) = json.loads(run("keys", "list", "--json", folder=folder))
        words[words.index(KEY_ID)] = key["id"]
        if "credentials" in words:
            given = ("keys", "credentials", "set", key["id"], "atlas", "secret", "--env", "ATLAS_KEY_OF_SEARCH")
            run(*given, folder=folder, **VARIABLES)
    home = str(folder / "home")
    run(
        *(word.replace("~", home) if word.startswith("~/") else word for word in words),
        folder=folder,
        **VARIABLES,
        **command.variables,
    )


@dataclass(frozen=True, slots=True)
class Gateway:
    """A served gateway, and the values that stand for the placeholders of the pages."""

    served: Served
    folder: Path
    secret: str
    receipt: str

    def filled_in(self, word: str) -> str:
        for printed, value in (
            ("http://127.0.0.1:8000", self.served.url),
            ("$KEY", self.secret),
            ("$RAGWAY_ADMIN", self.secret),
            (RECEIPT_ID, self.receipt),
        ):
            word = word.replace(printed, value)
        return word


@pytest.fixture(scope="module")
def without_keys(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = shutil.copytree(prepared, tmp_path_factory.mktemp("open") / "copy", symlinks=True)
    with serving(folder / "data", folder, SETTINGS) as served:
        yield Gateway(served, folder, "", "")


@pytest.fixture(scope="module")
def with_keys(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = shutil.copytree(prepared, tmp_path_factory.mktemp("guarded") / "copy", symlinks=True)
    rights = ("--read", "*", "--write", "*", "--model", "*", "--admin")
    secret = run("keys", "create", "root", *rights, folder=folder).strip()
    with serving(folder / "data", folder, SETTINGS) as served:
        reply = served.ask("How do I connect with TLS?", headers={"authorization": f"Bearer {secret}"})
        yield Gateway(served, folder, secret, reply.headers["x-rag-id"])


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed (Debian: apt install curl)")
@pytest.mark.parametrize("command", CURL, ids=str)
def test_a_documented_request_is_answered(command: DocumentedCommand, request: pytest.FixtureRequest) -> None:
    guarded = any(word.lower().startswith("authorization:") for word in command.words)
    gateway: Gateway = request.getfixturevalue("with_keys" if guarded else "without_keys")
    words = [gateway.filled_in(word) for word in command.words[1:]]
    done = subprocess.run(
        ["curl", "--silent", "--show-error", "--fail-with-body", *words],
        check=False,
        capture_output=True,
        text=True,
        cwd=gateway.folder,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_command_is_said_to_run_elsewhere_in_vain() -> None:
    assert set(RUN_ELSEWHERE) <= {one.words[1] for one in COMMANDS if one.program == "ragway"}
