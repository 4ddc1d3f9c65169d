"""The command line: one file per command, imported when it is called, so that --help stays quick.

Data goes to standard output, talk to standard error. Exit codes: 0 done, 1 something failed (one line says
what), 2 wrong usage.

    build     settings -> the objects of a gateway and of an index
    common    options, settings, the way to the documents, progress bars
    serve     the gateway and its index process         worker    what one process of it serves
    ingest    files and folders -> a collection       search    a question -> the passages a chat would get
    delete    a collection, or documents of it
    listing   `ragway collections`                    rebuild   a collection's index anew from the catalog
    reindex   the same for several, with another embedder if wanted
    doctor    what is wrong, what to do, and what of it can be repaired
    eval      judged questions -> how well each way to search answers them
    bench     questions asked of models raw and with passages       loopback  the gateway begun for it
    bench_shared    what its commands that ask share    bench_report    its report and diff    bench_judge    its judge
    bench_draft     questions for it, proposed by a model
    bench_live    its view of live comparisons
    replay    a chat of which there is a receipt -> what it would be given today, and what changed
    keys      who may do what: made, listed, revoked, rotated
    usage     what keys used, in sums
    mcp       search and fetch for programs that speak MCP, on stdin and stdout
    config    the effective settings and their origins
    contexts  what a model is to write of each chunk, asked for before `ingest` and `rebuild`
"""

import contextlib
import importlib
import os
import sys
from importlib.metadata import version

import click

# Command -> its module and its line in `ragway --help`. The list of collections is in `listing`: a module must not
# be named like a standard one.
COMMANDS = {
    "serve": ("serve", "Serve the gateway until Ctrl-C."),
    "ingest": ("ingest", "Read files and folders into a collection."),
    "search": ("search", "Search as a chat would, and print what is found."),
    "collections": ("listing", "List the collections."),
    "delete": ("delete", "Delete a collection, or documents of it."),
    "rebuild": ("rebuild", "Make a collection's index anew from the catalog."),
    "reindex": ("reindex", "Change the embedder or the chunking of collections without an outage."),
    "doctor": ("doctor", "Check settings, data folder, databases and index, and repair what can be."),
    "eval": ("eval", "Judge retrieval on questions of which it is known what should be found."),
    "bench": ("bench", "Ask models raw and with passages, and compare answers, times and costs."),
    "replay": ("replay", "Search today for a chat of which there is a receipt, and print what changed."),
    "keys": ("keys", "Create, list, limit, revoke and rotate the keys that clients use."),
    "usage": ("usage", "Sum up what was used, by team, key, model or day."),
    "mcp": ("mcp", "Offer search and fetch to a program over the Model Context Protocol."),
    "config": ("config", "Print every setting, its value and its origin."),
}


class _Lazy(click.Group):
    """Imports a command's module only when that command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"cli.{COMMANDS[name][0]}").command
        return command


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("ragway"), prog_name="ragway")
def ragway() -> None:
    """A transparent RAG proxy gateway: swap the OpenAI base_url, get answers from your own documents.

    \b
    ragway ingest docs/ --collection docs     read files and folders
    ragway search "how do I connect?"         see what would be found
    ragway serve                              answer on http://127.0.0.1:8000/v1

    Every command takes --config FILE (default: ragway.yaml where it exists) and --data DIR (default: data/).
    Any setting can be given in the environment as RAGWAY_SECTION__KEY; `ragway config` lists them.
    """


def main() -> None:
    """Run the command line: errors are one line on standard error, never a traceback."""
    try:
        sys.exit(ragway.main(prog_name="ragway", standalone_mode=True))
    except OSError as error:  # a disk that is full, a stream that is closed
        click.echo(f"Error: {error}", err=True)
        # What is left in the buffer would be tried again at the end, and give another message and exit code.
        with contextlib.suppress(AttributeError, OSError, ValueError):  # there is none, or it is closed
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
