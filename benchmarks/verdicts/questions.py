"""Questions on a folder of pages, each with the answer and the evidence, for `verdicts.py`."""

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from evaluation.answers.records import Question
from evaluation.retrieval.judged import read

_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_SENTENCE = re.compile(r"[A-Z][^.!?]{60,240}[.!?](?=\s|$)")
# The name of an API, such as compressorList, which a model cannot guess without the page.
_NAME = re.compile(r"\b(?:[a-z]+|[A-Z][a-z]+)(?:[A-Z][a-z]+)+\b")
_IN_PAGES = 4  # a name in more pages does not identify the page


@dataclass(frozen=True, slots=True)
class Known:
    """A question, with everything that a scripted model needs for a right, wrong or lost answer."""

    question: Question
    right: str  # the answer that every score accepts
    evidence: tuple[str, ...]  # any of these texts in the prompt proves the answer; (): every model knows the answer

    @property
    def asked(self) -> str:
        """The whole text of the question, which identifies the question for a model."""
        return conversation(self.question.messages)

    @property
    def row(self) -> Mapping[str, Any]:
        """The row in the file of questions."""
        return {name: value for name, value in asdict(self.question).items() if value not in (None, (), [])}


def conversation(messages: Sequence[Mapping[str, Any]]) -> str:
    """The messages as one text."""
    return "\n".join(str(message["content"]) for message in messages)


def judged(folder: Path) -> Iterator[Known]:
    """The judged questions of a set whose corpus ids are paths of pages. A right answer names a relevant page."""
    for one in read(folder).questions:
        gold = tuple(id for id, grade in one.gold.items() if grade > 0)
        messages = [{"role": turn.role, "content": turn.text} for turn in one.turns]
        question = Question(f"judged-{one.id}", messages, must=gold[:1], gold=gold, tags=("judged",))
        yield Known(question, f"It is on the page {gold[0]}.", tuple(f"{id}.md)" for id in gold))


def chats(file: Path) -> Iterator[Known]:
    """Conversations with the expected answer, which every model knows without the pages."""
    for number, one in enumerate(yaml.safe_load(file.read_text("utf-8")), 1):
        expected = " ".join(one["expectation"].split())
        question = Question(f"chat-{number}", one["messages"], reference=expected, tags=("chats",))
        yield Known(question, expected, ())


def gaps(pages: Path, count: int) -> list[Known]:
    """Sentences of pages with a gap in place of an API name: at most one per page, always the same."""
    texts = {file.relative_to(pages).as_posix(): file.read_text("utf-8") for file in sorted(pages.rglob("*.md"))}
    spread = Counter(name for text in texts.values() for name in set(_NAME.findall(text)))
    by_text = {one.asked: one for page, text in texts.items() if (one := _gap(page, text, spread))}
    found = list(by_text.values())  # pages on several languages share sentences
    return random.Random(1).sample(found, min(count, len(found)))


def _gap(page: str, text: str, spread: Mapping[str, int]) -> Known | None:
    for sentence in _sentences(text):
        for name in _NAME.findall(sentence):
            if spread[name] <= _IN_PAGES:
                gap = re.sub(rf"\b{name}\b", "____", sentence)
                messages = [{"role": "user", "content": f"Which name stands in the gap? {gap}"}]
                gold, tags = (page.removesuffix(".md"),), ("gaps", page.partition("/")[0])
                question = Question(f"gap-{page}", messages, must=(name,), gold=gold, tags=tags)
                return Known(question, f"The name is {name}.", (name,))
    return None


def _sentences(text: str) -> Iterator[str]:
    """The sentences of a page's paragraphs, without code and lists."""
    for paragraph in re.split(r"\n\s*\n", re.sub(r"(?s)```.*?```", "", text)):
        if not paragraph.lstrip().startswith(("#", "-", "*", "|", ">", "1.", "=")):
            yield from _SENTENCE.findall(" ".join(_LINK.sub(r"\1", paragraph).split()))
