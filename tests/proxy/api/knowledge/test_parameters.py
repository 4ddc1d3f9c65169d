"""A body is read by the Struct that declares it, and an error says which field must be what."""

from typing import Annotated, Any, Literal

import pytest
from msgspec import UNSET, Meta, UnsetType

from proxy.api.knowledge.declarations import Closed, must
from proxy.api.knowledge.parameters import read_as
from proxy.dialects.errors import ApiError
from tests.support.rows import all_rows


class Inner(Closed, frozen=True):
    least: Annotated[float, Meta(ge=0, le=1)]


class Body(Closed, frozen=True):
    name: str
    k: Annotated[int, Meta(ge=1, le=100)] = 8
    start: Annotated[int, Meta(ge=0)] | None = None
    mode: Literal["hybrid", "dense", "bm25"] | None = None
    rerank: bool | None = None
    names: Annotated[list[str], Meta(min_length=1), must("a list of names")] | UnsetType = UNSET
    inner: Inner | None = None
    inners: list[Inner] | None = None


def test_null_is_like_a_field_left_out() -> None:
    assert read_as(Body, {"name": "a", "k": None, "names": None, "inner": None}) == Body("a")


@all_rows(
    ("fields", "param", "said"),
    [
        ({}, "name", "'name' must be text."),
        ({"name": None}, "name", "'name' must be text."),
        ({"name": "a", "k": 0}, "k", "'k' must be a whole number from 1 to 100."),
        ({"name": "a", "k": 1.5}, "k", "'k' must be a whole number from 1 to 100."),
        ({"name": "a", "start": -1}, "start", "'start' must be a whole number from 0 up."),
        ({"name": "a", "mode": "magic"}, "mode", "'mode' must be one of hybrid, dense, bm25."),
        ({"name": "a", "rerank": 1}, "rerank", "'rerank' must be true or false."),
        ({"name": "a", "names": []}, "names", "'names' must be a list of names."),
        ({"name": "a", "names": ["a", 1]}, "names", "'names' must be a list of names."),
        ({"name": "a", "inner": []}, "inner", "'inner' must be an object."),
        ({"name": "a", "inner": {}}, "inner", "'inner.least' must be a number from 0 to 1."),
        ({"name": "a", "inner": {"least": 2}}, "inner", "'inner.least' must be a number from 0 to 1."),
        ({"name": "a", "inners": [{"least": 1}, {"least": "x"}]}, "inners", "'inners[1].least' must be a number"),
        ({"name": "a", "inners": [1]}, "inners", "'inners[0]' must be an object."),
    ],
)
def test_an_error_says_which_field_must_be_what(fields: dict[str, Any], param: str, said: str) -> None:
    with pytest.raises(ApiError) as refused:
        read_as(Body, fields)
    assert (refused.value.status, refused.value.code, refused.value.param) == (400, "invalid_parameter", param)
    assert refused.value.message.startswith(said)
