"""ragway eval: measure retrieval on judged questions, rung by rung."""

import contextlib
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from cli.common import WholeNumber, as_text, must_exist, progress_bar, run, settings_of
from cli.options import option, options, options_of
from config.sections import Settings

if TYPE_CHECKING:
    from evaluation.retrieval.judged import JudgedSet
    from evaluation.retrieval.measure import MeasureOptions
    from evaluation.retrieval.results import SetResult

_RUNGS = ("rank-bm25", "bm25", "dense", "hybrid", "rewriting", "human", "rerank", "configured")
_FILE: dict[str, Any] = {"default": "", "metavar": "FILE"}


@dataclass(frozen=True, slots=True)
class _EvalArgs:
    """The options."""

    # fmt: off
    folders: Sequence[Path]
    collection: str | None = option(
        "--collection",
        help="Ask this collection of the data folder (default: a temporary collection of DIR's documents)."
    )
    action_sets: Sequence[str] = option(
        "--actions", multiple=True, metavar="SET",
        help="Find operations in place of documents, in this action set of the data folder; may be repeated.",
    )
    specs: Sequence[Path] = option(
        "--spec", multiple=True, metavar="FILE", type=click.Path(path_type=Path, exists=True, dir_okay=False),
        help="Find operations of this OpenAPI document, in a temporary action set; may be repeated.",
    )
    embedders: Sequence[str] = option(
        "--embedder", multiple=True,
        help="Embedding model, by name or path; several are compared (default: embedder.model).",
    )
    k: int | None = option(
        "-k", "--k", type=WholeNumber(1, 100),
        help="Passages injected at most (default: retrieval.k), or operations offered (action_calls.k).",
    )
    limit: int | None = option(
        "--limit", type=WholeNumber(1), help="Ask only so many questions of each DIR, drawn at random by --seed."
    )
    rungs: Sequence[str] = option(
        "--rung", multiple=True, type=click.Choice(_RUNGS), help="Only this step of the ladder; may be repeated."
    )
    seed: int = option(
        "--seed", type=WholeNumber(0), default=0, show_default=True, help="Seed of the intervals and of --limit."
    )
    json_file: str = option("--json", **_FILE, help="Write the run as JSON; with -, print JSON in place of tables.")
    per_query: str = option(
        "--per-query", **_FILE,
        help="Write a JSON line per question and rung: question, rewrite, found, expected, every metric.",
    )
    against: str = option(
        "--against", **_FILE, help="Compare with an earlier run: the file of --json or --per-query."
    )
    markdown: bool = option("--markdown", is_flag=True, help="Print the tables as Markdown.")
    untimed: bool = option(
        "--untimed", is_flag=True,
        help="Keep the questions' embeddings between runs as well: faster, but the times have no meaning.",
    )
    cache: Path | None = option(
        "--cache", type=click.Path(path_type=Path, file_okay=False),
        help="Folder that keeps embeddings between runs; may be deleted (default: cache/ in the data folder).",
    )
    # fmt: on


@click.command("eval")
@click.argument("folders", nargs=-1, required=True, metavar="DIR...", type=click.Path(path_type=Path))
@options_of(_EvalArgs)
@options
def command(args: _EvalArgs, config_file: Path | None, data: str | None) -> None:
    """Measure retrieval on judged questions, whose relevant documents are known.

    \b
    Each DIR has BEIR's form:
      corpus.jsonl        {"_id": …, "title": …, "text": …} a line; or docs/ with files as `ragway ingest` reads them
      queries.jsonl       {"_id": …, "text": …} a line; also "history": [{"role": …, "content": …}] (the messages
                          before the question) and "rewrite" (a person's standalone version)
      qrels.tsv           query-id, corpus-id and score between tabs; score 0: not relevant
      unanswerable.jsonl  optional: questions in the form of queries.jsonl without an answer in the corpus

    The documents are read into a temporary collection. Every question is asked as a chat asks the question, on each
    rung: BM25 by rank-bm25, BM25, dense, hybrid, + rewriting, + rerank (if a rerank model is set), and last the
    configured settings. A table per DIR shows nDCG, recall (R), context precision (ctx P: share of the injected
    passages from a relevant document), context recall (ctx R: share of the relevant documents injected), MRR, MAP, the
    milliseconds per question, and the difference of nDCG@10 to the rung before with a 95 % interval, or with bounds for
    fewer than 72 questions, as in `ragway bench`. A passage counts as its document.

    ECE is the expected calibration error of the probability of relevance: 0 if of the questions with a probability of
    .8, say, 80 % have an answer here. It needs questions without one: unanswerable.jsonl, or the other DIRs' questions,
    of which about 60 are asked, too.

    With --actions or --spec the questions find operations of APIs. The qrels name operations as "METHOD /path", or by
    the name or the operationId; with several sets as "SET/METHOD /path" or SET/NAME. The set of a FILE has the file's
    name without the ending. DIR needs no documents. Hit@5 is the share of questions with a right operation among the
    first five; offer P and offer R stand in place of ctx P and ctx R, for the operations that a chat is offered.
    """
    from cli.assembly.index import plan
    from evaluation.retrieval.measure import MeasureOptions

    _check_subject(args)
    models: Sequence[str | None] = args.embedders or [None]
    found = [settings_of(config_file, data=data, embedder__model=model) for model in models]
    if args.collection is not None or args.action_sets:
        must_exist(found[0])
    _check_sets(args, found[0])
    cache = args.cache or Path(found[0].data) / "cache"
    how = [
        MeasureOptions(
            plan(settings),
            cache.absolute(),
            as_text(args.collection or ""),
            tuple(map(as_text, args.action_sets)),
            tuple(args.specs),
            args.k or (settings.action_calls.k if args.action_sets or args.specs else None),
            args.limit,
            args.seed,
            tuple(args.rungs),
            timed=not args.untimed,
        )
        for settings in found
    ]
    run(_eval(args, how))


def _check_subject(args: _EvalArgs) -> None:
    """Raise click.UsageError for options that exclude each other, and for two documents with the same name."""
    stored = [name for name, value in (("--collection", args.collection), ("--actions", args.action_sets)) if value]
    given = [*stored, *(["--spec"] if args.specs else [])]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} exclude each other")
    if stored and len(args.embedders) > 1:
        raise click.UsageError(
            f"the data folder was built with one embedder: with {stored[0]}, give --embedder once at most"
        )
    names = [file.stem for file in args.specs]
    if twice := {name for name in names if names.count(name) > 1}:
        raise click.UsageError(f"two documents are named {twice.pop()!r}: the name of a document names the set")


def _check_sets(args: _EvalArgs, settings: Settings) -> None:
    """Raise click.ClickException for an unknown action set."""
    if args.action_sets:
        from cli.actions.actions import set_of
        from cli.assembly.apis import action_store

        with contextlib.closing(action_store(settings)) as store:
            for name in args.action_sets:
                set_of(store, as_text(name))


def _interrupt(*_: object) -> None:
    """Handle SIGTERM like Ctrl-C, which cleans up; even in a shell's background job, which ignores Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)


async def _eval(args: _EvalArgs, how: Sequence["MeasureOptions"]) -> int:
    from evaluation.retrieval import compare, judged, tables
    from evaluation.retrieval.measure import measure
    from evaluation.retrieval.results import averages

    signal.signal(signal.SIGTERM, _interrupt)
    before = compare.earlier(Path(args.against)) if args.against else None  # report a wrong file before working
    sets = [judged.read(folder) for folder in args.folders]
    _check_names(sets)
    say: Callable[[str], object] = str if args.json_file == "-" else click.echo  # str: prints nothing
    runs: list[list[SetResult]] = []
    for one in how:
        results: list[SetResult] = []
        for judged_set in sets:
            result = await measure(judged_set, one, progress_bar, sets)
            results.append(result)
            say(tables.set_table(result, markdown=args.markdown, seed=args.seed))
        if len(results) > 1:
            average = averages(results, seed=args.seed)
            say(tables.average_table(average, results, markdown=args.markdown))
        runs.append(results)
    for first, other in ((runs[0], other) for other in runs[1:]):
        rows = compare.between(first, other, seed=args.seed)
        title = f"before: {first[0].embedder}; after: {other[0].embedder}"
        say(tables.comparison_table(title, rows, markdown=args.markdown))
    everything = [result for results in runs for result in results]
    if before is not None:
        rows = compare.against(before, compare.run_of(everything), seed=args.seed)
        say(tables.comparison_table(f"before: {args.against}; after: this run", rows, markdown=args.markdown))
    say(tables.load_line(everything))
    _write(args, runs)
    return 0


def _check_names(sets: Sequence["JudgedSet"]) -> None:
    names = [result_set.name for result_set in sets]
    if twice := {name for name in names if names.count(name) > 1}:
        raise click.UsageError(f"two folders are named {twice.pop()!r}: results are told apart by the folder's name")


def _write(args: _EvalArgs, runs: Sequence[Sequence["SetResult"]]) -> None:
    """Write requested files, whole or not at all."""
    from evaluation.answers.run_folder import write_atomically
    from evaluation.retrieval.results import as_json, per_query

    if args.json_file:
        document = orjson.dumps(as_json(runs, seed=args.seed), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        if args.json_file == "-":
            click.echo(document, nl=False)
        else:
            write_atomically(Path(args.json_file), document)
    if args.per_query:
        rows = (row for results in runs for row in per_query(results))
        lines = b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)
        write_atomically(Path(args.per_query), lines)
