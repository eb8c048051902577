"""Registry of the passes.

Adding a pass: write a function from `PassInput` to a plan in `passes`, and register it here. Add its name to
`DREAM` if it is to run in every dream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from reverie.consolidation.passes import compact, digest, drafts, infer, merge, remember, upkeep
from reverie.consolidation.plan import Plan
from reverie.consolidation.planning.inputs import PassInput
from reverie.consolidation.planning.requests import Flow

Input = Literal["drafts", "remembered", "headlines", "signals", "evidence", "session", "records", "output"]

DREAM = ("enrich", "verify", "merge", "infer", "supersede", "promote")
"""Passes of a dream, in the order in which they run."""

VERIFIED = ("verify", "merge", "infer", "supersede")
"""Passes of `DREAM`, in a row, for which the model verifies something, all in one request.

If two of them change the same record, the first counts: a fact that is withdrawn is not filed.
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
        prompt: File name of its prompt; empty for a pass that asks no model.
        prompt_setting: Setting with the name of the user's own prompt file; empty if it is `prompt`.
        setting: Setting that switches it on; empty for a pass that is always on.
        without_model: Why it does nothing without a model; empty for a pass that works without one.
    """

    name: str
    build: Callable[[PassInput], Flow[Plan]]
    inputs: tuple[Input, ...] = ()
    left: str = ""
    prompt: str = ""
    prompt_setting: str = ""
    setting: str = ""
    without_model: str = ""


_ALL = (
    Pass(
        name=drafts.NAME,
        inputs=("drafts",),
        build=drafts.enrich_drafts,
        prompt=drafts.PROMPT,
        prompt_setting="memory_rules",
        setting="enrich",
        without_model="no model: rough notes stay as they are",
    ),
    Pass(
        name=remember.VERIFY,
        inputs=("remembered",),
        build=remember.verify,
        without_model="no model: only a model verifies the facts that a model wrote down",
    ),
    Pass(
        name=merge.NAME,
        inputs=("headlines", "signals"),
        left=merge.LEFT,
        build=merge.merge,
        prompt=merge.PROMPT,
        prompt_setting="dream_directive",
    ),
    Pass(
        name=infer.NAME,
        inputs=("evidence", "signals"),
        left=infer.LEFT,
        build=infer.infer,
        prompt=infer.PROMPT,
        prompt_setting="preference_directive",
        setting="preference_inference",
    ),
    Pass(
        name=upkeep.SUPERSEDE,
        build=upkeep.supersede,
        prompt=upkeep.PROMPT,
        without_model="no model: only rules end what has changed",
    ),
    Pass(name=upkeep.PROMOTE, build=upkeep.promote, setting="promotion_enabled"),
    Pass(name=digest.NAME, inputs=("session",), build=digest.digest, prompt=digest.PROMPT),
    Pass(name=compact.NAME, inputs=("session",), build=compact.compact, prompt=compact.PROMPT),
    Pass(
        name=remember.NAME,
        inputs=("session", "records"),
        build=remember.remember,
        prompt=remember.PROMPT,
        setting="remember",
        without_model="no model: only rules learn from conversations",
    ),
    Pass(name=compact.TRIM, inputs=("session",), build=compact.trim),
    Pass(name=drafts.EXTRACT_NAME, inputs=("output",), build=drafts.extract, prompt=drafts.EXTRACT_PROMPT),
)

PASSES: Mapping[str, Pass] = MappingProxyType({registered.name: registered for registered in _ALL})
"""The passes by name."""
