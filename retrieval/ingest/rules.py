"""What is known of a file beside its content: rules by path, and sidecars.

A sidecar is a file `report.pdf.meta.yaml` beside `report.pdf`, with the fields of front matter. Front matter comes
before sidecars, sidecars before rules, and rules before the file's own properties.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

from config.sections import IngestRule, RecordFields
from retrieval.errors import UnreadableRights
from retrieval.ingest.exclude import excluded
from retrieval.ingest.formats.front_matter import Front, read_sidecar, valid_attributes
from retrieval.records.documents import Attribute

SIDECAR = ".meta.yaml"
MOST_SIDECAR_BYTES = 65_536
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


def beside(rules: Sequence[IngestRule], source: str, sidecars: Sequence[bytes], *, rights: bool) -> Front:
    """What rules and sidecars say of a document. sidecars: of archives around it first.

    Raises UnreadableRights if a sidecar cannot be read, or if two of them name different groups.
    """
    title, attributes, groups = "", attributes_of(rules, source), tuple[str, ...]()
    for data in sidecars:
        sidecar = read_sidecar(data, rights=rights)
        title, attributes = sidecar.title or title, {**attributes, **sidecar.attributes}
        groups = one_of(groups, sidecar.groups)
    return Front(title, attributes, groups)


def one_of(groups: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    """The groups that one of two places names. Raises UnreadableRights if they name different ones."""
    if groups and others and groups != others:
        raise UnreadableRights("front matter and sidecars name different groups: name the same, or in one place only")
    return groups or others


def _matching(rules: Sequence[IngestRule], source: str) -> list[IngestRule]:
    if not rules:
        return []
    path = Path("/") / source
    return [rule for rule in rules if excluded(path, Path("/"), [rule.path])]
