"""Installed packages with tools, without an installation: a folder for `sys.path`."""

from pathlib import Path


def package(folder: Path, points: str, code: str, name: str = "acme-tools") -> Path:
    """A folder with an installed package: its module, and its metadata."""
    info = folder / f"{name.replace('-', '_')}-1.2.dist-info"
    info.mkdir(parents=True)
    (folder / f"{name.replace('-', '_')}.py").write_text(code)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[ragway.tools]\n{points}")
    return folder
