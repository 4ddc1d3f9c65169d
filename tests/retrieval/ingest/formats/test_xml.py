"""XML as Markdown: what elements of known kinds mean, and what others look like."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retrieval.errors import Unreadable, UnreadableRights
from retrieval.ingest.load import find, parse
from retrieval.records.documents import Document

BOOK = """<?xml version="1.0"?>
<!DOCTYPE book PUBLIC "-//OASIS//DTD DocBook XML V4.5//EN" "http://127.0.0.1:9/docbook.dtd" [<!ENTITY v "1.2">]>
<book><bookinfo><title>The Crane &v;</title><author>Ada</author></bookinfo>
<chapter id="a"><title>Safety <emphasis>first</emphasis></title>
<para>Wear a <command>helm -x</command> and read on.
<itemizedlist><listitem><para>One</para></listitem><listitem><para>Two</para></listitem></itemizedlist></para>
<section><title>Code</title><programlisting>a = 1
  b &lt; 2</programlisting>
<table><title>Loads</title><tgroup cols="2"><thead><row><entry>t</entry><entry>m</entry></row></thead>
<tbody><row><entry>1</entry><entry>20</entry></row></tbody></tgroup></table></section></chapter></book>"""


def read(text: str | bytes, name: str = "a.xml") -> Document:
    return parse(text.encode() if isinstance(text, str) else text, Path(name), name, 1.0)


def test_docbook_keeps_headings_lists_code_and_tables() -> None:
    document = read(BOOK)
    assert document.title == "The Crane 1.2"
    assert document.format == "markdown"
    assert document.text.startswith(
        "# The Crane 1.2\n\n- author: Ada\n\n## Safety first\n\nWear a `helm -x` and read on."
    )
    assert "\n\n- One\n- Two\n\n### Code\n\n```\na = 1\n  b < 2\n```\n\nLoads\n\n| t | m |\n" in document.text


def test_records_become_a_table_and_long_ones_a_section_each() -> None:
    tools = "<tool id='t1' price='12 kr'><name>Hammer</name></tool><tool><name>Saw</name></tool>"
    assert "| t1 | 12 kr | Hammer |" in read(f"<catalog name='Tools'>{tools}</catalog>").text
    long = "It is broken. " * 20
    posts = read(
        f"<posts><row Id='1' Title='Crane' Body='&lt;p&gt;{long}&lt;/p&gt;'/><row Id='2' Body='{long}'/></posts>"
    )
    assert "## Crane\n" in posts.text
    assert posts.text.count("It is broken.") == 40
    assert "<p>" not in posts.text


def test_a_feed_reads_the_pages_within() -> None:
    page = "&lt;p&gt;A &lt;b&gt;b&lt;/b&gt;"
    items = "".join(f"<item><title>News {n}</title><description>{page}</description></item>" for n in "12")
    text = read(f"<rss><channel><title>Pier</title>{items}</channel></rss>", "a.rss").text
    assert "### News 1\n\nA **b**" in text
    assert text.index("News 1") < text.index("News 2")


def test_attributes_that_hold_text_are_kept() -> None:
    text = read(
        "<site><maker country='Norway' xml:lang='en'>Pier</maker><crane note='Out of order' id='x'/></site>"
    ).text
    assert "maker: Pier; country: Norway" in text
    assert "note: Out of order" in text


@pytest.mark.parametrize(
    "text", ["<a><b></a>", "no XML", "<a>&undefined;</a>", "<a>" * 400 + "x" + "</a>" * 400, "<a>" * 100_000]
)
def test_what_is_not_xml_says_so(text: str) -> None:
    with pytest.raises((Unreadable, RecursionError)):
        read(text)


def test_an_entity_from_outside_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("canary", "utf-8")
    outside = f'<!DOCTYPE a [<!ENTITY x SYSTEM "{(tmp_path / "secret").as_uri()}">]><a><b>Text &x; here.</b></a>'
    with pytest.raises(Unreadable, match="undefined entity"):
        read(outside)


def test_entities_that_grow_end_soon() -> None:
    laughs = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 11))
    started = time.process_time()
    with pytest.raises(Unreadable):
        read(f'<!DOCTYPE a [<!ENTITY a0 "ha">{laughs}]><a>&a10;</a>')
    assert time.process_time() - started < 5


@pytest.mark.parametrize("text", ["<doc><groups>hr</groups><p>x</p></doc>", "<doc groups='hr'><p>x</p></doc>"])
def test_a_root_that_names_groups_closes_the_document(text: str) -> None:
    with pytest.raises(UnreadableRights):
        read(text)


def test_xml_without_text_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "layout.xml").write_text("<view><button width='2' x='y z'/></view>", "utf-8")
    (tmp_path / "doc.xml").write_text("<doc>Text.</doc>", "utf-8")
    found = find([tmp_path], max_bytes=2**20)
    assert [candidate.path.name for candidate in found.candidates] == ["doc.xml"]
    assert found.skipped == {"XML without text": 1}


NAMES = st.sampled_from("para section title item listitem itemizedlist variablelist table row entry x info".split())


@st.composite
def trees(draw: Callable[..., object], depth: int = 0) -> ElementTree.Element:
    element = ElementTree.Element(str(draw(NAMES)))
    element.text = str(draw(st.sampled_from(["", "w "]))) * 3
    for _ in range(int(str(draw(st.integers(0, 0 if depth == 4 else 3))))):
        child = draw(trees(depth + 1))
        assert isinstance(child, ElementTree.Element)
        child.tail = str(draw(st.sampled_from(["", " w "])))
        element.append(child)
    return element


@example(ElementTree.fromstring("<section><section /><section>w <para /></section></section>"))
@example(ElementTree.fromstring("<section><section /><section><para /> w </section></section>"))
@example(ElementTree.fromstring("<section><section><para /> w </section><section>w w</section></section>"))
@given(trees())
def test_no_word_is_lost_or_moved(tree: ElementTree.Element) -> None:
    root = ElementTree.Element("doc")
    root.append(tree)
    count = 0

    def numbered(_match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return f"w{count}w"

    data = re.sub(r"\bw\b", numbered, ElementTree.tostring(root, "unicode"))
    if not count:
        return
    document = read(data)
    found = re.findall(r"w\d+w", document.title + document.text)
    assert sorted(set(found)) == sorted(f"w{n}w" for n in range(1, count + 1)), data
