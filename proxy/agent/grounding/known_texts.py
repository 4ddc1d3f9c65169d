"""The texts in which a value of a call may stand, without the words of the gateway.

The gateway numbers passages, counts what it leaves out, and quotes the values of a refused call. Such numbers and
values stand nowhere else, and small models make up just such small numbers.
"""

import re

# At the beginning of a refusal, which may quote values that stand nowhere else.
_REFUSAL_BEGINNINGS = ("Nothing was sent", "Nothing was done")
_LINES = re.compile(
    r"(?m)^(?:"
    rf"(?:{'|'.join(_REFUSAL_BEGINNINGS)}).*"
    r"|\[\d+\] .*\(source: .*\)(?: #[0-9a-f]{8})?|\[end of \d+\] #[0-9a-f]{8}"  # of passages
    r"|\((?:The result is cut|Results are shorter now|Characters |There is nothing from|None of the ).*\)"
    r"|The path names no place: .*"  # of a result that is read on
    r"|→ \S+/\S+ \w+"  # a call, for a client that wants progress
    r")$"
)
# Of a search in a result: the head, and the place of each row.
_FOUND = re.compile(r"(?m)^\([\d,]+ of [\d,]+ rows hold words of the query; the best \d+:\)$")
_PLACE = re.compile(r"(?m)^(?:start \d+|(?:/[^\s:/]*)+): ")
_CUTS = re.compile(r"… [\d,]+ (?:more|elements|members|characters left out …)|\"…\": ?\"\d+ more\"")


def is_refusal(result: str) -> bool:
    """Whether the result of a call says that the gateway sent no call."""
    return result.startswith(_REFUSAL_BEGINNINGS)


def without_marks(text: str) -> str:
    """A text of the conversation or a result, without the lines, numbers and counts of the gateway."""
    text = _LINES.sub("", text)
    if _FOUND.search(text):
        text = _PLACE.sub("", _FOUND.sub("", text))
    return _CUTS.sub("…", text)
