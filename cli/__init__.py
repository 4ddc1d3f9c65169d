"""The command line: one module per command, imported on use, so that --help stays fast.

Data goes to standard output, messages to standard error. Exit codes: 0 done, 1 failed (one line names the failure), 2
wrong usage.

    assembly/ settings -> objects of a gateway and an index
    options   --config and --data, options as dataclasses, and groups of commands
    common    settings, errors, access to documents and accounts, progress bars
    serve     the gateway and the index process       worker    one gateway process
    ingest    files and folders -> a collection       search    a question -> passages that a chat would get
    syncs/    declared sources -> their collections
    jsonl     documents in lines of standard input, for `ingest -`
    delete    a collection, or some of its documents
    listing   `ragway collections`                    rebuild   a collection's index from the catalog
    reindex   like rebuild for several collections, also with another embedder
    doctor    find problems, advise, repair
    calibrate the probability of relevance, fitted to the collections
    eval      judged questions -> how good each search method is
    bench/    ask models questions raw and with passages, and compare answers
    replay    a chat with a receipt -> its passages today, and how they differ
    keys/     create, list, limit, revoke and rotate keys; a key's secrets for action sets
    usage     sums of requests, tokens and dollars
    actions/  OpenAPI documents -> operations that are found and called; the log of those that change something
    tools     what a chat would have, and why
    tables/   databases and files -> tables that are found and asked in SQL
    mcp       search and fetch over MCP, on stdin and stdout
    config    effective settings and their origins
    contexts  confirm and enrich chunks by a model, for `ingest` and `rebuild`
"""

import contextlib
import importlib
import os
import sys
from pathlib import Path

import click

from cli.options import Commands, options

# Command -> module, and its line in `ragway --help`. `ragway collections` is in `listing`, because no module may be
# named like a standard one.
COMMANDS = {
    "serve": ("serve", "Serve the gateway until Ctrl-C."),
    "ingest": ("ingest", "Read files and folders into a collection."),
    "sync": ("syncs.sync", "Make collections equal to their declared sources."),
    "search": ("search", "Search as a chat would, and print the passages."),
    "collections": ("listing", "List the collections."),
    "delete": ("delete", "Delete a collection, or documents of it."),
    "rebuild": ("rebuild", "Build a collection's index again from the catalog."),
    "reindex": ("reindex", "Change the embedder or the chunking of collections without an outage."),
    "calibrate": ("calibrate", "Fit the probability of relevance to the collections, without judged questions."),
    "doctor": ("doctor", "Check settings, data folder, databases and index, and repair problems."),
    "eval": ("eval", "Measure retrieval on judged questions."),
    "bench": ("bench.bench", "Ask models raw and with passages, and compare answers, times and costs."),
    "replay": ("replay", "Search again for a chat with a receipt, and print the differences."),
    "keys": ("keys.keys", "Create, list, limit, revoke and rotate the keys that clients use."),
    "usage": ("usage", "Sum up requests, tokens, dollars and times, by team, key, model or day."),
    "actions": ("actions.actions", "Keep the operations of HTTP APIs, find and call them."),
    "tools": ("tools", "Show what models may call in a chat, and why."),
    "tables": ("tables.tables", "Keep the tables of databases and files, find and ask them."),
    "mcp": ("mcp", "Offer search and fetch to a program over the Model Context Protocol."),
    "config": ("config", "Print every setting, its value and its origin."),
}


class _Lazy(Commands):
    """Imports a command's module on first use."""

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
@click.version_option(package_name="ragway", prog_name="ragway")
@options
def ragway(config_file: Path | None, data: str | None) -> None:
    """A transparent RAG proxy gateway: swap the OpenAI base_url, get answers from your own documents.

    \b
    ragway ingest PATH --collection NAME      read files and folders
    ragway search "how do I connect?"         show the passages for a question
    ragway serve                              answer on http://127.0.0.1:8000/v1

    Every command accepts --config FILE (default: ragway.yaml if the file exists) and --data DIR (default: data/), after
    the command's name or before it. An environment variable RAGWAY_SECTION__KEY sets any setting; `ragway config` lists
    all settings.
    """


def main() -> None:
    """Run the command line. An error is one line on standard error, without a traceback."""
    try:
        sys.exit(ragway.main(prog_name="ragway", standalone_mode=True))
    except OSError as error:  # a full disk or a closed stream, for example
        click.echo(f"Error: {error}", err=True)
        # At exit, Python would flush its buffer again, with another message and exit code.
        with contextlib.suppress(AttributeError, OSError, ValueError):  # stream missing or closed
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
