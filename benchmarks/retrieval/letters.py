"""A judged set in letters that the default embedder only spells: Cyrillic in place of Latin ones.

    python benchmarks/retrieval/letters.py DIR OUT
    ragway eval OUT --untimed

DIR is a judged set in BEIR's form. OUT becomes the same set, letter for letter, so words and judgements stay, and the
embedder knows no word. It shows what vectors of such texts do to the fused ranking, without judged sets in other
languages.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

_LATIN = "abcdefghijklmnopqrstuvwxyz"
_CYRILLIC = "абцдефгхийклмнопярстувшжыз"
_LETTERS = str.maketrans(_LATIN + _LATIN.upper(), _CYRILLIC + _CYRILLIC.upper())
_TEXTS = ("text", "title", "content", "history", "rewrite")


def in_other_letters(value: Any) -> Any:
    """The texts of a line of BEIR's form in other letters."""
    if isinstance(value, str):
        return value.translate(_LETTERS)
    if isinstance(value, list):
        return [in_other_letters(one) for one in value]
    return {key: in_other_letters(one) if key in _TEXTS else one for key, one in value.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("out", type=Path, metavar="OUT")
    given = parser.parse_args()
    given.out.mkdir(parents=True)
    for file in given.folder.iterdir():
        if file.suffix == ".jsonl":
            lines = map(json.loads, filter(str.strip, file.read_text("utf-8").split("\n")))
            text = "".join(json.dumps(in_other_letters(line), ensure_ascii=False) + "\n" for line in lines)
            (given.out / file.name).write_text(text, "utf-8")
        elif file.is_file():
            shutil.copy(file, given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
