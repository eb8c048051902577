"""`python -m evaluation questions`: natural questions about everyday facts, beside SQLite's FTS5.

A collection is a folder of JSON files, one for each persona: facts that are saved one by one at their times,
short conversations, and questions with the ids of the facts or turns that answer them (`evaluation/README.md`
describes the format). Each persona gets a memory of its own, with default settings, in a temporary folder.
Questions are asked as a program asks them: `Memory.search` over records and turns, and `Session.context`.
What was learned from a turn by rule is a sentence of that turn, and counts as the turn.
"""

from __future__ import annotations

import json
import re
import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from evaluation.output import check_output_file, print_table, write_json
from reverie.context.pack import NOTHING_KNOWN, Pack
from reverie.domain.errors import InvalidInput
from reverie.domain.text.validation import estimate_tokens
from reverie.evals.command import embed_all
from reverie.llm.embedding import NO_EMBEDDER, Embedder
from reverie.memory import Memory

LIMIT = 5
"""Number of hits of a search."""

SEALED = "sealed-"
"""Files whose name begins with this are read only when asked for: they are kept for final figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonaQuestion:
    """A question and what answers it.

    Attributes:
        answers: Ids of facts and turns; empty when nothing stored answers it.
        wants_all: Whether every answer is wanted, as in a list; otherwise one is enough.
        outdated: Ids of what held before and must not stand before the answer.
    """

    id: str
    type: str
    text: str
    answers: frozenset[str]
    wants_all: bool = False
    outdated: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Persona:
    """One person's facts, conversations and questions.

    Attributes:
        today: The time at which the questions are asked.
        events: Facts and conversations in order of time.
    """

    name: str
    language: str
    today: datetime
    events: tuple[tuple[datetime, Mapping[str, Any]], ...]
    questions: tuple[PersonaQuestion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFigures:
    """A prompt in numbers.

    Attributes:
        is_marked: For each fact and turn in the prompt, whether its line says that it is, or may be, outdated.
        lines: Lines of memory, without pages and rules.
        knows_nothing: Whether it says that nothing about the message is remembered.
        stable: Tokens of the part that seldom changes.
        changing: Tokens of the rest.
    """

    is_marked: Mapping[str, bool]
    lines: int
    knows_nothing: bool
    stable: int
    changing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionResult:
    """Hits of one engine for one question.

    Attributes:
        found: Ids of the facts and turns found, best first.
        prompt: The prompt; None for an engine that makes none.
        replaced: Ids of the facts that later ones replace.
    """

    question: PersonaQuestion
    persona: str
    found: tuple[str, ...]
    prompt: PromptFigures | None = None
    replaced: frozenset[str] = frozenset()

    def recall(self, k: int) -> float:
        """Return the share of wanted answers among the first `k`; for single answers 0 or 1."""
        return self._share(frozenset(self.found[:k]), k)

    def prompt_recall(self) -> float:
        """Return the share of wanted answers that stand in the prompt."""
        shown = frozenset(self.prompt.is_marked) if self.prompt else frozenset()
        return self._share(shown, len(self.question.answers))

    def _share(self, found: frozenset[str], k: int) -> float:
        matching = len(self.question.answers & found)
        if not self.question.wants_all:
            return float(matching > 0)
        return matching / max(1, min(k, len(self.question.answers)))

    @property
    def has_unmarked_outdated(self) -> bool:
        """Whether something outdated stands in the prompt without a mark."""
        is_marked = self.prompt.is_marked if self.prompt else {}
        return any(not is_marked.get(name, True) for name in self.question.outdated)

    @property
    def is_outdated_first(self) -> bool:
        """Whether something outdated stands before every answer."""
        for found in self.found:
            if found in self.question.answers:
                return False
            if found in self.question.outdated:
                return True
        return False


def read_personas(folder: str | Path, *, sealed: bool = False) -> list[Persona]:
    """Read the personas of a folder.

    Args:
        folder: Where the JSON files are.
        sealed: Whether to read the files that are kept for final figures, and only those.

    Raises:
        InvalidInput: the folder has no such file, or a file is not of the format.
    """
    files = sorted(Path(folder).expanduser().glob("*.json"))
    chosen = [file for file in files if file.name.startswith(SEALED) == sealed]
    if not chosen:
        raise InvalidInput(
            f"{str(folder)!r} has no {'sealed ' if sealed else ''}personas: pass a folder of JSON files"
        )
    return [_read_persona(file) for file in chosen]


def read_unrelated(*, sealed: bool = False) -> list[PersonaQuestion]:
    """Return messages about nothing that anybody has stored, as questions of the type `unrelated`."""
    file = Path(__file__).parents[1] / ("unrelated-sealed.jsonl" if sealed else "unrelated.jsonl")
    return [
        PersonaQuestion(id=f"u{number}", type="unrelated", text=json.loads(line)["text"], answers=frozenset())
        for number, line in enumerate(file.read_text("utf-8").splitlines())
    ]


def _read_persona(file: Path) -> Persona:
    try:
        data = json.loads(file.read_text("utf-8"))
        events = [(datetime.fromisoformat(fact["saved_at"]), fact) for fact in data["facts"]]
        events += [(datetime.fromisoformat(talk["started_at"]), talk) for talk in data["conversations"]]
        questions = tuple(
            PersonaQuestion(
                id=item["id"],
                type=item["type"],
                text=item["text"],
                answers=frozenset(item["answers"]),
                wants_all=bool(item.get("all")),
                outdated=frozenset(item.get("outdated", ())),
            )
            for item in data["questions"]
        )
        return Persona(
            name=file.stem,
            language=data["language"],
            today=datetime.fromisoformat(data["today"]),
            events=tuple(sorted(events, key=lambda event: event[0])),
            questions=questions,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"{file}: not a persona ({type(error).__name__}: {error})") from None


def divide_persona(persona: Persona, size: int) -> list[Persona]:
    """Return small memories of about `size` facts each, which are asked what they answer and what another answers.

    Each has every n-th fact, and no conversations. It gets the questions that its facts answer, and those that the
    facts of the memory before it answer and its own do not, as questions of the type `nothing`. Questions that ask
    for something to be done are left out, since rules stand in every prompt.
    """
    facts = [(at, event) for at, event in persona.events if "turns" not in event]
    count = max(1, round(len(facts) / size))
    parts = [facts[start::count] for start in range(count)]
    held = [frozenset(fact["id"] for _, fact in part) for part in parts]
    asked = [
        [each for each in persona.questions if each.type != "instruction" and each.answers & ids]
        for ids in held
    ]
    divided = []
    for number, part in enumerate(parts):
        ids = held[number]
        own = [
            replace(each, answers=each.answers & ids, outdated=each.outdated & ids) for each in asked[number]
        ]
        others = [
            replace(each, type="nothing", answers=frozenset(), outdated=frozenset())
            for each in asked[number - 1]
            if not (each.answers | each.outdated) & ids
        ]
        divided.append(replace(persona, events=tuple(part), questions=(*own, *others)))
    return divided


@contextmanager
def open_persona(
    persona: Persona, *, embedder: str | Embedder = NO_EMBEDDER
) -> Iterator[tuple[Memory, dict[str, str]]]:
    """Open a new memory with what a persona says, today; removed afterwards.

    Yields:
        The memory, and the id of the fact or turn for the id of each record and turn.
    """
    now = persona.today
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory.open(folder, clock=lambda: now, embedder=embedder) as memory,
    ):
        names: dict[str, str] = {}
        for at, event in persona.events:
            now = at
            if "turns" in event:
                session = memory.session(f"chat:{event['id']}")
                for turn in event["turns"]:
                    names[session.add(turn["role"], turn["text"]).id] = turn["id"]
            else:
                saved = memory.save(
                    event["text"],
                    category=event.get("category"),
                    kind=event.get("kind"),
                    tags=event.get("tags", ()),
                )
                names[saved.record.id] = event["id"]
        for record in memory.list(limit=None):
            turns = [names[each] for each in record.references if each in names]
            if turns:  # it was learned from a turn, of which it is a sentence
                names[record.id] = turns[0]
        embed_all(memory)
        now = persona.today
        memory.dreams.judge_pending()
        yield memory, names


def ask_questions(persona: Persona, *, embedder: str | Embedder = NO_EMBEDDER) -> list[QuestionResult]:
    """Fill a new memory with what a persona says, and ask it the persona's questions."""
    with open_persona(persona, embedder=embedder) as (memory, names):
        replaced = frozenset(event["replaces"] for _, event in persona.events if event.get("replaces"))
        replaced |= {name for question in persona.questions for name in question.outdated}
        results = []
        for question in persona.questions:
            hits = memory.search(question.text, sources=("records", "turns"), limit=LIMIT)
            pack = memory.session(f"question:{question.id}").context(question.text)
            results.append(
                QuestionResult(
                    question=question,
                    persona=persona.name,
                    found=tuple(names[hit.id] for hit in hits if hit.id in names),
                    prompt=_measure_prompt(pack, names),
                    replaced=replaced,
                )
            )
        return results


def _measure_prompt(pack: Pack, names: Mapping[str, str]) -> PromptFigures:
    """Return the figures of a prompt; `names` has the id of the fact or turn of each record and turn."""
    is_marked: dict[str, bool] = {}
    for line in pack.text.splitlines():
        for name in [names[each] for each in _LINE.findall(line) if each in names]:
            is_marked[name] = is_marked.get(name, False) or _MARK.search(line) is not None
    changing = [line for line in pack.changing_text.splitlines() if line.startswith(("- [", "["))]
    return PromptFigures(
        is_marked=is_marked,
        lines=len(changing),
        knows_nothing=NOTHING_KNOWN in pack.text,
        stable=estimate_tokens(pack.stable_text),
        changing=estimate_tokens(pack.changing_text),
    )


_LINE = re.compile(r"\[([0-9a-f]{12})\](?= \(|$|:| \[)")
_MARK = re.compile(r"\(perhaps outdated, see \[|→ changed on |\(held ")


def ask_fts5(persona: Persona) -> list[QuestionResult]:
    """Ask the same of SQLite's FTS5 with its Porter stemmer, all words of the question joined by OR."""
    database = sqlite3.connect(":memory:")
    try:
        database.execute(
            "create virtual table text using fts5(id unindexed, content, tokenize='porter unicode61')"
        )
        database.executemany("insert into text values (?, ?)", _list_texts(persona))
        results = []
        for question in persona.questions:
            words = re.findall(r"\w+", question.text)
            rows = database.execute(
                "select id from text where text match ? order by rank limit ?",
                (" OR ".join(f'"{word}"' for word in words), LIMIT),
            )
            found = tuple(row[0] for row in rows) if words else ()
            results.append(QuestionResult(question=question, persona=persona.name, found=found))
        return results
    finally:
        database.close()


def _list_texts(persona: Persona) -> Iterable[tuple[str, str]]:
    for _, event in persona.events:
        if "turns" in event:
            yield from ((turn["id"], turn["text"]) for turn in event["turns"])
        else:
            yield event["id"], " ".join((event["text"], event.get("category") or "", *event.get("tags", ())))


def summarize(results: Sequence[QuestionResult]) -> dict[str, float]:
    """Return the figures of some results by name; a figure that does not apply is left out.

    `recall@1` and `recall@5`: share of wanted answers among the first hits. `prompt`: share that stands in
    the prompt. `outdated`: share of updates where what held before stands first; `unmarked`: where it stands in the
    prompt without a mark. `wrong marks`: share of marked lines among those of facts that nothing replaces. `empty`:
    share of answerable questions without any hit. `nothing precision` and `nothing recall`: of finding nothing. `known
    empty` and `unknown empty`: share of answerable and of other questions for which it says that nothing is known.
    `lines`: lines of memory in the prompt, without pages and rules. `stable` and `changing`: tokens of its parts.
    """
    answerable = [result for result in results if result.question.answers]
    figures: dict[str, float] = {"questions": len(results)}
    if answerable:
        count = len(answerable)
        figures["recall@1"] = sum(result.recall(1) for result in answerable) / count
        figures["recall@5"] = sum(result.recall(LIMIT) for result in answerable) / count
        if all(result.prompt is not None for result in answerable):
            figures["prompt"] = sum(result.prompt_recall() for result in answerable) / count
        figures["empty"] = sum(not result.found for result in answerable) / count
    if updates := [result for result in answerable if result.question.outdated]:
        figures["outdated"] = sum(result.is_outdated_first for result in updates) / len(updates)
        figures["unmarked"] = sum(result.has_unmarked_outdated for result in updates) / len(updates)
    if unanswerable := [result for result in results if not result.question.answers]:
        refused = sum(not result.found for result in results)
        right = sum(not result.found for result in unanswerable)
        figures["nothing recall"] = right / len(unanswerable)
        if refused:
            figures["nothing precision"] = right / refused
    figures |= _summarize_prompts(results)
    return figures


def _summarize_prompts(results: Sequence[QuestionResult]) -> dict[str, float]:
    prompts = [(result, result.prompt) for result in results if result.prompt is not None]
    if not prompts:
        return {}
    figures: dict[str, float] = {}
    for name, known in (("known empty", True), ("unknown empty", False)):
        of_kind = [
            prompt.knows_nothing
            for result, prompt in prompts
            if bool(result.question.answers) is known
            and result.question.type not in ("instruction", "unrelated")
        ]
        if of_kind:
            figures[name] = sum(of_kind) / len(of_kind)
    current = [
        is_marked
        for result, prompt in prompts
        for name, is_marked in prompt.is_marked.items()
        if name not in result.replaced
    ]
    if current:
        figures["wrong marks"] = sum(current) / len(current)
    for name in ("lines", "stable", "changing"):
        figures[name] = sum(getattr(prompt, name) for _, prompt in prompts) / len(prompts)
    return figures


_COLUMNS = (
    "questions",
    "recall@1",
    "recall@5",
    "prompt",
    "outdated",
    "unmarked",
    "wrong marks",
    "empty",
    "nothing recall",
    "known empty",
    "unknown empty",
    "lines",
    "stable",
    "changing",
)


def run(
    folder: str | Path,
    *,
    sealed: bool = False,
    size: int | None = None,
    embedder: str = NO_EMBEDDER,
    out: str | Path | None = None,
) -> int:
    """Ask all personas of a folder, print the figures by type and by persona, and return the exit code 0.

    Args:
        folder: The collection.
        sealed: Whether to ask the personas that are kept for final figures, in place of the others.
        size: Facts of one memory; None puts all facts and conversations of a persona into one.
        embedder: The embedder of the memories, as in the setting.
        out: A file for all figures as JSON.

    Raises:
        InvalidInput: the collection cannot be read, or `out` cannot be written.
    """
    file = check_output_file(out)
    personas = read_personas(folder, sealed=sealed)
    if size is not None:
        personas = [part for persona in personas for part in divide_persona(persona, size)]
    unrelated = tuple(read_unrelated(sealed=sealed))
    personas = [replace(each, questions=(*each.questions, *unrelated)) for each in personas]
    engines = {
        "Reverie": [result for persona in personas for result in ask_questions(persona, embedder=embedder)],
        "FTS5": [result for persona in personas for result in ask_fts5(persona)],
    }
    figures = {engine: _summarize_groups(results) for engine, results in engines.items()}
    for engine, groups in figures.items():
        rows = (
            [name, *(_format(group.get(column)) for column in _COLUMNS)] for name, group in groups.items()
        )
        print_table(_COLUMNS, rows, (), title=engine)
    write_json(file, {"sealed": sealed, "embedder": embedder, "engines": figures})
    return 0


def _summarize_groups(results: Sequence[QuestionResult]) -> dict[str, dict[str, float]]:
    """Return the figures of all results, of each type and of each persona."""
    groups: dict[str, list[QuestionResult]] = defaultdict(list)
    for result in results:
        groups["all"].append(result)
    for result in sorted(results, key=lambda result: result.question.type):
        groups[result.question.type].append(result)
    for result in results:
        groups[result.persona].append(result)
    return {name: summarize(group) for name, group in groups.items()}


def _format(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
