"""Confirmations under attack, faults and kill -9: does a write arrive unconfirmed, or twice?

    python benchmarks/writes/machine.py [--steps N] [--seed N] [--replicas]

Plays the state machine of `tests/support/write_machine.py`: one gateway with two workers over one data folder,
which is killed with all its processes and started again; with --replicas, two gateways over one PostgreSQL and one
Qdrant, of which one is killed. Prints the seed, and how often each thing was done. Exit code 1: a write arrived
unconfirmed or twice, or a reply says something else than what was done.
"""

import argparse
import contextlib
import secrets
import sys
import tempfile
import traceback
from pathlib import Path

from hypothesis.errors import Flaky

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common.output import say, table
from tests.support.postgres_server import running
from tests.support.recording_upstream import recording
from tests.support.served_qdrant import SharedQdrant
from tests.support.write_machine import fleet, play


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="Play a state machine of confirmations.")
    parser.add_argument("--steps", type=int, default=10_000, metavar="N", help="at least (default: 10000)")
    parser.add_argument("--seed", type=int, default=secrets.randbits(32), metavar="N", help="default: random")
    parser.add_argument("--replicas", action="store_true", help="two gateways over PostgreSQL and Qdrant")
    arguments = parser.parse_args()
    say(f"seed {arguments.seed}")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ragway-writes-")))
        shared = {}
        if arguments.replicas:
            shared["postgres"] = stack.enter_context(running()).database()
            shared["qdrant"] = SharedQdrant().serve(stack.enter_context(recording()))
        gateways = stack.enter_context(fleet(folder, **shared))
        try:
            play(gateways, steps=arguments.steps, number=arguments.seed)
        except (AssertionError, Flaky):
            say(gateways.faults[0] if gateways.faults else traceback.format_exc())
            return 1
        finally:
            rows = [[name, f"{count:,}"] for name, count in sorted(gateways.counts.items())]
            print(table([f"seed {arguments.seed}", "steps"], [*rows, ["all", f"{gateways.steps:,}"]]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
