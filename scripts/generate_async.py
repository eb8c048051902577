"""Write the types of what `reverie` and `reverie.aio` make when they are imported, for type checkers.

`python scripts/generate_async.py` writes src/reverie/__init__.pyi and src/reverie/aio.pyi; with `--check` it only
returns 1 if one of them is not up to date.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import reverie

AIO: Any = import_module("reverie.aio")  # the types that this script writes have no tables
PACKAGE = Path(__file__).parents[1] / "src" / "reverie"

HEADER = '''"""Types of the asynchronous memory. Written by scripts/generate_async.py; do not edit."""

import builtins
from collections.abc import Awaitable, Generator
from typing import Generic, Protocol, TypeVar, overload
%s

class _Closable(Protocol):
    def close(self) -> Awaitable[None]: ...

_Opened = TypeVar("_Opened", bound=_Closable)

class Opening(Generic[_Opened]):
    def __await__(self) -> Generator[object, None, _Opened]: ...
    async def __aenter__(self) -> _Opened: ...
    async def __aexit__(self, *_: object) -> None: ...

'''
_KNOWN = {"builtins", "Awaitable", "Generator", "Generic", "Protocol", "TypeVar", "overload"}
_NAMES = {cls.__name__: f"Async{cls.__name__}" for cls in AIO.CLASSES}


def find_imports(cls: type) -> dict[str, str]:
    """Return the statement that imports each name that the module of a class imports or defines."""
    module = inspect.getmodule(cls)
    assert module is not None
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom):
            found |= {
                each.asname or each.name: f"from {node.module} import {ast.unparse(each)}"
                for each in node.names
            }
        elif isinstance(node, ast.Import):
            found |= {each.asname or each.name: f"import {ast.unparse(each)}" for each in node.names}
    own = {name for name in vars(module) if not name.startswith("__")}
    return {name: f"from {module.__name__} import {name}" for name in own} | found


def to_async_type(annotation: str) -> str:
    """Return the annotation of a result in its asynchronous form."""
    return _NAMES.get(annotation, annotation)


def write_method(node: ast.FunctionDef) -> Iterator[str]:
    """Yield the lines of one method, property or overload."""
    decorators = {ast.unparse(each) for each in node.decorator_list}
    result = to_async_type(ast.unparse(node.returns) if node.returns else "None")
    is_property = bool(decorators & {"property", "cached_property"})
    arguments = node.args
    if any(
        isinstance(name, ast.Name | ast.Attribute)
        for each in list_defaults(arguments)
        for name in ast.walk(each)
    ):
        arguments.defaults = [ast.Constant(...) for _ in arguments.defaults]
        arguments.kw_defaults = [each and ast.Constant(...) for each in arguments.kw_defaults]
    yield from (f"    @{each}" for each in sorted(decorators & {"overload", "classmethod"}))
    is_plain = node.name in AIO.PLAIN or (is_property and node.name not in AIO.BLOCKING_PROPERTIES)
    if node.name in AIO.OPENING:
        result = f"Opening[{result}]"
        is_plain = True
    if is_property and is_plain:
        yield "    @property"
    note = "  # type: ignore[overload-overlap]" if "Literal['*']" in ast.unparse(arguments) else ""
    yield f"    {'' if is_plain else 'async '}def {node.name}({ast.unparse(arguments)}) -> {result}: ...{note}"


def list_defaults(arguments: ast.arguments) -> list[ast.expr]:
    """Return the default values of arguments."""
    return [each for each in (*arguments.defaults, *arguments.kw_defaults) if each is not None]


def write_class(cls: type, attributes: dict[str, str]) -> str:
    """Return the declaration of the asynchronous class."""
    base = _NAMES.get(cls.__bases__[0].__name__, "")
    body = ast.parse(inspect.cleandoc("\n" + inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    lines = [
        f"class Async{cls.__name__}{f'({base})' if base else ''}:",
        f"    sync: {cls.__name__}",
        f"    def __init__(self, sync: {cls.__name__}) -> None: ...",
    ]
    for name, annotation in attributes.items():
        lines += ["    @property", f"    def {name}(self) -> {to_async_type(annotation)}: ..."]
    methods = [node for node in body.body if isinstance(node, ast.FunctionDef)]
    overloaded = {node.name for node in methods if "overload" in map(ast.unparse, node.decorator_list)}
    for node in methods:
        is_overload = "overload" in map(ast.unparse, node.decorator_list)
        if (
            node.name.startswith("_")
            or node.name in AIO.LEFT_OUT
            or (node.name in overloaded and not is_overload)
        ):
            continue
        lines += write_method(node)
    if "__enter__" in vars(cls):
        lines += [
            f"    async def __aenter__(self) -> Async{cls.__name__}: ...",
            "    async def __aexit__(self, *_: object) -> None: ...",
        ]
    if "__len__" in vars(cls):
        lines += ["    def __len__(self) -> int: ..."]
    return "\n".join(lines)


def generate_names() -> str:
    """Return the source of __init__.pyi."""
    table: dict[str, str] = vars(reverie)["_NAMES"]
    pairs = [(module, name) for module, names in table.items() for name in names.split()]
    imports = [f"from {module} import {name} as {name}" for module, name in pairs]
    note = '"""Public names of the package. Written by scripts/generate_async.py; do not edit."""'
    return "\n".join([note, *sorted(imports), "__version__: str", f"__all__ = {reverie.__all__!r}", ""])


def generate_classes() -> str:
    """Return the source of aio.pyi."""
    body = "\n\n".join(write_class(cls, attributes) for cls, attributes in AIO.CLASSES.items())
    known: dict[str, str] = {}
    for cls in AIO.CLASSES:
        known |= {cls.__name__: f"from {cls.__module__} import {cls.__name__}", **find_imports(cls)}
    known |= {"Path": "from pathlib import Path", "Settings": "from reverie.settings import Settings"}
    used = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)} - _KNOWN
    return HEADER % "\n".join(sorted({known[name] for name in used if name in known})) + body + "\n"


def format_stub(source: str, file: Path) -> str:
    """Return the source of a stub, formatted."""
    for command in (["check", "--fix", "--quiet", "--select", "I,F401,RUF022"], ["format", "--quiet"]):
        source = subprocess.run(
            [str(Path(sys.executable).parent / "ruff"), *command, "--stdin-filename", str(file), "-"],
            input=source,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return source


def main() -> int:
    """Write the stubs; with --check, only return 1 if one of them is not up to date."""
    outdated = 0
    for name, source in (("__init__.pyi", generate_names()), ("aio.pyi", generate_classes())):
        file = PACKAGE / name
        source = format_stub(source, file)
        if file.is_file() and file.read_text(encoding="utf-8") == source:
            continue
        if "--check" in sys.argv[1:]:
            sys.stderr.write(f"{file} is not up to date: run python scripts/generate_async.py\n")
            outdated = 1
        else:
            file.write_text(source, encoding="utf-8")
    return outdated


if __name__ == "__main__":
    sys.exit(main())
