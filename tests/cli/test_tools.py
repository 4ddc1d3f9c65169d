"""The tools of the settings, of other packages too, and `ragway tools list`."""

import json
import re
import sys
from pathlib import Path

import pytest

from cli.assembly.tools import chat_tools, package_of
from config.settings import SettingsError, load
from tests.support.action_offers import calling
from tests.support.gateway import ROOT, ragway, refused
from tests.support.installed import package

OWN = """
from proxy.agent.toolbox import Done, Tool, arguments_schema


class Greet(Tool):
    name = "greet"
    description = "Greet somebody"
    schema = arguments_schema("who", who={"type": "string"})

    async def call(self, arguments, calling):
        return Done("Hello " + arguments["who"])


greeting = Greet()
Greet2 = type("Greet2", (Greet,), {"name": "calculator"})
Unnamed = type("Unnamed", (Greet,), {"name": ""})
Spaced = type("Spaced", (Greet,), {"name": "two words"})
Loose = type("Loose", (Greet,), {"schema": {"type": "object"}})


def make():
    return Greet()


def five():
    return 5


def fails():
    raise OSError("no disk")
"""
POINTS = "".join(
    f"{name} = acme_tools:{what}\n"
    for name, what in {
        "kind": "Greet", "object": "greeting", "function": "make", "taken": "Greet2", "unnamed": "Unnamed",
        "spaced": "Spaced", "loose": "Loose", "five": "five", "fails": "fails", "gone": "nothing_there",
    }.items()
)  # fmt: skip


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(package(tmp_path / "site", POINTS, OWN))
    monkeypatch.delitem(sys.modules, "acme_tools", raising=False)
    return tmp_path


def test_the_own_tools_are_made_in_the_order_of_the_setting() -> None:
    names = ["units", "calculator", "dates"]
    assert [one.name for one in chat_tools(dict.fromkeys(names, "auto"))] == names
    assert chat_tools({}) == []
    assert package_of("dates") == ""


@pytest.mark.parametrize("name", ["kind", "object", "function"])
def test_a_tool_of_a_package_is_a_class_an_object_or_a_function(acme: Path, name: str) -> None:
    (tool,) = chat_tools({name: "auto"})
    assert (tool.name, package_of(name)) == ("greet", "acme-tools 1.2")
    assert tool.suits("anything"), "a tool without a rule is offered for every question"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "five",
            "'five' of the package acme-tools 1.2: it makes a int, and not a subclass of proxy.agent.toolbox",
        ),
        ("fails", "'fails' of the package acme-tools 1.2 cannot be loaded: OSError: no disk"),
        ("gone", "'gone' of the package acme-tools 1.2 cannot be loaded: AttributeError"),
        ("taken", "the name 'calculator' is taken by a tool of the gateway"),
        ("unnamed", "the tool has no name"),
        ("spaced", "the name 'two words' must have letters"),
        ("loose", "the schema must be that of an object"),
        ("nobody", "there is no tool 'nobody'; there are: calculator, dates, units, fails, five"),
    ],
)
def test_a_broken_tool_is_named_with_its_package(acme: Path, name: str, says: str) -> None:
    with pytest.raises(SettingsError) as error:
        chat_tools({name: "auto"})
    assert str(error.value).startswith("tools: ")
    assert says in str(error.value)


def test_two_tools_have_two_names(acme: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="two tools have the name 'greet'"):
        chat_tools({"kind": "auto", "object": "auto"})
    monkeypatch.syspath_prepend(package(acme / "other", "kind = other_tools:Greet\n", OWN, "other-tools"))
    with pytest.raises(SettingsError, match=r"'kind' is a tool of acme-tools 1\.2 and other-tools 1\.2"):
        chat_tools({"kind": "auto"})


async def test_the_tool_of_the_documentation_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "use" / "tools.md").read_text("utf-8")
    code, points = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)[0] for kind in ("python", "toml"))
    points = points.partition("\n")[2].replace('"', "")
    monkeypatch.syspath_prepend(package(tmp_path / "site", points, code, "acme-stock"))
    (tool,) = chat_tools({"stock": "auto"})
    assert tool.suits("How many are in stock?")
    assert not tool.suits("Who are you?")
    assert [(await tool.call({"article": one}, calling())).text for one in ("A-1203", "x")] == [
        "7 pieces",
        "There is no such article. Write its number, such as A-1203.",
    ]


SHOP = {
    "openapi": "3.1.0",
    "info": {"title": "Shop", "version": "1"},
    "servers": [{"url": "https://shop.example.com"}],
    "paths": {"/orders": {"get": {"operationId": "listOrders", "summary": "List the orders of the lamp shop"}}},
}
SETTINGS = """
embedder: {model: hash}
models: {gpt-x: {lane: echo}, gpt-none: {lane: echo, tools: none}}
actions: {shop: {}, other: {offer: true}}
tools: {calculator: auto, dates: always}
"""


def listed(folder: Path, *words: str) -> dict[str, tuple[bool | None, str]]:
    done = ragway("tools", "list", *words, "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    return {row["name"]: (row["offered"], row["why"]) for row in json.loads(done.stdout)}


def test_what_a_chat_would_have_is_listed_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "ragway.yaml").write_text(SETTINGS)
    (tmp_path / "shop.json").write_text(json.dumps(SHOP))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "canteen.md").write_text("# Canteen\n\nLunch is at noon, and the canteen serves soup.\n")
    for command in (("actions", "add", "shop", "shop.json"), ("ingest", "docs")):
        done = ragway(*command, folder=tmp_path)
        assert done.returncode == 0, done.stderr

    always, needed = (True, "the settings say always"), (True, "the question seems to need it")
    assert listed(tmp_path) == {
        "docs": (None, "searched for each question"),
        "shop/*": (None, "in chats that name the set, as rage/shop/MODEL"),
        "other/*": (None, "where the search finds an operation"),
        "calculator": (None, "where the question seems to need it"),
        "dates": (True, "in every chat"),
    }
    found = listed(tmp_path, "When does the canteen serve lunch?")
    assert found["docs"] == (True, "docs/canteen.md")
    assert found["calculator"] == (False, "the question does not seem to need it")
    assert found["dates"] == always
    found = listed(tmp_path, "What is 12% of the orders of the lamp shop?", "--model", "rage/shop/gpt-x")
    assert found["shop/listOrders"] == (True, "found for the question")
    assert found["find_actions"] == (True, "with the operations of the chat")
    assert found["calculator"] == needed
    assert listed(tmp_path, "What is 3 * 4?", "--model", "gpt-none")["calculator"] == (False, "model refuses tools")
    assert listed(tmp_path, "What is 3 * 4?", "--model", "raw/gpt-x")["calculator"] == (False, "retrieval is off")

    text = ragway("tools", "list", "What is 3 * 4?", folder=tmp_path).stdout.splitlines()
    assert ["yes", "tool", "calculator", "the question seems to need it"] in [one.split(maxsplit=3) for one in text]
    assert ["no", "operation", "other/*", "no document of the set is read"] in [one.split(maxsplit=3) for one in text]
    assert "there is no key 'nobody'" in refused(ragway("tools", "list", "--key", "nobody", folder=tmp_path))
    unknown = ragway("tools", "list", "What?", "--model", "gpt-unknown", folder=tmp_path)
    assert "gpt-unknown" in refused(unknown)


def test_the_doctor_names_an_unknown_tool(tmp_path: Path) -> None:
    (tmp_path / "ragway.yaml").write_text("embedder: {model: hash}\ntools: [calculater]\n")
    done = ragway("doctor", folder=tmp_path)
    assert (
        "tools: there is no tool 'calculater'; there are: calculator, dates, units: correct the setting" in done.stdout
    )
    assert done.returncode == 1


def test_a_key_has_what_its_rights_allow(tmp_path: Path) -> None:
    (tmp_path / "ragway.yaml").write_text(SETTINGS)
    made = ragway("keys", "create", "app", "--read", "other", "--read", "actions.other", folder=tmp_path)
    key = made.stderr.split()[0]
    found = listed(tmp_path, "--key", key)
    assert found["docs"] == (False, "the key may not read it")
    assert found["shop/*"] == (False, "the key may not read the set")
    assert found["other/*"] == (None, "where the search finds an operation")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[calculator, dates]", {"calculator": "auto", "dates": "auto"}),
        ("{calculator: always}", {"calculator": "always"}),
        ("[]", {}),
        ("", {}),
    ],
)
def test_the_setting_is_a_list_or_a_map(tmp_path: Path, text: str, expected: dict[str, str]) -> None:
    file = tmp_path / "ragway.yaml"
    file.write_text(f"tools: {text}\n")
    settings = load(file=file, environ={})
    assert settings.tools == expected
    assert load(environ={}, flags=settings.as_flags()).tools == expected
    assert load(environ={"RAGWAY_TOOLS": "calculator, dates"}).tools == {"calculator": "auto", "dates": "auto"}


@pytest.mark.parametrize("text", ["5", "[5]", "{calculator: never}", "{5: auto}", "[[calculator]]"])
def test_another_setting_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "ragway.yaml"
    file.write_text(f"tools: {text}\n")
    with pytest.raises(SettingsError, match="tools"):
        load(file=file, environ={})
