"""What an operation or function takes, apart from what it does.

References describe an operation in a sentence or two and then list its parameters. Whoever looks for it asks for what
it does, and the names of parameters, much the same for all operations of an interface, make all of them alike: a list
in the chunk of its description hides it. docs/chunking.md has what it is worth.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from retrieval.ingest.chunking.blocks import Block
from retrieval.ingest.chunking.sections import Section, within

# "Parameters:", "Query parameters: page (query): …", "**Args:**", "引数："
_LABEL = re.compile(
    r"^[^\S\n]*+[*_]{0,3}"
    r"((?:(?:path|query|header|body|cookie|form|request|input|keyword|required|optional|other)[^\S\n]++)?"
    r"(?:parameters?|params?|arguments?|args|argumente|paramètres|parámetros|argumentos|parâmetros|parametri"
    r"|argomenti|параметры|аргументы|参数|參數|引数|パラメータ|매개변수))"
    r"[*_]{0,3}[^\S\n]?[:：][*_]{0,3}",
    re.MULTILINE | re.IGNORECASE,
)

_Span = tuple[int, int, str]  # start, end, label


def apart(text: str, sections: Sequence[Section], tiny: Callable[[int, int], bool]) -> list[Section]:
    """`sections` with each list of parameters that is not tiny as a section of its own; they cover the same text.

    A list begins with a line "Parameters: …" and ends with its paragraph, or with the list or table under that line.
    """
    found: list[Section] = []
    for section in sections:
        found += [section] if section.alone else _split(text, section, tiny)
    return found


def _split(text: str, section: Section, tiny: Callable[[int, int], bool]) -> Iterator[Section]:
    """The section, cut before and behind each of its lists of parameters but one that it begins with."""
    start, body = section.start, section.body
    for begin, end, label in _lists(text, section.blocks):
        if tiny(begin, end) or not text[body:begin].strip():
            continue
        yield replace(section, start=start, body=body, end=begin, blocks=within(section.blocks, body, begin))
        blocks = within(section.blocks, begin, end)
        yield Section(begin, begin, end, section.level, (*section.headings, label), blocks, alone=True)
        start = body = end
    if body < section.end:
        yield replace(section, start=start, body=body, blocks=within(section.blocks, body, section.end))


def _lists(text: str, blocks: Sequence[Block]) -> Iterator[_Span]:
    """The lists of parameters among `blocks`; those that follow one another are one."""
    last: _Span | None = None
    for span in _labelled(text, blocks):
        if last and last[1] == span[0]:
            last = (last[0], span[1], last[2])
            continue
        if last:
            yield last
        last = span
    if last:
        yield last


def _labelled(text: str, blocks: Sequence[Block]) -> Iterator[_Span]:
    """From each label to the next one in its paragraph or to the paragraph's end, with a list or table under it."""
    for block, below in zip_longest(blocks, blocks[1:]):
        if block.kind != "text":
            continue
        labels = list(_LABEL.finditer(text, block.start, block.end))
        for label, later in zip_longest(labels, labels[1:]):
            end = later.start() if later else block.end
            announces = not text[label.end() : end].strip()
            listed = below.end if announces and not later and below and below.kind in ("list", "table") else end
            yield label.start(), listed, " ".join(label[1].split())
