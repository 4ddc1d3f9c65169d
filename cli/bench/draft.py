"""ragway bench draft: questions for the bench, proposed by a model, for a person to edit."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import uvloop

from cli.bench.shared import (
    ModelFacts,
    SendOptions,
    code_of,
    interruptible,
    opened_gateway,
    send_options,
    unfinished,
)
from cli.common import WholeNumber, confirm, progress_bar, run, settings_of
from cli.options import options
from config.sections import Settings
from config.settings import PROMPTS
from runtime import logs

if TYPE_CHECKING:  # imported on use, because httpx loads slowly
    from evaluation.answers.client.gateway_client import GatewayClient
    from evaluation.answers.drafted.draft_file import DraftFile
    from evaluation.answers.prompts import PromptTemplate
    from evaluation.answers.records import Question
    from evaluation.answers.run.run_plan import RunPlan

_MOST_QUESTIONS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class _DraftArgs(SendOptions):
    """The options."""

    collection: str
    model: str
    out: Path
    count: int
    seed: int
    prompt: Path
    settings: str | None
    folder: Path


@click.command("draft")
@click.argument("collection")
@click.option("--model", required=True, help="Model that drafts, by the name in the gateway.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write (default: COLLECTION-questions.jsonl).",
)
@click.option(
    "--count",
    type=WholeNumber(1, _MOST_QUESTIONS),
    default=20,
    show_default=True,
    help="Most questions; the model drafts one question for each passage.",
)
@click.option("--seed", type=WholeNumber(0), default=0, show_default=True, help="Seed of the passage choice.")
@click.option(
    "--prompt",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    default=PROMPTS / "draft.txt",
    help="File with the prompt for a question (default: config/prompts/draft.txt).",
)
@click.option(
    "--set", "settings", metavar="NAME=VALUE,…", help="Members of the requests, such as temperature and max_tokens."
)
@click.option(
    "--run",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of requests and replies (default: bench/draft- and the file's name, in the data folder).",
)
@send_options
@options
def draft_command(config_file: Path | None, data: str | None, **given: Any) -> None:
    """Let a model draft questions with answers and facts from passages of a COLLECTION, for you to check and edit.

    Each drafted line has the member "drafted"; remove "drafted" after you have checked the question. After an
    interruption, the same command continues, repeats no request, and changes no line in the file.
    """
    settings = settings_of(config_file, data=data)
    logs.to_stderr("warning", "%(message)s")
    out = given.pop("out") or Path(f"{given['collection']}-questions.jsonl")
    folder = given.pop("folder") or Path(settings.data) / "bench" / f"draft-{out.stem}"
    run(_draft(_DraftArgs(out=out, folder=folder, **given), settings), loop=uvloop.new_event_loop)


async def _draft(args: _DraftArgs, settings: Settings) -> int:
    from evaluation.answers.drafted.draft_file import DraftFile
    from evaluation.answers.drafted.drafts import PLACES
    from evaluation.answers.prompts import PromptTemplate
    from evaluation.answers.records import BenchError
    from evaluation.answers.run_folder import Run

    try:
        prompt = PromptTemplate.read(args.prompt, PLACES)
        before = Run.read_if_exists(args.folder)
        if before is None and args.out.exists():
            raise BenchError(f"{args.out} exists but does not come from {args.folder}: name another file with --out")
        if before is not None and _plan(args, prompt, before.questions).finished:
            with DraftFile(before, args.out) as drafts:
                click.echo(
                    f"{args.folder} is complete: to draft other questions, name another --out and another --seed",
                    err=True,
                )
                return _print_result(drafts, "")
        models = ModelFacts([args.model], args.prices, (), settings if args.base_url is None else None)
        async with opened_gateway(args.base_url, settings, args.timeout_s, args.concurrency) as gateway:
            questions = before.questions if before is not None else await _questions(gateway, args, prompt)
            return await _run_plan(_plan(args, prompt, questions), gateway, models, args)
    except BenchError as error:
        raise click.ClickException(str(error)) from error


def _plan(args: _DraftArgs, prompt: "PromptTemplate", questions: "Sequence[Question]") -> "RunPlan":
    """Raises BenchError: the folder holds another run; --model or --set is invalid."""
    from evaluation.answers.records import Variant
    from evaluation.answers.run.matrix import settings_of as members
    from evaluation.answers.run.run_plan import RunPlan, RunSpec

    name = f"{args.model} drafts {args.collection}"
    variant = Variant(name, args.model, "raw", None, members(args.settings) if args.settings else {})
    draft = {
        "collection": args.collection,
        "count": args.count,
        "out": str(args.out.absolute()),
        "prompt": prompt.version,
    }
    return RunPlan(
        RunSpec(
            args.out,
            questions,
            [variant],
            args.folder,
            args.base_url,
            1,
            args.seed,
            args.max_usd,
            args.max_tokens,
            draft,
        )
    )


async def _questions(gateway: "GatewayClient", args: _DraftArgs, prompt: "PromptTemplate") -> "Sequence[Question]":
    """The requests for drafts, one per passage of the collection."""
    from evaluation.answers.drafted.drafts import asking
    from evaluation.answers.drafted.passages import drawn

    passages = await drawn(gateway.client, args.collection, args.count, seed=args.seed)
    if len(passages) < args.count:
        click.echo(f"{args.collection} gives {len(passages)} passages, fewer than --count {args.count}", err=True)
    return [asking(passage, args.collection, prompt) for passage in passages]


async def _run_plan(plan: "RunPlan", gateway: "GatewayClient", models: ModelFacts, args: _DraftArgs) -> int:
    """Print the estimate, ask for confirmation, and run."""
    from evaluation.answers.drafted.draft_file import DraftFile
    from evaluation.answers.run.runner import Runner, RunOptions

    run_options = RunOptions(args.concurrency, args.retries, 0, models.price_of, models.size_of, {})
    budget = plan.budget(run_options)
    click.echo(plan.describe(run_options), err=True)
    if not args.yes:
        confirm()
    run = plan.run({}, await gateway.described())
    with DraftFile(run, args.out) as drafts:
        runner = Runner(
            run, gateway, budget, run_options, progress=progress_bar("draft", "replies"), answered=drafts.take
        )
        await interruptible(runner, runner.go())
        return _print_result(drafts, unfinished(runner.outcome))


def _print_result(drafts: "DraftFile", stopped: str) -> int:
    """Print the number of drafted questions and return the exit code."""
    click.echo(drafts.describe(), err=True)
    if stopped:
        click.echo(f"{stopped}; the same command goes on from here", err=True)
        return code_of(stopped)
    if not drafts.drafted:
        return 1
    click.echo(
        'check each question: correct or delete a wrong question, and remove "drafted" from a right question', err=True
    )
    return 0
