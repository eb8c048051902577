"""Scripted answers to the questions whether headlines and claims are true."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from reverie.consolidation.planning.verification import MADE_UP

_HEADLINE = re.compile(r"^Headline (\d+): (.*)$")
_PART = re.compile(r"^- \[([0-9a-f]{12})\] ")
_CLAIM = re.compile(r"^Claim (\d+) \(\w+\): (.*)$")


def answer_check(prompt: str, is_true: Callable[[str], bool]) -> str:
    """Return a model's answer to a request that verifies headlines, claims or both.

    Args:
        prompt: The request.
        is_true: Whether a headline is true to its records, or a claim supported by what it cites. It is not asked
            about the claim that is made up, which is denied.
    """
    headlines: list[dict[str, Any]] = []
    claims: dict[int, dict[str, Any]] = {}
    for line in prompt.split("\n"):
        if (headline := _HEADLINE.match(line)) is not None:
            key = "supports" if is_true(headline[2]) else "contradicts"
            lists: dict[str, Any] = {"supports": [], "contradicts": [], "leaves_out": [], "adds": ""}
            headlines.append({"headline": int(headline[1]), **lists})
        elif headlines and (part := _PART.match(line)) is not None:
            headlines[-1][key].append(part[1])
        elif (claim := _CLAIM.match(line)) is not None:
            is_supported = claim[2] != MADE_UP and is_true(claim[2])
            verdict = "supported" if is_supported else "unsupported"
            claims[int(claim[1])] = {"claim": int(claim[1]), "missing": "", "verdict": verdict}
    return json.dumps({"headlines": headlines, "claims": list(claims.values())})
