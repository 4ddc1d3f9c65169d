"""ragway bench draft: questions for the bench, proposed by a model, for a person to edit."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.bench.shared import (
    ModelFacts,
    SendOptions,
    bench_work,
    code_of,
    interruptible,
    manifest_of,
    opened_gateway,
    say_and_confirm,
    unfinished,
)
from cli.common import WholeNumber, progress_bar
from cli.options import option, options_of
from config.sections import Settings
from config.settings import PROMPTS

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

    # fmt: off
    collection: str
    model: str = option("--model", required=True, help="Model that drafts, by the name in the gateway.")
    out_file: Path | None = option(
        "--out", type=click.Path(path_type=Path, dir_okay=False),
        help="File to write (default: COLLECTION-questions.jsonl).",
    )
    count: int = option(
        "--count", type=WholeNumber(1, _MOST_QUESTIONS), default=20, show_default=True,
        help="Most questions; the model drafts one question for each passage.",
    )
    seed: int = option(
        "--seed", type=WholeNumber(0), default=0, show_default=True, help="Seed of the passage choice."
    )
    prompt: Path = option(
        "--prompt", type=click.Path(path_type=Path, exists=True, dir_okay=False), default=PROMPTS / "draft.txt",
        help="File with the prompt for a question (default: config/prompts/draft.txt).",
    )
    settings: str | None = option(
        "--set", metavar="NAME=VALUE,…", help="Members of the requests, such as temperature and max_tokens."
    )
    run_folder: Path | None = option(
        "--run", type=click.Path(path_type=Path, file_okay=False),
        help="Folder of requests and replies (default: bench/draft- and the file's name, in the data folder).",
    )
    # fmt: on

    @property
    def out(self) -> Path:
        return self.out_file or Path(f"{self.collection}-questions.jsonl")


@click.command("draft")
@click.argument("collection")
@options_of(_DraftArgs)
@bench_work
async def draft_command(args: _DraftArgs, settings: Settings) -> int:
    """Let a model draft questions with answers and facts from passages of a COLLECTION, for you to check and edit.

    Each drafted line has the member "drafted"; remove "drafted" after you have checked the question. After an
    interruption, the same command continues, repeats no request, and changes no line in the file.
    """
    from evaluation.answers.drafted.draft_file import DraftFile
    from evaluation.answers.drafted.drafts import PLACES
    from evaluation.answers.prompts import PromptTemplate
    from evaluation.answers.records import BenchError
    from evaluation.answers.run_folder import Run

    folder = args.run_folder or Path(settings.data) / "bench" / f"draft-{args.out.stem}"
    prompt = PromptTemplate.read(args.prompt, PLACES)
    before = Run.read_if_exists(folder)
    if before is None and args.out.exists():
        raise BenchError(f"{args.out} exists but does not come from {folder}: name another file with --out")
    if before is not None and _plan(args, folder, prompt, before.questions).finished:
        with DraftFile(before, args.out) as drafts:
            click.echo(
                f"{folder} is complete: to draft other questions, name another --out and another --seed", err=True
            )
            return _print_result(drafts, "")
    models = ModelFacts([args.model], args, settings)
    async with opened_gateway(args, settings) as gateway:
        questions = before.questions if before is not None else await _questions(gateway, args, prompt)
        return await _run_plan(_plan(args, folder, prompt, questions), gateway, models, args)


def _plan(args: _DraftArgs, folder: Path, prompt: "PromptTemplate", questions: "Sequence[Question]") -> "RunPlan":
    """Raises BenchError: the folder holds another run; --model or --set is invalid."""
    from evaluation.answers.run.matrix import raw_variant
    from evaluation.answers.run.run_plan import RunPlan

    variant = raw_variant(f"{args.model} drafts {args.collection}", args.model, args.settings)
    out = str(args.out.absolute())
    draft = {"collection": args.collection, "count": args.count, "out": out, "prompt": prompt.version}
    return RunPlan(folder, manifest_of(args, args.out, [variant], args.seed, draft=draft), questions)


async def _questions(gateway: "GatewayClient", args: _DraftArgs, prompt: "PromptTemplate") -> "Sequence[Question]":
    """Requests for drafts, one per passage of the collection."""
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
    say_and_confirm([plan.describe(run_options)], args)
    run = plan.run({}, await gateway.described())
    with DraftFile(run, args.out) as drafts:
        runner = Runner(
            run, gateway, budget, run_options, progress=progress_bar("draft", "replies"), answered=drafts.take
        )
        return _print_result(drafts, unfinished(await interruptible(runner, runner.go())))


def _print_result(drafts: "DraftFile", stopped: str) -> int:
    """Print how many questions were drafted, and return the exit code."""
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
