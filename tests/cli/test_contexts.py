"""What a model writes of each chunk: agreed to, asked for once, shown to nobody; a failure costs the context alone."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from cli.assembly.index import plan
from cli.assembly.stores import accounts
from cli.contexts import EnrichmentSurvey, Writer, estimate_line, rendered, write_contexts
from config.sections import Settings
from config.settings import load
from proxy.access.usage import sums, usage_query
from proxy.model_calls import NoAnswer
from retrieval.embedding.hashing import HASH
from retrieval.index.index import Index
from retrieval.ingest.context import Contexts
from retrieval.knowledge import SearchRequest
from retrieval.records.ingest import EnrichmentPlan, IngestReport, MissingEnrichment, PendingDocument
from retrieval.records.search import Turn
from tests.support.plans import silent
from tests.support.recording_upstream import Recorder, recording
from tests.support.unasked import Unasked
from tests.support.upstream_servers import Received, Wire, reply


@pytest.fixture
def upstream() -> Iterator[Recorder]:
    with recording() as recorder:
        yield recorder


def settings_for(data: Path, upstream: Recorder, **flags: Any) -> Settings:
    models = {"writer": {"api_base": f"{upstream.url}/v1", "model": "w-1"}}
    given = {"data": str(data), "embedder.model": HASH, "models": models}
    given |= {"ingest.context": ["context"], "ingest.context_model": "writer"}
    return load(environ={}, flags={**given, **{key.replace("__", "."): value for key, value in flags.items()}})


def answering(text: str, *, status: bytes = b"200 OK") -> Any:
    completion = {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]}
    whole = reply(json.dumps(completion).encode(), b"content-type: application/json", status=status)

    async def answer(wire: Wire, _received: Received) -> None:
        await wire.send(whole)

    return answer


def prompts(upstream: Recorder) -> list[str]:
    return [json.loads(request.body)["messages"][0]["content"] for request in upstream.requests]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pages, data = tmp_path / "pages", tmp_path / "data"
    pages.mkdir()
    data.mkdir()
    (pages / "report.md").write_text("# Third quarter\n\nIts revenue grew by three percent.\n", "utf-8")
    (pages / "pets.md").write_text("# Office\n\nThe dog is called Bruno.\n", "utf-8")
    return pages


async def ingest(settings: Settings, folder: Path, *, yes: bool = True) -> IngestReport:
    index = await Index.open(plan(settings, environ={}), serving=False)
    try:
        await write_contexts(settings, index, [folder], "docs", yes=yes)
        return await index.writing.ingest([folder], "docs", silent)
    finally:
        await index.close()


async def first_words(settings: Settings, question: str) -> list[tuple[str, str]]:
    index = await Index.open(plan(settings, environ={}), serving=False)
    try:
        found = await index.search.retrieve(SearchRequest([Turn("user", question)], ["docs"], k=1))
    finally:
        await index.close()
    return [(hit.passage.text, hit.passage.context) for hit in found.hits if hit.scores.get("bm25")]


@pytest.mark.models
@pytest.mark.parametrize("lexical", ["bm25", "okapi"])
async def test_a_chunk_is_found_by_what_was_written_of_it_and_shown_without(
    lexical: str, tmp_path: Path, folder: Path, upstream: Recorder
) -> None:
    upstream.answer = answering("On the turnover of Quuxcorp.")
    settings = settings_for(tmp_path / "data", upstream, retrieval__lexical=lexical, retrieval__min_relevance=0.0)
    report = await ingest(settings, folder)
    assert (report.added, report.failures) == (2, ())
    assert len(upstream.requests) == 2
    assert json.loads(upstream.requests[0].body)["model"] == "w-1"
    asked = next(prompt for prompt in prompts(upstream) if "revenue" in prompt)
    assert '<document title="Third quarter">' in asked
    assert asked.count("Its revenue grew by three percent.") == 2  # within its document, and as the passage
    (used,) = sums(accounts(settings), usage_query(by="team,key,model", since=None, until=None))
    assert (used["team"], used["key"], used["model"], used["requests"]) == ("operator", "operator", "writer", 2)
    text, context = (await first_words(settings, "Quuxcorp turnover"))[0]
    assert context == "On the turnover of Quuxcorp."
    assert "Quuxcorp" not in text


@pytest.mark.models
async def test_nothing_is_asked_twice_but_for_what_changed_or_failed(
    tmp_path: Path, folder: Path, upstream: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = settings_for(tmp_path / "data", upstream)
    good = answering("About the office of Quuxcorp.")

    async def refuses_one(wire: Wire, received: Received) -> None:
        bad = b"revenue" in received.body
        await (answering("", status=b"400 Bad Request") if bad else good)(wire, received)

    upstream.answer = refuses_one
    assert (await ingest(settings, folder)).added == 2
    assert "the model wrote nothing of 1 chunk (status 400): ingested without" in capsys.readouterr().err
    assert len(upstream.requests) == 2
    upstream.answer = good
    again = await ingest(settings, folder)  # only the one that lacks it
    assert (again.changed, again.unchanged, len(upstream.requests)) == (1, 1, 3)
    assert (await ingest(settings, folder)).unchanged == 2
    assert len(upstream.requests) == 3
    (folder / "pets.md").write_text("# Office\n\nThe cat is called Bruna.\n", "utf-8")
    assert (await ingest(settings, folder)).changed == 1
    assert len(upstream.requests) == 4


@pytest.mark.models
async def test_without_consent_nothing_is_asked_and_the_estimate_is_shown(
    tmp_path: Path,
    folder: Path,
    upstream: Recorder,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())  # no terminal
    with pytest.raises(click.Abort):
        await ingest(settings_for(tmp_path / "data", upstream), folder, yes=False)
    assert upstream.requests == []
    said = capsys.readouterr().err
    assert "docs: 2 calls to writer for 2 documents, about " in said
    assert "--yes" in said


def test_the_estimate_names_money_where_the_price_is_known() -> None:
    survey = EnrichmentSurvey([PendingDocument("a", "a"), PendingDocument("b", "b")], calls=1000, chars=8_000_000)
    assert estimate_line(survey, "m", (1e-6, 1e-5)).startswith(
        "1,000 calls to m for 2 documents, about 2,000,000 tokens in and 60,000 out, about $2.60"
    )
    assert estimate_line(survey, "m", None).endswith("its price is not known")


# Asking


class OneDocument(Unasked):
    """Has one document with some gaps."""

    def __init__(self, gaps: int) -> None:
        self.outlined = EnrichmentPlan(
            "T", "x" * gaps, tuple(MissingEnrichment(f"k{i}", "context", i, i + 1, ()) for i in range(gaps))
        )

    async def pending_documents(self, paths: object, collection: str) -> tuple[PendingDocument, ...]:
        return (PendingDocument("a", "a.md"),)

    async def enrichment_plan(self, pending: PendingDocument, collection: str) -> EnrichmentPlan:
        return self.outlined


async def written(tmp_path: Path, gaps: int, replies: list[str | Exception]) -> tuple[list[str], list[float], int, int]:
    """What is said at the end, the pauses made, the calls, and the answers kept; the last reply goes on for ever."""
    left, pauses, calls = list(replies), list[float](), 0

    async def ask(prompt: str) -> str:
        nonlocal calls
        calls += 1
        said = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(said, Exception):
            raise said
        return said

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    writer = Writer(ask, {"context": "{passage}"}, Contexts(tmp_path / "c"), at_once=1, total=gaps, pause=pause)
    documents = OneDocument(gaps)
    said = await writer.write(documents, await documents.pending_documents([], "docs"), "docs")
    contexts = Contexts(tmp_path / "c")
    kept = len(contexts.get([f"k{i}" for i in range(gaps)]))
    contexts.close()
    return said, pauses, calls, kept


@pytest.mark.parametrize("why", ["status 429", "status 503", "upstream_timeout", "the reply broke off"])
async def test_what_may_pass_is_asked_again_after_growing_pauses(why: str, tmp_path: Path) -> None:
    said, pauses, calls, kept = await written(tmp_path, 1, [NoAnswer(why), NoAnswer(why), "yes"])
    assert (said, calls, kept) == ([], 3, 1)
    assert 0.75 <= pauses[0] <= 1.25
    assert 1.5 <= pauses[1] <= 2.5


@pytest.mark.parametrize("why", ["status 401", "status 400", "the reply is not a chat completion"])
async def test_a_refusal_is_not_repeated(why: str, tmp_path: Path) -> None:
    said, pauses, calls, kept = await written(tmp_path, 1, [NoAnswer(why)])
    assert (pauses, calls, kept) == ([], 1, 0)
    assert said == [f"the model wrote nothing of 1 chunk ({why}): ingested without, the next ingest asks again"]


async def test_trying_again_has_an_end(tmp_path: Path) -> None:
    _, pauses, calls, kept = await written(tmp_path, 1, [NoAnswer("status 500")])
    assert (len(pauses), calls, kept) == (4, 5, 0)


async def test_a_model_that_never_answers_is_not_asked_for_everything(tmp_path: Path) -> None:
    said, _, calls, kept = await written(tmp_path, 50, [NoAnswer("status 401")])
    assert (calls, kept) == (10, 0)
    assert any("of 40 chunks (not asked" in line for line in said)


async def test_an_empty_answer_is_none(tmp_path: Path) -> None:
    said, _, _, kept = await written(tmp_path, 2, [" \n", "good"])
    assert kept == 1
    assert "an empty answer" in said[0]


def test_a_long_document_is_shown_around_the_chunk_and_its_braces_mean_nothing() -> None:
    text = "a{passage}" * 10_000
    prompt = rendered(
        "{title}|{document}|{passage}",
        EnrichmentPlan("{document}", text, ()),
        MissingEnrichment("k", "c", 50_000, 50_010, ("H",)),
    )
    title, around, passage = prompt.split("|")
    assert (title, passage) == ("{document}", "H\n" + text[50_000:50_010])
    assert len(around) == 24_000
    assert around in text
