"""`python -m benchmarks.compare`: set up other memories, ask all of them the same, and write docs/compare.md.

Environments are made in build/compare once. Questions are asked in turn, so that no memory has a quieter machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from evaluation.measures.questions import Persona, PersonaQuestion, read_personas

from benchmarks.compare.server import embed, serving
from benchmarks.report import describe_machine
from benchmarks.texts import Texts

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build/compare"
PAGE = ROOT / "docs/compare.md"
ADAPTERS = Path(__file__).with_name("adapters.py")
SERVERS = ("mcp-memory", "basic-memory", "hindsight")
"""Memories that run in a process of their own, whose look-ups of hosts are not seen."""

MAX_KILLS = 10
MAX_KILLING_S = 100
"""Seconds after which a memory that starts slowly is killed no more."""

MAX_ANSWER_S = 240
"""Seconds after which a memory that does not answer is killed, and its figures are left out."""

MAX_INSTALL_S = 900
LIMIT = 5
SECRET = "The harbour master's locker opens with quagga-7731-zanzibar"
MARK = "quagga-7731-zanzibar"


@dataclass(slots=True)
class Peer:
    """A memory, how it is installed, and what was measured.

    Attributes:
        name: Name of its adapter.
        title: Name for people.
        packages: Packages of PyPI, or one of npm after `npm:`.
        python: Interpreter that it needs.
        needs: Keys and servers that its documentation asks for by default.
        used: How it was set up here.
    """

    name: str
    title: str
    packages: tuple[str, ...]
    needs: str
    used: str
    python: str = "python3.11"
    error: str = ""
    figures: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Folder of its environment."""
        return BUILD / self.name


PEERS = [
    Peer("reverie", "Reverie", (str(ROOT),), "none", "words alone, the base install"),
    Peer("reverie-semantic", "Reverie, `semantic`", (f"{ROOT}[semantic]",), "none", "the extra `semantic`"),
    Peer(
        "langgraph",
        "LangGraph SqliteStore",
        ("langgraph", "langgraph-checkpoint-sqlite"),
        "an embedder, mostly with a key",
        "`SqliteStore` with `index=`",
        python="/usr/bin/python3.11",  # its sqlite3 has to load extensions, which that of pyenv does not
    ),
    Peer(
        "mem0",
        "mem0",
        ("mem0ai",),
        "a model and an embedder, OpenAI's by default",
        "Qdrant in a folder, `infer=False`",
    ),
    Peer(
        "memsearch",
        "memsearch",
        ("memsearch",),
        "an embedder, OpenAI's by default",
        "Milvus Lite, a Markdown file for each text",
    ),
    Peer(
        "mcp-memory",
        "MCP reference server",
        ("npm:@modelcontextprotocol/server-memory",),
        "none (Node.js)",
        "an entity for each text",
    ),
    Peer(
        "basic-memory",
        "basic-memory",
        ("basic-memory",),
        "a download of a model, for search by meaning",
        "words alone, over MCP",
        python="python3.13",
    ),
    Peer(
        "hindsight",
        "Hindsight",
        ("hindsight-api-slim[embedded-db]",),
        "a model; PostgreSQL, or its embedded one",
        "`hindsight-api` with embedded PostgreSQL, without a model",
        python="/usr/bin/python3.11",
    ),
]


# -- environments ------------------------------------------------------------------------------------


def install(peer: Peer) -> None:
    """Make the environment of a memory, unless it is there; note its size."""
    done = peer.folder / ".ready"
    if not done.exists():
        click.echo(f"installing {peer.title} ...", err=True)
        peer.folder.mkdir(parents=True, exist_ok=True)
        if peer.packages[0].startswith("npm:"):
            command = [
                "npm",
                "install",
                "--silent",
                "--prefix",
                str(peer.folder),
                peer.packages[0].removeprefix("npm:"),
            ]
        else:
            if shutil.which(peer.python) is None:
                raise RuntimeError(f"needs {peer.python}, which this machine does not have")
            subprocess.run([peer.python, "-m", "venv", peer.folder], check=True, timeout=MAX_INSTALL_S)
            command = [
                str(peer.folder / "bin/python"),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-compile",
                *peer.packages,
            ]
        subprocess.run(command, check=True, stdout=sys.stderr, timeout=MAX_INSTALL_S)
        done.touch()
    if peer.packages[0].startswith("npm:"):
        modules = peer.folder / "node_modules"
        packages = len([*modules.rglob("package.json")])
        size = measure_folder(modules)
    else:
        (library,) = (peer.folder / "lib").glob("python*/site-packages")
        own = [
            each
            for each in library.iterdir()
            if not each.name.lower().startswith(("pip", "setuptools", "pkg_res"))
        ]
        size = sum(measure_folder(each) for each in own)
        packages = len([each for each in own if each.name.endswith(".dist-info")])
    peer.figures["install"] = f"{size / 1e6:,.0f} MB, {packages}"


def measure_folder(folder: Path) -> int:
    """Return the bytes of files of a folder, without compiled Python."""
    files = [folder] if folder.is_file() else folder.rglob("*")
    return sum(each.stat().st_size for each in files if each.is_file() and each.suffix != ".pyc")


# -- a running memory --------------------------------------------------------------------------------


class Running:
    """Process of a memory on a folder."""

    def __init__(self, peer: Peer, folder: Path, url: str) -> None:
        folder.mkdir(exist_ok=True, parents=True)
        is_npm = peer.packages[0].startswith("npm:")
        program = sys.executable if is_npm else str(peer.folder / "bin/python")
        env = {
            name: value for name, value in os.environ.items() if not name.startswith(("REVERIE_", "PYTHON"))
        }
        modules = peer.folder / "node_modules/@modelcontextprotocol/server-memory/dist/index.js"
        env |= {"HOME": str(folder), "COMPARE_PROGRAM": str(modules), "OPENAI_BASE_URL": url}
        self.process = subprocess.Popen(
            [program, str(ADAPTERS), peer.name, str(folder), url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
            cwd=folder,
            start_new_session=True,
        )

    def ask(self, operation: str, **given: Any) -> dict[str, Any]:
        """Return the answer to one request; raise `RuntimeError` where there is none in time."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        watch = threading.Timer(MAX_ANSWER_S, self.kill)
        watch.start()
        try:
            self.process.stdin.write(json.dumps({"op": operation, **given}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watch.cancel()
        if not line:
            assert self.process.stderr is not None
            lines = [each for each in self.process.stderr.read().splitlines() if each.strip()]
            errors = [each for each in lines if re.match(r"[\w.]*(Error|Exception)\b", each)]
            raise RuntimeError((errors or lines)[-1] if lines else f"ended with {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> list[str]:
        """End the process; return the hosts that it wanted to reach."""
        hosts = self.ask("close")["hosts"]
        self.process.wait(30)
        return [*hosts]

    def kill(self) -> None:
        """Kill the process and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextlib.contextmanager
def noting(peer: Peer) -> Iterator[None]:
    """Note an error of a memory with it; the others are measured all the same."""
    try:
        yield
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        peer.error = " ".join(str(error).split())
        click.echo(f"{peer.title}: {peer.error}", err=True)


Fact = tuple[str, str, str]
"""Id, text and time of a fact."""


def prepare(texts: Sequence[str]) -> None:
    """Compute the vectors of texts in each form that a memory embeds, so that none waits for the model.

    `SqliteStore` embeds a value whole, whatever its `fields` are. Hindsight adds the month.
    """
    month = f"{datetime.now(UTC):%B %Y}"
    wrapped = (json.dumps({"text": text}, ensure_ascii=False) for text in texts)
    embed([*texts, *wrapped, *(f"{text} (happened in {month})" for text in texts)])


# -- measurements ------------------------------------------------------------------------------------


def measure_first_recall(peer: Peer, folder: Path, url: str) -> None:
    """Measure the time from the start of a process in an empty folder until a saved text is found."""
    prepare(["Staging runs on port 5432", "staging port"])
    start = time.perf_counter()
    running = Running(peer, folder, url)
    running.ask("add", id="a", text="Staging runs on port 5432")
    found = running.ask("search", query="staging port", limit=1)["found"]
    peer.figures["first recall"] = f"{time.perf_counter() - start:.1f} s" + ("" if found else ", not found")
    hosts = running.close()
    peer.figures["network"] = "not watched" if peer.name in SERVERS else ", ".join(hosts) or "none"


def list_questions(
    personas: Sequence[Persona],
) -> Iterator[tuple[Persona, list[Fact], list[PersonaQuestion]]]:
    """Yield people with their facts, and the questions that facts alone answer, or nothing answers."""
    for persona in personas:
        facts = [
            (str(event["id"]), str(event["text"]), at.isoformat())
            for at, event in persona.events
            if "turns" not in event
        ]
        ids = {fact for fact, *_ in facts}
        yield persona, facts, [each for each in persona.questions if each.answers <= ids]


def measure_questions(peers: Sequence[Peer], work: Path, url: str, personas: Sequence[Persona]) -> None:
    """Ask every memory the same questions in turn."""
    found: dict[str, list[tuple[PersonaQuestion, list[str]]]] = {peer.name: [] for peer in peers}
    for persona, facts, questions in list_questions(personas):
        prepare([*(text for _, text, _ in facts), *(each.text for each in questions)])
        running = launch(peers, work, persona.name, url)
        for peer, process in running:
            with noting(peer):
                for fact, text, at in facts:
                    process.ask("add", id=fact, text=text, at=at)
                click.echo(f"{persona.name}: {peer.name} has {len(facts)} facts", err=True)
        for question in questions:
            for peer, process in running:
                if not peer.error:
                    with noting(peer):
                        ids = process.ask("search", query=question.text, limit=LIMIT)["found"]
                        found[peer.name].append((question, ids))
        close(running)
    for peer in peers:
        if not peer.error:
            peer.figures |= judge(found[peer.name])


def launch(peers: Sequence[Peer], work: Path, what: str, url: str) -> list[tuple[Peer, Running]]:
    """Start a process of each memory that has had no error, in an empty folder."""
    return [(peer, Running(peer, work / f"{peer.name}-{what}", url)) for peer in peers if not peer.error]


def close(running: Sequence[tuple[Peer, Running]]) -> None:
    """End processes, with force where that is needed."""
    for peer, process in running:
        with noting(peer):
            if not peer.error:
                process.close()
        process.kill()


def judge(results: Sequence[tuple[PersonaQuestion, list[str]]]) -> dict[str, str]:
    """Return the shares of right answers."""
    answerable = [(question, ids) for question, ids in results if question.answers]
    empty = [not ids for question, ids in results if not question.answers]
    changed = [(question, ids) for question, ids in answerable if question.outdated]
    outdated = 0
    for question, ids in changed:
        first = next((each for each in ids if each in question.answers | question.outdated), "")
        outdated += first in question.outdated
    wanted = [len(question.answers) if question.wants_all else 1 for question, _ in answerable]
    hits = [len(question.answers.intersection(ids)) for question, ids in answerable]
    recall = [min(hit / min(want, LIMIT), 1) for hit, want in zip(hits, wanted, strict=True)]
    return {
        "recall@5": f"{statistics.mean(recall):.3f}",
        "first": f"{statistics.mean(bool(ids) and ids[0] in question.answers for question, ids in answerable):.3f}",
        "outdated first": f"{outdated} of {len(changed)}",
        "unanswerable left alone": f"{sum(empty)} of {len(empty)}",
    }


def measure_speed(peers: Sequence[Peer], work: Path, url: str, size: int) -> None:
    """Measure saves and searches, in turn, and the disk that the texts take."""
    made = Texts(seed=7)
    texts = [text.content for text in made.first(size)]
    questions = [made.question(number) for number in range(50)]
    for start in range(0, size, 100):
        prepare(texts[start : start + 100])
    prepare(questions)
    running = launch(peers, work, "speed", url)
    adds: dict[str, list[float]] = {peer.name: [] for peer in peers}
    searches: dict[str, list[float]] = {peer.name: [] for peer in peers}
    for first in range(0, size, 50):
        for peer, process in running:
            with noting(peer):
                for number, text in enumerate(
                    texts[first : first + 50] if not peer.error else (), start=first
                ):
                    adds[peer.name].append(time_call(process, "add", id=f"t{number}", text=text))
        click.echo(f"{min(first + 50, size):,} texts", err=True)
    for question in ["warm", *questions]:
        for peer, process in running:
            with noting(peer):
                if not peer.error:
                    searches[peer.name].append(time_call(process, "search", query=question, limit=LIMIT))
    close(running)
    for peer, _ in running:
        if not peer.error:
            peer.figures["add"] = f"{statistics.median(adds[peer.name]) * 1e3:,.1f} ms"
            peer.figures["search"] = f"{statistics.median(searches[peer.name][1:]) * 1e3:,.1f} ms"
            peer.figures["disk"] = f"{measure_folder(work / f'{peer.name}-speed') / 1e6:,.1f} MB"


def time_call(process: Running, operation: str, **given: Any) -> float:
    """Return the seconds of one request."""
    start = time.perf_counter()
    process.ask(operation, **given)
    return time.perf_counter() - start


def measure_kills(peer: Peer, folder: Path, url: str) -> None:
    """Kill a process while it writes, ten times; count acknowledged texts that are not found afterwards."""
    generator = random.Random(5)
    lost = acknowledged = broken = 0
    start = time.perf_counter()
    turn = 0
    while turn < MAX_KILLS and time.perf_counter() - start < MAX_KILLING_S:
        turn += 1
        running = Running(peer, folder, url)
        ids = []
        try:
            count = generator.randint(2, 6)
            for number in range(count):
                text = f"Parcel {turn}-{number} weighs {generator.randint(1000, 9999)} grams"
                prepare([text])
                running.ask("add", id=f"k{turn}n{number}", text=text)
                ids.append((f"k{turn}n{number}", text))
            assert running.process.stdin is not None
            running.process.stdin.write(
                json.dumps({"op": "add", "id": f"k{turn}x", "text": f"Parcel {turn} is torn"}) + "\n"
            )
            running.process.stdin.flush()
            time.sleep(generator.random() * 0.02)
            running.kill()
            running = Running(peer, folder, url)
            for name, text in ids:
                acknowledged += 1
                lost += name not in running.ask("search", query=text, limit=LIMIT)["found"]
            running.close()
        except RuntimeError as error:
            broken += 1
            click.echo(f"{peer.title} after a kill: {error}", err=True)
            running.kill()
    text = f"{lost} of {acknowledged} lost" + (f" ({turn} kills)" if turn < MAX_KILLS else "")
    peer.figures["kills"] = f"{text}, {broken} × not opened" if broken else text


def measure_forgetting(peer: Peer, folder: Path, url: str) -> None:
    """Store a secret among other texts, erase it, and look for its bytes in every file."""
    prepare([SECRET, "secret"])
    running = Running(peer, folder, url)
    for number in range(5):
        running.ask("add", id=f"f{number}", text=f"Berth {number} is dredged in May")
    running.ask("add", id="secret", text=SECRET)
    running.ask("search", query="locker", limit=LIMIT)
    running.ask("forget", id="secret")
    is_found = "secret" in running.ask("search", query=SECRET, limit=LIMIT)["found"]
    running.close()
    left = sorted(
        {file.name for file in folder.rglob("*") if file.is_file() and MARK.encode() in file.read_bytes()}
    )
    peer.figures["forget"] = ("still found; " if is_found else "") + (
        f"bytes in {', '.join(left[:3])}" if left else "no bytes"
    )


# -- the page ----------------------------------------------------------------------------------------

ROWS = (
    ("Keys and servers by default", "needs"),
    ("Set up here", "used"),
    ("Install size, packages", "install"),
    ("Start to first recall", "first recall"),
    ("Hosts it wanted to reach", "network"),
    ("Recall@5", "recall@5"),
    ("First hit answers", "first"),
    ("Outdated value first", "outdated first"),
    ("Unanswerable left alone", "unanswerable left alone"),
    ("Add a text", "add"),
    ("Search", "search"),
    ("Disk", "disk"),
    ("10 kills while writing", "kills"),
    ("After erasing a text", "forget"),
)

INTRODUCTION = (ROOT / "benchmarks/compare/introduction.md").read_text(encoding="utf-8")


def render_page(peers: Sequence[Peer], personas: Sequence[Persona], size: int) -> str:
    """Return docs/compare.md."""
    measured = [peer for peer in peers if not peer.error]
    machine = ", ".join(
        f"{name} {value}"
        for name, value in describe_machine().items()
        if name in ("system", "cores", "python")
    )
    asked = sum(len(questions) for _, _, questions in list_questions(personas))
    lines = [
        INTRODUCTION.rstrip(),
        "",
        "## Figures",
        "",
        f"Measured on {datetime.now(UTC):%Y-%m-%d} by `make compare` ({machine}). "
        f"Questions: {asked} about everyday facts of "
        "an invented person (`evaluation/everyday`), one text for each fact, with its time where a memory takes one. "
        f"Times and disk: {size:,} texts in `{tempfile.gettempdir()}`; medians.",
        "",
        "| | " + " | ".join(peer.title for peer in measured) + " |",
        "|---" * (len(measured) + 1) + "|",
    ]
    for title, name in ROWS:
        cells = [getattr(peer, name, "") or peer.figures.get(name, "-") for peer in measured]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    lines += ["", "## Versions", ""]
    lines += [f"* {peer.title}: {describe_versions(peer)}" for peer in measured]
    if failed := [peer for peer in peers if peer.error]:
        lines += ["", "## Not run", ""]
        lines += [f"* {peer.title} ({peer.used}): `{peer.error[:200]}`" for peer in failed]
    return "\n".join([*lines, ""])


def describe_versions(peer: Peer) -> str:
    """Return the versions of the packages that were installed."""
    if peer.packages[0].startswith("npm:"):
        name = peer.packages[0].removeprefix("npm:")
        return f"{name} {json.loads((peer.folder / 'node_modules' / name / 'package.json').read_text())['version']}"
    names = ["reverie" if each.startswith(str(ROOT)) else each.partition("[")[0] for each in peer.packages]
    code = "from importlib.metadata import version; "
    code += f"print(*(f'{{name}} {{version(name)}}' for name in {names}), sep=', ')"
    return subprocess.run(
        [peer.folder / "bin/python", "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()


@click.command()
@click.option(
    "--size", type=click.IntRange(20), default=1_000, show_default=True, help="Texts for times and disk."
)
@click.option(
    "--only", "names", multiple=True, metavar="NAME", help="Only these memories; the page is not written."
)
@click.option(
    "--people",
    metavar="NAME",
    default="sealed-assistant",
    show_default=True,
    help="Person of evaluation/everyday.",
)
def main(size: int, names: tuple[str, ...], people: str) -> None:
    """Compare Reverie with other memories for agents."""
    personas = [
        each for each in read_personas(ROOT / "evaluation/everyday", sealed=True) if each.name == people
    ]
    peers = [peer for peer in PEERS if not names or peer.name in names]
    with tempfile.TemporaryDirectory(prefix="reverie-compare-") as folder, serving() as url:
        work = Path(folder)
        for peer in peers:
            with noting(peer):
                install(peer)
                measure_first_recall(peer, work / f"{peer.name}-first", url)
                measure_kills(peer, work / f"{peer.name}-kills", url)
                measure_forgetting(peer, work / f"{peer.name}-forget", url)
                click.echo(f"{peer.title}: {peer.figures}", err=True)
        measure_questions(peers, work, url, personas)
        measure_speed(peers, work, url, size)
    page = render_page(peers, personas, size)
    if names:
        click.echo(page)
    else:
        PAGE.write_text(page, encoding="utf-8")
        click.echo(f"written: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
