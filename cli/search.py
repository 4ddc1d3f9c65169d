"""ragway search: passages for a question."""

from collections.abc import Sequence

import click

from cli.common import WholeNumber, arms_text, as_text, echo, echo_json, knowledge, with_settings
from config.sections import Settings
from retrieval.knowledge import SearchRequest
from retrieval.records.search import ALL, Hit, Retrieved, Turn

_TOLD = ("query", "hits", "context", "timings_ms", "relevance")


@click.command("search")
@click.argument("question")
@click.option("--collection", "collections", multiple=True, help="Collection to search; may be repeated.")
@click.option("-k", type=WholeNumber(1, 100), help="How many passages at most (default: retrieval.k).")
@click.option("--json", "as_json", is_flag=True, help="One JSON object with the query, the hits and the timings.")
@with_settings
async def command(question: str, collections: Sequence[str], k: int | None, as_json: bool, settings: Settings) -> int:
    """Search as a chat would, and print the passages, best first.

    Each passage has the rank and score of each retriever (dense: cosine, bm25: BM25 score). The last line has the
    probability that the collection holds something relevant. The exit code is 0 even without results.
    """
    if not question.strip():
        raise click.UsageError("the question is empty")
    names = [as_text(name) for name in collections] or settings.retrieval.collections
    from retrieval.embedding.export import advice
    from retrieval.lexical.terms import detect

    async with knowledge(settings) as documents:
        found = await documents.search.retrieve(SearchRequest([Turn("user", as_text(question))], names, k=k, view=ALL))
        searched = [row for row in await documents.library.collections(None) if row.name in names]
    if as_json:
        echo_json({name: getattr(found, name) for name in _TOLD})
        return 0
    for number, hit in enumerate(found.hits, 1):
        echo(_passage_text(number, hit))
    if not found.hits:
        echo(f"nothing found in {', '.join(names)}{_likely(found, settings)}", err=True)
    elif found.relevance is not None:
        echo(f"the best is relevant with probability {found.relevance:.2f}")
    language = detect([question])
    for said in {advice(row.embedder, language) for row in searched} - {""}:
        echo(f"note: question: {said}", err=True)
    return 0


def _likely(found: Retrieved, settings: Settings) -> str:
    """Why no passage is shown although the search found some that are probably not relevant."""
    if not found.relevance:
        return ""
    least = settings.retrieval.min_relevance
    return f": the best is relevant with probability {found.relevance:.2f}, retrieval.min_relevance is {least:g}"


def _passage_text(number: int, hit: Hit) -> str:
    arms = arms_text(hit.ranks, hit.scores)
    passage = hit.passage
    path = " > ".join(part for part in (passage.title, *passage.headings) if part)
    text = "\n".join("    " + line for line in passage.text.strip().splitlines())
    return f"{number}. {path}  ({passage.cited}; {arms})\n{text}\n"
