"""Source code to sections: one section per definition, so that each chunk has a name.

Grammars come from the tree-sitter project, each in a wheel with its parser: no download is needed. They only give the
first and last lines of definitions. So broken code (tree-sitter reads as far as possible), code without a grammar, and
text that is not code and would take tree-sitter hours still become chunks, cut at blank lines.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import PurePosixPath
from time import thread_time
from typing import TYPE_CHECKING, NamedTuple

from retrieval.ingest.chunking.blocks import Block, line_starts
from retrieval.ingest.chunking.sections import Section
from retrieval.records.documents import Document

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

# Extension -> grammar module, and its function.
GRAMMARS: dict[str, tuple[str, str]] = {
    extension: (f"tree_sitter_{module}", function)
    for extensions, module, function in (
        (".py .pyi", "python", "language"),
        (".js .jsx .mjs .cjs", "javascript", "language"),
        (".ts .mts .cts", "typescript", "language_typescript"),
        (".tsx", "typescript", "language_tsx"),
        (".java", "java", "language"),
        (".kt .kts", "kotlin", "language"),
        (".go", "go", "language"),
        (".rs", "rust", "language"),
        (".c", "c", "language"),
        (".h .cc .cpp .cxx .hh .hpp", "cpp", "language"),  # C++ reads nearly all of C; C reads no C++ classes
        (".cs", "c_sharp", "language"),
        (".rb", "ruby", "language"),
        (".php", "php", "language_php"),
        (".sh .bash", "bash", "language"),
    )
    for extension in extensions.split()
}

# Node types in these grammars; types of several languages are listed once.
_DEFINITIONS = frozenset(
    "function_definition class_definition"
    " function_declaration generator_function_declaration class_declaration method_definition"
    " abstract_class_declaration interface_declaration type_alias_declaration enum_declaration internal_module"
    " record_declaration annotation_type_declaration method_declaration constructor_declaration"
    " compact_constructor_declaration object_declaration companion_object secondary_constructor type_declaration"
    " function_item struct_item enum_item union_item trait_item impl_item mod_item macro_definition"
    " struct_specifier class_specifier enum_specifier union_specifier type_definition namespace_definition"
    " concept_definition namespace_declaration struct_declaration delegate_declaration"
    " class module method singleton_method trait_declaration".split()
)
# Nodes around a definition that begin where it does: decorators, exports, templates, `const f = () => ...`.
_WRAPPERS = frozenset(
    "decorated_definition export_statement ambient_declaration template_declaration lexical_declaration"
    " variable_declaration declaration_with_attrs".split()
)
_FUNCTION_VALUES = frozenset({"arrow_function", "function_expression", "generator_function", "class"})
_LEADS = frozenset({"comment", "line_comment", "block_comment", "multiline_comment", "attribute_item"})
_NAMES = re.compile(r"(?:\w+_)?identifier|name|constant|word")
_MAX_NESTING = 20  # definitions within definitions; deeper ones stay in the outer definition
_NAME_CHARS = 80
# tree-sitter repairs text that is not code by trial: 20 KB of "|-|-" in a Python file took 160 s. Code takes .3 us per
# byte, and none of 1,111 files in ten languages took over 3.
_MIN_S = 1.0
_S_PER_BYTE = 2e-5
_READ_BYTES = 4096
_CONTENT = re.compile(r"\b(?!end\b)\w")  # a word, except the one that closes a block in Ruby


class _Definition(NamedTuple):
    """A named definition, and its lines [first, last] with preceding comments."""

    name: str
    first: int
    last: int
    node: "Node"


def code_sections(document: Document, fits: Callable[[int, int], bool]) -> list[Section]:
    """Return the sections of a source code file; together they cover the whole text.

    A definition that fits a chunk is one section, including inner definitions. A larger one has a section for what
    precedes the inner definitions (signature, documentation, fields), and one per inner definition.
    """
    text = document.text
    parser = _parser(PurePosixPath(document.source).suffix.lower())
    # A lone CR ends no line, for the parser and here; surrogates cannot be encoded, and carry no structure.
    root = None if parser is None else _parsed(parser, text.encode("utf-8", "replace"))
    if root is None:
        return [Section(0, 0, len(text), 0, (), (Block("code", 0, len(text)),))]
    starts = line_starts(text)
    return list(_Cutter(text, starts, fits).cut(root, 0, len(starts), ()))


def _parsed(parser: "Parser", source: bytes) -> "Node | None":
    """Return the tree of `source`; None if parsing takes far longer than any code of that size."""
    deadline_s = thread_time() + _MIN_S + len(source) * _S_PER_BYTE

    def is_late(_at: int, _broken: bool) -> bool:
        return thread_time() > deadline_s

    try:
        return parser.parse(lambda at, _: source[at : at + _READ_BYTES], progress_callback=is_late).root_node
    except ValueError:  # stopped by `is_late`
        parser.reset()
        return None


@dataclass(frozen=True, slots=True)
class _Cutter:
    text: str
    starts: Sequence[int]
    fits: Callable[[int, int], bool]

    def cut(self, node: "Node", first: int, end: int, path: tuple[str, ...]) -> Iterator[Section]:
        """Yield the sections of lines [first, end), which hold `node`."""
        level = 2 if path else 3  # a large definition begins a new chunk, small ones share one
        at = first
        for definition in _outermost_definitions(node) if len(path) < _MAX_NESTING else ():
            begin, after = max(definition.first, at), definition.last + 1
            if after <= begin or begin >= end:
                continue  # on the line on which the previous definition ended
            if self._has_content(at, begin):
                yield self._section(at, begin, level, path)
                level, at = 3, begin
            name = (*path, definition.name) if definition.name else path
            if self.fits(self.starts[at], self._at(after)):
                after = self._tail(after, end)
                yield self._section(at, after, level, name)
                level = 3
            else:
                after = self._tail(after, end)
                yield from self.cut(definition.node, at, after, name)
                level = 2
            at = after
        if at < end:
            yield self._section(at, end, level, path)

    def _section(self, line: int, end: int, level: int, path: tuple[str, ...]) -> Section:
        start, until = self.starts[line], self._at(end)
        return Section(start, start, until, level, path, (Block("code", start, until),))

    def _tail(self, line: int, end: int) -> int:
        """Return the line after `line` and any following lines without content: blank lines, closing brackets."""
        while line < end and not self._has_content(line, line + 1):
            line += 1
        return line

    def _has_content(self, line: int, end: int) -> bool:
        return line < end and bool(_CONTENT.search(self.text, self.starts[line], self._at(end)))

    def _at(self, line: int) -> int:
        return self.starts[line] if line < len(self.starts) else len(self.text)


def _outermost_definitions(node: "Node") -> Iterator[_Definition]:
    """Yield the outermost definitions within `node`, in order."""
    # node, first line of its wrapper or -1, whether it is the outer node
    pending: list[tuple[Node, int, bool]] = [(node, -1, True)]
    while pending:
        at, line, is_outer = pending.pop()
        if not is_outer and _defines(at):
            yield _Definition(_name(at), at.start_point[0] if line < 0 else line, at.end_point[0], at)
            continue
        children: list[tuple[Node, int, bool]] = []
        lead, before = -1, -1  # first and last line of comments directly before the next child
        ended = -1
        for child in at.children:
            first, last = child.start_point[0], child.end_point[0]
            if child.type in _LEADS:
                if first > ended:  # not after other code on the same line
                    lead = lead if lead >= 0 and first <= before + 1 else first
                    before = last if child.end_point[1] else last - 1  # Rust's line comments include the line's end
                continue
            led = lead if lead >= 0 and first <= before + 1 else -1
            lead, ended = -1, last
            if last == first and not (child.is_named and (_defines(child) or child.type in _WRAPPERS)):
                continue  # single lines are not worth the walk
            outer = line if line >= 0 and at.type in _WRAPPERS else first if child.type in _WRAPPERS else -1
            children.append((child, led if led >= 0 else outer, False))
        pending += reversed(children)


def _defines(node: "Node") -> bool:
    if not node.is_named:
        return False  # the keyword `class` has the same type as classes in Ruby
    if node.type == "variable_declarator":
        value = node.child_by_field_name("value")
        return value is not None and value.type in _FUNCTION_VALUES
    if node.type.endswith("_specifier"):  # `struct point p;` names a type without defining it
        return node.child_by_field_name("body") is not None
    return node.type in _DEFINITIONS


def _name(node: "Node") -> str:
    """Return the common name: `connect`, `Server.Start` for a Go method, `Display for Point` for a Rust impl."""
    if node.type == "impl_item":
        trait, of = node.child_by_field_name("trait"), node.child_by_field_name("type")
        return " for ".join(_text(part) for part in (trait, of) if part is not None)
    named = node.child_by_field_name("name") or node.child_by_field_name("declarator")
    while named is not None and (inner := named.child_by_field_name("declarator")) is not None:
        named = inner
    if named is None:
        specs = [child for child in node.named_children if child.type in ("type_spec", "type_alias")]
        named = next((part for spec in specs if (part := spec.child_by_field_name("name"))), None)
    if named is None:
        named = next((child for child in node.named_children if _NAMES.fullmatch(child.type)), None)
    receiver = node.child_by_field_name("receiver")
    words = re.findall(r"\w+", _text(receiver)) if receiver is not None else []
    name = _text(named) if named is not None else ""
    return f"{words[1] if len(words) > 1 else words[0]}.{name}" if words else name


def _text(node: "Node") -> str:
    return " ".join((node.text or b"")[: 4 * _NAME_CHARS].decode("utf-8", "replace").split())[:_NAME_CHARS]


@cache
def _parser(extension: str) -> "Parser | None":
    """Return a language's parser, or None."""
    if extension not in GRAMMARS:
        return None
    from tree_sitter import Language, Parser

    module, function = GRAMMARS[extension]
    return Parser(Language(getattr(import_module(module), function)()))
