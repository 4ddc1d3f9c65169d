"""Which collections lack points in the index, after a restored backup or a deletion on a Qdrant server.

Searching one fails with the remedy, but operators should know before a first question.
"""

import time
from collections.abc import Sequence

from retrieval.catalog.catalog import Catalog
from retrieval.errors import Incomplete, IndexDown, RetrievalError
from retrieval.index.vector_spaces import VectorSpaces

_LOOK_S = 0.5  # for all collections together; the next look starts where this one ended
_MOST_NAMED = 8


class Completeness:
    """Collections that cannot be searched, as far as looked at."""

    def __init__(self, catalog: Catalog, spaces: VectorSpaces, *, on_server: bool) -> None:
        """on_server: others may delete points at any time, so each look counts them again."""
        self._catalog = catalog
        self._spaces = spaces
        self._on_server = on_server
        self._faults: dict[str, RetrievalError] = {}
        self._looked_s: dict[str, float] = {}

    async def problems(self) -> list[str]:
        """Look at the collections not looked at for longest; return a sentence for each problem.

        Raises IndexDown.
        """
        rows = {row.name: row for row in self._catalog.collections()}
        self._faults = {name: fault for name, fault in self._faults.items() if name in rows}
        end_s = time.monotonic() + _LOOK_S
        for name in sorted(rows, key=lambda name: self._looked_s.get(name, 0.0)):
            if time.monotonic() > end_s:
                break
            self._looked_s[name] = time.monotonic()
            space = self._spaces.of(name)
            if self._on_server:
                space.store.verified.discard(rows[name].tenant)
            self._faults.pop(name, None)
            try:
                await space.retriever.check(rows[name])
            except IndexDown:
                raise
            except RetrievalError as fault:
                self._faults[name] = fault
        incomplete = sorted(name for name, fault in self._faults.items() if isinstance(fault, Incomplete))
        others = sorted(str(fault) for fault in self._faults.values() if not isinstance(fault, Incomplete))
        return [*_incomplete(incomplete), *others[:_MOST_NAMED]]


def _incomplete(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    if len(names) == 1:
        return [f"the index of collection {names[0]!r} is incomplete: run `ragway rebuild {names[0]}`"]
    if len(names) > _MOST_NAMED:
        return [f"the index of {len(names)} collections is incomplete: run `ragway doctor --repair`"]
    quoted = ", ".join(map(repr, names))
    return [f"the index of the collections {quoted} is incomplete: run `ragway rebuild {' '.join(names)}`"]
