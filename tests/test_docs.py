"""The documentation says what is so: its examples run, its reference is complete, its links lead somewhere.

What runs, in README.md and every file under docs/, from top to bottom, in one namespace and one temporary
folder that is the home directory and the current one:

* ```` ```python ````: executed; where a ```` ```text ```` block follows at once, that is what it prints.
* ```` ```console ````: lines after `$ ` are commands (`reverie …`, `echo $?`, `export NAME=VALUE`,
  `name=$(reverie …)`), the others what they show on a terminal of 80 columns. A command ends with 0 unless
  `echo $?` follows and shows otherwise.
* Modules of `examples/` can be imported, such as the scripted model.
* `<!-- file: NAME -->` before a block writes the block to that file.
* `<!-- not run: REASON -->` before a block leaves it out.
* `<!-- needs: PACKAGE -->` before a block leaves it out where that package is not installed.

Ids, times, ages and sizes need not agree, a line `…` stands for any lines, and figures may differ a little.
`REVERIE_DOCS_UPDATE=1 pytest tests/test_docs.py` writes what is shown anew where it no longer agrees.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import doctest
import importlib
import importlib.util
import inspect
import io
import math
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
from evaluation.measures.command import COMMANDS as MEASUREMENTS
from scripts.generate_cli_reference import EXAMPLES, iterate_commands

import reverie
from reverie import Memory, Settings
from reverie.domain import errors
from reverie.interfaces.cli.main import COMMANDS, cli
from reverie.interfaces.cli.options import STORE, CommandContext, build_common_options
from reverie.settings import NOT_SETTINGS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "reverie"
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
REFERENCE = {file.stem: file.read_text(encoding="utf-8") for file in (ROOT / "docs/reference").glob("*.md")}
UPDATE = bool(os.environ.get("REVERIE_DOCS_UPDATE"))
NOT_RUN_AT_MOST = 6
COLUMNS = "80"


def name_of(value: object) -> str:
    return value.relative_to(ROOT).as_posix() if isinstance(value, Path) else str(value)


# -- blocks ------------------------------------------------------------------------------------------


def is_installed(package: str) -> bool:
    """Whether a package can be imported, which may be in a namespace such as `google.adk`."""
    return all(
        importlib.util.find_spec(package[: match.start()] if match[0] else package)
        for match in re.finditer(r"\.|$", package)
    )


_FENCE = re.compile(r"^(`{3,})(\w*)\s*$")
_MARK = re.compile(r"^<!-- (file|not run|needs): (.+) -->$")


@dataclass
class Block:
    """One fenced block: its first line's number in the file, counted from 0, and its lines."""

    language: str
    start: int
    lines: list[str]
    mark: tuple[str, str] | None
    output: Block | None = None

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def blocks_of(text: str) -> list[Block]:
    found: list[Block] = []
    lines = text.splitlines()
    n = 0
    while n < len(lines):
        fence = _FENCE.match(lines[n])
        if fence is None:
            n += 1
            continue
        end = next(k for k in range(n + 1, len(lines)) if lines[k].rstrip() == fence[1])
        above = next((lines[k] for k in range(n - 1, -1, -1) if lines[k].strip()), "")
        mark = _MARK.match(above)
        block = Block(fence[2], n + 1, lines[n + 1 : end], (mark[1], mark[2]) if mark else None)
        between = lines[found[-1].start + len(found[-1].lines) + 1 : n] if found else ["something"]
        if block.language == "text" and found and found[-1].language == "python" and not any(between):
            found[-1].output = block
        found.append(block)
        n = end + 1
    return found


# -- what is shown, and what really comes ------------------------------------------------------------

_DIFFERS = [
    (re.compile(r"\brvr_[0-9a-f]{8}_[\w-]{43}"), "TOKEN"),
    (re.compile(r"^[0-9a-f]{8}(?=  )", re.MULTILINE), "TOKEN-ID"),
    (re.compile(r"\b[0-9a-f]{12}\b"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?Z?"), "TIME"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?=\.md\b)"), "DAY"),
    (re.compile(r"\b(?:just now|\d+ (?:minute|hour|day)s? ago)\b"), "AGO"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:bytes|kB|MB)\b"), "SIZE"),
    (re.compile(r"(?<=bytes_on_disk) +\d+"), " SIZE"),
    (re.compile(r"\b\d+m\d\ds\b"), "COUNTDOWN"),
    (re.compile(r"\b\d+\.\d+ (?:ms|s)\b"), "TOOK"),
    (re.compile(r"\S*reverie-demo-\w+"), "DEMO"),
    (re.compile(r"[━╌─]+"), "━"),
    (re.compile(r" {2,}"), "  "),
]
_FIGURE = re.compile(r"\d+\.\d+")
_TOLERANCE = 0.03


def settled(text: str) -> list[str]:
    """The lines without what differs from run to run."""
    for pattern, name in _DIFFERS:
        text = pattern.sub(name, text)
    return trimmed(text)


def trimmed(text: str) -> list[str]:
    """The lines without white space at their ends, and without empty ones before and after."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n").splitlines()


def lines_agree(shown: str, got: str) -> bool:
    if _FIGURE.sub("FIGURE", shown) != _FIGURE.sub("FIGURE", got):
        return False
    pairs = zip(_FIGURE.findall(shown), _FIGURE.findall(got), strict=True)
    return all(math.isclose(float(a), float(b), abs_tol=_TOLERANCE) for a, b in pairs)


def agrees(shown: list[str], got: list[str]) -> bool:
    """Whether the lines shown are what came; a line `…` stands for any number of lines."""
    if not shown:
        return not got
    if shown[0] == "…":
        return any(agrees(shown[1:], got[n:]) for n in range(len(got) + 1))
    return bool(got) and lines_agree(shown[0], got[0]) and agrees(shown[1:], got[1:])


class Terminal(io.StringIO):
    """What a command writes to; standard output is a terminal here, and standard error joins it."""

    def isatty(self) -> bool:
        return True


class Log(io.StringIO):
    """Standard error, which goes where the terminal's output goes and draws no bars."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self.terminal = terminal

    def write(self, text: str) -> int:
        return self.terminal.write(text)


class Page:
    """One file of documentation while it is played."""

    def __init__(self, file: Path, home: Path) -> None:
        self.file = file
        self.home = home
        self.text = file.read_text(encoding="utf-8")
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        self.variables: dict[str, str] = {}
        self.status = 0
        self.came: list[tuple[int, int, list[str]]] = []
        self.is_outdated = False

    def play(self) -> None:
        for block in blocks_of(self.text):
            kind, what = block.mark or ("", "")
            if kind == "file":
                place = self.home / what
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(block.text, encoding="utf-8")
            if kind == "needs" and not is_installed(what):
                continue
            if kind == "not run" or (kind == "file" and block.language != "python"):
                continue
            if block.language == "python":
                self.run_python(block)
            elif block.language == "console":
                self.run_console(block)
        for value in self.namespace.values():
            if isinstance(value, Memory):
                value.close()
        if self.is_outdated:
            self.write_anew()

    def run_python(self, block: Block) -> None:
        said = io.StringIO()
        code = compile("\n" * block.start + block.text, str(self.file), "exec")
        with contextlib.redirect_stdout(said):
            exec(code, self.namespace)
        if block.output is not None:
            self.compare(block.output.start, block.output.lines, said.getvalue())

    def run_console(self, block: Block) -> None:
        rest = list(enumerate(block.lines, start=block.start))
        while rest:
            number, line = rest.pop(0)
            assert line.startswith("$ "), f"{self.file}:{number + 1}: expected a command after '$ '"
            command = line[2:]
            while command.endswith("\\"):
                number, more = rest.pop(0)
                command = command[:-1] + more.strip()
            shown = []
            while rest and not rest[0][1].startswith("$ "):
                shown.append(rest.pop(0)[1])
            got = self.call(command)
            if not (rest and rest[0][1] == "$ echo $?") and command != "echo $?":
                assert self.status == 0, f"{self.file}:{number + 1}: ended with {self.status}\n{got}"
            self.compare(number + 1, shown, got)

    def call(self, command: str) -> str:
        """What a command shows."""
        if command == "echo $?":
            return f"{self.status}\n"
        if export := re.fullmatch(r"export (\w+)=(\S+)", command):
            os.environ[export[1]] = self.expanded(export[2])
            self.status = 0
            return ""
        if kept := re.fullmatch(r"(\w+)=\$\((.*)\)", command):
            self.variables[kept[1]] = self.call(kept[2]).strip()
            return ""
        if " | " in command:
            return self.piped(command)
        words = [self.expanded(word) for word in shlex.split(command)]
        assert words.pop(0) == "reverie", f"{self.file}: cannot run {command!r}"
        terminal = Terminal()
        with contextlib.redirect_stdout(terminal), contextlib.redirect_stderr(Log(terminal)):
            try:
                cli.main(words, prog_name="reverie", obj=CommandContext())
            except SystemExit as end:
                self.status = int(end.code or 0)
        return terminal.getvalue()

    def piped(self, command: str) -> str:
        scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        env = {**os.environ, **self.variables, "PATH": scripts}
        done = subprocess.run(["sh", "-c", command], env=env, capture_output=True, text=True, timeout=60)
        self.status = done.returncode
        return done.stdout + done.stderr

    def expanded(self, word: str) -> str:
        for name, value in self.variables.items():
            word = word.replace(f"${name}", value)
        return str(self.home / word[2:]) if word.startswith("~/") else word

    def compare(self, start: int, shown: list[str], got: str) -> None:
        got = got.replace(str(self.home), "~")
        self.came.append((start, len(shown), shown if "…" in shown else trimmed(got)))
        if agrees(settled("\n".join(shown)), settled(got)):
            return
        if UPDATE:
            self.came[-1] = (start, len(shown), trimmed(got))
            self.is_outdated = True
            return
        said = "\n".join(shown)
        came = "\n".join(trimmed(got))
        pytest.fail(f"{self.file}:{start + 1} shows\n\n{said}\n\nbut this comes:\n\n{came}", pytrace=False)

    def write_anew(self) -> None:
        """Write the page with all that came, so that the ids in it belong together."""
        lines = self.text.splitlines()
        for start, count, got in reversed(self.came):
            lines[start : start + count] = got
        self.file.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.parametrize("file", DOCS, ids=name_of)
def test_every_example_runs_and_shows_what_it_says(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(os.environ):
        if name.startswith(("REVERIE_", "XDG_", "NO_COLOR", "FORCE_COLOR", "TTY_")):
            monkeypatch.delenv(name)
    for name, value in {"HOME": str(tmp_path), "COLUMNS": COLUMNS, "LINES": "40", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(STORE, "")  # noted here, so that what a page exports is taken back
    monkeypatch.delenv(STORE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.syspath_prepend(tmp_path)
    Page(file, tmp_path).play()


def test_hardly_any_block_is_left_out_and_each_says_why() -> None:
    left_out = [
        (name_of(file), block.start, block.mark[1])
        for file in DOCS
        for block in blocks_of(file.read_text(encoding="utf-8"))
        if block.mark is not None and block.mark[0] == "not run"
    ]
    assert len(left_out) <= NOT_RUN_AT_MOST, left_out
    assert all(len(reason.split()) >= 3 for _, _, reason in left_out), left_out


# -- the reference is complete -----------------------------------------------------------------------


def test_every_public_name_is_in_the_reference() -> None:
    pages = "\n".join(REFERENCE.values())
    named = set(re.findall(r"`(?:reverie\.)?(\w+)`", pages))
    assert set(reverie.__all__) - named == set(), "missing in docs/reference"


def _is_error(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, Exception)


def test_every_error_is_in_the_reference_and_no_other() -> None:
    known = {name for name, value in vars(errors).items() if _is_error(value)}
    assert set(re.findall(r"^\| `(\w+)` \|", REFERENCE["errors"], re.MULTILINE)) == known


def test_dotted_names_in_the_docs_exist() -> None:
    for file in DOCS:
        for dotted in re.findall(r"`((?:reverie\.)?[A-Z]\w+\.\w+)\b", file.read_text(encoding="utf-8")):
            owner_name, attribute = dotted.removeprefix("reverie.").split(".")
            owner = getattr(reverie, owner_name, None)
            if owner is not None and not hasattr(owner, attribute):
                code = inspect.getsource(sys.modules[owner.__module__])
                assert f"self.{attribute}" in code, f"{name_of(file)} names {dotted}"


# -- the command line --------------------------------------------------------------------------------

NAMES = [name for section in COMMANDS.values() for name in section]
SHARED = {option for parameter in build_common_options() for option in parameter.opts} | {
    "--help",
    "-h",
    "--version",
}


def command(name: str) -> click.Command:
    found = cli.get_command(click.Context(cli), name)
    assert found is not None
    return found


def options(name: str) -> set[str]:
    found = command(name)
    below = found.commands.values() if isinstance(found, click.Group) else ()
    parameters = [parameter for each in (found, *below) for parameter in each.params]
    return {option for each in parameters if isinstance(each, click.Option) for option in each.opts}


def test_options_named_anywhere_in_the_docs_exist() -> None:
    measurements = [build() for build in MEASUREMENTS.values()]
    further = {option for each in measurements for parameter in each.params for option in parameter.opts}
    known = SHARED.union(further, *(options(name) for name in NAMES))
    for file in DOCS:
        for option in re.findall(r"`(--[a-z][\w-]*)", file.read_text(encoding="utf-8")):
            assert option in known, f"{name_of(file)} names {option}"


def test_every_command_has_an_example() -> None:
    plain = {
        path.removeprefix("reverie ")
        for path, each in iterate_commands()
        if not isinstance(each, click.Group)
    }
    assert {name for name in plain if " " not in name} - set(EXAMPLES) == set()
    for name, example in EXAMPLES.items():
        words = shlex.split(example)
        assert words[:2] == ["reverie", name]
        command(name).make_context(name, words[2:], parent=click.Context(cli, obj=CommandContext()))


def test_the_completion_that_the_tutorial_installs_completes_commands_and_options() -> None:
    tutorial = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    for shell in ("bash", "zsh", "fish"):
        assert f"_REVERIE_COMPLETE={shell}_source reverie" in tutorial
        words, place = ("reverie undo --l", "2") if shell != "fish" else ("reverie undo --l", "--l")
        env = {**os.environ, "COMP_WORDS": words, "COMP_CWORD": place}
        for instruction, expected in (
            (f"{shell}_source", "_REVERIE_COMPLETE"),
            (f"{shell}_complete", "--last"),
        ):
            run = "from reverie.interfaces.cli.main import main; main()"
            done = subprocess.run(
                [sys.executable, "-c", run],
                env={**env, "_REVERIE_COMPLETE": instruction},
                capture_output=True,
                text=True,
            )
            assert (done.returncode, done.stderr) == (0, "")
            assert expected in done.stdout


# -- settings ----------------------------------------------------------------------------------------

_PROPERTIES = {
    "default_ttl_minutes": "default_ttl",
    "time_zone": "zone",
    "memory_enabled": "is_recording",
    "recording_enabled": "is_recording",
    "injection_enabled": "is_injecting",
    "profile_path": "names_paths",
    "base_path": "names_paths",
} | {f"{layer}_top_k": "layer_limits" for layer in ("episodic", "semantic", "procedural")}


def test_every_setting_has_an_effect() -> None:
    code = "\n".join(
        file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py") if file.name != "settings.py"
    )
    read = set(re.findall(r"\b_?settings\.(\w+)", code)) | set(
        re.findall(r"\b(?:prompt_)?setting=\"(\w+)\"", code)
    )
    for name in (field.name for field in dataclasses.fields(Settings)):
        assert {name, _PROPERTIES.get(name, name)} & read, f"{name} is never read"


def test_variables_named_in_the_docs_exist() -> None:
    known = {f"REVERIE_{field.name.upper()}" for field in dataclasses.fields(Settings)}
    for file in DOCS:
        for variable in re.findall(r"(?<!_)REVERIE_[A-Z_]+\b", file.read_text(encoding="utf-8")):
            assert variable in known | NOT_SETTINGS, f"{name_of(file)} names {variable}"


# -- links -------------------------------------------------------------------------------------------

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s#]*)(?:#([^)\s]*))?\)")


def anchors(file: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_every_link_leads_somewhere() -> None:
    for file in DOCS:
        text = re.sub(r"^```.*?^```", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target, anchor in _LINK.findall(text):
            if target.startswith(("http://", "https://")):
                continue
            place = (file.parent / target).resolve() if target else file
            assert place.exists(), f"{name_of(file)} links to {target}"
            if anchor and place.suffix == ".md":
                assert anchor in anchors(place), f"{name_of(file)} links to {target}#{anchor}"


def test_every_page_is_reached_from_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / target).resolve() for target, _ in _LINK.findall(index.read_text("utf-8"))}
    assert {file.resolve() for file in DOCS[1:]} - linked - {index} == set()


def test_tests_and_make_targets_named_in_the_docs_exist() -> None:
    tests = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("*.py"))
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for file in DOCS:
        text = file.read_text(encoding="utf-8")
        for name in re.findall(r"\btest_\w+(?=`)", text):
            assert f"def {name}(" in tests, f"{name_of(file)} names {name}"
        for target in re.findall(r"\bmake ([a-z-]+)`", text):
            assert target in targets, f"{name_of(file)} names make {target}"


@pytest.mark.slow
def test_the_site_is_built_and_every_page_is_in_its_navigation(tmp_path: Path) -> None:
    pytest.importorskip("material")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (built.returncode, built.stderr) == (0, "")
    assert (tmp_path / "site" / "search" / "search_index.js").exists(), "the search works without a server"
    for file in (ROOT / "docs").rglob("*.md"):
        page = file.relative_to(ROOT / "docs").with_suffix(".html").as_posix().replace("README", "index")
        assert (tmp_path / "site" / page).exists(), page


# -- the map of the code -----------------------------------------------------------------------------

MAP_NAMES = ("ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "decisions/README.md")
MAPS = {name: (ROOT / name).read_text(encoding="utf-8") for name in MAP_NAMES}


def test_files_and_links_named_in_the_maps_exist() -> None:
    for page, text in MAPS.items():
        for named in re.findall(r"`([a-z_]\w*(?:/[\w.]*)+|[a-z]\w+\.py)`", text):
            if named not in {"memory/", "sessions/", "index/"}:  # of a memory's folder
                there = (ROOT / named).exists() or (SOURCE / named).exists()
                there = there or any(ROOT.glob(f"{named}-*.md"))
                assert there, f"{page} names {named}"
        for target, _ in _LINK.findall(text):
            assert (ROOT / page).parent.joinpath(target).exists(), f"{page} links to {target}"


def test_the_table_of_behaviours_names_symbols_that_exist() -> None:
    rows = re.findall(r"^\| [^|`]+ \| `([\w/]+\.py)` \| `(\w+)` \|$", MAPS["ARCHITECTURE.md"], re.MULTILINE)
    assert len(rows) >= 20
    for file, symbol in rows:
        tree = ast.parse((SOURCE / file).read_text(encoding="utf-8"))
        assert symbol in {getattr(node, "name", None) for node in tree.body}, (
            f"{file} does not define {symbol}"
        )


def test_every_decision_is_in_the_index() -> None:
    numbers = {file.name for file in (ROOT / "decisions").glob("[0-9]*.md")}
    assert {target for target, _ in _LINK.findall(MAPS["decisions/README.md"])} == numbers


# -- docstrings --------------------------------------------------------------------------------------


def modules() -> Iterator[str]:
    """The modules that can be imported here; some need an extra that is in an environment of its own."""
    yield "reverie"
    for found in pkgutil.walk_packages([str(SOURCE)], "reverie."):
        with contextlib.suppress(errors.MissingExtra):
            importlib.import_module(found.name)
            yield found.name


@pytest.mark.slow
def test_examples_in_docstrings_are_right() -> None:
    wrong = []
    for name in modules():
        with contextlib.suppress(ModuleNotFoundError):  # of an extra
            failed = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS).failed
            wrong += [name] * bool(failed)
    assert not wrong, f"python -m doctest shows what differs: {wrong}"
