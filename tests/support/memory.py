"""Return memory that tests no longer use to the system.

An embedder in onnxruntime holds 100 to 250 MB. Python frees an embedder only when the collector finds the cycle that
refers to the embedder, and the C library keeps freed memory. Without `release`, one test process grew to 6 GB.
"""

import contextlib
import ctypes
import gc
import os
from pathlib import Path

_STEP_MB = 100


class Memory:
    """The memory of this process, as far as tests may keep it."""

    def __init__(self) -> None:
        self._kept_mb = 0.0  # resident after the last release

    def release(self) -> None:
        """Give memory back where the process has grown by 100 MB since the last time; Linux only."""
        if (resident := _resident_mb()) < self._kept_mb + _STEP_MB:
            return
        gc.collect()
        with contextlib.suppress(AttributeError):  # another C library than glibc
            ctypes.CDLL(None).malloc_trim(0)
        self._kept_mb = min(resident, _resident_mb())


def _resident_mb() -> float:
    """0 where there is no /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
