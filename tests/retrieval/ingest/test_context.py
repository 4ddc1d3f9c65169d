"""What models wrote: kept by everything they saw, cut to its room, and never part of the text."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from retrieval.ingest.context import Contexts, enrich, key_of
from retrieval.knowledge import Enrichment
from retrieval.records.documents import Chunk, Document, indexed_text, lexical_text, shown_text
from tests.support.first_writer import first_writer
from tests.support.minilm import minilm

SAYS = Enrichment("context", "writer", "About {passage}")
ASKS = Enrichment("questions", "writer", "Questions on {passage}")
DOCUMENT = Document("a.md", "Title", "One two three. Four five six.", "markdown", 0.0)
CHUNKS = [Chunk(0, 0, 14, "One two three.", ("Top",)), Chunk(1, 15, 29, "Four five six.", ())]


def test_a_key_follows_from_all_that_the_model_saw() -> None:
    chunk = CHUNKS[0]
    keys = [
        key_of(SAYS, DOCUMENT, chunk),
        key_of(ASKS, DOCUMENT, chunk),
        key_of(replace(SAYS, model="other"), DOCUMENT, chunk),
        key_of(replace(SAYS, prompt="On {passage}"), DOCUMENT, chunk),
        key_of(SAYS, replace(DOCUMENT, text="One two three. Seven."), chunk),
        key_of(SAYS, replace(DOCUMENT, title="Other"), chunk),
        key_of(SAYS, DOCUMENT, replace(chunk, text="One two three")),
        key_of(SAYS, DOCUMENT, replace(chunk, headings=("Top", "Down"))),
        key_of(SAYS, DOCUMENT, replace(chunk, start=3)),
    ]
    assert len(set(keys)) == len(keys)
    assert key_of(SAYS, replace(DOCUMENT, source="b.md", modified_s=9.0), chunk) == keys[0]


def test_answers_outlive_the_process_and_are_seen_by_others(tmp_path: Path) -> None:
    writer, reader = Contexts(tmp_path / "c.sqlite"), Contexts(tmp_path / "c.sqlite")
    writer.put("a", "first")
    writer.put("a", "second")
    assert reader.get(["a", "b"]) == {"a": "second"}
    writer.close()
    reader.close()
    again = Contexts(tmp_path / "c.sqlite")
    assert again.get(["a"]) == {"a": "second"}
    again.close()


def test_asks_for_any_number_of_keys_at_once(tmp_path: Path) -> None:
    contexts = Contexts(tmp_path / "c.sqlite")
    for number in range(1200):
        contexts.put(f"k{number}", str(number))
    assert len(contexts.get([f"k{number}" for number in range(1500)])) == 1200
    contexts.close()


def test_names_what_is_missing_and_gives_each_chunk_what_is_known(tmp_path: Path) -> None:
    contexts = Contexts(tmp_path / "c.sqlite")
    contexts.put(key_of(SAYS, DOCUMENT, CHUNKS[0]), "The first\n three. ")
    contexts.put(key_of(ASKS, DOCUMENT, CHUNKS[0]), "Which three?")
    done = enrich(DOCUMENT, CHUNKS, (SAYS, ASKS), contexts, tokens=minilm(), limit_tokens=40)
    contexts.close()
    assert [chunk.context for chunk in done.chunks] == ["The first three.\nWhich three?", ""]
    assert [chunk.text for chunk in done.chunks] == [chunk.text for chunk in CHUNKS]
    assert [(ordinal, one.kind) for ordinal, one, _ in done.missing] == [(1, "context"), (1, "questions")]
    assert {key for _, _, key in done.missing} == {key_of(one, DOCUMENT, CHUNKS[1]) for one in (SAYS, ASKS)}


@pytest.mark.parametrize("answer", ["word " * 500, "antidisestablishmentarianism" * 30, "数据库" * 100])
def test_what_is_too_long_is_cut_to_its_share_of_the_room(answer: str, tmp_path: Path) -> None:
    contexts = Contexts(tmp_path / "c.sqlite")
    contexts.put(key_of(SAYS, DOCUMENT, CHUNKS[0]), answer)
    done = enrich(DOCUMENT, CHUNKS[:1], (SAYS, ASKS), contexts, tokens=minilm(), limit_tokens=30)
    contexts.close()
    assert minilm().count(done.chunks[0].context) <= 15
    assert answer.startswith(done.chunks[0].context)


def test_it_is_embedded_and_indexed_and_never_shown() -> None:
    assert indexed_text("T", ("H",), "text", "said") == "T > H\nsaid\ntext"
    assert lexical_text("T", ("H",), "text", "said") == "T > H\nT > H\nsaid\ntext"
    assert lexical_text("T", (), "text", names="f g") == "T\nT\ntext\nf g"
    assert lexical_text("T", (), "text", source="kotlin/guide/a.md") == "T\nT\ntext\nkotlin guide a.md"
    assert lexical_text("", (), "text") == indexed_text("", (), "text") == "text"
    assert shown_text("a.md", "T", ("H",), "text") == "a.md T > H\ntext"


def test_a_new_file_can_have_a_first_writer_while_another_process_opens(tmp_path: Path) -> None:
    file = tmp_path / "a.sqlite"
    with first_writer(file), closing(Contexts(file)):
        pass
