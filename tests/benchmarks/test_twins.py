"""What the comparison of libraries counts in a text."""

from benchmarks.documents.twins import facts, sheets, texts

TEXT = "# Pumps\n\nThe `blue` pump.\n\n## Costs\n\n| pump | euro |\n| --- | --- |\n| red | 120 |\n\n# Care\n\n- Oil\n"


def test_words_paths_of_headings_and_cells_are_counted() -> None:
    found = facts(TEXT)
    assert found.paths == {("pumps",): 1, ("pumps", "costs"): 1, ("care",): 1}
    assert found.cells == {"pump": 1, "euro": 1, "red": 1, "120": 1}
    assert found.words["pump"] == 2
    assert (found & facts("# Care\n\npump")).counts == (2, 1, 0)


def test_tables_become_sheets_and_texts_have_some() -> None:
    assert sheets(TEXT).count("<table:table-row>") == 2
    found = texts(4)
    assert next(iter(found)) == "german"
    assert len(found) == 4
    assert any(facts(text).cells for text in found.values())
