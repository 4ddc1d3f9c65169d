"""Document text in a prompt: quoted, so that it is safe, and passages as one *block*, by a template in a file.

Quoted text has no invisible characters, delimiters or tokens. It cannot close the block, begin another passage, or pose
as another speaker with a chat template's token ("<|im_start|>") or a transcript's line ("Human:"). One space breaks a
look-alike, so people and models can still read it; all other text keeps every byte. Quoting twice changes nothing.

`{passages}`, `{collections}` and `{tag}` in the template are replaced as plain text; nothing in a document is ever
evaluated. Delimiters carry a digest of the passages: a document can neither close nor open a delimiter. Equal passages
give equal bytes, since providers cache by prefix.
"""

import hashlib
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Literal, Protocol, TypeVar

# Control characters except line feed and tab; format characters, also bidirectional; surrogates; private use;
# noncharacters; and invisible characters in other categories (default-ignorable in Unicode's
# DerivedCoreProperties.txt): the Tag block, variation selectors, Hangul, Khmer and Mongolian fillers.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5"
    "\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ud800-\udfff\ue000-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0e"
    "\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff]"
)
_INVISIBLE_ABOVE = re.compile(
    "[\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\U000f0000-\U0010ffff"
    + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0x10000, 0xF0000, 0x10000))
    + "]"
)
# Invisible if they shape nothing: joiners, Mongolian forms of letters, the sign that shows a character as an emoji.
_JOINING = re.compile("[\u180b-\u180f\u200c\u200d\ufe0f]")
_EMOJI_SIGN = "\ufe0f"
# Scripts that write with joiners: Arabic to Mandaic, those of India, Tibetan, Myanmar, Khmer, Mongolian and others.
_WITH_JOINERS = re.compile(
    "[\u0600-\u0dff\u0f00-\u109f\u1780-\u18af\u1b00-\u1cff\ua800-\uabff\ufb50-\ufdff\ufe70-\ufefc\U00011000-\U00011fff]"
)
# Letters whose form depends on their neighbours.
_CURSIVE = re.compile("[\u0620-\u064a\u066e-\u06d3\u06fa-\u07ff\u0840-\u08c9\u1820-\u18aa]")
_MONGOLIAN = re.compile("[\u1820-\u18aa]")
_VIRAMA = 9  # combining class of a sign after which a joiner shapes the letter before
# Twins: characters that NFKC writes in printable ASCII: full-width, small, raised, circled and mathematical forms,
# ligatures. _PLAIN maps each twin to ASCII.
_PLAIN = {
    code: plain
    for first, last in (
        (0xA0, 0x250),
        (0x2B0, 0x380),
        (0x1D2C, 0x1DC0),
        (0x1FEF, 0x1FF0),
        (0x2010, 0x2190),
        (0x2460, 0x2500),
        (0x2A74, 0x2A77),
        (0x2C7C, 0x2C7E),
        (0x3200, 0x3400),
        (0xA7F2, 0xA7F5),
        (0xFB00, 0xFB30),
        (0xFE10, 0xFE70),
        (0xFF00, 0xFFF0),
        (0x10780, 0x107C0),
        (0x1D400, 0x1D800),
        (0x1F100, 0x1F1A0),
        (0x1FBF0, 0x1FBFA),
    )
    for code in range(first, last)
    if (plain := unicodedata.normalize("NFKC", chr(code))).isascii() and plain.isprintable() and " " not in plain
}
_PLAIN |= {
    ord(char): plain
    for plain, chars in (("<", "‹〈⟨〈❬❮❰˂ᐸ⧼"), (">", "›〉⟩〉❭❯❱˃ᐳ⧽"), ("|", "∣ǀ│┃❘⏐￨"))
    for char in chars
}  # look alike
_TWINS, _TWINS_ABOVE = (
    re.compile("[" + "".join(chr(code) for code in _PLAIN if (code > 0xFFFF) is above) + "]") for above in (False, True)
)
_ABOVE = re.compile("[\U00010000-\U0010ffff]")  # apart from the basic plane: one class for both is twenty times slower
# Invisible characters that `str.isprintable` counts as printable.
_PRINTABLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_OTHER_LINE_FEEDS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")

# Chat template tokens of common model families, and the line that ends a passage. A token's name that is also an
# ordinary word counts only in capital letters.
_TOKENS = re.compile(
    r"""
    < (?=
        /? [|] /? [\w▁.:-]{1,64} [|]? >                 # <|im_start|> <|eot_id|> <｜User｜> <|turn>
      | /? [|] \w{1,64} [|] \w                          # <｜DSML｜invoke name="…">
      | /? \w{1,64} [|] >                               # <turn|>
      | /? (?: s | bos | eo[abdhmpst] | sop | pad | unk | (?: start | end ) _ (?: of | function ) _ \w{1,32}
             | think | tool_?call | tool_response | system | user | assistant | human | role
             | tools | arg_key | arg_value | (?: im | longcat ) _ \w{1,32} ) >
                                      # Llama 2 and 3, Gemma, Qwen, GLM, Kimi, InternLM, Nemotron, Ling, SmolVLM
      | (?: function | parameter ) = [^<>\n]{1,64} > | / (?: function | parameter ) >     # Qwen, Llama 3
      | /? (?: function | tool ) _ (?: call | result | output ) s? >          # <function_calls>
      | (?: \w{1,64}_token | fim_\w{1,32} ) >           # <BOS_TOKEN> <fim_prefix>
      | \w{4,64}_\d{1,5} >                              # <extra_id_0> <reserved_106> <SPECIAL_12>
      | unused \d{1,5} >                                # Gemma
      | /? (?: seed | minimax | antml ) : \w{1,64}       # <seed:bos>
      | invoke \s{1,9} name \s{0,9} = | /invoke >       # <invoke name="…">
      | < /? SYS>>                                      # <<SYS>>
    )
  | \[ (?=
        /? (?: INST | SYSTEM_PROMPT | AVAILABLE_TOOLS | TOOL_CALLS | TOOL_RESULTS | TOOL_CONTENT | THINK | IMG
             | IMG_BREAK | IMG_END | MODEL_SETTINGS | BEGIN_AUDIO | CALL_ID | gMASK | sMASK ) \] # Mistral, Llama 2, GLM
      | (?-i: ARGS | AUDIO | PREFIX | MIDDLE | SUFFIX | TRANSCRIBE | CLS | SEP | PAD | UNK | MASK | BOS | EOS
            | BOT | EOT | (?: BEGIN | END ) _OF_ [A-Z]{1,32} ) \]   # Mistral, BERT, Kimi
      | \w{0,64}_token_\d{1,5} \]                       # [UNUSED_TOKEN_145]
      | [|] /? \w{1,64} [|] \]                          # [|user|]
      | end \s+ of \s+ \d+ \s* \]
      | [a-z] ~ \[                                      # [e~[
    )
  | \] (?= ~ !? [a-z] [\[\]] | < \] [^\[\n]{1,64} \[ > \[ )    # ]~b]system  ]~!b[  ]<]image[>[
    """,
    re.VERBOSE | re.IGNORECASE,
)
# How another speaker's line begins in a transcript: "Human:", "### System:", "**Assistant**:". The pattern begins with
# a line feed, which a search finds fast.
_SPEAKERS = re.compile(
    r"""
    \n [ ]{0,3} (?: [>*_]{1,3} [ \t]* ){0,3}
    (?: human | assistant | system | user | developer
      | [#]{1,6} [ \t]* [*_]{0,2} (?: human | assistant | system | user | developer | instruction | input | response ) )
    [*_]{0,2} (?= [:：] )
    """,
    re.VERBOSE | re.IGNORECASE,
)
# A line that looks like a passage's first line.
_BEGINNINGS = re.compile(r"\n[^\S\n]*\[(?=\d+\][^\n]*\(source:)", re.IGNORECASE)
# Each of these, with the signs of which a match has at least one, in ASCII.
_STRUCTURES = ((_TOKENS, "<[]"), (_SPEAKERS, ":"), (_BEGINNINGS, "["))
_PLAIN_LABEL = re.compile(r"[\w ./-]*", re.ASCII)
_SOURCES = re.compile(r"\((?=source\s*:)", re.IGNORECASE)


def quoted(text: str) -> str:
    """The text, safe between a passage's delimiters."""
    text = "\n" + _visible(text)
    twins = _has_twins(text)
    for structure, signs in _STRUCTURES:
        # Searching for a sign takes a hundredth of the pattern's time.
        if twins or any(sign in text for sign in signs):
            text = _broken(structure, text, twins=twins)
    return text[1:]


def _broken(structure: re.Pattern[str], text: str, *, twins: bool) -> str:
    """Put a space after each match, even one spelled with twins, as "＜" for "<".

    A tokenizer that normalises text (NFKC, as SentencePiece does) reads a twin as ASCII.
    """
    if not twins:
        return structure.sub(r"\g<0> ", text)
    plain = text.translate(_PLAIN)
    if structure.search(plain) is None:
        return text
    ends = list(accumulate(len(_PLAIN.get(ord(char), char)) for char in text))  # where each character ends in `plain`
    pieces, done = [], 0
    for match in structure.finditer(plain):
        end = bisect_left(ends, match.end()) + 1
        pieces += [text[done:end], " "]
        done = end
    return "".join([*pieces, text[done:]])


def _has_twins(text: str) -> bool:
    if text.isascii():
        return False
    return bool(_TWINS.search(text) or (_ABOVE.search(text) and _TWINS_ABOVE.search(text)))


def quoted_label(text: str) -> str:
    """The text on one line, safe within a passage's first line."""
    if _PLAIN_LABEL.fullmatch(text):
        return text
    text = quoted(" ".join(_visible(text).split()))
    return _broken(_SOURCES, text, twins=_has_twins(text))


class Quotable(Protocol):
    @property
    def title(self) -> str: ...
    @property
    def headings(self) -> Sequence[str]: ...
    @property
    def cited(self) -> str: ...
    @property
    def text(self) -> str: ...


def quoted_passages(passages: Sequence[Quotable]) -> str:
    """Passages with titles and sources, for a tool result."""
    return "\n\n".join(f"[{i}] {label}\n{text}" for i, (label, text) in enumerate(shown_passages(passages), 1))


def shown_passages(passages: Sequence[Quotable]) -> list[tuple[str, str]]:
    sources = [passage.cited for passage in passages]
    pairs = zip(passages, sources, strict=True)
    return [(_label(passage, source), quoted(passage.text).strip()) for passage, source in pairs]


def _label(passage: Quotable, source: str) -> str:
    path = " > ".join(quoted_label(part) for part in (passage.title, *passage.headings) if part)
    return f"{path} (source: {quoted_label(source)})"


def _visible(text: str) -> str:
    """Remove invisible characters, and write every kind of line end as a line feed."""
    line = text.replace("\n", "").replace("\t", "")
    if line.isprintable() and (line.isascii() or _PRINTABLE.search(line) is None):
        return text
    text = _INVISIBLE.sub("", _OTHER_LINE_FEEDS.sub("\n", text))
    text = _INVISIBLE_ABOVE.sub("", text) if _ABOVE.search(text) else text
    return _JOINING.sub(_joiner, text)


def _joiner(match: re.Match[str]) -> str:
    """The sign if a script or an emoji needs it; "" elsewhere, as within a chat template's token."""
    text, at, sign = match.string, match.start(), match[0]
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if sign == _EMOJI_SIGN:
        return sign if _is_emoji(before) or after == "\u20e3" else ""  # U+20E3: a key's frame
    if sign == "\u200d" and _is_emoji(text[at - 2 : at - 1] if before == _EMOJI_SIGN else before) and _is_emoji(after):
        return sign
    if "\u180b" <= sign <= "\u180f":
        return sign if _MONGOLIAN.match(before) else ""
    if sign == "\u200d" and (_CURSIVE.match(before) or _CURSIVE.match(after)):
        return sign
    if not _WITH_JOINERS.match(before):
        return ""
    return sign if _WITH_JOINERS.match(after) or unicodedata.combining(before) == _VIRAMA else ""


def _is_emoji(char: str) -> bool:
    if unicodedata.category(char or " ") == "Sm":  # ↔, but not < and its twins
        return not char.isascii() and ord(char) not in _PLAIN
    return char != "" and (unicodedata.category(char) == "So" or "\U0001f3fb" <= char <= "\U0001f3ff")  # or a skin tone


# --- the block of passages --------------------------------------------------------------------------------------------


_TAG_BYTES = 4
Order = Literal["best_first", "best_first_and_last"]
_T = TypeVar("_T")


class TemplateError(ValueError):
    """The template cannot be used."""


def read_template(file: Path, kind: str, *places: str) -> str:
    """Read a file that must have each place once. kind: for an error. Raises TemplateError."""
    try:
        text = file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise TemplateError(f"cannot read the {kind} {file}: {error}") from error
    for place in places:
        if (count := text.count(place)) != 1:
            raise TemplateError(f"the {kind} {file} must contain {place} once, got it {count} times")
    return text


class Template:
    """Text around passages."""

    def __init__(self, text: str) -> None:
        self.text = text

    @staticmethod
    def read(file: Path) -> "Template":
        """Raises TemplateError if the file cannot be read or lacks {passages}."""
        return Template(read_template(file, "template", "{passages}"))

    def render(self, passages: Sequence[Quotable], collections: Sequence[str]) -> str:
        """The block: passages in their given order, each labelled with title and source, between delimiters."""
        names = ", ".join(quoted_label(name) for name in collections)
        shown = shown_passages(passages)
        tag = _tag(shown)
        # Split first: a collection's name may hold "{passages}" as well as a passage may hold "{collections}".
        parts = self.text.split("{passages}")
        head, tail = (part.replace("{tag}", tag).replace("{collections}", names) for part in parts)
        texts = (f"[{i}] {label} #{tag}\n{text}\n[end of {i}] #{tag}" for i, (label, text) in enumerate(shown, 1))
        return head + "\n\n".join(texts) + tail


def in_order(passages: Sequence[_T], order: Order) -> Sequence[_T]:
    """Put passages, given best first, into the block's order: always the same for the same passages.

    best_first_and_last: first, third, fifth … forwards, then the others backwards, so that the weakest are in the
    middle, which models read least (Liu et al., "Lost in the Middle", TACL 2024).
    """
    return (*passages[::2], *passages[1::2][::-1]) if order == "best_first_and_last" else passages


def _tag(shown: Sequence[tuple[str, str]]) -> str:
    """Eight hexadecimal digits from all labels and texts: a passage alone cannot contain its block's tag."""
    digest = hashlib.blake2b(digest_size=_TAG_BYTES)
    for label, text in shown:
        digest.update(f"{label}\0{text}\0".encode())
    return digest.hexdigest()
