"""Documents that say the same have one fingerprint, whatever their format."""

import pytest

from retrieval.lexical.said import fingerprint

GUIDE = """# Guide to the `pier`

See [the prices](prices.html) of well-known boats.

```python
pay(5)
```

| boat | fee |
| --- | --- |
| Ada | 5 days |
| Bob | 7 days |
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[the prices](prices.html)", "the prices"),
        ("well-known", "wellknown"),
        ("```python", "```"),
        ("`pier`", "pier"),
        ("of well-known", "of\nwell-known"),
        ("| --- | --- |", "|---|---|"),
        ("# Guide", "## Guide"),
        ("# Guide", "Home\nSearch\n\n# Guide"),
    ],
)
def test_markup_does_not_count(before: str, after: str) -> None:
    assert fingerprint("", GUIDE.replace(before, after)) == fingerprint("", GUIDE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Ada | 5", "Ada | 7"),
        ("Ada | 5 days |\n| Bob | 7", "Ada | 7 days |\n| Bob | 5"),
        ("pay(5)", "pay(6)"),
        ("pier", "Pier of Oslo"),
        ("See", "Never see"),
        ("(prices.html)", "(prices-2024.html)"),
    ],
)
def test_every_word_and_its_place_count(before: str, after: str) -> None:
    assert fingerprint("", GUIDE.replace(before, after)) != fingerprint("", GUIDE)


def test_a_title_that_the_text_lacks_counts() -> None:
    assert fingerprint("Guide to the pier", GUIDE) == fingerprint("", GUIDE)
    assert fingerprint("Guide of 2024", GUIDE) != fingerprint("Guide of 2025", GUIDE)


def test_line_ends_within_chinese_do_not_count() -> None:
    assert fingerprint("", "住宅用户每月的\n电费") == fingerprint("", "住宅用户每月的电费")


def test_an_empty_text_has_one() -> None:
    assert fingerprint("", "") != fingerprint("", "a")
