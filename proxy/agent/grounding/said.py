"""What a person has said: call values that only a person knows, and names in a message."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proxy.agent.grounding.arguments import parts_of, words_of_text

_APOSTROPHE = re.compile(r"(?<=\w)['’]\w+")  # I'm, what's: no M, no S
_LEAST_STEM = 3  # letters that a word and its plural or short form share
_DATE = re.compile(r"\d{4}-\d\d-(\d\d)")
_ANY_DAY = re.compile(r"\b(?:today|tonight|tomorrow|yesterday|(?:mon|tues|wednes|thurs|fri|satur|sun)day|weekend)\b")
# What people say in full. A person who says it in another language is asked once, and then understood.
_IN_FULL: Mapping[str, str] = {
    "xs": "extra small", "s": "small", "m": "medium", "l": "large", "xl": "extra large",
    **{str(n): word for n, word in enumerate(
        "one two three four five six seven eight nine ten eleven twelve".split(), 1)},
}  # fmt: skip
_QUOTED = re.compile(r"[“\"„«]([^“”\"„«»]{2,60})[”\"“»]")
_WORD = re.compile(r"[^\s,;:!?()“”\"„«»]+")
_SENTENCE_END = re.compile(r"[.!?]$")
_WITHIN_NAMES = frozenset({"of", "the", "de", "der", "del", "di", "da", "du", "la", "le", "van", "von", "und", "and"})
_MOST_NAME_WORDS = 8
_MOST_LEVELS = 10


def says(
    said: Sequence[str],
    name: str,
    value: Any,
    schema: Any = None,
    root: Mapping[str, Any] | None = None,
    level: int = 0,
) -> bool:
    """Whether a person has said an argument's value, or a word for it.

    said: the person's messages. schema: the argument's, within `root`, the schema of all arguments.
    """
    root = root or {}
    if level > _MOST_LEVELS:
        return False
    if isinstance(value, dict):
        return all(says(said, key, one, level=level + 1) for key, one in value.items())
    if isinstance(value, list):
        inner = {"allOf": [part["items"] for part in parts_of(root, schema) if "items" in part]}
        return all(says(said, name, one, inner, root, level + 1) for one in value)
    texts = [_APOSTROPHE.sub("", text) for text in said]
    if isinstance(value, bool):
        return any(_share_stem(texts, word) for word in words_of_text(name).split())
    text = str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()
    if len(text) == 1 and text.isalpha():
        return _says_letter(texts, text) or _says_any(texts, _words_for(text, schema, root))
    if (date := _DATE.match(text)) and (
        _says_any(texts, (date[1], str(int(date[1])))) or any(_ANY_DAY.search(one.lower()) for one in texts)
    ):
        return True
    words = words_of_text(text).split()
    if words and not re.search(r"\d", text) and all(_share_stem(texts, word) for word in words):
        return True
    return _says_any(texts, (text, *_words_for(text, schema, root)))


def _says_letter(texts: Sequence[str], letter: str) -> bool:
    """Whether a letter stands alone. "a" and "I" are words of most messages: a class A stands in its own case."""
    if letter in "aiI":
        return False
    same_case = re.NOFLAG if letter == "A" else re.IGNORECASE
    return any(re.search(rf"(?<!\w){re.escape(letter)}(?!\w)", text, same_case) for text in texts)


def _says_any(texts: Sequence[str], words: Sequence[str]) -> bool:
    wanted = [one for one in map(words_of_text, words) if one.strip()]
    return any(one in text for text in map(words_of_text, texts) for one in wanted)


def _share_stem(texts: Sequence[str], word: str) -> bool:
    """Whether a word is said, also in the plural, or shorter or longer at the end."""
    said = [one for text in texts for one in words_of_text(text).split()]
    long = [one for one in said if min(len(one), len(word)) >= _LEAST_STEM]
    return word in said or any(one.startswith(word) or word.startswith(one) for one in long)


def _words_for(text: str, schema: Any, root: Mapping[str, Any]) -> Sequence[str]:
    """Words for a value: those that people say in full, and those in the document, as in "S = small"."""
    words = [_IN_FULL[text.lower()]] if text.lower() in _IN_FULL else []
    for part in parts_of(root, schema):
        if part.get("const") == text and isinstance(part.get("title"), str):
            words.append(part["title"])
        if isinstance(about := part.get("description"), str):
            words += re.findall(rf"(?<!\w){re.escape(text)}[`\"']?\s*(?:=|:|-|–|—|\()\s*([^,;.()\n]{{2,40}})", about)
    return words


def name_in(text: str) -> str:
    """What a message names: its first quoted words, else its first capitalised ones; "": nothing.

    A sentence's first word has a capital letter anyway, and does not count.
    """
    if quoted := _QUOTED.search(text):
        return quoted[1].strip()
    return next(filter(None, map(" ".join, _capitalised(text))), "")


def _capitalised(text: str) -> Iterator[Sequence[str]]:
    """Runs of capitalised words."""
    run: list[str] = []
    begins = True  # a sentence
    first = False  # the run has a sentence's first word
    for match in _WORD.finditer(text):
        word = _APOSTROPHE.sub("", match[0]).strip(".'’")
        capital = word[:1].isupper() and word != "I"
        if begins:
            yield _without_frame(run, first=first)
            run, first = [], False
        if capital or (run and word in _WITHIN_NAMES):
            first = first or (begins and not run)
            run.append(word)
        else:
            yield _without_frame(run, first=first)
            run, first = [], False
        begins = bool(_SENTENCE_END.search(match[0])) or text[match.end() : match.end() + 1] in ("!", "?", ":")
    yield _without_frame(run, first=first)


def _without_frame(run: Sequence[str], *, first: bool) -> Sequence[str]:
    """The run without a sentence's first word, and without small words at both ends."""
    kept = list(run[1:] if first else run)
    while kept and kept[-1] in _WITHIN_NAMES:
        kept.pop()
    while kept and kept[0] in _WITHIN_NAMES:
        kept.pop(0)
    return kept[:_MOST_NAME_WORDS]
