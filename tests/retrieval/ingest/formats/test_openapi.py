"""OpenAPI documents as Markdown: a section for each operation."""

import json
from pathlib import Path

import pytest
import yaml

from retrieval.errors import Unreadable
from retrieval.ingest.formats.registry import why_unused
from retrieval.ingest.load import parse
from retrieval.records.documents import Document

TUGS = {
    "openapi": "3.1.0",
    "info": {"title": "Tugs", "version": "2", "description": "The harbour's tugs."},
    "paths": {
        "/tugs/{id}": {
            "parameters": [{"$ref": "#/components/parameters/id"}],
            "get": {"summary": "Read a tug", "operationId": "readTug", "responses": {"200": {"description": "A tug"}}},
            "patch": {
                "description": "Changes a tug.",
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Tug"}}}},
            },
        }
    },
    "components": {
        "parameters": {"id": {"name": "id", "in": "path", "description": "Its number", "schema": {"type": "integer"}}},
        "schemas": {
            "Tug": {
                "type": "object",
                "properties": {
                    "state": {"type": "string", "enum": ["free", "busy"]},
                    "next": {"$ref": "#/components/schemas/Tug"},
                },
            }
        },
    },
}


def read(text: str, name: str) -> Document:
    return parse(text.encode(), Path("/a") / name, f"a/{name}", 1.0)


@pytest.mark.parametrize("name", ["tugs.json", "tugs.yaml"])
def test_an_operation_is_a_section_with_what_it_takes(name: str) -> None:
    document = read(json.dumps(TUGS, indent=1) if name.endswith("json") else yaml.safe_dump(TUGS), name)
    assert (document.title, document.format) == ("Tugs", "markdown")
    assert document.text.startswith(
        "# Tugs 2\n\nThe harbour's tugs.\n\n## GET /tugs/{id}: Read a tug\n\n"
        "- readTug\n- id (path integer): Its number\n- reply 200: A tug\n\n"
        "## PATCH /tugs/{id}\n\nChanges a tug.\n\n- id (path integer): Its number\n- body (application/json) (object)\n"
    )
    assert "  - state (string) One of free, busy.\n" in document.text


def test_other_json_and_yaml_is_passed_over() -> None:
    assert why_unused(Path("a.json"), lambda _: b'{"name": "x"}') == "JSON without text"
    assert why_unused(Path("a.yml"), lambda _: b"# Tugs\nopenapi: '3.0.0'\n") == ""
    assert why_unused(Path("a.json"), lambda _: b'{"openapi":"3.1.0","info":{}}') == ""


@pytest.mark.parametrize(
    "text",
    ['{"openapi": "3.0.0"}', "openapi: 3.0.0\npaths: [", "openapi: 3.0.0\npaths: 1", '{"openapi": "3"' + "[" * 9999],
)
def test_a_broken_document_says_so(text: str) -> None:
    with pytest.raises(Unreadable, match="not an OpenAPI document|nested too deeply"):
        read(text, "a.json" if text.startswith("{") else "a.yaml")
