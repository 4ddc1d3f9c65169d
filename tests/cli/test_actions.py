"""`ragway actions`: sets from documents, found by a question, shown and deleted."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import ragway, refused

ATLAS = """openapi: 3.0.3
info: {title: Atlas, version: "1"}
servers: [{url: "https://cloud.example.com"}]
paths:
  /orgs/{orgId}/users:
    get:
      operationId: listOrganizationUsers
      summary: Return all users of an organization
      parameters:
        - {name: orgId, in: path, required: true, schema: {type: string}}
        - {name: itemsPerPage, in: query, schema: {type: integer, maximum: 500}}
  /orgs/{orgId}/invoices:
    get:
      operationId: listInvoices
      summary: Return all invoices of an organization
      parameters: [{name: orgId, in: path, required: true, schema: {type: string}}]
    put:
      summary: Upload
      requestBody: {required: true, content: {application/xml: {}}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "atlas.yaml").write_text(ATLAS)
    (tmp_path / "ragway.yaml").write_text("embedder: {model: hash}\n")
    return tmp_path


def actions(folder: Path, *words: str) -> tuple[str, str]:
    done = ragway("actions", *words, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def test_a_set_is_added_found_changed_and_removed(folder: Path) -> None:
    out, err = actions(folder, "add", "atlas", "atlas.yaml")
    assert out == "atlas: 2 added, 0 changed, 0 unchanged, 0 removed; called at https://cloud.example.com"
    assert "cannot be called: PUT /orgs/{orgId}/invoices" in err
    assert "2 operations, 1 cannot be called" in actions(folder, "list")[0]
    found = json.loads(actions(folder, "search", "who are the users in my organization?", "--json")[0])
    assert found[0]["name"] == "listOrganizationUsers"
    shown: dict[str, Any] = json.loads(actions(folder, "show", "atlas", "listInvoices", "--json")[0])[0]
    assert shown["arguments"]["required"] == ["orgId"]

    changed = ATLAS.replace("all invoices of", "every bill of").replace("listOrganizationUsers", "listMembers")
    (folder / "atlas.yaml").write_text(changed)
    assert actions(folder, "add", "atlas", "atlas.yaml")[0].startswith(
        "atlas: 1 added, 1 changed, 0 unchanged, 1 removed"
    )
    names = [row["name"] for row in json.loads(actions(folder, "search", "users", "--json")[0])]
    assert "listMembers" in names
    assert "listOrganizationUsers" not in names
    assert actions(folder, "add", "atlas", "atlas.yaml")[0].startswith("atlas: 0 added, 0 changed, 2 unchanged")

    actions(folder, "remove", "atlas")
    assert actions(folder, "list") == ("", "no action set: ragway actions add NAME FILE\n")


def test_a_document_that_cannot_be_read_changes_nothing(folder: Path) -> None:
    actions(folder, "add", "atlas", "atlas.yaml")
    (folder / "atlas.yaml").write_text("openapi: 3.0.3\npaths: {/a: [}\n")
    words = refused(ragway("actions", "add", "atlas", "atlas.yaml", folder=folder))
    assert "atlas.yaml: line 2, column" in words
    assert "nothing is changed" in words
    assert "2 operations" in actions(folder, "list")[0]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["show", "nope"], "there is no action set 'nope'; known: none"),
        (["remove", "nope"], "there is no action set 'nope'"),
        (["search", "x", "--set", "nope"], "there is no action set 'nope'"),
        (["run", "nope", "op"], "there is no action set 'nope'"),
    ],
)
def test_an_unknown_set_is_named(folder: Path, words: list[str], reason: str) -> None:
    (folder / "data").mkdir()
    assert reason in refused(ragway("actions", *words, folder=folder))


def test_the_address_of_the_api_must_be_known(folder: Path) -> None:
    (folder / "atlas.yaml").write_text(ATLAS.replace("https://cloud.example.com", "/api"))
    words = refused(ragway("actions", "add", "atlas", "atlas.yaml", folder=folder))
    assert "give the address with --base-url" in words
    assert (
        "called at http://x.example"
        in actions(folder, "add", "atlas", "atlas.yaml", "--base-url", "http://x.example")[0]
    )


def test_a_name_of_a_set_is_checked(folder: Path) -> None:
    done = ragway("actions", "add", "../x", "atlas.yaml", folder=folder)
    assert done.returncode == 2
    assert "NAME has small letters" in done.stderr


def test_an_operation_is_found_with_the_operation_that_gives_its_identifier(folder: Path) -> None:
    organizations = "  /orgs:\n    get: {operationId: listOrganizations, summary: Every tenant}\n"
    (folder / "atlas.yaml").write_text(ATLAS + organizations)
    actions(folder, "add", "atlas", "atlas.yaml")
    found = json.loads(actions(folder, "search", "who are the users?", "--json", "-k", "2")[0])
    assert [one["name"] for one in found] == ["listOrganizationUsers", "listOrganizations"]
