"""Blocks to chunks: which blocks share a chunk, and where the next one begins.

Blocks are joined in order while they fit. One is cut only if it does not fit a chunk of its own.

Across a heading, sections of level 3 and deeper join while they fit whole, because a reference page's short entries
say more together. Sections of level 1 and 2 join only if one side is tiny (under 1/8 of the budget), because the topic
changes there. A joined chunk carries the headings that all its sections share; other headings stay in the text. A
chunk that begins inside a section never takes the next one: no heading in the text would show where that begins.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile

from retrieval.ingest.chunking.blocks import Block
from retrieval.ingest.chunking.boundaries import TokenIndex, finer_blocks, overlap_start, split_at
from retrieval.ingest.chunking.sections import Section

_TINY = 8  # 1/8 of the budget: a smaller piece says too little to be found by itself
_SMALL_TAIL = 4  # 1/4 of the budget: a section's end, if smaller, takes blocks from the previous chunk

Headings = tuple[str, ...]


@dataclass(slots=True)
class ChunkGroup:
    """A future chunk: consecutive pieces; with overlap, `start` lies before the first."""

    start: int
    pieces: list[Block]
    headings: Headings
    continued: bool  # begins inside a section

    @property
    def end(self) -> int:
        return self.pieces[-1].end


class ChunkAssembler:
    """Adds sections to `groups`, each as large as its room allows.

    room: returns how many tokens are left for text beside these headings.
    """

    def __init__(
        self, text: str, token_index: TokenIndex, room: Callable[[Headings], int], overlap_tokens: int
    ) -> None:
        self.groups: list[ChunkGroup] = []
        self._text, self._room, self._overlap_tokens = text, room, overlap_tokens
        self._size, self._reach, self._reach_back = token_index.between, token_index.reach, token_index.reach_back
        self._body = 0  # where the current section's text begins
        self._separate = False  # whether the current section shares no chunk

    def add(self, section: Section, headings: Headings) -> None:
        """Add a section: extend the last group if they belong together, and begin new groups."""
        self._body = section.body
        shared_headings = self._shared_headings(section, headings)
        self._separate = section.own_chunk
        if shared_headings is None:
            self.groups.append(ChunkGroup(section.start, [], headings, continued=False))
        else:
            self.groups[-1].headings = shared_headings
        pending = list(reversed(section.blocks))
        if section.start < section.body:
            oversized = self._size(section.start, section.body) > self._room(headings) // 2
            pending.append(Block("text" if oversized else "heading", section.start, section.body))
        while pending:
            self._add_block(pending, headings)
        self._even_out()

    def _shared_headings(self, section: Section, headings: Headings) -> Headings | None:
        """Return the last group's headings after joining the section; None if they stay separate."""
        if not self.groups or self.groups[-1].continued or self._separate or section.own_chunk:
            return None
        group = self.groups[-1]
        pairs = zip(group.headings, headings, strict=False)
        shared = tuple(heading for heading, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        room = self._room(shared)
        if self._size(group.start, section.start) < room // _TINY:
            return shared if self._size(group.start, section.blocks[0].end) <= room else None
        fits = self._size(group.start, section.end) <= room
        tiny = self._size(section.start, section.end) < room // _TINY
        return shared if fits and (section.level > 2 or tiny) else None

    def _add_block(self, pending: list[Block], headings: Headings) -> None:
        """Move the next block into the last group, or begin a new group for it, or cut it."""
        block, group = pending[-1], self.groups[-1]
        room, block_tokens = self._room(group.headings), self._size(block.start, block.end)
        if self._size(group.start, block.end) <= room:
            group.pieces.append(pending.pop())
            return
        used = self._size(group.start, block.start)
        filled = any(piece.kind != "heading" for piece in group.pieces)
        # its parts are useful alone
        loose = block.kind == "list" or (block.cut and block.kind in ("code", "table"))
        stays_whole = block_tokens <= self._room(headings) and not (loose and used < room // 2)
        if filled and (stays_whole or used > room * 3 // 4):
            self._begin_group(block, headings)
        elif not group.pieces and block_tokens <= room:  # only overlap leaves too little room
            group.start = self._overlap_start(self.groups[-2], block.start, room - block_tokens)
        elif finer := finer_blocks(self._text, block):
            pending[-1:] = reversed(finer)
        else:
            pending[-1:] = reversed(split_at(self._text, block, self._reach(group.start, room)))

    def _begin_group(self, block: Block, headings: Headings) -> None:
        """Begin a group for `block` within a section; move preceding headings and "as follows:" along."""
        headings = self._with_table_head(block, headings)
        last, room = self.groups[-1], self._room(headings)
        keep = len(last.pieces)
        while last.pieces[keep - 1].kind == "heading":
            keep -= 1
        if keep == len(last.pieces) and self._moves_along(last.pieces, block, room):
            keep -= 1
        carried = last.pieces[keep:]
        del last.pieces[keep:]
        start = carried[0].start if carried else block.start
        group = ChunkGroup(start, carried, headings, continued=not (carried and carried[0].kind == "heading"))
        needed = self._size(start, block.end)
        if group.continued and (needed <= room or not carried):
            group.start = self._overlap_start(last, start, room - needed if needed <= room else room // 4)
        self.groups.append(group)

    def _with_table_head(self, block: Block, headings: Headings) -> Headings:
        """Return the headings, plus the table head if `block` is a row whose head is in an earlier chunk."""
        if block.kind != "table" or not block.cut or not block.heading:
            return headings
        headed = (*headings, block.heading)
        return headed if self._room(headed) > self._room(headings) // 2 else headings

    def _moves_along(self, pieces: list[Block], block: Block, room: int) -> bool:
        """Whether the last of `pieces` announces `block` and can move to the next chunk."""
        if len(pieces) < 2 or pieces[-2].kind == "heading" or not self._announces(pieces[-1], block):
            return False
        small = self._size(pieces[-1].start, pieces[-1].end) < room // 4
        return self._size(pieces[-1].start, block.end) <= room or (small and self._size(block.start, block.end) > room)

    def _announces(self, piece: Block, block: Block) -> bool:
        """Whether `piece` is text that ends with a colon before a code block, a table or a list."""
        if piece.kind != "text" or block.kind not in ("code", "table", "list") or block.cut:
            return False
        return self._text[piece.start : piece.end].rstrip().endswith((":", "："))

    def _overlap_start(self, before: ChunkGroup, start: int, room: int) -> int:
        """Return a group's start after moving `start` back to repeat the end of the group `before`."""
        overlap_tokens = min(self._overlap_tokens, room)
        if overlap_tokens <= 0:
            return start
        first = before.pieces[0].start
        earliest = max(self._reach_back(start, overlap_tokens), self._body, first + 1)
        begin = overlap_start(self._text, before.pieces, earliest)
        return begin if begin < start and self._text[first:begin].strip() else start

    def _even_out(self) -> None:
        """Move some pieces of the previous group into a section's small last group."""
        last = self.groups[-1]
        room = self._room(last.headings)
        if not last.continued or self._size(last.pieces[0].start, last.end) >= room // _SMALL_TAIL:
            return
        before = self.groups[-2]
        for index in range(len(before.pieces) - 1, 0, -1):
            piece, previous = before.pieces[index], before.pieces[index - 1]
            grown = self._size(piece.start, last.end)
            if piece.start <= self._body or grown > room:
                return
            if grown >= room // _SMALL_TAIL and previous.kind != "heading" and not self._announces(previous, piece):
                last.pieces[:0] = before.pieces[index:]
                del before.pieces[index:]
                last.start = self._overlap_start(before, piece.start, room - grown)
                return
