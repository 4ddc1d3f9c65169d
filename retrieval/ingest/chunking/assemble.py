"""Blocks to groups: what goes into one chunk, and where the next one begins.

Blocks are put together in order while they fit, and one is cut only when it would not fit a chunk of its own.

What joins across a heading: sections of level 3 and deeper while they fit whole, because a reference page's short
entries say more together; sections of level 1 and 2 only where one side is tiny (under 1/8 of the budget), because
there the topic changes. The group then carries the headings that its sections share; the others stand in its text.
A group that begins inside a section never takes up the next one: no heading in its text would say where it began.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile

from retrieval.ingest.chunking.blocks import Block
from retrieval.ingest.chunking.boundaries import Measure, halves, overlap_start, parts
from retrieval.ingest.chunking.sections import Section

TINY = 8  # 1/8 of the room: a piece below this says too little to be found by itself
_SMALL_TAIL = 4  # 1/4 of the room: a section's end below this takes blocks from the chunk before

Headings = tuple[str, ...]


@dataclass(slots=True)
class Group:
    """A chunk to be: consecutive pieces; `start` lies before the first one where there is overlap."""

    start: int
    pieces: list[Block]
    headings: Headings
    continued: bool  # begins inside a section

    @property
    def end(self) -> int:
        return self.pieces[-1].end


class Filler:
    """Puts section after section into `groups`, each as large as its room allows.

    room: the tokens left for text beside these headings.
    """

    def __init__(self, text: str, measure: Measure, room: Callable[[Headings], int], overlap_tokens: int) -> None:
        self.groups: list[Group] = []
        self._text, self._room, self._overlap_tokens = text, room, overlap_tokens
        self._size, self._reach, self._reach_back = measure.between, measure.reach, measure.reach_back
        self._body = 0  # where the text of the section at hand begins
        self._alone = False  # whether that section shares no chunk

    def add(self, section: Section, headings: Headings) -> None:
        """Fills the last group with the section where the two belong together, and begins new ones."""
        self._body = section.body
        joined = self._joined(section, headings)
        self._alone = section.alone
        if joined is None:
            self.groups.append(Group(section.start, [], headings, continued=False))
        else:
            self.groups[-1].headings = joined
        waiting = list(reversed(section.blocks))
        if section.start < section.body:
            oversized = self._size(section.start, section.body) > self._room(headings) // 2
            waiting.append(Block("text" if oversized else "heading", section.start, section.body))
        while waiting:
            self._place(waiting, headings)
        self._even_out()

    def _joined(self, section: Section, headings: Headings) -> Headings | None:
        """The headings of the last group once the section is in it too; None where the two stay apart."""
        if not self.groups or self.groups[-1].continued or self._alone or section.alone:
            return None
        group = self.groups[-1]
        pairs = zip(group.headings, headings, strict=False)
        shared = tuple(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        room = self._room(shared)
        if self._size(group.start, section.start) < room // TINY:
            return shared if self._size(group.start, section.blocks[0].end) <= room else None
        fits = self._size(group.start, section.end) <= room
        tiny = self._size(section.start, section.end) < room // TINY
        return shared if fits and (section.level > 2 or tiny) else None

    def _place(self, waiting: list[Block], headings: Headings) -> None:
        """Moves the next block into the last group, or begins another group for it, or cuts it."""
        block, group = waiting[-1], self.groups[-1]
        room, alone = self._room(group.headings), self._size(block.start, block.end)
        if self._size(group.start, block.end) <= room:
            group.pieces.append(waiting.pop())
            return
        used = self._size(group.start, block.start)
        filled = any(piece.kind != "heading" for piece in group.pieces)
        loose = block.kind == "list" or (block.cut and block.kind in ("code", "table"))  # parts mean something alone
        whole = alone <= self._room(headings) and not (loose and used < room // 2)
        if filled and (whole or used > room * 3 // 4):
            self._begin(block, headings)
        elif not group.pieces and alone <= room:  # it is the overlap that leaves too little room
            group.start = self._overlapped(self.groups[-2], block.start, room - alone)
        elif finer := parts(self._text, block):
            waiting[-1:] = reversed(finer)
        else:
            waiting[-1:] = reversed(halves(self._text, block, self._reach(group.start, room)))

    def _begin(self, block: Block, headings: Headings) -> None:
        """Begins a group for `block` inside its section; headings and "as follows:" before it come along."""
        headings = self._headed(block, headings)
        last, room = self.groups[-1], self._room(headings)
        keep = len(last.pieces)
        while last.pieces[keep - 1].kind == "heading":
            keep -= 1
        if keep == len(last.pieces) and self._comes_along(last.pieces, block, room):
            keep -= 1
        carried = last.pieces[keep:]
        del last.pieces[keep:]
        start = carried[0].start if carried else block.start
        group = Group(start, carried, headings, continued=not (carried and carried[0].kind == "heading"))
        needed = self._size(start, block.end)
        if group.continued and (needed <= room or not carried):
            group.start = self._overlapped(last, start, room - needed if needed <= room else room // 4)
        self.groups.append(group)

    def _headed(self, block: Block, headings: Headings) -> Headings:
        """The headings, and the head of the table where `block` is a row of one whose head stands further up."""
        if block.kind != "table" or not block.cut or not block.heading:
            return headings
        headed = (*headings, block.heading)
        return headed if self._room(headed) > self._room(headings) // 2 else headings

    def _comes_along(self, pieces: list[Block], block: Block, room: int) -> bool:
        """Whether the last of `pieces` announces `block` and can stand before it in another chunk."""
        if len(pieces) < 2 or pieces[-2].kind == "heading" or not self._announces(pieces[-1], block):
            return False
        small = self._size(pieces[-1].start, pieces[-1].end) < room // 4
        return self._size(pieces[-1].start, block.end) <= room or (small and self._size(block.start, block.end) > room)

    def _announces(self, piece: Block, block: Block) -> bool:
        """Whether `piece` is text that ends with a colon before a code block, a table or a list."""
        if piece.kind != "text" or block.kind not in ("code", "table", "list") or block.cut:
            return False
        return self._text[piece.start : piece.end].rstrip().endswith((":", "："))

    def _overlapped(self, before: Group, start: int, room: int) -> int:
        """Where a group that would begin at `start` begins once it repeats the end of the group `before`."""
        wanted = min(self._overlap_tokens, room)
        if wanted <= 0:
            return start
        first = before.pieces[0].start
        earliest = max(self._reach_back(start, wanted), self._body, first + 1)
        begin = overlap_start(self._text, before.pieces, earliest)
        return begin if begin < start and self._text[first:begin].strip() else start

    def _even_out(self) -> None:
        """Gives a section's small last group some pieces of the group before it."""
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
                last.start = self._overlapped(before, piece.start, room - grown)
                return
