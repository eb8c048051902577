"""How is background thinking put together? The worker over a store, with its passes and its model."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from reverie.clock import Clock
from reverie.config import Settings
from reverie.consolidating import Consolidating
from reverie.dreaming import Dreaming
from reverie.edits import JournalRow
from reverie.errors import InvalidInput
from reverie.ids import NewId
from reverie.providers.base import Answering, Model, called, named
from reverie.stores.base import Store
from reverie.worker import Worker


def worker(
    store: Store,
    *,
    clock: Clock,
    new_id: NewId,
    settings: Settings,
    model: Model | Answering | str | None,
    profile: Path | None,
    notice: Callable[[Sequence[JournalRow]], None],
) -> Worker:
    """The worker over a store.

    Args:
        store: What is thought about.
        clock: What tells the time.
        new_id: What makes ids.
        settings: The settings.
        model: What is asked, by name, as a model or as a function; None for nobody.
        profile: The folder of the user's own prompts.
        notice: Told of every change made.
    """
    dreaming = Dreaming(
        store,
        clock=clock,
        new_id=new_id,
        settings=settings,
        model=model_of(model),
        profile=profile,
        notice=notice,
    )
    consolidating = Consolidating(store, settings=settings, answer=dreaming.answer, view=dreaming.view)
    return Worker(store, dreaming, consolidating, clock=clock, settings=settings)


def model_of(given: Model | Answering | str | None) -> Model | None:
    """The model that is meant by a name, a function or a model; None for none.

    Raises:
        InvalidInput: it is none of these.
        MissingExtra: the model's library is not installed.
        ModelRefused: the model's key is missing.
    """
    if given is None:
        return None
    if isinstance(given, str):
        return named(given, environ=os.environ)
    if isinstance(given, Model):
        return given
    if callable(given):
        return called(given)
    raise InvalidInput(f"model is {given!r}: pass provider:model, a model, or a function")
