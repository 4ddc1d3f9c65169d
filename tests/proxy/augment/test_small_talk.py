"""Small talk is known by closed lists, and no question is taken for small talk."""

import re
import unicodedata
from collections.abc import Callable, Sequence

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from config.settings import SMALL_TALK as FILE
from proxy.augment import skipped
from proxy.augment.skipped import SmallTalk
from retrieval.records.search import Turn
from tests.proxy.augment.small_talk_lines import AGREEMENT, ASKED, CHAT, CONTINUED, FOLLOW_UPS, SMALL_TALK
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


def parts(text: str) -> list[str]:
    return [line.strip() for line in " ".join(text.split()).split(" / ")]


@all_rows("language", CHAT)
def test_behind_an_answer_nine_in_ten_courtesies_of_each_language_are_known(language: str) -> None:
    said = parts(CHAT[language])
    unknown = [line for line in said if not is_small_talk(line)]
    assert 10 * len(unknown) <= len(said), unknown


@all_rows("line", [line for text in ASKED.values() for line in parts(text)])
def test_a_short_follow_up_without_a_question_mark_is_searched_for(line: str) -> None:
    assert not is_small_talk(line)


COURTESIES = [line for text in CHAT.values() for line in parts(text)]


@given(
    st.sampled_from(COURTESIES), st.sampled_from(["mooring", "KR-400", "2021", "кворум", "费用表", "مرساة"]), st.data()
)
def test_a_word_of_no_list_makes_a_question_wherever_it_stands(line: str, word: str, data: st.DataObject) -> None:
    words = line.split()
    words.insert(data.draw(st.integers(0, len(words))), word)
    assert not is_small_talk(" ".join(words))


@given(
    st.sampled_from(COURTESIES),
    st.sampled_from([str.upper, str.title, lambda line: unicodedata.normalize("NFD", line)]),
)
def test_case_accents_and_punctuation_do_not_matter(line: str, change: Callable[[str], str]) -> None:
    assert is_small_talk(line) == is_small_talk(change(line)) == is_small_talk(f"… {line}!!! 😊")


@pytest.mark.parametrize("word", ["so ", "thanks ", "ok ", "is it ", "the ", "很", "とても", "а "])
def test_a_long_message_is_read_in_linear_time(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The phrases compared grow as the length."""
    compared = 0
    matched = skipped._matched

    def counted(words: Sequence[str], ends: set[int], parts: Sequence[Sequence[tuple[str, ...]]]) -> set[int]:
        nonlocal compared
        compared += 1
        return matched(words, ends, parts)

    monkeypatch.setattr(skipped, "_matched", counted)
    counts = []
    for times in (5, 10, 20):
        compared = 0
        is_small_talk((word * times).strip())
        counts.append(compared / times)
    assert counts[0] > 0
    assert counts[-1] <= 2 * counts[0]


@pytest.mark.parametrize(
    "line",
    [
        "schoenen Dank",  # two letters for an umlaut
        "merci d'avoir répondu si vite",  # elided words
        "merci pour l’efficacité",
        "شكرا للمساعدة",  # article and preposition, written as one with the word
        "thankss",
        "ANLADIM",  # the capital of the dotless i
        "danke Claude",
        "감사드립니다",
    ],
)
def test_a_courtesy_is_known_in_other_spellings(line: str) -> None:
    assert is_small_talk(line)


@pytest.mark.parametrize("line", ["a", "b", "c", "the latter", "ok the latter", "great, zoo", "la meilleure", "claude"])
def test_a_choice_or_a_subject_is_never_taken_for_another_spelling(line: str) -> None:
    assert not is_small_talk(line)


def test_endings_are_written_as_one_with_each_stem() -> None:
    found = skipped._patterns("dank|lob +e|ens|, sehr", skipped._Phrases())
    assert set(found) == {"danke", "dankens", "dank", "lobe", "lobens", "lob", "sehr"}


def test_every_phrase_is_small_talk_behind_an_answer() -> None:
    """A phrase that the normal form of words breaks would never match. Some are requests if nothing follows."""
    for name, language in yaml.load(FILE.read_text("utf-8"), Loader=yaml.CSafeLoader).items():
        if "courtesies" in language:
            for phrase in f"{language['courtesies']}, {language['agreement']}".split(","):
                first = re.sub(r"\|\S*", "", phrase).replace(" +", "").replace("_", " ")
                assert is_small_talk(f"{first} thanks"), (name, phrase)
