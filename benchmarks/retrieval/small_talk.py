"""Courtesies that get passages behind a conversation, with and without the lists of small talk.

    python benchmarks/retrieval/small_talk.py DIR [DIR…] [--lines FILE] [--data DIR] [--cache DIR] [--limit N]

Each DIR is a judged set in BEIR's form, as for `ragway eval`, with conversations, and becomes a collection. Each
courtesy is said behind one of the set's conversations, drawn at random, and searched for with the settings of
`config/default.yaml`. The lines are those of the tests, or of FILE: JSON, {"LANGUAGE": {"courtesies": [text…],
"follow_ups": [text…]}}. The table goes to standard output as Markdown.
"""

import asyncio
import json
import random
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.common.arguments import parser_of
from benchmarks.common.output import say, table
from cli.assembly.index import plan
from config.settings import SMALL_TALK, load
from evaluation.retrieval.judged import JudgedSet, corpus, read
from evaluation.retrieval.subjects import scratch_plan
from proxy.augment.skipped import SmallTalk
from retrieval.index.index import Index
from retrieval.knowledge import Plan, SearchRequest
from retrieval.records.search import Turn
from tests.proxy.augment import small_talk_lines

Lines = Mapping[str, Mapping[str, Sequence[str]]]  # language -> courtesies, follow_ups


@dataclass(frozen=True, slots=True)
class Said:
    """A courtesy behind a conversation of a set: whether it is known, and found passages when searched for."""

    collection: str
    known: bool
    found: bool


def own_lines() -> Lines:
    """The lines of the tests."""
    chat, asked = small_talk_lines.CHAT, small_talk_lines.ASKED
    return {name: {"courtesies": _split(chat[name]), "follow_ups": _split(asked[name])} for name in chat}


def _split(text: str) -> list[str]:
    return [line.strip() for line in " ".join(text.split()).split(" / ")]


def conversations(judged: JudgedSet) -> list[Sequence[Turn]]:
    """The set's conversations that end with an answer."""
    histories = [question.turns[:-1] for question in (*judged.questions, *judged.unanswerable)]
    return [history for history in histories if history and history[-1].role == "assistant"]


def known_by_language(lines: Lines, talk: SmallTalk) -> str:
    """A row for each language: courtesies that are not known behind an answer, and follow-ups that are lost."""
    answered = [Turn("user", "How much is the fee?"), Turn("assistant", "The fee is 110 crowns a night.")]
    rows, lost = [], []
    for name, kinds in lines.items():
        said, asked = kinds["courtesies"], kinds["follow_ups"]
        unknown = [line for line in said if not talk.match([*answered, Turn("user", line)])]
        taken = [line for line in asked if talk.match([*answered, Turn("user", line)])]
        lost += taken
        rows.append((name, f"{len(unknown)} of {len(said)}", f"{len(taken)} of {len(asked)}"))
    found = table(["language", "courtesies not known", "follow-ups lost"], rows)
    return "\n".join([found, *(f"- lost: {line}" for line in lost)])


async def say_all(
    sets: Sequence[JudgedSet], lines: Lines, talk: SmallTalk, base: Plan, cache: Path, limit: int
) -> list[Said]:
    """Ingest every set as a collection of a temporary index, and say courtesies behind its conversations."""
    courtesies = [line for kinds in lines.values() for line in kinds["courtesies"]]
    with tempfile.TemporaryDirectory(prefix="ragway-small-talk-") as folder:
        index = await Index.open(scratch_plan(base, Path(folder)), serving=False, scratch=cache)
        try:
            said = []
            for one in sets:
                documents = corpus(one, max_bytes=base.max_file_bytes).documents
                say(f"{one.name}: {len(documents)} documents")
                await index.writing.learn(documents, one.name, lambda *_: None)
                retriever = index.retriever_with(base.search, questions=cache)
                draw, before = random.Random(one.name), conversations(one)
                for line in draw.sample(courtesies, min(limit, len(courtesies))) if before else ():
                    turns = [*draw.choice(before), Turn("user", line)]
                    found = await retriever.retrieve(SearchRequest(turns, [one.name]))
                    said.append(Said(one.name, talk.match(turns), bool(found.context.passages)))
            return said
        finally:
            await index.close()


def page(said: Sequence[Said]) -> str:
    """A row for each collection: the share that gets passages, if all is searched for and if small talk is not."""
    rows = []
    for name in dict.fromkeys(one.collection for one in said):
        here = [one for one in said if one.collection == name]
        without, with_lists = (sum(one.found for one in here), sum(one.found and not one.known for one in here))
        rows.append((name, str(len(here)), f"{without / len(here):.1%}", f"{with_lists / len(here):.1%}"))
    return table(["collection", "courtesies", "get passages, all searched for", "get passages, with the lists"], rows)


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--lines", type=Path, metavar="FILE", help="courtesies and follow-ups by language, as JSON")
    parser.add_argument("--limit", type=int, default=200, help="courtesies said to each collection")
    given = parser.parse_args()
    lines = json.loads(given.lines.read_text("utf-8")) if given.lines else own_lines()
    talk = SmallTalk.read(SMALL_TALK)
    print(known_by_language(lines, talk))
    base = plan(load(flags={"data": str(given.data)}))
    sets = [read(folder) for folder in given.folders]
    said = asyncio.run(say_all(sets, lines, talk, base, given.cache.absolute(), given.limit))
    print(f"\n{page(said)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
