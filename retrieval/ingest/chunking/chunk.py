"""A document to chunks that fit the embedder: cut where its structure allows, never silently.

A chunk's budget covers the embedder's full input: title and heading path, then the text (`indexed_text`). `sections`
finds related text, `assemble` decides which blocks share a chunk, `boundaries` where a block may be cut.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import islice, takewhile
from operator import attrgetter

from retrieval.embedding.tokens import EmbedderTokenizer
from retrieval.errors import Unreadable
from retrieval.ingest.chunking.assemble import ChunkAssembler, Headings
from retrieval.ingest.chunking.boundaries import TokenIndex, word_end
from retrieval.ingest.chunking.definitions import code_sections
from retrieval.ingest.chunking.questions import separate_pairs
from retrieval.ingest.chunking.recursive import fixed, recursive
from retrieval.ingest.chunking.sections import Section, sections
from retrieval.ingest.chunking.table_chunks import table_sections
from retrieval.knowledge import Chunking
from retrieval.records.documents import Chunk, Document, indexed_text

_MIN_CHUNK_TOKENS = 16
_MIN_ROOM_TOKENS = 8  # one character may be several tokens: BERT reads a Hangul syllable as three

_Draft = tuple[int, int, Headings]  # start, end, shown headings


def chunk(
    document: Document,
    *,
    tokens: EmbedderTokenizer,
    chunk_tokens: int,
    overlap_tokens: int,
    chunking: Chunking = "auto",
) -> list[Chunk]:
    """Return the chunks of `document` in order; together they hold all text except blanks.

    chunking: `structure`: by sections and blocks. `auto`: also code by definitions, tables by rows, questions with
        answers. `recursive`, `fixed`: by size alone, no headings.
    chunk_tokens: most tokens of a chunk's indexed text, without special tokens.
    overlap_tokens: how much to repeat at most if a section continues in the next chunk.

    Raises ValueError for an impossible budget, Unreadable if the title leaves no room for text.
    """
    if chunk_tokens < _MIN_CHUNK_TOKENS:
        raise ValueError(f"chunk_tokens={chunk_tokens}: expected at least {_MIN_CHUNK_TOKENS}")
    if not 0 <= overlap_tokens < chunk_tokens:
        raise ValueError(f"overlap_tokens={overlap_tokens}: expected 0 to chunk_tokens - 1 ({chunk_tokens - 1})")
    text = document.text
    if not text.strip():
        return []
    heading_paths, token_index = _HeadingPaths(document.title, tokens, chunk_tokens), TokenIndex(text, tokens)
    if chunking in ("recursive", "fixed"):
        cut, room = recursive if chunking == "recursive" else fixed, heading_paths.room(())
        spans = cut(text, token_index, limit_tokens=room, overlap_tokens=min(overlap_tokens, room // 2))
        drafts: list[_Draft] = [(start, end, ()) for start, end in spans]
        all_sections: list[Section] = []
    else:
        all_sections = _sections(document, chunking, token_index, heading_paths.room(()))
        drafts = _structured(text, all_sections, token_index, heading_paths, overlap_tokens)
    final = _fit_budget(document, drafts, tokens, chunk_tokens)
    places = _places(document, final)
    defined = all_sections if document.format == "code" else []
    return [
        Chunk(n, start, end, text[start:end], path, place=place, names=_names(defined, start, end, path))
        for n, ((start, end, path), place) in enumerate(zip(final, places, strict=True))
    ]


def _places(document: Document, drafts: Sequence[_Draft]) -> list[str]:
    """Return each draft's place: that of its first character after what it repeats of the draft before."""
    if not document.places:
        return [""] * len(drafts)
    text, starts = document.text, [start for start, _ in document.places]
    places, done = [], 0
    for start, end, _ in drafts:
        own = end - len(text[max(start, done) : end].lstrip())
        at = bisect_right(starts, own) - 1
        places.append(document.places[at][1] if at >= 0 else "")
        done = end
    return places


def _names(definitions: Sequence[Section], start: int, end: int, path: Headings) -> str:
    """Return names of the definitions that text[start:end] is part of or holds, without those in its path."""
    first = max(0, bisect_right(definitions, start, key=attrgetter("start")) - 1)
    touched = takewhile(lambda section: section.start < end, islice(definitions, first, None))
    names = dict.fromkeys(name for section in touched for name in section.headings)
    return " ".join(name for name in names if name not in path)


def _structured(
    text: str,
    all_sections: Sequence[Section],
    token_index: TokenIndex,
    heading_paths: "_HeadingPaths",
    overlap_tokens: int,
) -> list[_Draft]:
    """Return drafts of all sections, each as large as its room allows."""
    heading_paths.count(section.headings for section in all_sections)
    assembler = ChunkAssembler(text, token_index, heading_paths.room, overlap_tokens)
    for section in all_sections:
        assembler.add(section, heading_paths.fitting(section.headings))
    return [(group.start, group.end, group.headings) for group in assembler.groups]


def _sections(document: Document, chunking: Chunking, token_index: TokenIndex, room: int) -> list[Section]:
    if chunking == "structure":
        return sections(document)
    match document.format:
        case "code":
            small = room * 7 // 8  # the rest is for headings
            return code_sections(document, lambda start, end: token_index.between(start, end) <= small)
        case "csv":
            return table_sections(document)
        case _:
            return separate_pairs(document.text, sections(document))


class _HeadingPaths:
    """How much of a heading path a chunk shows, and how many tokens are left for text."""

    def __init__(self, title: str, tokens: EmbedderTokenizer, chunk_tokens: int) -> None:
        self._title, self._tokens, self._chunk_tokens = title, tokens, chunk_tokens
        self._sizes: dict[Headings, int] = {}
        if self.room(()) < max(_MIN_ROOM_TOKENS, chunk_tokens // 8):
            raise Unreadable(
                f"the title leaves {max(0, self.room(()))} of a chunk's {chunk_tokens} tokens for text: "
                "shorten the title, or raise chunk_tokens"
            )

    def count(self, paths: Iterable[Headings]) -> None:
        """Count all paths together, which is faster than one by one."""
        distinct = list(dict.fromkeys(paths))
        counts = self._tokens.counts([indexed_text(self._title, path, "") for path in distinct])
        self._sizes.update(zip(distinct, counts, strict=True))

    def fitting(self, path: Headings) -> Headings:
        """Return the path, without its outermost headings if it would fill over half of a chunk."""
        while path and self._size(path) > self._chunk_tokens // 2:
            path = path[1:]
        return path

    def room(self, path: Headings) -> int:
        """Return how many tokens are left for text in a chunk that shows `path`."""
        return self._chunk_tokens - self._size(path)

    def _size(self, path: Headings) -> int:
        if path not in self._sizes:
            self._sizes[path] = self._tokens.count(indexed_text(self._title, path, ""))
        return self._sizes[path]


def _fit_budget(document: Document, drafts: list[_Draft], tokens: EmbedderTokenizer, chunk_tokens: int) -> list[_Draft]:
    """Return drafts without surrounding blanks, halved until the embedder's token count fits the budget.

    Parts do not always add up to the whole: a word too long for the vocabulary is one unknown token, but a part of it
    may be many; some tokenizers mark a text's start.
    """
    text = document.text
    final: dict[int, _Draft] = {}
    while drafts:
        drafts = [(*span, path) for start, end, path in drafts if (span := _trim(text, start, end))]
        counts = tokens.counts([indexed_text(document.title, path, text[start:end]) for start, end, path in drafts])
        halves: list[_Draft] = []
        for draft, count in zip(drafts, counts, strict=True):
            start, end, path = draft
            if count > chunk_tokens and end - start > 1:
                middle = word_end(text, start, (start + end) // 2)
                halves += [(start, middle, path), (middle, end, path)]
            else:
                # A half may begin where the next chunk's overlap starts: keep the longer draft.
                final[start] = max(draft, final.get(start, draft), key=lambda all_sections: all_sections[1])
        drafts = halves
    return [final[start] for start in sorted(final)]


def _trim(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Return a span without surrounding blanks, but with its first line's indentation; None if all is blank."""
    piece = text[start:end]
    first = len(piece) - len(piece.lstrip())
    if first == len(piece):
        return None
    line = piece.rfind("\n", 0, first) + 1
    at_line_start = line > 0 or start == 0 or text[start - 1] == "\n"
    return start + (line if at_line_start else first), start + len(piece.rstrip())
