"""How is background thinking put together? The worker over a store, with its passes and its model."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import cast, get_args

from reverie.consolidation.cycle import DREAM, PASSES, ConsolidationCycle
from reverie.consolidation.passes.extract import NAME as EXTRACT
from reverie.consolidation.passes.extract import extract
from reverie.consolidation.plan import Plan, PlanStep
from reverie.consolidation.planning.driver import run_pass
from reverie.consolidation.windows import Kind, WindowConsolidator
from reverie.consolidation.worker import Worker
from reverie.domain.errors import InvalidInput
from reverie.domain.record import Kind as Kinds
from reverie.domain.record import Origin
from reverie.llm.protocol import Answering, Model, model_from_function, model_from_name
from reverie.repositories.records import NewRecord, RecordRepository
from reverie.settings import Settings
from reverie.stores.writer import StoreWriter


def make_worker(
    writer: StoreWriter,
    *,
    settings: Settings,
    model: Model | Answering | str | None,
    profile: Path | None,
) -> Worker:
    """The worker over a store.

    Args:
        writer: Commits the changes.
        settings: The settings.
        model: What is asked, by name, as a model or as a function; None for nobody.
        profile: The folder of the user's own prompts.
    """
    dreaming = ConsolidationCycle(
        writer,
        settings=settings,
        model=resolve_model(model),
        profile=profile,
    )
    consolidating = WindowConsolidator(
        writer.store, settings=settings, answer=dreaming.answer, view=dreaming.view
    )
    return Worker(writer, dreaming, consolidating, settings=settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRequest:
    """What a pass is to be about, as `Memory.plan` takes it.

    Attributes:
        session: Whose window, for the passes over one.
        keep: How many of its turns stay.
        output: What a step of work put out.
        step: The step's name.
        scope: Whose memory what is extracted becomes.
        origin: Whose word the output is.
    """

    session: str | None = None
    keep: int | None = None
    output: str | None = None
    step: str = ""
    scope: str = ""
    origin: Origin = "agent"


def plan_pass(worker: Worker, saving: RecordRepository, name: str, asked: PassRequest) -> Plan:
    """The plan of any pass; nothing is written.

    Args:
        worker: What runs it.
        saving: What decides whether something is known already.
        name: The pass (see `Memory.plan`).
        asked: What it is about.

    Raises:
        InvalidInput: there is no such pass, or it was not given what it needs, or more.
        NotFound: there is no such session.
    """
    if name in get_args(Kind):
        kind = cast("Kind", name)
        if asked.session is None or asked.output is not None:
            raise InvalidInput(f"{name} is about a session: pass session=, and no output")
        return worker.plan(asked.session, kind, keep=asked.keep)
    if asked.session is not None or asked.keep is not None:
        raise InvalidInput(f"{name} is not about one session: leave out session and keep")
    if name == EXTRACT:
        if not isinstance(asked.output, str):
            raise InvalidInput("extract is about what a step put out: pass output=, a text")
        return _plan_extraction(worker.dreaming, saving, asked.output, asked)
    if asked.output is not None or asked.step or asked.scope:
        raise InvalidInput(f"{name} is not about an output: leave out output, step and scope")
    if name not in (DREAM, *PASSES):
        known = ", ".join((DREAM, *PASSES, *get_args(Kind), EXTRACT))
        raise InvalidInput(f"pass is {name!r}: use one of {known}")
    return worker.dreaming.plan(name)


def _plan_extraction(
    dreaming: ConsolidationCycle, saving: RecordRepository, output: str, asked: PassRequest
) -> Plan:
    view = dreaming.view()
    found = run_pass(extract(view, output, step=asked.step), dreaming.answer)
    lists: tuple[tuple[Kinds, tuple[str, ...]], ...] = (
        ("finding", found.findings),
        ("insight", found.insights),
        ("lesson", found.lessons),
    )
    notes = [
        NewRecord(content=text, kind=kind, source=asked.step, origin=asked.origin, scope=asked.scope)
        for kind, texts in lists
        for text in texts
    ]
    steps = [
        PlanStep(edit=edit, why=f"the output of {asked.step or 'a step'}") for edit in saving.planned(notes)
    ]
    return Plan(
        id=view.new_id(),
        name=EXTRACT,
        made_at=view.now,
        steps=tuple(steps),
        notes=(found.note,) if found.note else (),
        skipped="" if steps else found.note or "nothing in it is worth keeping",
        usage=found.usage,
    )


def resolve_model(given: Model | Answering | str | None) -> Model | None:
    """The model that is meant by a name, a function or a model; None for none.

    Raises:
        InvalidInput: it is none of these.
        MissingExtra: the model's library is not installed.
        ModelRefused: the model's key is missing.
    """
    if given is None:
        return None
    if isinstance(given, str):
        return model_from_name(given, environ=os.environ)
    if isinstance(given, Model):
        return given
    if callable(given):
        return model_from_function(given)
    raise InvalidInput(f"model is {given!r}: pass provider:model, a model, or a function")
