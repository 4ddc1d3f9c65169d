"""The table on small talk: shares of each collection, and follow-ups that are taken for courtesies."""

from benchmarks.retrieval.small_talk import Said, known_by_language, own_lines, page
from config.settings import SMALL_TALK
from proxy.augment.skipped import SmallTalk


def test_a_known_courtesy_gets_no_passages() -> None:
    told = page([Said("a", True, True), Said("a", False, True), Said("a", False, False), Said("b", True, True)])
    assert "| a | 3 | 66.7% | 33.3% |" in told
    assert "| b | 1 | 100.0% | 0.0% |" in told


def test_unknown_courtesies_and_lost_follow_ups_are_counted() -> None:
    lines = {"en": {"courtesies": ["thanks", "mooring"], "follow_ups": ["why", "bye"]}}
    told = known_by_language(lines, SmallTalk.read(SMALL_TALK))
    assert "| en | 1 of 2 | 1 of 2 |" in told
    assert "- lost: bye" in told


def test_the_lines_of_the_tests_are_in_fourteen_languages() -> None:
    lines = own_lines()
    assert len(lines) == 14
    assert all(len(kinds[kind]) >= 25 for kinds in lines.values() for kind in ("courtesies", "follow_ups"))
