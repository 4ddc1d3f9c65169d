"""Pages of HTML: what people read is not lost, words stay apart, and tables and code keep their form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.ingest.formats.webpage import to_markdown
from tests.support.rows import all_rows


def main(content: str) -> str:
    return to_markdown(f"<html><head><title>P</title></head><body><main><h1>T</h1>{content}</main></body></html>")[1]


@all_rows(
    ("content", "text"),
    [
        ("<h2><button>Q?</button></h2><p>A.</p>", "## Q?\n\nA."),
        ("<button aria-expanded='false'>Q?</button><div>A.</div>", "## Q?\n\nA."),
        ("<h3>S</h3><button aria-expanded='true'>Q?</button><div>A.</div>", "### S\n\n#### Q?\n\nA."),
        ("<p>A.</p><button>Copy</button>", "A."),
        ("<div role='heading' aria-level='3'>H</div><p>A.</p>", "### H\n\nA."),
        ("<section><header><h2>H</h2><p>By hand.</p></header><p>A.</p></section>", "## H\n\nBy hand.\n\nA."),
        ("<aside class='caution'><p>Never lift.</p></aside><p>A.</p>", "> Never lift.\n\nA."),
        ("<aside><ul><li><a href='/b'>Other</a></ul></aside><p>A.</p>", "A."),
        ("<blockquote><p>Q.</p><footer>Ada</footer></blockquote>", "> Q.\n>\n> Ada"),
        ("<article><p>A.</p><footer>Written by hand.</footer></article>", "A.\n\nWritten by hand."),
        ("<div><template shadowrootmode='open'><p>A.</p></template></div>", "A."),
        ("<template><p>unused</p></template><p>A.</p>", "A."),
        ("<a href='mailto:a@b.example?subject=x'>Write</a>", "Write (a@b.example)"),
        ("<a href='mailto:a@b.example'>a@b.example</a>", "a@b.example"),
        ("<a href='tel:+47%20555'>call</a> or <a href='tel:+47555'>+47 555</a>", "call (+47 555) or +47 555"),
        ("<details><summary>Q?</summary>A.</details><details>B.</details>", "## Q?\n\nA.\n\nB."),
        ("<fieldset><legend>L</legend><label>M</label><output>O</output></fieldset>", "L\n\nM\n\nO"),
        ("<address>Quay 4</address><dialog open>Open</dialog>", "Quay 4\n\nOpen"),
        ("<b>lock</b>smith, <b>two</b> words, H<i>x</i>", "locksmith, **two** words, Hx"),
        ("<x-tab>One</x-tab><x-tab>Two</x-tab>", "One Two"),
        ("10<sup>5</sup> m<sup>-2</sup>, 110<sup><a href='#1'>1</a></sup>", "10^5 m^-2, 110^1"),
        ("H<sub>2</sub>O, 1<sup>st</sup>, A<sup>[1]</sup>", "H2O, 1st, A[1]"),
        ("<ul><li><input type='checkbox' checked> A</li><li><input type=checkbox>B</li></ul>", "- [x] A\n- [ ] B"),
        ("<ul><li><label><input type='checkbox' disabled><span></span></label> A</li></ul>", "- [ ] A"),
        ("<ul><li><div class='checkbox checkbox-on'></div> <span>A</span></li></ul>", "- [x] A"),
        ("<form><input type='checkbox'><label>Remember</label></form>", "Remember"),
        ("<ol start='3'><li>A</li><li value='7'>B</li><li>C</li></ol>", "3. A\n7. B\n8. C"),
        ("<ol reversed><li>A</li><li>B</li></ol>", "2. A\n1. B"),
        ("<pre><span>a</span><br><span>b</span><br></pre>", "```\na\nb\n```"),
        ("<pre><span class='ln'>1</span>ls\n<span class='linenos'>2</span>cd</pre>", "```\nls\ncd\n```"),
        ("<pre><ol><li>a:</li><li>  b</li></ol></pre>", "```\na:\n  b\n```"),
        ("<pre><ol><li>a:</li>\n<li>  b</li>\n</ol></pre>", "```\na:\n  b\n```"),
        ("<div class='CodeMirror-linenumber'>1</div><pre>ls</pre>", "```\nls\n```"),
        ("<p>Bus <span class='line-number'>5</span> to <span class='number'>7</span>.</p>", "Bus 5 to 7."),
        (
            "<math><mi>E=mc2</mi><annotation encoding='application/x-tex'>E=mc^2</annotation></math>"
            "<span class='katex-html' aria-hidden='true'>E=mc2</span>",
            "E=mc^2",
        ),
        ("<p># systemctl stop pump</p><p>#tag</p>", "\\# systemctl stop pump\n\n#tag"),
        ("<pre>a\n```\nb\n```\n</pre>", "````\na\n```\nb\n```\n````"),
        (
            "<table class='highlighttable'><tr><td><pre>1\n2</pre></td><td><pre>a(\n  b)</pre></td></tr></table>",
            "```\na(\n  b)\n```",
        ),
        (
            "<table class='hljs-ln'><tr><td>1</td><td>a:</td></tr><tr><td>2</td><td>  b</td></tr></table>",
            "```\na:\n  b\n```",
        ),
        ("<table><tr><th>C</th></tr><tr><td><pre>ls</pre></td></tr></table>", "| C |\n| --- |\n| `ls` |"),
    ],
)  # fmt: skip
def test_what_people_read_is_in_the_text(content: str, text: str) -> None:
    assert main(content) == f"# T\n\n{text}"


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        (
            "<tr><th>A<th>B<th>C<tr><td rowspan=2>a<td>b<td>c<tr><td>d<td>e<tr><td>f<td>g<td>h",
            ["A B C", "- - -", "a b c", "a d e", "f g h"],
        ),
        ("<tr><th>A<th>B<th>C<tr><td>a<td>b<td rowspan=2>c<tr><td>d<td>e", ["A B C", "- - -", "a b c", "d e c"]),
        ("<tr><th rowspan=2>A<th colspan=2>B<tr><th>C<th>D<tr><td>a<td>b<td>c", ["A B ", "- - -", "A C D", "a b c"]),
        ("<tr><th>A<th>B<tr><td rowspan=0>a<td>b<tr><td>c<tr><td>d", ["A B", "- -", "a b", "a c", "a d"]),
        (
            "<thead><tr><th>A<th>B<tfoot><tr><td>sum<td>9<tbody><tr><td>a<td>4<tr><td>b<td>5",
            ["A B", "- -", "a 4", "b 5", "sum 9"],
        ),
        (
            "<thead><tr><th>A<th>B<tbody><tr><td rowspan=0>a<td>4<tr><td>5<tbody><tr><td>b<td>6",
            ["A B", "- -", "a 4", "a 5", "b 6"],
        ),
    ],
)
def test_cells_stand_under_their_columns(table: str, rows: list[str]) -> None:
    lines = main(f"<table>{table}</table>").split("\n")[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert [" ".join(row).replace("---", "-") for row in cells] == rows


def test_a_bar_in_a_cell_makes_no_column() -> None:
    assert main("<table><tr><th>A<th>B<tr><td>x|y<td>z</table>").endswith("| x\\|y | z |")


def test_a_table_in_a_cell_is_text() -> None:
    table = "<table><tr><th>A<th>B<tr><td>a<td><table><tr><td>1<td>2<tr><td>3<td>4</table></table>"
    assert main(table).endswith("| A | B |\n| --- | --- |\n| a | 1, 2; 3, 4 |")


def test_a_table_that_only_places_tables_is_none() -> None:
    table = "<table><tr><td>left<td><table><tr><th>A<tr><td>a</table></table>"
    assert main(table).endswith("left\n\n| A |\n| --- |\n| a |")


@pytest.mark.parametrize(
    "begin", ['<?xml version="1.0"?>\n<html>', '<!DOCTYPE html>\n<html lang="en" xmlns="http://www.w3.org/1999/xhtml">']
)
@pytest.mark.parametrize("part", ["<script src='a.js'/>", "<style/>"])
def test_a_script_that_closes_itself_in_xhtml_ends(begin: str, part: str) -> None:
    assert to_markdown(f"{begin}<body><p>a</p>{part}<p>b</p></body></html>")[1] == "a\n\nb"
    assert to_markdown(f"<html><body><p>a</p>{part}<p>b</p></body></html>")[1] == "a"  # as browsers read HTML


_NAMES = (
    "address aside blockquote details div dl dt dd dialog fieldset figure figcaption footer form header label legend"
)
_BLOCKS = [*_NAMES.split(), "li", "ol", "output", "p", "section", "summary", "td", "th", "tr", "table", "ul", "h2"]


@given(st.lists(st.sampled_from(_BLOCKS), min_size=1, max_size=8))
def test_no_word_is_lost_and_no_two_words_run_together(names: list[str]) -> None:
    content = "".join(f"<{name}>word{i}</{name}>" for i, name in enumerate(names))
    words = main(content).replace("|", " ").split()
    assert [f"word{i}" for i in range(len(names))] == [word for word in words if word.startswith("word")]


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 3)), min_size=1, max_size=4), min_size=1, max_size=6)
)
def test_spans_of_any_kind_lose_no_cell(spans: list[list[tuple[int, int]]]) -> None:
    rows = [
        "".join(f"<td rowspan={down} colspan={across}>c{i}x{j}</td>" for j, (down, across) in enumerate(row))
        for i, row in enumerate(spans)
    ]
    text = main("<table>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>")
    assert all(f"c{i}x{j}" in text for i, row in enumerate(spans) for j in range(len(row)))


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        ("<div class='navheader'><table><tr><td><a href='/b'>Next</a></table></div>", ""),
        ("<ul id='menu'><li>Soup with bread</ul>", "- Soup with bread\n\n"),  # no links
        ("<div class='toc'><p><a href='/b'>All the pages of this site</a></p></div>", "All the pages of this site\n\n"),
    ],
)
def test_links_around_the_text_are_left_out(frame: str, text: str) -> None:
    assert to_markdown(f"<html><body>{frame}<p>A text of some words.</p></body></html>")[1] == (
        f"{text}A text of some words."
    )
