"""What a text says, in words that can be compared: without markup, punctuation around words, and lines around the text.

Signs that change a word stay: -5, <5, c++, [ ].
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise

from retrieval.lexical.terms import HAN, KANA, visible
from retrieval.records.documents import Passage

# Link text, and path. Possessive: an address without an end takes linear time.
_LINK = re.compile(r"\[([^\[\]\n]*)\]\((?:[a-z]{1,9}+:)?+(?://[^()\s/]*+)?+([^()\s]*+)[^()\n]*+\)")
_LINE_START = re.compile(r"\s*(?:(?:[-*•·]|>(?!\s*\d)|#{1,6})(?:\s+|$))*")  # "+" and "> 5" say something
_RULE = re.compile(r"[-:=_*~+]{2,}")
_EMPTY_CELL = re.compile(r"\|(?=\s*\|)")
_LENGTH = re.compile(r"[\d.,/]+['\"]")  # feet and inches
_CASED = re.compile(r"((?<=\d)\s?[a-zA-Zµμ]{1,2}\b|(?<=[\s`]-)[a-zA-Z]\b)")  # mW is not MW, and -f is not -F
_RAISED = str.maketrans({raised: f"^{digit}" for digit, raised in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")})  # 10⁵ is not 105
_SAME_SIGNS = str.maketrans("‐‑‒–—−’‘ʼ|", "------''' ")
_AROUND = "([{\"'`*_“”„«»·•"  # signs before a word that say nothing: not "-5", ".5", "<5", "~5"
_AFTER = _AROUND + ")]}.,;:!?。、،؛؟।"
# What one text has as Markdown and not as PDF or Word file: languages of code, targets of links without a number,
# markup within words, and hyphens at line ends.
_FENCE = re.compile(r"^[ \t]*(?:```+|~~~+).*$", re.MULTILINE)
_TARGET = re.compile(r"(\[[^\[\]\n]*\])\([^()\d\n]*\)")
_MARKUP = str.maketrans("", "", "`*\\")
_HYPHEN = re.compile(r"(?<=[^\W\d_])-(?=[^\W\d_])")
_INSIDE_HAN = re.compile(rf"(?<=[{HAN}{KANA}])\s+(?=[{HAN}{KANA}])")

# Words around a page's text, in the most common languages.
_NAVIGATION = frozenset(
    """about back contact content cookie cookies docs documentation edit faq footer header help home imprint index legal
    log login logout in main menu navigation next of on out page policy previous print privacy register search share
    sign sitemap skip start table terms the this to toggle top up us use view
    startseite menü suche anmelden abmelden kontakt impressum datenschutz zurück weiter nach oben zum inhalt drucken
    seite teilen hilfe über uns springen
    accueil recherche connexion retour suivant précédent imprimer partager aide haut plan du site mentions légales
    inicio buscar contacto volver siguiente anterior imprimir compartir ayuda
    首页 联系我们 搜索 登录 返回 返回顶部 打印 下一页 上一页""".split()
)
_STAMP = re.compile(
    r"\W{0,9}(?:printed|print date|date of print|last (?:updated|modified|reviewed|changed|edited)|updated|retrieved"
    r"|accessed|downloaded|exported|generated|crawled|archived|gedruckt|druckdatum|ausdruck vom|stand"
    r"|abgerufen|zuletzt (?:aktualisiert|geändert)|letzte änderung|imprimé|consulté"
    r"|dernière (?:mise à jour|modification)"
    r"|impreso|consultado|última (?:actualización|modificación)|stampato|ultimo aggiornamento|afgedrukt"
    r"|打印(?:日期|时间)?|更新(?:日期|时间)?|印刷日?)(?!\w)\W*"
    r"(?:(?:on|at|am|vom|le|el|il|op)\W+)?(.*)"
)
_COPYRIGHT = re.compile(
    r"\W{0,9}(?:copyright|©|\(c\))(?:\W|copyright|\(c\)){0,9}(?:19|20)\d\d\b\D{0,90}(?:(?:19|20)\d\d\b\D{0,90})?"
)
# A date (its month may be a word), and perhaps a time and a name: not "2023: 110 crowns".
_YEAR, _MONTH = r"(?:19|20)\d\d", r"[^\W\d]{3,12}\.?"
_DATE = re.compile(
    rf"(?:{_MONTH},? )?(?:{_YEAR}(?:[./-]\d\d?[./-]\d\d?)?|\d\d?[./-]\d\d?[./-](?:\d\d){{1,2}}|\d\d?/{_YEAR}"
    rf"|\d\d?(?:st|nd|rd|th|\.)?(?: de)? {_MONTH},?(?: de)? {_YEAR}|{_MONTH} \d\d?,? {_YEAR}|{_YEAR}年\d\d?月\d\d?日)"
    r"(?:[t, ]{1,2}(?:at |um |à )?\d\d?:\d\d(?::\d\d)?(?: ?[ap]m)?(?: ?(?:uhr|utc|gmt|z))?)?"
    r"(?: (?:by|von|par|por) [^\d:]{0,60})?\W{0,9}",
    re.IGNORECASE,
)
_PAGE_NUMBER = re.compile(r"\W*(?:page|seite|página|pagina|p\.)\s*\d+(?:\s*(?:of|von|de|sur|di|/)\s*\d+)?\W*")
_SENTENCE_END = ".!?。！？؟।"
_AFTER_SENTENCE = "\"'”»)*_ \t\r"
_PROSE = re.compile(r":|[.!?]$")
_BETWEEN_ITEMS = re.compile(r"\s[|·•]\s|\]\([^()]*\)")


Lines = Sequence[tuple[str, list[str]]]  # each line with its words


def said_words(text: str) -> list[str]:
    """A text's comparable words."""
    return [word for _, words in _said_lines(text) for word in words]


def _said_lines(text: str) -> Lines:
    """A text's lines that have words, in lower case, each with its comparable words."""
    return [(line, words) for line in _comparable(text).split("\n") if (words := _words(line))]


def _run_of(words: Iterable[str]) -> str:
    """These words as one line; a line end within Chinese or Japanese text separates no words."""
    return _INSIDE_HAN.sub("", " ".join(words))


def fingerprint(title: str, text: str) -> int:
    """A hash (63 bits) of all pairs of adjacent words: equal for documents that say the same.

    Markup, hyphens, targets of links and the order of blocks may differ, as in a PDF and a Word file of one text. Any
    other word, number or sign makes another text.

    title: "" if it is but the file's name.
    """
    lines = _said_lines(_FENCE.sub("", _TARGET.sub(r"\1", text)))
    around = _lines_around(lines)
    kept = (word for number, (_, words) in enumerate(lines) if number not in around for word in words)
    plain = (_HYPHEN.sub("", word.translate(_MARKUP)) for word in _run_of(kept).split())
    words = [word for word in plain if word]
    pairs = {f"{first} {second}" for first, second in pairwise(["", *words, ""])}
    pairs.update({f"{word} in title" for word in said_words(title)} - {f"{word} in title" for word in words})
    return int.from_bytes(blake2b("\n".join(sorted(pairs)).encode(), digest_size=8).digest()) >> 1


# --- copies of a passage ----------------------------------------------------------------------------------------------


_COPY_NAMES = frozenset({"copy", "mirror", "kopie", "copie", "copia"})  # an untitled text goes by its file name
_SHOWN = 0.5  # of a passage's pairs of words: with more, the rest stands beside the passages that are shown


@dataclass(frozen=True, slots=True)
class Said:
    """What a passage says, in comparable words."""

    label: Sequence[str]  # of title and headings
    text: str
    lines: str  # these words, each line between line feeds
    menus: Sequence[frozenset[str]]  # words of each line of links or names around it
    words: frozenset[str]  # all words, also of the source and of lines around the text


def is_copy(passage: Passage, others: Iterable[Passage], question: str) -> bool:
    """Whether a passage adds nothing to one of the others. A word of the question always adds something."""
    asked, said = _asked(question), said_in(passage)
    return any(repeats(said, said_in(other), asked) for other in others)


def is_shown(passage: Passage, others: Sequence[Passage], question: str) -> bool:
    """Whether the others, of documents that say the same as its own, show a passage's text together.

    Passages of two documents may begin and end at other places.
    """
    pairs, shown = _pairs(passage), set[tuple[str, str]]().union(*map(_pairs, others))
    if len(pairs & shown) <= _SHOWN * len(pairs):
        return False
    return not (_asked(question) & said_in(passage).words) - frozenset().union(*(said_in(one).words for one in others))


def _pairs(passage: Passage) -> set[tuple[str, str]]:
    """A passage's pairs of adjacent words."""
    return set(pairwise(["", *said_words(passage.text), ""]))


@lru_cache(maxsize=16)
def _asked(question: str) -> frozenset[str]:
    return frozenset(said_words(question))


def said_label(passage: Passage) -> tuple[str, ...]:
    """The comparable words of a passage's title and headings; passages that differ in them are no copies."""
    parts = (passage.title, *passage.headings)
    return tuple([word for part in parts for word in _label_words(part) if word not in _COPY_NAMES])


@lru_cache(maxsize=8192)  # chunks share titles and headings
def _label_words(part: str) -> Sequence[str]:
    return said_words(part)


@lru_cache(maxsize=256)  # it is compared with several passages
def said_in(passage: Passage) -> Said:
    label = [word for part in (passage.title, *passage.headings) for word in _label_words(part)]
    lines = _said_lines(passage.text)
    around = _lines_around(lines)
    text = [" ".join(words) for number, (_, words) in enumerate(lines) if number not in around]
    menus = [frozenset(lines[number][1]) for number in around if len(_BETWEEN_ITEMS.findall(lines[number][0])) > 1]
    all_words = {word for _, words in lines for word in words}.union(
        label, said_words(passage.source.replace("/", " "))
    )
    return Said(
        said_label(passage),
        _run_of(text),
        "\n".join(["", *text, ""]),
        menus,
        frozenset(all_words),
    )


def repeats(later: Said, earlier: Said, asked: frozenset[str]) -> bool:
    """Whether the later passage adds nothing to the earlier one. asked: the question's words."""
    if later.label != earlier.label or not (later.text == earlier.text or later.lines in earlier.lines):
        return False
    if (later.words & asked) - earlier.words:
        return False
    return not any(_are_versions(menu, other) for menu in later.menus for other in earlier.menus)


def _are_versions(menu: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two lines are one template with different names, as in two paths through one site."""
    return menu != other and 2 * len(menu & other) >= max(len(menu), len(other))


# --- words and lines --------------------------------------------------------------------------------------------------


def _comparable(text: str) -> str:
    if not text.isascii():
        text = visible(text.translate(_RAISED)).translate(_SAME_SIGNS)
    return "".join(part if number % 2 else part.casefold() for number, part in enumerate(_CASED.split(text)))


def _words(line: str) -> list[str]:
    """A line's words, with signs that change a word: -5, <5, c++, [ ]."""
    if "](" in line:
        line = _LINK.sub(_linked, line)
    if line.lstrip().startswith("|"):
        line = _EMPTY_CELL.sub("| ∅ ", line)  # an x in another column
    line = line[_LINE_START.match(line).end() :].replace("[ ]", "☐").replace("|", " ")  # type: ignore[union-attr]
    written = line.split()
    pieces = [piece if _LENGTH.fullmatch(piece) else piece.lstrip(_AROUND).rstrip(_AFTER) for piece in written]
    return [piece for piece in pieces if piece] if not all(map(_RULE.fullmatch, written)) else []


def _linked(link: re.Match[str]) -> str:
    """A link's text, the end of its target, and path segments with a number: a year, a version."""
    *path, end = link[2].split("/")
    return " ".join([link[1], *(part for part in path if any(map(str.isdigit, part))), end])


def _lines_around(lines: Lines) -> Collection[int]:
    """Line numbers around the text: from both ends, also below a first heading.

    After a line that does not end a sentence, apparent navigation may be a list in the text: "The guest may: view,
    print".
    """
    found: set[int] = set()
    for numbers in (range(len(lines)), range(len(lines) - 1, -1, -1)):
        menus: set[int] = set()
        for number in numbers:
            line, words = lines[number]
            if _is_stamp(line):
                found.add(number)
            elif _is_navigation(line, words):
                menus.add(number)
            elif not line.startswith("# "):
                if numbers.step < 0 and line.rstrip(_AFTER_SENTENCE)[-1:] not in _SENTENCE_END:
                    menus.clear()
                break
        found |= menus
    return found if len(found) < len(lines) else ()


def _is_stamp(line: str) -> bool:
    """Whether a line is a page number, a print date or a copyright."""
    stamp = _STAMP.fullmatch(line)
    return bool((stamp and _DATE.fullmatch(stamp[1])) or _PAGE_NUMBER.fullmatch(line) or _COPYRIGHT.fullmatch(line))


def _is_navigation(line: str, words: Sequence[str]) -> bool:
    """Whether a line has only navigation words or items."""
    if _NAVIGATION.issuperset(words):
        return True
    items = _LINK.sub(r"\1", line)
    is_menu = len(_BETWEEN_ITEMS.findall(line)) > 1 and not line.lstrip().startswith("|") and not _PROSE.search(items)
    return is_menu and not any(any(map(str.isdigit, word)) for word in words)
