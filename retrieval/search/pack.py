"""Pack hits into a context: best first, no copies, within a token budget, adjacent passages joined.

Texts that share nearly all words are not copies: two years' rules, two models' data sheets, or one form filled in by
two people differ in exactly the fact somebody asks for. So a copy says the same words in the same order under the same
title and headings, and any differing word makes another text: a number, a unit, a name, a "not". A model that reads one
of six versions takes it for the only one; a copy too many costs a few hundred tokens.

Only meaningless differences are ignored: blanks, line ends, case, markup, punctuation around words, invisible
characters, link hosts, and lines at the edges that come from a web page or a printer (navigation, print date). A word
of the question always counts, even there or in a file's path.

A chunk's text is a span of its document's text, and at most blanks separate two adjacent chunks. So a joined passage is
one span of stored text, with one label and without repeated overlap. Passages of another kind (generated texts, not
spans of the document) stay separate.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from retrieval.lexical.terms import HAN, KANA, visible
from retrieval.records.documents import Passage, shown_text
from retrieval.records.search import Context, Hit
from retrieval.records.traces import Fate

_SHARED_WORDS = 0.5  # of the shorter passage: with fewer, no slower comparison is needed
_WORD = re.compile(r"\w+")
_GAPS = {code: " " for code in range(128) if not _WORD.match(chr(code))}


def pack(hits: Sequence[Hit], *, k: int, budget_tokens: int, merge: bool = False, question: str = "") -> Context:
    """The first passages of `hits` (best first) that fit: at most `k` passages and `budget_tokens` tokens in all.

    A passage over budget is skipped; a later, shorter one may still fit. merge: count adjacent passages as joined
    (`join`). question: a passage with a word of the question that a better passage lacks is not a copy.
    `dropped` counts hits left out.
    """
    return pack_with_fates(hits, k=k, budget_tokens=budget_tokens, merge=merge, question=question)[0]


def pack_with_fates(
    hits: Sequence[Hit], *, k: int, budget_tokens: int, merge: bool = False, question: str = ""
) -> tuple[Context, dict[str, Fate]]:
    """As `pack`, with each examined hit's fate by id."""
    chosen: list[Passage] = []
    places: dict[Place, Passage] = {}  # of chosen passages, if adjacent ones are joined
    copies = _Copies(question)
    fates: dict[str, Fate] = {}
    used = 0
    for hit in hits:
        if len(chosen) == k or used >= budget_tokens:
            break
        if copies.is_copy(hit.passage):
            fates[hit.id] = "duplicate"
            continue
        tokens = hit.passage.tokens - (tokens_saved(hit.passage, places) if merge else 0)
        if used + tokens > budget_tokens:
            fates[hit.id] = "budget"
            continue
        fates[hit.id] = "kept"
        chosen.append(hit.passage)
        copies.add(hit.passage)
        used += tokens
        if merge:
            places[place_of(hit.passage)] = hit.passage
    return Context(tuple(chosen), used, len(hits) - len(chosen)), fates


class _Copies:
    """Chosen passages, to compare further ones with. Most pairs share few words, which ends the comparison."""

    def __init__(self, question: str) -> None:
        self._asked = frozenset(said_words(question))
        self._chosen: list[tuple[frozenset[str], Passage]] = []
        self._said: dict[int, Said] = {}

    def add(self, passage: Passage) -> None:
        self._chosen.append((word_set(passage.text), passage))

    def is_copy(self, passage: Passage) -> bool:
        words = word_set(passage.text)
        alike = [
            other for known, other in self._chosen if len(words & known) >= _SHARED_WORDS * min(len(words), len(known))
        ]
        if not alike:
            return False
        said = said_in(passage)
        return any(repeats(said, self._said_by(other), self._asked) for other in alike)

    def _said_by(self, passage: Passage) -> "Said":
        if id(passage) not in self._said:
            self._said[id(passage)] = said_in(passage)
        return self._said[id(passage)]


def word_set(text: str) -> frozenset[str]:
    """A text's words, in lower case."""
    text = text.lower()
    # Twelve passages by pattern take .3 ms per question; splitting ASCII text takes half that time.
    return frozenset(text.translate(_GAPS).split() if text.isascii() else _WORD.findall(text))


# --- copies -----------------------------------------------------------------------------------------------------------


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
_COPY_NAMES = frozenset({"copy", "mirror", "kopie", "copie", "copia"})  # an untitled text goes by its file name


@dataclass(frozen=True, slots=True)
class Said:
    """What a passage says, in comparable words."""

    label: Sequence[str]  # of title and headings
    text: str
    lines: str  # these words, each line between line feeds
    menus: Sequence[frozenset[str]]  # words of each line of links or names around it
    words: frozenset[str]  # all words, also of the source and of lines around the text


def said_in(passage: Passage) -> Said:
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
    """Whether the later passage adds nothing to the earlier one. asked: the question's words."""
    if later.label != earlier.label or not (later.text == earlier.text or later.lines in earlier.lines):
        return False
    if (later.words & asked) - earlier.words:
        return False
    return not any(_are_versions(menu, other) for menu in later.menus for other in earlier.menus)


def said_words(text: str) -> list[str]:
    """A text's words, as in `Said`."""
    return [word for line in _comparable(text).split("\n") for word in _words(line)]


def _comparable(text: str) -> str:
    if not text.isascii():
        text = visible(unicodedata.normalize("NFKC", text.translate(_RAISED))).translate(_SAME_SIGNS)
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


def _around(lines: Sequence[tuple[str, list[str]]]) -> Collection[int]:
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


def _are_versions(menu: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two lines are one template with different names, as in two paths through one site."""
    return menu != other and 2 * len(menu & other) >= max(len(menu), len(other))


# --- adjacent passages ------------------------------------------------------------------------------------------------


Place = tuple[str, int, int]  # document, revision, ordinal


def place_of(passage: Passage) -> Place:
    return passage.document, passage.revision, passage.ordinal


def adjacent_runs(passages: Sequence[Passage]) -> list[list[Passage]]:
    """Passages in groups without gaps, each in document order.

    Groups are sorted by their best passage, the first of each in `passages`.
    """
    rank = {place_of(passage): index for index, passage in enumerate(passages)}
    groups: list[list[Passage]] = []
    for passage in sorted(passages, key=place_of):
        if groups and follows(groups[-1][-1], passage):
            groups[-1].append(passage)
        else:
            groups.append([passage])
    return sorted(groups, key=lambda group: min(rank[place_of(passage)] for passage in group))


def stitch(run: Sequence[Passage]) -> str | None:
    """The text of a run whose passages overlap or touch; None if they are separated by blanks, which no passage has."""
    text = run[0].text
    for before, after in pairwise(run):
        overlap = before.end - after.start
        if overlap < 0 or not text.endswith(after.text[:overlap]):
            return None
        text += after.text[overlap:]
    return text


def join(run: Sequence[Passage], text: str) -> list[Passage]:
    """A run as one passage; text: document text from the start of its first to the end of its last passage.

    Returns the run unchanged if its passages are not spans of `text`. Headings are the first passage's: a later
    section's heading stands in the text.
    """
    first, last = run[0], run[-1]
    if any(text[piece.start - first.start : piece.end - first.start] != piece.text for piece in run):
        return list(run)
    return [replace(first, end=last.end, text=text, tokens=tokens_of(run))]


def tokens_of(passages: Iterable[Passage]) -> int:
    """How many tokens these passages have after adjacent ones are joined (in this order)."""
    listed = list(passages)
    return sum(passage.tokens for passage in listed) - sum(
        _saved_by_joining(*pair) for pair in pairwise(listed) if follows(*pair)
    )


def tokens_saved(passage: Passage, chosen: Mapping[Place, Passage]) -> int:
    """How many tokens `passage` saves by joining adjacent chosen passages."""
    document, revision, ordinal = place_of(passage)
    before = chosen.get((document, revision, ordinal - 1))
    after = chosen.get((document, revision, ordinal + 1))
    saved = _saved_by_joining(before, passage) if before is not None and follows(before, passage) else 0
    return saved + (_saved_by_joining(passage, after) if after is not None and follows(passage, after) else 0)


def follows(first: Passage, second: Passage) -> bool:
    """Whether the second passage is the next chunk of the same text."""
    return (
        second.ordinal == first.ordinal + 1
        and first.document == second.document
        and first.revision == second.revision
        and first.start < second.start
        and first.end < second.end
    )


def ordinals_around(passages: Sequence[Passage], reach: int) -> list[tuple[Passage, int]]:
    """Other ordinals up to `reach` before and after each passage, each with that passage.

    Nearest ordinals come first; at equal distance, the best passage's do.
    """
    taken = {place_of(passage) for passage in passages}
    ordinals = []
    for distance in range(1, reach + 1):
        for passage in passages:
            for ordinal in (passage.ordinal - distance, passage.ordinal + distance):
                place = (passage.document, passage.revision, ordinal)
                if ordinal >= 0 and place not in taken:
                    taken.add(place)
                    ordinals.append((passage, ordinal))
    return ordinals


def run_around(passage: Passage, known: Mapping[Place, Passage], reach: int) -> list[Passage]:
    """A passage with up to `reach` known passages on each side, without gaps."""
    run = [passage]
    for step in (-1, 1):
        for distance in range(1, reach + 1):
            neighbour = known.get((passage.document, passage.revision, passage.ordinal + step * distance))
            if neighbour is None or not (follows(neighbour, run[0]) if step < 0 else follows(run[-1], neighbour)):
                break
            run.insert(0 if step < 0 else len(run), neighbour)
    return run


def _saved_by_joining(first: Passage, second: Passage) -> int:
    """About how many tokens joining two passages saves: the second one's label, and shared text.

    Estimated from the second passage's share of characters: counting a text's tokens takes longer than packing the
    context.
    """
    shown = len(shown_text(second.cited, second.title, second.headings, second.text))
    repeated = shown - len(second.text) + max(0, first.end - second.start)
    return int(second.tokens * min(repeated, shown) / shown) if shown else 0
