"""Operations of tools over records and earlier turns.

A model archives and never erases, whatever the name of its tool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from reverie.context import render
from reverie.domain import provenance
from reverie.domain.conversation import UNCONFIRMED, Wish
from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.record import FIL, HOME_LAYERS, UNTRUSTED, Layer, Record
from reverie.domain.secrets.redactor import describe_redaction
from reverie.domain.text import escaping
from reverie.domain.text.timestamps import format_time, parse_time
from reverie.repositories.records import NewRecord
from reverie.repositories.wishes import WishResult
from reverie.search.hits import Hit, Source
from reverie.stores.writer import retry_conflicts
from reverie.tools import rendering
from reverie.tools.toolset import ToolResult
from reverie.tools.trust_guard import OriginGuard

if TYPE_CHECKING:
    from reverie.scoped import ScopedMemory

_HITS = 10
_OWN_TURNS = 20
_THIS = "this"
_LONGEST_TURN = 2_000

_TAKES: Mapping[str, tuple[str, ...]] = {
    "add": ("content", "category", "kind", "layer", "tags", "confidence", "importance"),
    "search": ("query", "category", "kind", "layer", "tags", "limit"),
    "update": ("id", "content", "category", "kind", "layer", "tags", "confidence", "importance"),
    "promote": ("id", "layer"),
    "forget": ("id", "reason"),
}
"""Arguments of each operation of golemcore's tool `memory`; all but `search` need the first."""


@dataclass(frozen=True, slots=True)
class MemoryOperations:
    """Operations over a memory, each from the arguments of a tool to its result.

    Attributes:
        memory: The memory.
        now: Returns the current time.
        source: Source of the records that are saved.
        guard: Determines the origin of what is saved; its conversation is what `this` means.
    """

    memory: ScopedMemory
    now: Callable[[], datetime]
    source: str
    guard: OriginGuard

    def save(self, given: Mapping[str, Any], *, draft: bool = True) -> ToolResult:
        """Save a record, as a draft unless the model said how to file it."""
        labels = {name: given[name] for name in ("category", "tags") if name in given}
        origin = self.guard.determine(given["content"], **labels)
        saved = self.memory.save(**given, source=self.source, origin=origin, draft=draft)
        redacted = describe_redaction(given["content"], saved.record.content)
        secret = f" {redacted} Only its owner can save it with the secret." if redacted else ""
        where = f" in {saved.record.category}" if saved.record.category else ""
        text = f"Known already: {saved.record.id}{where}, seen {saved.record.seen_count} times.{secret}"
        if saved.outcome == "created":
            kind = "" if saved.kind == "fact" else f" Kind: {saved.kind}."
            until = f" It matters until {saved.until:%Y-%m-%d}." if saved.until else ""
            permission = " Ask before acting on it." if saved.permission else ""
            text = f"Saved as {saved.record.id}{where}.{kind}{until}{permission}{secret}"
        return ToolResult(text)

    def search(
        self,
        given: Mapping[str, Any],
        *,
        nothing: str = ". Try other words, or list_memory_categories to see what there is.",
    ) -> ToolResult:
        """Search records and turns, without turns of the conversation that the model has before it."""
        limit = given.get("limit", _HITS)
        sources: tuple[Source, ...] = ("records", "turns") if given.get("query") else ("records",)
        hits = self.memory.search(sources=sources, **{**given, "limit": limit + _OWN_TURNS})
        own = (hit.turn is not None and self.source == f"session:{hit.turn.session}"[:200] for hit in hits)
        others = [hit for hit, is_own in zip(hits, own, strict=True) if not is_own]
        return self._format_hits(self._drop_open_prompt(others)[:limit], nothing=nothing)

    def get(self, given: Mapping[str, Any]) -> ToolResult:
        """Return one record in full."""
        record, now = self.get_live_record(given, archived=True), self.now()
        where = f" ({record.category})" if record.category else ""
        facts = [record.kind, *rendering.describe_record(record, now)]
        if record.archived:
            facts.append(f"archived ({render.render_label(record.archive_reason) or 'no reason given'})")
        parts = [part for name in record.parts if (part := self.memory.get(name)) is not None]
        under = ["It sums up:", *(render.render_record(part) for part in parts)] if parts else []
        text, more = rendering.cut_part(record.content, given.get("part"), how="Call get_memory with part {}")
        lines = [f"[{record.id}]{where}, {', '.join(facts)}:", escaping.fence(text)]
        told = "\n".join([*lines, *filter(None, [more]), *under])
        return ToolResult(told, trusted=record.origin not in UNTRUSTED)

    def archive(self, given: Mapping[str, Any]) -> ToolResult:
        """Archive a record because a model says so, unless its owner pinned it."""
        record = self.get_live_record(given)
        if record.pinned:
            return ToolResult(
                f"Nothing was done: {record.id} is pinned, so that it is kept. Its owner has to unpin it first.",
                failed=True,
            )
        archived = self.memory.archive(record.id, reason=given.get("reason") or "")
        return ToolResult(
            f'Archived {archived.id}: "{escaping.escape_line(archived.content)}". It can be restored.',
            trusted=archived.origin not in UNTRUSTED,
        )

    def request_forget(self, given: Mapping[str, Any]) -> ToolResult:
        """Propose to erase what is stored about a subject."""
        request = self.memory.forget_requests.propose(given["subject"])
        return ToolResult(WishResult(wish=Wish("forget", given["subject"]), request=request).describe())

    def list_categories(self, given: Mapping[str, Any]) -> ToolResult:
        """Return the categories with their numbers of records."""
        found = sorted(self.memory.categories().items())
        lines = [f"- {name or '(no category)'}: {count}" for name, count in found]
        return ToolResult("\n".join(lines) or "There are no memories yet.")

    # -- golemcore's one tool ------------------------------------------------------------------------------

    def choose(self, given: Mapping[str, Any]) -> ToolResult:
        """Run one of the operations of the tool `memory`."""
        passed = dict(given)
        operation = passed.pop("operation")
        takes = _TAKES[operation]
        if unused := [name for name in passed if name not in takes]:
            raise InvalidInput(f"{operation} takes no {', '.join(unused)}; it takes {', '.join(takes)}")
        if operation != "search" and takes[0] not in passed:
            raise InvalidInput(f"{operation} needs {takes[0]}")
        if operation == "add":
            return self.save(passed, draft=False)
        if operation == "search":
            return self.search(passed, nothing=". Try other words, or fewer restrictions.")
        return {"update": self.update, "promote": self.promote, "forget": self.archive}[operation](passed)

    def update(self, given: Mapping[str, Any]) -> ToolResult:
        """Change fields of a record."""
        changes = {name: value for name, value in given.items() if name != "id"}
        if not changes:
            raise InvalidInput(f"update needs something to change: {', '.join(_TAKES['update'][1:])}")
        before, after = self.update_record(given, lambda _: changes)
        told = describe_change("Updated", before, after, self.now())
        return ToolResult(told, trusted=after.origin not in UNTRUSTED)

    def promote(self, given: Mapping[str, Any]) -> ToolResult:
        """Move a record from the episodic layer to another."""
        record = self.get_live_record(given)
        if record.origin in UNTRUSTED:
            raise InvalidInput(
                f"{record.id} is what {record.origin} said without confirmation, so it stays as it is; "
                "if its owner confirms it, add it in your own words"
            )
        home = HOME_LAYERS[record.kind]
        layer: Layer = given.get("layer") or (home if home != "episodic" else "semantic")
        if layer == "episodic":
            raise InvalidInput(
                "promote moves a memory to semantic or procedural; leave layer out or pass one"
            )
        text = f"{record.id} is {layer} already."
        if record.layer != layer:
            if record.layer != "episodic":
                raise InvalidInput(f"{record.id} is {record.layer} already; update changes its layer")
            _, record = self.update_record(given, lambda _: {"layer": layer})
            shown = rendering.render_record(record, self.now())
            text = f"Promoted {record.id} from episodic to {layer}:\n{shown}"
        return ToolResult(text)

    # -- findings, insights and lessons --------------------------------------------------------------------

    def remember(self, given: Mapping[str, Any]) -> ToolResult:
        """Save findings, insights and lessons in one transaction."""
        notes = [
            NewRecord(content=each, kind=kind, source=self.source, origin=self.guard.determine(each))
            for kind in FIL
            for each in given.get(f"{kind}s", ())
        ]
        if not notes:
            raise InvalidInput("there is nothing to remember; pass findings, insights or lessons, as lists")
        saved = self.memory.save_many(notes)
        lines = [f"- [{each.record.id}] ({each.record.kind}): {each.outcome}" for each in saved]
        number = rendering.format_count(len(saved), "observation")
        return ToolResult("\n".join([f"Remembered {number}:", *lines]))

    def recall(self, given: Mapping[str, Any]) -> ToolResult:
        """Search findings, insights and lessons."""
        hits = self.memory.search(
            given["query"], sources="records", limit=given.get("limit", _HITS), kind=FIL
        )
        return self._format_hits(hits, noun=["observation"], nothing=". Try other words.")

    # -- conversations -------------------------------------------------------------------------------------

    def search_conversations(self, given: Mapping[str, Any]) -> ToolResult:
        """Search what was said, and the summaries in `HISTORY.md`."""
        wanted = {"limit": _HITS, **given}
        for argument, name in (("since", "created_after"), ("until", "created_before")):
            if argument in wanted:
                wanted[name] = parse_time(wanted.pop(argument), name=argument)
        if "session" in wanted:
            wanted["session"] = self._resolve_session(wanted["session"])
        only_turns = "session" in wanted or "role" in wanted
        hits = self.memory.search(sources="turns" if only_turns else ("turns", "pages"), **wanted)
        nothing = " that was said about it. Try other words, or mode literal."
        return self._format_hits(self._drop_open_prompt(hits), noun=["place"], nothing=nothing)

    def list_conversations(self, given: Mapping[str, Any]) -> ToolResult:
        """Return the conversations, the latest first."""
        overviews = self.memory.sessions(limit=given.get("limit", _HITS))
        lines = [
            f"- {each.state.id} ({each.turns} turns, last {format_time(each.last_at)})" for each in overviews
        ]
        return ToolResult("\n".join(lines) or "There is no conversation yet.")

    def read_conversation(self, given: Mapping[str, Any]) -> ToolResult:
        """Return the last turns of a conversation."""
        name = self._resolve_session(given["session"])
        turns = self.memory.turns(name, start=-given.get("limit", _HITS))
        lines = [
            f"- {format_time(turn.at)} {turn.speaker or turn.role}: {turn.content[:_LONGEST_TURN]}"
            f"{f' ({escaping.NOT_CONFIRMED})' if turn.origin in UNTRUSTED else ''}"
            for turn in turns
        ]
        nothing = f"There is no conversation {name!r}. List them with list_conversations."
        trusted = all(turn.origin not in UNTRUSTED for turn in turns)
        return ToolResult("\n".join(lines) or nothing, trusted=trusted)

    # -- inside --------------------------------------------------------------------------------------------

    def _drop_open_prompt(self, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits without the prompt that a coding agent is answering: its model has it already."""
        return [
            hit
            for hit in hits
            if hit.turn is None
            or UNCONFIRMED not in hit.turn.metadata
            or self.memory.turns(hit.turn.session, start=-1)[-1].id != hit.turn.id
        ]

    def get_live_record(self, given: Mapping[str, Any], *, archived: bool = False) -> Record:
        """Return the record that the argument `id` names. Raise `NotFound` where there is none."""
        wanted = given["id"].strip().strip("[]")
        record = self.memory.get(wanted)
        if record is None or (record.archived and not archived):
            raise NotFound(f"no memory {render.render_label(wanted)}; search_memory finds the right id")
        return record

    def update_record(
        self, given: Mapping[str, Any], change: Callable[[Record], Mapping[str, Any]]
    ) -> tuple[Record, Record]:
        """Change a record by a model's word, and return it before and after.

        New text is trusted as little as the record, the agent and what the model has read. Where somebody else changes
        the record meanwhile, the change is made again from its newest form.

        Args:
            given: The arguments of the tool, with the `id`.
            change: Returns the new values for a record; it raises `InvalidInput` where the change no longer fits.
        """

        def attempt(_: int) -> tuple[Record, Record]:
            record = self.get_live_record(given)
            changes = dict(change(record))
            text = changes.get("content") or ""
            is_new = text not in ("", record.content)
            if is_new and record.keep_secret:
                raise InvalidInput(
                    f"{record.id} contains a secret that its owner keeps, so only its owner can reword it"
                )
            labels = {name: changes[name] for name in ("category", "tags") if name in changes}
            origin = self.guard.determine(text if is_new else "", known=record, **labels)
            if origin in UNTRUSTED and record.origin not in UNTRUSTED:
                raise InvalidInput(
                    f"{record.id} stays as it is, because the new text rests on what a tool said, and that is not "
                    "confirmed: save it as a separate memory, or ask the owner"
                )
            if is_new:
                changes["origin"] = provenance.least_trusted(record.origin, origin)
            return record, self.memory.update(record.id, expected=record, **changes)

        return retry_conflicts(attempt, read_state=lambda: self.get_live_record(given))

    def _resolve_session(self, name: str) -> str:
        session = self.guard.session
        return session.id if session is not None and name == _THIS else name

    def _format_hits(
        self, hits: Sequence[Hit], *, noun: Sequence[str] = ("memory", "memories"), nothing: str
    ) -> ToolResult:
        """Return the result of a search.

        Args:
            hits: The hits.
            noun: What a hit is called, and what several are.
            nothing: What follows "Found nothing".
        """
        found = f"Found {rendering.format_count(len(hits), *noun)}:"
        lines = [found, *(rendering.render_hit(hit, self.now()) for hit in hits)]
        told = "\n".join(lines) if hits else f"Found nothing{nothing}"
        return ToolResult(told, trusted=all(hit.is_trusted for hit in hits))


def describe_change(verb: str, before: Record, after: Record, now: datetime) -> str:
    """Return a sentence on a change of a record, or that nothing was changed."""
    done = f"{verb} {after.id}:" if after != before else f"Nothing changed: {after.id} says so already."
    return f"{done}\n{rendering.render_record(after, now)}"
