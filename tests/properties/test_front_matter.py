"""Any front matter: attributes that may be, and never a document for everybody where it names groups."""

from pathlib import Path

from hypothesis import assume, given
from hypothesis import strategies as st

from retrieval.errors import Unreadable, UnreadableRights
from retrieval.ingest.formats import front_matter
from retrieval.ingest.load import parse
from retrieval.records.attributes import BUILT_IN, MOST_ATTRIBUTES, NAME, checked_attributes, checked_groups

KEYS = st.sampled_from(
    ["groups", "Groups", "GROUPS", "gROUPS", '"groups"', "'Groups'", "group", "grops", "ｇｒｏｕｐｓ"]
)
LINES = st.one_of(
    st.sampled_from(
        [
            "title: x", "title: x: y", "\ttitle: x", "a: @home", "a: &a [x]", "b: *a", "<<: *a", "a: [", "a: {",
            "a: 'b", 'a: "b', "a: |", "  text", "- x", "# comment", "", "? a", ": b", "a.b = 1", "[table]", "x = '''",
            "%YAML 1.1", "a: !!int x", "a: 1" + ":1" * 400 + ".5", "a: 2024-99-99", "----", "...", "a: >", "a", "}",
        ]
    ),
    st.text(max_size=20),
)  # fmt: skip
MENTIONS = st.builds(
    "{}{}{}{}".format, st.sampled_from(["", " ", "  ", "\t", "- ", "? "]), KEYS,
    st.sampled_from([":", ": ", " : ", " = ", "="]),
    st.sampled_from(["[hr]", "hr", "['hr']", "", "[]", "[hr", "\n  - hr", "\n- hr", "*a", "hr, it", "|\n hr", "null"]),
)  # fmt: skip


@given(
    before=st.lists(LINES, max_size=4), mention=MENTIONS, after=st.lists(LINES, max_size=4),
    opening=st.sampled_from(["---\n", "+++\n", "\n---\n", "--- # x\n", "----\n"]),
    closing=st.sampled_from(["\n---\n", "\n+++\n", "\n...\n", "\n----\n", "\n", "\n --- \n"]),
    name=st.sampled_from(["a.md", "a.md", "a.md", "a.txt"]),
)  # fmt: skip
def test_no_front_matter_that_names_groups_makes_a_document_for_everybody(
    before: list[str], mention: str, after: list[str], opening: str, closing: str, name: str
) -> None:
    assume(not any(line.startswith(("---", "+++", "...")) for line in "\n".join(before).split("\n")))  # it ends there
    text = opening + "\n".join([*before, mention, *after]) + closing + "text"
    try:
        groups = parse(text.encode(), Path("/x") / name, name, 1.0).groups
    except Unreadable:
        return
    assert groups


@given(st.text(max_size=200), st.sampled_from(["---", "+++"]))
def test_any_front_matter_gives_attributes_that_may_be(text: str, mark: str) -> None:
    try:
        front, _ = front_matter.read(f"{mark}\n{text}\n{mark}\n")
    except UnreadableRights:
        return
    assert checked_attributes(front.attributes) == front.attributes
    assert checked_groups(list(front.groups)) == front.groups
    assert len(front.attributes) <= MOST_ATTRIBUTES
    assert all(NAME.fullmatch(name) and name not in BUILT_IN for name in front.attributes)


@given(st.lists(LINES, max_size=8), st.sampled_from(["---", "+++"]))
def test_any_lines_of_front_matter_are_read_or_refused(lines: list[str], mark: str) -> None:
    block = "\n".join(lines)
    try:
        front, _ = front_matter.read(f"{mark}\n{block}\n{mark}\n")
    except UnreadableRights:
        return
    assert checked_attributes(front.attributes) == front.attributes
