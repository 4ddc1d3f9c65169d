"""Files as tables of DuckDB: a file is a table, and so is each sheet of a spreadsheet with several."""

import datetime
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_READERS = {
    ".csv": "read_csv",
    ".tsv": "read_csv",
    ".parquet": "read_parquet",
    ".json": "read_json",
    ".jsonl": "read_json",
    ".ndjson": "read_json",
}
_GLOB = re.compile(r"([*?\[])")
_NO_LETTER = re.compile(r"\W+")


class UnreadableFile(Exception):
    """A file without a table; the text says why."""


class FileTable(NamedTuple):
    """A table that a file holds."""

    name: str
    file: str
    sheet: str = ""  # of a spreadsheet


def tables_of(files: Sequence[str]) -> list[FileTable]:
    """The tables in files, by the files' and sheets' names. Raises UnreadableFile."""
    found = [one for file in files for one in _tables_in(file)]
    places: dict[str, FileTable] = {}
    for one in found:
        if (other := places.setdefault(one.name, one)) is not one:
            raise UnreadableFile(f"{_place(other)} and {_place(one)} would both be the table {one.name}: rename one")
    return found


def _place(one: FileTable) -> str:
    return f"{Path(one.file).name} ({one.sheet})" if one.sheet else Path(one.file).name


def _tables_in(file: str) -> Iterator[FileTable]:
    stem = _name(Path(file).stem)
    if Path(file).suffix.lower() in _READERS:
        yield FileTable(stem, file)
        return
    sheets = _sheets(file)
    for sheet in sheets:
        yield FileTable(stem if len(sheets) == 1 else f"{stem}_{_name(sheet)}", file, sheet)


def _name(text: str) -> str:
    """A table's name that needs no quotes in SQL, if the text is in Latin letters."""
    name = _NO_LETTER.sub("_", text.lower()).strip("_") or "table"
    return f"t_{name}" if name[0].isdigit() else name


def _workbook(file: str) -> Any:
    from python_calamine import CalamineError, CalamineWorkbook

    try:
        return CalamineWorkbook.from_path(file)
    except (CalamineError, OSError) as error:
        raise UnreadableFile(f"{Path(file).name} cannot be read: {error}") from error


def _sheets(file: str) -> list[str]:
    """Visible sheets."""
    from python_calamine import SheetTypeEnum, SheetVisibleEnum

    rows = _workbook(file).sheets_metadata
    return [one.name for one in rows if one.visible == SheetVisibleEnum.Visible and one.typ == SheetTypeEnum.WorkSheet]


def load(connection: "DuckDBPyConnection", files: Sequence[str], *, views: bool = False) -> list[FileTable]:
    """Make the tables of files; an empty sheet makes none. views: do not copy rows where DuckDB can read the file.

    Raises UnreadableFile.
    """
    import duckdb

    made = []
    for one in tables_of(files):
        try:
            suffix = Path(one.file).suffix.lower()
            if suffix in _READERS:
                what = "VIEW" if views else "TABLE"
                place = _literal(_GLOB.sub(r"[\1]", one.file))
                connection.execute(f"CREATE {what} {_identifier(one.name)} AS FROM {_READERS[suffix]}({place})")
            elif not _load_sheet(connection, one):
                continue
        except duckdb.Error as error:
            said = str(error).splitlines()[0]
            raise UnreadableFile(f"{_place(one)} cannot be read: {said}") from error
        made.append(one)
    return made


def _load_sheet(connection: "DuckDBPyConnection", one: FileTable) -> bool:
    """Make the table of a sheet, whose first row has the columns' names; returns whether it has rows."""
    rows = _workbook(one.file).get_sheet_by_name(one.sheet).to_python(skip_empty_area=True)
    if not rows:
        return False
    names = _columns(rows[0])
    columns = list(zip(*rows[1:], strict=True)) if len(rows) > 1 else [()] * len(names)
    typed = [_typed(column) for column in columns]
    made = ", ".join(f"{_identifier(name)} {kind}" for name, (kind, _) in zip(names, typed, strict=True))
    connection.execute(f"CREATE TABLE {_identifier(one.name)} ({made})")
    if len(rows) > 1:
        unnested = ", ".join(f"unnest(?::{kind}[])" for kind, _ in typed)
        connection.execute(f"INSERT INTO {_identifier(one.name)} SELECT {unnested}", [values for _, values in typed])
    return True


def _columns(first: Sequence[object]) -> list[str]:
    """Names of columns: not empty, and different in any case."""
    names: list[str] = []
    taken: set[str] = set()
    for number, value in enumerate(first, 1):
        name = base = " ".join(_text(value).split()) or f"column_{number}"
        further = 2
        while name.lower() in taken:
            name, further = f"{base}_{further}", further + 1
        taken.add(name.lower())
        names.append(name)
    return names


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _typed(values: Iterable[Any]) -> tuple[str, list[Any]]:
    """A column's type, and its values; calamine reads an empty cell as "", and every number as a float."""
    cells = [None if value == "" else value for value in values]
    kinds = {type(value) for value in cells if value is not None}
    if kinds <= {int, float} and kinds:
        if all(value is None or (float(value).is_integer() and abs(value) < 2**63) for value in cells):
            return "BIGINT", [None if value is None else int(value) for value in cells]
        return "DOUBLE", cells
    if kinds == {bool}:
        return "BOOLEAN", cells
    if kinds == {datetime.date}:
        return "DATE", cells
    if kinds and kinds <= {datetime.date, datetime.datetime}:
        return "TIMESTAMP", cells
    if kinds == {datetime.time}:
        return "TIME", cells
    return "VARCHAR", [None if value is None else _text(value) for value in cells]


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
