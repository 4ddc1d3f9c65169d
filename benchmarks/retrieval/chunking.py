"""How much of an answer the first k chunks of a chunker contain, and how much other text.

    python benchmarks/retrieval/chunking.py DIR [--k K] [--data DIR] [--cache DIR]

DIR holds `docs/` and `queries.jsonl`: each question has `text` and, in `meta`, the document (`doc`) and the character
spans of the answer (`spans`). Token recall, precision and IoU follow Smith & Troynikov, "Evaluating Chunking Strategies
for Retrieval" (Chroma, 2024): the retrieved tokens of the answer, divided by the tokens of the answer, by all retrieved
tokens (with repetitions), and by the union. Retrieval uses only the embedder's cosine, over the chunks of all
documents. Every chunker uses the same embedder and the embedder's tokens. Differences from recursive 200/0 have a
paired 95 % interval over the questions. The table goes to standard output as Markdown; exit code 2: cannot run.
"""

import argparse
import json
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common.bootstrap import Floats, interval
from benchmarks.common.output import say
from config.settings import load
from retrieval.embedding.embed import Embedder, cores
from retrieval.embedding.export import open_embedder
from retrieval.embedding.tokens import EmbedderTokenizer
from retrieval.embedding.vector_cache import CachedQueryEmbedder
from retrieval.ingest.chunking.chunk import chunk
from retrieval.knowledge import Chunking
from retrieval.records.documents import Document, indexed_text

_PEER = "recursive 200/0"


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk: the position, and the embedded text."""

    document: str
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the half-open answer spans in a document."""

    text: str
    document: str
    spans: tuple[tuple[int, int], ...]


Cut = Callable[[Document], Iterator[Piece]]


class Ruler:
    """Turns spans into sets of tokens, for each document."""

    def __init__(self, documents: Sequence[Document], tokens: EmbedderTokenizer) -> None:
        self._starts = {one.source: [start for start, _ in tokens.offsets(one.text)] for one in documents}

    def tokens(self, document: str, spans: Sequence[tuple[int, int]]) -> frozenset[int]:
        """The indexes of the tokens that start in the spans."""
        starts = self._starts[document]
        return frozenset(n for a, b in spans for n in range(bisect_left(starts, a), bisect_left(starts, b)))


def scores(retrieved: Sequence[Piece], question: Question, ruler: Ruler) -> tuple[float, float, float]:
    """Recall, precision and IoU of the retrieved chunks for one question."""
    gold = ruler.tokens(question.document, question.spans)
    sizes = [(one.document, ruler.tokens(one.document, [(one.start, one.end)])) for one in retrieved]
    seen = frozenset[int]().union(*(tokens for document, tokens in sizes if document == question.document))
    total, hit = sum(len(tokens) for _, tokens in sizes), len(gold & seen)
    return hit / len(gold), hit / total if total else 0.0, hit / (total + len(gold - seen))


def measured(
    pieces: Sequence[Piece], questions: Sequence[Question], ruler: Ruler, embedder: Embedder, k: int
) -> Floats:
    """(3, n) recall, precision and IoU of n questions."""
    chunks = embedder.embed_documents([piece.text for piece in pieces])
    similar = embedder.embed_query([question.text for question in questions]) @ chunks.T
    rows = []
    for question, row in zip(questions, similar, strict=True):
        best = np.argsort(-row, kind="stable")[:k]
        rows.append(scores([pieces[at] for at in best], question, ruler))
    return np.asarray(rows, np.float64).T


def ours(tokens: EmbedderTokenizer, chunking: Chunking, size: int, overlap: int) -> Cut:
    def cut(document: Document) -> Iterator[Piece]:
        found = chunk(document, tokens=tokens, chunk_tokens=size, overlap_tokens=overlap, chunking=chunking)
        for one in found:
            text = indexed_text(document.title, one.headings, one.text)
            yield Piece(document.source, one.start, one.end, text)

    return cut


def langchain(tokens: EmbedderTokenizer, size: int, overlap: int) -> Cut:
    """RecursiveCharacterTextSplitter with the default separators, measured in the same tokens."""
    splitter: Any = import_module("langchain_text_splitters").RecursiveCharacterTextSplitter(
        chunk_size=size, chunk_overlap=overlap, length_function=tokens.count, add_start_index=True
    )

    def cut(document: Document) -> Iterator[Piece]:
        for made in splitter.create_documents([document.text]):
            start, text = made.metadata["start_index"], made.page_content
            yield Piece(document.source, start, start + len(text), text)

    return cut


def chunkers(tokens: EmbedderTokenizer) -> dict[str, Cut]:
    """Chunkers by name; the last is `ragway ingest`'s chunker."""
    found: dict[str, Cut] = {}
    if find_spec("langchain_text_splitters"):
        found |= {f"LangChain recursive {size}/0": langchain(tokens, size, 0) for size in (200, 400)}
    found |= {f"recursive {size}/0": ours(tokens, "recursive", size, 0) for size in (200, 400)}
    found |= {f"fixed {size}/0": ours(tokens, "fixed", size, 0) for size in (200,)}
    found |= {f"structure {size}/0": ours(tokens, "structure", size, 0) for size in (254, 200, 160, 128)}
    made = load(environ={}).ingest
    title = f"{made.chunking} {made.chunk_tokens}/{made.overlap_tokens} (default)"
    found[title] = ours(tokens, made.chunking, made.chunk_tokens, made.overlap_tokens)
    return found


def table(results: dict[str, Floats], counts: dict[str, int], tokens: dict[str, float]) -> Iterator[str]:
    yield f"| chunker | chunks | mean tokens | recall | precision | IoU | recall − {_PEER} | IoU − {_PEER} |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for name, found in results.items():
        recall, precision, iou = (f"{100 * row.mean():.1f}" for row in found)
        gained = ["", ""]
        if name != _PEER:
            gained = [_difference(found[row], results[_PEER][row]) for row in (0, 2)]
        size = f"{counts[name]} | {tokens[name]:.0f}"
        yield f"| {name} | {size} | {recall} | {precision} | {iou} | {' | '.join(gained)} |"


def _difference(a: Floats, b: Floats) -> str:
    low, high = interval(lambda x, y: np.asarray(100 * (x.mean(axis=-1) - y.mean(axis=-1)), np.float64), a, b)
    return f"{100 * (a.mean() - b.mean()):+.1f} [{low:+.1f}, {high:+.1f}]"


def read(folder: Path) -> tuple[list[Document], list[Question]]:
    """The documents without titles, so that a chunker knows only the headings in the text."""
    files = sorted((folder / "docs").iterdir())
    documents = [Document(file.name, "", file.read_text("utf-8"), "markdown", 0.0) for file in files]
    rows = [json.loads(line) for line in (folder / "queries.jsonl").read_text("utf-8").splitlines()]
    return documents, [
        Question(row["text"], row["meta"]["doc"], tuple((a, b) for a, b in row["meta"]["spans"])) for row in rows
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path)
    parser.add_argument("--k", type=int, default=5, help="chunks retrieved for a question")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder with the prepared embedder")
    parser.add_argument("--cache", type=Path, default=Path("build/chunking"), help="folder that keeps vectors")
    given = parser.parse_args()
    try:
        documents, questions = read(given.dir)
    except (OSError, ValueError, KeyError) as error:
        say(f"cannot read {given.dir}: {error!r}; expected docs/ and queries.jsonl with meta.doc and meta.spans")
        sys.exit(2)
    made = load(environ={}).embedder
    inner = open_embedder(made.model, backend=made.backend, threads=cores(), cache=given.data / "models")
    embedder, tokens = CachedQueryEmbedder(inner, given.cache), EmbedderTokenizer(inner.tokenizer_file)
    ruler = Ruler(documents, tokens)
    results, counts, means = {}, {}, {}
    for name, cut in chunkers(tokens).items():
        pieces = [piece for document in documents for piece in cut(document)]
        counts[name] = len(pieces)
        sizes = [len(ruler.tokens(piece.document, [(piece.start, piece.end)])) for piece in pieces]
        means[name] = float(np.mean(sizes))
        results[name] = measured(pieces, questions, ruler, embedder, given.k)
        say(f"{name}: {len(pieces)} chunks")
    print("\n".join(table(results, counts, means)))


if __name__ == "__main__":
    main()
