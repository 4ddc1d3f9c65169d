"""ragway bench: ask models the same questions raw and with passages, and report the difference."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.assembly.chats import rewrite_prompt, template
from cli.bench.draft import draft_command
from cli.bench.judge import judge_command
from cli.bench.live import live_command
from cli.bench.report import code_of_report, diff_command, report_command, write_report
from cli.bench.shared import (
    ModelFacts,
    SendOptions,
    bench_work,
    interruptible,
    manifest_of,
    opened_gateway,
    report_progress,
    say_and_confirm,
    unfinished,
)
from cli.common import WholeNumber, progress_bar
from cli.config import shown_settings
from cli.options import option, options_of
from config.sections import Settings

if TYPE_CHECKING:  # imported on use, because httpx loads slowly
    from evaluation.answers.client.budget import Operations, Rewriting
    from evaluation.answers.client.gateway_client import GatewayClient
    from evaluation.answers.client.sender import Outcome
    from evaluation.answers.records import DialectName, Leak, Mode, Question
    from evaluation.answers.run.run_plan import RunPlan

_KEPT_SETTINGS = ("models", "upstream.", "retrieval.", "inject.", "embedder.", "ingest.")
_REQUEST_BYTES = 200  # in a request for a rewrite, around its prompt
_USUAL_MODES: "Sequence[Mode]" = ("raw", "rag")


class _BenchGroup(click.Group):
    """A group with an optional `run`: a first word that is not a command is a question file."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group("bench", cls=_BenchGroup)
def command() -> None:
    """Ask models your questions raw and with passages, and compare the answers, the times and the costs.

    \b
    ragway bench questions.jsonl --model gpt-4o-mini --collection docs
    ragway bench run --help      options of a run
    ragway bench report data/bench/questions
    ragway bench draft docs --model gpt-4o      draft questions for you to edit
    """


for _each in (report_command, diff_command, judge_command, draft_command, live_command):
    command.add_command(_each)


@dataclass(frozen=True, slots=True, kw_only=True)
class _BenchArgs(SendOptions):
    """The options."""

    # fmt: off
    questions: Path
    models: Sequence[str] = option("--model", multiple=True, required=True, help="Model to ask; may be repeated.")
    collections: Sequence[str] = option(
        "--collection", multiple=True,
        help="Collection to search; a,b searches both together; several times: one variant each "
        "(default: the gateway's own).",
    )
    modes: "Sequence[Mode]" = option(
        "--mode", multiple=True, type=click.Choice(("raw", "rag", "whole")),
        help="raw, rag, or whole (the whole collection in the prompt); may be repeated "
        "(default: raw and rag).",
    )
    dialects: "Sequence[DialectName]" = option(
        "--dialect", multiple=True, type=click.Choice(("chat", "responses", "messages")),
        help="API to ask through: /v1/chat/completions, /v1/responses or /v1/messages; several times: one variant each "
        "(default: chat).",
    )
    settings: Sequence[str] = option(
        "--set", multiple=True, metavar="NAME=VALUE,…",
        help="Settings of a variant: k (passages at most) and request members, such as temperature; "
        "several times: one variant each.",
    )
    repeats: int = option(
        "--repeats", type=WholeNumber(1), default=1, show_default=True, help="How often to ask each question."
    )
    seed: int = option(
        "--seed", type=WholeNumber(0), default=0, show_default=True, help="Seed of the request order."
    )
    folder: Path | None = option(
        "--run", type=click.Path(path_type=Path, file_okay=False),
        help="The run's folder (default: bench/ and the questions' name, in the data folder).",
    )
    windows: Sequence[str] = option(
        "--window", multiple=True, metavar="MODEL=TOKENS", help="The context window of a model, for whole."
    )
    mix_drafted: bool = option(
        "--mix-drafted", is_flag=True,
        help="Ask drafted, unchecked questions together with other questions; the report separates both kinds.",
    )
    # fmt: on


@command.command("run")
@click.argument("questions", type=click.Path(path_type=Path, dir_okay=False))
@options_of(_BenchArgs)
@bench_work
async def run_command(args: _BenchArgs, settings: Settings) -> int:
    """Ask every variant the QUESTIONS (a file with one JSON object per line). The word `run` is optional.

    The collections are checked first: an empty collection ends the command before any cost, and a warning names
    questions that stand in the documents. A run that was interrupted, or stopped by the ceiling, has no verdict.

    After an interruption, the same command continues and repeats no answered request. The environment variable
    RAGWAY_BENCH_KEY holds the key for the gateway; with --base-url, OPENAI_API_KEY is the fallback.

    Answers that failed, were refused, cut off or empty are counted and printed first. Exit codes: 0: every request has
    an answer, except for a few failures; 1: an error, or unanswered requests; 3: every request was sent, and over 5 %
    of a variant's answers or of the judgements failed, or a verdict depends on the failures; 130: interrupted.
    """
    from evaluation.answers.run.matrix import variants
    from evaluation.answers.run.run_plan import RunPlan

    asked = variants(args.models, args.modes or _USUAL_MODES, args.collections, args.settings, args.dialects)
    questions = _questions(args)
    folder = args.folder or Path(settings.data) / "bench" / args.questions.stem
    manifest = manifest_of(args, args.questions, asked, args.seed, repeats=args.repeats)
    plan = RunPlan(folder, manifest, questions)
    if plan.finished:
        click.echo(f"{folder} is complete: name another folder with --run to ask everything again", err=True)
        return code_of_report(write_report(folder))
    models = ModelFacts(args.models, args, settings, args.windows)
    async with opened_gateway(args, settings) as gateway:
        outcome = await _run_plan(plan, gateway, models, args, settings)
    if outcome.stopped and unfinished(outcome):
        return report_progress(folder, outcome, "replies are there")
    made = write_report(folder)
    failures = sum(sum(variant.faults.values()) for variant in made.variants)
    return report_progress(folder, outcome, "replies are there", failures=failures, many=made.many_failures)


def _questions(args: _BenchArgs) -> "Sequence[Question]":
    """The questions, with a note about drafted ones.

    Raises BenchError, also if drafted questions are mixed with others.
    """
    from evaluation.answers.question_file import about_drafted, are_mixed, read
    from evaluation.answers.records import BenchError

    questions = read(args.questions)
    about = about_drafted(questions)
    if are_mixed(questions) and not args.mix_drafted:
        raise BenchError(
            f"{args.questions} mixes drafted questions with others. {about} Check the drafted questions and remove "
            "'drafted' from each, or ask all questions with --mix-drafted"
        )
    if about:
        click.echo(about, err=True)
    return questions


async def _run_plan(
    plan: "RunPlan", gateway: "GatewayClient", models: ModelFacts, args: _BenchArgs, settings: Settings
) -> "Outcome":
    """Print the estimate, ask for confirmation, and run."""
    from evaluation.answers.run.collection_checks import about_leaks, checked, leaks
    from evaluation.answers.run.runner import Runner, RunOptions

    described = await gateway.described()
    if args.base_url is None:  # a remote gateway's settings are not known
        told_of = {key: value for key, value in shown_settings(settings).items() if key.startswith(_KEPT_SETTINGS)}
        described = {**described, "settings": told_of}
    names = await checked(gateway.client, plan.variants, *_searchable(described, gateway, args, settings))
    wholes = await plan.wholes(gateway.client, template(settings), settings.retrieval.collections, models.size_of)
    operations = await _operations(gateway, args, settings)
    if operations is not None:
        described = {**described, "operations": asdict(operations)}
    run_options = RunOptions(
        args.concurrency,
        args.retries,
        settings.inject.budget_tokens,
        models.price_of,
        models.size_of,
        wholes,
        operations,
        _rewriting(models, settings),
        models.rewrite_price_of,
    )
    budget = plan.budget(run_options)
    for name, why in plan.left_out.items():
        click.echo(f"{name} is left out: {why}", err=True)
    found: Mapping[str, Leak] = {}
    if names and not plan.goes_on:
        found, why = await leaks(gateway.client, names, plan.questions)
        for line in (about_leaks(found, len(plan.questions)), why):
            if line:
                click.echo(line, err=True)
    say_and_confirm([plan.describe(run_options)], args)
    run = plan.run(wholes, described, found)
    runner = Runner(run, gateway, budget, run_options, progress=progress_bar("bench", "replies"))
    return await interruptible(runner, runner.go())


async def _operations(gateway: "GatewayClient", args: _BenchArgs, settings: Settings) -> "Operations | None":
    """Operations that this run's chats may call; None: none. For a gateway elsewhere, only its sets are known."""
    from evaluation.answers.client.budget import Operations

    asked = any(name.startswith("rage/") for name in args.models)
    if args.base_url is None:
        offered = asked or any(row.offer for row in settings.actions.values())
    else:
        offered = asked or await gateway.has_action_sets()
    return Operations(settings.action_calls.rounds, settings.action_calls.result_tokens) if offered else None


def _rewriting(models: ModelFacts, settings: Settings) -> "Rewriting | None":
    """The model that rewrites follow-up questions, by our settings; None: none."""
    from evaluation.answers.client.budget import Rewriting
    from proxy.augment.rewrite import MAX_TOKENS

    if settings.retrieval.rewrite != "llm":
        return None
    prompt_bytes = len(rewrite_prompt(settings).text.encode()) + _REQUEST_BYTES
    return Rewriting(models.rewrite_price_of(settings.retrieval.rewrite_model), prompt_bytes, MAX_TOKENS)


def _searchable(
    described: Mapping[str, Any], gateway: "GatewayClient", args: _BenchArgs, settings: Settings
) -> tuple[list[str] | None, list[str]]:
    """Collections that the gateway lists (None: no list), and those for a variant that names none."""
    rows = described.get("collections")
    listed = [str(row["id"]) for row in rows] if isinstance(rows, list) else None
    default = list(settings.retrieval.collections)
    by_key = args.base_url is not None or "authorization" in gateway.client.headers
    if by_key and listed and not set(default) & set(listed):
        default = listed
    return listed, default
