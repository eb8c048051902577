"""Registry of the passes.

Adding a pass: write a function from `PassInput` to a plan in `passes`, and register it here. Add its name to
`DREAM` if it is to run in every dream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from reverie.consolidation.passes import compact, drafts, preferences, read, tidy, verify
from reverie.consolidation.plan import Plan
from reverie.consolidation.planning.flows import Flow
from reverie.consolidation.planning.inputs import PassInput
from reverie.consolidation.planning.verification import PROMPT as CLAIM_PROMPT

Input = Literal["drafts", "claims", "headlines", "signals", "evidence", "session", "output"]

DREAM = ("enrich", "verify", "tidy", "preferences", "promote")
"""Passes of a dream, in the order in which they run."""

VERIFIED = ("verify", "tidy", "preferences")
"""Passes of `DREAM`, in a row, whose claims are verified together.

If two of them change the same record, the first counts: a sentence that is dropped is not filed.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """A registered pass.

    Attributes:
        name: Its name.
        build: Builds the plan, asking a model if it needs one.
        inputs: What it reads besides the records and turns that a dream is about. A pass that reads `session` or
            `output` is about one of these; the others are about the changes since they last ran.
        left: Cursor with the ids for which its last run had no room; empty for none.
        prompts: File names of its prompts; none for a pass that asks no model.
        prompt_setting: Setting with the name of the user's own file of the first; empty if it is that of the prompt.
        setting: Setting that switches it on; empty for a pass that is always on.
        without_model: Why it does nothing without a model; empty for a pass that works without one.
    """

    name: str
    build: Callable[[PassInput], Flow[Plan]]
    inputs: tuple[Input, ...] = ()
    left: str = ""
    prompts: tuple[str, ...] = ()
    prompt_setting: str = ""
    setting: str = ""
    without_model: str = ""


_ALL = (
    Pass(
        name=drafts.NAME,
        inputs=("drafts",),
        build=drafts.enrich_drafts,
        prompts=(drafts.PROMPT,),
        prompt_setting="memory_rules",
        setting="enrich",
        without_model="no model: rough notes stay as they are",
    ),
    Pass(
        name=verify.NAME,
        inputs=("claims", "headlines"),
        build=verify.verify,
        prompts=(CLAIM_PROMPT,),
        without_model="no model: only a model verifies what a model read",
    ),
    Pass(
        name=tidy.NAME,
        inputs=("headlines", "signals"),
        left=tidy.LEFT,
        build=tidy.tidy,
        prompts=(tidy.DIRECTIVE, *tidy.PROMPTS),
        prompt_setting="dream_directive",
    ),
    Pass(
        name=preferences.NAME,
        inputs=("evidence",),
        left=preferences.LEFT,
        build=preferences.infer_preferences,
        prompts=(preferences.PROMPT,),
        prompt_setting="preference_directive",
        setting="preference_inference",
        without_model="no model: only rules learn preferences",
    ),
    Pass(name=tidy.PROMOTE, build=tidy.promote, setting="promotion_enabled"),
    Pass(name=read.NAME, inputs=("session",), build=read.read, prompts=(read.PROMPT,)),
    Pass(name=compact.NAME, inputs=("session",), build=compact.compact, prompts=(compact.PROMPT,)),
    Pass(name=compact.TRIM, inputs=("session",), build=compact.trim),
    Pass(
        name=drafts.EXTRACT_NAME,
        inputs=("output",),
        build=drafts.extract,
        prompts=(drafts.EXTRACT_PROMPT,),
    ),
)

PASSES: Mapping[str, Pass] = MappingProxyType({registered.name: registered for registered in _ALL})
"""The passes by name."""
