"""Arguments shared by the benchmarks on judged sets."""

import argparse
from pathlib import Path


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    """A parser with this docstring as description: judged folders, the data folder of the models, the vector cache."""
    parser = argparse.ArgumentParser(description=(doc or "").split("\n\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="a judged set in BEIR's form")
    parser.add_argument("--data", type=Path, default=Path("data"), help="data folder whose models are used")
    parser.add_argument("--cache", type=Path, default=Path("data/cache"), help="folder of vectors kept between runs")
    return parser
