"""Parameters of an operation or function, as a section apart from its description.

References describe an operation in a sentence or two and then list its parameters. Readers search for the description.
Parameter names are much the same for all of an interface's operations and make them look alike: a list in the same
chunk hides the description. docs/use/chunking.md has the measured gain.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from retrieval.ingest.chunking.blocks import Block
from retrieval.ingest.chunking.sections import Section, blocks_between

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


def separate_parameters(text: str, sections: Sequence[Section], tiny: Callable[[int, int], bool]) -> list[Section]:
    """Return `sections` with each parameter list, unless tiny, as a section; they cover the same text.

    A list begins with a line "Parameters: …" and ends with its paragraph, or with the list or table below.
    """
    result: list[Section] = []
    for section in sections:
        result += [section] if section.own_chunk else _split(text, section, tiny)
    return result


def _split(text: str, section: Section, tiny: Callable[[int, int], bool]) -> Iterator[Section]:
    """Yield a section, cut before and after each parameter list except one at its very beginning."""
    start, body = section.start, section.body
    for begin, end, label in _joined_lists(text, section.blocks):
        if tiny(begin, end) or not text[body:begin].strip():
            continue
        yield replace(section, start=start, body=body, end=begin, blocks=blocks_between(section.blocks, body, begin))
        blocks = blocks_between(section.blocks, begin, end)
        yield Section(begin, begin, end, section.level, (*section.headings, label), blocks, own_chunk=True)
        start = body = end
    if body < section.end:
        yield replace(section, start=start, body=body, blocks=blocks_between(section.blocks, body, section.end))


def _joined_lists(text: str, blocks: Sequence[Block]) -> Iterator[_Span]:
    """Yield the parameter lists among `blocks`; adjacent ones are joined."""
    last: _Span | None = None
    for span in _labelled_lists(text, blocks):
        if last and last[1] == span[0]:
            last = (last[0], span[1], last[2])
            continue
        if last:
            yield last
        last = span
    if last:
        yield last


def _labelled_lists(text: str, blocks: Sequence[Block]) -> Iterator[_Span]:
    """Yield the text from each label to the next or the paragraph's end, plus a list or table below."""
    for block, next_block in zip_longest(blocks, blocks[1:]):
        if block.kind != "text":
            continue
        labels = list(_LABEL.finditer(text, block.start, block.end))
        for label, later in zip_longest(labels, labels[1:]):
            end = later.start() if later else block.end
            announces = not text[label.end() : end].strip()
            listed = (
                next_block.end
                if announces and not later and next_block and next_block.kind in ("list", "table")
                else end
            )
            yield label.start(), listed, " ".join(label[1].split())
