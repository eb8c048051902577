"""Scripted answers to the question whether claims are true."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from reverie.domain.text.escaping import escape_line

_CLAIM = re.compile(r"^Claim (\d+) \(\w+\): (.*)$", re.MULTILINE)


def list_claims(prompt: str) -> list[tuple[int, str, str]]:
    """Return the number, text and evidence of each claim of a request, without those of the prompt's example."""
    shown = prompt.rpartition("Claims:\n")[2]
    found = list(_CLAIM.finditer(shown))
    ends = [each.start() for each in found[1:]] + [len(shown)]
    return [
        (int(each[1]), each[2], shown[each.end() : end].strip())
        for each, end in zip(found, ends, strict=True)
    ]


def answer_check(prompt: str, is_true: Callable[[str], bool]) -> str:
    """Return a model's answer to a request that verifies claims.

    Args:
        prompt: The request.
        is_true: Whether a claim is supported by what it cites.
    """
    return answer_claims(prompt, lambda text, evidence: is_true(text))


def answer_claims(prompt: str, is_true: Callable[[str, str], bool]) -> str:
    """Return a model's answer to a request that verifies claims, judging each by its text and its evidence."""
    claims = [
        {"claim": number, "missing": "", "verdict": "supported" if is_true(text, evidence) else "unsupported"}
        for number, text, evidence in list_claims(prompt)
    ]
    return json.dumps({"claims": claims})


def collect_strings(answer: str) -> set[str]:
    """Return all strings in a JSON answer; none if it is no JSON. A model that believes itself supports these."""
    try:
        waiting: list[Any] = [json.loads(answer)]
    except ValueError:
        return set()
    found: set[str] = set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            found.add(escape_line(value))
        elif isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value
    return found
