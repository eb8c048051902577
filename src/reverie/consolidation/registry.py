"""Registry of the passes.

Adding a pass: write a function from `PassInput` to a plan in `passes`, and register it here. Add its name to
`DREAM` if it is to run in every cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from reverie.consolidation.passes import (
    compact,
    digest,
    enrich,
    extract,
    infer,
    merge,
    promote,
    remember,
    supersede,
    trim,
    verify,
)
from reverie.consolidation.passes.extract import Extraction
from reverie.consolidation.passes.remember import Remembered
from reverie.consolidation.plan import Plan
from reverie.consolidation.planning.driver import Flow
from reverie.consolidation.planning.inputs import PassInput, WindowInput
from reverie.consolidation.planning.signals import Signal, collect_signals
from reverie.settings import Settings

Input = Literal[
    "records",
    "earlier turns",
    "injected texts",
    "left over",
    "left turns",
    "headlines",
    "drafts",
    "remembered",
    "session",
    "output",
]

Outcome = Plan | Extraction | Remembered | verify.Verified
"""Result of a pass: a plan, or records that are planned as saves are."""

DREAM = ("enrich", "verify", "merge", "infer", "supersede", "promote")
"""Passes of a dream, in the order in which they run."""

VERIFIED = ("verify", "merge", "infer", "supersede")
"""Passes of `DREAM`, in a row, for which the model verifies something, all in one request.

Where two of them change the same record, the first counts: a fact that is withdrawn is not filed.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """A registered pass.

    Attributes:
        name: Its name.
        build: Builds the plan, asking a model where it needs one.
        inputs: What it reads beside the records and turns that a dream is about. A pass that reads `session` or
            `output` is about one of these; the others are about what has changed since they last ran.
        prompt: File name of its prompt; empty for a pass that asks no model.
        prompt_setting: Setting with the name of the user's own prompt file; empty where it is `prompt`.
        setting: Setting that switches it on; empty for a pass that is always on.
        without_model: Why it does nothing without a model; empty for a pass that works without one.
    """

    name: str
    build: Callable[[PassInput, Settings], Flow[Outcome]]
    inputs: tuple[Input, ...] = ()
    prompt: str = ""
    prompt_setting: str = ""
    setting: str = ""
    without_model: str = ""

    def reads(self, name: Input) -> bool:
        """Whether it reads this input."""
        return name in self.inputs

    def find_own_prompt(self, settings: Settings) -> str:
        """Return the file name of the user's own prompt; empty where it has no prompt."""
        return str(getattr(settings, self.prompt_setting)) if self.prompt_setting else self.prompt

    def explain_off(self, settings: Settings, *, has_model: bool) -> str:
        """Return why it does nothing now; empty where it does something."""
        if self.setting and not getattr(settings, self.setting):
            return f"{self.setting} is off"
        return "" if has_model else self.without_model


def _collect_signals(view: PassInput) -> list[Signal]:
    turns = (*view.earlier, *view.turns)
    return list(collect_signals(turns, view.records, now=view.now, changed=view.changed))


def _plan(plan: Plan) -> Flow[Outcome]:
    """Return the flow of a pass that asks no model."""
    yield from ()
    return plan


def _get_window(view: PassInput) -> WindowInput:
    assert view.window is not None
    return view.window


PASSES: Mapping[str, Pass] = MappingProxyType(
    {
        registered.name: registered
        for registered in (
            Pass(
                name=enrich.NAME,
                inputs=("drafts",),
                build=lambda view, _: enrich.enrich_drafts(view),
                prompt=enrich.PROMPT,
                prompt_setting="memory_rules",
                setting="enrich",
                without_model="no model: rough notes stay as they are",
            ),
            Pass(
                name=verify.NAME,
                inputs=("remembered",),
                build=lambda view, _: verify.verify(view),
                without_model="no model: only a model verifies the facts that a model wrote down",
            ),
            Pass(
                name=merge.NAME,
                inputs=("left over", "headlines"),
                build=lambda view, _: merge.merge(view, _collect_signals(view)),
                prompt=merge.PROMPT,
                prompt_setting="dream_directive",
            ),
            Pass(
                name=infer.NAME,
                inputs=("left turns", "earlier turns", "injected texts"),
                build=lambda view, _: infer.infer(
                    view, injected=view.injected, signals=_collect_signals(view)
                ),
                prompt=infer.PROMPT,
                prompt_setting="preference_directive",
                setting="preference_inference",
            ),
            Pass(
                name=supersede.NAME,
                build=lambda view, _: supersede.supersede(view),
                prompt=supersede.PROMPT,
                without_model="no model: only rules end what has changed",
            ),
            Pass(
                name=promote.NAME,
                build=lambda view, settings: _plan(
                    promote.promote(view, min_confidence=settings.promotion_min_confidence)
                ),
                setting="promotion_enabled",
            ),
            Pass(
                name=digest.NAME,
                inputs=("session",),
                build=lambda view, _: digest.digest(view, _get_window(view)),
                prompt=digest.PROMPT,
            ),
            Pass(
                name=compact.NAME,
                inputs=("session",),
                build=lambda view, _: compact.compact(view, _get_window(view)),
                prompt=compact.PROMPT,
            ),
            Pass(
                name=remember.NAME,
                inputs=("session", "records"),
                build=lambda view, _: remember.remember(view, _get_window(view)),
                prompt=remember.PROMPT,
                setting="remember",
                without_model="no model: only rules learn from conversations",
            ),
            Pass(
                name=trim.NAME,
                inputs=("session",),
                build=lambda view, _: _plan(trim.trim(view, _get_window(view))),
            ),
            Pass(
                name=extract.NAME,
                inputs=("output",),
                build=lambda view, _: extract.extract(view, view.output, step=view.step),
                prompt=extract.PROMPT,
            ),
        )
    }
)
"""The passes by name."""
