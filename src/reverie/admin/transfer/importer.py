"""Import of items from a file or folder, a thousand in one transaction.

Another run completes an interrupted one. A batch that loses a race against another process is decided again. `batch`
decides what of it is stored.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from reverie.admin.transfer.batch import (
    FORMS,
    Form,
    FoundTurns,
    FoundValue,
    ImportBatch,
    ImportTerms,
    Item,
    Met,
    Reason,
    Revision,
    Skipped,
    What,
)
from reverie.admin.transfer.formats import registry
from reverie.admin.transfer.safe_reading import open_source
from reverie.domain.change import get_subject
from reverie.domain.errors import InvalidInput
from reverie.domain.record import ORIGINS, Origin, validate_choice
from reverie.domain.scope import validate_scope
from reverie.domain.secrets.redactor import Redactor
from reverie.domain.text.json_values import to_json_object
from reverie.domain.text.validation import validate_progress
from reverie.files.names import resolve_path
from reverie.stores.redacting import get_redactor, redact_value
from reverie.stores.writer import StoreWriter

if TYPE_CHECKING:
    from reverie.consolidation.rule_learning import RuleLearner

BATCH = 250
"""Things committed in one transaction: an interruption loses no more, and no other process waits long."""

_UNLEARNED = "import.unlearned"
"""Name of the cursor with the sessions whose imported turns are still to be learned from, each with a position."""

_WINDOW = 50  # turns before the new ones that an exchange may have begun with
_SAMPLED = 3
_SAMPLE_CHARS = 70

_COUNTED: tuple[What, ...] = ("record", "session", "turn", "page", "paragraph")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """Result of an import or of its dry run.

    Attributes:
        form: The format of the source.
        dry_run: Whether nothing was stored.
        records: Number of records.
        sessions: Number of new sessions.
        turns: Number of turns.
        pages: Number of pages that were added or got lines.
        paragraphs: Number of paragraphs of logs.
        skipped: What was left out, with place and reason.
        revised: Conversations that were here, and that a later export changed.
        trusted: Number of the records that prompts may include.
        rules: Number of those that are in every prompt of their scope, as far as its budget goes.
        learned: Number of records that were learned from the owner's turns; 0 if the turns are not the owner's.
        handled: Number of things in the source, as `progress` counts them.
        sample: The first texts, shortened.
    """

    form: Form
    dry_run: bool
    records: int
    sessions: int
    turns: int
    pages: int
    paragraphs: int
    skipped: tuple[Skipped, ...]
    revised: tuple[Revision, ...] = ()
    trusted: int = 0
    rules: int = 0
    learned: int = 0
    handled: int = 0
    sample: tuple[str, ...] = ()

    @property
    def taken(self) -> int:
        """Number of imported things."""
        return self.records + self.sessions + self.turns + self.pages + self.paragraphs

    @property
    def is_complete(self) -> bool:
        """Whether nothing was left out because it is broken or exceeds a limit."""
        return not any(each.why in ("broken", "too large") for each in self.skipped)

    @property
    def skipped_by_reason(self) -> Mapping[Reason, int]:
        """Number of things left out for each reason."""
        reasons = Counter[Reason]()
        for each in self.skipped:
            reasons[each.why] += each.count
        return reasons

    def to_dict(self) -> dict[str, Any]:
        """Return every field as JSON values."""
        return to_json_object(self) | {"skipped_by_reason": dict(self.skipped_by_reason)}


def import_source(
    writer: StoreWriter,
    source: str | os.PathLike[str],
    form: str | None,
    *,
    scope: str | None,
    origin: Origin | None,
    dry_run: bool = False,
    progress: Callable[[int], None] | None = None,
    learner: RuleLearner | None = None,
) -> ImportReport:
    """Import a file or folder (see `Administration.import_from`).

    Args:
        writer: Commits what is imported.
        form: Its format, one of `items.FORMS`; None to detect it.
        scope: The scope of what is imported.
        origin: The origin of its records.
        progress: Receives the number of things processed since its last call.
        learner: Learns from the turns of the owner, whatever their age.
    """
    path = resolve_path(source, name="source")
    if scope is not None:
        validate_scope(scope)
    if origin is not None:
        validate_choice(origin, ORIGINS, name="origin")
    if form is not None:
        validate_choice(form, FORMS, name="form")
    with open_source(path) as opened:
        detected = registry.detect_format(opened) if form is None else cast(Form, form)
        importer = Importer(
            writer=writer,
            source=path.name,
            form=detected,
            dry_run=dry_run,
            progress=validate_progress(progress),
            learner=learner if origin == "owner" else None,
        )
        terms = ImportTerms(now=writer.clock(), scope=scope, origin=origin)
        return importer.take(registry.read(opened, detected, terms))


def detect_format(source: str | os.PathLike[str]) -> Form:
    """Return the format of a file or folder; raise `InvalidInput` if it cannot be imported."""
    with open_source(resolve_path(source, name="source")) as opened:
        return registry.detect_format(opened)


@dataclass(slots=True)
class Importer:
    """Import of items into a store.

    Attributes:
        writer: Commits them.
        source: The name of the source.
        form: The format, for the journal.
        dry_run: Whether to store nothing.
        progress: Receives the number of things processed since its last call.
        learner: Learns from the turns that are stored; None if they are not the owner's.
    """

    writer: StoreWriter
    source: str
    form: Form
    progress: Callable[[int], None]
    dry_run: bool = False
    learner: RuleLearner | None = None
    _learned: int = 0
    _met: Met = field(default_factory=dict)
    _taken: Counter[str] = field(default_factory=Counter)
    _skipped: list[Skipped] = field(default_factory=list)
    _revised: list[Revision] = field(default_factory=list)

    def take(self, items: Iterable[Item]) -> ImportReport:
        """Import everything that a reader yields.

        A source that can be read only in part, such as a truncated file, is imported up to there, and the
        fault is reported among what was left out.

        Raises:
            InvalidInput: nothing in the source can be read.
        """
        self._learn()  # from what an interrupted run has stored
        batch: list[Item] = []
        sample: list[str] = []
        handled = weight = 0
        for item in self._read_until_broken(items):
            batch.append(item)
            weight += _get_weight(item)
            if len(sample) < _SAMPLED and (text := _extract_text(item)):
                sample.append(text[:_SAMPLE_CHARS])
            if weight >= BATCH:
                self._take_batch(batch)
                batch, handled, weight = [], handled + weight, 0
        self._take_batch(batch)
        return ImportReport(
            form=self.form,
            dry_run=self.dry_run,
            skipped=tuple(self._skipped),
            revised=tuple(self._revised),
            trusted=self._taken["trusted"],
            rules=self._taken["rule"],
            learned=self._learned,
            handled=handled + weight,
            sample=tuple(sample),
            **{f"{what}s": self._taken[what] for what in _COUNTED},
        )

    def _read_until_broken(self, items: Iterable[Item]) -> Iterator[Item]:
        has_items, redactor = False, get_redactor(self.writer.store)
        try:
            for item in items:
                for part in _split(item):
                    yield _redact_item(part, redactor)
                has_items = True
        except InvalidInput as error:
            if not has_items:
                raise
            detail = f"{error}; everything before was read"
            yield Skipped(what="file", place=self.source, why="broken", detail=detail)

    def _take_batch(self, batch: Sequence[Item]) -> None:
        def attempt(_: int) -> ImportBatch:
            met = self._met if self.dry_run else {}
            decided = ImportBatch(self.writer.store, met, now=self.writer.clock())
            for item in batch:
                decided.add(item)
            if (edits := decided.edits()) and not self.dry_run:
                cursors = dict(decided.cursors)
                if self.learner is not None and decided.started:
                    waiting = self._read_unlearned()
                    cursors[_UNLEARNED] = json.dumps({**decided.started, **waiting})
                self.writer.commit(edits, operation="import", reference=self.form, cursors=cursors or None)
            return decided

        decided = self.writer.retrying(attempt)
        self._taken.update(decided.taken)
        self._skipped += decided.skipped
        self._revised += decided.revised
        self._learn()
        self.progress(sum(map(_get_weight, batch)))

    def _read_unlearned(self) -> dict[str, int]:
        waiting = json.loads(self.writer.store.cursor(_UNLEARNED) or "{}")
        return waiting if isinstance(waiting, dict) else {}

    def _learn(self) -> None:
        """Learn from the turns that were stored. A failure is a warning, and the next import tries again."""
        if self.learner is None or self.dry_run or not (waiting := self._read_unlearned()):
            return
        for session, position in waiting.items():
            stored = self.writer.store.turns(session=session, start=max(0, position - _WINDOW))
            window = [turn for turn in stored if turn.role != "user" or turn.origin == "owner"]
            added = [turn for turn in window if turn.position >= position]
            self._learned += self.learner.learn_from_past(window, added)
        self.writer.commit([], operation="import", reference=self.form, cursors={_UNLEARNED: None})


def _redact_item(item: Item, redactor: Redactor) -> Item:
    """Return the item without its secrets; an item named by a secret is left out."""
    if isinstance(item, Skipped):
        return replace(item, detail=redactor.text(item.detail))
    try:
        if isinstance(item, FoundValue):
            return replace(item, value=redact_value(item.value, redactor))
        turns = tuple(redact_value(turn, redactor) for turn in item.turns)
        return replace(item, state=redact_value(item.state, redactor), turns=turns)
    except InvalidInput as error:
        what: What = "session" if isinstance(item, FoundTurns) else get_subject(item.value)
        return Skipped(what=what, place=item.place, why="broken", detail=str(error), count=_get_weight(item))


def _split(item: Item) -> Iterator[Item]:
    """Yield an item in parts that fit a transaction; a path of a conversation is one part."""
    if not isinstance(item, FoundTurns) or item.has_path:
        yield item
        return
    for start in range(0, max(1, len(item.turns)), BATCH):
        yield replace(item, turns=item.turns[start : start + BATCH])


def _extract_text(item: Item) -> str:
    """Return the first text of an item, on one line."""
    values = item.turns if isinstance(item, FoundTurns) else [getattr(item, "value", None)]
    return " ".join(values[0].content.split()) if values and values[0] is not None else ""


def _get_weight(item: Item) -> int:
    return max(1, len(item.turns)) if isinstance(item, FoundTurns) else 1
