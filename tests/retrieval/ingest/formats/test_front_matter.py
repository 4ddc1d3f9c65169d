"""Front matter: what it gives, that it takes no long time, and that rights which cannot be read make no document."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from retrieval.errors import UnreadableRights
from retrieval.ingest.formats import front_matter
from retrieval.ingest.load import parse
from retrieval.records.documents import Document
from tests.support.rows import all_rows


def of(text: str, name: str = "a.md") -> Document:
    return parse(text.encode(), Path("/x") / name, name, 1.0)


def fenced(block: str) -> Document:
    return of(f"---\n{block}\n---\n\ntext")


def test_front_matter_gives_attributes_and_groups() -> None:
    document = fenced(
        "title: Pay\ntags: [pay, 7]\nyear: 2024\nvalid: 2024-05-01\ndraft: no\nhas blank: x\nnested: {a: 1}\n"
        "empty:\ngroups: [legal, hr]"
    )
    assert document.title == "Pay"
    assert document.attributes == {"tags": ["pay", "7"], "year": 2024, "valid": "2024-05-01", "draft": "no"}
    assert document.groups == ("hr", "legal")
    assert document.text == "text"


def test_toml_front_matter_gives_them_too() -> None:
    document = of('+++\ntitle = "Pay"\ntags = ["pay"]\nday = 2024-05-01\nGroups = "hr"\n+++\ntext')
    assert (document.title, document.attributes) == ("Pay", {"tags": ["pay"], "day": "2024-05-01"})
    assert document.groups == ("hr",)


def test_front_matter_that_no_parser_takes_gives_a_title_alone() -> None:
    document = fenced("title: Pay: scales\ntags: [a")
    assert (document.title, document.attributes, document.groups, document.text) == ("Pay: scales", {}, (), "text")


@pytest.mark.parametrize(
    "block",
    [
        "a: !!python/object/apply:os.getcwd []\nb: 1",
        "a: &a [x]\nb: 1",
        "a: &a {x: 1}\nb: {<<: *a}",
        "c: 1\n<<: {a: 1}",
        "a: 1\na: 2",
        "a: " + "[" * 30 + "]" * 30,
        "a: " + "x" * 60_000,
    ],
)
def test_yaml_with_objects_aliases_merges_repeated_names_or_without_end_gives_no_attributes(block: str) -> None:
    document = fenced(block)
    assert (document.attributes, document.text) == ({}, "text")


def test_hostile_front_matter_is_given_up_early(monkeypatch: pytest.MonkeyPatch) -> None:
    read = [0]

    def counted(before: Callable[..., Any]) -> Callable[..., Any]:
        def count(*args: Any, **named: Any) -> Any:
            for event in before(*args, **named):
                read[0] += 1
                yield event

        return count

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("it was read to the end")

    monkeypatch.setattr(yaml, "parse", counted(yaml.parse))
    monkeypatch.setattr(yaml, "load", never)
    monkeypatch.setattr(tomllib, "loads", never)
    for block in ("x: " + "[" * 40_000, "x: " + "{a: " * 10_000, "- " * 20_000, "&a " * 9):
        assert front_matter.read(f"---\na: &b 1\n{block}\n---\n")[0].attributes == {}
    assert front_matter.read("+++\n" + ".".join("a" * 20_000) + " = 1\n+++\n")[0].attributes == {}
    assert read[0] < 200


@all_rows(
    "block",
    [
        "groups: hr", "Groups: [hr]", "GROUPS: [hr]", '"groups": [hr]', "{groups: [hr]}", "ｇｒｏｕｐｓ: [hr]",
        "groups:\n- hr", "title: Working group\ngroups: [hr]", "group: x\ngroups: [hr]", "'Groups ' : [hr]",
        '"gr\\u006fups": [hr]', '"\\x67roups": [hr]', "? groups\n: [hr]", "groups\u00a0: [hr]",
    ],
)  # fmt: skip
def test_groups_are_read_in_whatever_case_and_quotes(block: str) -> None:
    assert fenced(block).groups == ("hr",)
    assert of(f"\n\n---\n{block}\n...\ntext").groups == ("hr",)


@all_rows(
    ("block", "why"),
    [
        ("title: Salaries: 2026\ngroups: [hr]", "line 2: mapping values"),
        ("groups: [hr]\ntitle: Salaries: 2026", "line 3: mapping values"),
        ("a: 1\n\tgroups: [hr]", "line 3: found a tab"),
        ("author: @home\ngroups: [hr]", "line 2"),
        ("title: a\ntitle: b\ngroups: [hr]", "occurs twice"),
        ("groups: [hr]\ngroups: [it]", "occurs twice"),
        ("groups: [hr]\nGroups: [it]", "'groups' and 'Groups'"),
        ("a: &a [hr]\ngroups: *a", "aliases"),
        ("x: {a: &a hr}\ngroups: [hr]", "aliases"),
        ("<<: {groups: [hr]}", "merge keys"),
        ("groups: !!set {hr}", "tags"),
        ("groups: [hr\n", "did not find"),
        ("groups:[hr]", "not a list of names"),
        ("groups [hr]\ntitle: x", "mapping values"),
        ("groups：[hr]\ntitle: x", "line"),
        ("- groups: [hr]", "not a list of names"),
        ("title: x\naccess:\n  groups: [hr]", "'groups' is not a valid way"),
        ("title: x\naccess: {groups: [hr]}", "'groups' is not a valid way"),
        ("group: hr", "'group' is not a valid way"),
        ("grups: [hr]", "'grups' is not a valid way"),
        ("Gropus: [hr]", "'Gropus' is not a valid way"),
        ('title: "a\ngroups: [hr]\nb"', "'groups' is not a valid way"),
        ("groups: [hr]\nx: " + "x" * 50_000, "50,000"),
        ("groups: [hr]\nx: " + "[" * 40_000, "too deeply"),
        ("groups:", "list of at most 32"),
        ("groups: []", "list of groups is empty"),
        ("groups: ''", "list of groups is empty"),
        ("groups: [a b]", "not a valid group name"),
        ("groups: hr, legal", "not a valid group name"),
        ("groups: {a: 1}", "list of at most 32"),
        ("groups: 7", "list of at most 32"),
        ("groups: ['*']", "not a valid group name"),
        ("groups: [[a]]", "not a valid group name"),
        ('title: a: b\n"gr\\u006fups": [hr]', "mapping values"),
        ('title: x\n"gr\\u006fups": {a: b}', "list of at most 32"),
        ('"gr\\\n  oups": [hr]', "line 3"),
        ("title: a: b\n? groups\n: [hr]", "mapping values"),
        ("0\\\ngroups:[hr]", "not a list of names"),
    ],
)
def test_rights_that_cannot_be_read_make_no_document(block: str, why: str) -> None:
    with pytest.raises(UnreadableRights, match="front matter names groups") as raised:
        fenced(block)
    assert why in str(raised.value)


@pytest.mark.parametrize(
    "block",
    [
        "a.b = 1\na.b = 2\ngroups = ['hr']",
        "[x]\ngroups = ['hr']",
        "groups: [hr]",
        "group = 'hr'",
        "[groups]\nhr = true",
        "[[groups]]\na = 'hr'",
        "title = a\n[groups]\nhr = true",
        "[[groups]]\na = b",
        "title = a\n\"gr\\u006fups\" = ['hr']",
    ],
)
def test_rights_that_cannot_be_read_in_toml_make_none_either(block: str) -> None:
    with pytest.raises(UnreadableRights, match="front matter names groups"):
        of(f"+++\n{block}\n+++\ntext")


@pytest.mark.parametrize(
    "text",
    [
        "---\ntitle: x\ngroups: [hr]\n\ntext", "---\ngroups: [hr]\n----\ntext", "---\ngroups: [hr]\n+++\ntext",
        "----\ngroups: [hr]\n----\ntext", "---\n  Groups : hr\n -- \ntext", "+++\ngroups = ['hr']\n---\ntext",
        "---\n\n\ntitle: x\n\ngroups: [hr]\n--- end\ntext",
    ],
)  # fmt: skip
def test_front_matter_with_rights_that_does_not_end_makes_none_either(text: str) -> None:
    with pytest.raises(UnreadableRights, match="line '---'"):
        of(text)


@all_rows(
    "text",
    [
        "---yaml\ngroups: [hr]\n---\ntext",
        "--- toml\ngroups = ['hr']\n---\n",
        '---json\n{"groups": ["hr"]}\n---\ntext',
        ';;;\n{"groups": ["hr"]}\n;;;\ntext',
        '{\n  "title": "x",\n\n  "groups": ["hr"]\n}\n\ntext',
        "---\u00a0\ngroups: [hr]\n---\ntext",
        "\u2060---\ngroups: [hr]\n---\ntext",
        "\u2014\ngroups: [hr]\n\u2014\ntext",
        "===\ngroups: [hr]\n===\ntext",
        "> ---\n> groups: [hr]\n> ---\n",
        "- - -\ngroups: [hr]\n",
        ":groups: hr\n\ntext",
        "groups: hr\n\ntext",
        "title: x\ngroups: [hr]\n---\ntext",
        "\ntitle = x\nGroup: [hr]\n",
        '{"groups": ["hr"]}\n\ntext',
        '{"title": "x", "groups": ["hr"]}\n\ntext',
        "# comment\n---\ngroups: [hr]\n---\ntext",
        "%YAML 1.2\n---\ngroups: [hr]\n---\ntext",
        "<!-- of 2024 -->\n\n---\ntitle: x\ngroups: [hr]\n---\ntext",
        "--- {groups: [hr]}\n---\ntext",
        "--- !!map\ngroups: [hr]\n---\ntext",
        "```yaml\ngroups: [hr]\n```\ntext",
        "~~~\n---\ngroups: [hr]\n---\n~~~\ntext",
        "<!--\ngroups: [hr]\n-->\ntext",
        "<!-- groups: hr -->\ntext",
        "= Title\n:groups: hr\n\ntext",
        "#+TITLE: x\n#+GROUPS: hr\ntext",
        "% groups = hr\ntext",
        "// groups: hr\ntext",
        "text\n\n---\ngroups: [hr]\n---\ntext",
        "# Title\ngroups: a",
        "We know: these\n\ngroups: a, b",
        "**Groups:** hr\n\ntext",
        "| groups: hr |\n\ntext",
        "| groups = hr |\n\ntext",
        "- groups: [hr]\n\ntext",
        "{title: x, groups: [hr]}\n\ntext",
        "user_groups: [hr]\n\ntext",
        "  readGroups = hr\n\ntext",
        "\n" * 40 + "access-groups: hr",
        "groups.read: hr\n",
        "<!-- title: X; groups: hr -->\n\ntext",
        "export const frontmatter = { groups: ['hr'] }\n\ntext",
        "export const groups = ['hr']\n\ntext",
        '<doc groups="hr">\n\ntext',
        '<script type="application/json">{"groups": ["hr"]}</script>\n\ntext',
        "gro\u034fups: [hr]\n\ntext",
        "gro\U000e0061ups: [hr]\n\ntext",
        "groups\ufe55 [hr]\n\ntext",
        "groups\u2236 [hr]\n\ntext",
        "# T\n\n```python\nx = 1\n```\n\ngroups: hr\n",
        "# T\n\n```markdown\ngroups: hr\n```\n",
    ],
)
@all_rows("name", ["a.md", "a.txt", "a.rst", "a.html"])
def test_what_may_be_meant_as_front_matter_with_rights_makes_no_document(text: str, name: str) -> None:
    with pytest.raises(UnreadableRights, match="line '---'"):
        of(text, name)
    assert parse(text.encode(), Path("/x") / name, name, 1.0, groups=("it",)).groups == ("it",)


@pytest.mark.parametrize(
    "text",
    [
        "---\ntitle: x\n---\n---\ngroups: [hr]\n---\ntext",
        "---\ntitle: x\n---\n\n+++\nyear = 1\ngroups = ['hr']\n+++\ntext",
        "---\ntitle: x\n---\ngroups: [hr]\n---\ntext",
        "---\n---\ngroups: [hr]\n---\ntext",
        "---\ntitle: x\n...\ngroups: [hr]\n---\ntext",
    ],
)
def test_a_second_front_matter_with_rights_makes_no_document(text: str) -> None:
    with pytest.raises(UnreadableRights, match="'---' alone"):
        of(text)


@pytest.mark.parametrize(
    "name", ["user_groups", "usergroups", "access-groups", "readGroups", "groups_allowed", "x.groups", "acl_groups_x"]
)
def test_other_names_for_groups_make_no_document(name: str) -> None:
    with pytest.raises(UnreadableRights, match="not a valid way"):
        fenced(f"title: x\n{name}: [hr]")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029"])
def test_groups_are_read_whatever_ends_the_lines(end: str) -> None:
    assert of(end.join(["---", "groups: [hr]", "---", "text"])).groups == ("hr",)


def test_values_are_read_as_yaml_1_2() -> None:
    block = (
        "country: NO\nzip: 01234\nopens: 9:00\nport: 22:22\nanswer: off\nnum: 1_000\nhex: 0x1F\noctal: 010\n"
        "all: [NO, 01234, y, true, ~]\nyes: true\ncount: -12\nshare: 1.5\nempty: ~\nday: 2024-05-01\nexp: 1e3"
    )
    assert fenced(block).attributes == {
        "country": "NO", "zip": "01234", "opens": "9:00", "port": "22:22", "answer": "off", "num": "1_000",
        "hex": "0x1F", "octal": "010", "all": ["NO", "01234", "y", "true"], "yes": True, "count": -12, "share": 1.5,
        "day": "2024-05-01", "exp": "1e3",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["gr\u043eups", "gr\u043eu\u0440\u0455", "\u0261r\u03bfups", "gr\u00f6ups"])
def test_groups_are_known_by_how_they_look(name: str) -> None:
    assert fenced(f"{name}: [hr]").groups == ("hr",)
    with pytest.raises(UnreadableRights, match="front matter names groups"):
        fenced(f"{name}: [hr]\ntitle: a: b")


def test_questions_in_json_that_name_groups_make_no_document() -> None:
    pair = '{"question": "What is the pay?", "answer": "999", "%s": %s}'
    for name, groups in (("groups", '["hr"]'), ("Groups", '"hr"')):
        for text in (
            pair % (name, "[7]"),
            pair % (name, groups),
            "[" + pair % (name, groups) + "]",
            '{"groups": ["hr"], "all": [' + pair % ("id", 1) + "]}",
        ):
            for file in ("a.json", "a.jsonl"):
                with pytest.raises(UnreadableRights, match="names groups"):
                    of(text, file)
    assert of('{"groups": [' + pair % ("id", 1) + "]}", "a.json").groups == ()


@pytest.mark.parametrize("name", ["a.txt", "a.rst", "a.html", "a.csv", "a.py"])
def test_front_matter_with_rights_of_another_format_makes_none_either(name: str) -> None:
    with pytest.raises(UnreadableRights, match=r"\*\.md"):
        of("---\ngroups: [hr]\n---\ntext,text", name)


@all_rows(
    "text",
    [
        "---\ntitle: Working groups\n---\ntext", "---\n# groups: [hr]\ntitle: x\n---\ntext",
        "---\nsubgroups: [a]\n---\ntext", "---\nGroups are nice.\n---\ntext", "---\n\nWe have\nGroups\n\ntext",
        "---\ntitle: Groups of people: x\n---\ntext",
        "-----\nAbout\n-----\ntext", "* * *\ntext about groups", "{groups}\n\ntext", "<!-- x -->\ntext",
        "---\ntitle: x\n---\nGroups: we have two.\n\n---\ntext", "---\ntitle: x\n---\n\n---\n\n# A\ngroups: a\n\n---\n",
        "# Groups: who they are\n\ntext", "We have these groups: a, b", "The user groups: a, b", "newsgroups: comp",
        '    {"ParameterGroups": [], "Groups": []}', "line\n" * 50 + "groups: hr", "A\n: $vpcSecurityGroups: x",
        "Stages:\n  { $group: { } }\n$groups = x", "# RBAC\n\n```yaml\nrules:\n- apiGroups: [a]\n```",
        "# T\n\n```python\ngroups = match.groups()\n```\n", "# T\n\n~~~{.bash}\ngroups=$(id -G)\n~~~\n",
        "| =group= | =Group of people= |\n| =groups= | a |\n",
    ],
)  # fmt: skip
def test_a_word_that_names_no_rights_refuses_nothing(text: str) -> None:
    assert of(text).groups == ()


def test_who_says_who_may_read_it_is_not_refused_for_what_the_document_says() -> None:
    broken = b"---\ntitle: Pay: 2026\ngroups: [hr]\n---\ntext"
    for name in ("a.md", "a.txt"):
        assert parse(broken, Path("/x") / name, name, 1.0, groups=("it",)).groups == ("it",)
