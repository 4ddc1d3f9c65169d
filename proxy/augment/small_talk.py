"""Small talk: messages that ask for nothing, and get no passages.

In a conversation, a search for "thanks" leans on earlier turns, and finds their passages again: some 2,000 tokens. We
know small talk by closed lists of phrases (`config/small_talk.yaml`), which must make up the whole message: one word
more makes it a question. An embedder does not help here: to a model made for English, "¿por qué?" and "почему?" are as
near to thanks as thanks is.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from retrieval.records.search import Turn

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
        words = [self._known_form(word) for word in _words(_EMOTICON.sub(" ", text))]
        if any(word not in self.words and not self._laughs(word) for word in words):
            return False  # most messages end here
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
        forms = (word, _REPEATED.sub(r"\1\1", word), _REPEATED.sub(r"\1", word))
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
