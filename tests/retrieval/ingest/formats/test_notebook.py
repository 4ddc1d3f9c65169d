"""Notebooks as Markdown: text, code and outputs."""

import json
from pathlib import Path
from typing import Any

import pytest

from retrieval.errors import Unreadable
from retrieval.ingest.load import parse
from retrieval.records.documents import Document


def read(notebook: Any) -> Document:
    text = notebook if isinstance(notebook, str) else json.dumps(notebook)
    return parse(text.encode(), Path("/n/berths.ipynb"), "n/berths.ipynb", 1.0)


CELLS = [
    {"cell_type": "markdown", "source": ["# Berths\n", "\n", "Fees of 2024."]},
    {
        "cell_type": "code",
        "source": "fees = {'night': 160}\nfees",
        "outputs": [
            {"output_type": "stream", "name": "stdout", "text": ["\x1b[31mloaded\x1b[0m\n"]},
            {"output_type": "execute_result", "data": {"text/plain": ["{'night': 160}"], "image/png": "iVBORw0KGgo="}},
            {
                "output_type": "display_data",
                "data": {"text/html": "<table><tr><th>fee</th></tr><tr><td>160</td></tr></table>", "text/plain": "x"},
            },
            {"output_type": "error", "ename": "KeyError", "evalue": "'day'", "traceback": ["a long one"]},
        ],
    },
    {"cell_type": "code", "source": "", "outputs": []},
]


def test_text_code_and_outputs_are_read_in_order() -> None:
    document = read({"cells": CELLS, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4})
    assert (document.title, document.format) == ("Berths", "markdown")
    assert document.text == (
        "# Berths\n\nFees of 2024.\n\n```python\nfees = {'night': 160}\nfees\n```\n\n```\nloaded\n```\n\n"
        "```\n{'night': 160}\n```\n\n| fee |\n| --- |\n| 160 |\n\n```\nKeyError: 'day'\n```\n"
    )


def test_old_notebooks_are_read_too() -> None:
    cells = [
        {"cell_type": "heading", "level": 2, "source": "Cranes"},
        {"cell_type": "code", "input": "1", "outputs": [{"output_type": "pyout", "text": ["one"]}]},
    ]
    assert read({"worksheets": [{"cells": cells}], "nbformat": 3}).text == "## Cranes\n\n```\n1\n```\n\n```\none\n```\n"


@pytest.mark.parametrize("text", ["{", "[]", '{"cells": 1}', '{"worksheets": [1]}', "[" * 100_000])
def test_what_is_not_a_notebook_says_so(text: str) -> None:
    with pytest.raises(Unreadable, match="not a notebook|nested too deeply"):
        read(text)


def test_strange_cells_cost_only_themselves() -> None:
    cells = [1, {}, {"cell_type": "code", "source": [1, "a"], "outputs": [2, {"data": 3}]}, {"source": "Text."}]
    assert read({"cells": cells, "metadata": 1}).text == "```\na\n```\n\nText.\n"
