"""What lanes and dialects keep of requests, replies, streams and faults, each cell from a run: writes the page of
`results/`.

    python benchmarks/conformance/conformance.py [--skip litellm] [--only TEXT] [--output FILE]

`--only` runs the cases whose title contains the text, and prints the cells instead of writing the page. The rows about
dialects run in the relay lane. Exit code 2: a lane does not start.
"""

import argparse
import asyncio
import contextlib
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common import servers
from benchmarks.common.arguments import add_models
from benchmarks.common.output import say
from benchmarks.common.processes import ROOT, Unmeasurable
from benchmarks.conformance.case import Case
from benchmarks.conformance.dialect_cases import ROWS, Row
from benchmarks.conformance.fault_cases import FAULTS, PROVIDERS
from benchmarks.conformance.lanes import TITLES, Lane, learn, run, start, warm
from benchmarks.conformance.page import Table, markdown
from benchmarks.conformance.reply_cases import REPLIES, STREAMS
from benchmarks.conformance.request_cases import REQUESTS
from benchmarks.conformance.wire import upstream

CASES: Sequence[Case] = (*REQUESTS, *REPLIES, *STREAMS, *FAULTS, *PROVIDERS)
PAGE = ROOT / "benchmarks" / "results" / "conformance.md"


def main() -> int:
    """Run the benchmark."""
    arguments = _arguments()
    keys = [key for key in TITLES if key not in arguments.skip]
    if "litellm" in keys and not servers.litellm_command().exists():
        say("LiteLLM's proxy is not installed: `make install-dev` does it, `--skip litellm` leaves it out.")
        return 2
    cases = [case for case in CASES if arguments.only in case.title]
    rows = [row for row in ROWS if arguments.only in f"dialect {row.title}"]
    try:
        with tempfile.TemporaryDirectory(prefix="ragway-conformance-") as folder:
            table, by_dialect = uvloop.run(measured(Path(folder), keys, cases, rows, arguments.models))
    except (Unmeasurable, OSError) as error:
        say(f"cannot run: {error}")
        return 2
    if arguments.only:
        for title, cells in (*table.items(), *by_dialect.items()):
            print(title, *(f"    {key:11}{cell}" for key, cell in cells.items()), sep="\n")
        return 0
    arguments.output.write_text(markdown(cases, table, rows, by_dialect), "utf-8", "backslashreplace")
    say(f"{len(table)} cases and {len(by_dialect)} rows of dialects in {arguments.output}")
    return 0


async def measured(
    folder: Path, keys: Sequence[str], cases: Sequence[Case], rows: Sequence[Row], models: Path
) -> tuple[Table, Table]:
    """Title -> lane -> cell, and title -> dialect -> cell. The lanes run one after the other, so that no lane waits for
    another lane's work.
    """
    table: Table = {case.title: {} for case in cases}
    by_dialect: Table = {}
    learned = await asyncio.to_thread(learn, folder, models)
    async with upstream() as script, upstream() as trap:
        for key in keys:
            with contextlib.ExitStack() as running, socket.socket() as nobody:
                nobody.bind(("127.0.0.1", 0))  # and does not listen
                server = await asyncio.to_thread(start, key, folder, script.port, nobody.getsockname()[1], learned)
                running.callback(server.stop)
                lane = Lane(key, server.port)
                usual = await warm(lane, script)
                for case in cases:
                    table[case.title][key] = await run(case, lane, script, trap, usual)
                if key == "relay":
                    by_dialect = {
                        row.title: {path: await run(case, lane, script, trap, {}) for path, case in row.cases.items()}
                        for row in rows
                    }
                say(f"{TITLES[key]}: {len(cases)} cases")
    return table, by_dialect


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare what each lane keeps of requests, replies and faults.")
    parser.add_argument("--skip", action="append", default=[], choices=list(TITLES), help="leave a lane out")
    parser.add_argument("--only", default="", metavar="TEXT", help="the cases whose title holds it, printed")
    parser.add_argument("--output", type=Path, default=PAGE, metavar="FILE", help="the page (default: %(default)s)")
    add_models(parser)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
