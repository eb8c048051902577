"""Scopes: paths that name the owner of a memory, and the scopes that can read it.

A scope is a path such as `user:alice/session:telegram:1/task:deploy`, the widest part first. A reader in a scope
sees that scope, the scopes around it (`user:alice/session:telegram:1`, `user:alice`) and the empty scope, which
belongs to everybody.
"""

from __future__ import annotations

import unicodedata
from typing import Final

from reverie.domain.errors import InvalidInput
from reverie.domain.text.validation import validate_raw_text

EVERYBODY: Final = ""
"""The scope of what belongs to everybody: the agent's own memory."""

EVERY_SCOPE: Final = "*"
"""Value of `scope` for all scopes. Nothing can be saved in it."""

LONGEST_SCOPE = 200

_BETWEEN = "/"
_BEFORE_SESSION = "//"  # no scope contains it, so the scope ends before the first one
_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def validate_scope(scope: object, *, name: str = "scope") -> str:
    """Return `scope` if it is a valid scope: a path of at most 200 characters, or empty.

    Args:
        scope: What the caller passed.
        name: What to call it in an error.

    Raises:
        InvalidInput: it is too long, begins or ends with a blank, has a part that is empty, `.` or `..`, or
            has a character that cannot be seen; or it is `*`, which means all scopes.
    """
    text = validate_raw_text(scope, name=name, longest=LONGEST_SCOPE, empty=True)
    if not text:
        return text
    if text == EVERY_SCOPE:
        raise InvalidInput(f"{name} is '*', which means all of them: pass one, such as 'user:alice'")
    unseen = next((sign for sign in text if unicodedata.category(sign) in _UNSEEN), None)
    if unseen is not None:
        raise InvalidInput(f"{name} has the character U+{ord(unseen):04X}, which cannot be seen: remove it")
    for part in text.split(_BETWEEN):
        if part.strip() != part:
            raise InvalidInput(f"{name} is {text!r}: remove the blanks around {part.strip()!r}")
        if part in {"", ".", ".."}:
            raise InvalidInput(
                f"{name} is {text!r}: between slashes there are names, as in 'user:alice/task:deploy'"
            )
    return text


def visible_scopes(scope: str) -> tuple[str, ...]:
    """Return the scopes that a reader in `scope` sees, the narrowest first and the empty one last.

    >>> visible_scopes("user:alice/task:deploy")
    ('user:alice/task:deploy', 'user:alice', '')
    """
    parts = scope.split(_BETWEEN) if scope else []
    return (*(_BETWEEN.join(parts[:end]) for end in range(len(parts), 0, -1)), EVERYBODY)


def join_scope(scope: str, name: str) -> str:
    """Return the scope with a name within another scope; raises `InvalidInput` if it is not valid.

    >>> join_scope("user:alice", "task:deploy")
    'user:alice/task:deploy'
    """
    if not validate_scope(name):
        raise InvalidInput("scope is empty: name what lies within, such as 'task:deploy'")
    return validate_scope(f"{scope}{_BETWEEN}{name}" if scope else name)


def is_within(scope: str, wider: str) -> bool:
    """Return whether a scope is equal to another one or lies within it; all lie within the empty one.

    >>> is_within("user:alice/task:deploy", "user:alice"), is_within("user:alicia", "user:alice")
    (True, False)
    """
    return wider in visible_scopes(scope)


def parse_session_scope(name: str) -> str:
    """Return the scope at the beginning of a session's id; empty if it has none.

    >>> parse_session_scope("user:alice//telegram:1"), parse_session_scope("telegram:1")
    ('user:alice', '')
    """
    scope, between, _ = name.partition(_BEFORE_SESSION)
    return scope if between else EVERYBODY


def build_scoped_session_id(scope: str, name: str) -> str:
    """Return the id of the session with a name in a scope. Sessions of two scopes never have the same id.

    In the empty scope the name is the id, unless it begins like an id of another scope.

    >>> build_scoped_session_id("user:alice", "telegram:1"), build_scoped_session_id("", "telegram:1")
    ('user:alice//telegram:1', 'telegram:1')
    >>> build_scoped_session_id("", "user:alice//telegram:1")
    '//user:alice//telegram:1'
    """
    if not scope and not parse_session_scope(name):
        return name
    own = f"{scope}{_BEFORE_SESSION}"
    return name if name.startswith(own) else own + name


def build_unscoped_session_id(name: str) -> str:
    """Return the id of a session of the empty scope whose usual id belongs to another scope already.

    >>> build_unscoped_session_id("telegram:1")
    '//telegram:1'
    """
    return _BEFORE_SESSION + name
