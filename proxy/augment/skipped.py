"""Requests that get no passages: utility requests of chat programs, and small talk.

Utility requests ask for a title, tags, follow-ups, a summary or a search query. Programs send these to the
conversation's model. Passages would cost tokens and spoil answers that must be JSON or four words. We recognise them by
the fixed words that their prompts begin with: people who ask about titles, or quote a prompt, begin differently.
Prompts are data: `config/utility_requests.yaml`, and a file of the user's own.

Small talk asks for nothing. In a conversation, a search for "thanks" leans on earlier turns, and finds their passages
again: some 2,000 tokens. We know small talk by closed lists of phrases and words (`config/small_talk.yaml`), which must
make up the whole message: one word more makes it a question. An embedder does not help here: to a model made for
English, "¿por qué?" and "почему?" are as near to thanks as thanks is.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from proxy.dialects.base import ConversationMessage
from retrieval.records.search import Turn

_HEAD_CHARS = 4000  # of a system message: a prompt may begin here
_INSTRUCTIONS = 8  # system messages read at either end of a conversation, which may hold many
_SHORTEST_CHARS = 20  # of fixed words: a person's question may hold fewer by chance


class PromptsError(ValueError):
    """A file of prompts cannot be used; the text names the entry and the expected form."""


@dataclass(frozen=True, slots=True)
class UtilityPrompt:
    """A prompt's first words, and words that must come later ("" for none)."""

    begins: str
    holds: str = ""


@dataclass(frozen=True, slots=True)
class UtilityPrompts:
    """Known prompts: how the newest user message begins, or a line in a system message."""

    user: tuple[UtilityPrompt, ...] = ()
    system: tuple[UtilityPrompt, ...] = ()

    @classmethod
    def read(cls, *files: Path) -> "UtilityPrompts":
        """Read prompts from all files. Raises PromptsError."""
        found = [entry for file in files for entry in _entries(file)]
        return cls(*(tuple(prompt for role, prompt in found if role == wanted) for wanted in ("user", "system")))

    def match(self, messages: Sequence[ConversationMessage]) -> bool:
        """Whether the newest user message, or an instruction, is a known prompt."""
        newest = next((message for message in reversed(messages) if message.role == "user"), None)
        said = "" if newest is None else newest.text.lstrip()
        if any(said.startswith(prompt.begins) and prompt.holds in said for prompt in self.user):
            return True
        instructions = [message.text for message in messages if message.role in ("system", "developer")]
        if len(instructions) > 2 * _INSTRUCTIONS:
            instructions = [*instructions[:_INSTRUCTIONS], *instructions[-_INSTRUCTIONS:]]
        return any(map(self._matches_system, instructions))

    def _matches_system(self, text: str) -> bool:
        """Whether any line begins a known prompt: a message's text parts arrive joined by line feeds."""
        head = "\n" + text[:_HEAD_CHARS]
        return any("\n" + prompt.begins in head and prompt.holds in text for prompt in self.system)


def _entries(file: Path) -> list[tuple[str, UtilityPrompt]]:
    try:
        entries = yaml.load(file.read_text("utf-8"), Loader=yaml.CSafeLoader)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise PromptsError(f"cannot read {file}: {' '.join(str(error).split())}") from error
    if not isinstance(entries, list):
        raise PromptsError(f"{file} must be a list of entries with role, begins and holds")
    return [_entry(entry, f"{file}, entry {number}") for number, entry in enumerate(entries, start=1)]


def _entry(entry: Any, where: str) -> tuple[str, UtilityPrompt]:
    if not isinstance(entry, dict):
        raise PromptsError(f"{where} must have role, begins and holds, got {entry!r:.80}")
    for name, value in entry.items():
        if name not in ("role", "begins", "holds"):
            raise PromptsError(f"{where} has {name!r:.80}, but an entry has only role, begins and holds")
        if not isinstance(value, str):
            raise PromptsError(f"{where}: {name} must be text, got {value!r:.80}")
    role, begins, holds = entry.get("role"), entry.get("begins", "").lstrip(), entry.get("holds", "")
    if role not in ("user", "system"):
        raise PromptsError(f"{where}: role must be user or system, got {role!r:.80}")
    if not begins:
        raise PromptsError(f"{where}: begins must be the first words of the prompt")
    if len(begins + holds) < _SHORTEST_CHARS:
        words = f"begins and holds have {len(begins + holds)} characters together"
        raise PromptsError(f"{where}: {words}, too few to tell a program from a person: give {_SHORTEST_CHARS} or more")
    if role == "system" and len(begins) > _HEAD_CHARS:
        raise PromptsError(f"{where}: begins must have at most {_HEAD_CHARS} characters")
    return role, UtilityPrompt(begins, holds)


# --- small talk -------------------------------------------------------------------------------------------------------


_KINDS = ("courtesies", "agreement", "questions", "beside", "words", "never")
_MOST_CHARS = 200  # longer messages ask for something
_TAIL_CHARS = 300  # of an answer, where its last question is
_APOSTROPHES = re.compile(r"['’‘ʼ`´]")
_EMOTICON = re.compile(r"(?<!\w)(?:[:;=8][-o'^]?[)(\]\[dpo3/\\|*<>]+|x[d)]+|<3+|\^[_.]?\^)(?!\w)", re.IGNORECASE)
_INDIC = "\u0900-\u093b\u093d-\u0963\u0971-\u0df3"  # with vowel signs, without nukta
_WORD = re.compile(rf"[\u3040-\u30ff\u3400-\u9fff]|[{_INDIC}]+|[^\W_\u3040-\u30ff\u3400-\u9fff{_INDIC}]+")
_NO_ACCENT = re.compile(f"[{_INDIC}]")
_QUESTION_MARK = re.compile("[?？؟\u037e⁇⁈⁉‽❓❔]")
_FLAG = re.compile("[\U0001f1e6-\U0001f1ff]")  # names a country
_REPEATED = re.compile(r"(.)\1{2,}")
_UMLAUT = re.compile("([aou])e")
_DOUBLED_END = re.compile(r"(?<=\w{3})(\w)\1$")
_JOINED = {  # prefixes that are written as one with the next word, and the words that they stand for
    **{prefix: (prefix,) for prefix in ("و", "ل", "ب", *"cdjlmnst", "qu", "all", "dall", "dell", "nell", "un")},
    "ال": (),
    "وال": ("و",),
    "لل": ("ل",),
    "بال": ("ب",),
}
_JOINED_TO = re.compile("[aeiouhء-ي]")  # French and Italian: before vowels

_END = ""  # stands behind the last word

_Phrase = tuple[str, ...]
_Pattern = Sequence[Sequence[_Phrase]]  # a phrase of parts, each with alternatives
_Patterns = Mapping[str, Sequence[_Pattern]]  # by first word


@dataclass(frozen=True, slots=True)
class _Language:
    courtesies: _Patterns
    agreement: _Patterns
    questions: _Patterns
    beside: _Patterns
    words: _Patterns
    never: _Patterns
    vocabulary: frozenset[str]


@dataclass(frozen=True, slots=True)
class SmallTalk:
    """Lists for all languages. Without any, nothing is small talk."""

    languages: Sequence[_Language] = ()  # English comes first: it is mixed with all others
    names: _Patterns = field(default_factory=dict)  # of assistants, beside a phrase of any language
    shared: frozenset[str] = frozenset()  # words of names and of English
    laughter: Sequence[re.Pattern[str]] = ()
    closing: Sequence[str] = ()
    words: frozenset[str] = frozenset()  # in all phrases

    @classmethod
    def read(cls, file: Path) -> "SmallTalk":
        """Read lists from a file."""
        lists = yaml.load(file.read_text("utf-8"), Loader=yaml.CSafeLoader)
        names, laughter, closing = (lists.pop(kind) for kind in ("names", "laughter", "closing"))
        languages = [_language(own) for own in lists.values()]
        phrases = _Phrases()
        named = _patterns(_plain(names), phrases)
        shared = languages[0].vocabulary.union(*phrases.values())
        return cls(
            languages,
            named,
            shared,
            [re.compile(pattern) for pattern in laughter],
            [" ".join(_words(phrase)) for phrase in closing],
            shared.union(*(language.vocabulary for language in languages)),
        )

    def match(self, turns: Sequence[Turn]) -> bool:
        """Whether the latest turn, the user's, is small talk."""
        text = turns[-1].text
        if not self.languages or len(text) > _MOST_CHARS or _FLAG.search(text):
            return False
        words: list[str] = []
        for word in _words(_EMOTICON.sub(" ", text)):
            known = (word,) if word in self.words else self._known_form(word)
            if not known:
                return False  # most messages end here
            words += known
        answer = turns[-2].text if len(turns) > 1 and turns[-2].role == "assistant" else ""
        in_question, asked = _QUESTION_MARK.search(text) is not None, self._asks(answer)
        foreign = {word for word in words if word not in self.shared and not self._laughs(word)}
        languages = (language for language in self.languages if foreign <= language.vocabulary)
        return any(self._is_in(language, words, in_question, asked, bool(answer)) for language in languages)

    def _is_in(self, to: _Language, words: Sequence[str], in_question: bool, asked: bool, answered: bool) -> bool:
        """Whether words are small talk in one language. To a question of the assistant, most words are an answer."""
        english, beside = self.languages[0], [to.beside, self.names]
        courtesies, agreement = [to.courtesies, english.courtesies], [to.agreement, english.agreement]
        if asked and not in_question:
            return self._is(words, courtesies, beside)
        greeted = self._is(words, [to.questions], [*courtesies, *agreement, *beside])
        if in_question:
            return greeted
        core = [*courtesies, *agreement] if answered else courtesies  # one word alone may be a search
        if answered and (greeted or not words):
            return True
        return self._is(words, core, [*beside, to.words], [to.never, english.never])

    def _known_form(self, word: str) -> _Phrase:
        """The word as phrases have it, if it is written in another way, or (): "thaaanks", "schoen", "l'aide"."""
        if self._laughs(word):
            return (word,)
        forms = (
            _REPEATED.sub(r"\1\1", word),
            _REPEATED.sub(r"\1", word),
            _UMLAUT.sub(r"\1", word),
            _DOUBLED_END.sub(r"\1", word),
        )
        known = next((form for form in forms if form in self.words), "")
        if known:
            return (known,)
        for prefix, parts in _JOINED.items():
            rest = word.removeprefix(prefix)
            if rest != word and rest in self.words and _JOINED_TO.match(rest):
                return (*parts, rest)
        return ()

    def _laughs(self, word: str) -> bool:
        return any(pattern.fullmatch(word) for pattern in self.laughter)

    def _is(
        self,
        words: Sequence[str],
        core: Sequence[_Patterns],
        beside: Sequence[_Patterns],
        never: Sequence[_Patterns] = (),
    ) -> bool:
        """Whether phrases make up all words, including one from `core` or laughter.

        Where a phrase of `never` stands, only a phrase begins that is longer than its first part.
        """
        ended = (*words, _END)
        reached = {(0, False)}  # number of words, and whether a `core` phrase was among them
        for at, word in enumerate(words):
            here = [seen for seen in (False, True) if (at, seen) in reached]
            if not here:
                continue
            requests = (pattern for kind in never for pattern in kind.get(word, ()))
            refused = at + max((_first(ended, at, pattern) for pattern in requests), default=0)
            for kinds, is_core in ((core, True), (beside, False)):
                ends = [end for end in _ends(ended, at, kinds) if end > refused]
                reached.update((end, seen or is_core) for end in ends for seen in here)
            if self._laughs(word):
                reached.add((at + 1, True))
        return (len(words), True) in reached

    def _asks(self, answer: str) -> bool:
        """Whether an answer ends with a question that waits for a reply."""
        tail = answer.rstrip()[-_TAIL_CHARS:].rpartition("\n\n")[2]
        if not _QUESTION_MARK.search(tail):
            return False
        said = " ".join(_words(tail))
        return not any(phrase in said for phrase in self.closing)


NO_LISTS = SmallTalk()


class _Plain(dict[int, int | None]):
    """A table for `str.translate` that drops accents and invisible signs, filled as needed."""

    def __missing__(self, code: int) -> int | None:
        char = chr(code)
        kept = _NO_ACCENT.match(char) or unicodedata.category(char) not in ("Mn", "Cf")
        return self.setdefault(code, code if kept else None)


# Letters that people use for each other are one.
_PLAIN = _Plain({ord("ı"): ord("i"), ord("ى"): ord("ي"), ord("ة"): ord("ه"), ord("ـ"): None})


def _plain(text: str) -> str:
    """A text without case and accents."""
    text = _APOSTROPHES.sub("", text).casefold()
    return text if text.isascii() else unicodedata.normalize("NFKD", text).translate(_PLAIN)


def _words(text: str) -> list[str]:
    """A text's words without case and accents; each Chinese or Japanese sign is one."""
    return _WORD.findall(_plain(text))


class _Phrases(dict[str, _Phrase]):
    """The words of each text asked for."""

    def __missing__(self, text: str) -> _Phrase:
        return self.setdefault(text, tuple(_WORD.findall(text)))


def _language(lists: Mapping[str, str]) -> _Language:
    phrases = _Phrases({"$": (_END,)})
    patterns = {kind: _patterns(_plain(lists.get(kind, "")), phrases) for kind in _KINDS}
    return _Language(**patterns, vocabulary=frozenset().union(*phrases.values()))


def _patterns(texts: str, phrases: _Phrases) -> _Patterns:
    """Patterns by first word. The head of `small_talk.yaml` says how they are written."""
    found: dict[str, list[_Pattern]] = {}
    for text in texts.split(","):
        parts: list[list[str]] = []
        for part in text.split():
            if part[0] == "+":
                parts[-1] = [one + end for one in parts[-1] for end in part[1:].split("|")]
            else:
                parts.append(part.split("|"))
        pattern = [[phrases[one] for one in part] for part in parts]
        for first in {phrase[0] for phrase in pattern[0]} if pattern else ():
            found.setdefault(first, []).append(pattern)
    return found


def _ends(words: Sequence[str], at: int, kinds: Iterable[_Patterns]) -> set[int]:
    """Where phrases end that begin at a word."""
    return {end for kind in kinds for pattern in kind.get(words[at], ()) for end in _matched(words, {at}, pattern)}


def _matched(words: Sequence[str], ends: set[int], parts: _Pattern) -> set[int]:
    for part in parts:
        ends = {end + len(one) for end in ends for one in part if words[end : end + len(one)] == one}
    return ends


def _first(words: Sequence[str], at: int, pattern: _Pattern) -> int:
    """How many words a pattern's first part has, 0 if the pattern does not stand here."""
    return max(_matched(words, {at}, pattern[:1])) - at if _matched(words, {at}, pattern) else 0
