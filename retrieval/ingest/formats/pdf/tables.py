"""Tables on a page: by ruled lines, else by columns of words below each other.

Where neither is sure, the rows stay lines with their gaps: words of two rows are never mixed.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise

from retrieval.ingest.formats.pdf.layout import GAP, Item, Line, PageTable, line_of, marked_text, pieces_of, rows_of
from retrieval.ingest.formats.pdf.page import Rule, Tags, Word

_SNAP = 3.0  # points: lines nearer than this are one
_VALUE = re.compile(r"[-+]?[\d.,]+ ?%?")
_LEAST_WIDTH = 40.0  # points: of a table between lines
_MOST_HEAD = 60.0  # points: height of its head
_MOST_LINES = 400  # of a grid in one direction
_MOST_COLUMNS = 6  # more places where the text goes up are no order to read in
_MOST_CELL_WORDS = 400  # a tagged cell with more is a layout's


def ruled(words: Sequence[Word], rules: Sequence[Rule]) -> tuple[list[PageTable], list[Word]]:
    """Return the tables within ruled grids, and the words outside them."""
    tables: list[PageTable] = []
    left = list(words)
    for across, down in _grids(rules):
        xs, ys = _snapped([rule.x0 for rule in down]), _snapped([rule.y0 for rule in across])
        if len(xs) < 2 or len(ys) < 2 or len(xs) * len(ys) < 6 or max(len(xs), len(ys)) > _MOST_LINES:
            continue
        inside = [word for word in left if _within(word, xs, ys)]
        table = _grid_table(inside, across, down, xs, ys)
        if table is not None:
            tables.append(table)
            taken = set(map(id, inside))
            left = [word for word in left if id(word) not in taken]
    return tables, left


def _within(word: Word, xs: Sequence[float], ys: Sequence[float]) -> bool:
    return xs[0] <= (word.x0 + word.x1) / 2 <= xs[-1] and ys[0] <= (word.y0 + word.y1) / 2 <= ys[-1]


def _grids(rules: Sequence[Rule]) -> Iterator[tuple[list[Rule], list[Rule]]]:
    """Yield horizontal and vertical lines that touch each other, directly or through others."""
    rules = sorted(set(rules))
    flat = [rule.x1 - rule.x0 >= rule.y1 - rule.y0 for rule in rules]
    parents = list(range(len(rules)))

    def root(n: int) -> int:
        while parents[n] != n:
            parents[n] = parents[parents[n]]
            n = parents[n]
        return n

    if len(rules) > 3000:
        return
    down = [n for n in range(len(rules)) if not flat[n]]
    for n in range(len(rules)):
        if flat[n]:
            for m in down:
                one, other = rules[n], rules[m]
                if one.x0 - _SNAP <= other.x0 <= one.x1 + _SNAP and other.y0 - _SNAP <= one.y0 <= other.y1 + _SNAP:
                    parents[root(n)] = root(m)
    groups: dict[int, tuple[list[Rule], list[Rule]]] = {}
    for n, rule in enumerate(rules):
        groups.setdefault(root(n), ([], []))[0 if flat[n] else 1].append(rule)
    yield from (group for group in groups.values() if all(group))


def tagged_tables(words: Sequence[Word], tags: Tags) -> tuple[dict[int, PageTable], list[Word]]:
    """Return the tables of a tagged page by the numbers of their elements, and the words outside them."""
    found: dict[int, dict[int, dict[int, list[Word]]]] = {}
    left: list[Word] = []
    for word in words:
        path = iter(tags.get(word.tag, ()))
        table, row, cell = (
            next((number for kind, number in path if kind in kinds), 0) for kinds in ({"Table"}, {"TR"}, {"TD", "TH"})
        )
        if cell:
            found.setdefault(table, {}).setdefault(row, {}).setdefault(cell, []).append(word)
        else:
            left.append(word)
    tables: dict[int, PageTable] = {}
    for table, rows in found.items():
        cells = [[row[cell] for cell in sorted(row)] for _, row in sorted(rows.items())]
        if max(map(len, cells)) > 1 and all(len(cell) <= _MOST_CELL_WORDS for row in cells for cell in row):
            tables[table] = _placed(cells)
        else:
            left += [word for row in cells for cell in row for word in cell]
    return tables, left


def columns_by_tags(
    tables: Mapping[int, PageTable], words: Sequence[Word], tags: Tags
) -> list[tuple[list[PageTable], list[Word]]]:
    """Return the tables and words of each column of a tagged page in the order of its elements: where the text goes up,
    a column begins. None if there is one column, or no order to rely on."""
    found: list[tuple[int, PageTable | Word]] = [*tables.items()]
    untagged, after = list[Word](), None
    for word in reversed(words):
        after = word if word.tag in tags else after
        if after is None or abs(after.base - word.base) > after.size:
            untagged.append(word)
        else:  # a drawn bullet is not tagged
            found.append((tags[after.tag][-1][1], word))
    found.reverse()
    columns: list[tuple[list[PageTable], list[Word]]] = []
    last = 0.0
    for _, one in sorted(found, key=lambda one: one[0]):
        if not columns or one.base < last - (one.size if isinstance(one, Word) else _SNAP):
            columns.append(([], []))
        if isinstance(one, Word):
            columns[-1][1].append(one)
        else:
            columns[-1][0].append(one)
        last = one.base if isinstance(one, Word) else one.y1
    return [*columns, ([], untagged[::-1])] if 1 < len(columns) <= _MOST_COLUMNS else []


def _placed(rows: Sequence[Sequence[list[Word]]]) -> PageTable:
    """Return a table whose empty cells have no words: cells get their columns by place."""
    rows = _in_one_column(rows)
    words = [word for row in rows for cell in row for word in cell]
    full = max(map(len, rows))
    columns = [(1e9, -1e9)] * full
    for row in rows:
        if len(row) == full:
            columns = [(min(x0, a), max(x1, b)) for (x0, x1), (a, b) in zip(columns, map(_extent, row), strict=True)]
    table: list[list[str]] = []
    for row in rows:
        texts = [""] * full
        at = 0
        for left, cell in zip(range(len(row), 0, -1), row, strict=True):
            x0, x1 = _extent(cell)
            of = range(at, full - left + 1)
            at = max(of, key=lambda n: (min(x1, columns[n][1]) - max(x0, columns[n][0]), -n)) if len(row) < full else at
            texts[at] = cell_text(cell)
            at += 1
        table.append(texts)
    x0, x1 = _extent(words)
    return PageTable(table, x0, min(w.y0 for w in words), x1, max(w.y1 for w in words), min(w.base for w in words))


def _in_one_column(rows: Sequence[Sequence[list[Word]]]) -> Sequence[Sequence[list[Word]]]:
    """Return the rows of a table that goes on in the page's next column as if they stood below each other."""
    parts: list[list[Sequence[list[Word]]]] = []
    for row in map(_once, rows):
        if not parts or _is_beside(row, parts[-1]):
            parts.append([])
        parts[-1].append(row)
    placed = parts[0]
    for part in parts[1:]:
        across = _extent(chain(*chain(*placed)))[0] - _extent(chain(*chain(*part)))[0]
        down = max(word.y1 for word in chain(*chain(*placed))) - min(word.y0 for word in chain(*chain(*part)))
        placed += [[[_moved(word, across, down) for word in cell] for cell in row] for row in part]
    return placed


def _is_beside(row: Sequence[list[Word]], rows: Sequence[Sequence[list[Word]]]) -> bool:
    """Whether a row stands right of the rows before it, and higher than the last."""
    left, right = _extent(chain(*row))[0], max(_extent(chain(*one))[1] for one in rows)
    return left > right and min(word.y0 for word in chain(*row)) < min(word.y0 for word in chain(*rows[-1]))


def _once(row: Sequence[list[Word]]) -> Sequence[list[Word]]:
    """Return a row of a table's head without what repeats it in the next column."""
    halves = [(cell[: len(cell) // 2], cell[len(cell) // 2 :]) for cell in row]
    if len(row) < 2 or any([word.text for word in one] != [word.text for word in other] for one, other in halves):
        return row
    firsts, others = ([half[n] for half in halves] for n in (0, 1))
    return firsts if _extent(chain(*others))[0] > _extent(chain(*firsts))[1] else row


def _moved(word: Word, across: float, down: float) -> Word:
    x0, y0, x1, y1 = word.x0 + across, word.y0 + down, word.x1 + across, word.y1 + down
    return replace(word, x0=x0, y0=y0, x1=x1, y1=y1, base=word.base + down)


def _extent(words: Iterable[Word]) -> tuple[float, float]:
    words = list(words)
    return min(word.x0 for word in words), max(word.x1 for word in words)


def _snapped(values: Sequence[float]) -> list[float]:
    snapped: list[float] = []
    for value in sorted(values):
        if not snapped or value - snapped[-1] > _SNAP:
            snapped.append(value)
    return snapped


def _grid_table(
    words: Sequence[Word], across: Sequence[Rule], down: Sequence[Rule], xs: Sequence[float], ys: Sequence[float]
) -> PageTable | None:
    """Return the table in a grid; None if it has fewer than two cells with text."""
    columns, rows = len(xs) - 1, len(ys) - 1
    own = {(row, column): (row, column) for row in range(rows) for column in range(columns)}

    def first(cell: tuple[int, int]) -> tuple[int, int]:
        while own[cell] != cell:
            cell = own[cell]
        return cell

    for row in range(rows):
        middle = (ys[row] + ys[row + 1]) / 2
        for column in range(columns - 1):
            if not any(abs(line.x0 - xs[column + 1]) <= _SNAP and line.y0 <= middle <= line.y1 for line in down):
                one, other = sorted((first((row, column)), first((row, column + 1))))
                own[other] = one
    for column in range(columns):
        middle = (xs[column] + xs[column + 1]) / 2
        for row in range(rows - 1):
            if not any(abs(line.y0 - ys[row + 1]) <= _SNAP and line.x0 <= middle <= line.x1 for line in across):
                one, other = sorted((first((row, column)), first((row + 1, column))))
                own[other] = one
    cells: dict[tuple[int, int], list[Word]] = {}
    for word in words:
        row = min(rows, max(1, bisect_right(ys, (word.y0 + word.y1) / 2))) - 1
        column = min(columns, max(1, bisect_right(xs, (word.x0 + word.x1) / 2))) - 1
        cells.setdefault(first((row, column)), []).append(word)
    if len(cells) < 2:
        return None
    texts = {cell: cell_text(of) for cell, of in cells.items()}
    # A cell over several rows stands in each of them: a row alone says what it says.
    table = [
        [texts.get(first((row, column)), "") if first((row, column))[1] == column else "" for column in range(columns)]
        for row in range(rows)
    ]
    return PageTable([row for row in table if any(row)], xs[0], ys[0], xs[-1], ys[-1], ys[0])


def cell_text(words: Sequence[Word]) -> str:
    lines = [line_of([word for piece in row for word in piece.words]) for row in _rows(words)]
    return marked_text(lines)


def _rows(words: Sequence[Word]) -> list[list[Line]]:
    pieces: list[Item] = sorted(pieces_of(words), key=lambda piece: (piece.base, piece.x0))
    return [[piece for piece in row if isinstance(piece, Line)] for row in rows_of(pieces)]


def between_rules(pieces: Sequence[Line], rules: Sequence[Rule]) -> tuple[list[Item], list[Line]]:
    """Return what lies between the lines of tables as in books, and the pieces outside them.

    Such a table has lines of one length above and below its head and at its end, and none between its columns.
    """
    of_length: dict[tuple[int, int], list[Rule]] = {}
    for rule in sorted(set(rules), key=lambda rule: rule.y0):
        if rule.y1 - rule.y0 < 2 and rule.x1 - rule.x0 > _LEAST_WIDTH:
            of_length.setdefault((round(rule.x0 / 2), round(rule.x1 / 2)), []).append(rule)
    found, left = list[Item](), list(pieces)
    for lines in of_length.values():
        at = 0
        while at + 2 < len(lines):
            top, head, end = lines[at : at + 3]
            if head.y0 - top.y0 > _MOST_HEAD:
                at += 1
                continue
            at += 3
            inside = [one for one in left if top.y0 < (one.y0 + one.y1) / 2 < end.y0 and top.x0 - 9 < one.x0 < top.x1]
            taken = set(map(id, inside))
            left = [one for one in left if id(one) not in taken]
            found += aligned(rows_of(sorted(inside, key=lambda one: (one.base, one.x0))), rules)
    return found, left


def aligned(rows: Sequence[Sequence[Item]], rules: Sequence[Rule]) -> Iterator[Item]:
    """Yield a region's lines, with rows that make a table as one `PageTable`."""
    edges = min((row[0].x0 for row in rows), default=0.0), max((row[-1].x1 for row in rows), default=0.0)
    rows = [_justified(_near(row), *edges) for row in rows]
    at = 0
    while at < len(rows):
        row = rows[at]
        if len(row) > 1 and not all(isinstance(item, Line) and item.mono for item in row):  # code keeps its gaps
            until, columns = _reach(rows, at)
            table = _aligned_table(rows[at:until], columns, rules)
            if table is not None:
                yield table
                at = until
                continue
        yield from _line(row)
        at += 1


def _near(row: Sequence[Item]) -> Sequence[Item]:
    """Return a row with pieces joined that no gap parts: a change of font, as before code within a text."""
    joined_up: list[Item] = []
    for item in row:
        last = joined_up[-1] if joined_up else None
        if not isinstance(last, Line) or not isinstance(item, Line):
            joined_up.append(item)
            continue
        before, word = last.words[-1], item.words[0]
        if before.mono != word.mono and word.x0 - before.x1 < GAP * min(before.size, word.size):
            joined_up[-1] = line_of([*last.words, *item.words])
        else:
            joined_up.append(item)
    return joined_up


def _justified(row: Sequence[Item], left: float, right: float) -> Sequence[Item]:
    """Return a row as one piece if only justification parted it: equal gaps, up to the right edge."""
    pieces = [piece for piece in row if isinstance(piece, Line)]
    if len(pieces) < max(2, len(row)) or right - row[-1].x1 > 2:
        return row
    words = [word for piece in pieces for word in piece.words]
    gaps = [after.x0 - before.x1 for before, after in pairwise(words)]
    gaps = [gap for gap in gaps if gap > 0.1 * pieces[0].size]
    if not gaps or max(gaps) > 1.3 * min(gaps) + 1 or (len(gaps) < 2 and row[0].x0 - left > 2):
        return row
    return [line_of(words)]


def _line(row: Sequence[Item]) -> Iterator[Item]:
    pieces = [piece for piece in row if isinstance(piece, Line)]
    yield from (item for item in row if isinstance(item, PageTable))
    if pieces:
        words = [word for piece in pieces for word in piece.words]
        wide = any(after.x0 - before.x1 > 2 * before.size for before, after in pairwise(pieces))
        yield line_of(words, apart=wide)


_Span = tuple[float, float]


def _reach(rows: Sequence[Sequence[Item]], at: int) -> tuple[int, list[_Span]]:
    """Return where rows end that keep the gaps between their columns, and these columns."""
    columns: list[_Span] = []
    until = at
    for n in range(at, len(rows)):
        row = rows[n]
        if any(isinstance(item, PageTable) for item in row):
            break
        sizes = [item.size for one in (row, rows[at]) for item in one if isinstance(item, Line)]
        size = min(sizes)
        if n > at and (row[0].base - rows[n - 1][0].base > 3.2 * size or max(sizes) > 1.25 * size):
            break
        merged = _merged([*columns, *((item.x0, item.x1) for item in row)], 0.25 * size)
        if len(merged) < max(2, len(columns)):
            break
        columns, until = merged, n + 1
    while until > at and len(rows[until - 1]) < 2:  # what follows a table is no cell
        if not _free(rows, until - 1):
            break
        until -= 1
    return until, columns


def _free(rows: Sequence[Sequence[Item]], n: int) -> bool:
    """Whether a row stands apart from the one above."""
    one, above = rows[n][0], rows[n - 1][0]
    return one.base - above.base > 1.6 * (one.y1 - one.y0)


def _merged(spans: Sequence[_Span], near: float) -> list[_Span]:
    merged: list[_Span] = []
    for x0, x1 in sorted(spans):
        if merged and x0 <= merged[-1][1] + near:
            merged[-1] = merged[-1][0], max(merged[-1][1], x1)
        else:
            merged.append((x0, x1))
    return merged


def _aligned_table(rows: Sequence[Sequence[Item]], columns: Sequence[_Span], rules: Sequence[Rule]) -> PageTable | None:
    """Return these rows as a table; None if they are hardly one."""
    full = [row for row in rows if len(row) > 1]
    if len(full) < 2 or len(columns) < 2:
        return None
    pieces = [item for row in rows for item in row if isinstance(item, Line)]
    left, right = columns[0][0], columns[-1][1]
    lines = sorted(
        rule.y0 for rule in rules if rule.y1 - rule.y0 < 1 and rule.x0 < right and rule.x1 > left
        and rows[0][0].y0 - 8 < rule.y0 < rows[-1][0].y1 + 8
    )  # fmt: skip
    if len(full) < 3 and not lines:
        return None
    cells: list[list[list[Word]]] = []
    for n, row in enumerate(rows):
        if not cells or not _continued(rows, n, columns, lines):
            cells.append([[] for _ in columns])
        for item in row:
            if isinstance(item, Line):
                cells[-1][_column(item, columns)] += item.words
    table = [[cell_text(words) if words else "" for words in row] for row in cells]
    if len(table) < 2:
        return None
    y0, y1 = min(piece.y0 for piece in pieces), max(piece.y1 for piece in pieces)
    return PageTable(table, left, y0, right, y1, rows[0][0].base)


def _continued(rows: Sequence[Sequence[Item]], n: int, columns: Sequence[_Span], lines: Sequence[float]) -> bool:
    """Whether row n goes on with cells of the row above: text that did not fit on one line."""
    if _ruled_off(rows, n, lines):
        return False
    # The gap below the head says nothing of the gaps between rows.
    pitches = [
        rows[m][0].base - rows[m - 1][0].base
        for m in range(1 if len(rows) < 4 else 2, len(rows))
        if not _ruled_off(rows, m, lines)
    ]
    steps = [(after / before, before) for before, after in pairwise(sorted(pitches)) if before > 0]
    widening, within = max(steps, default=(0.0, 0.0))
    if widening > 1.2:  # lines of a cell are nearer to each other than rows
        return rows[n][0].base - rows[n - 1][0].base <= within
    row = rows[n]
    if row[0].x0 > columns[0][1]:  # nothing in the first column; if all others have text, its cell stands for more rows
        return len(columns) < 3 or len(row) < len(columns) - 1
    return len(row) < len(columns) and _had_no_room(row, rows[n - 1], columns)


def _had_no_room(row: Sequence[Item], above: Sequence[Item], columns: Sequence[_Span]) -> bool:
    """Whether the first word of each cell had no room at the end of the cell above."""
    over = {_column(item, columns): item for item in above if isinstance(item, Line)}
    gap = min(after[0] - before[1] for before, after in pairwise(columns))
    for item in row:
        at = _column(item, columns)
        before = over.get(at)
        if (
            before is None
            or not isinstance(item, Line)
            or (_VALUE.fullmatch(item.text) and _VALUE.fullmatch(before.text))
        ):
            return False
        end = columns[at + 1][0] - gap if at + 1 < len(columns) else columns[at][1]
        if end - columns[at][0] < 5 * item.size:  # a column of short words
            return False
        first = item.words[0]
        if before.x1 + 0.25 * item.size + first.x1 - first.x0 < end:
            return False
    return True


def _column(item: Item, columns: Sequence[_Span]) -> int:
    return max(0, bisect_right([x0 for x0, _ in columns], (item.x0 + item.x1) / 2) - 1)


def _ruled_off(rows: Sequence[Sequence[Item]], n: int, lines: Sequence[float]) -> bool:
    """Whether a line lies between row n and the one above."""
    first = rows[n][0]
    return any(rows[n - 1][0].base - 1 < y < first.base - 0.3 * (first.y1 - first.y0) for y in lines)
