"""Producers: the operation that gives the identifier which another operation needs."""

from typing import Any

import pytest

from proxy.apis.openapi.operations import operations_of


def producers(*calls: str, path: str) -> list[str]:
    """The paths of the producers of a path. calls: "/path" or "/path?parameter", all GET."""
    paths: dict[str, Any] = {}
    for call in (*calls, path):
        template, _, name = call.partition("?")
        names = [part.partition("}")[0] for part in template.split("{")[1:]]
        rows = [{"name": one, "in": "path", "required": True, "schema": {"type": "string"}} for one in names]
        rows += [{"name": name, "in": "query", "schema": {"type": "string"}}] if name else []
        paths[template] = {"get": {"parameters": rows}}
    operations, _ = operations_of({"openapi": "3.1.0", "paths": paths})
    by_name = {one.name: one for one in operations}
    wanted = next(one for one in operations if one.path == path)
    return [by_name[name].path for name in wanted.producers]


@pytest.mark.parametrize(
    ("calls", "path", "made"),
    [
        (["/search/person?query", "/person/popular"], "/person/{person_id}/movie_credits", ["/search/person"]),
        (["/orgs", "/orgs/invoices"], "/orgs/{orgId}/users", ["/orgs"]),
        (["/people?name", "/companies"], "/person/{id}", ["/people"]),
        (["/api/v2/groups", "/api/v2/groups/ips"], "/api/v2/groups/{groupId}/clusters", ["/api/v2/groups"]),
        (["/orgs", "/users"], "/orgs/{orgId}/users/{userId}", ["/orgs", "/users"]),
        (["/orders"], "/pets/{petId}", []),
        (["/pets/{petId}/photos"], "/pets/{petId}", []),
        (["/pets"], "/pets/{petId}/{}", ["/pets"]),
        ([], "/{id}", []),
    ],
)
def test_an_operation_knows_who_gives_its_identifiers(calls: list[str], path: str, made: list[str]) -> None:
    assert producers(*calls, path=path) == made


VALUES = {"type": "string", "enum": ["album", "artist", "audio_book"]}


@pytest.mark.parametrize(
    "schema",
    [
        VALUES,
        {"type": "array", "items": VALUES},
        {"anyOf": [{"$ref": "#/components/schemas/Kind"}, {"type": "null"}]},
    ],
)
def test_a_search_for_several_resources_produces_each(schema: Any) -> None:
    rows = [{"name": "q", "in": "query"}, {"name": "type", "in": "query", "schema": schema}]
    paths: dict[str, Any] = {"/search": {"get": {"parameters": rows}}, "/me/albums": {"get": {}}}
    for path in ("/albums/{id}", "/audiobooks/{audio_book_id}", "/artists/{artist_id}/albums", "/shows/{id}"):
        name = path.partition("{")[2].partition("}")[0]
        paths[path] = {"get": {"parameters": [{"name": name, "in": "path", "required": True}]}}
    document = {"openapi": "3.1.0", "paths": paths, "components": {"schemas": {"Kind": VALUES}}}
    made = {one.path: one.producers for one in operations_of(document)[0]}
    search = ("get_search",)
    assert made["/albums/{id}"] == made["/audiobooks/{audio_book_id}"] == made["/artists/{artist_id}/albums"] == search
    assert made["/shows/{id}"] == ()


def test_ten_thousand_operations_take_linear_time() -> None:
    """A search of the whole document for each operation would take minutes."""
    needed = {"get": {"parameters": [{"name": "thing_id", "in": "path", "required": True}]}}
    paths = {f"/thing{number}/{{thing_id}}": needed for number in range(5000)}
    paths |= {f"/things/list{number}": {"get": {}} for number in range(5000)}
    operations, _ = operations_of({"openapi": "3.1.0", "paths": paths})
    assert len(operations) == 10_000
