"""Run of an evaluation: it fills memories through the public API, and asks the questions.

Memories are folders on disk. Conversations use `Session.add_many` and `Memory.search`, documents `Memory.save_many` and
`Memory.search`.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import assert_never, get_args

from evaluation.boards.datasets import (
    Dataset,
    Dialogue,
    Dialogues,
    DocumentCollection,
    EvalDocument,
    EvalQuestion,
    map_turn_sessions,
)
from evaluation.boards.report import EvalAnswer, EvalReport, EvalSetup, summarize_answers
from evaluation.output import SEED
from reverie.admin.transfer.batch import SOURCE_ID
from reverie.domain.errors import InvalidInput
from reverie.domain.record import LONGEST_CONTENT
from reverie.domain.text.validation import clean_text
from reverie.evals.command import embed_all
from reverie.llm.embedding import NO_EMBEDDER
from reverie.memory import Memory
from reverie.repositories.records import NewRecord
from reverie.search.hits import Hit, Unit

Progress = Callable[[str, int, int], None]
"""Callback that receives the name of a task, the number of finished items, and the number of all items."""

KS = (5, 10, 20)
OTHERS = 50
"""Number of questions about the next conversation that each conversation is asked, and cannot answer."""

_SAVED_AT = datetime(2024, 1, 1, tzinfo=UTC)
_BATCH = 1_000


def evaluate(
    dataset: Dataset,
    *,
    unit: Unit = "turn",
    ks: Sequence[int] = KS,
    conversations: Sequence[int] | None = None,
    min_score: float = 0.0,
    embedder: str = NO_EMBEDDER,
    progress: Progress = lambda what, done, total: None,
) -> EvalReport:
    """Ask every question of a collection and measure the results.

    Each conversation has its own memory, and is also asked up to 50 questions about the next one, which it cannot
    answer. Documents share a memory. The clock of a memory is one day after the last turn, so the figures do not depend
    on the current time.

    Args:
        dataset: The collection, from `evaluation.boards.readers.read_dataset`.
        unit: Whether turns or whole sessions should be found; documents have no sessions.
        ks: Depths of the rankings to measure at.
        conversations: Numbers of the conversations to use, from 0; None for all.
        min_score: Least score of a hit.
        embedder: The embedder of the memories, as in the setting; everything is embedded before the first question.
        progress: Receives the progress.

    Raises:
        InvalidInput: `ks`, `unit` or `conversations` does not fit the collection.
    """
    if unit not in get_args(Unit):
        raise InvalidInput(f"unit is {unit!r}: use one of {', '.join(get_args(Unit))}")
    if not ks or any(k < 1 for k in ks):
        raise InvalidInput(f"ks is {list(ks)!r}: pass one or more numbers from 1")
    setup = EvalSetup(
        unit=unit,
        ks=tuple(sorted(set(ks))),
        conversations=None if conversations is None else tuple(dict.fromkeys(conversations)),
        min_score=min_score,
        embedder=embedder,
    )
    match dataset:
        case Dialogues():
            return _evaluate_dialogues(dataset, setup, progress)
        case DocumentCollection():
            if unit != "turn" or conversations is not None:
                raise InvalidInput(f"{dataset.name} has documents: leave out unit and conversations")
            return _evaluate_documents(dataset, setup, progress)
        case _:
            assert_never(dataset)


# -- conversations -----------------------------------------------------------------------------------


def _evaluate_dialogues(dataset: Dialogues, setup: EvalSetup, progress: Progress) -> EvalReport:
    count = len(dataset.dialogues)
    chosen = range(count) if setup.conversations is None else setup.conversations
    if wrong := [number for number in chosen if not 0 <= number < count]:
        raise InvalidInput(f"there is no conversation {wrong[0]}: {dataset.name} has 0 to {count - 1}")
    answers: list[EvalAnswer] = []
    filling = 0.0
    total = sum(_count_asked(dataset.dialogues[n].questions) for n in chosen)
    for n in chosen:
        dialogue = dataset.dialogues[n]
        with _open_memory(_compute_time_after(dialogue), setup) as memory:
            began = time.perf_counter()
            for session in dialogue.sessions:
                memory.session(session.session).add_many(session.turns)
            embed_all(memory)
            filling += time.perf_counter() - began
            others = _sample_questions(dataset.dialogues[(n + 1) % count], n) if count > 1 else []
            for answer in _ask_dialogue(memory, dialogue, setup):
                answers.append(answer)
                progress("questions", len(answers), total)
            answers += [
                replace(answer, answerable=False, evidence={}) for answer in _ask_turns(memory, others, setup)
            ]
    turns = sum(len(session.turns) for n in chosen for session in dataset.dialogues[n].sessions)
    return summarize_answers(
        dataset,
        answers,
        setup,
        sizes={
            "conversations": len(chosen),
            "turns": turns,
            "unmeasured": _count_unmeasured(dataset, chosen),
        },
        filling=filling,
    )


def _ask_dialogue(memory: Memory, dialogue: Dialogue, setup: EvalSetup) -> Iterator[EvalAnswer]:
    """Ask a conversation its own questions."""
    sessions = map_turn_sessions(dialogue)
    for answer in _ask_turns(memory, dialogue.questions, setup):
        if setup.unit == "session":
            ascending = sorted(answer.evidence.items(), key=itemgetter(1))
            answer = replace(answer, evidence={sessions[turn]: grade for turn, grade in ascending})
        yield answer


def _ask_turns(memory: Memory, questions: Sequence[EvalQuestion], setup: EvalSetup) -> Iterator[EvalAnswer]:
    search = partial(
        memory.search, limit=setup.depth, unit=setup.unit, min_score=setup.min_score, sources="turns"
    )
    if setup.unit == "session":
        return _ask(questions, search, lambda hit: [hit.id])
    return _ask(questions, search, lambda hit: [hit.metadata.get(SOURCE_ID, "")])


def _ask(
    questions: Sequence[EvalQuestion],
    search: Callable[[str], Sequence[Hit]],
    list_names: Callable[[Hit], Sequence[str]],
) -> Iterator[EvalAnswer]:
    """Ask every question that has evidence, or no answer.

    Args:
        questions: The questions.
        search: Returns the hits for a question.
        list_names: Returns the names of a hit in the evidence.
    """
    for question in questions:
        if question.answerable and not question.evidence:
            continue
        began = time.perf_counter()
        hits = search(question.text)
        took = time.perf_counter() - began
        yield EvalAnswer(
            question=question,
            answerable=question.answerable,
            evidence=question.evidence,
            ranking=tuple(name for hit in hits for name in list_names(hit)),
            top=hits[0].score if hits else 0.0,
            milliseconds=took * 1000,
        )


def _compute_time_after(dialogue: Dialogue) -> datetime:
    said = [turn["at"] for session in dialogue.sessions for turn in session.turns if "at" in turn]
    return max(said, default=_SAVED_AT) + timedelta(days=1)


def _sample_questions(dialogue: Dialogue, seed: int) -> list[EvalQuestion]:
    usable = [question for question in dialogue.questions if question.evidence]
    return random.Random(SEED + seed).sample(usable, min(OTHERS, len(usable)))


def _count_asked(questions: Sequence[EvalQuestion]) -> int:
    return sum(bool(question.evidence) or not question.answerable for question in questions)


def _count_unmeasured(dataset: Dialogues, chosen: Sequence[int]) -> int:
    questions = [question for n in chosen for question in dataset.dialogues[n].questions]
    return len(questions) - _count_asked(questions)


# -- documents ---------------------------------------------------------------------------------------


def _evaluate_documents(dataset: DocumentCollection, setup: EvalSetup, progress: Progress) -> EvalReport:
    answers: list[EvalAnswer] = []
    total = _count_asked(dataset.questions)
    with _open_memory(_SAVED_AT, setup) as memory:
        began = time.perf_counter()
        sources = save_documents(memory, dataset.documents, progress)
        embed_all(memory)
        filling = time.perf_counter() - began
        search = partial(memory.search, limit=setup.depth, min_score=setup.min_score)
        for answer in _ask(dataset.questions, search, lambda hit: sources.get(hit.id, [])):
            answers.append(answer)
            progress("questions", len(answers), total)
    sizes = {
        "documents": len(dataset.documents),
        "folded": len(dataset.documents) - len(sources),
        "unmeasured": len(dataset.questions) - total,
    }
    return summarize_answers(dataset, answers, setup, sizes=sizes, filling=filling)


def save_documents(
    memory: Memory, documents: Sequence[EvalDocument], progress: Progress
) -> dict[str, list[str]]:
    """Save the documents; return the ids of the documents of each record, since equal ones share a record."""
    sources: dict[str, list[str]] = {}
    remaining = iter(documents)
    done = 0
    while batch := list(islice(remaining, _BATCH)):
        notes = [
            NewRecord(content=clean_text(document.text)[:LONGEST_CONTENT], source=document.id[:200])
            for document in batch
        ]
        for document, saved in zip(batch, memory.save_many(notes), strict=True):
            sources.setdefault(saved.record.id, []).append(document.id)
        done += len(batch)
        progress("documents", done, len(documents))
    return sources


@contextmanager
def _open_memory(now: datetime, setup: EvalSetup) -> Iterator[Memory]:
    """Open a memory in a temporary folder."""
    with (
        tempfile.TemporaryDirectory(prefix="reverie-eval-") as folder,
        Memory.open(folder, clock=lambda: now, embedder=setup.embedder) as memory,
    ):
        yield memory
