"""The texts by which an API is found."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.apis.openapi.operation import Operation
from proxy.apis.search_text import api_text

LIST = Operation("listUsers", "GET", "/users", {"properties": {}}, summary="List users")
SHOW = Operation("showUser", "GET", "/users/{id}", {"properties": {}}, operation_id="showUser")

values = st.recursive(
    st.none() | st.booleans() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["description", "get", "tags", "/x"]), inner, max_size=3)
    ),
    max_leaves=12,
)


def test_the_text_about_an_api_has_the_description_the_tags_and_the_summaries() -> None:
    paths = {
        "/users": {"get": {"tags": ["userAdmin", "people"]}, "parameters": []},
        "/x": {"get": {"tags": ["people"]}},
    }
    document = {"info": {"description": "Users &amp; <b>groups</b><script>x</script>"}, "paths": paths}
    assert api_text(document, [LIST, SHOW]) == "Users & groups\n\nuser admin; people; List users; show user"


def test_the_text_about_a_large_api_is_short() -> None:
    document = {
        "info": {"description": "word " * 1000},
        "paths": {f"/{n}": {"get": {"tags": [f"t{n}"]}} for n in range(99)},
    }
    operations = [Operation(f"op{n}", "GET", "/", {}, summary="summary " * 20) for n in range(99)]
    assert len(api_text(document, operations)) <= 1_302


@pytest.mark.parametrize("member", ["info", "paths"])
@given(value=values)
def test_any_member_of_a_document_makes_a_text(member: str, value: Any) -> None:
    assert "List users" in api_text({member: value}, [LIST])
