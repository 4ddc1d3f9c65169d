"""How well operations of APIs are found by what people ask, alone and among thousands of operations of other APIs.

    python benchmarks/retrieval/actions.py DIR… [--others FOLDER] [--among N,N…] [--alone] [--beside PYTHON]

DIR is a judged set in BEIR's form. With an `openapi.json`, the judgements name operations as "METHOD /path"; else each
row of `corpus.jsonl` is an operation "API::NAME", in the form of ToolBench, and each API becomes an OpenAPI document.
FOLDER has OpenAPI documents, also in folders of its own: whole documents join, in the order of a hash of the
documents' names, until there are N operations. Each document is an action set, and a question searches all sets.
PYTHON is an interpreter with `litellm[proxy]` and `semantic-router`: LiteLLM's semantic filter of tools is then asked
the same questions in the same run, with the vectors of the same embedder. The table goes to standard output.
"""

import argparse
import asyncio
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common.output import say, table
from cli.common import knowledge
from config.settings import load
from evaluation.retrieval.judged import JudgedQuestion, JudgedSet, read
from evaluation.retrieval.metrics import hit, ndcg, recall
from proxy.apis.library import ActionLibrary, ActionStore, FoundAction
from proxy.apis.openapi.operation import Operation
from proxy.apis.openapi.read import UnreadableSpec
from proxy.apis.specs import ReadDocument, read_document, rows_of
from retrieval.embedding.embed import cores
from retrieval.embedding.export import DEFAULT_MODEL, open_embedder
from retrieval.knowledge import SearchRequest
from retrieval.records.search import ALL, Retrieved

_K = 10
_ADDRESS = "https://api.example.com"
_FILTER = Path(__file__).with_name("litellm_filter.py")
_TOOLBENCH = re.compile(r"\[(?P<category>.*?)\] (?P<method>[A-Z]+) ?(?P<rest>.*)", re.DOTALL)

Key = tuple[str, str]  # the set and the operation


@dataclass(frozen=True, slots=True)
class Own:
    """A judged set with action sets of its own."""

    judged: JudgedSet
    sets: Mapping[str, ReadDocument]
    ids: Mapping[Key, str]  # operation -> the id in the judgements


@dataclass(frozen=True, slots=True)
class Scores:
    """Means over the questions, except the times."""

    ndcg: float
    recall: float
    hit: float  # share of questions with a right operation among the first five
    empty: int  # questions for which nothing was found
    median_ms: float
    added_ms: float  # median of the time besides the search of texts


class TimedSearch:
    """The search of texts, with the time of the last search."""

    def __init__(self, search: Any) -> None:
        self._search = search
        self.took_ms = 0.0

    async def retrieve(self, request: SearchRequest) -> Retrieved:
        began = time.perf_counter()
        found: Retrieved = await self._search.retrieve(request)
        self.took_ms = (time.perf_counter() - began) * 1000
        return found


def own_of(folder: Path) -> Own:
    """The judged set of a folder. Raises UnreadableSpec."""
    judged, spec = read(folder), folder / "openapi.json"
    if spec.exists():
        document = read_document(spec.read_bytes())
        name = folder.name
        ids = {(name, one.name): f"{one.method} {one.path}" for one in document.operations}
        return Own(judged, {name: document}, ids)
    rows: dict[str, list[dict[str, str]]] = {}
    for line in (folder / "corpus.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        rows.setdefault(row["_id"].partition("::")[0], []).append(row)
    sets, ids = {}, {}
    for number, (api, some) in enumerate(rows.items()):
        name = f"{folder.name}-{number}"
        sets[name] = document = read_document(_openapi(api, some))
        of_path = {f"/{place}": row["_id"] for place, row in enumerate(some)}
        ids |= {(name, one.name): of_path["/" + one.path.rpartition("/")[2]] for one in document.operations}
    return Own(judged, sets, ids)


def _openapi(api: str, rows: Sequence[Mapping[str, str]]) -> bytes:
    """The OpenAPI document of an API of ToolBench."""
    paths: dict[str, Any] = {}
    for place, row in enumerate(rows):
        name = row["_id"].partition("::")[2]
        parts = _TOOLBENCH.fullmatch(row["text"])
        assert parts is not None, f"{row['_id']}: expected [category] METHOD text"
        description, line, parameters = parts["rest"].rpartition("\n")
        description, parameters = (description, parameters) if line else (parameters, "")
        path = f"/{re.sub(r'[^a-zA-Z0-9]+', '_', name).strip('_')}/{place}"
        listed = [one.removeprefix("required ").partition(": ") for one in parameters.split("; ") if one]
        paths[path] = {
            parts["method"].lower(): {
                "summary": name,
                "description": description,
                "tags": [parts["category"]],
                "parameters": [{"name": one, "in": "query", "description": words} for one, _, words in listed],
            }
        }
    servers = [{"url": _ADDRESS}]
    return json.dumps({"openapi": "3.1.0", "info": {"title": api}, "servers": servers, "paths": paths}).encode()


def documents_of(folder: Path) -> list[Path]:
    """The files with JSON or YAML, in the order of a hash of their names."""
    files = [file for file in folder.rglob("*") if file.suffix in (".json", ".yaml", ".yml")]
    return sorted(files, key=lambda file: hashlib.sha256(file.name.encode()).digest())


def documents_beside(folder: Path, count: int) -> dict[str, ReadDocument]:
    """The first documents of a folder that have `count` operations together."""
    found: dict[str, ReadDocument] = {}
    remaining = _read_all(folder)
    while _operations(found) < count and (row := next(remaining, None)):
        found[row[0]] = row[1]
    return found


def _read_all(folder: Path) -> Iterator[tuple[str, ReadDocument]]:
    for number, file in enumerate(documents_of(folder)):
        try:
            yield f"other-{number}", read_document(file.read_bytes())
        except UnreadableSpec:
            continue


def mean_of(
    found: Sequence[Sequence[str]],
    questions: Sequence[JudgedQuestion],
    times_ms: Sequence[float],
    added_ms: Sequence[float],
) -> Scores:
    """The figures of all questions."""
    pairs = [(ids, question.gold) for ids, question in zip(found, questions, strict=True)]
    return Scores(
        ndcg=float(np.mean([ndcg(*pair, _K) for pair in pairs])),
        recall=float(np.mean([recall(*pair, _K) for pair in pairs])),
        hit=float(np.mean([hit(*pair, 5) for pair in pairs])),
        empty=sum(not ids for ids in found),
        median_ms=float(np.median(times_ms)),
        added_ms=float(np.median(added_ms)),
    )


class Bench:
    """The action sets of one data folder, and the searches."""

    def __init__(self, opened: Any, data: Path, *, alone: bool) -> None:
        self._search = TimedSearch(opened.search)
        parts = SimpleNamespace(search=self._search, library=opened.library, writing=opened.writing)
        self._library = ActionLibrary(ActionStore(data), parts)
        self._alone = alone

    async def write(self, name: str, document: ReadDocument) -> None:
        if self._alone:
            plain = [msgspec.structs.replace(one, producers=()) for one in document.operations]
            document = ReadDocument(document.document, document.title, plain, document.uncallable, document.hash)
        await self._library.write(name, rows_of(name, document, _ADDRESS))

    async def ask(self, own: Own, others: Sequence[str], misses: bool) -> Scores:
        """Ask all questions; misses: print each question without a right operation among the first five."""
        sets = [*own.sets, *others]
        found: list[list[str]] = []
        times_ms: list[float] = []
        added_ms: list[float] = []
        for question in own.judged.questions:
            began = time.perf_counter()
            actions = (await self._library.find(question.turns, sets, k=_K, view=ALL)).actions
            times_ms.append((time.perf_counter() - began) * 1000)
            added_ms.append(times_ms[-1] - self._search.took_ms)
            found.append([own.ids.get((one.set, one.operation.name), "") for one in actions])
            if misses and not any(question.gold.get(each) for each in found[-1][:5]):
                say(f"{question.text}\n  right: {'; '.join(question.gold)}\n{_shown(actions[:5])}")
        return mean_of(found, own.judged.questions, times_ms, added_ms)


def _shown(found: Sequence[FoundAction]) -> str:
    return "\n".join(f"  found: {one.set}: {one.operation.method} {one.operation.path}" for one in found)


def beside(python: str, own: Own, others: Mapping[str, ReadDocument]) -> Scores:
    """LiteLLM's semantic filter, asked the same questions about the same operations."""
    keys: list[Key] = []
    texts: list[str] = []
    for name, document in {**own.sets, **others}.items():
        keys += [(name, one.name) for one in document.operations]
        texts += [_description(document.title, one) for one in document.operations]
    with tempfile.TemporaryDirectory(prefix="ragway-actions-") as folder:
        embedder = open_embedder(
            DEFAULT_MODEL, backend="auto", threads=cores(), cache=Path(folder) / "models", bulk=True
        )
        questions = [question.text for question in own.judged.questions]
        np.savez(
            Path(folder) / "vectors.npz",
            tools=embedder.embed_documents(texts),
            questions=embedder.embed_query(questions),
        )
        given = {"tools": [list(key) for key in keys], "descriptions": texts, "questions": questions, "k": _K}
        (Path(folder) / "given.json").write_text(json.dumps(given))
        done = subprocess.run([python, str(_FILTER), folder], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"LiteLLM's filter failed: {done.stderr[-2_000:]}")
        answers = json.loads((Path(folder) / "answers.json").read_text())
    found = [[own.ids.get(keys[place], "") for place in places] for places in answers["found"]]
    return mean_of(found, own.judged.questions, answers["ms"], answers["ms"])


def _description(api: str, one: Operation) -> str:
    """The description of a tool: API, summary and description, as ragway has them in the first chunk."""
    return ". ".join(text for text in (api, one.summary or one.name, one.description) if text)


async def _run(arguments: argparse.Namespace) -> None:
    owns = [own_of(Path(folder)) for folder in arguments.dirs]
    remaining = _read_all(Path(arguments.others)) if arguments.others else iter(())
    others: dict[str, ReadDocument] = {}
    rows: list[list[str]] = []
    async with AsyncExitStack() as stack:
        data = Path(arguments.data or stack.enter_context(tempfile.TemporaryDirectory(prefix="ragway-actions-")))
        settings = load(flags={"data": str(data)})
        opened = await stack.enter_async_context(knowledge(settings, make=True))
        bench = Bench(opened, data, alone=arguments.alone)
        for own in owns:
            for name, document in own.sets.items():
                await bench.write(name, document)
        for count in sorted(arguments.among):
            began = time.perf_counter()
            while _operations(others) < count and (row := next(remaining, None)):
                others[row[0]] = row[1]
                await bench.write(*row)
            number = _operations(others)
            say(f"{number:,} operations of {len(others):,} other sets, {time.perf_counter() - began:.0f} s of writing")
            for own in owns:
                await bench.ask(own, list(others), misses=False)  # the first questions read files and count words
                ours = await bench.ask(own, list(others), misses=arguments.misses)
                rows.append([own.judged.name, f"{number:,}", "ragway", *_cells(ours)])
                say(" ".join(rows[-1]))  # a run among many operations takes an hour
                if arguments.beside:
                    theirs = beside(arguments.beside, own, others)
                    rows.append([own.judged.name, f"{number:,}", "LiteLLM", *_cells(theirs)])
                    say(
                        f"ragway/LiteLLM: hit@5 {ours.hit / theirs.hit:.2f}, ms {ours.median_ms / theirs.median_ms:.2f}"
                    )
    head = ["questions", "others", "search", "nDCG@10", "recall@10", "hit@5", "nothing found", "median ms", "added ms"]
    print(table(head, rows))


def _operations(sets: Mapping[str, ReadDocument]) -> int:
    return sum(len(document.operations) for document in sets.values())


def _cells(row: Scores) -> list[str]:
    figures = (f"{row.ndcg:.3f}", f"{row.recall:.3f}", f"{row.hit:.3f}", str(row.empty))
    return [*figures, f"{row.median_ms:.1f}", f"{row.added_ms:.1f}"]


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="Measure how well operations of APIs are found.")
    parser.add_argument("dirs", metavar="DIR", nargs="+", help="judged set in BEIR's form")
    parser.add_argument("--others", metavar="FOLDER", help="OpenAPI documents whose operations are searched, too")
    parser.add_argument("--among", default="0", help="numbers of other operations, with commas (default: 0)")
    parser.add_argument("--alone", action="store_true", help="the search alone: no operation brings producers along")
    parser.add_argument("--misses", action="store_true", help="print the questions without a right operation")
    parser.add_argument("--beside", metavar="PYTHON", help="interpreter with LiteLLM and semantic-router")
    parser.add_argument("--data", metavar="DIR", help="where the sets are kept for the next run (default: nowhere)")
    arguments = parser.parse_args()
    arguments.among = [int(text) for text in arguments.among.split(",")]
    if any(arguments.among) and not arguments.others:
        parser.error("--among needs --others")
    asyncio.run(_run(arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main())
