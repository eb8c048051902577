"""Values of a test collection: conversations or documents, and questions with their evidence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reverie.admin.transfer.batch import SOURCE_ID
from reverie.domain.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalQuestion:
    """One question.

    Attributes:
        id: Its id in the collection.
        text: The question.
        evidence: The ids of the turns or documents that answer it, each with its grade (1 if the collection has none;
            larger is better).
        category: Its class in the collection; may be empty.
        answerable: Whether the collection has an answer. An answerable question without evidence cannot be measured; it
            is counted but not asked.
    """

    id: str
    text: str
    evidence: Mapping[str, float] = field(default_factory=dict)
    category: str = ""
    answerable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedConversation:
    """Turns of one session: the arguments of `Session.add_many`."""

    session: str
    turns: list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """The sessions of one conversation, and the questions about it; each gets its own memory.

    Attributes:
        name: Its name in the collection.
        sessions: Its sessions in order; every turn has its id under `SOURCE_ID` in its metadata.
        questions: The questions about it.
    """

    name: str
    sessions: tuple[ImportedConversation, ...]
    questions: tuple[EvalQuestion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalDocument:
    """One document.

    Attributes:
        id: Its name in the collection.
        text: Its title and body.
    """

    id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogues:
    """A collection of conversations.

    Attributes:
        name: Its name in a report.
        dialogues: The conversations.
        dropped: Number of unusable items, by description.
    """

    name: str
    dialogues: tuple[Dialogue, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentCollection:
    """A collection of documents, which share one memory.

    Attributes:
        name: Its name in a report.
        documents: The documents.
        questions: The questions.
        dropped: Number of unusable items, by description.
    """

    name: str
    documents: tuple[EvalDocument, ...]
    questions: tuple[EvalQuestion, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)


Dataset = Dialogues | DocumentCollection


def map_turn_sessions(dialogue: Dialogue) -> dict[str, str]:
    """Return the session of each turn id."""
    return {
        turn["metadata"][SOURCE_ID]: session.session
        for session in dialogue.sessions
        for turn in session.turns
    }


def read_text(path: Path, *, otherwise: str | None = None) -> str:
    """Read the text of a file without its byte-order mark.

    Args:
        path: The file.
        otherwise: The encoding of one that is not UTF-8; None to refuse it.

    Raises:
        InvalidInput: it cannot be read, or is not in these encodings.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        if otherwise is not None:
            return path.read_text(encoding=otherwise)
        raise InvalidInput(f"{path}: not UTF-8 text") from None
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read ({error.strerror})") from None


def read_json(path: Path) -> Any:
    """Read the value of a JSON file; raise `InvalidInput` if that fails."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise InvalidInput(f"{path}: not JSON ({error})") from None
