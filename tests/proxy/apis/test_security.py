"""The credentials that a document asks for, as a row of the settings."""

from typing import Any

import pytest

from proxy.apis.openapi.security import credentials_of
from tests.support.rows import all_rows

SECRET, USER = {"secret_env": "MY_SHOP_KEY"}, {"user_env": "MY_SHOP_USER"}
KEY = {"type": "apiKey", "in": "header", "name": "X-Token"}
FLOW = {"clientCredentials": {"tokenUrl": "https://a.example/token", "scopes": {}}}


def asked(schemes: Any, **more: Any) -> dict[str, str]:
    return credentials_of({"components": {"securitySchemes": schemes}, **more}, "my-shop")


@all_rows(
    ("scheme", "row"),
    [
        (KEY, {"auth": "api_key", "key_in": "header", "key_name": "X-Token", **SECRET}),
        ({**KEY, "in": "query"}, {"auth": "api_key", "key_in": "query", "key_name": "X-Token", **SECRET}),
        ({"type": "http", "scheme": "Bearer"}, {"auth": "bearer", **SECRET}),
        ({"type": "http", "scheme": "basic"}, {"auth": "basic", **USER, **SECRET}),
        ({"type": "http", "scheme": "digest"}, {"auth": "digest", **USER, **SECRET}),
        (
            {"type": "oauth2", "flows": FLOW},
            {"auth": "oauth2", "token_url": "https://a.example/token", **USER, **SECRET},
        ),
        ({"type": "oauth2", "flows": {"implicit": {}}}, {"auth": "bearer", **SECRET}),
        ({"type": "openIdConnect"}, {"auth": "bearer", **SECRET}),
        ({"type": "mutualTLS"}, {}),
        ({"type": "apiKey", "in": "body"}, {}),
        ({"type": []}, {}),
        ("key", {}),
        (None, {}),
    ],
)
def test_a_scheme_is_written_as_a_row(scheme: Any, row: dict[str, str]) -> None:
    assert asked({"a": scheme}) == row


@pytest.mark.parametrize(
    "place", [{"security": [{}, {"b": []}]}, {"paths": {"/x": {"get": {"security": [{"b": []}]}}}}]
)
def test_the_scheme_that_is_required_comes_before_others(place: Any) -> None:
    assert asked({"a": {"type": "http", "scheme": "bearer"}, "b": KEY}, **place)["auth"] == "api_key"


@pytest.mark.parametrize("document", [{}, {"components": []}, {"components": {"securitySchemes": 5}}, {"paths": 5}])
def test_a_document_without_schemes_asks_for_nothing(document: Any) -> None:
    assert credentials_of(document, "a") == {}


def test_version_2_has_schemes_of_its_own() -> None:
    flow = {"type": "oauth2", "flow": "application", "tokenUrl": "https://a.example/token"}
    assert credentials_of({"securityDefinitions": {"a": flow}}, "a")["auth"] == "oauth2"
