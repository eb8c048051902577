"""Import of hand edits: scan the folder, parse, merge, commit.

Every edit is a change by `owner, by hand`, and its reason in the journal names the file. What a person
changed stands, and what the program changed elsewhere meanwhile stands too. Where both changed the same
thing, the person's version is live and the program's version is put beside, in a conflict file. A file that
is broken, or contains a change that is not allowed, is reported and left as it is; its last good content
stays in force. Deleting a file archives its record.

All of it happens inside the lock of the files' state, so two processes never import the same edit. A process
that is killed between the store and the state imports the edit once more, to no effect.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from types import MappingProxyType

from reverie.domain.change import Change, Subject, Value
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_dataclass import dataclass, fields, replace
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.living_page import PageParts, split_page, strip_intact_block
from reverie.domain.page import MEMORY as MEMORY_PAGE
from reverie.domain.page import Page, Paragraph, validate_page, validate_page_name, validate_paragraph
from reverie.domain.record import Record
from reverie.domain.text.ids import NewId, is_id
from reverie.files import parsing
from reverie.files.atomic import AtomicFolder, UnsafePath
from reverie.files.expected import is_earlier_page
from reverie.files.hand_edits.intake import (
    CONFLICT_WITH,
    CONFLICTING_FIELDS,
    FORGOTTEN,
    ChangedFile,
    HandEditRun,
    is_mass_removal,
)
from reverie.files.hand_edits.records import RecordImporter
from reverie.files.layout import MEMORY, Form, parse_path
from reverie.files.names import parse_session_id
from reverie.files.scan import BROKEN, QUIET_S, BrokenFile, FolderScan, HandEditReport, scan
from reverie.files.state import FileState
from reverie.stores.living_page import PageDecision, decide_edit
from reverie.stores.protocol import Store
from reverie.stores.writer import StoreWriter, setting_cursors


def import_page(run: HandEditRun, file: ChangedFile) -> None:
    """Import an edited or new page, with the changes of both sides."""
    store, name = run.store, file.place.name
    ours = next(iter(store.pages([name])), None)
    is_put_back = file.base is None and ours is None and run.has_reappeared(file, name)
    shown = run.ledger.read_shown(file.path) if file.base is not None else 0
    if not is_put_back and is_earlier_page(store, file.path, file.data, after=shown):
        return run.settle(file)
    text = parsing.read_page(file.path, file.data, was=ours.content if ours else "")
    known = (file.base or b"").decode(errors="replace").replace("\r\n", "\n")
    began = parsing.read_page(file.path, file.base or b"", was=known)
    was, parts, decision = PageParts(began, None), PageParts(text, None), PageDecision()
    if name == MEMORY_PAGE:
        was = split_page(began)
        parts = split_page(text, was=was.outside, base=was.block or "")
        if file.base is not None and strip_intact_block(text) == text:
            decision = decide_edit(run.writer, was, parts)
    page = Page(name=validate_page_name(name), content=parts.outside, updated_at=run.read_moment(file))
    written = validate_page(page)
    theirs = run.drop_forgotten(written)
    if theirs != written:
        if not run.is_rebuild:
            raise InvalidInput(FORGOTTEN)
        run.report_problem(file.at, "some of its lines were forgotten on request; the others were taken")
    content = theirs.content
    if ours is not None:
        from reverie.domain.similarity.three_way_merge import merge_text  # here: few pages are edited

        content = merge_text(was.outside if file.base is not None else "", ours.content, content)
    changes = list(decision.changes)
    if ours is None or content != ours.content:
        changes.append(Change(before=ours, after=validate_page(replace(theirs, content=content))))
    with setting_cursors(decision.cursors):
        run.commit(file, changes)
    run.propose(file.path, decision.held)
    return run.settle(file)


def import_log(run: HandEditRun, file: ChangedFile) -> None:
    """Import an edited or new log: paragraphs changed, added and removed."""
    name, pending = file.place.name, run.find_pending(file.at)
    ours = run.store.paragraphs(page=name)
    texts = parsing.read_log(file.path, file.data, was="\n\n".join(each.content for each in ours))
    base = [] if file.base is None else parsing.read_log(file.path, file.base)
    unrecorded = {
        each.content for values in pending.values() for each in values if isinstance(each, Paragraph)
    }
    # A process that could not record it may have written these, or taken them away.
    base = [text for text in base if text in texts or text not in unrecorded]
    unrecorded -= {*base, *(each.content for each in ours)}
    texts = [text for text in texts if text not in unrecorded]
    changes = merge_log(name, base, ours, texts, now=run.read_moment(file), new_id=run.new_id)
    if run.is_rebuild and (forgotten := run.find_forgotten([each.value for each in changes])):
        run.report_problem(
            file.at, f"{len(forgotten)} paragraphs were forgotten on request; the others were taken"
        )
        changes = [each for each in changes if each.id not in forgotten]
    run.commit(file, changes)
    return run.settle(file)


def merge_log(
    name: str,
    base: Sequence[str],
    ours: Sequence[Paragraph],
    texts: Sequence[str],
    *,
    now: datetime,
    new_id: NewId,
) -> list[Change]:
    """Return the changes of an edited log: paragraphs changed, added, removed.

    An unchanged paragraph keeps its id, and so does one that was changed in its place. One that both sides
    changed stands in both versions, the person's first. One that one side removed and the other changed
    stays.

    Args:
        name: The log's name.
        base: The paragraphs that the person began with; none when that is not known: then none is removed.
        ours: The paragraphs that the store has.
        texts: The paragraphs of the file.
        now: The time.
        new_id: Returns a new id.

    Raises:
        InvalidInput: a paragraph is not valid, or most of the log has vanished.
    """
    if is_mass_removal(len(base) - len(texts), len(base)):
        raise parsing.EmptiedFile(
            f"{len(base) - len(texts)} of {len(base)} paragraphs are missing: restore them, or delete "
            "the file to clear the whole log"
        )
    from difflib import SequenceMatcher  # here: few logs are edited

    from reverie.domain.similarity.three_way_merge import merge_text, split_lines

    present = [each.content.replace("\r\n", "\n") for each in ours]  # as they are read back from a file
    lines = split_lines(merge_text(*map(_to_lines, (base, present, texts))))
    merged = [line.replace(_LINE_END, "\n") for line in lines]
    changes: list[Change] = []
    after: list[Paragraph] = []
    for what, low, high, start, stop in SequenceMatcher(None, present, merged, False).get_opcodes():
        old = list(ours[low:high])
        if what == "equal":
            after += old
            continue
        if high - low != stop - start:
            changes += [Change(before=each, after=None) for each in old]
            old = []
        for number, text in enumerate(merged[start:stop]):
            at = parsing.parse_moment(name, text, otherwise=old[number].at if old else now)
            made = (
                old[number] if old else Paragraph(id=new_id(), page=name, position=0.0, at=at, content=text)
            )
            after.append(validate_paragraph(replace(made, content=text, at=at)))
    known = {each.id: each for each in ours}
    placed = _place_paragraphs(after, known.keys())
    return changes + [
        Change(before=known.get(each.id), after=each) for each in placed if each != known.get(each.id)
    ]


def _to_lines(paragraphs: Iterable[str]) -> str:
    return "".join(f"{text.replace(chr(10), _LINE_END)}\n" for text in paragraphs)


_LINE_END = "\0"  # which no text has


def _place_paragraphs(paragraphs: Sequence[Paragraph], known: Collection[str]) -> list[Paragraph]:
    """Return paragraphs with positions in their order; the known ones keep theirs if there is room between them."""
    placed: list[Paragraph] = []
    for is_known, run in groupby(paragraphs, key=lambda each: each.id in known):
        group = list(run)
        if not is_known:
            room = len(group) + 1.0
            following = paragraphs[len(placed) + len(group) :]
            low = placed[-1].position if placed else following[0].position - room if following else 0.0
            step = ((following[0].position if following else low + room) - low) / room
            group = [replace(each, position=low + step * number) for number, each in enumerate(group, 1)]
        placed += group
    if any(low.position >= high.position for low, high in pairwise(placed)):
        return [replace(each, position=float(number)) for number, each in enumerate(placed, 1)]
    return placed


def import_session(run: HandEditRun, file: ChangedFile) -> None:
    """Import a session that the store lacks, such as after the database was lost.

    Conversations are not edited by hand: the file of any other session is written again.
    """
    name = parse_session_id(file.place.name) or file.place.name
    if run.store.session(name) is not None:
        if run.is_rebuild:
            raise InvalidInput(f"the session {name!r} is in another file too, which was taken")
        _log.warning(
            "%s was edited and is written again: see `reverie forget` and `reverie redact`", file.path
        )
        return run.settle(file)

    def check(turn: Turn) -> None:
        if run.store.turns([turn.id]):
            raise InvalidInput(f"the id {turn.id!r} is that of another turn: take it out")
        if run.find_forgotten([turn]):
            raise InvalidInput("it was forgotten on request: put [forgotten] there")

    state, turns, broken = parsing.read_session(
        file.path, file.data, now=run.now, new_id=run.new_id, check=check
    )
    if run.store.journal(id=state.id, limit=1) and not run.has_reappeared(file, state.id):
        return run.settle(file)
    if state.window_start > len(turns):
        raise InvalidInput(f"line 1: window_start is {state.window_start}: there are {len(turns)} turns")
    values: list[Value] = [state, *turns]
    run.commit(file, [Change(before=None, after=value) for value in values])
    if broken:  # the file itself is written from now on
        copy = run.disk.keep_beside(file.path, BROKEN, file.data)
        why = f"{'; '.join(broken[:3])}; all other lines are imported: delete it when you are done"
        run.report_problem(copy, why)
    return run.settle(file)


def import_missing_page(run: HandEditRun, path: str) -> None:
    """Import the deletion of a page or log: its text leaves the store, and stays in the journal."""
    name = path.removeprefix(f"{MEMORY}/")
    values: list[Value] = [*run.store.pages([name]), *run.store.paragraphs(page=name)]
    if any(value.id in run.find_pending(path) for value in values):
        values = []
    run.commit_edits(path, [Change(before=value, after=None) for value in values], "delete_file")
    run.drop_and_write(path)


_log = logging.getLogger("reverie")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictFile:
    """A thing that a person and the program changed at the same time in different ways.

    The person's version is live. Delete the file to settle the conflict.

    Attributes:
        path: The file that holds the program's version, relative to the memory's folder.
        of: The file that the person edited.
        id: The id of the record, turn or page; empty if only the file is left.
        fields: The fields that both have changed.
    """

    path: str
    of: str
    id: str
    fields: tuple[str, ...]


_IMPORTERS: Mapping[Form, Callable[[HandEditRun, ChangedFile], None]] = MappingProxyType(
    {"page": import_page, "log": import_log, "session": import_session}
)

_QUOTED = defer_regex(r"""(?<!\w)(['"])(.*?)(?<!\\)\1(?!\w)""", re.DOTALL)
_FIELDS = frozenset(each.name for kind in (Record, Turn, SessionState) for each in fields(kind))
_NEWS_S = 60.0


class HandEditImporter:
    """Importer of the hand edits in one folder. Safe for several threads and processes."""

    def __init__(self, writer: StoreWriter, state: FileState, root: Path) -> None:
        """Import the edits below `root` into a store.

        Args:
            writer: Commits them, inside the state's lock.
            state: The state of the files.
            root: The memory's folder.
        """
        self._writer = writer
        self._store = writer.store
        self._state = state
        self._root = root
        self._disk = AtomicFolder(root)
        self._problems: dict[str, BrokenFile] = {}
        self._emptied: set[str] = set()
        self._looked_at: tuple[object, ...] = ()

    def take_in(self, *, wait_s: float = 0.0) -> HandEditReport:
        """Examine all files, and import those that were edited and are not being saved.

        Args:
            wait_s: How long to wait at most for files that an editor may still be saving, in seconds.

        Returns:
            What was imported, and what could not be.

        Raises:
            StateUnavailable: the state of the files is locked or broken; nothing is lost, try again later.
            StoreError: the store cannot be read or written; likewise.
            OSError: a file cannot be written or removed, as on a full disk; likewise.
        """
        report = self._examine()
        until = time.monotonic() + wait_s
        while report.unfinished and (left := until - time.monotonic()) > 0:
            time.sleep(min(QUIET_S, left))
            before, report = report, self._examine()
            report.taken[:0] = before.taken
            report.lost, report.due = report.lost or before.lost, report.due or before.due
        return report

    def _examine(self) -> HandEditReport:
        if self._is_old_news(scan(self._root, self._state.known())):
            return HandEditReport(problems=self.problems())
        with self._state.lock() as ledger:
            run = HandEditRun(self._writer, ledger, self._disk)
            self._import(run, scan(self._root, ledger.known()))
            self._record_problems(run)
        run.report.problems = list(run.problems.values())
        return run.report

    def rebuild(self, marks: Store) -> HandEditReport:
        """Import all files into a new store.

        Args:
            marks: The store that knows what was forgotten.
        """
        with self._state.lock() as ledger:
            run = HandEditRun(self._writer, ledger, self._disk, marks=marks)
            self._import(run, scan(self._root, {}))
        run.report.problems = list(run.problems.values())
        return run.report

    def problems(self) -> list[BrokenFile]:
        """Return the files that could not be imported last time."""
        return [*self._problems.values()]

    def conflicts(self) -> list[ConflictFile]:
        """Return the conflicts whose files were not deleted yet."""
        return [self._read_conflict(path) for path in scan(self._root, self._state.known()).conflicts]

    def _read_conflict(self, path: str) -> ConflictFile:
        try:
            found = self._disk.read(path)
            about = json.loads(found[0] if found is not None else "{}")
            fields = tuple(map(str, about[CONFLICTING_FIELDS]))
            return ConflictFile(path=path, of=str(about[CONFLICT_WITH]), id=str(about["id"]), fields=fields)
        except (OSError, UnsafePath, ValueError, LookupError, TypeError):  # a person has edited it
            return ConflictFile(path=path, of="", id="", fields=())

    # -- one run -----------------------------------------------------------------------------------------

    def _import(self, run: HandEditRun, found: FolderScan) -> None:
        """Import what the scan has found."""
        for broken in found.odd:
            run.problems[broken.path] = broken
        for top in found.gone:
            run.report_lost(list(run.ledger.known(f"{top}/")), f"the folder {top!r} is missing")
        files = [] if run.is_rebuild else list(run.read_recovered_files())
        for file in run.read_changed_files([*found.changed, *found.added]):
            if run.is_unfinished(file):
                run.report.unfinished.append(file.path)
            elif original := run.find_original(file, found.added):
                run.report_problem(
                    file.path,
                    f"its text is nearly that of {original}, as if a sync program or an editor had copied that: "
                    "move what is new in it there and delete it, or give it another name",
                )
            else:
                files.append(file)
        records = RecordImporter(run, files, found.missing)
        records.import_changes()
        for file in files:
            if (import_file := _IMPORTERS.get(file.place.form)) is not None:
                run.attempt(file.at, partial(import_file, run, file))
        if not run.report.unfinished:  # a missing file may have been moved to one of those
            self._import_missing(run, records, found.missing)

    def _import_missing(self, run: HandEditRun, records: RecordImporter, paths: Sequence[str]) -> None:
        """Import deletions, unless their number looks like an accident."""
        ledger = run.ledger
        # A file whose write or removal failed may be missing for that reason.
        due = set(ledger.due())
        broken = self._problems.keys() - self._emptied
        moved = [path for path in paths if records.list_ids(path) and not records.list_gone(path)]
        own = [path for path in paths if path not in broken and (path in due or path in moved)]
        run.drop_and_write(*own)
        missing = [path for path in paths if path not in own]
        memories = [path for path in missing if path.startswith(f"{MEMORY}/")]
        gone = sum(max(1, len(records.list_gone(path))) for path in memories)
        known = sum(max(1, len(records.list_ids(path))) for path in ledger.known(f"{MEMORY}/"))
        if is_mass_removal(gone, known):
            run.report_lost(memories, f"{len(memories)} files are missing in {MEMORY!r}")
            missing = [path for path in missing if not path.startswith(f"{MEMORY}/")]
        for path in missing:
            place = parse_path(path)
            if place is None:
                ledger.drop([path])
            elif place.form == "session" or path in broken:
                # Of a broken file, the last good content is in force, and was not deleted.
                name = parse_session_id(place.name) if place.form == "session" else None
                kinds: dict[str, Subject] = {"session": "session", "page": "page", "log": "page"}
                run.write_again(path, kinds.get(place.form, "record"), name or place.name)
                _log.warning("%s was deleted and is written again: see `reverie forget`", path)
            elif place.form in ("record", "lines"):
                run.attempt(path, partial(records.import_missing, path))
            else:
                run.attempt(path, partial(import_missing_page, run, path))

    # -- problems ----------------------------------------------------------------------------------------

    def _is_old_news(self, found: FolderScan) -> bool:
        """Return whether a scan has found nothing new, so that the lock is not needed."""
        if found.missing or found.gone or self._disk.list_drafts():
            return False
        paths = {*found.changed, *found.added, *(broken.path for broken in found.odd)}
        return paths == self._problems.keys() and (not paths or self._looked_at == self._look())

    def _look(self) -> tuple[object, ...]:
        """Return what decides whether broken files are examined again: the store, and the files with their modes."""
        return self._store.sequence(), *(self._stat(path) for path in sorted(self._problems))

    def _stat(self, path: str) -> tuple[int, float]:
        try:
            seen = os.lstat(self._root / path)
        except OSError:
            return -1, 0.0
        return seen.st_size, seen.st_ctime

    def _record_problems(self, run: HandEditRun) -> None:
        """Record the problems, and log each once.

        Broken files are due, so that they are written again if a person deletes them.
        """
        before, self._problems, self._emptied = self._problems, {}, run.emptied
        for path, broken in run.problems.items():
            self._problems[path] = replace(broken, why=_remove_quotations(broken.why))
            if before.get(path) != self._problems[path]:
                is_news = time.time() - self._stat(path)[1] < _NEWS_S  # others have told older ones
                _log.log(logging.WARNING if is_news else logging.INFO, "not taken in: %s", broken)
            if run.ledger.find(path) is not None and path not in run.emptied:
                run.ledger.mark_due([path])
        self._looked_at = self._look()


def _remove_quotations(why: str) -> str:
    """Return a message without quotations, which may be of the file, except names of fields and ids."""
    return _QUOTED.sub(lambda quoted: quoted[0] if quoted[2] in _FIELDS or is_id(quoted[2]) else "'…'", why)
