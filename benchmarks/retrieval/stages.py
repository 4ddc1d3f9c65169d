"""What each stage of ingest and search is worth: the configured search with everything, and with one stage left out.

    python benchmarks/retrieval/stages.py DIR [DIR…] [--stages NAME,NAME…] [--data DIR] [--cache DIR] [--limit N]
    python benchmarks/retrieval/stages.py DIR [DIR…] --instead NAME=VALUE,VALUE… [--anew]
    python benchmarks/retrieval/stages.py DIR [DIR…] --operations [--others FOLDER --among N] …

Each DIR is a judged set in BEIR's form, as for `ragway eval`, or with --operations as for actions.py, which also
explains --others and --among. A stage is left out by replacing its function here, so the product needs no setting for
it. With --instead, other values of a constant are measured in place of stages: NAME is a field of `SearchOptions`
(rrf_k) or a constant of a module (retrieval.search.ranking._GAIN); with --anew, the documents are read again for each
value. Besides the judged questions of documents, two kinds are made from a set: two single questions as one message
(relevant is what is relevant for either), and questions about an identifier that stands in at most three documents
(relevant are these).

The tables go to standard output as Markdown: what is lost without the stage, with paired 95 % intervals, for each set,
for the mean of the sets, and the lowest and highest mean with one set left out. *changed*: questions whose ranking the
stage changes in its first ten, or of which other documents are injected. *injected*: recall of what is injected.
"""

import ast
import asyncio
import random
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    closing,
    nullcontext,
)
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common.arguments import parser_of
from benchmarks.common.output import say, table
from benchmarks.retrieval.actions import documents_beside, own_of
from cli.assembly.index import plan
from config.settings import load
from evaluation.retrieval.judged import JudgedQuestion, JudgedSet, corpus, judged_id, read
from evaluation.retrieval.metrics import ndcg, recall
from evaluation.retrieval.operations import OperationSubject
from evaluation.retrieval.subjects import DocumentSubject, Subject, temporary_index
from evaluation.stats.significance import difference, interval, mean_difference
from proxy.apis.library import COLLECTION, ActionLibrary, ActionStore
from proxy.apis.specs import ReadDocument, rows_of
from retrieval.knowledge import Plan, SearchOptions
from retrieval.lexical.terms import exact_terms, identifiers
from retrieval.records.documents import Document, lexical_text
from retrieval.records.search import Candidate, ScoredId, Turn
from retrieval.search.ranking import Scale, fuse
from retrieval.search.rewrite import split_questions

JUDGED, PAIRS, IDENTIFIERS = "judged", "two questions in one", "identifiers"
_K = 10
_MOST_HOLDERS = 3  # documents with an identifier
_ADDRESS = "https://api.example.com"

METRICS = ("nDCG@10", "recall@10", "injected")
Ranking = tuple[list[str], list[str]]  # a question's first ten documents, and those injected
Rankings = list[Ranking]
Questions = Mapping[str, Sequence[JudgedQuestion]]  # by kind
Opened = Callable[[], AbstractAsyncContextManager[Subject]]


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage, and how to leave it out."""

    name: str
    function: str  # as for `unittest.mock.patch`; or a field of `SearchOptions`
    instead: Any
    at_ingest: bool = False
    of_operations: bool = False  # only operations have it
    kinds: Sequence[str] = (JUDGED,)
    concerns: Callable[[str], object] | None = None  # questions; None: all

    def left_out(self) -> AbstractContextManager[object]:
        return patch(self.function, self.instead) if "." in self.function else nullcontext()

    def options(self, base: SearchOptions) -> SearchOptions:
        return base if "." in self.function else replace(base, **{self.function: self.instead})


def by_ranks_alone(arms: Mapping[str, Sequence[ScoredId]], *, rrf_k: int, scale: Scale) -> list[Candidate]:
    with patch.multiple("retrieval.search.ranking", _SIMILARITY_WORTH=0.0, _MATCH_WORTH=0.0):
        return fuse(arms, rrf_k=rrf_k, scale=scale)


STAGES = (
    Stage("trust in words", "retrieval.search.ranking._lexical_weight", lambda arms, scale: 1.0),
    Stage("scores beside ranks", "retrieval.search.retriever.fuse", by_ranks_alone),
    Stage("said before", "retrieval.search.retriever._unsaid_first", lambda packed, turns, k: packed),
    Stage(
        "questions apart",
        "retrieval.search.rewrite.split_questions",
        lambda question: (),
        kinds=(JUDGED, PAIRS),
        concerns=split_questions,
    ),
    Stage(
        "exact match",
        "retrieval.search.retriever.exact_terms",
        lambda question: [],
        kinds=(JUDGED, IDENTIFIERS),
        concerns=exact_terms,
    ),
    Stage(
        "names of code",
        "retrieval.ingest.ingester.lexical_text",
        lambda title, headings, text, context, names, source: lexical_text(title, headings, text, context, "", source),
        at_ingest=True,
    ),
    Stage(
        "producers",
        "proxy.apis.library.whole_groups",
        lambda groups, k: [group[0] for group in groups][:k],
        of_operations=True,
    ),
    Stage("names apart", "proxy.apis.library.without_names", lambda question: "", of_operations=True),
    Stage(
        "descriptions apart",
        "proxy.apis.specs.description_of",
        lambda operation: "",
        at_ingest=True,
        of_operations=True,
    ),
    Stage(
        "text about the API",
        "proxy.apis.specs.api_text",
        lambda document, operations: "",
        at_ingest=True,
        of_operations=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Loss:
    """One set's rankings with and without a stage, as scores (`METRICS`) of each question."""

    stage: str
    kind: str
    set: str
    whole: Sequence[Sequence[float]]
    without: Sequence[Sequence[float]]
    changed: int

    def pairs(self, metric: int) -> tuple[list[float], list[float]]:
        return [one[metric] for one in self.without], [one[metric] for one in self.whole]


@dataclass(frozen=True, slots=True)
class How:
    """The configured search, and the cache of vectors."""

    base: Plan
    cache: Path


# --- what is searched ------------------------------------------------------------------------------------------------


@asynccontextmanager
async def documents_of(judged: JudgedSet, documents: Sequence[Document], how: How) -> AsyncIterator[Subject]:
    """A collection of a set's documents."""
    async with temporary_index(how.base, how.cache) as (index, _):
        await index.writing.learn(documents, "stages", lambda *_: None)
        yield DocumentSubject(index, judged, "stages", "documents", "", (), 0)


@asynccontextmanager
async def operations_of(folder: Path, others: Mapping[str, ReadDocument], how: How) -> AsyncIterator[Subject]:
    """Action sets of a judged set, and others beside them."""
    own = own_of(folder)
    labels: dict[str, list[str]] = defaultdict(list)
    for (name, operation), id in own.ids.items():
        labels[id].append(f"{name}/{operation}")
    questions = [
        replace(one, gold={label: grade for id, grade in one.gold.items() for label in labels[id]})
        for one in own.judged.questions
    ]
    judged, sets = replace(own.judged, questions=tuple(questions)), {**own.sets, **others}
    async with temporary_index(how.base, how.cache) as (index, data):
        with closing(ActionStore(data)) as store:
            library = ActionLibrary(store, index)
            for name, document in sets.items():
                await library.write(name, rows_of(name, document, _ADDRESS))
            yield OperationSubject(index, judged, COLLECTION, "operations", "", (), len(sets), store, list(sets))


# --- the questions ---------------------------------------------------------------------------------------------------


def paired(judged: JudgedSet, *, limit: int) -> list[JudgedQuestion]:
    """At most `limit` messages of two questions that stand alone."""
    alone = [one for one in judged.questions if one.rewrite or len(one.turns) == 1]
    draw, made = random.Random(judged.name), dict[str, JudgedQuestion]()
    for _ in range(10 * limit if len(alone) > 1 else 0):
        chosen = draw.sample(alone, 2)
        text = " ".join(f"{(one.rewrite or one.text).rstrip(' .?!')}?" for one in chosen)
        if len(split_questions(text)) == 2:
            gold = {**chosen[0].gold, **chosen[1].gold}
            made.setdefault(text, JudgedQuestion(text, (Turn("user", text),), "", gold))
    return list(made.values())[:limit]


def named(judged: JudgedSet, documents: Sequence[Document], *, limit: int) -> list[JudgedQuestion]:
    """At most `limit` questions about an identifier that stands in few documents."""
    holders: dict[str, dict[str, int]] = defaultdict(dict)
    for document in documents:
        for name in identifiers(document.text):
            holders[name][judged_id(document.source, judged.ids)] = 1
    asked = {
        f"What is {name}?": gold
        for name, gold in sorted(holders.items())
        if len(gold) <= _MOST_HOLDERS and any(map(str.isalpha, name)) and exact_terms(f"What is {name}?")
    }
    drawn = random.Random(judged.name).sample(list(asked), min(limit, len(asked)))
    return [JudgedQuestion(text, (Turn("user", text),), "", asked[text]) for text in drawn]


# --- the runs --------------------------------------------------------------------------------------------------------


async def losses(name: str, opened: Opened, questions: Questions, stages: Sequence[Stage], how: How) -> list[Loss]:
    """Every stage's losses on one set."""
    found = list[Loss]()

    def lost(stage: Stage, subject: Subject, without: Mapping[str, Rankings]) -> Iterator[Loss]:
        for kind, rankings in without.items():
            asked = questions[kind] or subject.judged.questions
            rows = list(zip(asked, whole[kind], rankings, strict=True))
            yield _loss(stage.name, kind, name, rows)
            if kind == JUDGED and stage.concerns and (some := [row for row in rows if stage.concerns(row[0].text)]):
                yield _loss(stage.name, f"{JUDGED}, concerned", name, some)

    async with opened() as subject:
        whole = {kind: await _rankings(subject, questions[kind], how) for kind in questions}
        for stage in stages:
            if stage.at_ingest:
                continue
            say(f"{name}: without {stage.name}")
            without = {}
            with stage.left_out():
                for kind in stage.kinds:
                    if kind in questions:
                        without[kind] = await _rankings(subject, questions[kind], how, (stage, whole[kind]))
            found += lost(stage, subject, without)
    for stage in stages:
        if stage.at_ingest:
            say(f"{name}: without {stage.name}")
            with stage.left_out():
                async with opened() as subject:
                    found += lost(stage, subject, {JUDGED: await _rankings(subject, questions[JUDGED], how)})
    return found


async def _rankings(
    subject: Subject,
    questions: Sequence[JudgedQuestion],
    how: How,
    known: tuple[Stage, Rankings] | None = None,
) -> Rankings:
    """The first ten of each question; without questions, of each judged one.

    known: a stage and the rankings with it; a question that does not concern the stage is not asked again.
    """
    options = how.base.search if known is None else known[0].options(how.base.search)
    retriever = subject.index.retriever_with(options, questions=how.cache)
    found = []
    for number, question in enumerate(questions or subject.judged.questions):
        if known is not None and not _concerned(known[0], question):
            found.append(known[1][number])
            continue
        answer = await subject.ask(retriever, options, question.turns, None)
        found.append(([one.id for one in answer.found][:_K], sorted(set(answer.injected))))
    return found


def _concerned(stage: Stage, question: JudgedQuestion) -> bool:
    """Whether the stage can change the question's ranking; it may read earlier turns, too."""
    return stage.concerns is None or any(stage.concerns(turn.text) for turn in question.turns)


def _loss(stage: str, kind: str, name: str, rows: Sequence[tuple[JudgedQuestion, Ranking, Ranking]]) -> Loss:
    def scores(ranking: Ranking, question: JudgedQuestion) -> Sequence[float]:
        found, injected = ranking
        gold = question.gold
        return ndcg(found, gold, _K), recall(found, gold, _K), recall(injected, gold, len(injected))

    whole = [scores(with_stage, question) for question, with_stage, _ in rows]
    without = [scores(left_out, question) for question, _, left_out in rows]
    return Loss(stage, kind, name, whole, without, sum(one != other for _, one, other in rows))


# --- the tables ------------------------------------------------------------------------------------------------------


def page(found: Sequence[Loss]) -> str:
    """A table for each stage and kind of question."""
    of: dict[tuple[str, str], list[Loss]] = defaultdict(list)
    for one in found:
        of[one.stage, one.kind].append(one)
    head = ("set", "questions", "changed", "nDCG@10, with", *(f"{metric}, paid" for metric in METRICS))
    return "\n\n".join(f"## {stage}: {kind}\n\n{table(head, _rows(some))}" for (stage, kind), some in of.items())


def _rows(some: Sequence[Loss]) -> Iterator[Sequence[str]]:
    metrics = range(len(METRICS))
    for one in some:
        paid = [interval(difference(*one.pairs(metric), seed=0)) for metric in metrics]
        mean = sum(scores[0] for scores in one.whole) / len(one.whole)
        yield (one.set, str(len(one.whole)), str(one.changed), f"{mean:.3f}", *paid)
    if len(some) < 2:
        return
    asked, changed = sum(len(one.whole) for one in some), sum(one.changed for one in some)
    means = [interval(mean_difference([one.pairs(metric) for one in some], seed=0)) for metric in metrics]
    yield (f"mean of {len(some)} sets", str(asked), str(changed), "", *means)
    spans, pooled = [], []
    for metric in metrics:
        each = [difference(*one.pairs(metric), seed=0).mean for one in some]
        held = [(sum(each) - one) / (len(each) - 1) for one in each]
        spans.append(f"{min(held):+.3f} to {max(held):+.3f}")
        without, whole = ([value for one in some for value in one.pairs(metric)[at]] for at in (0, 1))
        pooled.append(interval(difference(without, whole, seed=0)))
    yield ("one set left out", "", "", "", *spans)
    yield ("all questions alike", str(asked), str(changed), "", *pooled)


def other_values(given: Sequence[str], *, anew: bool) -> list[Stage]:
    """Each NAME=VALUE,VALUE… as stages. anew: read the documents again for each value."""
    kinds = (JUDGED, PAIRS, IDENTIFIERS)
    return [
        Stage(f"{name.rpartition('.')[2]} = {value}", name, ast.literal_eval(value), at_ingest=anew, kinds=kinds)
        for name, _, values in (one.partition("=") for one in given)
        for value in values.split(",")
    ]


async def _run(given: Any) -> list[Loss]:
    base = plan(load(flags={"data": str(given.data)}))
    how, found = How(base, given.cache.absolute()), list[Loss]()
    wanted = given.stages.split(",") if given.stages or given.instead else [one.name for one in STAGES]
    stages = [one for one in STAGES if one.name in wanted] + other_values(given.instead, anew=given.anew)
    others = documents_beside(given.others, given.among) if given.others else {}
    for folder in given.folders:
        if given.operations:
            # (): the judged questions, whose relevant operations are known only once the sets are open
            found += await losses(folder.name, partial(operations_of, folder, others, how), {JUDGED: ()}, stages, how)
        else:
            judged = read(folder)
            documents = corpus(judged, max_bytes=base.max_file_bytes).documents
            questions = {
                JUDGED: judged.questions,
                PAIRS: paired(judged, limit=given.limit),
                IDENTIFIERS: named(judged, documents, limit=given.limit),
            }
            asked = {kind: some for kind, some in questions.items() if some}
            concerned = [one for one in stages if not one.of_operations]
            found += await losses(judged.name, partial(documents_of, judged, documents, how), asked, concerned, how)
        say(page(found))  # the last sets may take an hour
    return found


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--limit", type=int, default=150, help="made questions of each kind and set")
    parser.add_argument("--operations", action="store_true", help="search operations, not documents")
    parser.add_argument("--others", type=Path, help="OpenAPI documents whose operations are searched, too")
    parser.add_argument("--among", type=int, default=0, help="number of other operations")
    parser.add_argument("--instead", action="append", default=[], help="other values of a constant, NAME=VALUE,VALUE…")
    parser.add_argument("--anew", action="store_true", help="read the documents again for each of these values")
    parser.add_argument("--stages", default="", help="stages by name, between commas (default: all)")
    print(page(asyncio.run(_run(parser.parse_args()))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
