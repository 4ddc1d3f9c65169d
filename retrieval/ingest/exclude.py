"""Which files an ingest leaves out because somebody says so: patterns of names and of ends of paths, as in rsync."""

import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath


def excluded(path: Path, root: Path, globs: Sequence[str]) -> bool:
    """Whether a pattern fits the end of an absolute path, name by name, from the root's name on.

    root: the file or folder that is read; where the path is the root itself, names above it count, too. A pattern that
    begins with "/" fits the path as a whole. `*`, `?` and `[…]` stand for parts of one name, `**` for any names, also
    for none.
    """
    parts = path.parts
    first = 0 if path == root else max(0, len(root.parts) - 1)
    for glob in globs:
        wanted = PurePosixPath(glob).parts
        starts = [0] if glob.startswith("/") else range(first, len(parts))
        if wanted and any(_fits(parts[start:], wanted) for start in starts):
            return True
    return False


def excluded_below(paths: Sequence[Path], file: Path, globs: Sequence[str]) -> bool:
    """Whether a file that is one of these or below one is left out, or a folder that it is in."""
    return bool(globs) and any(
        excluded(at, root, globs)
        for root in [Path(os.path.realpath(path)) for path in paths]
        for at in (file, *file.parents)
        if at.is_relative_to(root) and (at != root or at == file)
    )


def _fits(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    if not wanted:
        return not parts
    if wanted[0] == "**":
        return any(_fits(parts[start:], wanted[1:]) for start in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], wanted[0]) and _fits(parts[1:], wanted[1:])
