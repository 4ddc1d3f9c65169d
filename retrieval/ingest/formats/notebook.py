"""Jupyter notebooks as Markdown: Markdown cells, code in fences, and outputs as text."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from retrieval.errors import Unreadable

_MOST_OUTPUT_CHARS = 10_000  # of a cell; beyond, it is data
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_FENCES = re.compile("`{3,}")


def to_markdown(text: str) -> str:
    """Raises Unreadable if the text is not a notebook."""
    try:
        notebook = json.loads(text)
    except RecursionError:
        raise Unreadable("JSON nested too deeply: split the file") from None
    except ValueError as error:
        raise Unreadable(f"not a notebook: {error}; open it in Jupyter and save it again") from error
    cells = _cells(notebook)
    if cells is None:
        raise Unreadable("not a notebook: expected a list of cells")
    language = _language(notebook)
    return "\n\n".join(part for cell in cells for part in _parts(cell, language) if part.strip()) + "\n"


def _cells(notebook: Any) -> list[Mapping[str, Any]] | None:
    sheets = notebook.get("worksheets") if isinstance(notebook, Mapping) else None  # version 3 and before
    holder = sheets[0] if isinstance(sheets, list) and sheets else notebook
    cells = holder.get("cells") if isinstance(holder, Mapping) else None
    return [cell for cell in cells if isinstance(cell, Mapping)] if isinstance(cells, list) else None


def _language(notebook: Mapping[str, Any]) -> str:
    metadata = notebook.get("metadata")
    for name, key in (("language_info", "name"), ("kernelspec", "language")):
        described = metadata.get(name) if isinstance(metadata, Mapping) else None
        if isinstance(described, Mapping) and isinstance(described.get(key), str):
            return re.sub(r"\W", "", described[key])
    return ""


def _parts(cell: Mapping[str, Any], language: str) -> Iterator[str]:
    kind, source = cell.get("cell_type"), _text(cell.get("source", cell.get("input")))
    if kind == "heading":  # version 3
        level = cell.get("level", 1)
        yield "#" * (level if isinstance(level, int) and 0 < level < 7 else 1) + " " + source
    elif kind != "code":
        yield source
    elif source.strip():
        yield _fenced(source, language)
    outputs = cell.get("outputs") if kind == "code" else None
    for output in outputs if isinstance(outputs, list) else ():
        if isinstance(output, Mapping):
            yield _output(output)


def _output(output: Mapping[str, Any]) -> str:
    """An output as Markdown: a table as a table, else its plain text; "" for a picture."""
    if output.get("output_type") in ("error", "pyerr"):
        return _fenced(f"{output.get('ename')}: {output.get('evalue')}", "")
    data = output.get("data")
    forms: Mapping[str, Any] = data if isinstance(data, Mapping) else output
    if markdown := _text(forms.get("text/markdown")):
        return markdown[:_MOST_OUTPUT_CHARS]
    html = _text(forms.get("text/html", forms.get("html")))
    if "<table" in html and len(html) <= _MOST_OUTPUT_CHARS * 10:
        from retrieval.ingest.formats.webpage import to_markdown  # bs4 and markdownify

        return to_markdown(html)[1][:_MOST_OUTPUT_CHARS]
    plain = _ANSI.sub("", _text(forms.get("text/plain", forms.get("text"))))
    return _fenced(plain[:_MOST_OUTPUT_CHARS], "") if plain.strip() else ""


def _text(value: object) -> str:
    if isinstance(value, list):
        return "".join(one for one in value if isinstance(one, str))
    return value if isinstance(value, str) else ""


def _fenced(text: str, language: str) -> str:
    fence = "`" * max(3, 1 + max(map(len, _FENCES.findall(text)), default=0))
    return f"{fence}{language}\n{text.strip(chr(10))}\n{fence}"
