"""Words in LaTeX, Org, AsciiDoc and subtitles: what stands inside them ends none, and code stays as written."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.ingest.formats.markup.whole_words import with_whole_words
from retrieval.ingest.load import parse


def read(text: str, ending: str) -> str:
    if ending == ".tex":
        text = f"\\documentclass{{article}}\\begin{{document}}\n{text}\n\\end{{document}}"
    elif ending == ".vtt":
        text = f"WEBVTT\n\n00:00:01.000 --> 00:00:04.000\n{text}\n"
    read = parse(text.encode(), Path("a" + ending), "a" + ending, 0.0).text.strip()
    return re.sub("[\u00ad\u200b\u2060]", "", read)


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        (r"em\-ploy\-ment", "employment"),
        (r"shelf\/ful", "shelfful"),
        (r"shelf{}ful", "shelfful"),
        (r"{\em mill}wright and mill{\bfseries wright}", "millwright and millwright"),
        (r"{\small a \emph{b} {\it c}}d", "a *b* cd"),
        (
            r"mill{\large\bf wright} and {\fontsize{9}{11}\selectfont mill}wright mill\bf wright",
            "millwright and millwright millwright",
        ),
        (r"{\color{red} mill}wright, \textcolor{red}{mill}wright", "millwright, millwright"),
        (r"\textbf{\large Mill}", "**Mill**"),
        (r"lock\discretionary{-}{}{}smith\allowbreak s\hspace{0pt}", "locksmiths"),
        (
            r"caf\'e, \'{E}cole, na{\"\i}ve, \c{c}a, \v skoda, Stra\ss e, {\o}re",
            "café, École, naïve, ça, škoda, Straße, øre",
        ),
        (r"Auto\-bahn of german M\"uller: Auto" + '"-bahn, Stra"se', "Autobahn of german Müller: Autobahn, Straße"),
        ('the "lock"-smith', 'the "lock"-smith'),
        (r"em&shy;ploy&#173;ment", "employment"),
        (r"\verb|em\-ploy|", r"`em\-ploy`"),
        (r"\begin{verbatim}" "\n" r"em\-ploy {\em x}" "\n" r"\end{verbatim}", "```\nem\\-ploy {\\em x}\n```"),
        (r"a\_b \{x\} \$5 \LaTeX{}", "a_b {x} $5"),
        (r"a \\- b", "a - b"),
    ],
)
def test_latex(written: str, seen: str) -> None:
    assert " ".join(read(written, ".tex").split()) == " ".join(seen.split())


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        (r"em\shy{}ploy\-ment", "employment"),
        ("em@@html:&shy;@@ploy@@latex:\\-@@ment", "employment"),
        ("lock@@html:<b>@@smith@@html:</b>@@", "locksmith"),
        (r"Stra\szlig{}e, caf\eacute, \Delta{}t", "Straße, café, Δt"),
        ("em&shy;ploy&#173;ment", "employment"),
        (
            "*lock*\u200bsmith lock\u200b/smith/\u200bs =lock=\u200bsmith =lock=",
            "locksmith locksmiths locksmith `lock`",
        ),
        (r"C:\beta\nu", r"C:\\beta\\nu"),
        (r"=em\shy{}ploy= ~a@@html:b@@~", r"`em\shy{}ploy` `a@@html:b@@`"),
        ("#+BEGIN_SRC c\nem\\shy{} &amp;\n#+END_SRC", "```c\nem\\shy{} &amp;\n```"),
    ],
)
def test_org(written: str, seen: str) -> None:
    assert read(written, ".org") == seen


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("em{shy}ploy{zwsp}ment{wj}s a{nbsp}b", "employments a\u00a0b"),
        ("C{plus}{plus}, {cpp}, don{rsquo}t", "C++, C++, don’t"),
        ("em&shy;ploy&#173;ment&#8203;s&#xAD;", "employments"),
        ("caf&eacute; &amp; bar", "café & bar"),
        ("``lock``smith, lock##smith##, ``code``", "locksmith, locksmith, `code`"),
        ("{name} of {undefined}", "{name} of {undefined}"),
        ("`+em{shy}ploy+`", "`+em{shy}ploy+`"),
        ("----\nem{shy}ploy &#173;\n----\n\nem{shy}ploy", "```\nem{shy}ploy &#173;\n```\n\nemploy"),
        ("|===\n|a{shy}b |c\n|e&#173;f |g\n|===", "| ab | c |\n| --- | --- |\n| ef | g |"),
    ],
)
def test_asciidoc(written: str, seen: str) -> None:
    assert read(written, ".adoc") == seen


def test_subtitles() -> None:
    assert read("em&shy;ploy &eacute; &lt;b&gt; &amp;", ".vtt") == r"employ é \<b\> &"


SIGNS = [
    "ab",
    "é",
    " ",
    "\n",
    *r"\-|\/|{\em |}|{|\verb!|!|\begin{verbatim}|\end{verbatim}|\ss|@@html:|@@|=|~".split("|"),
]
SIGNS += ["#+begin_src", "#+end_src", "\\shy{}", "{shy}", "&shy;", "&#173;", "----\n", "``", "##", "`+", '"-']


@given(st.lists(st.sampled_from(SIGNS), max_size=30).map("".join), st.sampled_from([".tex", ".org", ".adoc", ".srt"]))
def test_no_letter_is_lost(text: str, ending: str) -> None:
    assert with_whole_words(text, ending).count("ab") == text.count("ab")


@pytest.mark.parametrize(
    ("unit", "ending"),
    [
        *((unit, ".tex") for unit in ("\\begin{verbatim}", "{\\em a", "{\\em {x}", "\\verb|a ", "\\'{ ")),
        *((unit, ".org") for unit in ("=a ", "~a =", "#+begin_src\n", "@@html:")),
        *((unit, ".adoc") for unit in ("----\nx\n", "``a ", "`+a ", "[a", "##")),
    ],
)
@pytest.mark.timeout(20)
def test_hostile_runs_take_no_more_than_their_length(unit: str, ending: str) -> None:
    text = unit * (300_000 // len(unit))
    assert len(with_whole_words(text, ending)) <= len(text)
