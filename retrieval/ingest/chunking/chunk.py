"""A document to chunks that fit its embedder: cut where its structure allows, never silently.

A chunk's budget is what the embedder will be given: title and heading path, then the text (`indexed_text`).
`sections` says what belongs together, `fill` decides what goes into one chunk, `seams` where a block may be cut.
"""

from collections.abc import Iterable

from retrieval.embedding.tokens import EmbedderTokenizer
from retrieval.errors import Unreadable
from retrieval.ingest.chunking.assemble import TINY, Filler, Headings
from retrieval.ingest.chunking.boundaries import Measure, word_end
from retrieval.ingest.chunking.definitions import code_sections
from retrieval.ingest.chunking.parameters import apart
from retrieval.ingest.chunking.questions import pairs
from retrieval.ingest.chunking.recursive import fixed, recursive
from retrieval.ingest.chunking.sections import Section, sections
from retrieval.ingest.chunking.tables import rows
from retrieval.knowledge import Chunking
from retrieval.records.documents import Chunk, Document, indexed_text

_MIN_CHUNK_TOKENS = 16
_MIN_ROOM_TOKENS = 8  # one character may be several tokens: a Hangul syllable is three to BERT

_Draft = tuple[int, int, Headings]  # start, end, headings as shown


def chunk(
    document: Document,
    *,
    tokens: EmbedderTokenizer,
    chunk_tokens: int,
    overlap_tokens: int,
    chunking: Chunking = "auto",
) -> list[Chunk]:
    """The chunks of `document` in order; together they hold all of its text but blanks.

    chunking: `structure` by sections and blocks; `auto` the same, but code by definitions, tables by rows, questions
    with their answers, parameters apart from what they are of; `recursive` and `fixed` by size alone, without headings.
    chunk_tokens: the most tokens of a chunk's indexed text, without special tokens. overlap_tokens: at most this
    much is repeated where a section goes on in the next chunk.
    Raises ValueError for a budget that cannot work, Unreadable where the document's title leaves no room for text.
    """
    if chunk_tokens < _MIN_CHUNK_TOKENS:
        raise ValueError(f"chunk_tokens={chunk_tokens}: expected at least {_MIN_CHUNK_TOKENS}")
    if not 0 <= overlap_tokens < chunk_tokens:
        raise ValueError(f"overlap_tokens={overlap_tokens}: expected 0 to chunk_tokens - 1 ({chunk_tokens - 1})")
    text = document.text
    if not text.strip():
        return []
    places, measure = _Places(document.title, tokens, chunk_tokens), Measure(text, tokens)
    if chunking in ("recursive", "fixed"):
        cut, room = recursive if chunking == "recursive" else fixed, places.room(())
        spans = cut(text, measure, limit_tokens=room, overlap_tokens=min(overlap_tokens, room // 2))
        drafts: list[_Draft] = [(start, end, ()) for start, end in spans]
    else:
        drafts = _structured(document, chunking, measure, places, overlap_tokens)
    final = _within_budget(document, drafts, tokens, chunk_tokens)
    return [Chunk(n, start, end, text[start:end], path) for n, (start, end, path) in enumerate(final)]


def _structured(
    document: Document, chunking: Chunking, measure: Measure, places: "_Places", overlap_tokens: int
) -> list[_Draft]:
    """The drafts of all sections, each filled up as far as its room allows."""
    found = _sections(document, chunking, measure, places.room(()))
    places.count(section.headings for section in found)
    filler = Filler(document.text, measure, places.room, overlap_tokens)
    for section in found:
        filler.add(section, places.shown(section.headings))
    return [(group.start, group.end, group.headings) for group in filler.groups]


def _sections(document: Document, chunking: Chunking, measure: Measure, room: int) -> list[Section]:
    if chunking == "structure":
        return sections(document)
    match document.format:
        case "code":
            small = room * 7 // 8  # the rest is for the headings
            return code_sections(document, lambda start, end: measure.between(start, end) <= small)
        case "csv":
            return rows(document)
        case _:
            found = pairs(document.text, sections(document))
            return apart(document.text, found, lambda start, end: measure.between(start, end) < room // TINY)


class _Places:
    """How a path of headings is shown in a chunk, and how much room it leaves."""

    def __init__(self, title: str, tokens: EmbedderTokenizer, chunk_tokens: int) -> None:
        self._title, self._tokens, self._chunk_tokens = title, tokens, chunk_tokens
        self._sizes: dict[Headings, int] = {}
        if self.room(()) < max(_MIN_ROOM_TOKENS, chunk_tokens // 8):
            raise Unreadable(
                f"its title leaves {max(0, self.room(()))} of a chunk's {chunk_tokens} tokens for text: "
                "shorten the title, or raise chunk_tokens"
            )

    def count(self, paths: Iterable[Headings]) -> None:
        """Counts these all at once, which is quicker than one by one."""
        distinct = list(dict.fromkeys(paths))
        counts = self._tokens.counts([indexed_text(self._title, path, "") for path in distinct])
        self._sizes.update(zip(distinct, counts, strict=True))

    def shown(self, path: Headings) -> Headings:
        """The path, without its outermost headings where they would fill over half of a chunk."""
        while path and self._size(path) > self._chunk_tokens // 2:
            path = path[1:]
        return path

    def room(self, path: Headings) -> int:
        """The tokens left for text in a chunk that shows `path`."""
        return self._chunk_tokens - self._size(path)

    def _size(self, path: Headings) -> int:
        if path not in self._sizes:
            self._sizes[path] = self._tokens.count(indexed_text(self._title, path, ""))
        return self._sizes[path]


def _within_budget(
    document: Document, drafts: list[_Draft], tokens: EmbedderTokenizer, chunk_tokens: int
) -> list[_Draft]:
    """The drafts without blanks around them, each counted as it will be embedded, halved until it fits.

    Parts do not always add up to the whole: a word too long for the vocabulary is one unknown token, a piece of it
    may be many; some tokenizers mark the beginning of a text.
    """
    text = document.text
    final: dict[int, _Draft] = {}
    while drafts:
        drafts = [(*span, path) for start, end, path in drafts if (span := _trimmed(text, start, end))]
        counts = tokens.counts([indexed_text(document.title, path, text[start:end]) for start, end, path in drafts])
        halves: list[_Draft] = []
        for draft, count in zip(drafts, counts, strict=True):
            start, end, path = draft
            if count > chunk_tokens and end - start > 1:
                middle = word_end(text, start, (start + end) // 2)
                halves += [(start, middle, path), (middle, end, path)]
            else:
                # A half may begin where the next chunk's overlap does: the longer one holds them both.
                final[start] = max(draft, final.get(start, draft), key=lambda found: found[1])
        drafts = halves
    return [final[start] for start in sorted(final)]


def _trimmed(text: str, start: int, end: int) -> tuple[int, int] | None:
    """The span without blanks around it, but with the first line's indentation; None where all is blank."""
    piece = text[start:end]
    first = len(piece) - len(piece.lstrip())
    if first == len(piece):
        return None
    line = piece.rfind("\n", 0, first) + 1
    at_line_start = line > 0 or start == 0 or text[start - 1] == "\n"
    return start + (line if at_line_start else first), start + len(piece.rstrip())
