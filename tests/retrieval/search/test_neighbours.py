"""Neighbours: what follows one another becomes one passage, with nothing twice and nothing lost."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.records.documents import Passage, shown_text
from retrieval.records.search import Hit
from retrieval.search.pack import adjacent_runs, join, ordinals_around, pack, place_of, stitch, tokens_of, tokens_saved

TEXT = "\n\n".join(" ".join(f"w{i}x{j * i * 7919 % 977}" for j in range(1, 9)) + "." for i in range(1, 13))


def chunks(text: str = TEXT, *, size: int = 60, overlap: int = 20, document: str = "d") -> list[Passage]:
    """The text cut as ingest cuts it: spans without blanks around them, overlapping or with blanks between them."""
    found: list[Passage] = []
    for start in range(0, len(text), size - overlap):
        piece = text[start : start + size]
        begin = start + len(piece) - len(piece.lstrip())
        end = start + len(piece.rstrip())
        if begin < end and (not found or end > found[-1].end):
            said = text[begin:end]
            tokens = 1 + len(shown_text("a.md", "Title", ("Deep",), said)) // 4
            found.append(Passage(document, 1, len(found), "Title", "a.md", 1.0, ("Deep",), begin, end, said, tokens))
    return found


def merged(passages: list[Passage], text: str = TEXT) -> list[Passage]:
    return [
        one
        for run in adjacent_runs(passages)
        for one in (join(run, text[run[0].start : run[-1].end]) if len(run) > 1 else run)
    ]


overlaps = st.integers(0, 40)
choices = st.lists(st.integers(0, 20), unique=True, max_size=12)


@given(choices, overlaps)
def test_keeps_all_text_and_repeats_none(chosen: list[int], overlap: int) -> None:
    pieces = chunks(overlap=overlap)
    passages = [pieces[i] for i in chosen if i < len(pieces)]
    found = merged(passages)
    assert all(one.text == TEXT[one.start : one.end] for one in found)
    covered = {at for one in passages for at in range(one.start, one.end)}
    shown = [at for one in found for at in range(one.start, one.end)]
    assert covered <= set(shown)
    assert all(TEXT[at].isspace() for at in set(shown) - covered)
    for one in passages:
        assert any(whole.start <= one.start and one.end <= whole.end for whole in found)


@given(choices, overlaps)
def test_the_best_passage_gives_its_place_to_all_it_is_joined_with(chosen: list[int], overlap: int) -> None:
    pieces = chunks(overlap=overlap)
    passages = [pieces[i] for i in chosen if i < len(pieces)]
    ranks = [
        min(i for i, piece in enumerate(passages) if one.start <= piece.start and piece.end <= one.end)
        for one in merged(passages)
    ]
    assert ranks == sorted(ranks)


@given(choices, overlaps)
def test_takes_no_more_tokens_than_apart_and_as_many_as_packing_counted(chosen: list[int], overlap: int) -> None:
    pieces = chunks(overlap=overlap)
    passages = [pieces[i] for i in chosen if i < len(pieces)]
    hits = [Hit(str(i), 1.0, one) for i, one in enumerate(passages)]
    packed = pack(hits, k=50, budget_tokens=10_000, merge=True)
    apart = pack(hits, k=50, budget_tokens=10_000)
    assert packed.passages == apart.passages
    found = merged(list(packed.passages))
    assert packed.tokens == sum(one.tokens for one in found) == tokens_of(sorted(packed.passages, key=place_of))
    assert packed.tokens <= apart.tokens
    assert all(one.tokens > 0 for one in found)


@given(choices, overlaps, st.integers(0, 400))
def test_what_is_joined_stays_within_the_budget(chosen: list[int], overlap: int, budget: int) -> None:
    pieces = chunks(overlap=overlap)
    hits = [Hit(str(i), 1.0, pieces[i]) for i in chosen if i < len(pieces)]
    packed = pack(hits, k=50, budget_tokens=budget, merge=True)
    assert sum(one.tokens for one in merged(list(packed.passages))) <= budget


@given(choices, overlaps)
def test_what_overlaps_or_touches_needs_no_document(chosen: list[int], overlap: int) -> None:
    pieces = chunks(overlap=overlap)
    for run in adjacent_runs([pieces[i] for i in chosen if i < len(pieces)]):
        text = stitch(run)
        gaps = any(one.start > before.end for before, one in pairwise(run))
        assert text == (None if gaps else TEXT[run[0].start : run[-1].end])


def test_a_made_text_is_not_stitched() -> None:
    first, second = chunks(overlap=20)[:2]
    assert stitch([first, replace(second, text="Q" + second.text)]) is None


def test_joining_makes_room_for_more() -> None:
    pieces = chunks(overlap=30)
    hits = [Hit(str(i), 1.0, one) for i, one in enumerate(pieces[:8])]
    apart = pack(hits, k=8, budget_tokens=80)
    together = pack(hits, k=8, budget_tokens=80, merge=True)
    assert len(together.passages) > len(apart.passages)


def test_the_estimate_is_near_what_the_whole_takes() -> None:
    pieces = chunks(overlap=20)
    (whole,) = merged(pieces)
    exact = 1 + len(shown_text("a.md", "Title", ("Deep",), TEXT)) // 4
    assert whole.tokens == pytest.approx(exact, rel=0.1)


def test_chunks_of_two_documents_or_revisions_are_no_neighbours() -> None:
    first, second = chunks()[:2]
    other = replace(second, document="e")
    later = replace(second, revision=2)
    assert [len(run) for run in adjacent_runs([first, other, later])] == [1, 1, 1]
    assert tokens_saved(first, {place_of(other): other, place_of(later): later}) == 0


def test_a_gap_between_two_keeps_them_apart() -> None:
    pieces = chunks()
    assert [[one.ordinal for one in run] for run in adjacent_runs([pieces[4], pieces[0], pieces[1], pieces[3]])] == [
        [3, 4],
        [0, 1],
    ]


def test_a_text_that_is_no_span_of_its_document_stays_as_it_is() -> None:
    first, second = chunks(overlap=0)[:2]
    made = replace(second, text="Q: what is it? A: " + second.text)
    run = [first, made]
    assert join(run, TEXT[first.start : made.end]) == run


def test_looks_around_the_best_first_and_the_nearest_first() -> None:
    pieces = chunks()
    near = ordinals_around([pieces[3], pieces[0]], 2)
    assert [(one.ordinal, ordinal) for one, ordinal in near] == [(3, 2), (3, 4), (0, 1), (3, 5)]


@given(choices, st.integers(0, 3))
def test_never_looks_for_what_is_there_nor_twice(chosen: list[int], reach: int) -> None:
    pieces = chunks()
    passages = [pieces[i] for i in chosen if i < len(pieces)]
    wanted = [ordinal for _, ordinal in ordinals_around(passages, reach)]
    assert len(set(wanted)) == len(wanted)
    assert not set(wanted) & {one.ordinal for one in passages}
    assert all(ordinal >= 0 for ordinal in wanted)
