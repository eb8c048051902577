"""A process that works on a memory with several threads until it is killed, and says what it was told.

Run as `python worker.py FOLDER SEED THREADS`. It writes lines of JSON: `["try", what, …]` before a call and
`["done", what, …]` after the call has returned; `["refused", what, why]` when it raised `Conflict`;
`["wrong", text]` when something was not as it must be. Whatever is said to be done must be there afterwards,
however the process ends.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from reverie import Conflict, Memory, WorkingMemoryFull

SHARED = [
    "Bread is baked before sunrise at the northern mill",
    "Copper roofs turn green after about twenty winters",
    "Quiet trains leave the harbour station on even days",
    "Spare lanterns hang behind the blue pantry door",
    "Walnut shelves must never be oiled in July",
]
"""Facts that everybody saves: one record each, seen as often as it was saved."""

SESSIONS = ("chat:0", "chat:1", "chat:2")
"""Conversations that everybody adds to."""


class Thread:
    """One thread's work: a random choice of calls, each announced and acknowledged."""

    def __init__(self, memory: Memory, name: str) -> None:
        self._memory = memory
        self._name = name
        self._random = random.Random(name)
        self._count = 0
        self._own: list[tuple[str, str]] = []

    def run(self) -> None:
        """Work until the process ends."""
        calls: list[Callable[[], None]] = [
            self._save, self._save, self._repeat, self._update, self._archive, self._restore,
            self._turn, self._turn, self._turns, self._set, self._many, self._look,
        ]  # fmt: skip
        try:
            while True:
                self._count += 1
                self._random.choice(calls)()
        except BaseException:  # noqa: BLE001 - whatever it is, the test is told
            say("wrong", traceback.format_exc())
            os._exit(3)

    def _call(self, what: str, *about: Any, call: Callable[[], Any]) -> Any:
        say("try", what, *about)
        try:
            result = call()
        except Conflict as error:
            say("refused", what, str(error))
            return None
        say("done", what, *about)
        return result

    def _mark(self) -> str:
        return f"{self._name}n{self._count}"

    def _save(self) -> None:
        mark = self._mark()
        text = f"Crate {mark} holds {self._random.choice(('plums', 'pears', 'figs'))}"
        saved = self._call("save", text, call=lambda: self._memory.save(text))
        if saved is None:
            return
        if saved.outcome != "created" or saved.record.content != text:
            say("wrong", f"{text!r} was {saved.outcome} as {saved.record.content!r}")
        self._own.append((saved.record.id, text))

    def _many(self) -> None:
        texts = [f"Pallet {self._mark()}m{n} waits in hall {n}" for n in range(3)]
        saved = self._call("many", texts, call=lambda: self._memory.save_many({"content": t} for t in texts))
        if saved is not None:
            self._own += [(each.record.id, text) for each, text in zip(saved, texts, strict=True)]

    def _repeat(self) -> None:
        text = self._random.choice(SHARED)
        self._call("repeat", text, call=lambda: self._memory.save(text))

    def _update(self) -> None:
        if self._own:
            name, text = self._random.choice(self._own)
            source = self._mark()
            self._call("source", text, self._count, call=lambda: self._memory.update(name, source=source))

    def _archive(self) -> None:
        if self._own:
            name, text = self._random.choice(self._own)
            self._call("live", text, False, call=lambda: self._memory.archive(name, reason=self._mark()))

    def _restore(self) -> None:
        if self._own:
            name, text = self._random.choice(self._own)
            self._call("live", text, True, call=lambda: self._memory.restore(name))

    def _turn(self) -> None:
        session, text = self._random.choice(SESSIONS), f"Turn {self._mark()} of mine"
        self._call("turn", session, [text], call=lambda: self._memory.session(session).add("user", text))

    def _turns(self) -> None:
        session = self._random.choice(SESSIONS)
        texts = [f"Turn {self._mark()}m{n} of mine" for n in range(4)]
        given = [{"role": "user", "content": text} for text in texts]
        self._call("turn", session, texts, call=lambda: self._memory.session(session).add_many(given))

    def _set(self) -> None:
        key = f"{self._name}/{self._random.randrange(3)}"
        working = self._memory.session("chat:0").working

        def call() -> None:
            try:
                working.set(key, str(self._count), ttl=None)
            except WorkingMemoryFull:
                say("full", key)

        self._call("set", key, self._count, call=call)

    def _look(self) -> None:
        """What this thread saved last is found at once; what it asks for otherwise must not fail."""
        if self._own:
            name, text = self._own[-1]
            record = self._memory.get(name)
            hits = self._memory.search(text, limit=3)
            if record is None:
                say("wrong", f"{text!r} is gone")
            elif not record.archived and all(hit.id != name for hit in hits):
                say("wrong", f"{text!r} is not found by its own words")
        session = self._memory.session(self._random.choice(SESSIONS))
        session.context("which crates hold plums?")


_voice = threading.Lock()


def say(*what: Any) -> None:
    """One line, whole."""
    with _voice:
        os.write(1, (json.dumps(what) + "\n").encode())


def main() -> None:
    """Start the threads; they end with the process."""
    folder, seed, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    memory = Memory.open(folder)
    say("open")
    running = [
        threading.Thread(target=Thread(memory, f"s{seed}t{n}").run, daemon=True) for n in range(threads)
    ]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


if __name__ == "__main__":
    main()
