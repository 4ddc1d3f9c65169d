"""Requests of actions: an independent reader of OpenAPI reads back the arguments; no value leaves its place."""

import functools
import json
import unicodedata
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import httpx
import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from openapi_core import OpenAPI
from openapi_core.testing import MockRequest
from werkzeug.datastructures import MultiDict

from proxy.apis.openapi.operation import FORM, Operation
from proxy.apis.openapi.operations import operations_of
from proxy.apis.request import BadArgument, build_request
from tests.support.rows import all_rows

BASE = "http://api.example.com/v1"


def operation_with(*parameters: dict[str, Any], path: str = "/p", body: dict[str, Any] | None = None) -> Operation:
    return operations_of(document(*parameters, path=path, body=body))[0][0]


def document(*parameters: dict[str, Any], path: str = "/p", body: dict[str, Any] | None = None) -> dict[str, Any]:
    operation: dict[str, Any] = {"parameters": list(parameters), "responses": {"200": {"description": "ok"}}}
    if body is not None:
        operation["requestBody"] = {"content": body}
    item = {"post" if body is not None else "get": operation}
    return {
        "openapi": "3.1.0",
        "info": {"title": "t", "version": "1"},
        "servers": [{"url": BASE}],
        "paths": {path: item},
    }


def parameter(name: str, place: str, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": schema, **({"required": True} if place == "path" else {}), **more}


STRINGS = {"type": "array", "items": {"type": "string"}}
POINT = {"type": "object", "properties": {"x": {"type": "integer"}, "name": {"type": "string"}}}
WORD = st.text(
    st.characters(min_codepoint=33, max_codepoint=0x2FFF, exclude_categories=["Cs", "Zs", "Cc"]), min_size=1, max_size=8
)
# "..", ".;x", "%2e" and "%00" are refused.
SEGMENT = st.sampled_from(["a.b", "v1.2/c", "50%", "a%41"]) | WORD.filter(
    lambda word: not {".", "%"} & {*unicodedata.normalize("NFKC", word)}
)
SAFE = st.from_regex(r"[a-z0-9]{1,6}", fullmatch=True)


@functools.cache
def _reader() -> tuple[Operation, OpenAPI]:
    """An operation with parameters of all places, and the independent reader of its document."""
    spec = document(
        parameter("id", "path", {"type": "string"}),
        parameter("exploded", "query", STRINGS),
        parameter("joined", "query", STRINGS, explode=False),
        parameter("number", "query", {"type": "integer"}),
        parameter("flag", "query", {"type": "boolean"}),
        parameter("deep", "query", POINT, style="deepObject", explode=True),
        parameter("X-Words", "header", STRINGS),
        path="/a/{id}/b",
    )
    (operation,), _ = operations_of(spec)
    return operation, OpenAPI.from_dict(spec)


@given(
    words=st.lists(WORD, min_size=1, max_size=3),
    number=st.integers(-(10**9), 10**9),
    flag=st.booleans(),
    point=st.fixed_dictionaries({"x": st.integers(0, 99), "name": WORD}),
    segment=SEGMENT,
    header=st.lists(SAFE, min_size=1, max_size=3),
)
def test_an_independent_reader_reads_the_arguments_back(
    words: list[str], number: int, flag: bool, point: dict[str, Any], segment: str, header: list[str]
) -> None:
    assume(not any("," in word for word in words))  # the reader decodes before the split
    arguments = {
        "id": segment,
        "exploded": words,
        "joined": words,
        "number": number,
        "flag": flag,
        "deep": point,
        "X-Words": header,
    }
    operation, reader = _reader()
    request = build_request(operation, arguments, BASE)
    url = urlsplit(request.url)
    assert url.path.count("/") == 4  # the value stays in its segment
    read = reader.unmarshal_request(
        MockRequest(
            "http://api.example.com",
            "get",
            url.path,
            args=MultiDict(parse_qsl(url.query, keep_blank_values=True)),
            headers=dict(request.headers),
            view_args={"id": unquote(url.path.split("/")[3])},
        )
    )
    assert read.errors == []
    values = {**read.parameters.path, **read.parameters.query, **read.parameters.header}
    assert values == arguments


# The examples of OpenAPI 3.1.1, "Style Examples". A list in the style deepObject has none: Stripe reads a[].
LIST, OBJECT = ["blue", "black", "brown"], {"R": 100, "G": 200, "B": 150}


@all_rows(
    ("style", "explode", "value", "made"),
    [
        ("matrix", False, "blue", ";color=blue"),
        ("matrix", False, LIST, ";color=blue,black,brown"),
        ("matrix", False, OBJECT, ";color=R,100,G,200,B,150"),
        ("matrix", True, LIST, ";color=blue;color=black;color=brown"),
        ("matrix", True, OBJECT, ";R=100;G=200;B=150"),
        ("label", False, "blue", ".blue"),
        ("label", False, LIST, ".blue,black,brown"),
        ("label", False, OBJECT, ".R,100,G,200,B,150"),
        ("label", True, LIST, ".blue.black.brown"),
        ("label", True, OBJECT, ".R=100.G=200.B=150"),
        ("simple", False, LIST, "blue,black,brown"),
        ("simple", False, OBJECT, "R,100,G,200,B,150"),
        ("simple", True, OBJECT, "R=100,G=200,B=150"),
    ],
)
def test_values_of_a_path_are_written_as_the_specification_shows(
    style: str, explode: bool, value: Any, made: str
) -> None:
    operation = operation_with(parameter("color", "path", {}, style=style, explode=explode), path="/x/{color}")
    assert build_request(operation, {"color": value}, BASE).url == f"{BASE}/x/{made}"


@all_rows(
    ("style", "explode", "value", "made"),
    [
        ("form", True, "", "color="),
        ("form", True, "blue", "color=blue"),
        ("form", False, LIST, "color=blue,black,brown"),
        ("form", True, LIST, "color=blue&color=black&color=brown"),
        ("form", False, OBJECT, "color=R,100,G,200,B,150"),
        ("form", True, OBJECT, "R=100&G=200&B=150"),
        ("spaceDelimited", False, LIST, "color=blue%20black%20brown"),
        ("spaceDelimited", False, OBJECT, "color=R%20100%20G%20200%20B%20150"),
        ("pipeDelimited", False, LIST, "color=blue%7Cblack%7Cbrown"),
        ("deepObject", True, OBJECT, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
        ("deepObject", True, LIST, "color%5B%5D=blue&color%5B%5D=black&color%5B%5D=brown"),
        ("deepObject", True, [{"R": 100}, {"G": 200}], "color%5B0%5D%5BR%5D=100&color%5B1%5D%5BG%5D=200"),
        ("deepObject", True, {"R": [1, 2], "G": []}, "color%5BR%5D%5B%5D=1&color%5BR%5D%5B%5D=2"),
        ("deepObject", True, {"R": [{"G": 1}, [2]]}, "color%5BR%5D%5B0%5D%5BG%5D=1&color%5BR%5D%5B1%5D%5B%5D=2"),
        ("form", True, 0, "color=0"),
        ("form", True, False, "color=false"),
        ("form", True, None, ""),
        ("form", False, None, ""),
        ("form", True, [None], ""),
        ("form", False, [None, "blue", None], "color=blue"),
        ("form", True, {"R": None, "G": 1, "B": [None]}, "G=1"),
        ("deepObject", True, {"R": None, "G": {"a": None, "b": 0}}, "color%5BG%5D%5Bb%5D=0"),
        ("form", True, "null", "color=null"),
        # Spring's Pageable; nested members as Spring reads them.
        ("form", True, {"page": 0, "sort": ["date,desc", "id,asc"]}, "page=0&sort=date%2Cdesc&sort=id%2Casc"),
        ("form", True, {"total": {"min": 3, "of": {"a": [1, 2]}}}, "total.min=3&total.of.a=1&total.of.a=2"),
        ("form", True, {"rows": [{"a": 1}]}, "rows=%5B%7B%22a%22%3A1%7D%5D"),
        ("form", True, 2.0, "color=2"),
        ("form", True, "a&b=c d", "color=a%26b%3Dc%20d"),
        ("form", True, [], ""),
    ],
)
def test_values_of_a_query_are_written_as_the_specification_shows(
    style: str, explode: bool, value: Any, made: str
) -> None:
    operation = operation_with(parameter("color", "query", {}, style=style, explode=explode))
    assert build_request(operation, {"color": value}, BASE).url == f"{BASE}/p" + (f"?{made}" if made else "")


def test_a_value_of_too_many_levels_is_refused() -> None:
    value: Any = 1
    for _ in range(2000):
        value = [value]
    with pytest.raises(BadArgument, match="too many levels"):
        build_request(operation_with(parameter("a", "query", {}, style="deepObject")), {"a": value}, BASE)


def test_reserved_characters_stay_only_where_the_document_allows_them() -> None:
    one, other = parameter("a", "query", {}, allowReserved=True), parameter("b", "query", {})
    url = build_request(operation_with(one, other), {"a": "x/y:z", "b": "x/y:z"}, BASE).url
    assert url.endswith("?a=x/y:z&b=x%2Fy%3Az")


@pytest.mark.parametrize("style", ["form", "spaceDelimited", "pipeDelimited"])
def test_reserved_characters_in_a_value_add_no_parameter_and_end_no_value(style: str) -> None:
    one = parameter("a", "query", {}, allowReserved=True, style=style)
    url = build_request(operation_with(one), {"a": "x&groupId=1#;+[y]"}, BASE).url
    assert parse_qsl(urlsplit(url).query, separator="&") == [("a", "x&groupId=1#;+[y]")]
    assert urlsplit(url).fragment == ""
    assert ";" not in url


@given(text=st.text(max_size=8), reserved=st.booleans())
def test_the_http_library_sends_the_bytes_as_written(text: str, reserved: bool) -> None:
    one, other = parameter("id", "path", {}), parameter("q", "query", {}, allowReserved=reserved)
    try:
        url = build_request(operation_with(one, other, path="/a/{id}"), {"id": f"a{text}", "q": text}, BASE).url
    except BadArgument:
        return
    assert httpx.URL(url).raw_path.decode() == url.removeprefix("http://api.example.com")


@pytest.mark.parametrize(
    ("path", "made"), [("/#Action=List", "/?q=1"), ("/a?kind=b", "/a?kind=b&q=1"), ("/a?kind=b#x", "/a?kind=b&q=1")]
)
def test_a_query_of_the_path_stays_and_a_fragment_goes(path: str, made: str) -> None:
    operation = operation_with(parameter("q", "query", {}), path=path)
    assert build_request(operation, {"q": 1}, BASE).url == f"{BASE}{made}"


BLANKS = "\u200b \u00a0 \u3000 \ufeff \u00ad \u2060".split(" ")
DOTS = [
    ".. ",
    " ..",
    "a/ ..",
    "%20..",
    *(f"..{one}" for one in BLANKS),
    *(f"{one}..%20" for one in BLANKS),
    "...",
    "../a",
    "a/..",
    "..\\a",
    "..;/a",
    "a/..;v=1",
    "%2e%2e",
    "%2E./a",
    "%252e%252e%252fa",
    "．．／a",
    "‥",
    "%00",
]


@all_rows("value", ["", ".", "..", "a\nb", "\x00", None, [], *DOTS, ["a", "../b"], {"a": "../b"}, {"..": 1}])
def test_a_value_that_would_name_another_path_is_refused(value: Any) -> None:
    operation = operation_with(parameter("id", "path", {}), path="/a/{id}")
    with pytest.raises(BadArgument):
        build_request(operation, {"id": value}, BASE)


@pytest.mark.parametrize(
    ("made", "value"),
    [
        *(({"content": {"application/json": {}}}, value) for value in ("x/../y", {"a": "x/..;/y"}, ["/%2e%2e/"])),
        ({"style": "label", "explode": True}, ["", "/a"]),
        ({"style": "label"}, "/a"),
    ],
)
def test_a_written_value_that_would_name_another_path_is_refused(made: dict[str, Any], value: Any) -> None:
    operation = operation_with(parameter("id", "path", {}, **made), path="/a/{id}")
    with pytest.raises(BadArgument, match="id must not be"):
        build_request(operation, {"id": value}, BASE)


@given(st.text(max_size=20))
def test_no_text_leaves_its_segment(text: str) -> None:
    operation = operation_with(parameter("id", "path", {}), path="/a/{id}/b")
    try:
        url = build_request(operation, {"id": text}, BASE).url
    except BadArgument:
        return
    assert url.isascii()
    parts = urlsplit(url)
    assert (parts.netloc, parts.query, parts.fragment) == ("api.example.com", "", "")
    assert [unquote(one) for one in parts.path.split("/")] == ["", "v1", "a", text, "b"]


@given(st.text(max_size=20))
def test_no_text_ends_a_header(text: str) -> None:
    operation = operation_with(parameter("X-A", "header", {}))
    try:
        headers = build_request(operation, {"X-A": text}, BASE).headers
    except BadArgument:
        return
    assert headers == (("X-A", text.strip(" ")),)
    assert not any(unicodedata.category(character) in ("Cc", "Cs") for character in text)


@pytest.mark.parametrize("place", ["query", "header", "cookie"])
def test_null_is_no_value_outside_bodies(place: str) -> None:
    optional, required = parameter("a", place, {}), parameter("a", place, {}, required=True)
    plain = build_request(operation_with(optional), {}, BASE)
    assert build_request(operation_with(optional), {"a": None}, BASE) == plain
    with pytest.raises(BadArgument, match="a is missing"):
        build_request(operation_with(required), {"a": None}, BASE)


@all_rows("value", [[None], [None, None], {"x": None}, {"x": None, "y": None}])
@all_rows("place", ["path", "query", "header", "cookie"])
def test_a_list_or_an_object_of_nulls_is_no_value(place: str, value: object) -> None:
    path = "/p/{a}" if place == "path" else "/p"
    required = operation_with(parameter("a", place, {}, required=True), path=path)
    with pytest.raises(BadArgument, match="a is missing|a must not be empty"):
        build_request(required, {"a": value}, BASE)


def test_null_is_no_element_of_a_path() -> None:
    operation = operation_with(parameter("a", "path", {}), path="/p/{a}")
    assert build_request(operation, {"a": [None, "b", None]}, BASE).url == f"{BASE}/p/b"


def test_null_stays_in_json_and_goes_in_a_form() -> None:
    value = {"a": None, "b": [1, None]}
    for media_type, sent in (("application/json", b'{"a":null,"b":[1,null]}'), (FORM, b"b=1")):
        operation = operation_with(body={media_type: {"schema": {"type": "object"}}})
        assert build_request(operation, {"body": value}, BASE).body == sent


# A fixed parameter, a parameter of the model, and an argument that a server may read as the fixed parameter.
TWINS: list[tuple[dict[str, Any], dict[str, Any], Any]] = [
    (
        parameter("filter[tenant]", "query", {}),
        parameter("filter", "query", {}, style="deepObject"),
        {"tenant": "evil"},
    ),
    *(
        (parameter("tenant", "query", {}), parameter("free", "query", {"type": "object"}), {name: "evil"})
        for name in ("tenant", "TENANT", "tenant[]", "tenant[0]", "tenant[x]", " tenant", "tenant\0x")
    ),
    (parameter("a.tenant", "query", {}), parameter("free", "query", {"type": "object"}), {"a": {"tenant": "evil"}}),
    (parameter("a.tenant", "query", {}), parameter("free", "query", {"type": "object"}), {"a_tenant": "evil"}),
    (parameter("filter[a][b]", "query", {}), parameter("filter", "query", {}, style="deepObject"), {"a": {"b": 1}}),
    (parameter("filter[a][b]", "query", {}), parameter("filter", "query", {}, style="deepObject"), {"a": "evil"}),
    (parameter("filter[tenant]", "query", {}), parameter("filter", "query", {}), "evil"),
    (parameter("tenant", "query", {}), parameter("Tenant[]", "query", {}), "evil"),
    (parameter("X-Tenant", "header", {}), parameter("x_tenant", "header", {}), "evil"),
    (parameter("tenant", "cookie", {}), parameter("free", "cookie", {"type": "object"}), {"Tenant": "evil"}),
    (
        parameter("tenant", "path", {}, style="matrix"),
        parameter("free", "path", {"type": "object"}, style="matrix", explode=True),
        {"tenant": "evil"},
    ),
]


@all_rows(("fixed", "own", "value"), TWINS)
@all_rows("turned", [False, True])
def test_no_argument_is_written_as_a_fixed_argument(
    fixed: dict[str, Any], own: dict[str, Any], value: Any, turned: bool
) -> None:
    rows = [own, fixed] if turned else [fixed, own]
    path = f"/p/{{{own['name']}}}/{{{fixed['name']}}}" if own["in"] == "path" else "/p"
    operation = operation_with(*rows, path=path)
    names = {one.name: one.argument for one in operation.parameters}
    arguments = {names[fixed["name"]]: "4711", names[own["name"]]: value}
    with pytest.raises(BadArgument, match="must not"):
        build_request(operation, arguments, BASE, fixed=[names[fixed["name"]]])
    harmless = {names[fixed["name"]]: "4711"} | ({names["free"]: {"a": 1}} if own["in"] == "path" else {})
    assert "4711" in str(build_request(operation, harmless, BASE, fixed=[names[fixed["name"]]]))


def test_another_member_stays_beside_a_fixed_argument() -> None:
    rows = [parameter("filter[tenant]", "query", {}), parameter("filter", "query", {}, style="deepObject")]
    operation = operation_with(*rows)
    arguments = {operation.parameters[0].argument: "4711", operation.parameters[1].argument: {"name": "x"}}
    url = build_request(operation, arguments, BASE, fixed=[operation.parameters[0].argument]).url
    assert url.endswith("?filter%5Btenant%5D=4711&filter%5Bname%5D=x")


@pytest.mark.parametrize("media_type", ["application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_form_writes_no_fixed_argument_of_the_query(media_type: str) -> None:
    operation = operation_with(parameter("tenant", "query", {}), body={media_type: {"schema": {"type": "object"}}})
    with pytest.raises(BadArgument, match="must not"):
        build_request(operation, {"tenant": "4711", "body": {"Tenant": "evil"}}, BASE, fixed=["tenant"])
    assert build_request(operation, {"tenant": "4711", "body": {"a": "b"}}, BASE, fixed=["tenant"]).body


@all_rows("value", ["", None, [], {}, [""]])
@all_rows("style", ["simple", "label", "matrix"])
def test_an_empty_value_of_a_path_is_refused(value: Any, style: str) -> None:
    operation = operation_with(parameter("ids", "path", {}, style=style), path="/users/{ids}")
    if value == [""] and style == "matrix":
        assert build_request(operation, {"ids": value}, BASE).url == f"{BASE}/users/;ids="
        return
    with pytest.raises(BadArgument):
        build_request(operation, {"ids": value}, BASE)


def test_json_in_a_header_is_ascii() -> None:
    row = {"name": "X-A", "in": "header", "content": {"application/json": {"schema": {}}}}
    (header,) = build_request(operation_with(row), {"X-A": {"city": "Zürich \N{GRINNING FACE}"}}, BASE).headers
    assert header == ("X-A", '{"city":"Z\\u00fcrich \\ud83d\\ude00"}')


def test_headers_of_the_connection_are_no_arguments() -> None:
    names = ["Authorization", "Content-Type", "accept", "Host", "X-Forwarded-For", "Cookie", "Accept-Encoding"]
    names += ["User-Agent", "Keep-Alive", "Proxy-Connection", "X-Original-URL", "X-Rewrite-URL"]
    names += ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"]
    names += ["X-Real-IP", "True-Client-IP", "CF-Connecting-IP", "X-Cluster-Client-IP", "Impersonate-User"]
    names += [
        "X-HTTP-Path-Override",
        "X-Original-Host",
        "X-Remote-User",
        "Remote-User",
        "X-Forwarded",
        "X-Auth-Request-User",
    ]
    names += [name.replace("-", "_") for name in names]  # as CGI reads a name, and WSGI servers
    operation = operation_with(*[parameter(name, "header", {}, required=True) for name in names])
    assert operation.schema["properties"] == {}
    assert operation.effect == "reads"


OVERRIDES = ["_method", "X-HTTP-Method-Override", "x-http-method", "X-Method-Override"]


@pytest.mark.parametrize("name", OVERRIDES)
def test_an_operation_whose_query_can_name_another_method_could_change_something(name: str) -> None:
    assert operation_with(parameter(name, "query", {"enum": ["GET"]})).effect == "changes"
    assert operation_with(path=f"/p?a=1&{name}=DELETE").effect == "changes"
    assert operation_with(path=f"/p?a=1;%20{name.replace('e', '%65')}[]=DELETE").effect == "changes"
    assert msgspec.structs.replace(operation_with(), server=f"https://a.example/?{name}=DELETE").effect == "changes"
    assert operation_with(parameter(f"{name}s", "query", {}), path=f"/{name}?a={name}").effect == "reads"


def test_two_values_of_a_segment_do_not_leave_the_segment_together() -> None:
    operation = operation_with(
        *(parameter(name, "path", {}) for name in ("a", "b", "?c/d")), path="/compare/{a}..{b}/{?c/d}/.{b}?up=../{a}"
    )
    assert build_request(operation, {"a": "main", "b": "next", "c_d": "e"}, BASE).url.endswith("/e/.next?up=../main")
    for a, b in (("main/", "/next"), ("x%2F", "%2Fy"), ("x\\", "\\y"), ("x", ".;y"), ("x/", ";y")):
        with pytest.raises(BadArgument, match="another path would be called"):
            build_request(operation, {"a": a, "b": b, "c_d": "e"}, BASE)


def test_the_values_of_a_path_cannot_name_another_method() -> None:
    operation = operation_with(parameter("name", "path", {}), path="/p?{name}=DELETE")
    assert build_request(operation, {"name": "a"}, BASE).url.endswith("?a=DELETE")
    with pytest.raises(BadArgument, match="another method"):
        build_request(operation, {"name": "_method"}, BASE)


@pytest.mark.parametrize("name", OVERRIDES)
def test_the_members_of_an_object_cannot_name_another_method(name: str) -> None:
    operation = operation_with(parameter("filter", "query", {"type": "object"}))
    for written in (name, f" {name}", f"{name}[]", f"{name}\0a", name.replace("_", ".")):
        with pytest.raises(BadArgument, match="another method"):
            build_request(operation, {"filter": {written: "DELETE"}}, BASE)


@pytest.mark.parametrize(
    ("media_type", "value", "content"),
    [
        ("application/json", {"a": 0, "b": None, "c": False, "d": ""}, b'{"a":0,"b":null,"c":false,"d":""}'),
        ("application/vnd.atlas.2023-02-01+json", [1], b"[1]"),
        ("text/plain", "words", b"words"),
        ("application/x-www-form-urlencoded", {"a": 0, "b": "x y", "c": [1, 2]}, b"a=0&b=x%20y&c=1&c=2"),
        ("application/x-www-form-urlencoded", {"a": {"b": 1}}, b"a=%7B%22b%22%3A1%7D"),
        ("application/octet-stream", "AAE=", b"\x00\x01"),
    ],
)
def test_bodies_are_written_in_their_media_type(media_type: str, value: Any, content: bytes) -> None:
    request = build_request(operation_with(body={media_type: {"schema": {}}}), {"body": value}, BASE)
    assert dict(request.headers)["content-type"] == media_type
    assert request.body == content


OBJECT_SCHEMA = {"type": "object"}


def test_a_form_may_have_a_parameter_of_the_media_type() -> None:
    media_type = "application/x-www-form-urlencoded; charset=utf-8"
    operation = operation_with(body={media_type: {"schema": OBJECT_SCHEMA}})
    assert operation.schema["properties"]["body"] == OBJECT_SCHEMA
    request = build_request(operation, {"body": {"a": "x y"}}, BASE)
    assert (dict(request.headers)["content-type"], request.body) == (media_type, b"a=x%20y")


@pytest.mark.parametrize(
    ("content", "sent"),
    [
        ({"application/*+json": OBJECT_SCHEMA}, "application/json"),
        ({"application/*+json": OBJECT_SCHEMA, "text/json": OBJECT_SCHEMA}, "text/json"),
        ({"application/json-patch+json": OBJECT_SCHEMA, "application/json": OBJECT_SCHEMA}, "application/json"),
        ({"text/*": {"type": "string"}}, "text/plain"),
        ({"image/*": {"type": "string", "format": "binary"}}, "application/octet-stream"),
        ({"*/*": {}}, "application/octet-stream"),
        ({"*/*": OBJECT_SCHEMA}, "application/json"),
    ],
)
def test_a_body_never_has_a_range_of_media_types(content: dict[str, Any], sent: str) -> None:
    operation = operation_with(body={name: {"schema": schema} for name, schema in content.items()})
    value: Any = {"a": 1} if OBJECT_SCHEMA in content.values() else "AAE="
    request = build_request(operation, {"body": value}, BASE)
    assert dict(request.headers)["content-type"] == sent
    assert (request.body == b'{"a":1}') is (OBJECT_SCHEMA in content.values())


@pytest.mark.parametrize("media_type", ["multipart/form-data", "Multipart/Form-Data; boundary=x"])
def test_a_multipart_form_has_a_part_for_each_value(media_type: str) -> None:
    schema = {"type": "object", "properties": {"f": {"type": "string", "format": "binary"}, "n": {"type": "integer"}}}
    operation = operation_with(body={media_type: {"schema": schema}})
    request = build_request(operation, {"body": {"f": "AAE=", "n": 1, "o": {"a": 1}, 'q"\r\nx': "v"}}, BASE)
    boundary = dict(request.headers)["content-type"].partition("boundary=")[2]
    parts = request.body.split(b"--" + boundary.encode())
    assert parts[0] == b""
    assert parts[-1] == b"--\r\n"
    assert b'name="f"; filename="f"\r\nContent-Type: application/octet-stream\r\n\r\n\x00\x01\r\n' in parts[1]
    assert parts[2] == b'\r\nContent-Disposition: form-data; name="n"\r\n\r\n1\r\n'
    assert b'Content-Type: application/json\r\n\r\n{"a":1}' in parts[3]
    assert b'name="q%22%0D%0Ax"' in parts[4]


def test_a_file_of_a_combined_form_is_sent_as_bytes() -> None:
    files = {"properties": {"f": {"type": "string", "format": "binary"}}}
    form = {"schema": {"allOf": [{"allOf": [files]}, {"properties": {"n": {"type": "integer"}}}]}}
    request = build_request(operation_with(body={"multipart/form-data": form}), {"body": {"f": "AAE="}}, BASE)
    assert b'filename="f"\r\nContent-Type: application/octet-stream\r\n\r\n\x00\x01\r\n' in request.body


def test_a_vendor_version_is_asked_for() -> None:
    spec = document()
    content: dict[str, Any] = {
        "application/vnd.atlas.2023-01-01+json": {},
        "application/vnd.atlas.2024-05-30+json": {},
        "text/csv": {},
    }
    spec["paths"]["/p"]["get"]["responses"]["200"]["content"] = content
    request = build_request(operations_of(spec)[0][0], {}, BASE)
    assert dict(request.headers)["accept"] == "application/vnd.atlas.2024-05-30+json"
    spec["paths"]["/p"]["get"]["responses"]["200"]["content"] = {
        f"application/vnd.shop.v{number}+json": {} for number in (9, 10, 1)
    }
    assert operations_of(spec)[0][0].accept == "application/vnd.shop.v10+json"


@pytest.mark.parametrize(
    ("name", "accept"),
    [
        ("total_count", "text/csv"),  # an example at the place of a media type, as in several public documents
        ("application/json, charset=utf-8", "text/csv"),
        ("application/jsön", "text/csv"),
        ("application/json\r\nx-more: 1", "text/csv"),
        ('application/json; odata="a b"', 'application/json; odata="a b"'),
    ],
)
def test_a_name_that_is_no_media_type_is_not_asked_for(name: str, accept: str) -> None:
    spec = document()
    spec["paths"]["/p"]["get"]["responses"]["200"]["content"] = {name: {}, "text/csv": {}}
    assert operations_of(spec)[0][0].accept == accept


@pytest.mark.parametrize(
    ("status", "accept"),
    [("200", "application/vnd.atlas.2024-05-30+json"), ("404", "application/json")],
)
def test_the_default_response_is_an_error_beside_a_successful_response(status: str, accept: str) -> None:
    spec = document()
    spec["paths"]["/p"]["get"]["responses"] = {
        status: {"content": {"application/vnd.atlas.2024-05-30+json": {}}},
        "default": {"content": {"application/json": {}}},
    }
    request = build_request(operations_of(spec)[0][0], {}, BASE)
    assert dict(request.headers)["accept"] == accept


def test_a_missing_argument_is_named() -> None:
    operation = operation_with(parameter("q", "query", {}, required=True))
    with pytest.raises(BadArgument, match="q is missing"):
        build_request(operation, {}, BASE)


def test_a_server_has_its_variables() -> None:
    servers = [
        {"url": "https://{region}.example.com", "variables": {"region": {"default": "eu", "enum": ["eu", "us"]}}}
    ]
    spec = document()
    spec["paths"]["/p"]["get"]["servers"] = servers
    assert operations_of(json.loads(json.dumps(spec)))[0][0].server == "https://eu.example.com"


def content_of(name: str, place: str) -> dict[str, Any]:
    return parameter(name, place, {}, content={"application/json": {"schema": {}}})


@pytest.mark.parametrize("bad", ["caf\ud83d", 10**30], ids=["half a pair", "30 digits"])
@pytest.mark.parametrize("place", ["path", "query", "header", "cookie"])
def test_a_value_that_json_cannot_have_is_refused(place: str, bad: Any) -> None:
    path = "/p/{v}" if place == "path" else "/p"
    for one, value in (
        (content_of("v", place), bad),
        (parameter("v", place, {}), {"a": [[bad]]}),
        (parameter("v", place, {}), [[bad]]),
        (parameter("v", place, {}), bad if isinstance(bad, str) else [{"a": bad}]),
    ):
        with pytest.raises(BadArgument):
            build_request(operation_with(one, path=path), {"v": value}, BASE)


@pytest.mark.parametrize(
    "media_type", ["application/json", "application/x-www-form-urlencoded", "multipart/form-data", "text/plain"]
)
def test_a_body_with_half_of_a_surrogate_pair_is_refused(media_type: str) -> None:
    operation = operation_with(body={media_type: {"schema": {}}})
    for value in ({"a": "caf\ud83d"}, {"a": {"b": "caf\ud83d"}}, {"caf\ud83d": "a"}):
        with pytest.raises(BadArgument):
            build_request(operation, {"body": value}, BASE)
