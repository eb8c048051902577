"""Reader of LoCoMo: long conversations of two people, and questions with the turns that answer them.

A JSON list of samples: `conversation` (read by `reverie.admin.transfer.conversations`) and `qa`, a list of
`question`, `evidence` (ids of turns) and `category` (1 to 5). People write the evidence: several ids may be
in one text, with zeros before the number, cut short, or naming turns that do not exist. What can be read is
used; the rest is counted.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from evaluation.boards.datasets import Dialogue, Dialogues, EvalQuestion
from reverie.admin.transfer.conversations import load_locomo, parse_locomo_sessions
from reverie.admin.transfer.items import SOURCE_ID
from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex

CATEGORIES = {1: "1 multi-hop", 2: "2 temporal", 3: "3 open-domain", 4: "4 single-hop", 5: "5 adversarial"}

_TURN_ID = defer_regex(r"D(\d+):(\d+)", re.IGNORECASE)
_BETWEEN_IDS = defer_regex(r"[\s,;]+")


def read(path: Path) -> Dialogues:
    """Read the conversations and questions of a LoCoMo file.

    Raises:
        InvalidInput: it is no such file; the message names the sample and place.
    """
    if path.is_dir():
        raise InvalidInput(f"{path}: a folder: name the JSON file in it")
    dropped: Counter[str] = Counter()
    dialogues = tuple(
        _parse_dialogue(sample, number, path, dropped) for number, sample in enumerate(load_locomo(path))
    )
    return Dialogues(name=path.stem, dialogues=dialogues, dropped=dict(dropped))


def _parse_dialogue(sample: dict[str, Any], number: int, path: Path, dropped: Counter[str]) -> Dialogue:
    sessions = tuple(parse_locomo_sessions(sample, number=number, file=path))
    known = {turn["metadata"][SOURCE_ID] for session in sessions for turn in session.turns}
    asked = sample.get("qa", [])
    if not isinstance(asked, list):
        raise InvalidInput(f"{path}, sample {number}: 'qa' is no list of questions")
    questions = tuple(
        _parse_question(entry, f"{number}/{i}", known, f"{path}, sample {number}, question {i}", dropped)
        for i, entry in enumerate(asked)
    )
    return Dialogue(name=str(sample.get("sample_id", number)), sessions=sessions, questions=questions)


def _parse_question(entry: Any, id: str, known: set[str], place: str, dropped: Counter[str]) -> EvalQuestion:
    if not isinstance(entry, dict) or not isinstance(entry.get("question"), str):
        raise InvalidInput(f"{place}: there is no 'question' in it")
    written = entry.get("evidence") or []
    if not isinstance(written, list):
        raise InvalidInput(f"{place}: 'evidence' is no list of turn ids")
    category = entry.get("category")
    evidence = parse_evidence_ids(written, known, dropped)
    return EvalQuestion(
        id=id,
        text=entry["question"],
        evidence=dict.fromkeys(evidence, 1.0),
        category=CATEGORIES.get(category, str(category))
        if isinstance(category, int)
        else str(category or ""),
    )


def parse_evidence_ids(written: list[Any], known: set[str], dropped: Counter[str]) -> list[str]:
    """Return the turns that hand-written evidence names, in order, without repetitions.

    >>> parse_evidence_ids(["D8:6; D09:17", "D", "D99:1"], {"D8:6", "D9:17"}, Counter())
    ['D8:6', 'D9:17']
    """
    found: list[str] = []
    for piece in (piece for text in written for piece in _BETWEEN_IDS.split(str(text)) if piece):
        turns = [f"D{int(session)}:{int(turn)}" for session, turn in _TURN_ID.findall(piece)]
        if not turns:
            dropped["evidence that names no turn"] += 1
        for turn in turns:
            if turn in known:
                found.append(turn)
            else:
                dropped["evidence naming an unknown turn"] += 1
    return list(dict.fromkeys(found))
