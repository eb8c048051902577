"""Errors, and what the caller can do about each.

    ReverieError
    ├── InvalidInput (ValueError)      the argument is wrong: correct it and call again
    ├── NotFound (LookupError)         no such thing: search or list for the right id
    ├── Conflict                       somebody else changed it first: read again and retry
    ├── WorkingMemoryFull              nothing was stored: drop an entry or wait for one to expire
    ├── StoreError
    │   ├── StoreUnavailable           disk full, read-only, locked: fix that and retry
    │   ├── ForgettingUnfinished       erased in part: run `reverie doctor --fix`
    │   ├── StoreCorrupt               the data on disk cannot be read: see `admin.check()`
    │   └── StoreIncompatible           not a Reverie store, or one made by a newer Reverie
    ├── ModelError
    │   ├── ModelUnavailable           too busy, unreachable, cut off: try again later
    │   │   └── ModelTimeout           no answer in time: try again later, or allow more time
    │   └── ModelRefused               the question, the key or the model's name is wrong
    └── MissingExtra (ImportError)     an optional package is not installed: the message names it

A message says what failed, the value in repr, and what to do next. It never quotes a memory's content.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from reverie.domain.lazy_regex import defer_regex

LONGEST_QUOTATION = 200
"""Most characters of a value that a message quotes."""

_QUOTED = defer_regex(
    r"""(?<![\w\\])b?(['"])(?>(?:\\.|(?!\1)[^\\])*)\1|[\[{(][^\[\]{}()]*[\]})]""", re.DOTALL
)


def clean_message(message: str) -> str:
    """Return a message without secrets, each quoted text and each list of values cut to `LONGEST_QUOTATION`."""
    from reverie.domain.secrets.redactor import redact_secrets  # here: most programs never see an error

    message = redact_secrets(message)
    if len(message) <= LONGEST_QUOTATION:
        return message
    return _QUOTED.sub(_shorten_quotation, message)


def _shorten_quotation(quoted: re.Match[str]) -> str:
    text = quoted[0]
    return text if len(text) <= LONGEST_QUOTATION else f"{text[: LONGEST_QUOTATION - 2]}…{text[-1]}"


def quote_value(value: object) -> str:
    """Return a value as a message quotes it: its repr, unless it is a number of too many digits."""
    try:
        return repr(value)
    except ValueError:  # Python formats no number of thousands of digits
        return f"{type(value).__name__} of too many digits"


class ReverieError(Exception):
    """The root of every error that Reverie raises on purpose. No secret is in its message."""

    def __init__(self, *args: object) -> None:
        """Make an error whose quoted values are shortened, and whose secrets are redacted."""
        super().__init__(*(clean_message(each) if isinstance(each, str) else each for each in args))


class InvalidInput(ReverieError, ValueError):
    """An argument is wrong. Nothing was changed; correct the argument and call again."""


class NotFound(ReverieError, LookupError):
    """No record, turn, session or entry of that name. Nothing was changed."""


class Conflict(ReverieError):
    """Somebody else changed the same thing first. Read it again and retry."""


class TextExists(Conflict):
    """A live record of the scope has the same text. Read that record and change it."""


class WorkingMemoryFull(ReverieError):
    """The namespace holds as many live entries as it may. Nothing was stored."""


class StoreError(ReverieError):
    """The store could not do what was asked. Except for `ForgettingUnfinished`, nothing was changed in part."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or written now: disk full, read-only folder, lock held too long."""


class ForgettingUnfinished(StoreError):
    """Content has gone from the database, but not from everywhere else. `reverie doctor --fix` finishes it."""


class StoreCorrupt(StoreError):
    """Bytes on disk are not what was written there."""


class StoreIncompatible(StoreError):
    """The file is not a Reverie store, or a newer Reverie made it."""


class ModelError(ReverieError):
    """A model gave no answer. Nothing that is remembered depends on it."""


class ModelUnavailable(ModelError):
    """The model was too slow, too busy, unreachable or cut off. Try again later."""


class ModelTimeout(ModelUnavailable):
    """The model gave no answer in time. Try again later, or allow more time."""


class ModelRefused(ModelError):
    """The model, or its server, will not answer this: the question, the key or the name is wrong."""


class MissingExtra(ReverieError, ImportError):
    """An optional package is needed for this. The message names the install command."""

    def __init__(self, message: str) -> None:
        """Make an error whose install command works for this installation."""
        super().__init__(adapt_install_commands(message))


_INSTALL_COMMAND = defer_regex(r"pip install 'reverie(\[[\w,-]+\])'")


def adapt_install_commands(text: str) -> str:
    """Return a text whose `pip install 'reverie[…]'` works for this installation: from an index, a checkout or a file.

    How a package was installed is in its `direct_url.json` (PEP 610), which is missing if it came from an index.
    """
    from importlib.metadata import (  # here: most programs never see an error
        PackageNotFoundError,
        distribution,
    )
    from json import loads

    try:
        record = distribution("reverie").read_text("direct_url.json")
    except PackageNotFoundError:  # a source tree on the path
        record = None
    if record is None:
        return text
    url = loads(record)["url"]
    return _INSTALL_COMMAND.sub(lambda match: f"pip install 'reverie{match[1]} @ {url}'", text)


@contextmanager
def translate_os_errors(what: str) -> Iterator[None]:
    """Raise `StoreUnavailable` in place of errors of the operating system.

    Args:
        what: What failed, such as `the folder cannot be examined`.
    """
    try:
        yield
    except OSError as error:
        raise build_os_error(what, error, "see that there are room and permissions, and try again") from error


TOO_MANY_FILES = (
    "this process has too many files open: close memories that are not in use, or raise `ulimit -n`"
)


def build_os_error(what: str, error: OSError, advice: str) -> StoreUnavailable:
    """Return the error to raise in place of an error of the operating system.

    Args:
        what: What failed, such as `the folder cannot be examined`.
        error: The error.
        advice: What to do, unless room or file descriptors have run out.
    """
    if is_out_of_files(error):
        advice = TOO_MANY_FILES
    elif error.errno in (errno.ENOSPC, errno.EDQUOT):
        advice = "free some space and retry"
    return StoreUnavailable(f"{what} ({error.strerror or error}): {advice}")


def is_out_of_files(error: BaseException) -> bool:
    """Return whether an error says that this process, or the system, has too many files open."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)
