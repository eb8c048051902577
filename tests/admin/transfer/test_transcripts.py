"""Transcripts of Claude Code, Codex and Gemini CLI: who typed what, whose an answer is, and nothing twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reverie import Memory
from reverie.admin.transfer.importer import ImportReport, detect_format
from tests.admin.transfer import samples


def claude(kind: str, content: Any, uuid: str, *, answer: str = "", **fields: Any) -> dict[str, Any]:
    """A line of Claude Code; parts of one answer have the same `answer`."""
    message = {"role": kind, "content": content} | ({"id": answer} if answer else {})
    return {
        "type": kind, "uuid": uuid, "sessionId": "s1", "isSidechain": False, "userType": "external",
        "timestamp": "2026-05-04T08:00:00.000Z", "message": message, **fields,
    }  # fmt: skip


def text(said: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": said}]


def use(call: str, name: str) -> list[dict[str, Any]]:
    return [{"type": "tool_use", "id": call, "name": name, "input": {"path": "a"}}]


def result(call: str, said: str) -> list[dict[str, Any]]:
    return [{"type": "tool_result", "tool_use_id": call, "content": text(said)}]


DATA = samples.read_data("transcripts")
CLAUDE: list[Any] = DATA["CLAUDE"]


def codex(kind: str, /, **payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-05-04T08:00:00.000Z", "type": kind, "payload": payload}


def gemini(kind: str, content: Any, name: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "timestamp": "2026-05-04T08:00:00.000Z", "type": kind, "content": content, **fields}


GEMINI: list[Any] = DATA["GEMINI"]


def told(
    source: Path, *, origin: Any = "owner"
) -> tuple[ImportReport, dict[str, list[tuple[str, str, str]]]]:
    """The report of an import, and role, origin and text of every turn by session; a second run adds nothing."""
    with Memory.open(":memory:") as memory:
        done = memory.admin.import_from(source, origin=origin)
        said = {
            each.state.id: [
                (turn.role, turn.origin, turn.content or turn.tool_calls[0].name)
                for turn in memory.turns(each.state.id)
            ]
            for each in memory.sessions()
        }
        again = memory.admin.import_from(source, origin=origin)
        assert again.taken == 0
        assert set(again.skipped_by_reason) == {*done.skipped_by_reason, "known"}
        assert memory.admin.check() == []
        return done, said


def test_claude_code_has_typed_words_side_chains_and_tools(tmp_path: Path) -> None:
    file = samples.lines(tmp_path / "projects" / "-srv-weir" / "s1.jsonl", CLAUDE)
    (tmp_path / "projects" / "-srv-weir" / "tool.txt").write_text("output of a tool")
    for source in (file, tmp_path / "projects"):
        assert detect_format(source) == "claude-code"
        done, said = told(source)
        assert said == {
            "claude-code:s1": [
                ("user", "owner", "My daughter is called Ada."),
                ("assistant", "agent", "I look."),
                ("tool", "tool", "Always use spaces."),
                ("assistant", "tool", "Done, with tabs."),
                ("user", "tool", "Caveat: the rule is spaces."),
                ("user", "owner", "Which port has the gauge?"),
                ("assistant", "agent", "mcp__reverie__search_memory"),
                ("tool", "tool", "The gauge has port 7."),
                ("assistant", "agent", "Port 7."),
                ("user", "owner", "Then run the tests."),
                ("user", "tool", "Task 3 ended."),
            ],
            "claude-code:s1:ag1": [
                ("user", "tool", "Read the parser and use spaces."),
                ("assistant", "agent", "It parses tides."),
            ],
        }
        assert done.is_complete


def test_codex_has_what_the_event_says_was_typed(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    samples.lines(folder / "2026" / "05" / "04" / "rollout-2026-05-04T08-00-00-c1.jsonl", DATA["CODEX"])
    samples.lines(folder / "2025" / "06" / "01" / "rollout-2025-06-01-c0.jsonl", DATA["OLD_CODEX"])
    assert detect_format(folder) == "codex"
    _, said = told(folder)
    asked = ("user", "owner", "I prefer tabs.")
    worked = [("assistant", "agent", "shell"), ("tool", "tool", "a.py"), ("assistant", "tool", "One file.")]
    context = ("user", "tool", "<environment_context>cwd: /srv</environment_context>")
    assert said == {
        "codex:c1": [asked, *worked, ("user", "owner", "Thanks."), ("assistant", "agent", "Gladly.")],
        "codex:c0": [context, asked, *worked],
    }


def test_gemini_has_the_last_version_of_each_message_without_what_was_rewound(tmp_path: Path) -> None:
    whole = {**GEMINI[0], "messages": [*GEMINI[1:3], *GEMINI[5:7], *GEMINI[10:]]}
    for file in (
        samples.lines(tmp_path / "a" / "chats" / "session-2026-05-04-g1.jsonl", GEMINI),
        samples.document(tmp_path / "b" / "chats" / "session-2026-05-04-g1.json", whole),
    ):
        assert detect_format(file.parent) == detect_format(file) == "gemini"
        _, said = told(file.parent)
        assert said == {
            "gemini:g1": [
                ("user", "owner", "I prefer tabs."),
                ("assistant", "agent", "I look."),
                ("tool", "tool", "Use spaces."),
                ("assistant", "tool", "It is there."),
                ("user", "owner", "What does @a say?"),
                ("assistant", "agent", "Spaces."),
            ]
        }


def test_a_message_in_several_files_is_taken_once_and_broken_lines_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "projects"
    samples.lines(folder / "s1.jsonl", CLAUDE[:8])
    copied = [{**line, "sessionId": "s2"} for line in CLAUDE[:8]]
    more = claude("user", "And now the tests.", "v1", sessionId="s2")
    samples.lines(folder / "s2.jsonl", [*copied, "not JSON", more, "[1]"])
    with (folder / "s2.jsonl").open("a") as file:
        file.write('{"type": "user", "uuid": "cut')
    done, said = told(folder)
    assert said["claude-code:s2"] == [("user", "owner", "And now the tests.")]
    assert samples.told(done, "broken") == [("line", "s2.jsonl, line 12")]
    assert samples.told(done, "unsupported") == [("line", f"s2.jsonl, line {n}") for n in (9, 11)]
    assert not done.is_complete


def test_long_results_of_tools_are_cut(tmp_path: Path) -> None:
    values = [CLAUDE[2], CLAUDE[5], claude("user", result("t1", "x" * 9_000), "u5")]
    _, said = told(samples.lines(tmp_path / "s1.jsonl", values))
    assert said["claude-code:s1"][-1][2] == "x" * 4_000 + "\n[cut: 5,000 characters]"


PEAK = """
import resource, sys
from pathlib import Path
from reverie import Memory
with Memory.open(sys.argv[1], embedder=sys.argv[3]) as memory:
    done = memory.admin.import_from(sys.argv[2], origin="owner")
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
status = Path("/proc/self/status")
if status.exists():  # `ru_maxrss` is that of the process that started this one, if that was larger
    peak = int(status.read_text().partition("VmHWM:")[2].split()[0]) // 1024
print(done.turns, peak)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("embedder", "most"), [("none", 150), ("auto", 170)])
def test_ten_thousand_turns_need_little_memory(tmp_path: Path, embedder: str, most: int) -> None:
    folder = tmp_path / "projects"
    folder.mkdir()
    for number in range(10):
        with open(folder / f"s{number}.jsonl", "w") as file:
            for turn in range(500):
                place = {"sessionId": f"s{number}"}
                asked = claude(
                    "user", f"Gauge {turn} of weir {number} needs paint.", f"{number}-{turn}u", **place
                )
                answer = claude(
                    "assistant", text("It is noted. " * 40), f"{number}-{turn}a", answer=f"{turn}", **place
                )
                file.write(f"{json.dumps(asked)}\n{json.dumps(answer)}\n")
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(tmp_path / "memory"), str(folder), embedder],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    turns, peak = map(int, done.stdout.split())
    assert turns == 10_000
    assert peak <= most, f"{peak} MiB"


# -- learning, and what hooks have stored ------------------------------------------------------------------


def test_old_words_of_the_owner_are_learned_from_and_of_nobody_else(tmp_path: Path) -> None:
    file = samples.lines(tmp_path / "s1.jsonl", CLAUDE)
    with Memory.open(":memory:") as memory:
        done = memory.admin.import_from(file, origin="owner")
        learned = {record.content: record.origin for record in memory.list()}
        assert learned == {"My daughter is called Ada.": "owner"}
        assert done.learned == 1
        assert memory.admin.import_from(file, origin="owner").learned == 0
    with Memory.open(":memory:") as memory:
        assert memory.admin.import_from(file).learned == 0
        assert memory.list() == []


def test_an_import_that_was_killed_before_it_learned_is_completed(tmp_path: Path) -> None:
    folder = tmp_path / "projects"
    for number in range(30):
        place = {"sessionId": f"s{number}"}
        asked = claude("user", f"My boat number {number} is called Nautilus {number}.", f"{number}u", **place)
        samples.lines(
            folder / f"s{number}.jsonl", [asked, claude("assistant", text("Noted."), f"{number}a", **place)]
        )
    program = (
        "import os, sys\n"
        "from reverie import Memory\n"
        "from reverie.admin.transfer import importer\n"
        "importer.BATCH = 20\n"
        "learn, calls = importer.Importer._learn, []\n"
        "def dying(self):\n"
        "    calls.append(1)\n"
        "    os._exit(9) if len(calls) == 3 else learn(self)\n"
        "importer.Importer._learn = dying\n"
        "with Memory.open(sys.argv[1]) as memory:\n"
        "    memory.admin.import_from(sys.argv[2], origin='owner')\n"
    )
    arguments = [sys.executable, "-c", program, str(tmp_path / "memory"), str(folder)]
    assert subprocess.run(arguments, check=False).returncode == 9
    with Memory.open(tmp_path / "memory") as memory:
        before = memory.admin.stats().turns
        assert 0 < before < 60
        memory.admin.import_from(folder, origin="owner")
        assert memory.admin.stats().turns == 60
        assert len(memory.list(limit=None)) == 30
        assert memory.admin.import_from(folder, origin="owner").taken == 0
        assert memory.admin.check() == []


def test_what_hooks_have_stored_is_not_stored_again(tmp_path: Path) -> None:
    file = samples.lines(tmp_path / "s1.jsonl", CLAUDE)
    with Memory.open(":memory:") as memory:
        session = memory.session("claude-code:s1")
        session.add("user", "My daughter is called Ada.")
        session.add("assistant", "Done, with tabs.")
        memory.admin.import_from(file, origin="owner")
        said = [turn.content for turn in memory.turns("claude-code:s1")]
        assert said[:2] == ["My daughter is called Ada.", "Done, with tabs."]
        assert len(said) == len(set(said)) == 8
        assert memory.admin.import_from(file, origin="owner").taken == 0
