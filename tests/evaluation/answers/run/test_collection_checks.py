"""Questions that stand in documents are found, and others are not."""

import pytest

from evaluation.answers.records import Leak, Question
from evaluation.answers.run.collection_checks import _LeakSearch, about_leaks


def looked(question: str, text: str, reference: str | None = None) -> dict[str, Leak]:
    asked = Question("q", [{"role": "user", "content": question}], reference=reference)
    found = _LeakSearch([asked])
    found.take([{"id": "d", "source": "faq.md", "title": "", "text": text}])
    return found.found


FAQ = "Questions.\n\nQ: Which port does the server of the north hall listen on?\nA: It listens on port 5123.\n\nBye."


@pytest.mark.parametrize(
    "question",
    [
        "Which port does the server of the north hall listen on?",
        "which port does the server of the North Hall listen on",
        "Which port does server of the north hall listen on, please?",
    ],
)
def test_a_question_that_stands_in_a_document_is_found_also_nearly_word_for_word(question: str) -> None:
    assert looked(question, FAQ) == {"q": Leak("faq.md", False)}
    assert looked(question, "before " * 500 + FAQ, "port 5123") == {"q": Leak("faq.md", True)}
    assert looked(question, FAQ, "port 80") == {"q": Leak("faq.md", False)}


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Where does the server of the south hall write its log?", FAQ),
        ("What is the port of service number 7 in the north hall?", "The port of service number 8 in the north hall."),
        ("Why is that so?", "Why is that so? Nobody knows why is that so."),
        ("Which port does the server of the north hall listen on?",
         "Which port? " + "The server of the hall. " * 9 + "Listen on north does which."),
    ],
)  # fmt: skip
def test_a_question_that_only_shares_words_is_none(question: str, text: str) -> None:
    assert looked(question, text) == {}


def test_it_is_told_how_many_there_are_and_where() -> None:
    assert about_leaks({}, 9) == ""
    told = about_leaks({f"q{n}": Leak(f"{n}.md", n == 0) for n in range(7)}, 9)
    assert told.startswith(
        "Leak: 7 of 9 questions stand in the documents nearly word for word, 1 of them with the answer"
    )
    assert "q0 in 0.md" in told
    assert "q4 in 4.md …" in told
