"""Rules by path: attributes of documents, and which fields of JSON records are what."""

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

from config.sections import IngestRule, RecordFields
from retrieval.ingest.exclude import excluded
from retrieval.ingest.formats.front_matter import valid_attributes
from retrieval.records.documents import Attribute

RECORD_FILES = (".json", ".jsonl")


def attributes_of(rules: Sequence[IngestRule], source: str) -> Mapping[str, Attribute]:
    """The attributes that rules give a document; of two values, the later rule's."""
    given: dict[str, Attribute] = {}
    for rule in _matching(rules, source):
        given |= valid_attributes(rule.attributes)
    return given


def fields_of(rules: Sequence[IngestRule], source: str) -> RecordFields | None:
    """The fields of a JSON file's records, if a rule names them."""
    if PurePath(source).suffix.lower() not in RECORD_FILES:
        return None
    return next((rule.fields for rule in reversed(_matching(rules, source)) if rule.fields is not None), None)


def _matching(rules: Sequence[IngestRule], source: str) -> list[IngestRule]:
    if not rules:
        return []
    path = Path("/") / source
    return [rule for rule in rules if excluded(path, Path("/"), [rule.path])]
