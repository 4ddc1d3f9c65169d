"""Reading folders of judged questions: what they may hold, and what is said of those that are wrong."""

from pathlib import Path

import pytest

from evaluation.retrieval.judged import corpus, judged_id, read
from retrieval.errors import RetrievalError
from retrieval.records.search import Turn
from tests.evaluation.retrieval.folders import CORPUS, QRELS, QUERIES, judged_folder, write_lines, write_qrels

MOST = 2**20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return judged_folder(tmp_path / "zephyr")


def test_reads_questions_with_their_gold_and_their_conversation(folder: Path) -> None:
    judged = read(folder)
    first, second, _ = judged.questions
    assert (judged.name, first.id, first.gold, first.rewrite) == ("zephyr", "q1", {"connect": 2, "tls": 1}, "")
    assert first.turns == (Turn("user", "How do I open a connection to the Zephyr server?"),)
    assert second.turns == (
        Turn("user", "Which driver does Zephyr have for Java?"),
        Turn("assistant", "The synchronous driver, from Maven."),
        Turn("user", "And with Kotlin?"),
    )
    assert second.rewrite == "Which Zephyr driver do Kotlin programs need?"
    assert judged.rewritten
    assert [question.id for question in judged.unanswerable] == ["u1"]
    assert judged.notes == ()


def test_reads_every_document_of_the_corpus(folder: Path) -> None:
    found = corpus(read(folder), max_bytes=MOST)
    assert [(one.source, one.title, one.text) for one in found.documents] == [
        (row["_id"], row["title"], row["text"]) for row in CORPUS
    ]
    assert (found.origin, found.notes) == ("corpus.jsonl", ())


def test_takes_the_form_of_beir_itself(folder: Path) -> None:
    """Its qrels stand in a folder of their own, its ids may be numbers, its corpus may say more of a document."""
    (folder / "qrels.tsv").unlink()
    write_lines(folder / "corpus.jsonl", [{"_id": 7, "title": "", "text": "Seven.", "metadata": {}}])
    write_lines(folder / "queries.jsonl", [{"_id": 1, "text": "Which?", "metadata": {"url": "x"}}])
    write_qrels(folder / "qrels" / "test.tsv", [("1", "7", 1)])
    judged = read(folder)
    assert judged.questions[0].gold == {"7": 1}
    assert corpus(judged, max_bytes=MOST).documents[0].source == "7"


def test_qrels_need_no_heading_and_ids_may_hold_spaces(folder: Path) -> None:
    write_qrels(folder / "qrels.tsv", [("q1", "GET /a b/{c}", 1)], head="")
    assert read(folder).questions[0].gold == {"GET /a b/{c}": 1}


def test_blank_lines_a_byte_order_mark_and_windows_line_ends_do_no_harm(folder: Path) -> None:
    (folder / "qrels.tsv").write_bytes(b"\xef\xbb\xbfquery-id\tcorpus-id\tscore\r\n\r\nq1\tconnect\t1\r\n")
    assert read(folder).questions[0].gold == {"connect": 1}


def test_a_line_separator_inside_a_text_ends_no_line(folder: Path) -> None:
    write_lines(folder / "queries.jsonl", [{"_id": "q1", "text": "one\u2028two\u0085three"}])
    write_qrels(folder / "qrels.tsv", [("q1", "connect", 1)])
    assert read(folder).questions[0].text == "one\u2028two\u0085three"


def test_says_what_is_left_out(folder: Path) -> None:
    write_qrels(folder / "qrels.tsv", [("q1", "connect", 1), ("q9", "tls", 1), ("q1", "nowhere", 1), ("q1", "none", 0)])
    judged = read(folder)
    assert [question.id for question in judged.questions] == ["q1"]
    unjudged, unknown = judged.notes
    assert "2 of 3 questions have no judgement" in unjudged
    assert "'q9'" in unknown
    (missing,) = corpus(judged, max_bytes=MOST).notes
    assert "1 of 2 relevant documents are not in the corpus ('nowhere' …)" in missing


# Raw files


def write_docs(folder: Path) -> None:
    for name in ("guide/connect.md", "guide/kotlin.rst", "pets.html"):
        page = folder / "docs" / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f"<p>About {name}</p>" if name.endswith("html") else f"About {name}\n", "utf-8")


def test_takes_the_raw_files_where_the_judgements_name_them(folder: Path) -> None:
    write_docs(folder)
    write_qrels(
        folder / "qrels.tsv", [("q1", "guide/connect", 1), ("q2", "guide/kotlin.rst", 1), ("q3", "docs/pets", 1)]
    )
    judged = read(folder)
    found = corpus(judged, max_bytes=MOST)
    assert found.origin == "docs/"
    assert [judged_id(one.source, judged.ids) for one in found.documents] == [
        "guide/connect",
        "guide/kotlin.rst",
        "docs/pets",
    ]
    assert found.notes == ()


def test_takes_the_corpus_where_the_judgements_name_parts_of_files(folder: Path) -> None:
    write_docs(folder)
    assert corpus(read(folder), max_bytes=MOST).origin == "corpus.jsonl"


def test_takes_the_raw_files_where_there_is_nothing_else_and_says_what_is_missing(folder: Path) -> None:
    write_docs(folder)
    (folder / "docs" / "empty.md").write_text(" ", "utf-8")
    (folder / "corpus.jsonl").unlink()
    found = corpus(read(folder), max_bytes=MOST)
    assert found.origin == "docs/"
    unread, missing = found.notes
    assert "docs/empty.md was not read" in unread
    assert "4 of 4 relevant documents are not in the corpus" in missing


@pytest.mark.parametrize(
    ("source", "id"),
    [
        ("docs/a/b.md", "docs/a/b.md"), ("docs/a/c.md", "docs/a/c"), ("docs/a/d.md", "a/d.md"), ("docs/a/e.md", "a/e"),
        ("docs/a/f.md", "docs/a/f.md"), ("g.md", "g"), ("docs/a/h.1.md", "a/h.1"),
    ],
)  # fmt: skip
def test_a_source_stands_for_the_id_that_was_judged(source: str, id: str) -> None:
    assert judged_id(source, frozenset({"docs/a/b.md", "a/b", "docs/a/c", "a/d.md", "a/e", "g", "a/h.1"})) == id


# What is wrong


WRONG = [
    ("queries.jsonl", '{"_id": "q1", "text": "a"}\n{"_id": "q2"', "queries.jsonl, line 2: is not JSON"),
    ("queries.jsonl", '["q1", "a"]\n', 'queries.jsonl, line 1: holds ["q1", "a"]; expected an object'),
    ("queries.jsonl", '{"text": "a"}\n', 'queries.jsonl, line 1: "_id" is missing; expected a text'),
    ("queries.jsonl", '{"_id": "q1", "text": " "}\n', 'line 1: "text" is " "; expected a text that is not empty'),
    ("queries.jsonl", '{"_id": "q1", "text": "a"}\n\n{"_id": "q1", "text": "b"}', "line 3: the _id 'q1' is already in"),
    ("queries.jsonl", '{"_id": "q1", "text": "a", "history": "b"}', '"history" is "b"; expected a list of messages'),
    ("queries.jsonl", '{"_id": "q1", "text": "a", "history": ["b"]}', '"history" holds "b"; expected {"role"'),
    ("queries.jsonl", '{"_id": "q1", "text": "a", "history": [{"role": "user", "content": 3}]}', '"content" of'),
    ("queries.jsonl", '{"_id": "q1", "text": "a", "rewrite": 3}', '"rewrite" is 3; expected a text'),
    ("queries.jsonl", '{"_id": "other", "text": "a"}', "no question of queries.jsonl is judged"),
    ("qrels.tsv", "q1 connect 1\nq1\tconnect\t1\n", "qrels.tsv, line 1: 1 columns between tabs; expected query-id"),
    ("qrels.tsv", "q1\tconnect\t1\nq1\ttls\thigh\n", "qrels.tsv, line 2: the score is 'high'; expected a whole number"),
    ("qrels.tsv", "q1\tconnect\t1\nq1\tconnect\t2\n", "qrels.tsv, line 2: 'connect' has two scores for 'q1'"),
    ("corpus.jsonl", '{"_id": "a", "text": "b", "format": "pdf"}', '"format" is \'pdf\'; expected one of markdown'),
    ("corpus.jsonl", '{"_id": "a", "text": "b", "title": 3}', 'corpus.jsonl, line 1: "title" is 3; expected a text'),
    ("corpus.jsonl", '{"_id": "a"}', 'corpus.jsonl, line 1: "text" is missing; expected a text'),
    ("corpus.jsonl", "", "has no document that can be searched"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "text", "said"), WRONG)
def test_says_in_which_file_and_line_and_what_was_expected(folder: Path, file: str, text: str, said: str) -> None:
    (folder / file).write_text(text, "utf-8")
    with pytest.raises(RetrievalError) as refused:
        corpus(read(folder), max_bytes=MOST)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_utf8_is_named(folder: Path) -> None:
    (folder / "queries.jsonl").write_bytes('{"_id": "q1", "text": "Größe"}'.encode("latin-1"))
    with pytest.raises(RetrievalError, match=r"queries\.jsonl is not UTF-8"):
        read(folder)


@pytest.mark.parametrize("file", ["queries.jsonl", "qrels.tsv"])
def test_a_file_that_is_missing_is_named(folder: Path, file: str) -> None:
    (folder / file).unlink()
    with pytest.raises(RetrievalError, match=rf"{file} is missing"):
        read(folder)


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(RetrievalError, match="nowhere is not a folder"):
        read(tmp_path / "nowhere")


def test_a_folder_without_documents_is_named(folder: Path) -> None:
    (folder / "corpus.jsonl").unlink()
    with pytest.raises(RetrievalError, match=r"neither corpus\.jsonl nor docs/"):
        corpus(read(folder), max_bytes=MOST)


def test_the_folders_of_these_tests_are_as_they_say() -> None:
    """Guards the tests above: ids agree."""
    assert {query for query, _, _ in QRELS} == {row["_id"] for row in QUERIES}
    assert {document for _, document, _ in QRELS} <= {row["_id"] for row in CORPUS}
