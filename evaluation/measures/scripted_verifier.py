"""Scripted answers to the questions whether headlines and claims are true."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from reverie.consolidation.passes.upkeep import MADE_UP as MADE_UP_PAIR
from reverie.consolidation.planning.verification import MADE_UP, QUOTED

_HEADLINE = re.compile(r"^Headline (\d+): (.*)$")
_PART = re.compile(r"^- \[([0-9a-f]{12})\] ")
_PAIR = re.compile(r"^Pair (\d+):$")
_EARLIER = re.compile(r"^- earlier \(\d{4}-\d\d-\d\d\) (.*)$")
_LATER = re.compile(r"^- later \(\d{4}-\d\d-\d\d\) (.*)$")
_CLAIM = re.compile(r"^Claim (\d+) \(\w+\): (.*)$")


def answer_check(prompt: str, is_true: Callable[[str], bool]) -> str:
    """Return a model's answer to a request that verifies headlines, claims and pairs.

    Args:
        prompt: The request.
        is_true: Whether a headline is true to its records, a claim supported by what it cites, or a pair of texts,
            given as `earlier -> later`, a change. It is not asked about what is made up, which is denied, and
            what is quoted.
    """
    headlines: list[dict[str, Any]] = []
    pairs: dict[int, dict[str, Any]] = {}
    number, earlier = 0, ""
    claims: dict[int, dict[str, Any]] = {}
    for line in prompt.split("\n"):
        if (headline := _HEADLINE.match(line)) is not None:
            key = "supports" if is_true(headline[2]) else "contradicts"
            lists: dict[str, Any] = {"supports": [], "contradicts": [], "leaves_out": [], "adds": ""}
            headlines.append({"headline": int(headline[1]), **lists})
        elif headlines and (part := _PART.match(line)) is not None:
            headlines[-1][key].append(part[1])
        elif (claim := _CLAIM.match(line)) is not None:
            is_supported = claim[2] != MADE_UP and (claim[2].startswith(QUOTED) or is_true(claim[2]))
            verdict = "supported" if is_supported else "unsupported"
            claims[int(claim[1])] = {"claim": int(claim[1]), "missing": "", "verdict": verdict}
        elif (pair := _PAIR.match(line)) is not None:
            number = int(pair[1])  # a pair of the prompt's own example has the number of a later one
            pairs[number] = {"pair": number, "why": "", "verdict": "both"}
        elif pairs and (text := _EARLIER.match(line)) is not None:
            earlier = text[1]
        elif pairs and (text := _LATER.match(line)) is not None:
            is_changed = text[1] != MADE_UP_PAIR[1] and is_true(f"{earlier} -> {text[1]}")
            pairs[number]["verdict"] = "changed" if is_changed else "both"
    return json.dumps(
        {"headlines": headlines, "claims": list(claims.values()), "pairs": list(pairs.values())}
    )
