"""`python -m evaluation pairs`: which older records newer ones end or mark, and how often that is right.

The facts of people are saved one by one in a memory each, as in use. A question that names an outdated fact tells which
newer facts replace it: those that answer it. Labelled pairs are judged by words alone.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from evaluation.measures.questions import Persona, read_personas
from evaluation.output import check_output_file, print_table, write_json
from reverie.domain.similarity.pair_model import judge_pair, list_thresholds
from reverie.evals.command import embed_all
from reverie.llm.embedding import NO_EMBEDDER, Embedder
from reverie.memory import Memory

SEALED_PAIRS = ("supersede-sealed.jsonl", "supersede-retold-sealed.jsonl", "fold-sealed.jsonl")
"""Labelled pairs to which nothing is fitted."""


@dataclass(slots=True)
class PairCounts:
    """Numbers of older records that were ended and marked, by whether that was right.

    Attributes:
        records: Judged newer records, or labelled pairs.
        replaced: Older ones that are labelled as replaced.
        ended: Ended ones, (right, wrong).
        marked: Marked ones, (right, wrong).
        mistakes: The texts of those ended wrongly, older and newer.
    """

    records: int = 0
    replaced: int = 0
    ended: list[int] = field(default_factory=lambda: [0, 0])
    marked: list[int] = field(default_factory=lambda: [0, 0])
    mistakes: list[tuple[str, str]] = field(default_factory=list)

    def add(self, other: PairCounts) -> None:
        """Add the counts of another part."""
        self.records += other.records
        self.replaced += other.replaced
        for mine, theirs in ((self.ended, other.ended), (self.marked, other.marked)):
            mine[0] += theirs[0]
            mine[1] += theirs[1]
        self.mistakes += other.mistakes

    def to_row(self, name: str) -> tuple[str, ...]:
        """Return the cells of a table."""
        numbers = (self.records, self.replaced, *self.ended, *self.marked)
        return (name, *(f"{number:,}" for number in numbers))


def judge_persona(persona: Persona, *, embedder: str | Embedder = NO_EMBEDDER) -> PairCounts:
    """Save the facts of a person at their times, judge after each, and return the counts."""
    now = persona.today
    replaced: dict[str, set[str]] = {}
    for question in persona.questions:
        for name in question.outdated:
            replaced.setdefault(name, set()).update(question.answers)
    names: dict[str, str] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory.open(folder, clock=lambda: now, embedder=embedder) as memory,
    ):
        for at, fact in persona.events:
            if "turns" in fact:
                continue
            now = at
            saved = memory.save(
                fact["text"], category=fact.get("category"), kind=fact.get("kind"), tags=fact.get("tags", ())
            )
            names[saved.record.id] = fact["id"]
            embed_all(memory)
            memory.dreams.judge_pending()
        now = persona.today
        records = memory.list(limit=None)
    counts = PairCounts(records=len(records), replaced=len(replaced.keys() & set(names.values())))
    contents = {record.id: record.content for record in records}
    for record in records:
        by = record.replaced_by or record.perhaps_replaced_by
        if by:
            is_wrong = names[by] not in replaced.get(names[record.id], ())
            (counts.ended if record.replaced_by else counts.marked)[is_wrong] += 1
            if is_wrong and record.replaced_by:
                counts.mistakes.append((record.content, contents[by]))
    return counts


def judge_labelled(file: Path) -> PairCounts:
    """Judge the pairs of a file by words."""
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()]
    thresholds = list_thresholds(with_vectors=False)
    counts = PairCounts(records=len(rows))
    for row in rows:
        is_replaced = row.get("expect") == "ends"
        counts.replaced += is_replaced
        chance = judge_pair(row["old"], row["new"])
        if chance >= thresholds["ends"]:
            counts.ended[not is_replaced] += 1
            if not is_replaced:
                counts.mistakes.append((row["old"], row["new"]))
        elif chance >= thresholds["marks"]:
            counts.marked[not is_replaced] += 1
    return counts


def run(folder: str | Path, *, embedder: str, show_errors: bool, out: str | None) -> int:
    """Judge the people of `questions` and `everyday` and the sealed pairs, print the counts, and return 0."""
    file, base = check_output_file(out), Path(folder).expanduser()
    people = [*read_personas(base / "questions"), *read_personas(base / "questions", sealed=True)]
    people += read_personas(base / "everyday", sealed=True)
    total = PairCounts()
    parts: dict[str, PairCounts] = {}
    for persona in people:
        parts[persona.name] = judge_persona(persona, embedder=embedder)
        total.add(parts[persona.name])
    parts["all people"] = total
    parts |= {Path(name).stem: judge_labelled(base / name) for name in SEALED_PAIRS}
    columns = ("records", "replaced", "ended", "wrongly", "marked", "wrongly")
    print_table(
        columns,
        [counts.to_row(name) for name, counts in parts.items()],
        [f"{old}\n  → {new}" for counts in parts.values() for old, new in counts.mistakes]
        if show_errors
        else [],
    )
    write_json(
        file,
        {
            name: {
                "records": counts.records,
                "replaced": counts.replaced,
                "ended": counts.ended,
                "marked": counts.marked,
            }
            for name, counts in parts.items()
        },
    )
    return 0
