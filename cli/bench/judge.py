"""ragway bench judge: a model's word on a run's answers."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.bench.report import code_of_report, folder_of, write_report
from cli.bench.shared import (
    ModelFacts,
    SendOptions,
    bench_work,
    interruptible,
    opened_gateway,
    report_progress,
    say_and_confirm,
    unfinished,
)
from cli.common import progress_bar
from cli.options import option, options_of
from config.sections import Settings
from config.settings import PROMPTS

if TYPE_CHECKING:  # imported on use, because httpx loads slowly
    from evaluation.answers.client.sender import Outcome
    from evaluation.answers.judges.judge_runner import Judge, JudgeRunner

_KINDS = ("faithfulness", "relevance", "correctness", "preference")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeArgs(SendOptions):
    """How a judge is asked."""

    # fmt: off
    model: str
    prompts: Path = option(
        "--prompts", type=click.Path(path_type=Path, exists=True, file_okay=False), default=PROMPTS,
        help="Folder with judge_KIND.txt of every kind (default: config/prompts).",
    )
    settings: str | None = option(
        "--set", metavar="NAME=VALUE,…", help="Members of the judge's requests, such as temperature and max_tokens."
    )
    # fmt: on


@click.command("judge")
@click.argument("run_name", metavar="RUN")
@click.option("--model", required=True, help="Model that judges, by the name in the gateway.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(_KINDS), help="Judge only this; may be repeated.")
@options_of(JudgeArgs)
@bench_work
async def judge_command(run_name: str, kinds: Sequence[str], args: JudgeArgs, settings: Settings) -> int:
    """Let a model judge the answers of a run; existing judgements are not repeated.

    RUN is the folder of the run, or a name in bench/ of the data folder. --max-usd limits the cost of all judgements in
    the folder, not the cost of the run. Judgements that failed, were refused, cut off, empty or unreadable have no
    score; the command counts and prints these first. Exit codes: see `ragway bench run`.
    """
    from evaluation.answers.client.budget import check_request_fits
    from evaluation.answers.judges.judge_runner import judge_run, left_of, spend
    from evaluation.answers.judges.judge_tasks import read_prompts, tasks
    from evaluation.answers.judges.judgement_files import attempts
    from evaluation.answers.run_folder import Run
    from evaluation.answers.scoring.faults import fault_of
    from evaluation.answers.scoring.scored_replies import baselines

    folder = folder_of(run_name, lambda: settings)
    found = Run.read_answers(folder)
    prompts = read_prompts(args.prompts)
    questions = {question.id: question for question in found.questions}
    replies = [reply for reply in found.replies().values() if fault_of(reply) is None]
    pairs = baselines(found.manifest.variants)
    every = list(tasks(questions, replies, pairs, prompts, kinds=kinds or _KINDS))  # type: ignore[arg-type]
    todo = left_of(every, attempts(folder), args.model)
    if not every:
        raise click.ClickException(f"{folder} has nothing to judge: no answers yet, or no answers for the given --kind")
    if not todo:
        click.echo(f"{folder}: {args.model} has already judged all {len(every)}", err=True)
        return code_of_report(write_report(folder, judge=args.model))
    models = ModelFacts([args.model], args, settings)
    judge = judge_of(args, models)
    max_costs = [judge.request(task, usage=True).max_cost for task in todo]
    most = max(max_costs, key=lambda one: (one.usd or 0.0, one.prompt_tokens))
    check_request_fits(args.max_usd, args.max_tokens, most, f"the judge {args.model}")
    say_and_confirm([judge.describe(todo), *spend(folder, models.price_of).warnings], args)
    outcome = await judged(judge, lambda asker: judge_run(asker, folder, every, models.price_of), args, settings)
    if not outcome.done or (outcome.stopped and unfinished(outcome)):
        return report_progress(folder, outcome, "are judged")
    made = write_report(folder, judge=args.model)
    failures, of = (made.judge.failures, sum(made.judge.asked.values())) if made.judge else (0, 0)
    return report_progress(folder, outcome, "are judged", failures=failures, of=of, many=made.many_failures)


def judge_of(args: JudgeArgs, models: ModelFacts) -> "Judge":
    """The judge, with price and limits. Raises BenchError if a ceiling cannot be enforced."""
    from evaluation.answers.client.budget import answer_cap, check_ceiling
    from evaluation.answers.judges.judge_runner import Judge
    from evaluation.answers.run.matrix import raw_variant

    variant = raw_variant(f"judge {args.model}", args.model, args.settings)
    price, cap = models.price_of(args.model), answer_cap(variant.settings, models.size_of(args.model))
    unpriced, uncapped = [args.model] * (price is None), [args.model] * (cap is None)
    check_ceiling(args.max_usd, args.max_tokens, unpriced=unpriced, uncapped=uncapped)
    return Judge(variant, price, cap, args.concurrency, args.retries)


async def judged(
    judge: "Judge", work: "Callable[[JudgeRunner], Coroutine[Any, Any, Outcome]]", args: JudgeArgs, settings: Settings
) -> "Outcome":
    """Let a judge do its work; returns how far it came."""
    from evaluation.answers.client.budget import Budget
    from evaluation.answers.judges.judge_runner import JudgeRunner

    async with opened_gateway(args, settings) as gateway:
        budget, progress = Budget(args.max_usd, args.max_tokens), progress_bar("judge", "judgements")
        judging = JudgeRunner(judge, gateway, budget, progress=progress)
        return await interruptible(judging, work(judging))
