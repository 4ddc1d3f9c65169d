"""The questions that the verdicts benchmark makes of pages, and what its scripted models make of them."""

from pathlib import Path

from benchmarks.verdicts.questions import chats, gaps, judged
from benchmarks.verdicts.verdicts import Models, is_right

PAGE = """# Pools

To limit how many connections a client opens, pass a number to the `maxPoolSize()`
method of the builder of its settings.

- Lists with aListedName are left out, however long the sentence in them may be.
"""


def pages(folder: Path) -> Path:
    (folder / "kotlin").mkdir()
    (folder / "kotlin" / "pools.md").write_text(PAGE, "utf-8")
    (folder / "kotlin" / "copied.md").write_text(PAGE, "utf-8")
    (folder / "kotlin" / "empty.md").write_text("# Nothing\n", "utf-8")
    return folder


def test_a_gap_is_asked_once_and_its_name_is_in_the_page_alone(tmp_path: Path) -> None:
    (one,) = gaps(pages(tmp_path), 10)
    assert "____" in one.asked
    assert "maxPoolSize" not in one.asked
    assert (one.question.must, one.evidence, one.right) == (
        ("maxPoolSize",),
        ("maxPoolSize",),
        "The name is maxPoolSize.",
    )
    assert one.question.tags == ("gaps", "kotlin")


def test_a_model_is_right_where_its_script_says_so(tmp_path: Path) -> None:
    (one,) = gaps(pages(tmp_path), 10)
    assert [is_right("reader", one, shown) for shown in ("", "another page", "call maxPoolSize(5)")] == [
        False,
        False,
        True,
    ]
    assert is_right("misled", one, "")
    assert is_right("deaf", one, "") == is_right("deaf", one, "anything")


def test_what_was_asked_without_passages_alone_did_not_change() -> None:
    models = Models({})
    models.right["reader", "q1"] |= {False: False, True: True}
    models.right["reader", "q2"][False] = True
    models.right["deaf", "q1"] |= {False: True, True: False}
    assert models.changes("reader") == {"q1": 1, "q2": 0}
    assert models.changes("deaf") == {"q1": -1}


def test_judged_sets_and_conversations_are_read(tmp_path: Path) -> None:
    (tmp_path / "queries.jsonl").write_text('{"_id": "a", "text": "How many?"}\n', "utf-8")
    (tmp_path / "qrels.tsv").write_text("a\tkotlin/pools\t1\n", "utf-8")
    (one,) = judged(tmp_path)
    assert (one.question.gold, one.evidence) == (("kotlin/pools",), ("kotlin/pools.md)",))
    file = tmp_path / "chats.yml"
    file.write_text("- {name: x, expectation: A B, messages: [{role: user, content: Why}]}\n", "utf-8")
    (one,) = chats(file)
    assert (one.right, one.evidence, one.row["reference"]) == ("A B", (), "A B")
