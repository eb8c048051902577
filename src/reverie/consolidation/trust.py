"""Trust in a model: its last dream, and its exam.

A model is believed in a dream if it denies the controls among its claims. What is stored here decides where no control
can be made, and whether its paragraphs are shown.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib.resources import files
from typing import Any

from reverie.consolidation.answers import iter_numbered, read_answer
from reverie.consolidation.flows import CLAIM_SCHEMA, PROMPT, Ask, Claim, build_claim_request, is_supported
from reverie.consolidation.inputs import PassInput
from reverie.domain.text.timestamps import format_time
from reverie.llm.protocol import TokenUsage
from reverie.stores.writer import StoreWriter

_log = logging.getLogger("reverie")

TRUST = "model.trust"
"""The store's cursor with what is known of each model, as JSON."""

MAX_FALSE = 1
"""Largest number of wrong claims that a trusted model calls supported in the exam."""

MIN_TRUE = 15
"""Least number of right claims that it calls supported."""

_PER_REQUEST = 10
_MAX_MODELS = 20


@dataclass(frozen=True, slots=True)
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
    rows: tuple[ExamRow, ...] = ()
    is_passed: bool = False
    failed: str = ""
    usage: TokenUsage = field(default_factory=TokenUsage)


class ModelTrust:
    """What one store knows of a model. Safe to use from several threads."""

    def __init__(self, writer: StoreWriter, model: str) -> None:
        self._writer = writer
        self._model = model

    def is_trusted(self) -> bool | None:
        """Return whether the model is believed without controls; None if nothing is known of it."""
        known = self._load().get(self._model, {})
        last, exam = known.get("believed"), known.get("exam")
        if last is False or (exam is not None and not exam.get("passed")):
            return False
        return True if last is True or exam is not None else None

    def note(self, *, is_believed: bool) -> None:
        """Store whether the model was believed in a dream."""
        if self._load().get(self._model, {}).get("believed") is not is_believed:
            self._write({"believed": is_believed, "at": format_time(self._writer.clock())})

    def note_exam(self, report: ExamReport) -> None:
        """Store the result of an exam. A model that passes it is believed again."""
        rows = [[row.kind, row.right, row.accepted, row.wrong, row.believed] for row in report.rows]
        exam = {"at": format_time(report.at), "passed": report.is_passed, "rows": rows}
        self._write({"exam": exam, **({"believed": True} if report.is_passed else {})})

    def _load(self) -> dict[str, dict[str, Any]]:
        try:
            found = json.loads(self._writer.store.cursor(TRUST) or "{}")
            return {name: dict(known) for name, known in found.items()}
        except (ValueError, TypeError, AttributeError):
            _log.warning("what is known of models cannot be read and is begun anew")
            return {}

    def _write(self, fields: Mapping[str, Any]) -> None:
        known = self._load()
        known[self._model] = {**known.pop(self._model, {}), **fields}
        text = json.dumps(dict(list(known.items())[-_MAX_MODELS:]), ensure_ascii=False)
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


def take_exam(model: str, ask: Ask, view: PassInput) -> ExamReport:
    """Ask a model about the claims of the exam, in four requests.

    Args:
        model: Its name.
        ask: Asks it.
        view: The prompts and the moment.
    """
    items = read_exam()
    usage = TokenUsage()
    results: list[tuple[str, bool, bool]] = []
    for start in range(0, len(items), _PER_REQUEST):
        part = items[start : start + _PER_REQUEST]
        reply = ask(build_claim_request(view.prompt(PROMPT), [claim for claim, _ in part]))
        answer = read_answer(reply, CLAIM_SCHEMA)
        usage += answer.usage
        if answer.why and not answer.is_unusable:
            return ExamReport(model=model, at=view.now, failed=answer.why, usage=usage)
        given = dict(iter_numbered(answer.fields.get("claims"), "claim"))
        results += [
            (claim.kind, is_right, is_supported(given.get(number)))
            for number, (claim, is_right) in enumerate(part, 1)
        ]
    rows = tuple(
        ExamRow(
            kind,
            right=sum(is_right for name, is_right, _ in results if name == kind),
            accepted=results.count((kind, True, True)),
            wrong=sum(not is_right for name, is_right, _ in results if name == kind),
            believed=results.count((kind, False, True)),
        )
        for kind in dict.fromkeys(name for name, _, _ in results)
    )
    is_passed = (
        sum(row.accepted for row in rows) >= MIN_TRUE and sum(row.believed for row in rows) <= MAX_FALSE
    )
    return ExamReport(model=model, at=view.now, rows=rows, is_passed=is_passed, usage=usage)
