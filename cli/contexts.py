"""Enrichment (`ingest.context`): a model writes a context for each chunk, before ingest embeds it.

The index lists missing contexts, `proxy.model_calls` asks the model, and each answer is stored at once
(`retrieval.ingest.context`). So a repeated run continues an interrupted one, and a chunk without an answer is ingested
without context; the next ingest asks again.
"""

import asyncio
import itertools
import random
import re
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cli.assembly.index import enrichments
from cli.assembly.models import model_calls
from cli.common import confirm, echo, progress_bar
from config.sections import Settings
from config.settings import SettingsError
from proxy.caller import EVERYTHING
from proxy.dialects.errors import ApiError
from proxy.model_calls import COMMAND_LINE, NoAnswer
from retrieval.errors import RetrievalError, Unreadable
from retrieval.ingest.context import FILE, Contexts
from retrieval.knowledge import Knowledge
from retrieval.records.ingest import EnrichmentPlan, MissingEnrichment, PendingDocument

Ask = Callable[[str], Awaitable[str]]  # a prompt -> the model's answer; raises NoAnswer

# How much of a document surrounds a chunk in the prompt: 6,000 tokens of English. That window moves by half its length,
# so that prompts for neighbouring chunks begin alike: providers cache their beginning and charge less.
_DOCUMENT_CHARS = 24_000
_ANSWER_TOKENS = 300  # at most; `ingest.context_tokens` of them are stored
_LIKELY_ANSWER_TOKENS = 60
_CHARS_OF_A_TOKEN = 4  # in English, for the estimate
_TRIES = 5
_PAUSE_S = 1.0  # before the second try; doubles with each further one
_HOPELESS = 10  # failed calls in a row, after which no more are made
_PASSING = re.compile(r"status (429|5\d\d)|upstream_\w+|.* broke off")  # NoAnswer's messages for faults that may pass
_PLACES = re.compile(r"\{(title|document|passage)\}")


@dataclass(slots=True)
class EnrichmentSurvey:
    """Contexts that some documents lack."""

    changed: list[PendingDocument] = field(default_factory=list)  # documents with gaps
    calls: int = 0
    chars: int = 0  # in all prompts

    def tokens_in(self) -> int:
        return self.chars // _CHARS_OF_A_TOKEN

    def tokens_out(self) -> int:
        return self.calls * _LIKELY_ANSWER_TOKENS


async def write_contexts(
    settings: Settings,
    documents: Knowledge,
    paths: Sequence[Path],
    collection: str,
    *,
    yes: bool,
    exclude: Sequence[str] = (),
) -> None:
    """Write missing contexts for the next ingest of these paths (no paths: the next rebuild), after consent.

    Raises click.Abort without consent, SettingsError, RetrievalError.
    """
    if not settings.ingest.context:
        return
    from proxy.upstream.translated.lane import prices

    prompts = {one.kind: one.prompt for one in enrichments(settings)}
    model = settings.ingest.context_model
    async with model_calls(settings) as (models, routes):
        try:
            target = routes.resolve(model, EVERYTHING)
        except ApiError as error:
            raise SettingsError(f"ingest.context_model: {error}") from error
        survey = await survey_of(documents, paths, collection, prompts, exclude)
        if not survey.calls:
            return
        echo(f"{collection}: {estimate_line(survey, model, prices(target.model))}", err=True)
        if not yes:
            confirm()

        async def ask(prompt: str) -> str:
            messages = [{"role": "user", "content": prompt}]
            return await models.complete(model, target, messages, owner=COMMAND_LINE, max_tokens=_ANSWER_TOKENS)

        at_once = settings.ingest.context_concurrency
        writer = Writer(ask, prompts, open_contexts(Path(settings.data)), at_once=at_once, total=survey.calls)
        for line in await writer.write(documents, survey.changed, collection):
            echo(f"{collection}: {line}", err=True)


def open_contexts(data: Path) -> Contexts:
    try:
        return Contexts(data / FILE)
    except sqlite3.Error as error:
        raise RetrievalError(f"cannot use {data / FILE}: {error}; move it away to have it made anew") from error


async def survey_of(
    documents: Knowledge,
    paths: Sequence[Path],
    collection: str,
    prompts: Mapping[str, str],
    exclude: Sequence[str] = (),
) -> EnrichmentSurvey:
    """What contexts are missing; makes no call."""
    survey = EnrichmentSurvey()
    for changed in await documents.writing.pending_documents(paths, collection, exclude):
        try:
            outline = await documents.writing.enrichment_plan(changed, collection)
        except Unreadable:  # ingest reports the file
            continue
        if outline.missing:
            survey.changed.append(changed)
            survey.calls += len(outline.missing)
            survey.chars += sum(len(rendered(prompts[gap.kind], outline, gap)) for gap in outline.missing)
    return survey


def estimate_line(survey: EnrichmentSurvey, model: str, price: tuple[float, float] | None) -> str:
    """One line of text: calls, tokens, dollars. price: dollars per token in and per token out."""
    line = (
        f"{survey.calls:,} calls to {model} for {len(survey.changed):,} documents, about {survey.tokens_in():,} tokens "
        f"in and {survey.tokens_out():,} out"
    )
    if price is None:
        return f"{line}; its price is not known"
    dollars = survey.tokens_in() * price[0] + survey.tokens_out() * price[1]
    return f"{line}, about ${dollars:,.2f} by litellm's price table (less if the provider keeps repeated beginnings)"


def rendered(prompt: str, outline: EnrichmentPlan, gap: MissingEnrichment) -> str:
    """The prompt for one chunk."""
    text, half = outline.text, _DOCUMENT_CHARS // 2
    start = max(0, min((gap.start // half) * half - half // 2, len(text) - _DOCUMENT_CHARS))
    around = text[start : max(start + _DOCUMENT_CHARS, gap.end)]
    passage = text[gap.start : gap.end]
    values = {"title": outline.title, "document": around, "passage": "\n".join([*gap.headings, passage])}
    return _PLACES.sub(lambda place: values[place[1]], prompt)


class Writer:
    """Asks for each missing context and stores the answers."""

    def __init__(
        self,
        ask: Ask,
        prompts: Mapping[str, str],
        contexts: Contexts,
        *,
        at_once: int,
        total: int,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._ask = ask
        self._prompts = prompts
        self._contexts = contexts
        self._free = asyncio.Semaphore(at_once)
        self._total = total
        self._pause = pause
        self._failed: Counter[str] = Counter()  # why -> how many
        self._in_vain = 0  # failed calls in a row

    async def write(self, documents: Knowledge, changed: Sequence[PendingDocument], collection: str) -> list[str]:
        """Write missing contexts for these documents; returns lines about failures."""
        progress, done = progress_bar("context", "calls"), itertools.count(1)
        try:
            async with asyncio.TaskGroup() as tasks:
                for one in changed:
                    try:
                        outline = await documents.writing.enrichment_plan(one, collection)
                    except Unreadable:
                        continue
                    for gap in outline.missing:
                        await self._free.acquire()  # before the task, so that few prompts wait in memory
                        task = tasks.create_task(self._fill(outline, gap))
                        task.add_done_callback(lambda _: self._free.release())
                        task.add_done_callback(lambda _: progress(next(done), self._total, 0))
        finally:
            progress(self._total, self._total, 0)
            self._contexts.close()
        return [
            f"the model wrote nothing of {count:,} chunk{'s' if count != 1 else ''} ({reason}): ingested without, the "
            "next ingest asks again"
            for reason, count in self._failed.most_common()
        ]

    async def _fill(self, outline: EnrichmentPlan, gap: MissingEnrichment) -> None:
        if self._in_vain >= _HOPELESS:
            self._failed["not asked, after too many calls without an answer"] += 1
            return
        try:
            text = await self._answer(rendered(self._prompts[gap.kind], outline, gap))
        except NoAnswer as error:
            self._failed[str(error)] += 1
            self._in_vain += 1
            return
        self._in_vain = 0
        self._contexts.put(gap.key, text)

    async def _answer(self, prompt: str) -> str:
        """The model's answer, trying again after faults that may pass. Raises NoAnswer."""
        for tried in range(1, _TRIES + 1):
            try:
                text = (await self._ask(prompt)).strip()
            except NoAnswer as error:
                if tried == _TRIES or not _PASSING.fullmatch(str(error)):
                    raise
                await self._pause(_PAUSE_S * 2 ** (tried - 1) * random.uniform(0.75, 1.25))
            else:
                if not text:
                    raise NoAnswer("an empty answer")
                return text
        raise AssertionError("the last try returns or raises")
