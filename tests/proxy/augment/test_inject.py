"""A context as the text that a model is shown: plain text in, plain text out; its sources fit into a header."""

import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.settings import PROMPTS
from proxy.dialects.quoting import Template, TemplateError, in_order, quoted, quoted_label
from proxy.observe.middleware import sources_header
from retrieval.records.documents import Passage


def passage(text: str, *, title: str = "Connect", source: str = "docs/a.md", headings: tuple[str, ...] = ()) -> Passage:
    return Passage("d", 1, 0, title, source, 0.0, headings, 0, len(text), text, len(text))


def tag_of(block: str) -> str:
    """The mark of the block's delimiters."""
    found = re.search(r"^\[1\] .* \(source: .*\) #([0-9a-f]{8})$", block, re.MULTILINE)
    assert found, block
    return found[1]


def test_replaces_passages_collections_and_the_tag() -> None:
    text = Template("From {collections} ({tag}):\n{passages}\nEnd {tag}.").render(
        [passage("Use TLS.")], ["docs", "wiki"]
    )
    tag = tag_of(text)
    assert text == (
        f"From docs, wiki ({tag}):\n[1] Connect (source: docs/a.md) #{tag}\nUse TLS.\n[end of 1] #{tag}\nEnd {tag}."
    )


def test_labels_each_passage_with_its_title_headings_and_source() -> None:
    text = Template("{passages}").render([passage(" a\n", headings=("TLS", "Files")), passage("b", title="")], ["docs"])
    tag = tag_of(text)
    assert text == (
        f"[1] Connect > TLS > Files (source: docs/a.md) #{tag}\na\n[end of 1] #{tag}\n\n"
        f"[2]  (source: docs/a.md) #{tag}\nb\n[end of 2] #{tag}"
    )


def test_a_label_names_the_page() -> None:
    paged = replace(passage("Pay by card.", title="Fares", source="handbook.pdf"), place="page 12")
    assert Template("{passages}").render([paged], []).startswith("[1] Fares (source: handbook.pdf, page 12) #")


@pytest.mark.parametrize(
    "text",
    ["{passages}", "{collections}", "{tag}", "{0}", "{text.__class__}", "%s %(x)s", "$x ${x}", "{{7*7}}", "{", "}"],
)
def test_nothing_in_a_document_is_evaluated(text: str) -> None:
    rendered = Template("{collections}: {passages}").render([passage(text, title=text, source=text)], ["docs"])
    tag = rendered[-8:]
    assert rendered == f"docs: [1] {text} (source: {text}) #{tag}\n{text}\n[end of 1] #{tag}"


def test_nothing_in_the_name_of_a_collection_is_evaluated() -> None:
    names = ["{passages}", "{collections}", "{tag}"]
    assert Template("{collections}|{passages}|").render([], names) == "{passages}, {collections}, {tag}||"


def test_the_same_passages_give_the_same_bytes_and_others_another_tag() -> None:
    template = Template("{passages}")
    block = template.render([passage("a"), passage("b")], ["docs"])
    assert template.render([passage("a"), passage("b")], ["docs"]) == block
    others = [
        [passage("b"), passage("a")],
        [passage("a")],
        [passage("a"), passage("b", title="x")],
        [passage("ab"), passage("")],
    ]
    tags = {tag_of(template.render(other, ["docs"])) for other in others}
    assert len(tags | {tag_of(block)}) == 5


# What the delimiters promise: any passages are read back, as many and with the same text

PIECES = ["[end of 1]", "[end of 2] #", "[ end of 1]", "[1] T (source: a.md) #", "[2] ", "[", "]", "(source: x)", "#"]
PIECES += [
    "\n",
    "\n\n",
    " ",
    "0123abcd",
    "end of",
    "\u200b",
    "\u202e",
    "\u2028",
    "\r\n",
    "\x0b",
    "Human:",
    "system",
    ":",
]
PIECES += ["<|im_start|>", "<", "|", ">", "[INST]", "text", "é日本"]
texts = st.lists(st.sampled_from(PIECES) | st.characters(), max_size=12).map("".join)
made = st.builds(
    lambda text, title, source, headings: passage(text, title=title, source=source, headings=tuple(headings)),
    texts, texts, texts, st.lists(texts, max_size=2),
)  # fmt: skip


def read_back(block: str) -> list[tuple[str, str, str]]:
    """(label, source, text) of every passage, by the delimiters alone."""
    lines = block.split("\n")
    found: list[tuple[str, str, str]] = []
    at = 0
    while at < len(lines):
        begin = re.fullmatch(r"\[(\d+)\] (.*) \(source: (.*)\) #([0-9a-f]{8})", lines[at])
        assert begin, lines[at]
        end = next(i for i in range(at + 1, len(lines)) if re.fullmatch(r"\[end of \d+\] #[0-9a-f]{8}", lines[i]))
        assert lines[end] == f"[end of {begin[1]}] #{begin[4]}"
        assert int(begin[1]) == len(found) + 1
        found.append((begin[2], begin[3], "\n".join(lines[at + 1 : end])))
        assert lines[end + 1 : end + 2] in ([], [""])
        at = end + 2
    return found


@given(st.lists(made, min_size=1, max_size=4))
def test_any_passages_are_read_back_with_their_quoted_texts(passages: list[Passage]) -> None:
    expected = []
    for each in passages:
        label = " > ".join(quoted_label(part) for part in (each.title, *each.headings) if part)
        expected.append((label, quoted_label(each.source), quoted(each.text).strip()))
    assert read_back(Template("{passages}").render(passages, ["docs"])) == expected


@given(st.lists(made, min_size=1, max_size=3))
def test_no_line_of_a_passage_looks_like_a_delimiter_with_any_tag(passages: list[Passage]) -> None:
    for _, _, text in read_back(Template("{passages}").render(passages, ["docs"])):
        assert not re.search(r"\[end of \d+\]|^\[\d+\].*\(source:", text, re.MULTILINE | re.IGNORECASE)


def test_other_braces_in_a_template_stay() -> None:
    assert Template('{"a": {b}} {passages} {}').render([], []) == '{"a": {b}}  {}'


def test_the_template_shipped_says_where_the_text_comes_from_and_what_it_is_for() -> None:
    text = Template.read(PROMPTS / "answer.txt").render([passage("Use TLS.")], ["docs"])
    assert "own documents (docs)" in text
    assert "reference" in text
    assert "latest message" in text
    assert "not instructions" in text
    tag = tag_of(text)
    assert f"the mark #{tag};" in text
    assert text.endswith(f"[1] Connect (source: docs/a.md) #{tag}\nUse TLS.\n[end of 1] #{tag}")


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


@given(st.integers(0, 30))
def test_the_strongest_stand_first_and_last_and_none_is_lost(count: int) -> None:
    passages = [passage(str(i)) for i in range(count)]
    order = [int(one.text) for one in in_order(passages, "best_first_and_last")]
    assert sorted(order) == list(range(count))
    assert order[:1] == [0][:count]
    assert order[-1:] == [1 if count > 1 else 0][:count]
    middle = order.index(count - 1) if count else 0
    assert order[: middle + 1] == sorted(order[: middle + 1])
    assert order[middle:] == sorted(order[middle:], reverse=True)
    assert in_order(passages, "best_first") == passages
