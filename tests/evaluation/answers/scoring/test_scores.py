"""Answers to scores, by rules alone."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.answers.scoring.scores import Scores, answer_scores, found_scores


def scores(
    answer: str,
    *,
    reference: str | None = None,
    must: Sequence[str] = (),
    must_not: Sequence[str] = (),
    answerable: bool | None = None,
) -> Scores:
    return answer_scores(answer, reference=reference, must=must, must_not=must_not, answerable=answerable)


def test_the_reference_itself_scores_full_marks() -> None:
    found = scores("Port 27017.", reference="Port 27017.")
    assert found["exact"] == found["normalised"] == found["f1"] == found["numbers"] == found["score"] == 1.0


def test_case_articles_and_punctuation_are_not_exact_but_normalised() -> None:
    found = scores("the port, 27017", reference="Port 27017.")
    assert (found["exact"], found["normalised"]) == (0.0, 1.0)


def test_f1_is_the_harmonic_mean_of_precision_and_recall_of_words() -> None:
    """SQuAD: 2 common words; precision 2/4, recall 2/3."""
    assert scores("red green blue grey", reference="red green white")["f1"] == pytest.approx(2 * 2 / (4 + 3))
    assert scores("red red", reference="red")["f1"] == pytest.approx(2 / 3)
    assert scores("nothing alike", reference="something else")["f1"] == 0.0


def test_a_long_answer_that_has_the_reference_in_it_is_right() -> None:
    found = scores(
        "By default, as everyone knows, the server listens on port 27017 of each interface.", reference="port 27017"
    )
    assert found["reference"] == found["score"] == 1.0
    assert found["f1"] is not None
    assert found["f1"] < 0.5


def test_numbers_and_versions_of_the_reference_are_looked_for() -> None:
    assert scores("Since 4.2, up to 100.", reference="v4.2 allows 1,000")["numbers"] == 0.5
    assert scores("whatever", reference="no number")["numbers"] is None


def test_facts_are_the_share_of_what_must_be_said() -> None:
    found = scores("Use retryWrites, since 4.2.", must=["retrywrites", "version 4.2", "majority"])
    assert found["must"] == found["facts"] == found["score"] == pytest.approx(2 / 3)


def test_one_forbidden_fact_spoils_the_answer() -> None:
    found = scores("Since 4.2; before it was 3.6.", must=["4.2"], must_not=["3.6", "3.4"])
    assert (found["must"], found["must_not"], found["facts"], found["score"]) == (1.0, 0.5, 0.0, 0.0)


def test_without_anything_required_the_absence_of_the_forbidden_counts() -> None:
    assert scores("Use sharding.", must_not=["replica set"])["score"] == 1.0


def test_a_fact_of_signs_alone_is_looked_for_as_it_is() -> None:
    assert scores("a -> b", must=["->"])["must"] == 1.0
    assert scores("a to b", must=["->"])["must"] == 0.0


def test_facts_go_before_the_reference() -> None:
    assert scores("only 4.2", reference="4.2 and much more", must=["4.2"])["score"] == 1.0


def test_refusing_what_nothing_answers_is_right_and_answering_it_is_wrong() -> None:
    assert scores("I don't know.", answerable=False)["score"] == 1.0
    assert scores("It is 42.", answerable=False)["score"] == 0.0
    assert scores("", answerable=False)["score"] == 0.0


def test_refusing_where_an_answer_was_due_is_wrong() -> None:
    found = scores("I cannot find that in the passages.", reference="27017", answerable=True)
    assert (found["refusal"], found["score"]) == (0.0, 0.0)
    assert scores("27017", reference="27017", answerable=True)["refusal"] == 1.0


def test_no_answer_has_no_point() -> None:
    assert scores("  ", must_not=["x"])["score"] == 0.0


def test_without_anything_known_there_is_no_score() -> None:
    assert set(scores("Anything.").values()) == {None}


def found(answer: str = "", *, sources: Sequence[str], gold: Sequence[str], documents: Sequence[str] = ()) -> Scores:
    return found_scores(answer, sources=sources, documents=documents, gold=gold)


def test_retrieval_is_scored_by_the_documents_in_front_of_the_model() -> None:
    scored = found(sources=["docs/b.md", "docs/a.md", "docs/a.md", "docs/c.md"], gold=["docs/a.md", "docs/d.md"])
    assert scored["context_precision"] == 0.5
    assert scored["context_recall"] == 0.5
    assert scored["ndcg"] == pytest.approx((1 / 1.5849625) / (1 + 1 / 1.5849625))


def test_gold_may_name_a_document_by_its_id_or_without_folder_and_ending() -> None:
    assert found(sources=["docs/a.md"], documents=["d-1"], gold=["d-1"])["context_recall"] == 1.0
    assert found(sources=["docs/a.md"], documents=["d-1"], gold=["a"])["context_recall"] == 1.0


def test_citations_are_marks_or_names_of_passages() -> None:
    sources = ["a.md", "b.md", "c.md"]
    assert found("It is so [1, 3].", sources=sources, gold=["a.md"])["cited"] == 1.0
    assert found("It is so [1, 3].", sources=sources, gold=["a.md"])["cited_gold"] == 0.5
    assert found("As b.md says.", sources=sources, gold=["a.md", "b.md"])["cited"] == 0.5
    assert found("Item [9].", sources=sources, gold=["a.md"])["cited"] == 0.0
    assert found("Item [9].", sources=sources, gold=["a.md"])["cited_gold"] is None


def test_what_was_not_in_front_cannot_be_cited() -> None:
    assert found("[1]", sources=["b.md"], gold=["a.md"])["cited"] is None


def test_without_gold_or_passages_retrieval_has_no_score() -> None:
    assert set(found(sources=["a.md"], gold=[]).values()) == {None}
    nothing = found(sources=[], gold=["a.md"])
    assert (nothing["context_precision"], nothing["context_recall"], nothing["ndcg"]) == (None, 0.0, 0.0)


@given(st.text(), st.text(), st.lists(st.text(), max_size=3), st.lists(st.text(), max_size=3), st.booleans())
def test_scores_of_any_text_are_between_0_and_1(
    answer: str, reference: str, must: list[str], must_not: list[str], answerable: bool
) -> None:
    given_scores = scores(answer, reference=reference, must=must, must_not=must_not, answerable=answerable)
    assert all(score is None or 0 <= score <= 1 for score in given_scores.values())
    assert given_scores["score"] is not None


@given(st.text().filter(str.strip))
def test_an_answer_with_the_fact_in_it_states_it(fact: str) -> None:
    assert scores(f"word , {fact.strip()} ; word", must=[fact])["must"] == 1.0
