"""What is remembered of each collection's declared sources, as records.

Without the records, the next sync opens every document again and finds nothing changed.
"""

from pathlib import Path

import msgspec

from retrieval.records.sync import SourceState
from runtime.record_store import RecordStore

_FOREVER_S = 1e9  # 31 years: less than since the epoch
_MOST_BYTES = 2**40

Marks = dict[str, tuple[str, str]]  # as in `retrieval.ingest.sources.source`
_decode_state = msgspec.json.Decoder(SourceState).decode
_decode_marks = msgspec.json.Decoder(Marks).decode


class SourceStates:
    """States and marks, one record of each for a source. Methods block, and raise RetrievalError."""

    def __init__(self, data: Path, url: str) -> None:
        """data, url: as in `RecordStore`."""
        self._states, self._marks = (
            RecordStore(data, url, keep_s=_FOREVER_S, max_bytes=_MOST_BYTES, kind=kind)
            for kind in ("sources", "source marks")
        )

    def of(self, collection: str) -> list[SourceState]:
        """States of a collection's sources, the one tried last at the end."""
        states = (_decode_state(record) for record in self._states.every())
        return [state for state in states if state.collection == collection]

    def read(self, collection: str, name: str) -> SourceState | None:
        record = self._states.read(_id(collection, name))
        return None if record is None else _decode_state(record)

    def marks(self, collection: str, name: str) -> Marks:
        record = self._marks.read(_id(collection, name))
        return {} if record is None else _decode_marks(record)

    def write(self, state: SourceState) -> None:
        self._states.put([(_id(state.collection, state.name), state.tried_s, msgspec.json.encode(state))])

    def write_marks(self, state: SourceState, marks: Marks) -> None:
        self._marks.put([(_id(state.collection, state.name), state.tried_s, msgspec.json.encode(marks))])

    def forget(self, state: SourceState) -> None:
        """Give both records a time at which they have expired."""
        id = _id(state.collection, state.name)
        for records in (self._states, self._marks):
            records.put([(id, 0.0, b"")])

    def close(self) -> None:
        self._states.close()
        self._marks.close()


def _id(collection: str, name: str) -> str:
    return f"{collection}/{name}"
