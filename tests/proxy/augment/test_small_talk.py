"""Small talk is known by closed lists, and no question is taken for small talk."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.settings import SMALL_TALK as FILE
from proxy.augment.skipped import SmallTalk
from retrieval.records.search import Turn
from tests.proxy.augment.small_talk_lines import AGREEMENT, CONTINUED, FOLLOW_UPS, SMALL_TALK
from tests.support.rows import all_rows

LISTS = SmallTalk.read(FILE)
ANSWER = "The fee is 110 crowns a night. Pay at the machine."


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


def is_small_talk(line: str, answer: str = ANSWER) -> bool:
    return LISTS.match([Turn("user", "How much is the fee?"), Turn("assistant", answer), Turn("user", line)])


@all_rows("language", SMALL_TALK)
def test_at_least_four_in_five_courtesies_of_each_language_are_known(language: str) -> None:
    said = lines(SMALL_TALK[language])
    unknown = [line for line in said if not is_small_talk(line)]
    assert 5 * len(unknown) <= len(said), unknown


@all_rows("line", lines(FOLLOW_UPS) + lines(CONTINUED))
def test_a_follow_up_is_never_small_talk(line: str) -> None:
    assert not is_small_talk(line)
    assert not LISTS.match([Turn("user", line)])


@all_rows("line", lines(AGREEMENT))
@all_rows(
    "answer",
    [
        "Shall I show the steps?",
        "There are two ways.\n\n**Do you want to see them?** 😊",
        "Möchten Sie die Schritte sehen?",
        "需要我显示步骤吗？",
        "هل تريد الخطوات؟",
    ],
)
def test_agreement_to_a_question_of_the_assistant_is_an_answer(line: str, answer: str) -> None:
    assert not is_small_talk(line, answer)


@pytest.mark.parametrize("line", ["ok", "great", "👍", "alles klar", "好的"])
def test_agreement_is_small_talk_only_in_a_conversation_that_waits_for_nothing(line: str) -> None:
    assert is_small_talk(line)
    assert is_small_talk(line, "It is open. Is there anything else I can help you with?")
    assert is_small_talk(line, "Why is it closed? Because of the storm.\n\nIt opens on Monday.")
    assert not LISTS.match([Turn("user", line)])
    assert not LISTS.match([Turn("user", "How much?"), Turn("user", line)])


@pytest.mark.parametrize(
    "line", ["Thanks!", "hello", "谢谢", "bye", "haha", "THANK YOU SO MUCH!!!", "thaaanks", "Gràcias…"]
)
def test_a_courtesy_is_small_talk_anywhere(line: str) -> None:
    assert is_small_talk(line)
    assert is_small_talk(line, "Shall I go on?")
    assert LISTS.match([Turn("user", line)])


@pytest.mark.parametrize("line", ["🇳🇴", "1️⃣", "?", "🤔?", "2", "thanks " * 60])
def test_a_flag_a_number_and_a_question_mark_say_something(line: str) -> None:
    assert not is_small_talk(line)


def test_without_lists_nothing_is_small_talk() -> None:
    assert not SmallTalk().match([Turn("user", "thanks")])


@given(st.sampled_from(lines(SMALL_TALK["en"])), st.sampled_from(["mooring", "fee", "2021", "KR-400", "where", "why"]))
def test_one_word_more_makes_a_question(line: str, word: str) -> None:
    assert not is_small_talk(f"{line} {word}")
    assert not is_small_talk(f"{word} {line}")


@given(st.text(max_size=80))
def test_any_text_is_read(text: str) -> None:
    is_small_talk(text)
    LISTS.match([Turn("user", text)])


def test_every_phrase_is_small_talk_or_stands_beside() -> None:
    """A phrase that the normal form of words breaks would never match."""
    import yaml

    for name, language in yaml.safe_load(FILE.read_text("utf-8")).items():
        if isinstance(language, dict):
            for phrase in (*language["courtesies"], *language["agreement"]):
                assert is_small_talk(phrase), (name, phrase)
