"""Folders of judged questions, made by the tests that need them."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

QRELS = [("q1", "connect", 2), ("q1", "tls", 1), ("q2", "kotlin", 1), ("q3", "dog", 1)]
CORPUS: list[dict[str, str]] = [
    {"_id": "connect", "title": "Connecting", "text": "Use Client.connect to open a session with the Zephyr server."},
    {"_id": "tls", "title": "TLS", "text": "Pass tls=True to encrypt the connection to the Zephyr server on the wire."},
    {"_id": "kotlin", "title": "Kotlin", "text": "Add the coroutine driver of Zephyr to Gradle for Kotlin programs."},
    {"_id": "java", "title": "Java", "text": "Add the synchronous driver of Zephyr to Maven for Java programs."},
    {"_id": "dog", "title": "Pets", "text": "The office dog is called Bruno and sleeps under the desk."},
]
QUERIES: list[dict[str, Any]] = [
    {"_id": "q1", "text": "How do I open a connection to the Zephyr server?"},
    {
        "_id": "q2", "text": "And with Kotlin?", "rewrite": "Which Zephyr driver do Kotlin programs need?",
        "history": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Which driver does Zephyr have for Java?"},
            {"role": "assistant", "content": None, "tool_calls": []},
            {"role": "assistant", "content": [{"type": "text", "text": "The synchronous driver, from Maven."}]},
        ],
    },
    {"_id": "q3", "text": "What is the name of the office dog?"},
]  # fmt: skip
UNANSWERABLE = [{"_id": "u1", "text": "Who painted the ceiling of the Sistine Chapel?"}]


def write_lines(file: Path, rows: Iterable[Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


def write_qrels(file: Path, rows: Sequence[tuple[str, str, int]], head: str = "query-id\tcorpus-id\tscore\n") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(head + "".join(f"{query}\t{document}\t{score}\n" for query, document, score in rows), "utf-8")


def judged_folder(folder: Path) -> Path:
    """Five documents, three judged questions (one a follow-up, rewritten), one that nothing answers."""
    write_lines(folder / "corpus.jsonl", CORPUS)
    write_lines(folder / "queries.jsonl", QUERIES)
    write_lines(folder / "unanswerable.jsonl", UNANSWERABLE)
    write_qrels(folder / "qrels.tsv", QRELS)
    return folder


def judged_operations(folder: Path, *qrels: tuple[str, str, int]) -> Path:
    """Two answerable questions about an API (default: with judgements in two forms), and a question that is not."""
    write_lines(
        folder / "queries.jsonl",
        [
            {"_id": "q1", "text": "Which invoices has a customer?"},
            {"_id": "q2", "text": "Which penguins live in the zoo?"},
        ],
    )
    write_lines(folder / "unanswerable.jsonl", UNANSWERABLE)
    write_qrels(folder / "qrels.tsv", qrels or (("q1", "GET /invoices", 1), ("q2", "penguins/list", 1)))
    return folder


def openapi_file(file: Path) -> Path:
    """An API with four operations; one could change something."""
    file.parent.mkdir(parents=True, exist_ok=True)
    paths = {
        "/invoices": {
            "get": {"summary": "List the invoices of a customer"},
            "delete": {"operationId": "drop", "summary": "Delete the invoices of a customer"},
        },
        "/penguins": {"get": {"operationId": "penguins/list", "summary": "List the penguins of the zoo"}},
        "/weather": {"get": {"operationId": "forecast", "summary": "The weather of tomorrow"}},
    }
    file.write_text(json.dumps({"openapi": "3.1.0", "info": {"title": "Zoo"}, "paths": paths}), "utf-8")
    return file
