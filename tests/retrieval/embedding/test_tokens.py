"""Tokens are counted and located as the embedder reads them, however long the text."""

from pathlib import Path

import pytest

from retrieval.embedding.tokens import EmbedderTokenizer
from tests.support.minilm import minilm, tokenizer_file

TEXTS = ["", " ", "word", "Set `tls=true`.", "unbelievableness", "数据库连接", "한국어", "👩‍👩‍👧 family", "e\u0301tude"]


def test_counts_without_special_tokens() -> None:
    assert minilm().count("") == 0
    assert minilm().count("hello world") == 2


def test_counts_past_the_length_its_file_truncates_to() -> None:
    assert '"max_length":128' in tokenizer_file().read_text("utf-8")
    assert minilm().count("word " * 1000) == 1000


def test_does_not_pad_short_texts() -> None:
    assert minilm().counts(["one", "one two three"]) == [1, 3]


def test_counts_many_texts_as_it_counts_each() -> None:
    assert minilm().counts(TEXTS) == [minilm().count(text) for text in TEXTS]
    assert minilm().counts([]) == []


def test_locates_each_token_in_the_text_as_it_was_given() -> None:
    text = "Café connects to 数据"
    pieces = [text[start:end] for start, end in minilm().offsets(text)]
    assert pieces == ["Café", "connects", "to", "数", "据"]


@pytest.mark.parametrize("text", TEXTS)
def test_locates_as_many_tokens_as_it_counts(text: str) -> None:
    offsets = minilm().offsets(text)
    assert len(offsets) == minilm().count(text)
    assert all(0 <= start < end <= len(text) for start, end in offsets)
    assert offsets == sorted(offsets)


def test_locates_in_many_texts_as_it_locates_in_each() -> None:
    assert minilm().offsets_of(TEXTS) == [minilm().offsets(text) for text in TEXTS]


def test_names_a_tokenizer_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"expected the embedder's tokenizer\.json"):
        EmbedderTokenizer(tmp_path / "tokenizer.json")


def test_names_a_file_that_is_no_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(ValueError, match=r"tokenizer\.json is not a tokenizer\.json"):
        EmbedderTokenizer(path)
