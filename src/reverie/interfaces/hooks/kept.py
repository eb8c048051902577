"""Events that could not be stored because the database was locked: files that a later hook stores."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from reverie.domain.errors import InvalidInput
from reverie.domain.secrets.redactor import Redactor
from reverie.files.layout import HOOKS
from reverie.interfaces.hooks.events import HookEvent
from reverie.interfaces.hooks.transcript import TranscriptExchange


class Occurrence(NamedTuple):
    """An event with all that is needed to store it later.

    Attributes:
        name: One of `EVENTS`.
        scope: Scope of its conversation.
        session: Id of its conversation.
        at: When it happened.
        event: The event.
        exchange: The last exchange of the transcript at that time.
        digests: Metadata of a prompt: digests of what the agent has read with it.
    """

    name: str
    scope: str
    session: str
    at: datetime
    event: HookEvent
    exchange: TranscriptExchange = TranscriptExchange()
    digests: Mapping[str, str] = MappingProxyType({})


def keep(occurrence: Occurrence, folder: Path, redactor: Redactor) -> None:
    """Write an event into a file of its own, with secrets redacted.

    Args:
        occurrence: The event.
        folder: Folder of the memory on this machine.
        redactor: The rules for secrets.
    """
    from reverie.admin.transfer.atomic_writes import create_file  # here: few events wait for a database
    from reverie.stores.sqlite.migrations import make_folder

    made = folder / HOOKS
    make_folder(made)
    with create_file(made / f"{time.time_ns():020d}-{os.getpid()}.json", overwrite=False) as file:
        file.write(json.dumps(_to_json(_redact(occurrence, redactor)), ensure_ascii=False).encode())


def iterate_kept(folder: Path) -> Iterator[tuple[Path, Occurrence]]:
    """Iterate over the kept events with their files, the oldest first.

    Raises:
        InvalidInput: a file is none of them.
        OSError: a file cannot be read.
    """
    for file in sorted((folder / HOOKS).glob("[0-9]*.json")):
        try:
            yield file, _from_json(json.loads(file.read_text("utf-8")))
        except FileNotFoundError:
            continue  # another hook has stored it meanwhile
        except (ValueError, TypeError, KeyError):
            raise InvalidInput(f"{str(file)!r} cannot be read: correct or remove it") from None


def _redact(occurrence: Occurrence, redactor: Redactor) -> Occurrence:
    event, exchange, redact = occurrence.event, occurrence.exchange, redactor.text
    return occurrence._replace(
        event=event._replace(
            prompt=redact(event.prompt),
            answer=redact(event.answer),
            error=redact(event.error),
            arguments=redactor.json_text(event.arguments),
        ),
        exchange=exchange._replace(prompt=redact(exchange.prompt), answer=redact(exchange.answer)),
    )


def _to_json(occurrence: Occurrence) -> dict[str, Any]:
    tools = occurrence.exchange.tools
    exchange = occurrence.exchange._asdict() | {"tools": None if tools is None else sorted(tools)}
    return occurrence._asdict() | {
        "at": occurrence.at.isoformat(),
        "event": occurrence.event._asdict(),
        "exchange": exchange,
        "digests": dict(occurrence.digests),
    }


def _from_json(values: dict[str, Any]) -> Occurrence:
    exchange = values["exchange"]
    tools = exchange["tools"]
    return Occurrence(
        **values
        | {
            "at": datetime.fromisoformat(values["at"]),
            "event": HookEvent(**values["event"]),
            "exchange": TranscriptExchange(
                **exchange | {"tools": None if tools is None else frozenset(tools)}
            ),
        }
    )
