"""OLE files (MS-CFB, version 3), as Outlook writes them, from folders and streams."""

import struct
from collections.abc import Mapping

_SECTOR, _SMALL, _SMALL_BELOW = 512, 64, 4096
_END, _FREE, _FAT, _NONE = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD, 0xFFFFFFFF

Tree = Mapping[str, "bytes | Tree"]  # name -> a stream's content, or a folder


class _Entry:
    def __init__(self, name: str, kind: int, data: bytes = b"") -> None:
        self.name, self.kind, self.data = name, kind, data
        self.right = self.child = _NONE
        self.start = _END


def ole_file(tree: Tree) -> bytes:
    entries = [_Entry("Root Entry", 5)]
    _add(entries, 0, tree)
    small, sectors = b"", list[bytes]()
    small_fat, fat = list[int](), list[int]()

    def chained(data: bytes, table: list[int], size: int) -> int:
        count = -(-len(data) // size)
        start = len(table)
        table.extend([*range(start + 1, start + count), _END] if count else [])
        return start if count else _END

    for entry in entries[1:]:
        if entry.kind == 2 and len(entry.data) < _SMALL_BELOW:
            entry.start = chained(entry.data, small_fat, _SMALL)
            small += entry.data + bytes(-len(entry.data) % _SMALL)
    entries[0].data = small
    directory_at = len(entries)
    large = [entry for entry in entries if entry.kind == 5 or len(entry.data) >= _SMALL_BELOW]
    for entry in large:
        entry.start = chained(entry.data, fat, _SECTOR)
        sectors.append(entry.data + bytes(-len(entry.data) % _SECTOR))
    table = struct.pack(f"<{len(small_fat)}I", *small_fat)
    small_fat_at = chained(table, fat, _SECTOR)
    sectors.append(table + b"\xff" * (-len(table) % _SECTOR))
    directory = b"".join(map(_row, entries))
    directory_at = chained(directory, fat, _SECTOR)
    sectors.append(directory + bytes(-len(directory) % _SECTOR))
    count = 1
    while (len(fat) + count) * 4 > count * _SECTOR:
        count += 1
    fat_at = len(fat)
    fat.extend([_FAT] * count)
    fat.extend([_FREE] * (-len(fat) % 128))
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + bytes(6)
    head += struct.pack("<IIIII", 0, count, directory_at, 0, _SMALL_BELOW)
    head += struct.pack("<IIII", small_fat_at, -(-len(table) // _SECTOR), _END, 0)
    head += struct.pack("<109I", *[*range(fat_at, fat_at + count), *[_FREE] * (109 - count)])
    return head + b"".join(sectors) + struct.pack(f"<{len(fat)}I", *fat)


def _add(entries: list[_Entry], parent: int, tree: Tree) -> None:
    before = -1
    for name in sorted(tree, key=lambda name: (len(name), name.upper())):
        value, at = tree[name], len(entries)
        entries.append(_Entry(name, 2, value) if isinstance(value, bytes) else _Entry(name, 1))
        if before < 0:
            entries[parent].child = at
        else:
            entries[before].right = at
        before = at
        if not isinstance(value, bytes):
            _add(entries, at, value)


def _row(entry: _Entry) -> bytes:
    name = entry.name.encode("utf-16-le") + b"\0\0"
    row = name.ljust(64, b"\0") + struct.pack("<HBB", len(name), entry.kind, 1)
    row += struct.pack("<III", _NONE, entry.right, entry.child) + bytes(36)
    return row + struct.pack("<IQ", entry.start if entry.kind != 1 else 0, len(entry.data))


def outlook_folder(
    texts: Mapping[int, "str | bytes"], numbers: Mapping[int, int] | None = None, *, header_bytes: int = 32
) -> dict[str, "bytes | Tree"]:
    """Properties of a message or an attachment: texts as Unicode, bytes as they are, numbers and times of 100 ns."""
    folder: dict[str, bytes | Tree] = {}
    for id, value in texts.items():
        kind, data = ("001F", value.encode("utf-16-le")) if isinstance(value, str) else ("0102", value)
        folder[f"__substg1.0_{id:04X}{kind}"] = data
    rows = b"".join(struct.pack("<HHIQ", 0x14, id, 6, value) for id, value in (numbers or {}).items())
    return folder | {"__properties_version1.0": bytes(header_bytes) + rows}
