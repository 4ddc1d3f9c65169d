"""Code by definitions: what is a chunk of its own, what it is called, and what happens to code that is none."""

import re

from retrieval.ingest.chunking.chunk import chunk
from retrieval.ingest.chunking.definitions import GRAMMARS, code_sections
from retrieval.records.documents import Chunk, Document
from tests.support.minilm import minilm
from tests.support.rows import all_rows

PYTHON = '''import os

LIMIT = 5


# Opens the one connection that all others share.
@cached
def connect(host):
    return os.open(host)


class Pool(Base):
    """Connections, kept."""

    size = 10

    @property
    def free(self):
        return self.size

    async def close(self):
        pass


if LIMIT:

    def late():
        return 1
'''

SAMPLES = {
    "a.py": (PYTHON, ["", "connect", "Pool", "Pool/free", "Pool/close", "", "late"]),
    "a.ts": (
        "import x from 'y';\n\n/** Doubles. */\nexport const double = (a: number) => {\n  return 2 * a;\n};\n\n"
        "export default class Box {\n  /** Opens. */\n  open(): void {\n    x();\n  }\n}\n\n"
        "interface Shape {\n  area: number;\n}\n\nexport type Sides = {\n  count: number;\n};\n\n"
        "enum Color {\n  Red,\n}\n\nnamespace Deep {\n  export function inner() {\n    return 1;\n  }\n}\n",
        ["", "double", "Box", "Box/open", "Shape", "Sides", "Color", "Deep", "Deep/inner"],
    ),
    "a.tsx": (
        "export function Page() {\n  return <p>Hi</p>;\n}\nconst Part = () => {\n  return <b />;\n};\n",
        ["Page", "Part"],
    ),
    "a.js": (
        "const go = function () {\n  return 1;\n};\nfunction* each() {\n  yield 1;\n}\n"
        "module.exports = {\n  run() {\n    return go();\n  },\n};\n",
        ["go", "each", "", "run"],
    ),
    "A.java": (
        "package a;\n\n/** A box. */\n@Marked\npublic class Box {\n  int side;\n\n  /** Opens. */\n  @Override\n"
        "  public void open() {\n    side = 1;\n  }\n\n  Box() {\n    side = 2;\n  }\n\n  enum Kind {\n    A,\n  }\n}\n"
        "\nrecord Pair(int a) {\n}\n",
        ["", "Box", "Box/open", "Box/Box", "Box/Kind", "Pair"],
    ),
    "a.kt": (
        "package a\n\n/** A box. */\ndata class Box(val side: Int) {\n  fun open() {\n    side\n  }\n}\n\n"
        "object One {\n  val x = 1\n}\n\nfun top(): Int {\n  return 1\n}\n",
        ["", "Box", "Box/open", "One", "top"],
    ),
    "a.go": (
        "package a\n\n// Server serves.\ntype Server struct {\n\tport int\n}\n\n// Start starts.\n"
        "func (s *Server) Start(wait int) error {\n\treturn nil\n}\n\nfunc New() *Server {\n\treturn nil\n}\n",
        ["", "Server", "Server.Start", "New"],
    ),
    "a.rs": (
        "use fmt;\n\n/// A point.\n#[derive(Debug)]\npub struct Point {\n    x: i32,\n}\n\nimpl Display for Point {\n"
        "    /// Writes.\n    fn fmt(&self) {\n        write()\n    }\n}\n\nmod deep {\n    fn inner() {\n        1\n"
        "    }\n}\n\nmacro_rules! twice {\n    () => {};\n}\n",
        ["", "Point", "Display for Point", "Display for Point/fmt", "deep", "deep/inner", "twice"],
    ),
    "a.c": (
        "#include <a.h>\n\n/* Doubles. */\nstatic int *twice(int a)\n{\n  return 0;\n}\n\nstruct point {\n  int x;\n};"
        "\n\ntypedef struct {\n  int y;\n} size;\n\nstruct point origin;\n",
        ["", "twice", "point", "size", ""],
    ),
    "a.cpp": (
        "namespace shop {\ntemplate <class T>\nclass Box {\n public:\n  void open() {\n    x = 1;\n  }\n};\n\n"
        "void Box::shut(int x) {\n  x = 2;\n}\n}\n",
        ["shop", "shop/Box", "shop/Box/open", "shop/Box::shut"],
    ),
    "a.cs": (
        "using System;\n\nnamespace Shop {\n  /// <summary>A box.</summary>\n  public class Box {\n    int x;\n"
        "    public void Open() {\n      x = 1;\n    }\n  }\n\n  interface IShape {\n    int Area();\n  }\n}\n",
        ["", "Shop", "Shop/Box", "Shop/Box/Open", "Shop/IShape", "Shop/IShape/Area"],
    ),
    "a.rb": (
        "require 'set'\n\n# Sells.\nmodule Shop\n  class Box < Base\n    # Opens.\n    def open(a)\n      a\n    end\n"
        "\n    def self.make\n      new\n    end\n  end\nend\n",
        ["", "Shop", "Shop/Box", "Shop/Box/open", "Shop/Box/make"],
    ),
    "a.php": (
        "<?php\nnamespace Shop;\n\n/** A box. */\nclass Box {\n  public function open() {\n    return 1;\n  }\n}\n\n"
        "function top() {\n  return 2;\n}\n",
        ["", "Shop", "Box", "Box/open", "top"],
    ),
    "a.sh": (
        "set -e\n\n# Says hello.\nhello() {\n  echo hello\n}\n\nfunction bye {\n  echo bye\n}\n",
        ["", "hello", "bye"],
    ),
}


def names(source: str, text: str, *, fits_chars: int = 0) -> list[str]:
    """The path of every section, after checking that the sections are the text."""
    found = code_sections(Document(source, "", text, "code", 0.0), lambda start, end: end - start <= fits_chars)
    assert "".join(text[section.start : section.end] for section in found) == text
    assert all(section.blocks[0].start == section.start for section in found)
    return ["/".join(section.headings) for section in found]


def split(text: str, source: str = "net/pool.py", size: int = 64) -> list[Chunk]:
    document = Document(source, source, text, "code", 0.0)
    chunks = chunk(document, tokens=minilm(), chunk_tokens=size, overlap_tokens=16)
    covered = {at for piece in chunks for at in range(piece.start, piece.end)}
    assert all(at in covered for at, letter in enumerate(text) if not letter.isspace())
    assert all(piece.text == text[piece.start : piece.end] for piece in chunks)
    return chunks


@all_rows("source", SAMPLES)
def test_every_definition_is_found_with_its_name(source: str) -> None:
    text, expected = SAMPLES[source]
    assert names(source, text) == expected


@all_rows("extension", GRAMMARS)
def test_every_grammar_loads(extension: str) -> None:
    assert names(f"a{extension}", "x\n") == [""]


def test_a_class_that_fits_is_one_section() -> None:
    assert names("a.py", PYTHON, fits_chars=200) == ["", "connect", "Pool", "", "late"]


def test_comments_and_decorators_go_with_what_they_stand_before() -> None:
    (piece,) = [one for one in split(PYTHON, size=48) if "def connect" in one.text]
    assert "# Opens the one connection that all others share.\n@cached\ndef connect" in piece.text


def test_a_comment_behind_a_statement_stays_with_it() -> None:
    text = "x = 1  # the first\ndef f():\n    return x\n"
    (first, _) = code_sections(Document("a.py", "", text, "code", 0.0), lambda start, end: False)
    assert text[first.start : first.end] == "x = 1  # the first\n"


def test_small_functions_share_a_chunk() -> None:
    text = "\n\n".join(f"def small_{n}():\n    return {n}\n" for n in range(3))
    assert len(split(text)) == 1


def test_a_shared_chunk_names_each_definition_and_the_class_that_ends_in_it() -> None:
    (chunk,) = split("class Pool:\n    def close(self):\n        pass\n\n\ndef late():\n    pass\n")
    assert (chunk.headings, chunk.names) == ((), "Pool late")
    body = "\n\n".join(f"    def step_{n}(self):\n        return call(first={n}, second={n})" for n in range(30))
    chunks = split(f"class Pool:\n    size = 1\n\n{body}\n\ndef late():\n    pass\n")
    assert len(chunks) > 3
    for one in chunks:
        inside = {"Pool"} if "step_" in one.text else set()
        assert inside | {*re.findall(r"def (\w+)", one.text)} <= {*one.headings, *one.names.split()}
        assert not {*one.headings} & {*one.names.split()}


def test_text_that_is_not_code_has_no_names() -> None:
    text = "# Pool\n\n## close\n\nIt ends.\n\n## late\n\nIt begins.\n"
    document = Document("a.md", "a.md", text, "markdown", 0.0)
    chunks = chunk(document, tokens=minilm(), chunk_tokens=48, overlap_tokens=0)
    assert {one.names for one in chunks} == {""}


def test_every_part_of_a_large_method_says_where_it_is() -> None:
    body = "\n\n".join(f"        self.step_{n} = call(first={n}, second={n})" for n in range(30))
    chunks = split(f"class Pool:\n    size = 1\n\n    def fill(self):\n{body}\n\n    def close(self):\n        pass\n")
    parts = [one for one in chunks if "self.step_" in one.text]
    assert len(parts) > 3
    assert all(one.headings[:2] == ("Pool", "fill") for one in parts[:-1])
    assert all(one.text.lstrip().startswith("self.step_") for one in parts[1:])


def test_broken_code_becomes_chunks_all_the_same() -> None:
    text = "class Pool(:\n" + PYTHON + "\n)))) def (((\n" * 50
    chunks = split(text)
    assert any("def connect" in one.text for one in chunks)


def test_an_unknown_language_is_cut_at_blank_lines() -> None:
    text = "\n\n".join(f"procedure number_{n} is begin null end" * 3 for n in range(9))
    assert all(one.text.startswith("procedure") for one in split(text, source="a.adb"))


def test_deeply_nested_definitions_are_chunked() -> None:
    text = "".join("  " * n + f"class C{n}:\n" + "  " * n + "  x = 1\n" for n in range(60))
    assert any("class C59" in one.text for one in split(text, size=64))
