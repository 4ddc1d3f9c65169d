"""ragway bench draft: questions for the bench, proposed by a model, for a person to edit."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import uvloop

from cli.bench_shared import (
    Asking,
    Models,
    asking_options,
    code_of,
    interruptible,
    opened_gateway,
    unfinished,
)
from cli.common import Whole, confirm, options, progress_bar, run, settings_of
from config.settings import PROMPTS, Settings
from runtime import logs

if TYPE_CHECKING:  # imported where they are used, with httpx
    from evaluation.answers.client.gateway_client import Gateway
    from evaluation.answers.drafted.draft_file import Drafting
    from evaluation.answers.prompts import Prompt
    from evaluation.answers.records import Question
    from evaluation.answers.run.run_plan import Job

_MOST_QUESTIONS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted(Asking):
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
@click.option("--model", required=True, help="Model that drafts, by its name in the gateway.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write (default: COLLECTION-questions.jsonl).",
)
@click.option(
    "--count",
    type=Whole(1, _MOST_QUESTIONS),
    default=20,
    show_default=True,
    help="Most questions; the model drafts one question for each passage.",
)
@click.option("--seed", type=Whole(0), default=0, show_default=True, help="Seed of the choice of passages.")
@click.option(
    "--prompt",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    default=PROMPTS / "draft.txt",
    help="File with the text that asks for a question (default: that of the installation).",
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
@asking_options
@options
def draft_command(config_file: Path | None, data: str | None, **given: Any) -> None:
    """Have a model draft questions with answers and facts from passages of a COLLECTION, for you to check and edit.

    Each line says that it was drafted, in the member "drafted"; take that out where you have checked a question.
    Interrupted, the same command goes on, asks nothing again, and changes no line that is in the file.
    """
    settings = settings_of(config_file, data=data)
    logs.to_stderr("warning", "%(message)s")
    out = given.pop("out") or Path(f"{given['collection']}-questions.jsonl")
    folder = given.pop("folder") or Path(settings.data) / "bench" / f"draft-{out.stem}"
    run(_draft(_Wanted(out=out, folder=folder, **given), settings), loop=uvloop.new_event_loop)


async def _draft(wanted: _Wanted, settings: Settings) -> int:
    from evaluation.answers.drafted.draft_file import Drafting
    from evaluation.answers.drafted.drafts import PLACES
    from evaluation.answers.prompts import Prompt
    from evaluation.answers.records import BenchError
    from evaluation.answers.run_folder import Run

    try:
        prompt = Prompt.read(wanted.prompt, PLACES)
        before = Run.at(wanted.folder)
        if before is None and wanted.out.exists():
            raise BenchError(f"{wanted.out} exists, and {wanted.folder} did not write it: name another file with --out")
        if before is not None and _job(wanted, prompt, before.questions).finished:
            with Drafting(before, wanted.out) as drafting:
                click.echo(
                    f"{wanted.folder} is complete: to draft others, name another --out and another --seed", err=True
                )
                return _told(drafting, "")
        models = Models([wanted.model], wanted.prices, (), settings if wanted.base_url is None else None)
        async with opened_gateway(wanted.base_url, settings, wanted.timeout_s, wanted.concurrency) as gateway:
            questions = before.questions if before is not None else await _questions(gateway, wanted, prompt)
            return await _asked(_job(wanted, prompt, questions), gateway, models, wanted)
    except BenchError as error:
        raise click.ClickException(str(error)) from error


def _job(wanted: _Wanted, prompt: "Prompt", questions: "Sequence[Question]") -> "Job":
    """Raises BenchError: the folder has something else; --model or --set cannot be read."""
    from evaluation.answers.records import Variant
    from evaluation.answers.run.matrix import settings_of as members
    from evaluation.answers.run.run_plan import Job, Wish

    name = f"{wanted.model} drafts {wanted.collection}"
    variant = Variant(name, wanted.model, "raw", None, members(wanted.settings) if wanted.settings else {})
    draft = {
        "collection": wanted.collection,
        "count": wanted.count,
        "out": str(wanted.out.absolute()),
        "prompt": prompt.version,
    }
    return Job(
        Wish(
            wanted.out,
            questions,
            [variant],
            wanted.folder,
            wanted.base_url,
            1,
            wanted.seed,
            wanted.max_usd,
            wanted.max_tokens,
            draft,
        )
    )


async def _questions(gateway: "Gateway", wanted: _Wanted, prompt: "Prompt") -> "Sequence[Question]":
    """What the model is asked, of passages of the collection."""
    from evaluation.answers.drafted.drafts import asking
    from evaluation.answers.drafted.passages import drawn

    passages = await drawn(gateway.client, wanted.collection, wanted.count, seed=wanted.seed)
    if len(passages) < wanted.count:
        click.echo(f"{wanted.collection} gives {len(passages)} passages, fewer than --count {wanted.count}", err=True)
    return [asking(passage, wanted.collection, prompt) for passage in passages]


async def _asked(job: "Job", gateway: "Gateway", models: Models, wanted: _Wanted) -> int:
    """Say what it will use, and where that is agreed to, ask."""
    from evaluation.answers.drafted.draft_file import Drafting
    from evaluation.answers.run.runner import Runner, Terms

    terms = Terms(wanted.concurrency, wanted.retries, 0, models.price_of, models.size_of, {})
    purse = job.purse(terms)
    click.echo(job.told(terms), err=True)
    if not wanted.yes:
        confirm()
    run = job.run({}, await gateway.described())
    with Drafting(run, wanted.out) as drafting:
        runner = Runner(run, gateway, purse, terms, progress=progress_bar("draft", "replies"), answered=drafting.take)
        await interruptible(runner, runner.go())
        return _told(drafting, unfinished(runner.outcome))


def _told(drafting: "Drafting", stopped: str) -> int:
    """Say what was drafted; returns the exit code."""
    click.echo(drafting.told(), err=True)
    if stopped:
        click.echo(f"{stopped}; the same command goes on from here", err=True)
        return code_of(stopped)
    if not drafting.drafted:
        return 1
    click.echo('check each, mend it or take it out; where one is right, take its "drafted" out', err=True)
    return 0
