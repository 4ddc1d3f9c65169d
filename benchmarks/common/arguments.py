"""Arguments shared by the benchmarks on judged sets."""

import argparse
from pathlib import Path

from benchmarks.common.processes import ROOT


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    """A parser with this docstring as description: judged folders, the data folder of the models, the vector cache."""
    parser = argparse.ArgumentParser(description=(doc or "").split("\n\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="a judged set in BEIR's form")
    parser.add_argument("--data", type=Path, default=Path("data"), help="data folder whose models are used")
    parser.add_argument("--cache", type=Path, default=Path("data/cache"), help="folder of vectors kept between runs")
    return parser


def add_models(parser: argparse.ArgumentParser) -> None:
    """Add --models, the folder of the prepared embedder."""
    parser.add_argument(
        "--models",
        type=Path,
        default=ROOT / "data" / "models",
        metavar="DIR",
        help="where the prepared embedder is, or is put (default: data/models of the checkout, as `make run` does)",
    )


def add_cache(parser: argparse.ArgumentParser) -> None:
    """Add --cache, the folder of paragraphs and collections."""
    parser.add_argument(
        "--cache",
        type=Path,
        default=ROOT / "data" / "benchmark",
        metavar="DIR",
        help="where paragraphs and collections are kept for the next run (default: data/benchmark of the checkout)",
    )
