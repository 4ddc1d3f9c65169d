"""A model rewrites the latest question (`retrieval.rewrite: llm`), raced with a search for its local form.

The search begins at once, with the question as the index rewrites it without a model. Meanwhile a model is asked for a
question that stands alone; if its answer comes in time and passes `accepted`, we search for that instead. A failure
costs nothing but the rewrite: passages for the local form are already found. The call counts as usage of the chat's
key. Neither prompt nor conversation is ever logged.
"""

import asyncio
import logging
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from config.sections import RetrievalSettings
from proxy.augment.history import head_and_end
from proxy.caller import PermittedSearch, SearchResult, search_permitted
from proxy.dialects.errors import Headers
from proxy.dialects.quoting import read_template
from proxy.dialects.replies import Tokens
from proxy.dialects.target import Target
from proxy.exchange import Exchange
from proxy.model_calls import ModelCalls, NoAnswer, owner_of
from retrieval.errors import RetrievalError
from retrieval.knowledge import Knowledge
from retrieval.records.search import Turn

log = logging.getLogger("ragway")

REWRITTEN = "rewritten by the model"
UNRESOLVED = "unresolved"  # no answer, or one with names that the conversation lacks
LATE = "rewriting took too long"
FAILED = "rewriting failed"

_MOST_TURNS = 8  # for the model, before the latest message
MAX_TOKENS = 200
_MOST_ADDED_CHARS = 300  # how much longer than the message a rewrite may be
_KEPT_SHARE = 0.05  # of the time for retrieval: enough to fall back on the local form
_QUOTES = "\"'`“”„«»‘’ "
_MARKS = ("?", "？", "؟", ";")
_WORD = re.compile("[^\\W\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]+")  # Chinese has neither capitals nor gaps
_QUOTED = re.compile(r"[\"“”„«»`]([^\"“”„«»`]{1,200})[\"“”„«»`]")
_HAS_DIGIT = re.compile(r"\d")
# First words of questions and requests: capitalised, but not names.
_BEGINNINGS = frozenset(
    """a an and are at by can compare could define describe did do does explain find for from give had has have how i if
    in is list may must name of on or please provide regarding shall should show summarize tell that the there these
    this those to under was were what when where which who whom whose why will with would""".split()
)


class Prompt:
    """Asks a model for a rewrite."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts = re.split(r"(\{conversation\}|\{question\})", text)

    @staticmethod
    def read(file: Path) -> "Prompt":
        """Raises TemplateError if the file cannot be read or lacks {conversation} or {question}."""
        return Prompt(read_template(file, "prompt", "{conversation}", "{question}"))

    def render(self, turns: Sequence[Turn]) -> str:
        """The prompt to rewrite a conversation's last message."""
        said = [f"{turn.role.capitalize()}: {_clip(turn.text)}" for turn in turns[:-1][-_MOST_TURNS:]]
        values = {"{conversation}": "\n".join(said), "{question}": _clip(turns[-1].text)}
        return "".join(values.get(part, part) for part in self._parts)


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Asks one model for stand-alone questions."""

    models: ModelCalls
    target: Target
    prompt: Prompt
    settings: RetrievalSettings

    async def search(
        self, knowledge: Knowledge, asked: PermittedSearch, exchange: Exchange, headers: Headers
    ) -> SearchResult:
        """Search for the model's rewrite, or for the local form if there is none.

        exchange: the chat's, which records a step. headers: the client's.
        Raises what a search for the local form raises.
        """
        until_s = asyncio.get_running_loop().time() + self.settings.deadline_s * (1 - _KEPT_SHARE)
        began = time.perf_counter()
        local = asyncio.ensure_future(search_permitted(knowledge, asked))
        asking = asyncio.ensure_future(self._ask(asked.turns, exchange, headers))
        for task in (local, asking):  # retrieve exceptions: asyncio warns about unread ones
            task.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            done, _ = await asyncio.wait({local, asking}, return_when=asyncio.FIRST_COMPLETED)
            if local in done:
                local.result()  # if the local search fails, so would one for a rewrite
            await asyncio.wait({asking})
            text, why = _outcome(asking, asked.turns)
            exchange.ended_step("rewrite_model", began, self.target.model)
            better = await self._search_again(knowledge, asked, text, until_s) if text else None
            return better or _noted(await local, why if text is None else LATE)
        finally:
            local.cancel()
            asking.cancel()

    async def _ask(self, turns: Sequence[Turn], exchange: Exchange, headers: Headers) -> str:
        """The model's answer. Raises NoAnswer, TimeoutError."""

        def spent(tokens: Tokens) -> None:
            exchange.rewriting = self.settings.rewrite_model, tokens

        messages = [{"role": "user", "content": self.prompt.render(turns)}]
        async with asyncio.timeout(self.settings.rewrite_deadline_s):
            return await self.models.complete(
                self.settings.rewrite_model,
                self.target,
                messages,
                owner=owner_of(exchange),
                max_tokens=MAX_TOKENS,
                headers=headers,
                spent=spent,
            )

    async def _search_again(
        self, knowledge: Knowledge, asked: PermittedSearch, text: str, until_s: float
    ) -> SearchResult | None:
        """Search for a rewrite; None if that fails or takes too long, so that the local result must do.

        Earlier answers go along: passages that they said go behind the others.
        """
        answers = [turn for turn in asked.turns if turn.role == "assistant"]
        try:
            async with asyncio.timeout_at(until_s):
                searched = await search_permitted(knowledge, replace(asked, turns=[*answers, Turn("user", text)]))
        except (RetrievalError, TimeoutError):
            return None
        return _because(searched, REWRITTEN)


def _outcome(asking: "asyncio.Future[str]", turns: Sequence[Turn]) -> tuple[str | None, str]:
    """A rewrite, or None and a reason."""
    fault = asking.exception()
    if isinstance(fault, TimeoutError):
        return None, LATE
    if fault is not None:
        # Only the kind: an error's words may quote the prompt.
        log.warning("rewriting failed: %s", fault if isinstance(fault, NoAnswer) else type(fault).__name__)
        return None, FAILED
    text = tidied(asking.result())
    return (text, "") if accepted(text, turns) else (None, UNRESOLVED)


def _noted(searched: SearchResult, why: str) -> SearchResult:
    return _because(searched, f"{searched.retrieved.query.reason}, {why}")


def _because(searched: SearchResult, reason: str) -> SearchResult:
    retrieved = searched.retrieved
    return replace(searched, retrieved=replace(retrieved, query=replace(retrieved.query, reason=reason)))


def has_history(turns: Sequence[Turn]) -> bool:
    """Whether the latest question follows other messages: else a rewrite adds nothing."""
    return any(turn.text.strip() for turn in turns[:-1])


def tidied(answer: str) -> str:
    """Remove quotes and spaces that models add."""
    text = answer.strip()
    if len(text) > 1 and text[0] in _QUOTES and text[-1] in _QUOTES:
        text = text.strip(_QUOTES)
    return text


def accepted(text: str, turns: Sequence[Turn]) -> bool:
    """Whether a rewrite may replace the last of `turns`.

    Refused: an empty or UNRESOLVED answer, several lines, far more text than before, a statement instead of a question,
    and names that the conversation lacks: capitalised words, numbers, code, quotations.
    """
    message = turns[-1].text
    if not text or UNRESOLVED.upper() in text or "\n" in text or len(text) > len(message) + _MOST_ADDED_CHARS:
        return False
    if message.rstrip().endswith(_MARKS) and not text.rstrip(_QUOTES + ".!").endswith(_MARKS):
        return False
    said = " ".join(turn.text for turn in turns).casefold()
    known = set(_WORD.findall(said))
    if any(quoted.casefold().strip() not in said for quoted in _QUOTED.findall(text)):
        return False
    return all(_is_known(word, known) for word in _names(text))


def _names(text: str) -> list[str]:
    """Words that may be names: with a capital, digit or underscore; a first word only if unusual."""
    names = []
    begins = True
    for found in _WORD.finditer(text):
        word = found[0]
        cased = word.upper() != word.lower() and (not word.islower() or "_" in word)
        usual = word == "I" or (begins and word.lower() in _BEGINNINGS)
        if (cased and not usual) or _HAS_DIGIT.search(word):
            names.append(word)
        begins = text[found.end() : found.end() + 2].strip() in (".", "!", "?", ":")
    return names


def _is_known(word: str, known: set[str]) -> bool:
    """Whether a word occurs in the conversation, as singular, plural or genitive."""
    word = word.casefold()
    return word in known or word.removesuffix("s") in known or f"{word}s" in known


def _clip(text: str) -> str:
    """How a long message begins and ends, without tags that would close the quotation."""
    return head_and_end(text.strip().replace("</", "< /"))
