"""Readers of transcripts of coding agents: Claude Code, Codex and Gemini CLI, as files and as folders.

A conversation becomes the session `PROGRAM:ID`, as the hooks name it, and each side chain a session of its own. Only a
message that a person typed is the owner's, and an answer after the result of a tool has the tool's origin. Results of
tools are cut after 4,000 characters. A program's summary of the conversation so far, and its reasoning, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from reverie.admin.transfer.batch import ImportTerms, Item, Skipped
from reverie.admin.transfer.formats.foreign import ConversationBuilder, build_tool_call, parse_moment, skip
from reverie.admin.transfer.safe_reading import SourceFile
from reverie.admin.transfer.transcripts import Client, TranscriptMessage, get_own_tool, parse_line
from reverie.domain.errors import InvalidInput
from reverie.domain.record import Origin

MAX_RESULT_CHARS = 4_000
"""Characters of a tool's result that are stored."""


class TranscriptReader:
    """Reader of one file.

    Args:
        client: The program that wrote it.
        seen: Ids of messages of files that were read before. A message that several files have, such as those of a
            conversation that was continued in another file, is taken from the first.
    """

    def __init__(self, client: Client, file: SourceFile, terms: ImportTerms, seen: set[str]) -> None:
        self._form = client
        self._file = file
        self._terms = terms
        self._seen = seen
        self._session = PurePosixPath(file.name).stem
        self._metadata = {"imported_from": client, "file": file.place[:200]}
        self._chats = dict[str, ConversationBuilder]()
        self._waiting: TranscriptMessage | None = None
        self._tools = dict[str, str]()
        self._tooled = set[str]()  # sessions in whose present exchange a tool has shown text of others

    def read(self) -> Iterator[Item]:
        """Yield the sessions of the file, and what is left out of it."""
        for each in self._iter_gemini() if self._form == "gemini" else self._iter_lines():
            if isinstance(each, Skipped):
                yield each
            else:
                self._take(each)
        if self._waiting is not None:
            self._store(self._waiting)
        for chat in self._chats.values():
            yield from chat.take_items()

    def _iter_lines(self) -> Iterator[TranscriptMessage | Skipped]:
        for place, value in self._file.values():
            if isinstance(value, InvalidInput):
                yield skip("line", place, value)
            elif isinstance(value, dict):
                self._read_header(value)
                yield from parse_line(value)
            else:
                yield Skipped(what="line", place=place, why="unsupported", detail="not an object")

    def _read_header(self, value: Mapping[str, Any]) -> None:
        """Read the id and the folder of a conversation of Codex."""
        payload = value.get("payload")
        header = payload if value.get("type") == "session_meta" and isinstance(payload, dict) else value
        if "instructions" in header or header is payload:
            name, folder = header.get("id"), header.get("cwd")
            if isinstance(name, str) and name:
                self._session = name
            if isinstance(folder, str) and folder:
                self._metadata["folder"] = folder

    def _iter_gemini(self) -> Iterator[TranscriptMessage | Skipped]:
        """Yield the messages of a chat of Gemini CLI: the last version of each, without those that were rewound."""
        found = dict[str, Mapping[str, Any]]()
        for place, value in self._file.values():
            if isinstance(value, InvalidInput):
                yield skip("line", place, value)
                continue
            if not isinstance(value, dict):
                continue
            if isinstance(name := value.get("sessionId"), str):
                self._session = name
            if (rewound := value.get("$rewindTo")) is not None:
                names = list(found)
                for name in names[names.index(rewound) if rewound in found else 0 :]:
                    del found[name]
            messages = value.get("messages", [value] if "type" in value else [])
            for each in messages if isinstance(messages, list) else []:
                if isinstance(each, dict):
                    found[str(each.get("id") or f"message {len(found)}")] = each
        for each in found.values():
            yield from parse_line(each)

    def _take(self, message: TranscriptMessage) -> None:
        """Join the parts of one answer, and store the messages in their order."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None and message.group and message.group == waiting.group:
            text = "\n".join(filter(None, (waiting.text, message.text)))
            self._waiting = waiting._replace(text=text, calls=waiting.calls + message.calls)
            return
        if waiting is not None:
            self._store(waiting)
        if message.group:
            self._waiting = message
        else:
            self._store(message)

    def _store(self, message: TranscriptMessage) -> None:
        """Add the message to its conversation."""
        session = f"{self._form}:{message.session or self._session}"
        if message.agent:
            session = f"{session}:{message.agent}"
        if (chat := self._chats.get(session)) is None:
            chat = self._chats[session] = ConversationBuilder(
                session, form=self._form, place=self._file.place, terms=self._terms, metadata=self._metadata
            )
        if message.role == "summary":
            chat.leave_out("turn", "repeated", "a summary of the conversation so far")
        elif message.id and message.id in self._seen:
            chat.leave_out("turn", "repeated", "in several files")
        else:
            self._seen.add(message.id)
            text, calls = message.text, message.calls
            if message.role == "tool" and (cut := len(text) - MAX_RESULT_CHARS) > 0:
                text = f"{text[:MAX_RESULT_CHARS]}\n[cut: {cut:,} characters]"
            chat.add(
                message.role, text, id=message.id, at=parse_moment(message.at),
                tool_calls=[build_tool_call(each.id, each.name, each.arguments) for each in calls],
                tool_call_id=message.answers, origin=self._determine_origin(message, session),
            )  # fmt: skip

    def _determine_origin(self, message: TranscriptMessage, session: str) -> Origin | None:
        """Return `tool` for a program's words, and for an answer after the result of a tool of others."""
        self._tools |= {each.id: each.name for each in message.calls}
        if message.role == "tool" and not get_own_tool(self._tools.pop(message.answers, "")):
            self._tooled.add(session)
        elif message.role == "user":
            self._tooled.discard(session)
            return None if message.typed else "tool"
        return "tool" if message.role == "assistant" and message.text and session in self._tooled else None
