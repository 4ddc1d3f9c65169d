"""The words of the gateway in a chat are no source of values; the words of people, documents and APIs are."""

import pytest

from proxy.agent.grounding.arguments import without_marks
from proxy.agent.tools.result_reading import read_on
from proxy.apis.results import cut_middle, json_text
from proxy.dialects.quoting import Template, quoted_passages
from retrieval.records.documents import Passage

PASSAGES = [
    Passage(f"d{n}", 1, 0, f"Title {n}77", f"{n}88.md", 0.0, (f"{n}99",), 0, 9, f"Text {n}11.", 3) for n in range(1, 5)
]


def numbers(text: str) -> set[str]:
    return set("".join(one if one.isdigit() else " " for one in text).split())


@pytest.mark.parametrize(
    "text",
    [quoted_passages(PASSAGES), Template("Quoted #{tag}:\n{passages}").render(PASSAGES, ["docs"]).partition("\n")[2]],
    ids=["of a search", "injected"],
)
def test_the_marks_of_passages_are_left_out_and_the_texts_stay(text: str) -> None:
    assert numbers(without_marks(text)) == {"111", "211", "311", "411"}


@pytest.mark.parametrize(
    "text",
    [
        "Nothing was sent. These values stand nowhere: id: '7'.",
        "Nothing was done: id 7 is wrong.",
        "→ films/getFilm 200",
        cut_middle("a" * 90, 40),
        json_text([{"a": "b" * 90}] * 90, max_chars=300),
        json_text({f"a{'x' * n}": ["b"] * 9 for n in range(90)}, max_chars=300),
        read_on('{"a": ["x y", "x z", "b"]}', query="x", max_chars=100),
        read_on("x\n" * 90, query="x", max_chars=100),
        read_on("x\n" * 90, start=7, max_chars=30),
        read_on("x", start=7, max_chars=30),
        read_on("x", query="y", max_chars=30),
    ],
)
def test_counts_and_places_of_the_gateway_are_left_out(text: str) -> None:
    assert numbers(without_marks(text)) == set()


@pytest.mark.parametrize(
    "text",
    [
        "[1] Film 7",
        "a\n[2]: https://x.example/7",
        "/films/7: a film",
        '{"id": 7, "more": "… and 5"}',
        "(7 of 9)",
        "→ 7",
    ],
)
def test_other_numbers_stay(text: str) -> None:
    assert without_marks(text) == text
