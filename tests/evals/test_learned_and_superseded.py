"""`python -m evaluation learn` on a file of one's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from evaluation.measures.command import build_command


def write(file: Path, *items: Mapping[str, Any]) -> Path:
    file.write_text("\n".join(map(json.dumps, items)), encoding="utf-8")
    return file


def judge(name: str, file: Path) -> tuple[str, dict[str, Any]]:
    """Return what a measurement of a file prints, and its figures."""
    out = file.with_name("out.json")
    ran = CliRunner().invoke(build_command(name), [str(file), "--show-errors", "--json", str(out)])
    assert ran.exit_code == 0, ran.output
    [figures] = json.loads(out.read_text(encoding="utf-8"))["sets"].values()
    return ran.output, figures


def test_learning_counts_what_was_wanted_wrong_and_missed(tmp_path: Path) -> None:
    turn = {"language": "en", "before": [], "learn": []}
    decided = {"words": ["postgresql"], "kind": "decision"}
    file = write(
        tmp_path / "mine.jsonl",
        {**turn, "id": "a", "text": "We decided to use PostgreSQL.", "learn": [decided]},
        {**turn, "id": "b", "text": "We decided to use Redis.", "why": "for the test"},
        {**turn, "id": "c", "text": "Hello there.", "learn": [decided]},
        {**turn, "id": "d", "text": "Fine.", "before": [{"role": "user", "text": "We decided to use Go."}]},
    )
    printed, figures = judge("learn", file)
    assert "learned wrongly: We decided to use Redis. (b)" in printed
    assert "missed: postgresql (decision, c): Hello there." in printed
    assert (figures["wanted"], figures["learned"], figures["wrong"], figures["missed"]) == (2, 2, 1, 1)


def test_chats_count_junk_missed_sentences_and_rules(tmp_path: Path) -> None:
    def say(text: str, keep: bool | None, kind: str) -> dict[str, Any]:
        return {"before": "", "text": text, "sentences": [{"text": text, "keep": keep, "kind": kind}]}

    turns = [
        say("I am allergic to nuts.", True, "health"),
        say("We decided to use PostgreSQL.", False, "other"),
        say("What is a monad?", True, "fact"),
        say("My sister Ana lives in Turin.", None, "fact"),
    ]
    file = write(tmp_path / "mine.jsonl", {"id": "a", "language": "en", "conversations": [turns]})
    printed, figures = judge("chats", file)
    assert "junk: We decided to use PostgreSQL. (decision, a)" in printed
    assert "missed: What is a monad? (fact, a)" in printed
    names = ("wanted", "learned", "wrong", "missed", "rules", "right_rules")
    assert [figures[name] for name in names] == [2, 2, 1, 1, 1, 1]
