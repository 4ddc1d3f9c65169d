"""Requests that get no passages: utility requests of chat programs, and small talk.

Utility requests ask for a title, tags, follow-ups, a summary or a search query. Programs send these to the
conversation's model. Passages would cost tokens and spoil answers that must be JSON or four words. We recognise them by
the fixed words that their prompts begin with: people who ask about titles, or quote a prompt, begin differently.
Prompts are data: `config/utility_requests.yaml`, and a file of the user's own.

Small talk asks for nothing. In a conversation, a search for "thanks" leans on earlier turns, and finds their passages
again: some 2,000 tokens. We know small talk by closed lists of phrases (`config/small_talk.yaml`), which must make up
the whole message: one word more makes it a question. An embedder does not help here: to a model made for English, "¿por
qué?" and "почему?" are as near to thanks as thanks is.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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

_Phrase = tuple[str, ...]
_Phrases = Mapping[str, Sequence[_Phrase]]  # by first word


@dataclass(frozen=True, slots=True)
class _Language:
    """One language's phrases, each a row of words."""

    courtesies: _Phrases
    agreement: _Phrases
    questions: _Phrases
    beside: _Phrases


@dataclass(frozen=True, slots=True)
class SmallTalk:
    """Lists for all languages. Without any, nothing is small talk."""

    languages: Sequence[
        _Language
    ] = ()  # each includes English courtesies and agreement, which are said in any language
    laughter: Sequence[re.Pattern[str]] = ()
    closing: Sequence[str] = ()
    words: frozenset[str] = frozenset()  # in all phrases

    @classmethod
    def read(cls, file: Path) -> "SmallTalk":
        """Read lists from a file."""
        # Python's own reader takes half a second for five thousand phrases.
        lists = yaml.load(file.read_text("utf-8"), Loader=yaml.CSafeLoader)
        laughter, closing, english = lists.pop("laughter"), lists.pop("closing"), lists["en"]
        phrases = {phrase for language in lists.values() for kind in language.values() for phrase in kind}
        words = {phrase: tuple(_words(phrase)) for phrase in phrases}
        languages = []
        for language in lists.values():
            both = {kind: [*language[kind], *english[kind]] for kind in ("courtesies", "agreement")}
            languages.append(
                _Language(**{kind: _by_first_word(said, words) for kind, said in {**language, **both}.items()})
            )
        return cls(
            languages,
            [re.compile(pattern) for pattern in laughter],
            [" ".join(_words(phrase)) for phrase in closing],
            frozenset(word for phrase in words.values() for word in phrase),
        )

    def match(self, turns: Sequence[Turn]) -> bool:
        """Whether the latest turn, the user's, is small talk."""
        text = turns[-1].text
        if not self.languages or len(text) > _MOST_CHARS or _FLAG.search(text):
            return False
        words = []
        for word in map(self._known_form, _words(_EMOTICON.sub(" ", text))):
            if word not in self.words and not self._laughs(word):
                return False  # most messages end here
            words.append(word)
        languages = self.languages
        if _QUESTION_MARK.search(text):
            return any(self._is(words, [to.questions], [to.courtesies, to.agreement, to.beside]) for to in languages)
        if any(self._is(words, [to.courtesies], [to.beside]) for to in languages):
            return True
        answer = turns[-2].text if len(turns) > 1 and turns[-2].role == "assistant" else ""
        if not answer or self._asks(answer):  # one word alone may be a search
            return False
        cores = ([to.courtesies, to.agreement, to.questions] for to in languages)
        return not words or any(self._is(words, core, [to.beside]) for core, to in zip(cores, languages, strict=True))

    def _known_form(self, word: str) -> str:
        """The word as phrases have it, if it has letters too many: "thaaanks"."""
        if word in self.words:
            return word
        forms = (_REPEATED.sub(r"\1\1", word), _REPEATED.sub(r"\1", word))
        return next((form for form in forms if form in self.words), word)

    def _laughs(self, word: str) -> bool:
        return any(pattern.fullmatch(word) for pattern in self.laughter)

    def _is(self, words: Sequence[str], core: Sequence[_Phrases], beside: Sequence[_Phrases]) -> bool:
        """Whether phrases make up all words, including one from `core` or laughter."""
        reached = {(0, False)}  # number of words, and whether a `core` phrase was among them
        for at, word in enumerate(words):
            for seen in (False, True):
                if (at, seen) not in reached:
                    continue
                for kinds, is_core in ((core, True), (beside, seen)):
                    for phrase in (phrase for kind in kinds for phrase in kind.get(word, ())):
                        if tuple(words[at : at + len(phrase)]) == phrase:
                            reached.add((at + len(phrase), is_core))
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


def _words(text: str) -> list[str]:
    """A text's words without case and accents; each Chinese or Japanese sign is one."""
    text = _APOSTROPHES.sub("", text).casefold()
    if text.isascii():
        return _WORD.findall(text)
    text = unicodedata.normalize("NFKD", text)
    return _WORD.findall(
        "".join(
            char
            for char in text
            if _NO_ACCENT.match(char) or (unicodedata.category(char) not in ("Mn", "Cf") and char != "ـ")
        )
    )


def _by_first_word(phrases: Iterable[str], words: Mapping[str, _Phrase]) -> _Phrases:
    found: dict[str, list[_Phrase]] = {}
    for phrase in phrases:
        found.setdefault(words[phrase][0], []).append(words[phrase])
    return found
