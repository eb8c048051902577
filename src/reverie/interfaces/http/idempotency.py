"""Requests with an `Idempotency-Key`, so that a repeated request is not done twice.

A cursor of the store says what was done. The transaction that does it sets it, so that not even a killed
server leaves one without the other. It holds ids and numbers, never content; the answer is made again from these.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from reverie.domain.text.timestamps import format_time, parse_time
from reverie.interfaces.http.operations import Call, OperationAnswer, Problem
from reverie.memory import Memory

KEPT = timedelta(hours=24)
"""Time for which a request is remembered."""

LONGEST_KEY = 255

_CURSOR = "http.key."
_PRUNED_EVERY = 100


class RepeatedRequests:
    """Requests with a key in one store. Safe to use from several threads."""

    def __init__(self, memory: Memory) -> None:
        self._cursors = memory.admin.cursors
        self._now = memory.now
        self._lock = threading.Lock()
        self._running: set[str] = set()
        self._made = 0

    def run(
        self,
        call: Call,
        key: str,
        request: bytes,
        act: Callable[[], OperationAnswer[Any]],
        replay: Callable[[Call, Any], OperationAnswer[Any]],
    ) -> OperationAnswer[Any]:
        """Do a request, or return the answer to the same request again.

        Args:
            call: The request.
            key: Its key.
            request: Its method, path and body.
            act: Function that does the request.
            replay: Function that makes the answer again from its reference.

        Raises:
            Problem: the key was used for something else, or the first request is still running.
        """
        if not key or len(key) > LONGEST_KEY:
            raise Problem(422, f"Idempotency-Key has {len(key)} characters. Send 1 to {LONGEST_KEY}.")
        name, asked = _CURSOR + _hash(f"{call.caller.token}\n{key}".encode()), _hash(request)
        with self._lock:
            if name in self._running:
                what = "A request with this Idempotency-Key is still running. Wait for its answer, or send it again."
                raise Problem(409, what, kind="still-running", headers={"Retry-After": "1"})
            self._running.add(name)
        try:
            known = json.loads(self._cursors.get(name) or "null")
            if known is not None and not self._is_old(known["at"]):
                return self._repeat(call, known, asked, replay)
            now = format_time(self._now())
            with self._cursors.setting({name: json.dumps({"at": now, "asked": asked})}):
                answer = act()
            done = {"at": now, "asked": asked, "status": answer.status, "reference": answer.reference}
            self._cursors.set({name: json.dumps(done)})
        finally:
            self._running.discard(name)
        self._prune_sometimes()
        return answer

    @staticmethod
    def _repeat(
        call: Call,
        known: Mapping[str, Any],
        asked: str,
        replay: Callable[[Call, Any], OperationAnswer[Any]],
    ) -> OperationAnswer[Any]:
        if known["asked"] != asked:
            what = "This Idempotency-Key was used for another request. Send each request with its own key."
            raise Problem(422, what, kind="key-reused")
        if "status" not in known:
            what = (
                "The change of this Idempotency-Key was made, and the server stopped before it could answer."
            )
            raise Problem(409, f"{what} Read the result, and do not send it again.", kind="already-done")
        answer = replay(call, known["reference"])
        answer.status = known["status"]
        answer.headers["Idempotent-Replayed"] = "true"
        return answer

    def _prune_sometimes(self) -> None:
        """Forget old requests, once in many requests."""
        self._made += 1
        if self._made % _PRUNED_EVERY == 1:
            kept = self._cursors.list(_CURSOR)
            self._cursors.set(
                {name: None for name, text in kept.items() if self._is_old(json.loads(text)["at"])}
            )

    def _is_old(self, at: str) -> bool:
        return self._now() - parse_time(at) > KEPT


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
