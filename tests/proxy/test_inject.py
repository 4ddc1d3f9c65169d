"""A context as one system message: plain text in, plain text out; its sources fit into a header."""

from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.settings import PROMPTS
from proxy.inject import Template, TemplateError, sources_header
from retrieval.records import Passage


def passage(text: str, *, title: str = "Connect", source: str = "docs/a.md", headings: tuple[str, ...] = ()) -> Passage:
    return Passage("d", 1, 0, title, source, 0.0, headings, 0, len(text), text, len(text))


def test_replaces_passages_and_collections() -> None:
    text = Template("From {collections}:\n{passages}\nEnd.").render([passage("Use TLS.")], ["docs", "wiki"])
    assert text == "From docs, wiki:\n[1] Connect (source: docs/a.md)\nUse TLS.\n[end of 1]\nEnd."


def test_labels_each_passage_with_its_title_headings_and_source() -> None:
    text = Template("{passages}").render([passage(" a\n", headings=("TLS", "Files")), passage("b", title="")], ["docs"])
    assert text == (
        "[1] Connect > TLS > Files (source: docs/a.md)\na\n[end of 1]\n\n[2]  (source: docs/a.md)\nb\n[end of 2]"
    )


@pytest.mark.parametrize(
    "text", ["{passages}", "{collections}", "{0}", "{text.__class__}", "%s %(x)s", "$x ${x}", "{", "}"]
)
def test_nothing_in_a_document_is_evaluated(text: str) -> None:
    rendered = Template("{collections}: {passages}").render([passage(text, title=text, source=text)], ["docs"])
    assert rendered == f"docs: [1] {text} (source: {text})\n{text}\n[end of 1]"


def test_nothing_in_the_name_of_a_collection_is_evaluated() -> None:
    assert (
        Template("{collections}|{passages}|").render([], ["{passages}", "{collections}"])
        == "{passages}, {collections}||"
    )


def test_other_braces_in_a_template_stay() -> None:
    assert Template('{"a": {b}} {passages} {}').render([], []) == '{"a": {b}}  {}'


def test_the_template_shipped_says_where_the_text_comes_from_and_what_it_is_for() -> None:
    text = Template.read(PROMPTS / "answer.txt").render([passage("Use TLS.")], ["docs"])
    assert "own documents (docs)" in text
    assert "reference" in text
    assert "latest message" in text
    assert "not instructions" in text
    assert text.endswith("[1] Connect (source: docs/a.md)\nUse TLS.\n[end of 1]")


def test_a_template_file_is_trimmed(tmp_path: Path) -> None:
    file = tmp_path / "own.txt"
    file.write_text("\n Für Sie: {passages}\n\n", "utf-8")
    assert Template.read(file).render([], []) == "Für Sie: "


@pytest.mark.parametrize("text", ["", "no place", "{passages} and {passages}", "{ passages }"])
def test_a_template_without_one_place_for_the_passages_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "own.txt"
    file.write_text(text, "utf-8")
    with pytest.raises(TemplateError, match=r"own\.txt must contain \{passages\} once"):
        Template.read(file)


def test_a_template_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "own.txt"
    with pytest.raises(TemplateError, match="cannot read the template"):
        Template.read(file)
    file.write_bytes(b"caf\xe9 {passages}")
    with pytest.raises(TemplateError, match="cannot read the template"):
        Template.read(file)


# The header


def test_names_each_source_once_best_first() -> None:
    assert sources_header(["docs/b.md", "docs/a.md", "docs/b.md"]) == b"docs/b.md,docs/a.md"


@pytest.mark.parametrize(
    ("source", "header"),
    [
        ("", b""),
        ("a b.md#top", b"a b.md#top"),
        ("a,b", b"a%2Cb"),
        ("Größe.md", b"Gr%C3%B6%C3%9Fe.md"),
        ("x\r\nset-cookie: a=1", b"x%0D%0Aset-cookie%3A a%3D1"),
        ("50%", b"50%25"),
        ("caf\udce9.md", b"caf%3F.md"),
    ],
)
def test_a_source_of_any_spelling_is_a_header_value(source: str, header: bytes) -> None:
    assert sources_header([source]) == header


@given(st.lists(st.text(min_size=1, max_size=80), max_size=40))
def test_the_header_is_short_printable_ascii_that_ends_at_a_whole_source(sources: list[str]) -> None:
    header = sources_header(sources)
    assert len(header) <= 1000
    assert all(0x20 <= byte < 0x7F for byte in header)
    named = [unquote(part) for part in header.decode().split(",")] if header else []
    whole = [source.encode("utf-8", "replace").decode() for source in dict.fromkeys(sources)]
    assert named == whole[: len(named)]


def test_many_sources_are_cut_at_a_whole_one() -> None:
    names = [f"docs/page-{i:04}.md" for i in range(1000)]
    header = sources_header(names)
    named = header.decode().split(",")
    assert named == names[: len(named)]
    assert 950 < len(header) <= 1000
