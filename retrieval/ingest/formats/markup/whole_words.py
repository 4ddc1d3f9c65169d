r"""Words of LaTeX, Org, AsciiDoc and subtitles as a reader sees them.

xberg takes for text what stands inside a word: LaTeX's `\-`, accents and fonts, Org's entities and snippets, AsciiDoc's
attributes, and character references.

Each pattern begins with what stays as written: code, and commands that look alike.
"""

import re
import unicodedata
from functools import partial
from html import unescape
from html.entities import html5

_LETTER = r"[^\W\d_]"
_REFERENCE = r"&(?:\#\d{1,7}|\#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,31}\d{0,2});"

_ACCENTS = {"'": "\u0301", "`": "\u0300", "^": "\u0302", '"': "\u0308", "~": "\u0303", "=": "\u0304", ".": "\u0307"}
_ACCENTS |= {"u": "\u0306", "v": "\u030c", "H": "\u030b", "c": "\u0327", "d": "\u0323", "b": "\u0331"}
_ACCENTS |= {"k": "\u0328", "r": "\u030a"}
_LETTERS = {"ss": "ß", "ae": "æ", "oe": "œ", "aa": "å", "o": "ø", "l": "ł"}
_LETTERS |= {name.upper(): letter.upper() for name, letter in _LETTERS.items() if name != "ss"}
_FONTS = r"em|it|bf|sl|sc|tt|rm|sf|tiny|small|(?i:large|huge)|color|[a-z]{1,20}(?:series|shape|family|size|font)"
_SWITCHES = rf"(?:\\(?:{_FONTS})(?![A-Za-z])(?:\{{[^{{}}]*\}}){{0,2}}\s{{0,9}}){{1,5}}"
_TEX = re.compile(
    rf"""
      \\begin\{{(verbatim\*?|[BVL]?Verbatim|alltt|lstlisting|minted|tabbing|comment)\}}(?:.*?\\end\{{\1\}}|.*)
    | \\(?:verb|lstinline)\*?([^\w\s*{{\[])[^\n]{{0,300}}?\2
    | (?P<gone> \\- | \\/(?!-) | \\(?:allowbreak|nobreak|kern0pt)(?![A-Za-z])[ ]* | \\hspace\*?\{{0pt\}}
        | (?<={_LETTER})\{{\}}(?={_LETTER}) )
    | (?P<reference>{_REFERENCE})
    | \\textcolor(?:\[[^][{{}}]*\])?\{{[^{{}}]*\}}(?P<colored>)
    | \\discretionary\{{[^{{}}]*\}}\{{[^{{}}]*\}}\{{(?P<unbroken>[^{{}}]*)\}}
    | (?P<group>\{{)? \\(?P<accent>['`^"~=.]|[uvHcdbkr](?![A-Za-z]))[ ]*
        (?:\{{[ ]*\\?(?P<inner>[A-Za-z])[ ]*\}}|\\?(?P<next>[ij])(?![A-Za-z])[ ]*|(?P<base>[A-Za-z])) (?(group)\}})
    | (?P<around>\{{)? \\(?P<letter>{"|".join(_LETTERS)})(?![A-Za-z])(?:\{{\}}|[ ]+)? (?(around)\}})
    | (?P<short>(?<={_LETTER})"(?:[-|]|(?P<umlaut>[aouAOUs]))(?={_LETTER}))     # of German by babel
    | (?<={_LETTER})(?P<switch>{_SWITCHES})
    | (?<![\]}}])\{{{_SWITCHES} (?P<text>(?:[^{{}}\\]|\\.|\{{[^{{}}]*\}}){{0,2000}}) \}}
    | \\[A-Za-z]+\*?\{{ | \\.
    """,
    re.VERBOSE | re.DOTALL,
)

_ORG = re.compile(
    rf"""
      ^[ \t]*\#\+begin_(src|example|export|comment)\b(?:.*?^[ \t]*\#\+end_\1|.*) | ^[ \t]*:[ ][^\n]*
    | (?P<break>\u200b)?(?P<sign>[*/_+=~])(?P<marked>{_LETTER}+)(?P=sign)(?(break)\u200b?|\u200b)    # inside a word
    | (?<!\w)([=~])\S(?:[^\n]{{0,300}}?\S)?\5(?!\w)
    | @@(?P<backend>\w+):(?P<snippet>[^\n]{{0,300}}?)@@
    | \\(?P<entity>[A-Za-z]+\d*)(?P<end>\{{\}})?
    | (?<={_LETTER})(?P<hyphen>\\-)(?={_LETTER})
    | (?P<reference>{_REFERENCE})
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE | re.IGNORECASE,
)

# https://docs.asciidoctor.org/asciidoc/latest/attributes/character-replacement-ref/
_ATTRIBUTES = {"zwsp": "\u200b", "wj": "\u2060", "blank": "", "empty": "", "sp": " ", "cpp": "C++", "pp": "++"}
_ATTRIBUTES |= {
    name: html5[f"{name};"] for name in "nbsp shy apos quot lsquo rsquo ldquo rdquo deg plus brvbar".split()
}
_ATTRIBUTES |= {name: html5[f"{name};"] for name in "amp lt gt".split()}
_ATTRIBUTES |= {"startsb": "[", "endsb": "]", "caret": "^", "asterisk": "*", "tilde": "~", "backslash": "\\"}
_ATTRIBUTES |= {"backtick": "`", "two-colons": "::", "two-semicolons": ";;"}
_ASCIIDOC = re.compile(
    rf"""
      ^(-{{4,}}|\.{{4,}}|\+{{4,}}|/{{4,}})[ \t]*\n.{{0,20000}}?^\1[ \t]*$
    | `\+[^\n]{{0,300}}?\+` | \\\{{
    | \{{(?P<attribute>{"|".join(_ATTRIBUTES)})\}}
    | (?P<reference>{_REFERENCE})
    | (?P<mark>``(?!`)|(?:\[[^\]\n]{{0,100}}\])?\#\#(?!\#))(?P<text>[^\n`\#]+)(?:``|\#\#)
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)

_SUBTITLES = re.compile(f"&(?:lt|gt|amp);|(?P<reference>{_REFERENCE})", re.VERBOSE)  # the first would make a tag


def with_whole_words(text: str, ending: str) -> str:
    """Return a text in LaTeX (.tex), Org (.org), AsciiDoc (.adoc) or subtitles without what stands inside words."""
    match ending:
        case ".tex":
            return _TEX.sub(partial(_tex, german="german" in text), text)
        case ".org":
            return _ORG.sub(_org, text)
        case ".adoc" | ".asciidoc":
            return _ASCIIDOC.sub(_asciidoc, text)
    return _SUBTITLES.sub(_referred, text)


def _tex(found: re.Match[str], *, german: bool) -> str:
    if found["accent"]:
        return _accented(found["inner"] or found["next"] or found["base"], found["accent"])
    if found["letter"]:
        return _LETTERS[found["letter"]]
    if found["text"] is not None:
        return _TEX.sub(partial(_tex, german=german), found["text"])
    if found["colored"] is not None:
        return r"\mbox"
    if found["short"] and german:
        vowel = found["umlaut"] or ""
        return "ß" if vowel == "s" else vowel and _accented(vowel, '"')
    if found["unbroken"] is not None:
        return found["unbroken"]
    return "" if found["gone"] or found["switch"] else _referred(found)


def _accented(letter: str, accent: str) -> str:
    return unicodedata.normalize("NFC", letter + _ACCENTS[accent])


def _referred(found: re.Match[str]) -> str:
    """The character of a reference; else what was found."""
    return unescape(found["reference"]) if found["reference"] else found[0]


def _org(found: re.Match[str]) -> str:
    if found["marked"]:
        return found["marked"]
    if found["backend"]:
        return re.sub("<[^<>]*>", "", unescape(found["snippet"])) if found["backend"].lower() == "html" else ""
    if name := found["entity"]:
        char = html5.get(f"{name};", "")
        # \beta in a path is no entity
        return char if char and (found["end"] or unicodedata.name(char[0], "").startswith("LATIN ")) else found[0]
    return "" if found["hyphen"] else _referred(found)


def _asciidoc(found: re.Match[str]) -> str:
    if found["attribute"]:
        return _ATTRIBUTES[found["attribute"]]
    if found["mark"]:
        around = found.string[found.start() - 1 : found.start()] + found.string[found.end() : found.end() + 1]
        code = found["mark"] == "``" and not any(map(str.isalpha, around))
        return f"`{found['text']}`" if code else found["text"]
    return _referred(found)
