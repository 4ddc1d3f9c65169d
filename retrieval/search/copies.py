"""Whether a passage only repeats another passage.

Texts that share nearly all words are not copies: the rules of two years, the sheets of two models and a form that two
people filled in differ in exactly the fact that somebody asks for. So a copy says the same words in the same order
under the same title and headings, and each word that differs makes another text: a number, a unit, a name, a "not". A
model that reads one of six versions takes the version for the only one; a copy too many costs a few hundred tokens.

Only differences that say nothing do not count: blanks, line ends, case, markup, punctuation around words, invisible
characters, hosts of links, and lines at the edges that belong to a web page or a printer (navigation, date of print). A
word of the question always counts, there and in the path of a file.
"""

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from retrieval.lexical.terms import HAN, KANA, visible
from retrieval.records.documents import Passage

_LINK = re.compile(r"\[([^\[\]\n]*)\]\((?:[^()\s]*/)?([^()\s]*)[^()\n]*\)")  # the text, and the end of the target
_LINE_START = re.compile(r"\s*(?:(?:[-*+•·>]|#{1,6})(?:\s+|$))*")
_RULE = re.compile(r"[-:=_*~+]{2,}")
_SAME_SIGNS = str.maketrans("‐‑‒–—−’‘ʼ|", "------''' ")
_AROUND = "([{\"'`*_~“”„«»·•"  # the signs before a word that say nothing: not "-5", ".5", "<5", "#5"
_AFTER = _AROUND + ")]}.,;:!?。、،؛؟।"
_INSIDE_HAN = re.compile(rf"(?<=[{HAN}{KANA}])\s+(?=[{HAN}{KANA}])")

# The words of lines around the text of a page, in the languages of most pages.
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
    r"\W*(?:printed|print date|date of print|last (?:updated|modified|reviewed|changed|edited)|updated|retrieved"
    r"|accessed|downloaded|exported|generated|crawled|archived|copyright|©|gedruckt|druckdatum|ausdruck vom|stand"
    r"|abgerufen|zuletzt (?:aktualisiert|geändert)|letzte änderung|imprimé|consulté"
    r"|dernière (?:mise à jour|modification)"
    r"|impreso|consultado|última (?:actualización|modificación)|stampato|ultimo aggiornamento|afgedrukt|打印|更新|印刷)"
)
_DATE = re.compile(r"(?:19|20)\d\d|\d[./-]\d|\d:\d\d")
_STAMP_WORDS = 10  # a longer line says more than a date
_PAGE_NUMBER = re.compile(r"\W*(?:page|seite|página|pagina|p\.)\s*\d+(?:\s*(?:of|von|de|sur|di|/)\s*\d+)?\W*")
_BETWEEN_ITEMS = re.compile(r"\s[|·•]\s|\]\([^()]*\)")
_COPY_NAMES = frozenset({"copy", "mirror", "kopie", "copie", "copia"})  # a file without a title is named by its file


@dataclass(frozen=True, slots=True)
class Said:
    """What a passage says, in comparable words."""

    label: Sequence[str]  # of the title and the headings
    text: str
    lines: str  # the same words, each line between line feeds
    menus: Sequence[frozenset[str]]  # the words of each line of links or names around the text
    words: frozenset[str]  # all words, also of the source and of the lines around the text


def said_in(passage: Passage) -> Said:
    """What this passage says."""
    label = [word for part in (passage.title, *passage.headings) for word in said_words(part)]
    lines = [(line, words) for line in _comparable(passage.text).split("\n") if (words := _words(line))]
    around = _around(lines)
    text = [" ".join(words) for number, (_, words) in enumerate(lines) if number not in around]
    menus = [frozenset(lines[number][1]) for number in around if len(_BETWEEN_ITEMS.findall(lines[number][0])) > 1]
    all_words = {word for _, words in lines for word in words}.union(
        label, said_words(passage.source.replace("/", " "))
    )
    return Said(
        [word for word in label if word not in _COPY_NAMES],
        _INSIDE_HAN.sub("", " ".join(text)),
        "\n".join(["", *text, ""]),
        menus,
        frozenset(all_words),
    )


def repeats(later: Said, earlier: Said, asked: frozenset[str]) -> bool:
    """Whether the later passage says nothing beyond the earlier passage. asked: the words of the question."""
    if later.label != earlier.label or not (later.text == earlier.text or later.lines in earlier.lines):
        return False
    if (later.words & asked) - earlier.words:
        return False
    return not any(_are_versions(menu, other) for menu in later.menus for other in earlier.menus)


def said_words(text: str) -> list[str]:
    """The words of a text, as `Said` has them."""
    return [word for line in _comparable(text).split("\n") for word in _words(line)]


def _comparable(text: str) -> str:
    if not text.isascii():
        text = visible(unicodedata.normalize("NFKC", text)).translate(_SAME_SIGNS)
    return text.casefold()


def _words(line: str) -> list[str]:
    """The words of a line, with the signs that change a word: -5, <5, c++, [ ]."""
    if "](" in line:
        line = _LINK.sub(r"\1 \2", line)
    line = line[_LINE_START.match(line).end() :].replace("[ ]", "☐").replace("|", " ")  # type: ignore[union-attr]
    pieces = [piece.lstrip(_AROUND).rstrip(_AFTER) for piece in line.split()]
    return [piece for piece in pieces if piece and not _RULE.fullmatch(piece)]


def _around(lines: Sequence[tuple[str, list[str]]]) -> Collection[int]:
    """The numbers of the lines around the text: from both ends, behind a first heading, too."""
    found: set[int] = set()
    for numbers in (range(len(lines)), range(len(lines) - 1, -1, -1)):
        for number in numbers:
            if _is_around(*lines[number]):
                found.add(number)
            elif not lines[number][0].startswith("# "):
                break
    return found if len(found) < len(lines) else ()


def _is_around(line: str, words: Sequence[str]) -> bool:
    """Whether a line is navigation or a date of print."""
    if _NAVIGATION.issuperset(words) or _PAGE_NUMBER.fullmatch(line):
        return True
    if len(words) <= _STAMP_WORDS and _STAMP.match(line) and _DATE.search(line):
        return True
    is_menu = len(_BETWEEN_ITEMS.findall(line)) > 1 and not line.lstrip().startswith("|") and line[-1] not in ".!?:"
    return is_menu and not any(any(map(str.isdigit, word)) for word in words)


def _are_versions(menu: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two lines are one template with another name in it, as in two paths through one site."""
    return menu != other and 2 * len(menu & other) >= max(len(menu), len(other))
