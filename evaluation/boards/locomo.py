"""Reader of LoCoMo: long conversations of two people, and questions with the turns that answer them.

A JSON list of samples: `conversation` and `qa`, a list of
`question`, `evidence` (ids of turns) and `category` (1 to 5). People write the evidence: several ids may be
in one text, with zeros before the number, cut short, or naming turns that do not exist. What can be read is
used; the rest is counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from evaluation.boards.datasets import Dialogue, Dialogues, EvalQuestion, ImportedConversation
from reverie.admin.transfer import safe_reading
from reverie.admin.transfer.batch import SOURCE_ID
from reverie.domain.conversation import LONGEST_TURN
from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text.tokenizer import MONTHS
from reverie.domain.text.validation import validate_raw_text

CATEGORIES = {1: "1 multi-hop", 2: "2 temporal", 3: "3 open-domain", 4: "4 single-hop", 5: "5 adversarial"}

_TURN_ID = defer_regex(r"D(\d+):(\d+)", re.IGNORECASE)
_BETWEEN_TURNS = timedelta(seconds=10)
_SESSION_KEY = defer_regex(r"session_(\d+)")
_TIME = defer_regex(r"(\d{1,2}):(\d{2})\s*([ap])m on (\d{1,2}) ([a-z]+),? (\d{4})")
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


# -- conversations -----------------------------------------------------------------------------------


def load_locomo(path: Path) -> list[dict[str, Any]]:
    """Return the samples of a LoCoMo file, each with a `conversation`.

    Raises:
        InvalidInput: it cannot be read, or is not such a file.
    """
    with safe_reading.open_file(path) as file:
        try:
            data = safe_reading.parse_json(file.read())
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {error}") from None
    samples = [data] if isinstance(data, dict) else data
    if not isinstance(samples, list) or not samples:
        raise InvalidInput(f"{path}: expected a JSON list of samples, each with a 'conversation'")
    for number, sample in enumerate(samples):
        if not isinstance(sample, dict) or not isinstance(sample.get("conversation"), dict):
            raise InvalidInput(f"{path}, sample {number}: there is no 'conversation' in it")
    return samples


def parse_locomo_sessions(
    sample: Mapping[str, Any], *, number: int, file: Path
) -> list[ImportedConversation]:
    """Return the sessions of one LoCoMo sample that have turns, in their order.

    `speaker_a` is the user and `speaker_b` the assistant. A picture's caption is part of the text. The
    turns of a session are ten seconds apart, beginning at its date. A turn without text is left out.

    Args:
        sample: One of `load_locomo`.
        number: Its number in the file, from 0; part of the sessions' names.
        file: The file that errors name.
    """
    conversation = sample["conversation"]
    roles = {conversation.get("speaker_a"): "user", conversation.get("speaker_b"): "assistant"}
    numbers = sorted(int(match[1]) for key in conversation if (match := _SESSION_KEY.fullmatch(key)))
    sessions = []
    for k in numbers:
        place = f"{file}, sample {number}, session_{k}"
        messages = conversation[f"session_{k}"]
        if not isinstance(messages, list):
            raise InvalidInput(f"{place}: {type(messages).__name__} instead of a list of turns")
        began = _parse_locomo_time(conversation.get(f"session_{k}_date_time"), place)
        turns = [
            _parse_locomo_turn(message, roles, began and began + i * _BETWEEN_TURNS, f"{place}, turn {i}")
            for i, message in enumerate(messages)
        ]
        if spoken := [turn for turn in turns if turn["content"].strip()]:
            sessions.append(ImportedConversation(session=f"locomo:{number}:session_{k}", turns=spoken))
    if not sessions:
        raise InvalidInput(f"{file}, sample {number}: no 'session_1', 'session_2', … with turns in it")
    return sessions


def _parse_locomo_turn(
    message: Any, roles: Mapping[str | None, str], at: datetime | None, place: str
) -> dict[str, Any]:
    if not isinstance(message, dict) or not all(
        isinstance(message.get(key), str) for key in ("speaker", "dia_id", "text")
    ):
        raise InvalidInput(f"{place}: it needs the texts 'speaker', 'dia_id' and 'text'")
    speaker = message["speaker"]
    if speaker not in roles:
        raise InvalidInput(f"{place}: {speaker!r} is neither 'speaker_a' nor 'speaker_b'")
    caption = message.get("blip_caption")
    shared = f"[shares a picture: {caption}]" if caption else ""
    text = " ".join(part for part in (message["text"], shared) if part)
    turn = {
        "role": roles[speaker],
        "content": validate_raw_text(text, name=f"{place}: content", longest=LONGEST_TURN, empty=True),
        "speaker": speaker,
        "metadata": {SOURCE_ID: message["dia_id"]},
    }
    return turn if at is None else turn | {"at": at}


def _parse_locomo_time(text: Any, place: str) -> datetime | None:
    """Parse `1:56 pm on 8 May, 2023`; return None for None. The month names of strptime follow the locale."""
    if text is None:
        return None
    match = _TIME.fullmatch(str(text).strip().lower())
    if match and match[5] in MONTHS:
        hour = int(match[1]) % 12 + (12 if match[3] == "p" else 0)
        month = MONTHS.index(match[5]) + 1
        try:
            return datetime(int(match[6]), month, int(match[4]), hour, int(match[2]), tzinfo=UTC)
        except ValueError:
            pass
    raise InvalidInput(f"{place}: the date is {text!r}: expected one such as '1:56 pm on 8 May, 2023'")
