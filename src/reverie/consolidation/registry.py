"""Registry of the passes.

Adding a pass: write a function from `PassInput` to a plan in `passes`, and register it here. Add its name to
`DREAM` if it is to run in every dream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from reverie.consolidation.flows import Flow
from reverie.consolidation.inputs import PassInput
from reverie.consolidation.passes import compact, drafts, preferences, read, tidy, verify
from reverie.consolidation.plan import Plan

DREAM = ("enrich", "verify", "tidy", "preferences", "promote")
"""Passes of a dream, in the order in which they run."""

VERIFIED = ("verify", "tidy", "preferences")
"""Passes of `DREAM`, in a row, whose claims are verified together.

If two of them change the same record, the first counts: a sentence that is dropped is not filed.
"""


PROMPT_SETTINGS = {
    drafts.ENRICH.prompt: "memory_rules",
    tidy.DIRECTIVE: "dream_directive",
    preferences.INFER.prompt: "preference_directive",
}
"""Settings with the names of the user's own files in place of prompts; files for other prompts have their names."""


@dataclass(frozen=True, slots=True)
class Pass:
    """A registered pass.

    Attributes:
        name: Its name.
        build: Builds the plan, asking a model if it needs one.
        about: What it is about: the changes, drafts or waiting claims since it last ran, a session, or an output.
        setting: Setting that switches it on; empty for a pass that is always on.
        left: Cursor with the ids for which its last run had no room; empty for none.
        needs: What is so without a model, where the pass does nothing then; empty for a pass that works without one.
    """

    name: str
    build: Callable[[PassInput], Flow[Plan]]
    about: Literal["changes", "drafts", "claims", "session", "output"] = "changes"
    setting: str = ""
    left: str = ""
    needs: str = ""

    def has_work(self, news: PassInput) -> bool:
        """Return whether it has something to consider."""
        if self.about == "drafts":
            return bool(news.drafts)
        return bool(news.claims if self.about == "claims" else news.changed or news.turns)


PASSES = {
    each.name: each
    for each in (
        Pass(
            drafts.NAME,
            drafts.enrich_drafts,
            "drafts",
            setting="enrich",
            needs="rough notes stay as they are",
        ),
        Pass(verify.NAME, verify.verify, "claims", needs="only a model verifies what a model read"),
        Pass(tidy.NAME, tidy.tidy, left=tidy.LEFT),
        Pass(
            preferences.NAME,
            preferences.infer_preferences,
            setting="preference_inference",
            left=preferences.LEFT,
            needs="only rules learn preferences",
        ),
        Pass(tidy.PROMOTE, tidy.promote, setting="promotion_enabled"),
        Pass(read.NAME, read.read, "session"),
        Pass(compact.NAME, compact.compact, "session"),
        Pass(compact.TRIM, compact.trim, "session"),
        Pass(drafts.EXTRACT_NAME, drafts.extract, "output"),
    )
}
"""The passes by name."""
