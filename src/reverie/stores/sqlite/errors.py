"""Translation of SQLite's errors into Reverie's."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from reverie.domain.errors import Conflict, InvalidInput, StoreCorrupt, StoreError, StoreUnavailable

_UNAVAILABLE = {
    sqlite3.SQLITE_FULL: "the disk is full: free some space and retry",
    sqlite3.SQLITE_READONLY: "it is read-only: make the file and its folder writable",
    sqlite3.SQLITE_PERM: "access is denied: make the file and its folder writable",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: see that the file is there and its folder is writable",
    sqlite3.SQLITE_BUSY: "another process has kept it locked for too long: retry when that has finished",
    sqlite3.SQLITE_LOCKED: "it is locked: retry",
    sqlite3.SQLITE_IOERR: "the disk reports an error: look at the disk and the system's log, then retry",
    sqlite3.SQLITE_PROTOCOL: "locking failed too often: retry; a network drive may not support it",
    sqlite3.SQLITE_NOMEM: "there is not enough memory: free some and retry",
    sqlite3.SQLITE_INTERRUPT: "it was interrupted: retry",
}
_RESTORE = (
    "run `reverie doctor --fix`; what that cannot repair, `reverie rebuild --force` makes again of the folder's "
    "files, or `reverie recover` brings back a backup"
)
CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}
"""Codes of errors that say that a file is damaged, or no database."""


def explain_unavailability(error: sqlite3.Error) -> str:
    """Return why a database cannot be used now and what to do; empty for an error of another kind."""
    extended = getattr(error, "sqlite_errorcode", None)
    if extended is None:
        return ""
    # The memory that SQLite shares between processes is a file too, and this is how it says that it cannot grow.
    code = sqlite3.SQLITE_FULL if extended == sqlite3.SQLITE_IOERR_SHMSIZE else extended & 0xFF
    return f"({error.sqlite_errorname}): {_UNAVAILABLE[code]}" if code in _UNAVAILABLE else ""


def translate_error(error: sqlite3.Error | UnicodeError, path: Path) -> Conflict | InvalidInput | StoreError:
    """Return the error to raise instead. Its message never quotes what is stored."""
    if isinstance(error, UnicodeDecodeError):  # SQLite's own words, of a definition that is no text any more
        return StoreCorrupt(f"{str(path)!r} is damaged (its definitions are no text): {_RESTORE}")
    if isinstance(error, UnicodeError):
        return InvalidInput(
            "an id or a name has a lone surrogate: decode the text with the error handler `replace`"
        )
    extended = getattr(error, "sqlite_errorcode", None)
    if extended is None:
        return _translate_without_code(error, path)
    code = extended & 0xFF
    if code in CORRUPT:
        return StoreCorrupt(f"{str(path)!r} is damaged ({error.sqlite_errorname}): {_RESTORE}")
    if reason := explain_unavailability(error):
        return StoreUnavailable(f"{str(path)!r} cannot be used {reason}")
    if code == sqlite3.SQLITE_CONSTRAINT:
        return Conflict(f"{str(path)!r} refused the change ({error.sqlite_errorname}): read again and retry")
    return StoreError(f"{str(path)!r}: SQLite failed with {error.sqlite_errorname}")


def is_undecodable(error: sqlite3.Error) -> bool:
    """Return whether an error says that a stored text is not UTF-8. Python raises it, without a code of SQLite."""
    return getattr(error, "sqlite_errorcode", None) is None and "decode" in str(error)


def _translate_without_code(error: sqlite3.Error, path: Path) -> StoreError:
    if is_undecodable(error):
        return StoreCorrupt(f"{str(path)!r} holds text that is not UTF-8: {_RESTORE}")
    if "closed" in str(error):
        return StoreUnavailable(f"{str(path)!r} has been closed: open it again")
    return StoreError(f"{str(path)!r}: {type(error).__name__}")
