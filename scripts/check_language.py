"""Check the language of every text that a user meets: documentation, help, errors and the web UI.

* No banned word of the style guide, such as "somebody" or "thing".
* No sentence over 25 words.
* No page of documentation over its budget of words.

Prints one line for each violation, and ends with 1 if there is any. Documentation must have none. Help, errors and
texts of the web UI may have as many as `PRESENT` says, a number that only falls.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from reverie.interfaces.cli.main import COMMANDS, cli

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src/reverie"
MAX_SENTENCE_WORDS = 25
MAX_PAGE_WORDS = 1_000
MAX_DOCS_WORDS = 45_000

PAGE_BUDGETS = {
    "README.md": 900,
    "docs/how-to/import-and-export.md": 1_250,
    "docs/project/benchmarks.md": 2_600,
    "docs/reference/api.md": 8_600,
    "docs/reference/cli.md": 4_700,
    "docs/reference/http.md": 1_200,
    "docs/reference/settings.md": 1_450,
    "docs/reference/tools.md": 2_250,
}
"""Words of a page as `wc -w` counts them; `MAX_PAGE_WORDS` for the others."""

PRESENT = {"help": 0, "errors": 0, "web UI": 0}
"""Violations in texts that are in code."""

GENERATED = (
    "docs/reference/api.md",
    "docs/reference/cli.md",
    "docs/reference/settings.md",
    "docs/reference/tools.md",
)
"""Pages that repeat texts of code, whose words are checked there."""

BANNED = {
    r"\bthings?\b": "the type of the thing",
    r"\b(some|no|every)body\b|\bwhoever\b|\bwhatever\b": "an actor or a type",
    r"\bstands? (in|for)\b": "is in, represents",
    r"\btells? of\b": "shows, detects",
    r"\bgoes on\b": "continues",
    r"\bas of then\b": "at that time",
    r"\bby form\b": "by wording",
    r"\bof (its|their) own\b": "its own, separate",
    r"\bin place of\b": "instead of",
    r"\bbeside\b": "next to, and",
    r"\btak(e|es|en|ing) back\b|\btook back\b": "undo",
    r"\btak(e|es|en|ing) in\b|\btook in\b": "import",
    r"\bby itself\b|\bunasked\b": "automatically",
    r"\bany ?more\b": "no longer",
    r"\bmeanwhile\b": "nothing",
    r"\bsort of\b": "type",
    r"\bthe night\b": "a dream",
    r"\bis no (?!longer\b)[a-z]+\b": "is not a",
}
"""Patterns of banned words with what to write instead."""


def main() -> int:
    """Print the violations; return an exit code."""
    problems = [*check_pages()]
    for area, texts in {"help": list_help(), "errors": list_errors(), "web UI": list_page_texts()}.items():
        found = [f"{place}: {problem}" for place, text in texts for problem in find_problems(text)]
        sys.stdout.write(f"{area:10} {len(found):4} violations (at most {PRESENT[area]})\n")
        if len(found) > PRESENT[area] or "-v" in sys.argv:
            problems += found
    for problem in problems:
        sys.stdout.write(f"{problem}\n")
    return int(bool(problems))


# -- documentation -----------------------------------------------------------------------------------


def check_pages() -> Iterator[str]:
    """Yield the problems of README and of every page of documentation."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    total = 0
    for page in pages:
        name, text = page.relative_to(ROOT).as_posix(), page.read_text(encoding="utf-8")
        words = len(text.split())
        total += words
        budget = PAGE_BUDGETS.get(name, MAX_PAGE_WORDS)
        if words > budget:
            yield f"{name}: {words:,} words, at most {budget:,} are allowed"
        if name not in GENERATED:
            yield from (f"{name}: {problem}" for problem in find_problems(extract_prose(text)))
    sys.stdout.write(f"{'docs':10} {total:,} words in {len(pages)} pages (at most {MAX_DOCS_WORDS:,})\n")
    if total > MAX_DOCS_WORDS:
        yield f"docs: {total:,} words, at most {MAX_DOCS_WORDS:,} are allowed"


def extract_prose(text: str) -> str:
    """Return a page without code, comments, headings, addresses and the cells of tables."""
    text = re.sub(r"^(`{3,}).*?^\1`*$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "CODE", text)
    lines = [line for line in text.splitlines() if not line.startswith(("#", "|", "    "))]
    return re.sub(r"\n\s*([*-]|\d+\.) ", "\n\n", "\n".join(lines))


# -- texts in code -----------------------------------------------------------------------------------


def list_help() -> Iterator[tuple[str, str]]:
    """Yield the help texts of commands and their options."""
    for section in COMMANDS.values():
        for name in section:
            command = cli.get_command(click.Context(cli), name)
            inner = [*command.commands.values()] if isinstance(command, click.Group) else []
            for each in filter(None, (command, *inner)):
                prose = re.sub(r"With --json: .*", "", (each.help or "").partition("\f")[0], flags=re.DOTALL)
                yield f"help of {name}", prose
                yield from (
                    (f"help of {name} {option.opts[0]}", option.help or "")
                    for option in each.params
                    if isinstance(option, click.Option)
                )


def list_errors() -> Iterator[tuple[str, str]]:
    """Yield the texts of errors that are raised."""
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                text = _join_text(node.exc.args[0])
                if text:
                    yield f"{file.relative_to(ROOT)}:{node.lineno}", text


def _join_text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_join_text(value) if isinstance(value, ast.Constant) else "X" for value in node.values)
    return ""


def list_page_texts() -> Iterator[tuple[str, str]]:
    """Yield the texts of the web UI, from its templates."""
    for file in sorted((SOURCE / "interfaces/http/page/templates").glob("*.html")):
        text = re.sub(
            r"\{#.*?#\}|\{%.*?%\}|<(script|style)\b.*?</\1>", "\n\n", file.read_text("utf-8"), flags=re.DOTALL
        )
        text = re.sub(r"\{\{.*?\}\}", "X", text, flags=re.DOTALL)
        for piece in re.split(r"<[^>]*>|\n\s*\n", text):
            if len(piece.split()) > 1:
                yield f"web UI {file.stem}", " ".join(piece.split())


# -- language ----------------------------------------------------------------------------------------


def find_problems(text: str) -> Iterator[str]:
    """Yield the banned words and the long sentences of a text."""
    for pattern, better in BANNED.items():
        for match in re.finditer(pattern, text, flags=re.IGNORECASE):
            context = " ".join(text[max(0, match.start() - 30) : match.end() + 20].split())
            yield f"{match[0]!r} in “{context}”: write {better}"
    for paragraph in re.split(r"\n\s*\n", text):
        for sentence in re.split(r"(?<=[.!?:;])[)”\"]?\s+", " ".join(paragraph.split())):
            words = len(re.findall(r"[\w'’-]+", sentence))
            if words > MAX_SENTENCE_WORDS:
                yield f"{words} words: {sentence[:90]}…"


if __name__ == "__main__":
    sys.exit(main())
