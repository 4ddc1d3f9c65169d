"""Files that an ingest leaves out: patterns for names and path ends, as in rsync."""

import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath


def excluded(path: Path, root: Path, globs: Sequence[str]) -> bool:
    """Whether a pattern matches the end of an absolute path, name by name, starting at the root's.

    root: the given file or folder; if this is the path itself, names above count as well. A pattern that begins with
        "/" must match the full path. `*`, `?` and `[…]` match within one name, `**` matches any number of names,
        including none.
    """
    parts = path.parts
    first = 0 if path == root else max(0, len(root.parts) - 1)
    for glob in globs:
        pattern = PurePosixPath(glob).parts
        starts = [0] if glob.startswith("/") else range(first, len(parts))
        if pattern and any(_matches(parts[start:], pattern) for start in starts):
            return True
    return False


def excluded_below(paths: Sequence[Path], file: Path, globs: Sequence[str]) -> bool:
    """Whether a file under one of the paths is left out, by its own name or by a folder's name."""
    return bool(globs) and any(
        excluded(at, root, globs)
        for root in [Path(os.path.realpath(path)) for path in paths]
        for at in (file, *file.parents)
        if at.is_relative_to(root) and (at != root or at == file)
    )


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[start:], pattern[1:]) for start in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])
