"""Texts of strangers as a person can trust them: what would be invisible, reordered or taken for ASCII is named.

A value of a call may come from a document or a model. `⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩` stands in place of a
character that a screen does not show as it is: control, bidirectional, zero-width and tag characters, spaces that are
not the space, combining marks that strike a letter through, letters and digits that look like ASCII in a word with
ASCII letters, in a name of a host, or alone, and the marks between which chat programs hide thoughts. `⟨` is named,
too, so that no value can pretend. Emoji, accents and the letters of all languages stay.

The look-alikes are the part of Unicode's confusables (UTS #39) that common fonts draw like ASCII.
"""

import contextlib
import re
import unicodedata
from collections.abc import Iterator

_ODD_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Letters, marks and symbols without a shape. Variation selectors can carry a hidden text.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U0001d159\U000e0100-\U000e01ef]"
)
_GENERIC_MARK = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u2de0-\u2dff\ufe20-\ufe2f]"
)
_MOST_MARKS = 3  # on a letter: Vietnamese and Hebrew need two
_LOOK_ALIKES = {
    "CYRILLIC": frozenset("асеорхуѕіјԛԝһԁӏѵүАВСЕНІЈКМОРЅТХУҮԚԜӀЗԌѴЬ"),
    "GREEK": frozenset("αονρυικγϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿ"),
    "ARMENIAN": frozenset("օոսհցզյՕՍՏԼՀ"),
    "COPTIC": frozenset(map(chr, range(0x2C80, 0x2CB2))),
    "GEORGIAN": frozenset("ყⴍႽ"),
    "HEBREW": frozenset("סוןט"),
    "CANADIAN": frozenset("ᐯᑌᑎᑕᑭᑯᒍᒪᒿᔕᕁᕼᖇᖴᗅᗞᗪᗰᗷᗩᗴ᙭"),
    "TIFINAGH": frozenset("ⵔⵏⵍⵝⴹⵕⵊⵑ"),
    "MYANMAR": frozenset("ဝင"),
    "ETHIOPIC": frozenset("ዐሀ"),
    "MALAYALAM": frozenset("ഠ"),
}
_LESS_ALIKE = frozenset("квнмтгпьшωηχτεաղք")  # taken for ASCII within a word in ASCII only
_SCRIPT = {letter: script for script, letters in _LOOK_ALIKES.items() for letter in letters}
# Rare Latin letters and signs, and the letters of Cherokee, Lisu and scripts of the past, which nearly all look like
# ASCII; signs as wide as a line: named everywhere.
_ALWAYS = re.compile(
    "[\u0196\u01a7\u01b7\u01bc\u021c\u0222\u0237\u16a0-\u16f8\u25c1\U00010280-\U0001034f\U00010400-\U0001052f"
    "\U00010920-\U0001093f\U000118a0-\U000118ff\U00016f00-\U00016f9f\u2e3a\u2e3b\ufdfd\U00012000-\U0001254f"
    "\u01c0-\u01c3\u0185\u01bd\u0250-\u02af\u1d00-\u1d7f\ua722-\ua7ca\u13a0-\u13ff\uab70-\uabbf\ua4d0-\ua4ff"
    "\u02d0\u0589\u05c3\u2024\u2044\u2215\u2216\u2236\u29f8\u29f9\u2571\u2572\ua789\ufe68\ufe55\u2223]"
)
_PLAIN_ENOUGH = frozenset("…™²³¹ªº№，！？：；（）～\u2011")  # ASCII by NFKC, and usual in prose
_WORD = re.compile(r"[^\W_]+")
_TOKEN = re.compile(r"\S+")
_IN_IDENTIFIER = re.compile(r"[.@/:_\d-]")
_IN_IDENTIFIER_ONLY = re.compile("[ı\u2010-\u2012\u2212]")  # usual in prose
_SPACES = re.compile(" {4,}")
_PUNYCODE = re.compile(r"(?i)xn--([a-z0-9-]{1,60})")
# Chat programs show what stands between such tags as a thought, folded up.
_FOLDING = re.compile(r"(?i)<(?=\||/?(?:think|thought|reason|reflect|analysis|solution|details|summary))|:(?=::[a-z])")
_PRINTABLE_ASCII = re.compile("[ -~]*")


def visible(text: str) -> str:
    """The text in one line of characters that a screen shows as they are. Two texts never become the same."""
    if not _PRINTABLE_ASCII.fullmatch(text):
        odd = _look_alikes(text) | _digits(text)
        text = "".join(_name(one) if at in odd or _is_odd(text, at) else one for at, one in enumerate(text))
    text = _FOLDING.sub(lambda found: _name(found[0]), text)
    text = _SPACES.sub(lambda found: f" ⟨{len(found[0])} spaces⟩ ", text)
    return _PUNYCODE.sub(_with_letters, text) if "--" in text else text


def visible_name(text: str) -> str:
    """A name: `visible`, with the letters of scripts from right to left named, which reorder what follows."""
    return "".join(_name(one) if unicodedata.bidirectional(one) in ("R", "AL", "AN") else one for one in visible(text))


def _name(one: str) -> str:
    name = unicodedata.name(one, "")
    return f"⟨U+{ord(one):04X}{' ' * bool(name)}{name}⟩"


def _is_odd(text: str, at: int) -> bool:
    one = text[at]
    if one.isascii():
        return not " " <= one <= "~"
    category = unicodedata.category(one)
    if one in "⟨⟩" or category in _ODD_CATEGORIES or category == "Zs" or _BLANK.match(one):
        return True
    if category[0] == "M":
        return not _is_usual_mark(text, at)
    if one in _PLAIN_ENOUGH:
        return False
    return bool(_ALWAYS.match(one)) or unicodedata.normalize("NFKC", one).isascii()


def _is_usual_mark(text: str, at: int) -> bool:
    """Whether a mark belongs to the letter before: a mark of the letter's script, or an accent of the letter."""
    before = at
    while before > 0 and at - before <= _MOST_MARKS and unicodedata.category(text[before])[0] == "M":
        before -= 1
    base = text[before]
    if at - before > _MOST_MARKS or not base.isalpha():
        return False
    whole = unicodedata.normalize("NFC", text[before : at + 1])
    return len(whole) == 1 or not _GENERIC_MARK.match(text[at])


def _look_alikes(text: str) -> set[int]:
    """The places of the letters that a reader takes for ASCII."""
    scripts = {script for one in text if (script := _script(one)) and one not in _SCRIPT}
    found = set()
    for token in _TOKEN.finditer(text):
        identifies = bool(_IN_IDENTIFIER.search(token[0].rstrip(".:,;!?-")))
        for word in _WORD.finditer(token[0]):
            own = {script for one in word[0] if (script := _script(one)) and one not in _SCRIPT}
            mixed = re.search("[A-Za-z]", word[0]) is not None
            start = token.start() + word.start()
            for at, one in enumerate(word[0], start):
                telling = own if identifies else scripts
                alone = one in _SCRIPT and _SCRIPT[one] not in telling
                if alone or (mixed and (one in _SCRIPT or one in _LESS_ALIKE)):
                    found.add(at)
        if identifies:
            found.update(token.start() + one.start() for one in _IN_IDENTIFIER_ONLY.finditer(token[0]))
    return found


def _digits(text: str) -> set[int]:
    """The places of digits of other scripts beside ASCII, or without a letter of the script: `৪` is 4, and not 8."""
    scripts = {_digit_script(one) for one in text if one.isalpha() and not one.isascii()}
    found = set()
    for token in _TOKEN.finditer(text):
        mixed = re.search("[A-Za-z0-9]", token[0]) is not None
        for at, one in enumerate(token[0], token.start()):
            if one.isdecimal() and not one.isascii() and (mixed or _digit_script(one) not in scripts):
                found.add(at)
    return found


def _digit_script(one: str) -> str:
    """The first word of a character's name, such as BENGALI."""
    words = unicodedata.name(one, "").replace("-", " ").split(" ")
    return "ARABIC" if "ARABIC" in words[:2] else words[0]


def _script(one: str) -> str:
    """The script of a letter, if some of the script's letters look like ASCII."""
    if one.isascii() or not one.isalpha():
        return ""
    name = unicodedata.name(one, "").partition(" ")[0]
    return name if name in _LOOK_ALIKES else ""


def _with_letters(found: re.Match[str]) -> str:
    """A part of a host's name in ASCII, with the letters for which the part stands."""
    with contextlib.suppress(UnicodeError):
        letters = found[1].encode("ascii").decode("punycode")
        return f"{found[0]} ⟨= {''.join(_shown_letters(letters))}⟩"
    return found[0]


def _shown_letters(letters: str) -> Iterator[str]:
    for at, one in enumerate(letters):
        yield _name(one) if one in _SCRIPT or _is_odd(letters, at) else one
