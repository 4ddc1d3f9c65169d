"""ragway bench live: results of a gateway's shadow comparisons, judged by a model on request."""

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from cli.assembly.stores import accounts, record_store
from cli.bench.judge import JudgeArgs, judge_of, judged
from cli.bench.shared import FAILURES, ModelFacts, bench_work, code_of, say_and_confirm, unfinished
from cli.common import WholeNumber, as_text, echo, echo_json, must_exist
from cli.options import options_of
from config.sections import Settings
from proxy.observe.shadow.comparison import COMPARISONS
from runtime import logs

if TYPE_CHECKING:  # imported on use
    from proxy.observe.shadow.comparison import Comparison
    from runtime.record_store import RecordStore


@click.command("live")
@click.argument("id", required=False)
@click.option("--since", type=click.DateTime(["%Y-%m-%d"]), metavar="DAY", help="First day, as 2026-11-01, in UTC.")
@click.option("--model", default="", help="Model for the missing judgements, by the name in the gateway.")
@options_of(JudgeArgs)
@click.option(
    "--judge",
    metavar="MODEL",
    help="Judge model whose judgements count (default: --model, else the judge with the most judgements).",
)
@click.option("--seed", type=WholeNumber(0), default=0, show_default=True, help="Seed of the bootstrap.")
@click.option("--json", "as_", flag_value="json", help="Print JSON in place of tables.")
@click.option("--markdown", "as_", flag_value="markdown", help="Print the tables as Markdown.")
@bench_work
async def live_command(
    id: str | None,
    since: datetime | None,
    judge: str | None,
    seed: int,
    as_: str | None,
    args: JudgeArgs,
    settings: Settings,
) -> int:
    """Report the results of shadow comparisons: lift, harm, added cost and latency, by collection and key.

    `x-rag: compare` or `bench.shadow` makes shadow comparisons. With --model a model judges which of the two answers is
    better. With the x-rag-id of a chat, the command shows both answers of the chat. Exit code 3: over 5 % of the
    judge's replies cannot be read.

    \b
    ragway bench live
    ragway bench live --model gpt-4o --max-usd 1
    ragway bench live rag-6f1d3c1e7c0b5b0e9a553d1f
    """
    must_exist(settings)
    if id is not None:
        return _one(as_text(id), settings, as_json=as_ == "json")
    since_s = 0.0 if since is None else since.replace(tzinfo=UTC).timestamp()
    code = 0
    with closing(record_store(settings, COMPARISONS)) as store:
        store.prune()
        found = _found(store, since_s)
        if not found:
            when = " since that day" if since_s else ""
            click.echo(f"no comparisons are kept{when}: send `x-rag: compare`, or set bench.shadow", err=True)
            if as_ != "json":
                return 0
        elif args.model:
            code = await _judged(store, found, args, settings)
            found = _found(store, since_s)
    many = _print(found, judge or args.model, settings, seed, as_)
    return code or (FAILURES if many else 0)


def _one(id: str, settings: Settings, *, as_json: bool) -> int:
    from evaluation.shadow.text import comparison_text
    from proxy.observe.shadow.comparison import comparison_from

    with closing(record_store(settings, COMPARISONS)) as store:
        content = store.read(id)
    if content is None:
        raise click.ClickException(
            f"there is no comparison {id!r}: the chat was not compared, or the comparison was deleted by age"
        )
    one = comparison_from(content)
    if as_json:
        click.echo(content)
    else:
        echo(logs.blanked(comparison_text(one, _names(settings).get(one.key, one.key))))
    return 0


def _found(store: "RecordStore", since_s: float) -> "list[Comparison]":
    from proxy.observe.shadow.comparison import comparison_from

    return [comparison_from(content) for content in store.every(since_s)]


async def _judged(store: "RecordStore", found: "Sequence[Comparison]", args: JudgeArgs, settings: Settings) -> int:
    """Let the model judge remaining comparisons; return the exit code."""
    from evaluation.answers.judges.judge_tasks import read_prompts
    from evaluation.shadow.preferences import judge_comparisons, left, tasks_of

    todo = left(found, tasks_of(found, read_prompts(args.prompts)), args.model)
    if not todo:
        return 0
    judge = judge_of(args, ModelFacts([args.model], args, settings))
    say_and_confirm([judge.describe(todo)], args)
    outcome = await judged(judge, lambda asker: judge_comparisons(asker, store, todo), args, settings)
    if not (why := unfinished(outcome)):
        return 0
    click.echo(f"{outcome.done} of {outcome.total} are judged; {why}; the same command goes on from here", err=True)
    return code_of(why)


def _print(found: "Sequence[Comparison]", judge: str, settings: Settings, seed: int, as_: str | None) -> bool:
    """Print the results. Returns whether many of the judge's replies cannot be read."""
    from evaluation.answers.judges.judgement_files import said_by
    from evaluation.answers.scoring.faults import MANY
    from evaluation.shadow.preferences import judgements
    from evaluation.shadow.summary import as_json, shadow_report
    from evaluation.shadow.text import text

    every = [judgement for item in found for judgement in judgements(item)]
    said = Counter(judgement.model for judgement in every)
    if judge and every and judge not in said:
        raise click.ClickException(f"{judge} has judged none of these comparisons; judges: {', '.join(sorted(said))}")
    judge = judge or next((model for model, _ in said.most_common(1)), "")
    its = said_by(judge, every)
    made = shadow_report(found, its, judge or None, _names(settings), seed=seed)
    if as_ == "json":
        echo_json(as_json(made))
    else:
        echo(text(made, markdown=as_ == "markdown"), nl=False)
    return made.unreadable > MANY * len(its)


def _names(settings: Settings) -> dict[str, str]:
    """Key id -> name and id, for readers."""
    with closing(accounts(settings)) as opened:
        every = opened.keys()
    return {key.id: f"{key.name} ({key.id})" for key in every}
