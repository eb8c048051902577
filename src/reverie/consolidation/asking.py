"""Ask the model of a memory, and know how far it is believed.

Requests keep within the limit of the month, secrets in them are replaced, and their cost is noted. A model is believed
in a dream if it denies the controls among its claims. What is stored of that, and of its exam, decides where no control
can be made, and whether its paragraphs are shown.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from datetime import datetime
from importlib.resources import files

from reverie.consolidation.answers import LIMIT, NO_MODEL, TIMEOUT, iter_numbered, read_answer
from reverie.consolidation.flows import CLAIM_CHECK, Claim, build_claim_request, is_supported
from reverie.consolidation.values import PassInput
from reverie.domain.errors import ModelError, ModelRefused, ModelTimeout, StoreError
from reverie.llm.protocol import Model, ModelFailure, ModelReply, ModelRequest, TokenUsage
from reverie.settings import Settings
from reverie.stores.redacting import redact_request
from reverie.stores.telemetry import ask_model
from reverie.stores.writer import StoreWriter

_log = logging.getLogger("reverie")

_USAGE = ("requests", "input_tokens", "output_tokens", "cost")
_LONGEST_WHY = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthUsage(TokenUsage):
    """Cost of all requests of background thinking in a calendar month (UTC).

    Attributes:
        month: The month, such as `2026-03`.
    """

    month: str

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.input_tokens + self.output_tokens

    def __str__(self) -> str:
        cost = f", about ${self.cost:.2f}" if self.cost else ""
        return f"{self.month}: {self.requests} requests, {self.tokens:,} tokens{cost}"


class ModelAsker:
    """Asks a model for one store. Safe to use from several threads."""

    def __init__(self, writer: StoreWriter, *, settings: Settings, model: Model | None) -> None:
        self.model = model
        self.name = "" if model is None else model.name
        self.writer = writer
        self.settings = settings

    def ask(self, request: ModelRequest) -> ModelReply | ModelFailure:
        """Ask the model. A failure is counted, logged and returned, never raised."""
        if self.model is None:
            return NO_MODEL
        limit = self.settings.monthly_tokens
        if limit is not None and self.read_usage().tokens >= limit:
            return ModelFailure(why=f"{LIMIT}: {limit:,}, see the setting `monthly_tokens`")
        try:
            request = redact_request(request, self.settings.redactor)
            reply = ask_model(self.settings, self.model, request)
        except ModelError as error:
            why = str(error)[:_LONGEST_WHY]  # a server may repeat the whole request
            why = f"{TIMEOUT}{why}" if isinstance(error, ModelTimeout) else why
            _log.warning("the model gave no answer for %s: %s", request.purpose, why)
            self.count(f"model.{request.purpose}.failed")
            return ModelFailure(why=why, refused=isinstance(error, ModelRefused))
        usage = reply.usage
        micros = round((usage.cost or 0) * 1e6)
        values = (usage.requests, usage.input_tokens, usage.output_tokens, micros)
        month = f"{self.writer.clock():%Y-%m}"
        self.count(**{f"model.{month}.{name}": n for name, n in zip(_USAGE, values, strict=True) if n})
        return reply

    def read_usage(self) -> MonthUsage:
        """Return what the requests of this month cost."""
        month = f"{self.writer.clock():%Y-%m}"
        *counts, micros = (self.writer.store.count(f"model.{month}.{name}") for name in _USAGE)
        usage = dict(zip(_USAGE, counts, strict=False))
        return MonthUsage(month=month, **usage, cost=micros / 1e6)

    def is_trusted(self) -> bool | None:
        """Return whether the model is believed without controls; None if nothing is known of it."""
        found = self.writer.store.cursor(TRUST + self.name)
        return None if found is None else found == _BELIEVED

    def note_belief(self, *, is_believed: bool) -> None:
        """Store whether the model was believed in a dream; one that has failed its exam stays so."""
        found = _BELIEVED if is_believed else _DENIED
        if self.writer.store.cursor(TRUST + self.name) not in (found, _FAILED):
            self.writer.commit([], cursors={TRUST + self.name: found})

    def take_exam(self, view: PassInput) -> ExamReport:
        """Let the model take the exam, in four requests, and store the result. If it passes, it is believed again.

        Args:
            view: The prompts and the moment.
        """
        items = read_exam()
        usage = TokenUsage()
        results: list[tuple[str, bool, bool]] = []
        for start in range(0, len(items), _PER_REQUEST):
            part = items[start : start + _PER_REQUEST]
            reply = self.ask(build_claim_request(view, [claim for claim, _ in part]))
            answer = read_answer(reply, CLAIM_CHECK.forms)
            usage += answer.usage
            if answer.why and not answer.is_unusable:
                return ExamReport(model=self.name, at=view.now, failed=answer.why, usage=usage)
            verdicts = dict(iter_numbered(answer.fields.get("claims"), "claim"))
            results += [
                (claim.kind, is_right, is_supported(verdicts.get(number)))
                for number, (claim, is_right) in enumerate(part, 1)
            ]
        rows = []
        for kind in dict.fromkeys(kind for kind, _, _ in results):
            right = [given for name, is_right, given in results if name == kind and is_right]
            wrong = [given for name, is_right, given in results if name == kind and not is_right]
            rows.append(ExamRow(kind, len(right), sum(right), len(wrong), sum(wrong)))
        accepted, believed = (sum(row.accepted for row in rows), sum(row.believed for row in rows))
        is_passed = accepted >= MIN_TRUE and believed <= MAX_FALSE
        self.writer.commit([], cursors={TRUST + self.name: _BELIEVED if is_passed else _FAILED})
        return ExamReport(model=self.name, at=view.now, rows=tuple(rows), is_passed=is_passed, usage=usage)

    def count(self, *names: str, **counts: int) -> None:
        """Count failures, or add to other counters; what cannot be counted is logged."""
        counts |= dict.fromkeys(names, 1)
        try:
            self.writer.commit([], counts=counts)
        except StoreError as error:
            _log.warning("%s could not be counted: %s", ", ".join(counts), error)


# -- trust -----------------------------------------------------------------------------------------------

TRUST = "model.trust:"
"""Beginning of the name of the store's cursor with what is known of a model."""

_BELIEVED, _DENIED, _FAILED = "believed", "not believed", "failed its exam"

MAX_FALSE = 1
"""Largest number of wrong claims that a trusted model calls supported in the exam."""

MIN_TRUE = 15
"""Least number of right claims that it calls supported."""

_PER_REQUEST = 10


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


# -- the exam ----------------------------------------------------------------------------------------------


def read_exam() -> list[tuple[Claim, bool]]:
    """Return the claims of the exam, each with whether it is right."""
    text = files("reverie.consolidation").joinpath("exam.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    return [
        (Claim(kind=row["kind"], text=row["claim"], evidence=tuple(row["evidence"])), row["right"])
        for row in rows
    ]
