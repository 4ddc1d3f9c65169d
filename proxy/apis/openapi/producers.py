"""Producers: operations whose results have the identifiers that another operation needs.

People write names ("Sofia Coppola"); operations need identifiers (`/person/{person_id}/movie_credits`). A search finds
the operation with the answer, but rarely the one from name to identifier (`/search/person`). So each operation has
producers: for each identifier's resource, a GET operation without path parameters that searches for it or lists it. One
search may serve many resources, named as values of a parameter (`/search?type=album`).
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from proxy.apis.openapi.operation import Operation
from proxy.apis.search_text import values_of, words_of

Words = tuple[str, ...]

_IDENTIFIER = re.compile(r"(.*?)[_-]?(?:id|Id|ID|uuid|Uuid|slug|Slug|key|Key|name|Name)")
_TEMPLATE = re.compile(r"\{[^{}]*\}")
_SEARCHING = re.compile(r"q|name|terms?|keywords?|text|filter|title|.*(?:search|query).*", re.IGNORECASE)
_IRREGULAR = {"people": "person", "children": "child", "men": "man", "women": "woman", "indices": "index"}


def with_producers(operations: Sequence[Operation]) -> list[Operation]:
    """A document's operations, each with its producers' names."""
    by_word: dict[str, list[tuple[Operation, Words]]] = defaultdict(list)
    for one in operations:
        if one.method == "GET" and not any(parameter.place == "path" for parameter in one.parameters):
            words = singular(words_of(_TEMPLATE.sub("", one.path)))
            for word in {*words, *(some[-1] for some in _searched(one, words))}:
                by_word[word].append((one, words))
    known: dict[Words, str] = {}
    made = []
    for one in operations:
        names: dict[str, None] = {}
        for resource in _needed(one):
            if resource not in known:
                known[resource] = _best(resource, by_word)
            if known[resource] and known[resource] != one.name:
                names[known[resource]] = None
        made.append(msgspec.structs.replace(one, producers=tuple(names)) if names else one)
    return made


def searches_by(name: str) -> bool:
    """Whether a parameter with this name takes words to search for."""
    return bool(_SEARCHING.fullmatch(name))


def _needed(operation: Operation) -> Iterator[Words]:
    """The resource of each path parameter: by its name, else by the segment before it."""
    for parameter in operation.parameters:
        if parameter.place != "path":
            continue
        found = _IDENTIFIER.fullmatch(parameter.name)
        words = singular(words_of(found[1])) if found is not None else ()
        if not words:
            before = operation.path.partition(f"{{{parameter.name}}}")[0].rstrip("/").rpartition("/")[2]
            words = singular(words_of(before)) if "{" not in before else ()
        if words:
            yield words


def _best(resource: Words, by_word: Mapping[str, Iterable[tuple[Operation, Words]]]) -> str:
    """The name of the operation that searches for the resource or lists it; "": none."""
    best, name = (False, False, 0), ""
    for operation, words in by_word.get(resource[-1], ()):
        named = set(resource) <= set(words)
        if not named and resource not in _searched(operation, words):
            continue
        searches = not named or _has_search(operation)
        lists = words[-len(resource) :] == resource
        rank = (searches, lists, -len(words))
        if (searches or lists) and (not name or rank > best):
            best, name = rank, operation.name
    return name


def _has_search(operation: Operation) -> bool:
    return any(one.place == "query" and searches_by(one.name) for one in operation.parameters)


def _searched(operation: Operation, words: Words) -> set[Words]:
    """Resources that a shared search names as parameter values."""
    if words[-1:] != ("search",) or not _has_search(operation):
        return set()
    defs = operation.schema.get("$defs", {})
    values = [one for schema in operation.schema["properties"].values() for one in values_of(schema, defs)]
    return {singular(name) for one in values if isinstance(one, str) and (name := words_of(one))}


def singular(words: str) -> Words:
    return tuple(_IRREGULAR.get(word) or _without_s(word) for word in words.split())


def _without_s(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3 else word
