"""What upstreams lack, learned from their answers and kept for a while, so that we need not ask each time."""

import logging
import time

from proxy.dialects.target import Target
from runtime.logs import host_of, truncate

log = logging.getLogger("ragway")

_MOST = 1000  # entries: clients may name models without end


class UnsupportedFeatures:
    """What one process knows."""

    def __init__(self, relearn_after_s: float) -> None:
        self._relearn_after_s = relearn_after_s
        self._until: dict[tuple[str, str, str], float] = {}  # (address, model, name) -> monotonic time

    def knows(self, target: Target, name: str, *, model: str = "") -> bool:
        """Whether the upstream lacks a path or a member. model: only for a member."""
        return self._until.get((target.api_base, model, name), 0.0) > time.monotonic()

    def names(self) -> list[tuple[str, str]]:
        """Model and name of everything unsupported now."""
        now = time.monotonic()
        return sorted({(model, name) for (_, model, name), until in self._until.items() if until > now})

    def learn(self, target: Target, name: str, instead: str, *, model: str = "") -> None:
        """Remember, and log it. instead: what ragway does."""
        if len(self._until) >= _MOST:
            self._until.clear()
        self._until[target.api_base, model, name] = time.monotonic() + self._relearn_after_s
        upstream = host_of(target.api_base) if target.api_base else "litellm's provider"
        of_model = f"model {truncate(model)!r} of {upstream}" if model else f"upstream {upstream}"
        log.warning("%s has no %s: for %g s %s", of_model, name, self._relearn_after_s, instead)
