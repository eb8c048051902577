"""Check rules about the shape of the package, and of the measurements, that no other tool checks.

* No import circle between modules. Imports inside functions count, imports for type checking do not.
* No public class name twice.
* Every package has a docstring that says what it holds and what it may import.
* At most `ROOT_MODULES` modules and `ROOT_FOLDERS` folders in `src/reverie`.
* No file and no function longer than a reader can hold.

Prints one line for each violation and ends with 1 if there is any.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
SOURCE = CHECKOUT / "src"
EVALUATION = CHECKOUT / "evaluation"
ROOT_MODULES = 8
ROOT_FOLDERS = 13
FILE_LINES = 700
FUNCTION_LINES = 60

# Violations that existed when the check was introduced. The list may shrink and never grow.
KNOWN: frozenset[str] = frozenset()


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
        *long_code(trees, files),
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


def repeated_classes(trees: dict[str, ast.Module]) -> Iterator[str]:
    """Yield each name of a public class that two modules define."""
    owners = defaultdict(list)
    for module, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                owners[node.name].append(module)
    for name, modules in owners.items():
        if len(modules) > 1:
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


if __name__ == "__main__":
    sys.exit(main())
