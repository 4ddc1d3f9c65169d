"""Questions in int8 against fp32, with the default embedder: a question's time, on all threads too, and its vector.

    python benchmarks/retrieval/precision.py [--questions N] [--threads N ...] [--cache DIR] [--models DIR]

Both answer the same questions, in blocks and in random order, one question at a time; no question comes twice. The
table goes to standard output as Markdown; exit code 2: this processor or this model gets no questions in int8.
"""

import argparse
import sys
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common import corpus, machine
from benchmarks.common.arguments import add_cache, add_models
from benchmarks.common.output import say
from benchmarks.common.workload import questions
from cli.assembly.index import plan
from config.settings import load
from retrieval.embedding.embed import Embedder, OnnxEmbedder
from retrieval.embedding.export import open_embedder

_BLOCK = 20  # consecutive questions of one precision: a graph that takes turns would find its weights out of the cache
_PASSAGES = 1000


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--questions", type=int, default=1000, help="of each number of threads (default: 1000)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="of a question (default: 1 2)")
    add_cache(parser)
    add_models(parser)
    arguments = parser.parse_args()
    random = Random(4)
    passages = corpus.passages(arguments.cache.resolve(), _PASSAGES)
    asked = questions(random.sample(passages, len(passages)))
    watch = machine.Watch()
    lines = [
        "| threads | fp32 ms | int8 ms | fp32 CPU ms | int8 CPU ms | ratio (quartiles) | cosine, mean | lowest |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for threads in arguments.threads:
        opened = [_opened(precision, threads, arguments.models) for precision in ("fp32", "auto")]
        if not isinstance(opened[1], OnnxEmbedder) or not opened[1].int8_questions:
            say("this processor has no units for 8 bits, or the vectors are too far: questions stay in fp32")
            return 2
        lines.append(_row(opened, threads, list(islice(asked, arguments.questions)), random))
    print("\n".join(lines))
    if watch.elsewhere().disturbing:
        print("\nThe machine was busy with something else: only the ratio is to be quoted.")
    return 0


def _opened(precision: str, threads: int, models: Path) -> Embedder:
    flags = {"embedder.precision": precision}
    options = replace(plan(load(environ={}, flags=flags), environ={}).embedding, threads=threads)
    return open_embedder(options.model, backend="onnx", threads=threads, cache=models, options=options)


def _row(opened: list[Embedder], threads: int, texts: list[str], random: Random) -> str:
    """opened: fp32, then int8."""
    times_ms: list[list[float]] = [[], []]  # each block's median
    cpu_ms: list[list[float]] = [[], []]  # likewise, of all threads
    vectors: list[list[np.ndarray]] = [[], []]
    for start in range(0, len(texts), _BLOCK):
        for which in random.sample(range(2), 2):
            block_ms, block_cpu_ms = [], []
            for text in texts[start : start + _BLOCK]:
                began, cpu_began = time.perf_counter(), time.process_time()
                (vector,) = opened[which].embed_query([text])
                block_ms.append((time.perf_counter() - began) * 1000)
                block_cpu_ms.append((time.process_time() - cpu_began) * 1000)
                vectors[which].append(vector)
            times_ms[which].append(float(np.median(block_ms)))
            cpu_ms[which].append(float(np.median(block_cpu_ms)))
    fp32, int8 = (np.array(times) for times in times_ms)
    cosines = np.sum(np.array(vectors[0]) * np.array(vectors[1]), axis=1)
    low, middle, high = np.percentile(int8 / fp32, [25, 50, 75])
    return (
        f"| {threads} | {np.median(fp32):.2f} | {np.median(int8):.2f} "
        f"| {np.median(cpu_ms[0]):.2f} | {np.median(cpu_ms[1]):.2f} | {middle:.2f} ({low:.2f}-{high:.2f}) "
        f"| {cosines.mean():.4f} | {cosines.min():.4f} |"
    )


if __name__ == "__main__":
    sys.exit(main())
