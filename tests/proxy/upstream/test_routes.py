"""A model's name finds its target: exact before patterns, longer before shorter, else a clear 404."""

import json
from dataclasses import replace

import pytest

from proxy.asgi import Message, Receive, Scope, Send
from proxy.caller import EVERYTHING, Names, Rights
from proxy.dialects.chat import CHAT
from proxy.dialects.errors import ApiError
from proxy.dialects.messages import MESSAGES
from proxy.dialects.target import Lane, Target
from proxy.exchange import EXCHANGE, Exchange
from proxy.upstream.routes import Routes, Upstream


def target(model: str = "", lane: Lane = "relay", api_base: str = "http://a/v1") -> Target:
    return Target(model, lane, api_base, "key")


def test_the_exact_name_wins_over_every_pattern() -> None:
    routes = Routes({"*": target("any"), "gpt-4o*": target("pattern"), "gpt-4o": target("exact")})
    assert routes.resolve("gpt-4o", EVERYTHING).model == "exact"


@pytest.mark.parametrize("names", [("*", "gpt-*", "gpt-4*"), ("gpt-4*", "gpt-*", "*"), ("gpt-*", "*", "gpt-4*")])
def test_the_longest_pattern_wins_in_whatever_order(names: tuple[str, ...]) -> None:
    routes = Routes({name: target(name) for name in names})
    assert routes.resolve("gpt-4o", EVERYTHING).model == "gpt-4*"
    assert routes.resolve("gpt-3", EVERYTHING).model == "gpt-*"
    assert routes.resolve("claude", EVERYTHING).model == "*"
    assert routes.resolve("gpt-4", EVERYTHING).model == "gpt-4*"


def test_a_target_without_a_model_takes_the_name_asked_for() -> None:
    routes = Routes({"*": Target("", "translated", "http://a/v1", "key")})
    assert routes.resolve("any/thing", EVERYTHING) == Target("any/thing", "translated", "http://a/v1", "key")


def test_a_star_within_a_name_asked_for_is_a_letter() -> None:
    routes = Routes({"gpt-*": target(), "exact": target()})
    with pytest.raises(ApiError):
        routes.resolve("*", EVERYTHING)
    assert routes.resolve("gpt-*", EVERYTHING).model == "gpt-*"


def test_an_unknown_model_is_a_404_that_names_the_known_ones() -> None:
    with pytest.raises(ApiError) as caught:
        Routes({"gpt-4o": target(), "claude": target(), "local/*": target()}).resolve("gtp-4o", EVERYTHING)
    error = json.loads(caught.value.body())["error"]
    assert caught.value.status == 404
    assert (error["code"], error["param"], error["type"]) == ("model_not_found", "model", "invalid_request_error")
    assert "'gtp-4o'" in error["message"]
    assert "gpt-4o, claude" in error["message"]


@pytest.mark.parametrize("rows", [{}, {"local/*": target()}])
def test_without_names_the_404_says_so(rows: dict[str, Target]) -> None:
    with pytest.raises(ApiError, match="none by name"):
        Routes(rows).resolve("gpt-4o", EVERYTHING)


@pytest.mark.parametrize("name", ["\ud800", "x" * 10_000, "\r\n", "日本"])
def test_a_404_can_be_sent_whatever_was_asked_for(name: str) -> None:
    with pytest.raises(ApiError) as caught:
        Routes({}).resolve(name, EVERYTHING)
    assert json.loads(caught.value.body())["error"]["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        ({}, []),
        ({"a": target(), "b*": target(), "c": target()}, ["a", "c"]),
        ({"*": target()}, []),
        ({"*": target(lane="echo")}, ["echo"]),
        ({"a": target(), "*": target(lane="echo")}, ["a", "echo"]),
        ({"echo": target(), "*": target(lane="echo")}, ["echo"]),
        ({"echo*": target(), "*": target(lane="echo")}, []),
        ({"test-*": target(lane="echo")}, []),
        ({"*": target("llama")}, ["llama"]),
        ({"local/*": target("llama"), "llam*": target()}, []),
    ],
)
def test_lists_what_can_be_asked_for_by_name(rows: dict[str, Target], names: list[str]) -> None:
    assert Routes(rows).names(EVERYTHING) == names


@pytest.mark.parametrize(
    ("granted", "names"),
    [
        (["a"], ["a"]), (["b1"], ["b1"]), (["b1", "a", "other"], ["a", "b1"]), (["b*"], []), (["*"], ["a", "c"]),
        (["*", "b2", "b1", "a"], ["a", "c", "b1", "b2"]), ([], []),
    ],
)  # fmt: skip
def test_of_these_what_is_granted_and_what_is_granted_by_name(granted: list[str], names: list[str]) -> None:
    rows = {"a": target(), "b*": target(), "c": target()}
    assert Routes(rows).names(Rights(models=Names(granted))) == names


@pytest.mark.parametrize(
    ("rows", "bases"),
    [
        ({}, []),
        ({"gpt-4o": target(), "*": target(api_base="http://a/v1")}, ["http://a/v1"]),
        ({"*": target(lane="echo"), "c*": target(lane="translated"), "d*": target("fixed")}, []),
        (
            {"*": target(api_base="http://short/v1"), "gpt-*": target(api_base="http://long/v1")},
            ["http://long/v1", "http://short/v1"],
        ),
    ],
)
def test_the_upstreams_behind_patterns_know_their_models(rows: dict[str, Target], bases: list[str]) -> None:
    assert [row.api_base for row in Routes(rows).listers()] == bases


class Noted:
    """A lane that notes its requests."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []

    async def __call__(self, scope: Scope, _receive: Receive, _send: Send) -> None:
        self.scopes.append(scope)


async def _receive() -> Message:
    return {"type": "http.disconnect"}


async def _send(_message: Message) -> None:
    raise AssertionError("the lane answers, not the one that chooses it")


@pytest.mark.parametrize("lane", ["relay", "translated", "echo"])
async def test_a_request_goes_to_the_lane_of_its_target_and_to_no_other(lane: Lane) -> None:
    lanes: dict[Lane, Noted] = {"relay": Noted(), "translated": Noted(), "echo": Noted()}
    scope: Scope = {"type": "http", EXCHANGE: Exchange(target=target(lane=lane))}
    await Upstream(lanes)(scope, _receive, _send)
    assert {name: len(noted.scopes) for name, noted in lanes.items() if noted.scopes} == {lane: 1}
    assert lanes[lane].scopes[0] is scope


async def test_only_an_ordinary_chat_passes_no_bridge() -> None:
    lane, bridge = Noted(), Noted()
    app = Upstream({"relay": lane}, {"relay": bridge})
    stated = replace(target(), dialects=("messages",))
    chat = Exchange(target=target(), dialect=CHAT)
    others = [Exchange(target=target(), dialect=MESSAGES), Exchange(target=stated, dialect=CHAT)]
    for exchange in (chat, *others):
        await app({"type": "http", EXCHANGE: exchange}, _receive, _send)
    assert [scope[EXCHANGE] for scope in lane.scopes] == [chat]
    assert [scope[EXCHANGE] for scope in bridge.scopes] == others


def test_a_model_that_may_not_be_called_is_one_that_is_not_there() -> None:
    routes = Routes({"gpt-4o": target(), "claude": target(), "local/*": target()})
    some = Rights(models=Names(["claude", "local/a*"]))
    assert routes.resolve("claude", some).model == "claude"
    assert routes.resolve("local/abc", some).model == "local/abc"
    told = []
    for name in ("gpt-4o", "gpt-5x"):
        with pytest.raises(ApiError) as caught:
            routes.resolve(name, some)
        told.append((caught.value.status, caught.value.code, caught.value.message.replace(name, "NAME")))
    assert told[0] == told[1]
    assert told[0][0] == 404
    assert told[0][2].endswith("configured models: claude.")
    with pytest.raises(ApiError):
        routes.resolve("local/b", some)


RELAY, OTHER, ECHO = target("r"), target("o", api_base="http://b/v1"), target("e", "echo", "")


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ({"a": RELAY}, RELAY),
        ({"a": RELAY, "b*": RELAY, "c": ECHO}, RELAY),
        ({"a": RELAY, "*": OTHER}, OTHER),
        ({"a": RELAY, "*": ECHO}, RELAY),
        ({"a": RELAY, "b": OTHER}, None),
        ({"a": RELAY, "b": replace(RELAY, api_key="another")}, None),
        ({"a": ECHO, "b": target("t", "translated")}, ECHO),
        ({}, None),
    ],
)
def test_a_request_without_a_model_goes_to_the_row_for_every_model_or_the_only_upstream(
    rows: dict[str, Target], found: Target | None
) -> None:
    assert Routes(rows).without_model() == (found and replace(found, model="*"))
