"""The relay beside another checkout's, over many starts of both.

    python benchmarks/relay/restarts.py FOLDER [--starts N] [--connections N]

FOLDER is a checkout of ragway. Both gateways, retrieval off, are started, measured in turns and stopped, N times. CPU
time a request differs by up to a third from start to start, more than commits do: a run of `relay.py` has few starts.
The table has medians, and the median of the starts' ratios with its 95 % interval. FOLDER may be this checkout itself:
then the interval shows what is chance. Linux only. Run it on a machine that does nothing else.
"""

import argparse
import contextlib
import os
import sys
import tempfile
from pathlib import Path
from random import Random

import numpy as np
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common import machine, servers
from benchmarks.common.bootstrap import interval, median
from benchmarks.common.output import say, table
from benchmarks.common.workload import questions
from benchmarks.relay.measure import Bench, System

_TURNS, _TURN_S = 4, 0.4
_ASKED = ["the relay passes on what the upstream answers"]
_CHECKOUTS = ("off", "off-before")


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, metavar="FOLDER", help="another checkout of ragway")
    parser.add_argument("--starts", type=int, default=30, metavar="N", help="starts of each (default: 30)")
    parser.add_argument("--connections", type=int, default=16, metavar="N", help="requests at once (default: 16)")
    given = parser.parse_args()
    rows: dict[str, list[dict[str, float]]] = {key: [] for key in _CHECKOUTS}
    random = Random(1)
    with tempfile.TemporaryDirectory(prefix="ragway-bench-") as name, servers.mock_upstream(Path(name)) as mock:
        for start in range(given.starts):
            for key, row in _measured(Path(name), mock, given.before, given.connections, random).items():
                rows[key].append(row)
            say(f"start {start + 1} of {given.starts}: " + ", ".join(f"{key} {rows[key][-1]}" for key in _CHECKOUTS))
    lines = []
    for figure in rows["off"][0]:
        now, before = (np.array([row[figure] for row in rows[key]]) for key in _CHECKOUTS)
        low, high = interval(median, now / before)
        ratio = f"{np.median(now / before):.3f} ({low:.3f} to {high:.3f})"
        lines.append([figure, f"{np.median(now):.0f}", f"{np.median(before):.0f}", ratio])
    print(table([f"{given.connections} connections", "this checkout", "FOLDER", "ratio"], lines))


def _measured(
    folder: Path, mock: servers.Running, before: Path, connections: int, random: Random
) -> dict[str, dict[str, float]]:
    """Return each checkout's figures in microseconds, of one start."""
    usable = machine.usable_cores()
    cores = machine.Cores.of(usable)
    with contextlib.ExitStack() as stack:
        systems = []
        for key in random.sample(_CHECKOUTS, len(_CHECKOUTS)):
            checkout = before.resolve() if key == "off-before" else servers.ROOT
            data = folder / f"data-{key}"
            server = servers.ragway(folder, key, mock.port, data=data, retrieval=False, checkout=checkout)
            stack.callback(server.stop)
            server.pin(cores.server)
            systems.append(System(key, key, server))
        stack.callback(machine.pin, [os.getpid(), mock.process.pid], usable)
        machine.pin([os.getpid(), mock.process.pid], cores.edge)
        bench = Bench(mock, systems, questions(_ASKED), random)
        turns = uvloop.run(bench.throughput(_TURNS, _TURN_S, connections=connections))
    return {
        key: {
            "p50": round(float(np.median(one.p50_s)) * 1e6, 1),
            "CPU a request": round(
                float(np.median([cpu["server"] / n for cpu, n in zip(one.cpu_s, one.replies, strict=True)])) * 1e6, 1
            ),
        }
        for key, one in turns.items()
    }


if __name__ == "__main__":
    main()
