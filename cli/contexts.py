"""What a model is to write of each chunk (`ingest.context`), asked for before the ingest that embeds it.

The index says what it lacks, the model is asked by `proxy.model_calls`, each answer is kept by its content as
soon as it is there (`retrieval.ingest.context`). So an interrupted run goes on from where it was, and a chunk that the
model did not answer for is ingested without, to be asked for again by the next ingest.
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

from cli.build import enrichments, model_calls
from cli.common import confirm, echo, progress_bar
from config.settings import Settings, SettingsError
from proxy.access.rights import EVERYTHING
from proxy.errors import ApiError
from proxy.model_calls import COMMAND_LINE, NoAnswer
from retrieval.errors import RetrievalError, Unreadable
from retrieval.ingest.context import FILE, Contexts
from retrieval.knowledge import Knowledge
from retrieval.records.ingest import EnrichmentPlan, MissingEnrichment, PendingDocument

Ask = Callable[[str], Awaitable[str]]  # a prompt -> the model's answer; raises NoAnswer

# Of a document that a model is shown around a chunk, 6,000 tokens of English. It moves by half of itself, so that the
# chunks of one place are asked about with the same beginning, which providers keep and charge less for.
_DOCUMENT_CHARS = 24_000
_ANSWER_TOKENS = 300  # at most; what is kept of it is `ingest.context_tokens`
_LIKELY_ANSWER_TOKENS = 60
_CHARS_OF_A_TOKEN = 4  # of English; an estimate is all it is for
_TRIES = 5
_PAUSE_S = 1.0  # before the second try, twice as long before each further one
_HOPELESS = 10  # calls in a row without an answer: the rest is not asked
_PASSING = re.compile(r"status (429|5\d\d)|upstream_\w+|.* broke off")  # as `ask` names what may be otherwise soon
_PLACES = re.compile(r"\{(title|document|passage)\}")


@dataclass(slots=True)
class Survey:
    """What there is to be asked."""

    changed: list[PendingDocument] = field(default_factory=list)  # the documents with gaps
    calls: int = 0
    chars: int = 0  # of all prompts

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
    """Ask for what the next ingest of these paths lacks (without paths: the next rebuild), once that was agreed to.

    Raises click.Abort where it was not, SettingsError, RetrievalError.
    """
    if not settings.ingest.context:
        return
    prompts = {one.kind: one.prompt for one in enrichments(settings)}
    model = settings.ingest.context_model
    async with model_calls(settings) as (models, routes):
        try:
            target = routes.resolve(model, EVERYTHING)
        except ApiError as error:
            raise SettingsError(f"ingest.context_model: {error}") from error
        survey = await look(documents, paths, collection, prompts, exclude)
        if not survey.calls:
            return
        echo(f"{collection}: {estimate(survey, model, price_of(target.model))}", err=True)
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


async def look(
    documents: Knowledge,
    paths: Sequence[Path],
    collection: str,
    prompts: Mapping[str, str],
    exclude: Sequence[str] = (),
) -> Survey:
    """What is to be asked, without asking."""
    survey = Survey()
    for changed in await documents.writing.pending_documents(paths, collection, exclude):
        try:
            outline = await documents.writing.enrichment_plan(changed, collection)
        except Unreadable:  # the ingest names it
            continue
        if outline.missing:
            survey.changed.append(changed)
            survey.calls += len(outline.missing)
            survey.chars += sum(len(rendered(prompts[gap.kind], outline, gap)) for gap in outline.missing)
    return survey


def estimate(survey: Survey, model: str, price: tuple[float, float] | None) -> str:
    """One line: calls, tokens, money. price: dollars of a token in and out."""
    line = (
        f"{survey.calls:,} calls to {model} for {len(survey.changed):,} documents, about {survey.tokens_in():,} tokens "
        f"in and {survey.tokens_out():,} out"
    )
    if price is None:
        return f"{line}; its price is not known"
    dollars = survey.tokens_in() * price[0] + survey.tokens_out() * price[1]
    return f"{line}, about ${dollars:,.2f} by litellm's price table (less where the provider keeps repeated beginnings)"


def price_of(model: str) -> tuple[float, float] | None:
    """Dollars of a token in and of one out, as litellm's table has them; None where it has not."""
    from proxy.upstream.translated.lane import prices

    return prices(model)


def rendered(prompt: str, outline: EnrichmentPlan, gap: MissingEnrichment) -> str:
    """The prompt about one chunk."""
    text, half = outline.text, _DOCUMENT_CHARS // 2
    start = max(0, min((gap.start // half) * half - half // 2, len(text) - _DOCUMENT_CHARS))
    around = text[start : max(start + _DOCUMENT_CHARS, gap.end)]
    passage = text[gap.start : gap.end]
    values = {"title": outline.title, "document": around, "passage": "\n".join([*gap.headings, passage])}
    return _PLACES.sub(lambda place: values[place[1]], prompt)


class Writer:
    """Asks for each gap and keeps the answers."""

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
        self._in_vain = 0  # calls in a row

    async def write(self, documents: Knowledge, changed: Sequence[PendingDocument], collection: str) -> list[str]:
        """Fill the gaps of these documents; returns what is to be said of it, a line each."""
        progress, done = progress_bar("context", "calls"), itertools.count(1)
        try:
            async with asyncio.TaskGroup() as tasks:
                for one in changed:
                    try:
                        outline = await documents.writing.enrichment_plan(one, collection)
                    except Unreadable:
                        continue
                    for gap in outline.missing:
                        await self._free.acquire()  # here, so that few prompts wait in memory
                        task = tasks.create_task(self._fill(outline, gap))
                        task.add_done_callback(lambda _: self._free.release())
                        task.add_done_callback(lambda _: progress(next(done), self._total, 0))
        finally:
            progress(self._total, self._total, 0)
            self._contexts.close()
        lines = []
        for reason, count in self._failed.most_common():
            what = "1 chunk" if count == 1 else f"{count:,} chunks"
            lines.append(f"the model wrote nothing of {what} ({reason}): ingested without, the next ingest asks again")
        return lines

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
        """The model's answer, asked for again while what went wrong may pass. Raises NoAnswer."""
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
