"""Data folders for tests that change them: a copy takes the disk a few MB, as the folder itself does."""

import shutil
import subprocess
import sys
from pathlib import Path


def copied(folder: Path, target: Path) -> Path:
    """The copy of a data folder, links as links and holes as holes: the engine's files are 200 MB of mostly holes."""
    if sys.platform != "linux":
        return shutil.copytree(folder, target, symlinks=True)
    subprocess.run(["cp", "-a", "--sparse=always", folder, target], check=True)
    return target
