"""The gateway's sentences about writes, in the languages of people."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from proxy.agent.writes.codes import WORDS

Denied = Literal["wrong_code", "expired", "used", "void", "other_person", "rights_changed", "unknown"]


@dataclass(frozen=True, slots=True)
class Sentences:
    """What the gateway says to a person in one language. Labels end with a colon."""

    nothing_sent: str
    to_do: str  # {line}
    to_do_all: str  # {line}
    to_do_some: str  # {line}
    to_leave: str  # {minutes}
    address: str
    header: str
    body: str
    none: str
    empty: str
    as_: str
    as_key: str  # {key}, {api}
    as_gateway: str  # {api}
    fixed: str
    now: str
    more: str  # {count}
    from_passage: str
    from_result: str
    done_before: str  # {seconds}
    text: str  # {chars}, {lines}
    left_out: str  # {chars}
    with_address: str
    file: str
    bytes: str
    denied: Mapping[Denied, str]


_ENGLISH = Sentences(
    nothing_sent="This will change something. Nothing has been sent yet.",
    to_do="To do it, answer: {line}",
    to_do_all="To do all, answer: {line}",
    to_do_some="To do some: {line}",
    to_leave="To leave it, answer anything else. Valid for {minutes} minutes.",
    address="address:",
    header="header:",
    body="body:",
    none="none",
    empty="empty",
    as_="as:",
    as_key="key {key} of {api}",
    as_gateway="the gateway's account at {api}",
    fixed="fixed:",
    now="now:",
    more="{count} more",
    from_passage="value from a document, not from you:",
    from_result="value from a result, not from you:",
    done_before="done already: {seconds} s ago, with the same content",
    text="text ({chars} characters, lines: {lines})",
    left_out="{chars} characters left out",
    with_address="left out, too:",
    file="file",
    bytes="bytes",
    denied={
        "wrong_code": "This is not the code that was shown. Nothing was sent.",
        "expired": "The code is no longer valid. Nothing was sent. Ask again, and you get a new code.",
        "used": "This code was used before. Nothing was sent again.",
        "void": "This code no longer counts, because something else was said in between. Nothing was sent.",
        "other_person": "This code was shown to somebody else. Nothing was sent.",
        "rights_changed": "The rights or the API have changed since this was shown. Nothing was sent. Ask again.",
        "unknown": "No action waits for this code. Nothing was sent.",
    },
)
_ALL: Mapping[str, Sentences] = {"en": _ENGLISH}


def sentences(language: str) -> Sentences:
    """The sentences in a language (ISO 639-1); English without a translation."""
    return _ALL.get(language, _ENGLISH)


def confirm_word(language: str) -> str:
    """The word of the code line; `confirm` is accepted in every language."""
    return WORDS["en"] if sentences(language) is _ENGLISH else WORDS.get(language, WORDS["en"])
