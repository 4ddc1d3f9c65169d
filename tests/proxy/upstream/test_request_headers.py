"""Which of a client's headers reach an upstream, whose key goes with them, and to which address."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.asgi import Receive, Scope, Send
from proxy.dialects.base import KeyHeader
from proxy.dialects.chat import CHAT
from proxy.dialects.errors import ApiError, Headers
from proxy.dialects.messages import MESSAGES
from proxy.dialects.target import Target
from proxy.exchange import Exchange
from proxy.upstream.relay import (
    OF_THE_KEY,
    REQUEST_HEADERS,
    REQUEST_PREFIXES,
    request_headers,
    url_of,
)
from proxy.upstream.routes import Upstream, client_key
from tests.support.asgi_calls import Call, scope_of

BEARER = (b"authorization", b"Bearer sk-client")
ORGANIZATION = (b"openai-organization", b"org-1")
PROJECT = (b"openai-project", b"proj-1")


def keyed(key: str, *, of_client: bool = False) -> Target:
    return Target("m", "relay", "http://a/v1", key, key_of_client=of_client)


# What the client's Connection names


@pytest.mark.parametrize(
    "connection", [b"x-request-id", b"close, X-Request-Id", b"keep-alive,x-request-id ,te", b" x-request-id"]
)
def test_a_header_that_connection_names_ends_here(connection: bytes) -> None:
    headers = [(b"x-request-id", b"1"), (b"connection", connection), (b"accept", b"*/*"), (b"x-request-id", b"2")]
    assert request_headers(headers, keyed("")) == [(b"accept", b"*/*")]


def test_several_connection_headers_count_alike() -> None:
    headers = [(b"connection", b"accept"), (b"connection", b"user-agent"), (b"accept", b"a"), (b"user-agent", b"b")]
    assert request_headers(headers, keyed("k")) == [(b"authorization", b"Bearer k")]


def test_connection_cannot_take_the_gateways_own_key_away() -> None:
    headers = [(b"connection", b"authorization"), (b"authorization", b"Bearer other")]
    assert request_headers(headers, keyed("k")) == [(b"authorization", b"Bearer k")]


# The list


def test_a_header_given_twice_and_one_of_8_kb_travel_as_they_came() -> None:
    headers = [(b"x-request-id", b"1"), (b"x-request-id", b"2"), (b"openai-beta", b"b" * 8192)]
    assert request_headers(headers, keyed("")) == headers


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                [*REQUEST_HEADERS, *OF_THE_KEY, b"cookie", b"x-api-key", b"api-key", b"x-rag", b"connection",
                 b"x-forwarded-for", b"authorization", b"openai_beta", b"x-stainless_os", b"content_type", b"te"]
            ) | st.binary(min_size=1, max_size=12).map(bytes.lower),
            st.sampled_from([b"v", b"accept, x", b"Bearer k", b"Bearer sk-client", b"close"]),
        ),
        max_size=12,
    )
)  # fmt: skip
def test_nothing_travels_but_the_list_and_one_key(headers: Headers) -> None:
    sent = request_headers(headers, keyed("k"))
    assert sent[-1] == (b"authorization", b"Bearer k")
    for header in sent[:-1]:
        name = header[0]
        assert header in headers
        assert name in REQUEST_HEADERS or (name.startswith(REQUEST_PREFIXES) and b"_" not in name)
        assert name not in OF_THE_KEY or (b"authorization", b"Bearer k") in headers


# Whose key, and what belongs to it


def test_organization_and_project_travel_with_the_clients_own_key_only() -> None:
    headers = [BEARER, ORGANIZATION, PROJECT]
    assert request_headers(headers, keyed("sk-client")) == [ORGANIZATION, PROJECT, BEARER]
    assert request_headers(headers, keyed("sk-other")) == [(b"authorization", b"Bearer sk-other")]
    assert request_headers(headers, keyed("")) == []


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ([], ""),
        ([BEARER], "sk-client"),
        ([(b"authorization", b"bearer  sk-client ")], "sk-client"),
        ([(b"authorization", b"BEARER sk-client")], "sk-client"),
        ([(b"authorization", b"Bearer")], ""),
        ([(b"authorization", b"Bearer ")], ""),
        ([(b"authorization", b"")], ""),
        ([(b"authorization", b"Basic dTpw")], ""),
        ([(b"authorization", b"sk-client")], ""),
        ([(b"x-api-key", b"sk-client"), (b"api-key", b"k"), (b"proxy-authorization", b"Bearer k")], ""),
        ([(b"authorization", b"Bearer " + b"k" * 8192)], "k" * 8192),
    ],
)
def test_a_clients_key_is_looked_for_in_one_place(headers: Headers, key: str) -> None:
    assert client_key(headers) == key


@pytest.mark.parametrize("headers", [[BEARER, BEARER], [BEARER, (b"authorization", b"")]])
def test_two_authorization_headers_are_a_400(headers: Headers) -> None:
    with pytest.raises(ApiError, match="2 Authorization headers") as refused:
        client_key(headers)
    assert (refused.value.status, refused.value.code) == (400, "invalid_authorization")


@pytest.mark.parametrize("key", [b"sk a", b"sk\ta", b"sk\xc3\xa9", b"sk\x00", b"sk\r\nx-a: b"])
def test_what_is_no_key_is_a_400_that_does_not_repeat_it(key: bytes) -> None:
    with pytest.raises(ApiError, match="printable ASCII") as refused:
        client_key([(b"authorization", b"Bearer " + key)])
    assert (refused.value.status, "sk" in refused.value.message) == (400, False)


@pytest.mark.parametrize(
    ("of_client", "configured", "sent"), [(True, "", "sk-client"), (False, "", ""), (False, "sk-ours", "sk-ours")]
)
async def test_the_lane_is_called_with_the_key_that_is_to_be_used(of_client: bool, configured: str, sent: str) -> None:
    keys = []

    async def lane(scope: Scope, _receive: Receive, _send: Send) -> None:
        keys.append(exchange.target.api_key if exchange.target else None)

    exchange = Exchange(target=Target("m", "relay", "http://a", configured, key_of_client=of_client))
    await Call().to(Upstream({"relay": lane}), scope_of(headers=[BEARER], exchange=exchange))
    assert keys == [sent]


def test_a_target_does_not_show_its_key() -> None:
    assert "sk-ours" not in repr(Exchange(target=Target("m", "relay", "http://a", "sk-ours")))


# Anthropic's dialect, on a listed path

VERSION = (b"anthropic-version", b"2023-06-01")
BETA = (b"anthropic-beta", b"a,b")
THEIRS = (b"x-api-key", b"sk-ant-1")
OUR_OWN = (b"x-api-key", b"sk-rag-0123")


@pytest.mark.parametrize(
    ("headers", "target", "sent"),
    [
        ([VERSION, BETA, THEIRS], keyed(""), [VERSION, BETA, THEIRS]),
        ([VERSION, OUR_OWN], keyed(""), [VERSION]),
        ([(b"x-api-key", b"Bearer sk-rag-0123"), THEIRS], keyed(""), [THEIRS]),
        ([THEIRS, (b"connection", b"x-api-key")], keyed(""), []),
        ([VERSION, THEIRS], keyed("sk-ours"), [VERSION, (b"x-api-key", b"sk-ours")]),
        ([VERSION, BEARER], keyed("sk-ours"), [VERSION, (b"x-api-key", b"sk-ours")]),
        ([OUR_OWN], keyed("sk-ours"), [(b"x-api-key", b"sk-ours")]),
        ([BEARER], keyed("sk-ours"), [(b"authorization", b"Bearer sk-ours")]),
        ([VERSION, THEIRS, BEARER], keyed("sk-client", of_client=True), [VERSION, THEIRS, BEARER]),
        ([VERSION, THEIRS], keyed("", of_client=True), [VERSION, THEIRS]),
    ],
)
def test_on_a_listed_path_a_key_shown_as_anthropics_travels_or_is_replaced(
    headers: Headers, target: Target, sent: Headers
) -> None:
    assert request_headers(headers, target, listed=True) == sent
    assert not {THEIRS, OUR_OWN, (b"x-api-key", b"sk-ours")} & set(request_headers(headers, target))


@pytest.mark.parametrize(
    ("headers", "target", "sent"),
    [
        ([VERSION, BETA, THEIRS], keyed("", of_client=True), [VERSION, BETA, THEIRS]),
        ([THEIRS, BEARER], keyed("sk-client", of_client=True), [THEIRS, BEARER]),
        ([THEIRS, (b"connection", b"x-api-key")], keyed("", of_client=True), []),
        ([OUR_OWN], keyed("", of_client=True), []),
        ([THEIRS], keyed(""), []),
        ([THEIRS, BEARER], keyed("sk-ours"), [(b"x-api-key", b"sk-ours")]),
        ([], keyed("sk-ours"), [(b"x-api-key", b"sk-ours")]),
    ],
)
def test_in_anthropics_dialect_a_key_is_sent_as_x_api_key(headers: Headers, target: Target, sent: Headers) -> None:
    assert request_headers(headers, target, key_header=MESSAGES.key_header) == sent


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"x-api-key", b"authorization", b"anthropic-beta", b"connection"]),
            st.binary(max_size=8).map(lambda end: b"sk-rag-" + end),
        ),
        max_size=4,
    ),
    st.sampled_from([keyed(""), keyed("", of_client=True), keyed("sk-ours")]),
    st.sampled_from([(CHAT.key_header, True), (MESSAGES.key_header, False)]),
)
def test_no_key_of_ours_leaves_as_a_key(headers: Headers, target: Target, path: tuple[KeyHeader, bool]) -> None:
    sent = request_headers(headers, target, key_header=path[0], listed=path[1])
    assert not any(b"sk-rag-" in value for name, value in sent if name in (b"x-api-key", b"authorization"))


# An address with a query


@pytest.mark.parametrize(
    ("base", "query", "url"),
    [
        ("http://a/d?api-version=1", b"", "http://a/d/chat/completions?api-version=1"),
        ("http://a/d/?api-version=1", b"x=%20&y", "http://a/d/chat/completions?api-version=1&x=%20&y"),
        ("http://a/d?api-version=1", b"api-version=2&api%2Dversion=3&x=1", "http://a/d/chat/completions?api-version=1&x=1"),
        ("http://a/d?a=1&b", b"b=2&a=3&c", "http://a/d/chat/completions?a=1&b&c"),
        ("http://a?k=1/2", b"", "http://a/chat/completions?k=1/2"),
    ],
)  # fmt: skip
def test_the_path_goes_before_a_configured_query_which_wins(base: str, query: bytes, url: str) -> None:
    assert url_of(base, scope_of(query=query)) == url
