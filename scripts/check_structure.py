"""Check rules about the shape of the package, and of the measurements, that no other tool checks.

* No import circle between modules. Imports inside functions count, imports for type checking do not.
* No public class name twice.
* Every package has a docstring that says what it holds and what it may import.
* At most `ROOT_MODULES` modules and `ROOT_FOLDERS` folders in `src/reverie`.
* No file and no function longer than a reader can hold.
* No interface uses what is private of a memory (`memory._store`, `._parts`, ...).
* No more lines of code, files and lines of tests than the limits below allow.

Prints the sizes, then one line for each violation, and ends with 1 if there is any.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
SOURCE = CHECKOUT / "src"
EVALUATION = CHECKOUT / "evaluation"
TESTS = CHECKOUT / "tests"
ROOT_MODULES = 8
ROOT_FOLDERS = 13
FILE_LINES = 700
FUNCTION_LINES = 60

MAX_PACKAGE_LINES = 47_000
MAX_PACKAGE_FILES = 280
MAX_TEST_LINES = 40_000
ROOM_BUDGETS = {
    "root": 2_250,
    "domain": 4_200,
    "search": 4_700,
    "context": 1_300,
    "consolidation": 4_000,
    "repositories": 1_750,
    "llm": 800,
    "stores": 5_400,
    "files": 3_500,
    "admin": 5_400,
    "tools": 1_450,
    "integrations": 2_150,
    "interfaces": 100,
    "interfaces/cli": 2_600 + 400,
    "interfaces/mcp and hooks": 1_360,
    "interfaces/http": 3_900,
    "evals": 300,
}
"""Lines of code for each folder of the package; a folder may exceed its budget by a tenth.
Connecting clients added 400."""

PRIVATE = frozenset(
    {
        *("_store", "_parts", "_searcher", "_index", "_clock", "_scopes", "_refresh_files", "_is_read_only"),
        *("_vectors", "_commit", "_read_state", "_run_with_retries", "_lock", "_redactor"),
    }
)
"""Private members of a memory, a scope and a session."""

# Violations that existed when the check was introduced. The list may shrink and never grow.
KNOWN: frozenset[str] = frozenset(
    f"reverie.{module} has more than 700 lines" for module in ("search.vectors.vector_index",)
)


def main() -> int:
    """Print the violations; return an exit code."""
    sources = sorted([*SOURCE.rglob("*.py"), *EVALUATION.rglob("*.py")])
    files = {module_name(file): file for file in sources}
    trees = {name: ast.parse(file.read_bytes()) for name, file in files.items()}
    violations = [
        *import_circles(trees),
        *repeated_classes(trees),
        *stub_docstrings(trees, files),
        *crowded_root(),
        *private_uses(trees),
        *long_code(trees, files),
        *exceeded_budgets(),
    ]
    new = [line for line in violations if line not in KNOWN]
    gone = KNOWN.difference(violations)
    for line in new:
        sys.stdout.write(f"{line}\n")
    for line in sorted(gone):
        sys.stdout.write(f"remove from KNOWN in {Path(__file__).name}: {line}\n")
    return 1 if new or gone else 0


def module_name(file: Path) -> str:
    """Return the dotted name of a module; a package has the name of its folder."""
    root = SOURCE if file.is_relative_to(SOURCE) else CHECKOUT
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# -- import circles ----------------------------------------------------------------------------------


def import_circles(trees: dict[str, ast.Module]) -> Iterator[str]:
    """Yield each group of modules that import one another."""
    graph = {name: sorted(imports(tree, trees)) for name, tree in trees.items()}
    for group in strongly_connected(graph):
        if len(group) > 1:
            yield f"import circle: {', '.join(sorted(group))}"


def private_uses(trees: dict[str, ast.Module]) -> Iterator[str]:
    """Yield each private member of a memory that an interface, an integration or a tool uses."""
    for name, tree in trees.items():
        if name.startswith(("reverie.interfaces.", "reverie.integrations.", "reverie.tools.")):
            used = {
                node.attr
                for node in ast.walk(tree)
                if isinstance(node, ast.Attribute)
                and node.attr in PRIVATE
                and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
            }
            yield from (f"{name} uses {member} of another object" for member in sorted(used))


def imports(tree: ast.Module, modules: dict[str, ast.Module]) -> set[str]:
    """Return the modules of the package that `tree` imports at run time, at any depth."""
    result: set[str] = set()
    for node in run_time_nodes(tree):
        if isinstance(node, ast.Import):
            result.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                result.add(inner if inner in modules else node.module)
    return result.intersection(modules)


def run_time_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes below `node` except those under `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            for other in child.orelse:
                yield from run_time_nodes(other)
            continue
        yield child
        yield from run_time_nodes(child)


def strongly_connected(graph: dict[str, list[str]]) -> list[list[str]]:
    """Return the strongly connected components of `graph`, by Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in graph[node]:
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            at = stack.index(node)
            groups.append(stack[at:])
            del stack[at:]

    for node in graph:
        if node not in index:
            visit(node)
    return groups


# -- names, docstrings, sizes ------------------------------------------------------------------------


NAMES_OF_OTHERS = frozenset({"Store"})
"""Names that another design gives to its class, which an adapter has for programs that were written for it."""


def repeated_classes(trees: dict[str, ast.Module]) -> Iterator[str]:
    """Yield each name of a public class that two modules define."""
    owners = defaultdict(list)
    for module, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                owners[node.name].append(module)
    for name, modules in owners.items():
        if len(modules) > 1 and name not in NAMES_OF_OTHERS:
            yield f"class {name} is defined in {', '.join(modules)}"


def stub_docstrings(trees: dict[str, ast.Module], files: dict[str, Path]) -> Iterator[str]:
    """Yield each package without a docstring of at least a sentence."""
    for name, tree in trees.items():
        if files[name].name == "__init__.py" and len((ast.get_docstring(tree) or "").split()) < 4:
            yield f"{name} has no docstring that says what it holds and what it may import"


def crowded_root() -> Iterator[str]:
    """Yield what exceeds the number of modules or folders at the root of the package."""
    root = SOURCE / "reverie"
    modules = sorted(file.stem for file in root.glob("*.py") if not file.name.startswith("__"))
    folders = sorted(file.parent.name for file in root.glob("*/__init__.py"))
    if len(modules) > ROOT_MODULES:
        yield f"{len(modules)} modules at the root, at most {ROOT_MODULES} are allowed"
    if len(folders) > ROOT_FOLDERS:
        yield f"{len(folders)} folders at the root, at most {ROOT_FOLDERS} are allowed"


def long_code(trees: dict[str, ast.Module], files: dict[str, Path]) -> Iterator[str]:
    """Yield each file and each function that is too long; docstrings of functions do not count."""
    for name, tree in trees.items():
        if len(files[name].read_bytes().splitlines()) > FILE_LINES:
            yield f"{name} has more than {FILE_LINES} lines"
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                has_docstring = ast.get_docstring(node) is not None and len(node.body) > 1
                first = node.body[1].lineno if has_docstring else node.body[0].lineno
                if (node.end_lineno or first) - first >= FUNCTION_LINES:
                    yield f"{name}.{node.name} has more than {FUNCTION_LINES} lines"


# -- budgets -----------------------------------------------------------------------------------------


def exceeded_budgets() -> Iterator[str]:
    """Print the sizes of the package, its folders and the tests; yield each that exceeds its budget."""
    package = SOURCE / "reverie"
    sources = sorted(package.rglob("*.py"))
    rooms: Counter[str] = Counter()
    for file in sources:
        rooms[room_name(file.relative_to(package))] += count_code_lines(file)
    tests = sum(count_code_lines(file) for file in TESTS.rglob("*.py"))
    total = rooms.total()
    for room, lines in rooms.items():
        sys.stdout.write(f"{room:24} {lines:6} lines of code (budget {ROOM_BUDGETS[room]})\n")
        allowed = ROOM_BUDGETS[room] * 11 // 10
        if lines > allowed:
            yield f"{room} has {lines} lines of code, at most {allowed} are allowed"
    sys.stdout.write(
        f"{'src/reverie':24} {total:6} lines of code (at most {MAX_PACKAGE_LINES}) "
        f"in {len(sources)} files (at most {MAX_PACKAGE_FILES})\n"
        f"{'tests':24} {tests:6} lines of code (at most {MAX_TEST_LINES})\n"
    )
    for name, suffixes in {
        "templates": {".html", ".css", ".js"},
        "SQL": {".sql"},
        "prompts": {".md"},
    }.items():
        lines = sum(
            len(file.read_bytes().splitlines()) for file in package.rglob("*") if file.suffix in suffixes
        )
        sys.stdout.write(f"{name:24} {lines:6} lines\n")
    data = [file for file in package.rglob("*") if file.suffix in {".txt", ".toml", ".bin", ".npz", ".jsonl"}]
    sys.stdout.write(
        f"{'data files':24} {sum(file.stat().st_size for file in data):9} bytes in {len(data)} files\n"
    )
    measures = sum(count_code_lines(file) for file in EVALUATION.rglob("*.py"))
    sys.stdout.write(f"{'evaluation':24} {measures:6} lines of code\n")
    if total > MAX_PACKAGE_LINES:
        yield f"src/reverie has {total} lines of code, at most {MAX_PACKAGE_LINES} are allowed"
    if len(sources) > MAX_PACKAGE_FILES:
        yield f"src/reverie has {len(sources)} files, at most {MAX_PACKAGE_FILES} are allowed"
    if tests > MAX_TEST_LINES:
        yield f"tests have {tests} lines of code, at most {MAX_TEST_LINES} are allowed"


def room_name(file: Path) -> str:
    """Return the folder of the package whose budget a file counts for."""
    parts = file.parts
    if len(parts) == 1:
        return "root"
    if parts[0] != "interfaces" or len(parts) == 2:
        return parts[0]
    return "interfaces/mcp and hooks" if parts[1] in ("mcp", "hooks") else "/".join(parts[:2])


def count_code_lines(file: Path) -> int:
    """Return the number of lines of a file without blank lines, comments and docstrings."""
    text = file.read_text(encoding="utf-8")
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node) is not None:
            docstrings.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    ignored = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in ignored:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - docstrings)


if __name__ == "__main__":
    sys.exit(main())
