"""A judged set in other letters: the same words and judgements, and none of the words is known."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks.retrieval import letters
from retrieval.embedding.tokens import EmbedderTokenizer
from tests.support.minilm import tokenizer_file


def test_a_set_keeps_its_judgements_and_loses_its_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, out = tmp_path / "set", tmp_path / "out"
    folder.mkdir()
    (folder / "corpus.jsonl").write_text('{"_id": "fee", "title": "Fees", "text": "The mooring fee is 110."}\n\n')
    history = [{"role": "user", "content": "Who collects it?"}]
    (folder / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "How much?", "history": history}))
    (folder / "qrels.tsv").write_text("q\tfee\t1\n")
    monkeypatch.setattr(sys, "argv", ["letters.py", str(folder), str(out)])
    assert letters.main() == 0
    assert json.loads((out / "corpus.jsonl").read_text("utf-8")) == {
        "_id": "fee",
        "title": "Феес",
        "text": "Тхе мооринг фее ис 110.",
    }
    (turn,) = json.loads((out / "queries.jsonl").read_text("utf-8"))["history"]
    assert turn["role"] == "user"
    assert EmbedderTokenizer(tokenizer_file()).known(turn["content"]) == ""
    assert (out / "qrels.tsv").read_text() == "q\tfee\t1\n"
