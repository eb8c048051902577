"""Timing of all engines on the same texts and questions.

The engines take turns question by question, so that other load on the machine affects all of them alike.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG

from benchmarks import forget as forgetting
from benchmarks import hook, mcp_start
from benchmarks.child import wait_until_found
from benchmarks.engines import BARE, REVERIE, TOP, Engine, NotOffered
from benchmarks.texts import Text, Texts
from reverie import Memory

Figures = dict[str, float]
"""One engine's figures at one size, by name; a name ends with its unit."""

WARM_UP = 20
_SAVES_IN_A_ROW = 10
SAVES = 100
FINDS = 10
IMPORTS = 9
STARTS = 5
HOOKED = 1_000
"""Records in the memory of a hook."""

REFERENCE = Path(sys.prefix) / "share/clients/node_modules/.bin/mcp-server-memory"
"""The reference server of MCP for memories, which `scripts/install_clients.sh` installs."""

MOST_TURNS = 10_000
LARGEST_CONTEXT = 100_000
"""Most texts for which a second memory is filled, to measure `Session.context()`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to measure.

    Attributes:
        engines: Which engines.
        questions: How many questions.
        repeat: How often each is asked.
        seed: Of the texts.
        folder: Where the engines keep their data.
        say: Callback that receives progress messages.
    """

    engines: tuple[type[Engine], ...]
    questions: int
    repeat: int
    seed: int
    folder: Path
    say: Callable[[str], None]


def measure_size(plan: Plan, size: int) -> dict[str, Figures]:
    """Measure every engine with `size` texts."""
    texts = Texts(plan.seed)
    figures: dict[str, Figures] = {}
    making = _run_child("generate", REVERIE, plan.folder, size, plan.seed)
    kinds = [kind for kind in plan.engines if kind.largest is None or size <= kind.largest]
    for kind in kinds:
        plan.say(f"{size:,} texts: loading {kind.name}")
        folder = plan.folder / f"{kind.name}-{size}"
        folder.mkdir()
        found = _run_child("build", kind.name, folder, size, plan.seed)
        for figure in ("load_s", "load_cpu_s"):
            found[figure] = max(found[figure] - making[figure], 0.0)
        found["load_each_ms"] = found["load_cpu_s"] * 1000 / size
        if kind.name != BARE:
            found |= _run_child("serve", kind.name, folder, size, plan.seed)
        sizes = [file.stat() for file in folder.rglob("*")]  # texts are analysed at the first search
        found["disk_mb"] = sum(each.st_size for each in sizes if S_ISREG(each.st_mode)) / 2**20
        found["disk_blocks_mb"] = sum(each.st_blocks for each in sizes) * 512 / 2**20
        figures[kind.name] = found
    engines = {kind.name: kind(plan.folder / f"{kind.name}-{size}") for kind in kinds}
    try:
        plan.say(f"{size:,} texts: searching")
        _merge(figures, measure_searches(engines, texts, size, plan))
        plan.say(f"{size:,} texts: saving")
        _merge(figures, measure_saves(engines, texts, size))
        _merge(figures, measure_visibility(engines, texts, size, plan))
        if REVERIE in engines:
            plan.say(f"{size:,} texts: three processes")
            figures[REVERIE] |= measure_beside_others(engines[REVERIE], texts, size, plan)
    finally:
        for engine in engines.values():
            engine.close()
    if REVERIE in engines and size <= LARGEST_CONTEXT:
        plan.say(f"{size:,} texts: context")
        figures[REVERIE] |= measure_context(texts, size, plan)
        figures[REVERIE] |= measure_forgetting(size, plan.folder / f"forget-{size}")
    return figures


# -- searching ---------------------------------------------------------------------------------------


def measure_searches(engines: dict[str, Engine], texts: Texts, size: int, plan: Plan) -> dict[str, Figures]:
    """Measure searches in milliseconds: unfiltered, within a scope and within a category."""
    numbers = [number * size // plan.questions for number in range(plan.questions)] * plan.repeat
    times: dict[tuple[str, str], list[float]] = {}
    # The order changes each time, since the slowest engine leaves the processor's caches cold for the next.
    order = random.Random(plan.seed)
    warming = numbers[:WARM_UP]
    for turn, number in enumerate(warming + numbers):
        text, question = texts.text(number), texts.question(number)
        filters: dict[str, dict[str, str]] = {
            "search": {},
            "scope": {"scope": text.scope},
            "area": {"area": text.area},
        }
        for what, restriction in filters.items():
            for name in order.sample(list(engines), len(engines)):
                took = _time(lambda e=engines[name], q=question, r=restriction: e.search(q, **r))  # type: ignore[misc]
                if took is not None and turn >= len(warming):
                    times.setdefault((name, what), []).append(took)
    figures: dict[str, Figures] = {}
    for (name, what), taken in times.items():
        figures.setdefault(name, {}).update(_compute_quantiles(what, taken))
    return figures


def _time(action: Callable[[], object]) -> float | None:
    """Return the milliseconds an action takes; None if the engine does not offer it."""
    began = time.perf_counter()
    try:
        action()
    except NotOffered:
        return None
    return (time.perf_counter() - began) * 1000


def _compute_quantiles(what: str, times: Sequence[float]) -> Figures:
    if len(times) < 2:
        return {f"{what}_{name}_ms": times[0] for name in ("p50", "p95", "p99")}
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    return {f"{what}_p50_ms": cuts[49], f"{what}_p95_ms": cuts[94], f"{what}_p99_ms": cuts[98]}


# -- saving ------------------------------------------------------------------------------------------


def measure_saves(engines: dict[str, Engine], texts: Texts, size: int) -> dict[str, Figures]:
    """Measure durable saves of one text in milliseconds; the engines take turns of ten texts.

    Turns of one text would mostly measure cold caches after the commits of slower engines.
    """
    times: dict[str, list[float]] = {}
    processor: dict[str, list[float]] = {}
    order = random.Random(size)
    count = min(SAVES, size)
    for start in range(0, count, _SAVES_IN_A_ROW):
        block = [texts.text(size + turn) for turn in range(start, min(start + _SAVES_IN_A_ROW, count))]
        for name in order.sample(list(engines), len(engines)):
            began = time.process_time()
            taken = [_time(lambda e=engines[name], t=text: e.save(t)) for text in block]  # type: ignore[misc]
            used = (time.process_time() - began) * 1000
            if None not in taken:
                times.setdefault(name, []).extend(filter(None, taken))
                processor.setdefault(name, []).append(used / len(block))
    return {
        name: _compute_quantiles("save", taken) | {"save_cpu_ms": statistics.median(processor[name])}
        for name, taken in times.items()
    }


def measure_visibility(engines: dict[str, Engine], texts: Texts, size: int, plan: Plan) -> dict[str, Figures]:
    """Measure the time from a save until a search finds it, in this and in another process."""
    figures: dict[str, Figures] = {}
    for name, engine in engines.items():
        try:
            here = [
                _time_until_found(engine, _add_unique_word(texts, size + SAVES + n)) for n in range(FINDS)
            ]
        except NotOffered:
            continue
        folder = plan.folder / f"{name}-{size}"
        there = _time_until_found_elsewhere(
            engine, folder, [_add_unique_word(texts, size + SAVES + FINDS + n) for n in range(FINDS)]
        )
        figures[name] = {"found_ms": statistics.median(here), "found_elsewhere_ms": statistics.median(there)}
    return figures


def _add_unique_word(texts: Texts, number: int) -> tuple[Text, str]:
    """Return a text with a unique word, and the word."""
    text = texts.text(number)
    word = "qz" + "".join(chr(ord("a") + int(digit)) for digit in str(number)) + "x"
    return text._replace(content=f"{text.content} {word}"), word


def _time_until_found(engine: Engine, case: tuple[Text, str]) -> float:
    text, word = case
    began = time.monotonic()
    engine.save(text)
    return (wait_until_found(engine, word) - began) * 1000


def _time_until_found_elsewhere(
    engine: Engine, folder: Path, cases: Sequence[tuple[Text, str]]
) -> list[float]:
    command = [sys.executable, "-m", "benchmarks.child", "watch", engine.name, str(folder), "1", "1"]
    times = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdin is not None
        assert watcher.stdout is not None
        if watcher.stdout.readline().strip() != "ready":
            raise RuntimeError(f"{engine.name}: a second process could not open {folder}")
        for text, word in cases:
            watcher.stdin.write(f"{word}\n")
            watcher.stdin.flush()
            time.sleep(0.02)  # the other process searches when the save begins
            began = time.monotonic()
            engine.save(text)
            times.append((float(watcher.stdout.readline()) - began) * 1000)
        watcher.stdin.close()
        watcher.wait(timeout=60)
    return times


def measure_beside_others(engine: Engine, texts: Texts, size: int, plan: Plan) -> Figures:
    """Measure searches and saves while two other processes save to and search the same folder."""
    folder = plan.folder / f"{REVERIE}-{size}"
    searching, saving, others = [], [], []
    try:
        for place in (1, 2):
            seed = str(plan.seed + place)  # other texts than those of this process
            command = [
                sys.executable,
                "-m",
                "benchmarks.child",
                "work",
                REVERIE,
                str(folder),
                str(size),
                seed,
            ]
            other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            others.append(other)
            assert other.stdout is not None
            if other.stdout.readline().strip() != "ready":
                raise RuntimeError(f"another process could not open {folder}")
        for number in range(min(SAVES, size)):
            searching.append(_time(lambda n=number: engine.search(texts.question(n))))  # type: ignore[misc]
            saving.append(_time(lambda n=number: engine.save(texts.text(2 * size + n))))  # type: ignore[misc]
    finally:
        for other in others:
            other.communicate(timeout=60)  # they end with their input
    return _compute_quantiles("shared_search", [took for took in searching if took is not None]) | (
        _compute_quantiles("shared_save", [took for took in saving if took is not None])
    )


# -- context and imports ---------------------------------------------------------------------------


def measure_context(texts: Texts, size: int, plan: Plan) -> Figures:
    """Measure `Session.context()` beside a search of the same memory.

    Each session sees all records and as many turns, at most `MOST_TURNS`, of sessions with a thousand turns each.
    """
    folder = plan.folder / f"context-{size}"
    turns = min(size, MOST_TURNS)
    chats = max(turns // 1000, 1)
    packing: list[float] = []
    searching: list[float] = []
    with Memory.open(folder, embedder="none") as memory:
        memory.save_many({"content": text.content, "category": text.category} for text in texts.first(size))
        for chat in range(chats):
            memory.session(f"chat:{chat}").add_many(
                {
                    "role": "assistant" if number % 2 else "user",
                    "content": texts.text(2 * size + number).content,
                }
                for number in range(chat, turns, chats)
            )
    with Memory.open(folder, embedder="none") as memory:
        for turn in range(WARM_UP + plan.questions * plan.repeat):
            question = texts.question(turn * size // plan.questions % size)
            session = memory.session(f"chat:{turn % chats}")
            packed = _time(lambda s=session, q=question: s.context(q))  # type: ignore[misc]
            searched = _time(lambda q=question: memory.search(q, limit=TOP))  # type: ignore[misc]
            if turn >= WARM_UP and packed is not None and searched is not None:
                packing.append(packed)
                searching.append(searched)
    return (
        {"turns": turns}
        | _compute_quantiles("context", packing)
        | _compute_quantiles("beside_context", searching)
        | _measure_starts(folder, plan, size)
    )


def _measure_starts(folder: Path, plan: Plan, size: int) -> Figures:
    """Return medians of the processor time that new processes use to import and open, and for a first `context()`."""
    taken = [_run_child("start", REVERIE, folder, size, plan.seed) for _ in range(IMPORTS)]
    return {name: statistics.median(one[name] for one in taken) for name in taken[0]}


def measure_forgetting(size: int, folder: Path) -> Figures:
    """Measure the processor time of forgetting one record beside that of saving one."""
    save, forget = forgetting.measure(size, folder)
    return {"forget_ratio": forget / save}


def measure_starts(say: Callable[[str], None]) -> Figures:
    """Measure what `import reverie` adds to starting an interpreter, hooks, and the MCP server."""
    say("starting processes")
    times: dict[str, list[float]] = {"import reverie": [], "pass": []}
    for _ in range(STARTS):
        for code, taken in times.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            taken.append((time.perf_counter() - began) * 1000)
    whole, bare = (statistics.median(taken) for taken in times.values())
    figures = {"import_ms": whole - bare, "interpreter_ms": bare}
    for name, events in zip(
        ("hook_alone_ms", "hook_beside_ms"), hook.measure(HOOKED, STARTS, ["user-prompt"]), strict=True
    ):
        figures[name] = statistics.median(each.processor for each in events["user-prompt"]) * 1000
    if REFERENCE.exists():
        figures["mcp_ratio"] = mcp_start.compare_medians(mcp_start.measure(str(REFERENCE), STARTS, records=0))
    return figures


# -- processes ---------------------------------------------------------------------------------------


def _run_child(action: str, engine: str, folder: Path, size: int, seed: int) -> Figures:
    """Run an action of `benchmarks.child` and return its figures."""
    command = [sys.executable, "-m", "benchmarks.child", action, engine, str(folder), str(size), str(seed)]
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=env)
    found: Figures = json.loads(done.stdout)
    return found


def _merge(figures: dict[str, Figures], more: dict[str, Figures]) -> None:
    for name, found in more.items():
        figures[name] |= found
