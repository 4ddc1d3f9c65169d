"""Small PDFs, written by hand: text and lines at places in points from the lower left corner of a page of 600 x 800."""

from collections.abc import Mapping, Sequence
from typing import Any

Tag = Sequence[Any]  # an element's type, then elements within it, and numbers of what is `marked`
FONTS = {"plain": "Helvetica", "bold": "Helvetica-Bold", "mono": "Courier"}


def said(x: float, y: float, text: str, *, size: float = 10, font: str = "plain", turned: bool = False) -> str:
    shown = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
    matrix = f"0 1 -1 0 {x} {y}" if turned else f"1 0 0 1 {x} {y}"
    return f"BT /{font} {size} Tf {matrix} Tm ({shown}) Tj ET\n"


def marked(id: int, content: str) -> str:
    """Content that tags name by its number, from 0."""
    return f"/Span << /MCID {id} >> BDC\n{content}EMC\n"


def lines(x: float, y: float, *texts: str, size: float = 10, pitch: float = 12, font: str = "plain") -> str:
    return "".join(said(x, y - n * pitch, text, size=size, font=font) for n, text in enumerate(texts))


def grid(xs: Sequence[float], ys: Sequence[float]) -> str:
    """Ruled lines of a table with these edges."""
    across = [f"{xs[0]} {y} m {xs[-1]} {y} l S\n" for y in ys]
    return "".join([*across, *(f"{x} {ys[0]} m {x} {ys[-1]} l S\n" for x in xs)])


def dot(x: float, y: float, size: float = 3) -> str:
    """A filled circle with this middle."""
    r, k = size / 2, 0.2761 * size
    turns = [(r, k, k, r, 0, r), (-k, r, -r, k, -r, 0), (-r, -k, -k, -r, 0, -r), (k, -r, r, -k, r, 0)]
    curves = (" ".join(str(at + by) for at, by in zip((x, y) * 3, turn, strict=True)) + " c" for turn in turns)
    return f"{x + r} {y} m {' '.join(curves)} f\n"


def pdf(
    *pages: str,
    info: Mapping[str, str] | None = None,
    outline: Sequence[tuple[str, int]] = (),
    links: Mapping[tuple[int, int, int, int], str] | None = None,
    tags: Tag | None = None,
    encrypted: bool = False,
) -> bytes:
    """Return a PDF of these pages' content streams.

    outline: titles with pages, from 0. links: places on each page. tags: of the first page.
    """
    objects: list[bytes] = []

    def add(text: str | bytes) -> int:
        objects.append(text.encode("latin-1") if isinstance(text, str) else text)
        return len(objects)

    root, tree = add(""), add("")
    fonts = " ".join(
        f"/{name} {add(f'<< /Type /Font /Subtype /Type1 /BaseFont /{base} /Encoding /WinAnsiEncoding >>')} 0 R"
        for name, base in FONTS.items()
    )
    notes = " ".join(
        f"<< /Type /Annot /Subtype /Link /Rect [{' '.join(map(str, place))}] /A << /S /URI /URI ({address}) >> >>"
        for place, address in (links or {}).items()
    )
    kids = []
    for content in pages:
        stream = content.encode("cp1252")
        stream = b"<< /Length %d >>\nstream\n" % len(stream) + stream + b"endstream"
        place = f"/Parent {tree} 0 R /MediaBox [0 0 600 800] /Resources << /Font << {fonts} >> >>"
        known = "/StructParents 0" if tags else ""
        kids.append(add(f"<< /Type /Page {place} {known} /Annots [{notes}] /Contents {add(stream)} 0 R >>"))
    objects[tree - 1] = (
        f"<< /Type /Pages /Count {len(kids)} /Kids [{' '.join(f'{kid} 0 R' for kid in kids)}] >>".encode()
    )
    outlines = ""
    if outline:
        first = len(objects) + 2
        last = first + len(outline) - 1
        outlines = f"/Outlines {add(f'<< /First {first} 0 R /Last {last} 0 R /Count {len(outline)} >>')} 0 R"
        for n, (title, page) in enumerate(outline):
            after = f"/Next {first + n + 1} 0 R" if first + n < last else ""
            add(f"<< /Title ({title}) /Parent {first - 1} 0 R {after} /Dest [{kids[page]} 0 R /Fit] >>")
    if tags:
        parents = dict[int, int]()

        def element(tag: Tag, parent: int) -> int:
            number = add("")
            for id in tag[1:]:
                if isinstance(id, int):
                    parents[id] = number
            inner = " ".join(str(id) if isinstance(id, int) else f"{element(id, number)} 0 R" for id in tag[1:])
            of = f"/S /{tag[0]} /P {parent} 0 R /Pg {kids[0]} 0 R /K [{inner}]"
            objects[number - 1] = f"<< /Type /StructElem {of} >>".encode()
            return number

        top = add("")
        first = element(tags, top)
        by_id = " ".join(f"{parents[id]} 0 R" for id in sorted(parents))
        named = f"/K {first} 0 R /ParentTree << /Nums [0 [{by_id}]] >>"
        objects[top - 1] = f"<< /Type /StructTreeRoot {named} >>".encode()
        outlines += f" /MarkInfo << /Marked true >> /StructTreeRoot {top} 0 R"
    objects[root - 1] = f"<< /Type /Catalog /Pages {tree} 0 R {outlines} >>".encode()
    more = ""
    if info:
        fields = " ".join(f"/{name} ({value})" for name, value in info.items())
        more += f" /Info {add(f'<< {fields} >>')} 0 R"
    if encrypted:  # with a password that nobody knows
        keys = " ".join(f"/{name} <{'5a' * 32}>" for name in "OU")
        more += f" /ID [<00> <00>] /Encrypt {add(f'<< /Filter /Standard /V 1 /R 2 /P -4 {keys} >>')} 0 R"
    data, places = b"%PDF-1.7\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    count = len(objects) + 1
    end = f"xref\n0 {count}\n0000000000 65535 f \n{table}trailer\n<< /Size {count} /Root {root} 0 R{more} >>\n"
    return data + f"{end}startxref\n{len(data)}\n%%EOF\n".encode()
