"""Share of each prompt that a provider's prompt cache can reuse: `python -m benchmarks.cache`.

Replays a conversation of 200 turns over a real memory: facts are saved and recalled, `MEMORY.md` is edited,
working memory fills and expires, tools answer, days pass, the window is summarized. The common prefix of
every two consecutive prompts is measured in characters, since caches match prompts from the first token: the
system text, then the messages as sent. No model is called.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

from reverie import Memory
from reverie.context.pack import Pack
from reverie.llm.protocol import ModelRequest
from reverie.settings import Settings

TURNS = 200
LEAST = 0.9
"""Least share of the stable part that must equal that of the previous prompt."""

_PEOPLE = ("Ana", "Boris", "Chidi", "Dagny", "Emeka", "Farida")
_THINGS = ("billing", "search", "mailer", "gateway", "ledger", "scheduler")
_PROFILE = {
    "soul.md": "You are a careful assistant to a small team. " * 12,
    "directives.md": "\n".join(f"- Rule {n}: say what you did, and what you did not do." for n in range(20)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The prompt of one turn.

    Attributes:
        pack: The pack of the session.
        whole: System text and messages, as one text.
    """

    pack: Pack
    whole: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Common prefixes of the prompts of a conversation.

    Attributes:
        prompts: How many there were.
        stable: Of the stable parts, the share that is the same as before, 0 to 1.
        unchanged: The share of prompts whose stable part is the same from its first to its last byte.
        whole: Of the whole prompts, the share that is the same as before, from the beginning on.
        system: The share of the whole prompts that is stable.
        most_tokens: What the largest system text was counted as.
        hard_tokens: The hard budget.
    """

    prompts: int
    stable: float
    unchanged: float
    whole: float
    system: float
    most_tokens: int
    hard_tokens: int

    def __str__(self) -> str:
        return "\n".join(
            (
                f"{self.prompts} prompts, each compared with the one before:",
                f"  of the stable part unchanged: {self.stable:.1%} (required: {LEAST:.0%})",
                f"  stable parts without any change: {self.unchanged:.1%}",
                f"  of the whole prompt unchanged, from its start: {self.whole:.1%}",
                f"  of the whole prompt stable: {self.system:.1%}",
                f"  largest system text: {self.most_tokens:,} of {self.hard_tokens:,} tokens",
            )
        )


def compute_figures(prompts: Sequence[Prompt]) -> Figures:
    """Compare each prompt with the previous one.

    Args:
        prompts: Two or more prompts of one conversation, in order.
    """
    same = stable = whole = every = unchanged = 0
    for before, now in pairwise(prompts):
        part = now.pack.stable_text
        common = _count_common(before.whole, now.whole)
        same += min(common, len(part))
        stable += len(part)
        whole += common
        every += len(now.whole)
        unchanged += before.pack.stable_text == part
    return Figures(
        prompts=len(prompts),
        stable=same / stable,
        unchanged=unchanged / (len(prompts) - 1),
        whole=whole / every,
        system=stable / every,
        most_tokens=max(prompt.pack.tokens for prompt in prompts),
        hard_tokens=prompts[0].pack.hard_tokens,
    )


def _count_common(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts."""
    if one == other:
        return len(one)
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def run_conversation(folder: Path, *, turns: int = TURNS, seed: int = 1) -> list[Prompt]:
    """Return the prompts of a conversation, one for each user turn.

    Args:
        folder: Folder for the memory and its profile.
        turns: Number of turns, including the assistant's.
        seed: Seed of the random choices.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in _PROFILE.items():
        (folder / name).write_text(text, encoding="utf-8")
    clock = _Clock()
    settings = Settings(files="none", default_ttl_minutes=30)
    with Memory.open(folder, settings=settings, clock=clock, model=_answer_as_model) as memory:
        memory.pages.write(
            "MEMORY.md",
            "# Team\n\n" + "\n".join(f"- {name} works on {thing}." for name, thing in _pair_people()),
        )
        memory.save("Never deploy on a Friday", pinned=True)
        return list(_replay(memory, clock, turns=turns, chance=random.Random(seed)))


class _Clock:
    """A clock that the benchmark moves."""

    def __init__(self) -> None:
        self.now = datetime(2025, 3, 3, 9, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def _pair_people() -> Iterator[tuple[str, str]]:
    return zip(_PEOPLE, _THINGS, strict=True)


def _replay(memory: Memory, clock: _Clock, *, turns: int, chance: random.Random) -> Iterator[Prompt]:
    session = memory.session("chat:cache")
    for number in range(turns // 2):
        who, what = chance.choice(_PEOPLE), chance.choice(_THINGS)
        size = chance.randint(10, 99)
        session.add("user", f"{number}: what did {who} say about {what}, and are there {size} left?")
        yield _build_prompt(session.context())
        if number % 4 == 1:
            _use_a_tool(session.add_many, session.working.set, number, what, size)
            yield _build_prompt(session.context())
        session.add("assistant", f"{who} said that {what} has {size} left and {number} to go.")
        memory.save(
            f"{who} said that {what} number {number} has {size} entries", kind="finding", origin="agent"
        )
        if number % 25 == 24:
            memory.pages.append("MEMORY.md", f"- {who} is away in week {number}.")
        if number % 45 == 44:
            now_and_then = ("works on billing", "has left billing")
            before, after = now_and_then[:: 1 if number % 90 == 44 else -1]
            page = memory.pages.read("MEMORY.md")
            memory.pages.write("MEMORY.md", page.replace(before, after, 1), expected=page)
        if number % 30 == 29:
            memory.dreams.run_window("chat:cache", "compact", keep=20)
        memory.dreams.run_due()
        clock.now += timedelta(minutes=chance.choice((1, 3, 10, 45)))
        if number % 20 == 19:
            clock.now += timedelta(hours=16)


def _use_a_tool(
    add: Callable[..., object], store: Callable[..., object], number: int, what: str, size: int
) -> None:
    call = {"id": f"c{number}", "name": "count", "arguments": json.dumps({"what": what})}
    add(
        [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": f"{what}: {size}\n" * 20, "tool_call_id": f"c{number}"},
        ]
    )
    store(f"count-{number}", f"{what}: {size}")


def _answer_as_model(ask: ModelRequest) -> str:
    """Answer requests of background work in place of a model."""
    if ask.purpose == "digest":
        notes = (
            ask.messages[-1].content.rpartition("Long-term notes:")[2].partition("Conversation:")[0].strip()
        )
        told = {"history_entry": "They counted.", "memory_update": f"{notes}\n- They count what is left."}
        return json.dumps(told)
    return (
        f"They counted what was left. {len(ask.messages[-1].content)}" if ask.purpose == "compact" else "{}"
    )


def _build_prompt(pack: Pack) -> Prompt:
    sent = [pack.text, *(json.dumps(message, sort_keys=True) for message in pack.messages)]
    return Prompt(pack=pack, whole="\n".join(sent))


def main() -> int:
    """Measure and print; return 1 if the share is too low or the budget was exceeded."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cache", description=__doc__)
    parser.add_argument("--turns", type=int, default=TURNS, help="turns of the conversation")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random choices")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="reverie-cache-") as base:
        found = compute_figures(run_conversation(Path(base) / "memory", turns=asked.turns, seed=asked.seed))
    print(found)
    return 0 if found.stable >= LEAST and found.most_tokens <= found.hard_tokens else 1


if __name__ == "__main__":
    sys.exit(main())
