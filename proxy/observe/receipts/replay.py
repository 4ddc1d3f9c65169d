"""A receipt against today: what the same conversation would get now, and how that differs.

`today` makes the outcome of a new search; `differences` compares it with the receipt's. Both are plain JSON, like
receipts.
"""

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from proxy.dialects.quoting import Template, in_order
from proxy.observe.receipts.receipt import Versions, sha256_of
from retrieval.records.documents import DocumentLocation
from retrieval.records.search import Retrieved

Outcome = Mapping[str, Any]
_COMPARED = ("document", "revision", "source", "title", "headings", "start", "end", "text")
# In JSON member order; the query is only its text, and passages have the compared members.
_OF_A_RECEIPT = (
    "status", "reason", "query", "collections", "passages", "injected", "sha256", "injected_tokens", "versions",
)  # fmt: skip


def outcome(kept: Mapping[str, Any]) -> Outcome:
    """A receipt's injected text and passages. kept: from `serialize_receipt`."""
    return {
        **{name: kept[name] for name in _OF_A_RECEIPT},
        "query": kept["query"] and kept["query"]["text"],
        "passages": [{name: one[name] for name in _COMPARED} for one in kept["passages"]],
    }


def today(found: Retrieved, names: Sequence[str], template: Template, versions: Versions) -> Outcome:
    """Today's text and passages. names: the searched collections."""
    passages = in_order(found.context.passages, versions.order)
    text = template.render(passages, names) if passages else ""
    reason = found.query.reason if passages else "nothing relevant found"
    return {
        "status": "augmented" if passages else "empty",
        "reason": f"{reason}, {found.note}" if found.note else reason,
        "query": found.query.text,
        "collections": [
            {"name": one.name, "generation": one.generation, "embedder": one.embedder, "language": one.language}
            for one in (() if found.trace is None else found.trace.searched)
        ],
        "passages": [
            {**{name: getattr(one, name) for name in _COMPARED}, "headings": list(one.headings)} for one in passages
        ],
        "injected": text,
        "sha256": sha256_of(text),
        "injected_tokens": found.context.tokens,
        "versions": {"gateway": versions.gateway, "template": versions.template, "settings": dict(versions.settings)},
    }


def differences(was: Outcome, now: Outcome, there: Sequence[DocumentLocation]) -> dict[str, Any]:
    """The differences; what is unchanged is empty or null. there: the receipt's documents that still exist."""
    return {
        "injected": _pair(was["sha256"], now["sha256"]),
        "status": _pair(was["status"], now["status"]),
        "query": _pair(was["query"], now["query"]),
        "passages": list(_passages(was["passages"], now["passages"])),
        "documents": list(_documents(was["passages"], there)),
        "collections": _changed(*({one["name"]: one for one in each["collections"]} for each in (was, now))),
        "settings": _changed(was["versions"]["settings"], now["versions"]["settings"]),
        "template": _pair(was["versions"]["template"], now["versions"]["template"]),
        "gateway": _pair(was["versions"]["gateway"], now["versions"]["gateway"]),
    }


def _pair(was: object, now: object) -> dict[str, object] | None:
    return None if was == now else {"was": was, "now": now}


def _passages(was: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Each moved or changed passage; `was` and `now` are its numbers in the texts, from 1.

    Two passages of one document with the same text or headings, or with common characters, replace each other.
    """
    pairs = _matched(was, now)
    order = [pairs[at] for at in sorted(pairs)]
    stay = SequenceMatcher(None, order, sorted(order), autojunk=False).get_matching_blocks()
    still = {order[at] for block in stay for at in range(block.a, block.a + block.size)}
    for at, one in enumerate(was):
        if at not in pairs:
            yield _change("removed", one, at, None)
            continue
        other = now[pairs[at]]
        if one["text"] != other["text"]:
            yield _change("changed", other, at, pairs[at])
        elif pairs[at] not in still:
            yield _change("moved", other, at, pairs[at])
    taken = set(pairs.values())
    for at, one in enumerate(now):
        if at not in taken:
            yield _change("added", one, None, at)


def _matched(was: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """Place in `was` -> place in `now`, for equal or replaced passages."""
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for alike in (_same, _akin):
        for at, one in enumerate(was):
            if at in pairs:
                continue
            found = next((i for i, other in enumerate(now) if i not in taken and alike(one, other)), None)
            if found is not None:
                pairs[at] = found
                taken.add(found)
    return pairs


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return bool(one["document"] == other["document"] and one["text"] == other["text"])


def _akin(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    if one["document"] != other["document"]:
        return False
    overlap = one["start"] < other["end"] and other["start"] < one["end"]
    return bool(overlap or one["headings"] == other["headings"])


def _change(change: str, one: Mapping[str, Any], was: int | None, now: int | None) -> dict[str, Any]:
    return {
        "change": change,
        **{name: one[name] for name in ("source", "title", "headings", "document")},
        "was": None if was is None else was + 1,
        "now": None if now is None else now + 1,
    }


def _documents(was: Sequence[Mapping[str, Any]], there: Sequence[DocumentLocation]) -> Iterator[dict[str, Any]]:
    """Documents replaced or deleted since the chat."""
    revisions = {one.document: one.revision for one in there}
    for document, one in {one["document"]: one for one in was}.items():
        revision = revisions.get(document)
        if revision != one["revision"]:
            change = "deleted" if revision is None else "replaced"
            shared = {"document": document, "source": one["source"]}
            yield {"change": change, **shared, "was": one["revision"], "now": revision}


def _changed(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Names whose value changed."""
    names = [name for name in {**was, **now} if was.get(name) != now.get(name)]
    return [{"name": name, "was": was.get(name), "now": now.get(name)} for name in names]
