"""Terms: the words that must be found stay findable, and every view of a text speaks of the same terms."""

import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.terms import AVERAGE_WORDS, K1, B, document_vector, query_vector, words


def found_by(question: str, text: str) -> bool:
    return bool(set(query_vector([(question, 1.0)]).indices) & set(document_vector(text).indices))


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("kotlin", "implementation('org.mongodb:mongodb-driver-kotlin-coroutine:5.5.1')"),
        ("coroutine", "mongodb-driver-kotlin-coroutine"),
        ("insertMany", "await collection.insertMany()"),
        ("insertmany()", "db.users.insertMany([])"),
        ("EADDRNOTAVAIL", "connect EADDRNOTAVAIL (99)"),
        ("error 99", "connect EADDRNOTAVAIL (99)"),
        ("max pool size", "max_pool_size"),
        ("maxPoolSize", "`maxPoolSize`: the most connections"),
        ("connecting", "How connections are made"),
        ("CAFÉ", "a café in Paris"),
        ("лошадь", "Лошадь бежит"),
        ("5.5.1", "version 5.5.1"),
    ],
)
def test_finds_identifiers_numbers_and_inflected_words(question: str, text: str) -> None:
    assert found_by(question, text)


def test_does_not_find_javascript_for_java() -> None:
    assert not found_by("Java", "JavaScript and TypeScript")


def test_leaves_stop_words_out() -> None:
    assert document_vector("the of and a").indices == ()
    assert query_vector([("how do I", 1.0)]).indices == query_vector([("", 1.0)]).indices == ()


@pytest.mark.parametrize("text", ["", " \n\t", "…—!?", "\x00"])
def test_a_text_without_words_has_no_terms(text: str) -> None:
    assert document_vector(text).indices == ()
    assert query_vector([(text, 1.0)]).indices == ()
    assert words(text) == []


def test_survives_half_a_surrogate_pair() -> None:
    assert query_vector([("pool \ud83d size", 1.0)]).indices == query_vector([("pool size", 1.0)]).indices


def test_document_values_follow_the_saturation_formula() -> None:
    """tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average))."""
    vector = document_vector("cat cat dog " + "bird " * 7)
    expected = sorted(tf * (K1 + 1) / (tf + K1 * (1 - B + B * 10 / AVERAGE_WORDS)) for tf in (2, 1, 7))
    assert sorted(vector.values) == pytest.approx(expected, rel=1e-6)


def test_the_heaviest_piece_decides_a_words_weight_and_repeating_it_adds_nothing() -> None:
    once = query_vector([("pool", 1.0)])
    assert query_vector([("pool pool", 1.0), ("the pool", 0.3), ("pools", 0.5)]) == once
    assert query_vector([("pool", 0.25), ("pool", 0.5)]).values == (0.5,)


def test_pieces_without_a_positive_weight_are_left_out() -> None:
    assert query_vector([("pool", 0.0), ("size", -1.0), ("socket", float("nan")), ("timeout", 2.0)]) == query_vector(
        [("timeout", 2.0)]
    )


def test_no_pieces_make_an_empty_query() -> None:
    assert query_vector([]).indices == ()


TEXTS = st.lists(st.sampled_from("pool socket timeout the 99 café naïve x_y don't Übergröße 数据".split())).map(
    " ".join
)


@given(TEXTS | st.text(max_size=200))
def test_words_are_the_terms_of_both_vectors(text: str) -> None:
    terms = {int(word) for word in words(text)}
    assert terms == set(document_vector(text).indices) == set(query_vector([(text, 1.0)]).indices)


@given(st.dictionaries(st.sampled_from(["pool", "socket", "timeout", "driver"]), st.integers(1, 30)))
def test_words_keep_their_repetitions(counts: dict[str, int]) -> None:
    text = " ".join(" ".join([word] * n) for word, n in counts.items())
    expected = {words(word)[0]: n for word, n in counts.items()}
    assert Counter(words(text)) == expected


def test_words_count_exactly_in_a_huge_text() -> None:
    assert Counter(words("pool " * 100_000 + "socket")) == {words("pool")[0]: 100_000, words("socket")[0]: 1}


def test_vectors_do_not_depend_on_the_process() -> None:
    code = "from retrieval.terms import document_vector; print(document_vector('connection pool size 99'))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str(document_vector("connection pool size 99"))


def test_importing_it_does_not_load_the_engine() -> None:
    code = "import sys, retrieval.terms; sys.exit('qdrant_edge' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
