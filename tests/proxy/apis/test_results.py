"""Results as texts for a model: JSON cut by structure, and pages as text."""

import json
import re
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.agent.tools.result_reading import read_on
from proxy.apis.results import cut_middle, json_text, normalised, result_text

NOTE_CHARS = 60  # of "… 12,345 characters left out …"
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=10), inner, max_size=10),
    max_leaves=200,
)


@given(value=JSON_VALUES, max_chars=st.integers(200, 5000))
def test_a_cut_value_is_json_within_the_limit_or_says_what_is_left_out(value: Any, max_chars: int) -> None:
    text = json_text(value, max_chars=max_chars)
    assert len(text) <= max_chars + NOTE_CHARS
    try:
        json.loads(text)
    except ValueError:
        assert "characters left out" in text


@given(value=JSON_VALUES)
def test_a_value_that_fits_is_whole(value: Any) -> None:
    assert json.loads(json_text(value, max_chars=10**6)) == value


@given(value=JSON_VALUES, max_chars=st.integers(1, 500))
def test_a_result_is_complete_or_comes_with_the_whole(value: Any, max_chars: int) -> None:
    cut = result_text(orjson.dumps(value), "application/json", max_chars=max_chars)
    assert json.loads(cut.whole or cut.text) == value
    assert bool(cut.whole) == (len(orjson.dumps(value).decode()) > max_chars)


@given(
    content=st.binary(max_size=500),
    media_type=st.text(max_size=30)
    | st.sampled_from(
        [
            "application/json",
            "text/html",
            "text/plain; charset=utf-16",
            "application/xml; charset=ISO-8859-99",
            "image/png",
        ]
    ),
)
def test_no_response_raises_or_passes_the_limit(content: bytes, media_type: str) -> None:
    assert len(result_text(content, media_type, max_chars=100).text) <= 100 + NOTE_CHARS + len(media_type)


def test_a_long_list_keeps_the_shape_of_its_rows() -> None:
    rows = [{"id": n, "name": f"user {n}", "roles": [{"role": "owner"}], "gone": None} for n in range(200)]
    cut = json.loads(json_text({"total": 200, "results": rows}, max_chars=2000))
    assert cut["total"] == 200
    assert cut["results"][0] == {"id": 0, "name": "user 0", "roles": [{"role": "owner"}]}
    assert cut["results"][-1] == f"… {200 - len(cut['results']) + 1} more"


def test_an_object_with_many_members_keeps_the_first() -> None:
    cut = json.loads(json_text({f"key{n}": {"n": n} for n in range(1000)}, max_chars=1000))
    assert cut["key0"] == {"n": 0}
    assert cut["…"] == f"{1000 - len(cut) + 1} more"


def test_a_long_text_keeps_beginning_and_end() -> None:
    cut = json.loads(json_text({"text": "a" * 5000 + "z" * 5000}, max_chars=1000))["text"]
    assert cut.startswith("aaa")
    assert cut.endswith("zzz")
    assert " … " in cut


@pytest.mark.parametrize("depth", [200, 400, 1000])
def test_a_deep_value_is_cut(depth: int) -> None:
    content = b'{"a":' * depth + b"1" + b"}" * depth
    assert len(result_text(content, "application/json", max_chars=500).text) <= 500 + NOTE_CHARS


def test_a_cut_text_says_how_much_is_left_out() -> None:
    assert cut_middle("a" * 50 + "b" * 1000 + "c" * 50, 100) == "a" * 50 + " … 1,000 characters left out … " + "c" * 50


def test_a_page_is_its_text() -> None:
    page = (
        "<!DOCTYPE html><html><head><title>t</title><style>p {}</style></head><body><!-- <p>hidden</p> -->"
        "<h1>Sorry</h1><script>if (a < b) { c() }</script><p>1 &lt; 2 &amp; a < b</p><br/><p class='x'>Bye</p></body>"
    )
    assert result_text(page.encode(), "text/html", max_chars=1000).text == "Sorry\n1 < 2 & a < b\nBye"


@pytest.mark.parametrize(
    "piece", ["<", "<!", "<!--", "<a ", "&", "<div>", "</", "<script>", "<![CDATA[", "<a b='", "]]>"]
)
def test_a_page_of_a_hostile_server_takes_linear_time(piece: str) -> None:
    result_text((piece * 1_000_000)[:1_000_000].encode(), "text/html", max_chars=1000)


@given(number=st.from_regex(r"-?(0|[1-9][0-9]{0,40})([.][0-9]{1,40})?([eE][+-]?[0-9]{1,30})?", fullmatch=True))
@example("1.0000000000000000001e-99999999999999999999999")
@example("-1234567890123456789e-1000000000000000000")
@example("1e400")
def test_no_number_of_json_raises(number: str) -> None:
    content = f'{{"a": {number}, "b": [{number}]}}'
    assert result_text(content.encode(), "application/json", max_chars=1000).text
    assert read_on(content, max_chars=1000)


def test_numbers_keep_their_digits() -> None:
    value = {"big": 18446744073709551615, "float": 0.1, "zero": 0, "no": False, "none": None, "empty": ""}
    assert orjson.loads(result_text(orjson.dumps(value), "application/json", max_chars=1000).text) == value


@pytest.mark.parametrize("number", ["98765432109876543210", "-9223372036854775809", "1234567.123456789012345678"])
@pytest.mark.parametrize("max_chars", [1000, 60])
def test_a_number_with_more_digits_than_orjson_keeps_is_a_text(number: str, max_chars: int) -> None:
    content = f'{{"n": {number}, "x": [1.50, 12345678901234567890, 0.1, "{"a" * 30}"]}}'
    shown = result_text(content.encode(), "application/json", max_chars=max_chars)
    assert number in shown.text
    assert number in read_on(shown.whole or content, max_chars=1000)
    if max_chars == 1000:
        assert orjson.loads(shown.text) == {"n": number, "x": [1.5, 12345678901234567890, 0.1, "a" * 30]}


@pytest.mark.parametrize("number", ["52.520006599999999", "0.1000000000000000055511", "1000000000000000000000.0"])
def test_a_float_with_many_digits_stays_a_number(number: str) -> None:
    shown = result_text(f'{{"n": {number}, "x": 98765432109876543210}}'.encode(), "application/json", max_chars=1000)
    assert orjson.loads(shown.text) == {"n": float(number), "x": "98765432109876543210"}


@pytest.mark.parametrize(
    ("media_type", "page", "charset"),
    [
        ("application/xml", '<?xml version="1.0" encoding="ISO-8859-1"?><a>Müller</a>', "latin-1"),
        ("text/xml", "<?xml version='1.0' encoding='windows-1251'?><a>Müller</a>".replace("ü", "ю"), "cp1251"),
        ("text/html", '<meta charset="windows-1252"><p>Müller</p>', "cp1252"),
        ("text/html", '<meta content="text/html; charset=iso-8859-1" http-equiv="x"><p>Müller</p>', "latin-1"),
        ("text/html", '<meta charset="iso-8859-1"><p>Müller</p>', "utf-8"),
        ("text/plain; charset=ISO_8859-1", "Müller", "latin-1"),
    ],
)
def test_a_page_names_its_encoding(media_type: str, page: str, charset: str) -> None:
    shown = result_text(*normalised(page.encode(charset), media_type), max_chars=1000).text
    assert re.search("M[üю]ller", shown)
