"""No acknowledged work is lost, and no work is half done, no matter when the process is killed.

    python benchmarks/crash/crash.py [--trials 100] [--seed 1] [--models DIR]
    python benchmarks/crash/crash.py --strace [--most 40]

Random ingests, puts, replacements, deletions (documents, collections), rebuilds and reindexes of three collections.
SIGKILL ends the process at a random moment of an act, and sometimes of the following start. After a restart every
acknowledged document must be complete (text, counts, results of both retrievers), and every other document must be
absent or unchanged. The interrupted act is repeated; a second repetition must change nothing. A model in memory knows
the expected state.

Seven of ten trials kill a process that opens the data folder directly, as `ragway ingest` does. The other trials kill a
served gateway during puts over HTTP: the index process alone, or the whole gateway.

--strace: the same acts from an empty folder, and a thread's n-th call of fdatasync (or fsync, msync, rename …) kills
the process; n covers the existing calls in --most steps. Linux only.

Exit code 1: acknowledged work was lost, or work was half done.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common.arguments import add_models
from benchmarks.crash.oracle import Act, Oracle, look
from benchmarks.crash.victim import GatewayVictim, IndexVictim, Killed, Victim, plan_of
from retrieval.errors import RetrievalError
from retrieval.index.index import Index

CALLS = ("fdatasync", "fsync", "msync", "rename,renameat,renameat2", "pwrite64", "ftruncate,unlink,unlinkat")
_ACTS_OF_A_WALK = 25
_GATEWAY_SHARE = 0.3
_AT_START = 0.25


@dataclass(slots=True)
class Told:
    """The results of the trials."""

    killed: Counter[str] = field(default_factory=Counter)  # by the interrupted act
    acknowledged: int = 0
    documents: int = 0  # looked at
    wrong: list[str] = field(default_factory=list)


class Trials:
    """Kills one victim after the other; the data folder stays."""

    def __init__(self, victim: Victim, random: Random, told: Told) -> None:
        self._victim, self._random, self._told = victim, random, told
        self._oracle = Oracle(random)
        self._took_s: dict[str, float] = {}

    async def trial(self) -> None:
        """Run acts, kill, restart, check, and finish the interrupted act."""
        random = self._random
        await self._until_killed(random.randrange(4))
        await self._victim.ended()
        if random.random() < _AT_START:
            await self._killed_at_start()
        await self._started()
        await self.recovered()

    async def begin(self) -> None:
        """Check the first state."""
        await self._started()
        self._oracle.there, wrong = await look(self._victim.client)
        self._told.wrong += wrong

    async def _started(self) -> None:
        began = time.monotonic()
        await self._victim.start()
        self._took_s["start"] = time.monotonic() - began

    async def _killed_at_start(self) -> None:
        timer = self._kill_within("start")
        try:
            await self._victim.start()
        except Killed:
            self._told.killed["start"] += 1
        timer.cancel()
        self._victim.kill()
        await self._victim.ended()

    def _kill_within(self, kind: str) -> asyncio.TimerHandle:
        after_s = self._random.uniform(0, 1.2 * self._took_s.get(kind, 0.1))
        return asyncio.get_running_loop().call_later(after_s, self._victim.kill)

    async def _until_killed(self, whole: int) -> None:
        timer = None
        while True:
            act = self._oracle.next()
            if whole == 0:
                timer = self._kill_within(act.kind)
            whole -= 1
            if not await self.acknowledged(act):
                break
        if timer is not None:
            timer.cancel()
        self._victim.kill()

    async def acknowledged(self, act: Act) -> bool:
        """Run an act. False: the process died, and the oracle knows that the act has started."""
        self._oracle.begin(act)
        began = time.monotonic()
        try:
            await self._victim.do(act)
        except Killed:
            self._told.killed[act.kind] += 1
            return False
        self._took_s[act.kind] = time.monotonic() - began
        self._oracle.done()
        self._told.acknowledged += 1
        return True

    async def acts(self, count: int) -> None:
        """Run acts until the count or a kill; a killed process has ended on return."""
        try:
            await self._victim.start()
            for _ in range(count):
                if not await self.acknowledged(self._oracle.next()):
                    return
            await self._victim.stop()
        except Killed:
            self._told.killed["start"] += 1
        finally:
            await self._victim.ended()

    async def healed(self, victim: Victim) -> None:
        """Start a new process, check, and stop."""
        self._victim = victim
        await victim.start()
        await self.recovered()
        await victim.stop()

    async def recovered(self) -> None:
        """Check that everything is there, the interrupted act can finish, and a repetition changes nothing."""
        begun = self._oracle.begun
        await self._look("after the crash")
        self._oracle.begun = None
        if begun is None:
            return
        if begun.kind in ("put", "replace", "rebuild", "reindex") and begun.collection not in self._oracle.there:
            return
        await self.acknowledged(begun)
        await self._look(f"after {begun.kind} was finished")
        if begun.kind not in ("rebuild", "reindex") and await self._victim.do(begun):
            self._told.wrong.append(f"{begun.kind} changes something again")

    async def _look(self, when: str) -> None:
        seen, wrong = await look(self._victim.client)
        wrong += self._oracle.judge(seen)
        self._told.documents += sum(map(len, seen.values()))
        self._told.wrong += [f"{when}: {line}" for line in wrong]


async def _clean(data: Path) -> list[str]:
    """The rest of interrupted work after an index was opened."""
    index = await Index.open(plan_of(data), serving=False)
    try:
        left = index._catalog.leftovers()
    finally:
        await index.close()
    return [f"{len(left)} revisions are left over"] if left else []


async def run_trials(data: Path, told: Told, *, trials: int, random: Random, gateway: bool) -> None:
    """Kill one kind of victim repeatedly."""
    victim = GatewayVictim(data, random) if gateway else IndexVictim(data)
    series = Trials(victim, random, told)
    await series.begin()
    for _ in tqdm(range(trials), "gateway" if gateway else "index", disable=not sys.stderr.isatty(), leave=False):
        try:
            await series.trial()
        except RetrievalError as error:
            told.wrong.append(f"refused: {error}")
            break
        if len(told.wrong) > 20:
            break
    await victim.stop()
    told.wrong += await _clean(data)


async def walk(folder: Path, told: Told, arguments: argparse.Namespace) -> None:
    """The same acts from an empty folder again and again; each time killed at another system call."""
    trace = folder / "trace"
    victim = IndexVictim(_data(folder, arguments), before=_strace(trace, ",".join(CALLS)))
    await Trials(victim, Random(arguments.seed), told).acts(_ACTS_OF_A_WALK)
    for calls in CALLS:
        made = _made(trace, calls)
        chosen = sorted({round(1 + i * (made - 1) / max(1, arguments.most - 1)) for i in range(arguments.most)})
        before = told.killed.total()
        for n in tqdm(chosen if made else [], calls, disable=not sys.stderr.isatty(), leave=False):
            await _injected(_data(folder, arguments), told, arguments.seed, calls, n)
        print(f"{calls}: {told.killed.total() - before} kills over {made} calls", flush=True)


def _strace(trace: Path, calls: str, inject: str = "") -> list[str]:
    # Without --seccomp-bpf: strace 6.1 with --seccomp-bpf injects nothing from the second call on.
    injected = [f"--inject={calls}:{inject}"] if inject else []
    return ["strace", "-f", "-qqq", "-o", str(trace), f"--trace={calls}", *injected]


def _made(trace: Path, calls: str) -> int:
    """The most calls by a single thread, because strace counts per thread."""
    lines = [line.split(None, 1) for line in trace.read_text("utf-8", "replace").splitlines()]
    threads = Counter(
        thread for thread, call in lines if call.startswith(tuple(f"{name}(" for name in calls.split(",")))
    )
    return max(threads.values(), default=0)


async def _injected(data: Path, told: Told, seed: int, calls: str, n: int) -> None:
    """Run the acts with a kill at the n-th call, then restart, check, and finish the interrupted act."""
    series = Trials(
        IndexVictim(data, before=_strace(Path("/dev/null"), calls, f"signal=KILL:when={n}")), Random(seed), told
    )
    await series.acts(_ACTS_OF_A_WALK)
    await series.healed(IndexVictim(data))


async def _run(arguments: argparse.Namespace, folder: Path, told: Told) -> None:
    if arguments.strace:
        await walk(folder, told, arguments)
        return
    data = _data(folder, arguments)
    served = round(arguments.trials * _GATEWAY_SHARE)
    random = Random(arguments.seed)
    for count, gateway in ((arguments.trials - served, False), (served, True)):
        await run_trials(data, told, trials=count, random=random, gateway=gateway)


def _data(folder: Path, arguments: argparse.Namespace) -> Path:
    """A new data folder, with the embedder at hand."""
    data = Path(tempfile.mkdtemp(dir=folder)) / "data"
    data.mkdir()
    if arguments.models.is_dir():
        (data / "models").symlink_to(arguments.models.resolve())
    return data


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--strace", action="store_true", help="kill at the n-th system call instead")
    parser.add_argument("--most", type=int, default=40, help="with --strace: the highest n")
    add_models(parser)
    arguments = parser.parse_args()
    if arguments.strace and shutil.which("strace") is None:
        parser.error("--strace needs strace (Debian: apt install strace)")
    told, began = Told(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_run(arguments, Path(folder), told))
    print("| killed during | times |\n| --- | ---: |")
    for kind, times in sorted(told.killed.items()):
        print(f"| {kind} | {times} |")
    for line in told.wrong:
        print(f"WRONG: {line}")
    took = f"{told.killed.total()} kills, {told.acknowledged} acknowledged acts in {time.monotonic() - began:.0f} s"
    print(f"\n{took}; {told.documents} documents looked at: {len(told.wrong)} wrong")
    return 1 if told.wrong or not told.killed else 0


if __name__ == "__main__":
    sys.exit(main())
