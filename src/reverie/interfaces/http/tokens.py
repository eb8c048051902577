"""Access tokens: who calls, within which scope, and what they may do.

A token is `rvr_`, an id and 256 random bits. The store keeps a hash of the bits, as a cursor; the token itself is
shown once, when it is created.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Literal, get_args

from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.record import ORIGINS, Origin, validate_choice
from reverie.domain.scope import validate_scope
from reverie.domain.text.json_values import to_json_object
from reverie.domain.text.timestamps import add_duration, format_time, parse_duration, parse_time
from reverie.domain.text.validation import validate_text
from reverie.memory import Memory

Right = Literal["read", "write", "review", "forget", "admin"]
"""Rights of a token: reading, changing, plans and undo, erasure, and everything about the memory as a whole."""

RIGHTS: tuple[Right, ...] = get_args(Right)

PREFIX = "rvr_"
LONGEST_LABEL = 100

_FORM = defer_regex(r"rvr_([0-9a-z]{8})_([A-Za-z0-9_-]{43})")
_CURSOR = "http.token."
_USED = "http.token-used."
_TIMES = ("created_at", "expires_at", "revoked_at")
_REQUIRED = "http.token-required"
_USE_NOTED_EVERY = timedelta(minutes=1)
_NO_DIGEST = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One token, without its secret.

    Attributes:
        id: 8 characters, which stand in the token.
        label: Name of its holder: the author of their changes in the journal.
        scope: Scope that everything asked with it lies in; empty for all.
        rights: What it allows.
        origin: Most trusted origin of what is saved with it.
        digest: SHA-256 of the secret, in hexadecimal.
        created_at: When it was created.
        expires_at: When it ends by itself; None for never.
        revoked_at: When it was revoked; None if it was not.
        last_used_at: When it was last used, to the minute; None for never.
    """

    id: str
    label: str
    scope: str
    rights: tuple[Right, ...]
    origin: Origin
    digest: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None

    def is_valid(self, now: datetime) -> bool:
        """Whether it is accepted at that time."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def to_dict(self) -> dict[str, Any]:
        """Return what may be shown of it, as JSON values."""
        return {name: value for name, value in to_json_object(self).items() if name != "digest"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Sender of a request, and their rights.

    Attributes:
        label: Author of their changes in the journal.
        scope: Scope that everything they ask lies in; empty for all.
        rights: What they may do.
        origin: Most trusted origin of what they save.
        token: Id of their token; empty where none is required.
    """

    label: str
    scope: str = ""
    rights: tuple[Right, ...] = RIGHTS
    origin: Origin = "owner"
    token: str = ""

    def limit_origin(self, wanted: Origin) -> Origin:
        """Return the less trusted of an origin and the most trusted one allowed."""
        return max(wanted, self.origin, key=ORIGINS.index)


class TokenRegistry:
    """The tokens of one memory. Safe to use from several threads and processes."""

    def __init__(self, memory: Memory) -> None:
        self._cursors = memory.admin.cursors
        self._now = memory.now
        self._lock = threading.Lock()
        self._used: dict[str, datetime] = {}
        self._is_required = False

    def create(
        self,
        label: str,
        *,
        scope: str = "",
        rights: Iterable[Right] = ("read",),
        origin: Origin = "agent",
        expires: str | None = None,
    ) -> tuple[Token, str]:
        """Create a token. From then on, every request needs one.

        Args:
            label: Name of its holder, 1 to 100 characters.
            scope: Scope that it is bound to; only a token with the right `admin` may have none.
            rights: What it allows.
            origin: Most trusted origin of what is saved with it.
            expires: Time after which it ends, such as `30d`; None for never.

        Returns:
            The token, and its text, which is not stored.

        Raises:
            InvalidInput: an argument is not of its form.
        """
        validate_text(label, name="label", longest=LONGEST_LABEL)
        validate_scope(scope)
        validate_choice(origin, ORIGINS, name="origin")
        allowed = tuple(right for right in RIGHTS if right in set(rights))
        for right in set(rights):
            validate_choice(right, RIGHTS, name="right")
        if not allowed:
            raise InvalidInput(f"the token has no right: name at least one of {', '.join(RIGHTS)}")
        if not scope and "admin" not in allowed:
            raise InvalidInput(
                "a token needs a scope (`--scope user:alice`) or the right admin (`--right admin`)"
            )
        if scope and "admin" in allowed:
            raise InvalidInput("the right admin is about all scopes: leave out the scope, or the right")
        now = self._now()
        end = None if expires is None else add_duration(now, parse_duration(expires, name="expires"))
        secret = secrets.token_urlsafe(32)
        token = Token(
            id=secrets.token_hex(4),
            label=label,
            scope=scope,
            rights=allowed,
            origin=origin,
            digest=_digest(secret),
            created_at=now,
            expires_at=end,
        )
        self._store(token)
        return token, f"{PREFIX}{token.id}_{secret}"

    def list(self) -> list[Token]:
        """Return all tokens, the newest first, revoked ones too."""
        cursors = self._cursors.list(_CURSOR)
        tokens = [self._read(name.removeprefix(_CURSOR), text) for name, text in cursors.items()]
        return sorted(tokens, key=lambda token: token.created_at, reverse=True)

    def revoke(self, id: str) -> Token:
        """Revoke a token; it is refused from the next request on.

        Raises:
            NotFound: there is no token of that id.
        """
        text = self._cursors.get(_CURSOR + id)
        if text is None:
            raise NotFound(f"no token has the id {id!r}: `reverie token list` shows the ids")
        token = self._read(id, text)
        if token.revoked_at is None:
            token = replace(token, revoked_at=self._now())
            self._store(token)
        return token

    def _store(self, token: Token) -> None:
        text = json.dumps(to_json_object(token), ensure_ascii=False)
        self._cursors.set({_CURSOR + token.id: text, _REQUIRED: "1"})

    def is_required(self) -> bool:
        """Whether a token was ever created, so that every request needs one; it stays so for ever."""
        self._is_required = self._is_required or self._cursors.get(_REQUIRED) is not None
        return self._is_required

    def authenticate(self, text: str) -> Caller | None:
        """Return the holder of a token; None if it is unknown, revoked or expired.

        The comparison takes the same time for an unknown id as for a wrong secret.
        """
        match = _FORM.fullmatch(text)
        name, secret = match.groups() if match else ("", "")
        stored, now = self._cursors.get(_CURSOR + name) if match else None, self._now()
        token = _decode(name, stored) if stored else None
        is_same = hmac.compare_digest(_digest(secret), token.digest if token else _NO_DIGEST)
        if token is None or not is_same or not token.is_valid(now):
            return None
        self._note_use(token.id, now)
        return Caller(
            label=token.label, scope=token.scope, rights=token.rights, origin=token.origin, token=token.id
        )

    def _note_use(self, id: str, now: datetime) -> None:
        """Store the time of use, at most once a minute."""
        with self._lock:
            last = self._used.get(id)
            if last is not None and abs(now - last) < _USE_NOTED_EVERY:
                return
            self._used[id] = now
        self._cursors.set({_USED + id: format_time(now)})

    def _read(self, id: str, text: str) -> Token:
        """Return a token with its last use."""
        used = self._cursors.get(_USED + id)
        return replace(_decode(id, text), last_used_at=None if used is None else parse_time(used))


@lru_cache(maxsize=1_000)
def _decode(id: str, text: str) -> Token:
    """Return a token as the store has it, without its last use."""
    fields = json.loads(text)
    times = {name: parse_time(at) for name in _TIMES if (at := fields[name])}
    return Token(**{**fields, **times, "id": id, "rights": tuple(fields["rights"])})


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
