"""Whether the words of an operation name a change: GET /orders/{id}/cancel changes something, whatever its method says.

Documents of older APIs write a change as a GET. A word counts where a name has its verb: `deleteItem`, `items.delete`,
`/items/delete/{id}`, "Deletes an item". It counts neither as a part of a noun (`/deleted-items`, `/sendgrid`) nor
behind a verb that reads (`listDeleteRequests`). Of 19,046 GETs in 725 public documents, 69 count,
about a quarter of them wrongly.
"""

import re
from functools import lru_cache

# Verbs that are hardly ever nouns. "Update", "order", "pay" and "transfer" are: /transfer lists transfers.
_VERBS = frozenset(
    "activate add approve cancel clear create deactivate delete destroy disable enable erase insert purge reboot "
    "reject remove rename revoke send shutdown submit subscribe terminate unsubscribe withdraw".split()
)
_OF_SUMMARIES = _VERBS - {"add", "create", "send", "submit"}  # "Send a name to receive a list"
# Verbs that are nouns, too: they count with an object behind (transferMoney), where nothing says that the call reads.
_VERBS_AND_NOUNS = frozenset(
    "archive assign block buy charge close import invite lock merge move pay publish purchase refund register reset "
    "restart restore run set start stop transfer trigger unlock update upload".split()
)
_OF_NOUNS = frozenset(
    "analytics by check count data detail details events fee fees for history info information item items list log "
    "logs of report reports result results schedule state stats status summary type types url urls".split()
)
_READING = frozenset(
    "are can check count describe download exists export fetch find get has head is list load lookup preview query "
    "read retrieve return search show validate verify view".split()
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_TEMPLATES = re.compile(r"\{[^{}]*\}")
_PARTS = re.compile(r"[^A-Za-z0-9]+")


@lru_cache(maxsize=4096)
def names_change(name: str, path: str, summary: str) -> bool:
    """Whether a verb of an operation's name (the operationId), path or summary says that the call changes something."""
    parts = [_words(part) for part in _PARTS.split(name) if part]
    segments = [one for one in _TEMPLATES.sub("", path.partition("?")[0]).split("/") if one]
    action = _words(segments[-1].rpartition(":")[2]) if segments else []
    first = summary.split(maxsplit=1)[:1]
    told = _singular(first[0].lower().rstrip(":.,")) if first else ""
    reads = any(words[:1] and words[0] in _READING for words in parts)
    told_to_read = told in _READING and len(action) > 1  # "List delete requests"
    if (_begins_with(_VERBS, action) and not told_to_read) or (
        not reads and any(_begins_with(_VERBS, words) for words in parts)
    ):
        return True
    if reads or told in _READING:
        return False
    return told in _OF_SUMMARIES or any(
        len(words) > 1 and _begins_with(_VERBS_AND_NOUNS, words) for words in (action, *parts)
    )


def _begins_with(verbs: frozenset[str], words: list[str]) -> bool:
    """Whether a name is a verb with an object, and not a noun such as cancelStatus."""
    return bool(words) and words[0] in verbs and words[-1] not in _OF_NOUNS


def _singular(verb: str) -> str:
    """The verb without the s of "deletes"."""
    return verb.removesuffix("s") if verb.removesuffix("s") in _OF_SUMMARIES | _READING else verb


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]
