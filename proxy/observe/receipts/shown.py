"""A receipt as its reader sees it: every part, or nothing.

A receipt quotes documents and a conversation. So readers must be allowed to read each named document, in the receipt's
revision and in today's, in a collection that they may read today; and they must be in the chat's team (without a team:
have the same key), or be an admin. A deleted document has no readers, and neither has a receipt that quotes it. Results
of operations are only for the chat's own key and for admins: an API may answer another key in the team with less.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.caller import Rights
from proxy.observe.receipts.receipt import allowed
from retrieval.knowledge import Knowledge
from retrieval.records.documents import DocumentLocation

_OF_A_POINT = ("document", "revision", "source", "title", "headings", "start", "end")
_OF_A_PASSAGE = (*_OF_A_POINT, "text", "tokens")


async def readable_receipt(
    kept: Mapping[str, Any], knowledge: Knowledge, rights: Rights, owner: str, key: str
) -> dict[str, Any] | None:
    """The receipt for this reader; None if some part is not theirs to read. kept: from `serialize_receipt`.

    Raises RetrievalError.
    """
    names = [collection["name"] for collection in kept["collections"]] or kept["_asked"]
    if not (kept["_owner"] == owner or rights.admin) or any(name not in rights.read for name in names):
        return None
    if not _may_read_calls(kept, rights, key):
        return None
    named = await _named(kept, knowledge, names)
    quoted = [*named.values(), *kept["passages"]]
    documents = list({passage["document"] for passage in quoted})
    locations = await knowledge.library.locations(documents, rights.groups) if documents else []
    there = {location.document: location for location in locations}
    if not all(
        passage["document"] in there
        and there[passage["document"]].collection in rights.read
        and allowed(passage["groups"], rights.groups)
        for passage in quoted
    ):
        return None
    return _complete(kept, named, there)


def _may_read_calls(kept: Mapping[str, Any], rights: Rights, key: str) -> bool:
    """Whether a reader may read the calls in a receipt; true if it has none."""
    actions = kept.get("actions") or {"calls": []}
    if not actions["calls"] or rights.admin:
        return True
    return bool(kept["_key"] == key) and all(rights.may_use(name) for name in actions["sets"])


async def _named(kept: Mapping[str, Any], knowledge: Knowledge, names: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Id -> document and place, for each candidate read by the request or still stored."""
    named: dict[str, Mapping[str, Any]] = {hit["id"]: hit for hit in kept["_hits"]}
    trace = kept["_trace"] or {"ids": []}
    others = [id for id in trace["ids"] if id not in named]
    if others:
        for id, passage in (await knowledge.search.passages(names, others)).items():
            named[id] = {of: getattr(passage, of) for of in (*_OF_A_POINT, "groups")}
    return named


def _complete(
    kept: Mapping[str, Any], named: Mapping[str, Mapping[str, Any]], there: Mapping[str, DocumentLocation]
) -> dict[str, Any]:
    receipt = {name: value for name, value in kept.items() if not name.startswith("_")}
    passages = [{of: passage[of] for of in _OF_A_PASSAGE} for passage in kept["passages"]]
    for one in passages:
        one["collection"] = there[one["document"]].collection
    return {"actions": None, **receipt, "passages": passages, "candidates": _candidates(kept, named)}


def _candidates(kept: Mapping[str, Any], named: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """All candidates, best first, each with its ranks in the arms and its outcome."""
    trace = kept["_trace"]
    if trace is None:
        return []
    reranked = {hit["id"]: hit["scores"]["rerank"] for hit in kept["_hits"] if "rerank" in hit["scores"]}
    found = []
    for at, id in enumerate(trace["ids"]):
        scores = {arm: values[at] for arm, values in trace["arm_scores"].items() if values[at] is not None}
        if id in reranked:
            scores["rerank"] = reranked[id]
        one = named.get(id)
        found.append(
            {
                "id": id,
                "score": trace["scores"][at],
                "outcome": trace["fates"][at],
                "ranks": {arm: values[at] for arm, values in trace["ranks"].items() if values[at] is not None},
                "scores": scores,
                **{of: None if one is None else one[of] for of in _OF_A_POINT},
            }
        )
    return found
