"""Tokens are counted and located as the embedder reads them, however long the text."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.embedding.tokens import EmbedderTokenizer
from tests.support.minilm import minilm, tokenizer_file
from tests.support.rows import all_rows

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


UNKNOWN = {
    "base64": "iVBORw0KGgoAAAANSUhEUgAA" * 40,
    "Thai": "เรือทุกลำที่จอดค้างคืนต้องจ่ายค่าธรรมเนียม" * 20,
    "Khmer": "កប៉ាល់ទាំងអស់ត្រូវបង់ថ្លៃ" * 20,
    "Amharic": "ሁሉም ጀልባዎች ክፍያ ይከፍላሉ " * 20,
    "Burmese": "လှေအားလုံးအခကြေးငွေပေးရမည်" * 20,
    "Tibetan": "གྲུ་གཟིངས་ཚང་མས་རིན་པ་སྤྲོད་དགོས" * 20,
    "emoji": "👍🏽🎉😂🚀" * 40,
    "families": "👩‍👩‍👧‍👦" * 40,
    "cuneiform": "𒀀𒁀𒂀" * 60,
    "private use": "\ue000\ue001" * 60,
    "zero-width spaces": "\u200b" * 200,
    "marks upon marks": ("a" + "\u0301\u0323" * 10) * 20,
}


@all_rows("script", UNKNOWN)
def test_letters_that_the_embedder_does_not_know_count_by_their_bytes(script: str) -> None:
    text = UNKNOWN[script]
    assert minilm().count(text) >= len("".join(text.split()).encode()) // 8


@pytest.mark.parametrize("script", ["base64", "Khmer", "Amharic", "emoji", "cuneiform"])
def test_an_unknown_word_is_a_token_for_four_bytes(script: str) -> None:
    text = UNKNOWN[script]
    size = len("".join(text.split()).encode())
    assert size / 4.5 < minilm().count(text) < size / 1.5


@given(st.text() | st.sampled_from(sorted(UNKNOWN)).map(UNKNOWN.__getitem__), st.integers(1, 5))
def test_no_text_has_fewer_tokens_than_an_eighth_of_its_bytes(text: str, times: int) -> None:
    text *= times
    assert 8 * (minilm().count(text) + 1) > len("".join(text.split()).encode("utf-8", "replace"))


@pytest.mark.parametrize(
    "text",
    [
        "The harbour office collects the mooring fee from every vessel. " * 20,
        "Das Hafenamt erhebt die Liegegebühr für Straße und Kai. " * 20,
        "港务局向每艘过夜的船只收取停泊费。" * 20,
        "港湾事務所はすべての船舶から係留料を徴収します。" * 20,
        "Портовое управление взимает плату за стоянку. " * 20,
        "| name        | price |\n| ---         | ---   |\n" * 20,
        "def f(x):\n                return x\n\n\n" * 20,
    ],
)
def test_known_letters_count_as_the_tokenizer_counts_them(text: str) -> None:
    from tokenizers import Tokenizer

    plain = Tokenizer.from_file(str(tokenizer_file()))
    plain.no_truncation()
    plain.no_padding()
    assert minilm().count(text) == len(plain.encode(text, add_special_tokens=False))


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("thanks", "thanks"),
        ("👍 thanks", "thanks"),
        ("Wie groß ist die Straße? 🎉", "Wie groß ist die Straße?"),
        ("👍", ""),
        ("👍!", ""),
        ("តើ?", ""),
        ("ጀልባዎች የት ናቸው", ""),
        ("where is ភ្នំពេញ on the map", "where is         on the map"),
        ("今天吃什么", ""),  # 天 alone is known
        ("今天 in Tokyo 大学", "in Tokyo 大学"),
        ("…", ""),
        ("¿?", ""),
        ("Привет, мир", ""),  # of these scripts MiniLM knows letters, not words
        ("مرحبا بالعالم", ""),
        ("すごい", ""),
        ("नमस्ते दुनिया", ""),
        ("안녕하세요", ""),
        ("как настроить Docker compose", "Docker compose"),
        ("β-carotene and Δt in µm", "β-carotene and Δt in µm"),
        ("à quelle heure, Größe, Tiếng Việt", "à quelle heure, Größe, Tiếng Việt"),
        ("", ""),
    ],
)
def test_unknown_words_are_taken_out(text: str, known: str) -> None:
    assert minilm().known(text) == known
