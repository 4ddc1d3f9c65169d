"""The gold of `benchmarks/documents/pages.py` is found again in what our reader says of the same page."""

from benchmarks.documents.pages import Maker, found, gold
from retrieval.ingest.formats.webpage import to_markdown

PAGE = """<html><body><div class="navheader"><a href="/n">Onwards to everything else</a></div><div class="body">
<h1>Trains</h1><p>Take the train.</p><pre>book(seat)
  pay()</pre><table><tr><th>From</th></tr><tr><td>North pier</td></tr></table></div></body></html>"""


def test_text_headings_code_and_cells_are_told_apart_from_the_frame() -> None:
    expected = gold(PAGE, Maker("", "div.body", ".navheader"))
    assert expected is not None
    got = found(to_markdown(PAGE)[1])
    assert expected.frame.total() == 4
    assert expected.frame & got.frame == {}
    for name, things in {"headings": 1, "code": 2, "cells": 1}.items():
        assert getattr(expected, name).total() == things
        assert getattr(expected, name) <= getattr(got, name)
    assert expected.own <= got.own
