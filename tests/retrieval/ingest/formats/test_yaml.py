"""YAML as Markdown: its own lines below headings."""

import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from retrieval.errors import Unreadable, UnreadableRights
from retrieval.ingest.load import find, parse
from retrieval.records.documents import Document

SETTINGS = """\
# Of the pier.
name: Pier

# The crane's settings,
# as delivered.
crane:
  load_t: 20  # at most
  boom:
    length_m: 12
    joints:
      - first
      - second
  maker: {name: Kran AS, country: Norway}
port: 8000
"""


def read(text: str, name: str = "a.yaml") -> Document:
    return parse(text.encode(), Path(name), name, 1.0)


def test_mappings_are_sections_with_their_comments() -> None:
    document = read(SETTINGS)
    assert document.title == "Pier"
    assert "```yaml\n# Of the pier.\nname: Pier\n```\n\n## crane\n\n```yaml\n# The crane's settings,\n" in document.text
    assert "load_t: 20  # at most\n```\n\n### boom\n\n```yaml\nboom:\n  length_m: 12\n" in document.text
    assert document.text.endswith("```yaml\nport: 8000\n```\n")


def test_documents_of_one_file_are_named() -> None:
    document = read("kind: Deployment\nmetadata:\n  name: shop\n---\nkind: Service\nmetadata: {name: shop}\n")
    assert "# Deployment shop" in document.text
    assert "# Service shop" in document.text


def test_a_template_is_read_as_it_stands() -> None:
    text = "{{- if .Values.on }}\nname: {{ .Values.name }}\n{{- end }}\n"
    assert text.strip() in read(text).text


def test_openapi_is_still_read_by_operations() -> None:
    api = "openapi: 3.0.0\ninfo: {title: Pets, version: '1'}\npaths: {/pets: {get: {summary: All pets}}}\n"
    assert "## GET /pets: All pets" in read(api).text


@pytest.mark.parametrize("text", ["groups: [hr]\nx: 1\n", "---\na: 1\n---\ngroups: hr\n"])
def test_a_document_that_names_groups_is_closed(text: str) -> None:
    with pytest.raises(UnreadableRights):
        read(text)


def test_groups_of_rules_are_no_rights() -> None:
    assert "groups" in read("groups:\n  - name: alerts\n    rules: []\n").text


@pytest.mark.parametrize("text", ["[" * 50_000, "a: " * 50_000, "- " * 50_000 + "a", "{a: " * 50_000])
def test_deep_nesting_ends_soon(text: str) -> None:
    started = time.process_time()
    with pytest.raises(Unreadable, match="nested too deeply"):
        read(text if text[0] != "a" else "".join(" " * n + "a:\n" for n in range(200)))
    assert time.process_time() - started < 5


def test_aliases_are_not_expanded() -> None:
    laughs = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    assert len(read(laughs).text) < 2 * len(laughs)


def test_lock_files_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "pnpm-lock.yaml").write_text("a: 1\n", "utf-8")
    (tmp_path / "clock.yaml").write_text("a: 1\n", "utf-8")
    found = find([tmp_path], max_bytes=2**20)
    assert [candidate.path.name for candidate in found.candidates] == ["clock.yaml"]


NAMES = st.text("abc", min_size=1, max_size=4)
VALUES = st.recursive(
    st.text("ab:#-\n'\"", max_size=12) | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=4))
def test_every_line_is_kept_in_order(value: object) -> None:
    text = yaml.safe_dump(value, sort_keys=False)
    kept = [line.strip() for line in read(text).text.split("\n")]
    for line in text.split("\n"):
        stripped = line.strip()
        if stripped and not stripped.endswith(":"):
            assert stripped in kept
            del kept[: kept.index(stripped) + 1]
