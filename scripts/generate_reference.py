"""Write docs/reference/api.md from the docstrings of the public names of `reverie`, and what the MCP server lists.

Usage: python scripts/generate_reference.py [--check]

With `--check` nothing is written, and the script ends with 1 if a file is outdated.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import sys
from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel

import reverie
from reverie.consolidation.worker import Worker
from reverie.domain import errors
from reverie.files.folder import MemoryFolder
from reverie.interfaces.mcp.handshake import DESCRIPTION
from reverie.interfaces.mcp.server import TEMPLATES
from reverie.repositories.key_value import KeyValueStore
from reverie.repositories.prompts import PromptLog
from reverie.repositories.subjects import SubjectIndex
from reverie.tools import DEFAULT_GROUPS, GROUPS, memory_tools

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "api.md"
WIDTH = 120
FURTHER = (Worker, MemoryFolder, KeyValueStore, PromptLog, SubjectIndex)
"""Classes that a user meets as attributes of public ones."""
INTERNAL = {
    *(f"MemoryFolder.{name}" for name in ("start", "close", "hurry", "notice", "notice_erasure", "restore")),
    *(f"KeyValueStore.{name}" for name in ("touch", "reading")),
    *("Change.invert", "Entry.to_searchable_text", "FieldChange.lines"),
}
"""Methods that the memory and its adapters call, and no user."""
CORE = ("Filter", "Hit", "NewRecord", "Pack", "Plan", "Record", "SaveResult", "Turn")
"""Values whose fields are explained here; `help()` explains those of the others."""
FIRST = ("Memory", "ScopedMemory", "Session", "WorkingMemory", "Pages", "Journal", "Snapshot")
"""Classes in the order in which a reader needs them; others follow."""

MIN_WORDS = 3
"""New words of a description, above which it says more than a name."""

MIN_RESULT_WORDS = 7
"""Words of a description of a result from which it says more than its type."""

INTRODUCTION = """\
# API

<!-- Written by scripts/generate_reference.py from the docstrings. Edit those, then run `make reference`. -->

Everything here is from `reverie`, unless another module is named. Most arguments are keyword-only; `x: T = None`
also takes None. Every class is safe to use from several threads, and several processes may open one memory. Times are
`datetime`s with a time zone. A duration (`Duration`) is text such as `"90s"`, `"10m"`, `"1h30m"` or `"2d"`, a number of
seconds, or a `timedelta`. It is more than 0 and at most 100 years. `expected` is a value as you read it: `Conflict` is
raised if it has changed since.
Exceptions are in [errors.md](errors.md), settings in [settings.md](settings.md), scores in
[scores.md](scores.md).

Arguments and fields have one sentence each here, if a name and a type do not say enough. `help(Memory.save)` prints
the whole docstring, with the errors of a call. Values have `to_dict`.

`reverie.__version__` is the version as text. `reverie.EVERY_SCOPE` (`"*"`), passed as `scope`, means all
scopes. `import reverie` opens nothing, reads no environment and starts no thread.
"""

_PARTICLES = frozenset(
    (
        "the",
        "a",
        "an",
        "its",
        "of",
        "as",
        "see",
        "for",
        "is",
        "to",
        "in",
        "or",
        "and",
        "none",
        "which",
        "that",
        "only",
    )
)
_SAFETY = re.compile(
    r" ?(Safe (to use from|for) several threads[^.]*|Thread-safe)\.|; several processes may open one folder"
)
_SECTION = re.compile(r"^(Args|Returns|Raises|Yields|Attributes|Example|Examples):$")
_ENTRY = re.compile(r"^(\*{0,2}[\w., ]+?)(?: \([^)]*\))?: (.*)$")


def main(arguments: list[str]) -> int:
    """Write the page, or compare it; return an exit code."""
    outdated = []
    for file, text in ((PAGE, render_page()), (DESCRIPTION, render_description())):
        if "--check" not in arguments:
            file.write_text(text, encoding="utf-8")
        elif file.read_text(encoding="utf-8") != text:
            outdated.append(file.name)
    if outdated:
        sys.stdout.write(f"{' and '.join(outdated)} outdated: run `make reference`\n")
    return 1 if outdated else 0


def render_description() -> str:
    """Return the tools of all groups, the prompts and the templates of resources that the MCP server lists."""
    with reverie.Memory.open(":memory:") as memory:
        session = memory.session("description")
        alone = {
            name: memory_tools(memory, groups=[name]).mcp() if name != "working" else [] for name in GROUPS
        }
        within = {name: memory_tools(memory, session=session, groups=[name]).mcp() for name in GROUPS}
    shown = {
        "default_groups": list(DEFAULT_GROUPS),
        "tools": alone,
        "tools_in_session": {name: tools for name, tools in within.items() if tools != alone[name]},
        "resource_templates": [_dump(template) for template in TEMPLATES],
    }
    return json.dumps(shown, ensure_ascii=False, indent=1) + "\n"


def _dump(value: BaseModel) -> Any:
    return value.model_dump(mode="json", by_alias=True, exclude_unset=True)


def render_page() -> str:
    """Return the whole page."""
    public = {name: getattr(reverie, name) for name in reverie.__all__ if not name.startswith("__")}
    shown = {
        name: value for name, value in public.items() if inspect.isclass(value) and not _is_elsewhere(value)
    }
    shown |= {owner.__name__: owner for owner in FURTHER}
    services = [each for each in shown.values() if not dataclasses.is_dataclass(each)]
    services.sort(key=lambda each: FIRST.index(each.__name__) if each.__name__ in FIRST else len(FIRST))
    values = [each for each in shown.values() if dataclasses.is_dataclass(each)]
    functions = [each for each in public.values() if inspect.isfunction(each)]
    parts = [INTRODUCTION, _render_contents(services, values, functions)]
    parts += [_render_service(each) for each in services]
    parts += [_render_function(each.__name__, each, "##") for each in functions]
    parts += [_render_value(each) for each in values]
    return "\n".join(parts)


def _is_elsewhere(value: type) -> bool:
    """Whether another page of the reference describes a class."""
    return issubclass(value, errors.ReverieError) or value is reverie.Settings


def _render_contents(services: list[type], values: list[type], functions: list[Any]) -> str:
    groups = {"classes": services, "functions": functions, "values": values}
    rows = [f"| {name} | {', '.join(map(_link, group))} |" for name, group in groups.items()]
    return "\n".join(["| group | names |", "|---|---|", *rows, ""])


def _link(value: Any) -> str:
    return f"[`{value.__name__}`](#{value.__name__.lower()})"


# -- classes -----------------------------------------------------------------------------------------


def _render_service(owner: type) -> str:
    described = _parse_sections(re.sub(_SAFETY, "", inspect.getdoc(owner) or ""))
    for section in ("Args", "Attributes"):
        described.pop(section, None)
    lines = [f"## `{owner.__name__}`\n", *_render_origin(owner), _render_parts(described)]
    attributes = [f"* `{owner.__name__}.{name}`" + _explain(owner, name) for name in _iter_attributes(owner)]
    lines += ["\n".join([*attributes, ""])] if attributes else []
    if owner.__name__.startswith("Async"):
        name = owner.__name__.removeprefix("Async")
        return "\n".join([*lines, f"The methods of [`{name}`](#{name.lower()}), as coroutines.\n"])
    if bases := _public_bases(owner):
        lines.append(f"It has all of {' and '.join(map(_link, bases))}.\n")
    lines += [
        _render_function(f"{owner.__name__}.{name}", inspect.getattr_static(owner, name), "###")
        for name in _iter_methods(owner)
        if not any(name in vars(base) for base in _public_bases(owner)) or name in vars(owner)
    ]
    return "\n".join(lines)


def _public_bases(owner: type) -> list[type]:
    """Return the base classes that have a section of their own."""
    return [base for base in owner.__mro__[1:] if base.__name__ in reverie.__all__]


def _render_origin(owner: type) -> list[str]:
    if owner.__name__ in reverie.__all__:
        return []
    return [f"From `{owner.__module__}`.\n"]


def _render_value(owner: type) -> str:
    described = _parse_sections(inspect.getdoc(owner) or "")
    meanings = dict(described.pop("Attributes", []))
    lines = [f"## `{owner.__name__}`\n", *_render_origin(owner), _render_parts(described)]
    fields = dataclasses.fields(owner)
    if fields:
        texts = {field: _cut_to_sentence(meanings.get(field.name, "")) for field in fields}
        told = [field for field in fields if owner.__name__ in CORE and _says_more(field.name, texts[field])]
        rows = [f"* `{field.name}` (`{field.type}`): {texts[field]}" for field in told]
        rest = [f"`{field.name}`" for field in fields if field not in told]
        rows += (
            [f"Fields: {', '.join(rest)}."]
            if rest and not rows
            else [f"* {', '.join(rest)}."]
            if rest
            else []
        )
        lines.append("\n".join([*rows, ""]))
    classes = [each for each in _our_classes(owner) if each not in _public_bases(owner)]
    names = dict.fromkeys(name for each in classes for name in vars(each) if not name.startswith("_"))
    hidden = {*(field.name for field in fields), "to_dict", "from_dict"}
    own = [name for name in names if name not in hidden and f"{owner.__name__}.{name}" not in INTERNAL]
    for name in own:
        member = inspect.getattr_static(owner, name)
        if isinstance(member, property | cached_property):
            lines[-1] += f"* `{owner.__name__}.{name}`{_explain(owner, name)}\n"
        elif callable(member) or isinstance(member, classmethod | staticmethod):
            lines.append(_render_function(f"{owner.__name__}.{name}", member, "###"))
    return "\n".join(lines)


def _iter_methods(owner: type) -> Iterator[str]:
    """Yield the names of public methods, inherited ones last, without those that the memory calls."""
    names = dict.fromkeys(
        name for each in _our_classes(owner) for name in vars(each) if not name.startswith("_")
    )
    for name in names:
        member = inspect.getattr_static(owner, name)
        is_callable = inspect.isfunction(member) or isinstance(member, classmethod | staticmethod)
        if is_callable and f"{owner.__name__}.{name}" not in INTERNAL:
            yield name


def _iter_attributes(owner: type) -> Iterator[str]:
    """Yield the public properties that no base has, and what `__init__` sets."""
    inherited = {name for base in _public_bases(owner) for name in vars(base)}
    if owner.__name__.startswith("Async"):
        yield "sync"
        return
    for each in _our_classes(owner):
        for name, member in vars(each).items():
            is_public = not name.startswith("_") and isinstance(member, property | cached_property)
            if is_public and (name not in inherited or each is owner):
                yield name
    if inspect.isfunction(owner.__init__):  # type: ignore[misc]
        source = inspect.getsource(owner.__init__)  # type: ignore[misc]
        yield from re.findall(r"\bself\.([a-z]\w*)(?:: [^=]+)? = ", source)


def _our_classes(owner: type) -> list[type]:
    return [each for each in owner.__mro__ if each.__module__.startswith("reverie.")]


def _explain(owner: type, name: str) -> str:
    """Return the first paragraph of the docstring of a property, or what its class says of an attribute."""
    member = inspect.getattr_static(owner, name, None)
    if member is not None:
        text = (inspect.getdoc(member) or "").split("\n\n")[0]
    else:
        text = dict(_parse_sections(inspect.getdoc(owner) or "").get("Attributes", [])).get(name, "")
    return f": {_cut_to_sentence(' '.join(text.split()))}" if text else ""


# -- functions ---------------------------------------------------------------------------------------


def _render_function(name: str, member: Any, level: str) -> str:
    function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
    shown = render_signature(name, member).removeprefix(name)
    sections = _parse_sections(inspect.getdoc(function) or "")
    if name.partition(".")[0] in {each.__name__ for each in FURTHER}:
        sections.pop("Args", None)
    text = _render_parts(sections)
    if not name.partition(".")[2] or "\n" in shown:
        return f"{level} `{name}`\n\n```pyi\n{name}{shown}\n```\n\n{text}"
    return f"{level} `{name}{shown.replace(' -> None', '')}`\n\n{text}"


def render_signature(name: str, member: Any) -> str:
    """Return `Memory.save(content: str, *, …) -> SaveResult`, on one line or with one parameter a line."""
    function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
    described = inspect.signature(function)
    given = list(described.parameters.values())
    if "." in name and not isinstance(member, staticmethod):
        given = given[1:]
    parameters = [_render_parameter(each) for each in given]
    named_only = next((n for n, each in enumerate(given) if each.kind == each.KEYWORD_ONLY), None)
    if named_only is not None and not any(each.kind == each.VAR_POSITIONAL for each in given):
        parameters.insert(named_only, "*")
    result = str(described.return_annotation).replace("builtins.", "")
    line = f"{name}({', '.join(parameters)}) -> {result}"
    if len(line) <= WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {each},\n" for each in parameters) + f") -> {result}"


def _render_parameter(parameter: inspect.Parameter) -> str:
    stars = {"VAR_KEYWORD": "**", "VAR_POSITIONAL": "*"}
    text = f"{stars.get(parameter.kind.name, '')}{parameter.name}"
    if parameter.annotation is not parameter.empty:
        annotation = str(parameter.annotation)
        text += f": {annotation.removesuffix(' | None') if parameter.default is None else annotation}"
    return text if parameter.default is parameter.empty else f"{text} = {_render_default(parameter.default)}"


def _render_default(value: Any) -> str:
    if isinstance(value, Enum):
        return type(value).__name__.upper()
    if callable(value):
        return str(value.__name__)
    return repr(value).replace("'", '"') if type(value).__module__ == "builtins" else type(value).__name__


# -- docstrings --------------------------------------------------------------------------------------


def _parse_sections(text: str) -> dict[str, Any]:
    """Split a docstring into its text (key "") and the entries of its sections."""
    sections: dict[str, list[str]] = {"": []}
    name = ""
    for line in text.splitlines():
        head = _SECTION.match(line)
        if head:
            name = head[1]
        elif name and line and not line.startswith(" "):
            name = ""
        if not head:
            sections.setdefault(name, []).append(line)
    result: dict[str, Any] = {"": "\n".join(sections.pop("")).strip("\n")}
    for name, lines in sections.items():
        result[name] = _parse_entries(lines) if name in ("Args", "Raises", "Attributes") else _join(lines)
    return result


def _parse_entries(lines: list[str]) -> list[tuple[str, str]]:
    entries: list[tuple[str, str]] = []
    for line in inspect.cleandoc("\n".join(lines)).splitlines():
        found = _ENTRY.match(line)
        if found:
            entries.append((found[1], found[2]))
        elif entries and line.strip():
            entries[-1] = (entries[-1][0], f"{entries[-1][1]} {line.strip()}")
    return entries


def _cut_to_sentence(text: str) -> str:
    """Return the first sentence of a text, or its first clause; the whole is in the docstring."""
    sentence = re.split(r"(?<=\.) (?=[A-Z0-9`\"])", text, maxsplit=1)[0]
    clause = sentence.partition("; ")[0]
    return (clause if len(clause.split()) >= MIN_WORDS else sentence).rstrip(". ") + "."


def _says_more(name: str, text: str) -> bool:
    """Return whether a description has some words that the name of its argument does not have, values counting more."""
    known = {*name.replace("*", "").lower().split("_"), *_PARTICLES}
    words = set(re.findall(r"\w+", text.lower()))
    return len(words - known - {f"{word}s" for word in known}) > MIN_WORDS + ("`" not in text)


def _lower_first(text: str) -> str:
    return text if text[:2].isupper() or text.startswith("`") else text[:1].lower() + text[1:]


def _join(lines: list[str]) -> str:
    return inspect.cleandoc("\n".join(lines)).strip()


def _list_prose(text: str) -> list[str]:
    """Return the first paragraph of a docstring and its examples; further prose is for `help()`."""
    blocks = [block for block in text.split("\n\n") if block.strip()]
    examples = [f"```text\n{block}\n```" for block in blocks[1:] if block.lstrip().startswith(">>>")]
    return [*blocks[:1], *examples]


def _render_parts(sections: dict[str, Any]) -> str:
    parts = [*_list_prose(sections[""])]
    for name, content in sections.items():
        if name in ("Args", "Attributes"):
            rows = [(each, _cut_to_sentence(text)) for each, text in content]
            lines = [f"* `{each}`: {text}" for each, text in rows if _says_more(each, text)]
            parts += ["\n".join(lines)] if lines else []
        elif name == "Raises":
            continue
        elif name in ("Returns", "Yields"):
            text = _cut_to_sentence(" ".join(content.split()))
            parts += [f"{name} {_lower_first(text)}"] if len(text.split()) >= MIN_RESULT_WORDS else []
        elif name:
            parts.append("```text\n" + content + "\n```")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
