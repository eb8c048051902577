"""Trust in a model: its last dream, and its exam.

A model is believed in a dream if it denies the controls among its claims. What is stored here decides where no control
can be made, and whether its paragraphs are shown.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib.resources import files
from typing import Any

from reverie.consolidation.planning.inputs import PassInput
from reverie.consolidation.planning.requests import iter_numbered, read_answer, to_text
from reverie.consolidation.planning.verification import (
    CLAIM_SCHEMA,
    PROMPT,
    Claim,
    build_claim_request,
    format_claims,
)
from reverie.domain.text.timestamps import format_time
from reverie.llm.protocol import ModelFailure, ModelReply, ModelRequest, TokenUsage
from reverie.stores.writer import StoreWriter

_log = logging.getLogger("reverie")

TRUST = "model.trust"
"""The store's cursor with what is known of each model, as JSON."""

MAX_FALSE = 1
"""Largest number of wrong claims that a trusted model calls supported in the exam."""

MIN_TRUE = 15
"""Least number of right claims that it calls supported."""

_PER_REQUEST = 10
_MOST_MODELS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamRow:
    """Result of the exam in one kind of claim.

    Attributes:
        kind: The kind, such as `headline`.
        right: Right claims in the exam.
        accepted: Right claims that the model calls supported.
        wrong: Wrong claims in the exam.
        believed: Wrong claims that the model calls supported.
    """

    kind: str
    right: int
    accepted: int
    wrong: int
    believed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamReport:
    """Result of an exam.

    Attributes:
        model: Name of the model.
        at: When it was taken.
        rows: The results by kind.
        is_passed: Whether the model is trusted by default.
        failed: Why it could not be finished; empty if it was. Nothing is stored then.
        usage: Its cost.
    """

    model: str
    at: datetime
    rows: tuple[ExamRow, ...]
    is_passed: bool
    failed: str = ""
    usage: TokenUsage = field(default_factory=TokenUsage)


class ModelTrust:
    """What one store knows of models. Safe to use from several threads."""

    def __init__(self, writer: StoreWriter) -> None:
        self._writer = writer

    def read(self, model: str) -> Mapping[str, Any]:
        """Return the facts about a model: `believed` in its last dream, and its `exam`."""
        found = self._load().get(model)
        return found if isinstance(found, dict) else {}

    def is_trusted(self, model: str) -> bool | None:
        """Return whether a model is believed without controls; None if nothing is known of it."""
        known = self.read(model)
        last, exam = known.get("believed"), known.get("exam")
        if last is False or (isinstance(exam, dict) and exam.get("passed") is False):
            return False
        return True if last is True or exam is not None else None

    def note(self, model: str, *, is_believed: bool) -> None:
        """Store whether a model was believed in a dream."""
        if self.read(model).get("believed") is not is_believed:
            self._write(model, {"believed": is_believed, "at": format_time(self._writer.clock())})

    def note_exam(self, report: ExamReport) -> None:
        """Store the result of an exam. A model that passes it is believed again."""
        rows = [[row.kind, row.right, row.accepted, row.wrong, row.believed] for row in report.rows]
        exam = {"at": format_time(report.at), "passed": report.is_passed, "rows": rows}
        self._write(report.model, {"exam": exam, **({"believed": True} if report.is_passed else {})})

    def _load(self) -> dict[str, Any]:
        try:
            found = json.loads(self._writer.store.cursor(TRUST) or "{}")
        except ValueError:
            _log.warning("what is known of models cannot be read and is begun anew")
            return {}
        return found if isinstance(found, dict) else {}

    def _write(self, model: str, fields: Mapping[str, Any]) -> None:
        known = self._load()
        known[model] = {**known.pop(model, {}), **fields}
        text = json.dumps(dict(list(known.items())[-_MOST_MODELS:]), ensure_ascii=False)
        self._writer.commit([], cursors={TRUST: text})


# -- the exam ----------------------------------------------------------------------------------------------


def read_exam() -> list[tuple[Claim, bool]]:
    """Return the claims of the exam, each with whether it is right."""
    text = files("reverie.consolidation").joinpath("exam.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    return [
        (Claim(kind=row["kind"], text=row["claim"], evidence=tuple(row["evidence"])), row["right"])
        for row in rows
    ]


def take_exam(
    model: str, ask: Callable[[ModelRequest], ModelReply | ModelFailure], view: PassInput
) -> ExamReport:
    """Ask a model about the claims of the exam, in four requests.

    Args:
        model: Its name.
        ask: Asks it.
        view: The prompts and the moment.
    """
    items = read_exam()
    usage = TokenUsage()
    verdicts: list[bool] = []
    for start in range(0, len(items), _PER_REQUEST):
        claims = [claim for claim, _ in items[start : start + _PER_REQUEST]]
        reply = ask(
            build_claim_request(view.prompt(PROMPT).replace("{{claims}}", format_claims(claims)), len(claims))
        )
        answer = read_answer(reply, CLAIM_SCHEMA)
        usage += answer.usage
        if answer.why and not answer.is_unusable:
            return ExamReport(
                model=model, at=view.now, rows=(), is_passed=False, failed=answer.why, usage=usage
            )
        given = dict(iter_numbered(answer.fields.get("claims"), "claim"))
        verdicts += [
            number in given and to_text(given[number].get("verdict")).lower() == "supported"
            for number in range(1, len(claims) + 1)
        ]
    rows = tuple(_count(items, verdicts))
    accepted, believed = sum(row.accepted for row in rows), sum(row.believed for row in rows)
    is_passed = accepted >= MIN_TRUE and believed <= MAX_FALSE
    return ExamReport(model=model, at=view.now, rows=rows, is_passed=is_passed, usage=usage)


def _count(items: Sequence[tuple[Claim, bool]], verdicts: Sequence[bool]) -> Iterator[ExamRow]:
    for kind in dict.fromkeys(claim.kind for claim, _ in items):
        own = [
            (right, said) for (claim, right), said in zip(items, verdicts, strict=True) if claim.kind == kind
        ]
        yield ExamRow(
            kind=kind,
            right=sum(right for right, _ in own),
            accepted=sum(right and said for right, said in own),
            wrong=sum(not right for right, _ in own),
            believed=sum(not right and said for right, said in own),
        )
