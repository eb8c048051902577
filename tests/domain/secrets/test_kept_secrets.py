"""An owner keeps a secret in a record: what says how, who may, and where it is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from reverie import InvalidInput, Memory, Settings
from reverie.llm.protocol import ModelRequest
from reverie.tools import GROUPS
from tests.interfaces.conftest import run_cli

GATE = "The code of the garden gate is 4711"
SETTINGS = Settings(keep_secrets=("home/codes",))


def test_save_says_that_it_redacted_and_how_to_keep_the_secret() -> None:
    with Memory.open(":memory:") as memory:
        saved = memory.save(GATE)
        assert "4711" not in saved.record.content
        assert saved.notice.startswith("Redacted 1 secret (access code).")
        assert "keep_secret" in saved.notice
        kept = memory.save(GATE, keep_secret=True)
        assert (kept.record.content, kept.notice) == (GATE, "")
        assert [each.notice[:8] for each in memory.save_many(["gate code: 9021", "The gate is green"])] == [
            "Redacted",
            "",
        ]


def test_only_text_of_the_owner_keeps_secrets() -> None:
    with Memory.open(":memory:", settings=SETTINGS) as memory:
        assert memory.save(GATE, category="home/codes/garden").record.content == GATE
        assert "4711" not in memory.save(GATE, category="home/codesign").record.content
        for origin in ("agent", "tool", "web", "import"):
            content = memory.save(GATE, category="home/codes", origin=origin).record.content
            assert "4711" not in content
            with pytest.raises(InvalidInput, match="keep_secret is for text of the owner"):
                memory.save(GATE, keep_secret=True, origin=origin)
        kept = memory.save("The alarm code is 9021", keep_secret=True).record.id
        tools = memory.tools(session="chat:1", groups=GROUPS)
        tools.call("save_memory", {"content": "The safe code is 55123", "category": "home/codes"})
        assert tools.call("edit_memory", {"id": kept, "old": "alarm", "new": "old alarm"}).failed
        assert tools.call("memory", {"operation": "update", "id": kept, "content": "alarm code 8"}).failed
        assert memory.get(kept) == memory.search("alarm code 9021")[0].record
        assert not memory.search("55123", mode="literal")
        assert "8812" in memory.update(kept, content="The alarm code is 8812").content
        given = memory.update(kept, content="The alarm code is 3390", origin="agent")
        assert "3390" not in given.content
        assert not given.keep_secret


def test_a_kept_secret_is_in_the_prompt_and_a_turn_has_none() -> None:
    with Memory.open(":memory:") as memory:
        memory.save(GATE, keep_secret=True)
        session = memory.session("chat:1")
        session.add("user", "Is the code of the gate still 4711? The alarm code is 9021.")
        pack = session.context("What is the code of the garden gate?")
        assert GATE in pack.text
        assert "4711" not in session.turns()[0].content.replace("still 4711", "")
        assert "9021" not in session.turns()[0].content + pack.text


def test_background_thinking_neither_sees_nor_rewords_it() -> None:
    asked: list[ModelRequest] = []

    def answer(request: ModelRequest) -> str:
        asked.append(request)
        return "{}"

    with Memory.open(":memory:", model=answer) as memory:
        memory.save(GATE, keep_secret=True)
        memory.save("The code of the garden gate was changed in May")
        memory.dreams.run()
        assert not [each for request in asked for each in request.messages if "4711" in each.content]
        assert memory.search("garden gate code", limit=5)
        assert any(record.content == GATE for record in memory.list())


def test_folder_edits_undo_rebuild_and_the_doctor_keep_it(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    with Memory.open(path) as memory:
        kept = memory.save(GATE, keep_secret=True, category="home").record
        memory.flush()
        file = path / "memory/records/home.md"
        assert GATE in file.read_text()
        file.write_text(file.read_text().replace(GATE, "The code of the garden gate is 9021#"))
        memory.refresh_files()
        edited = memory.get(kept.id)
        assert edited is not None
        assert edited.content == "The code of the garden gate is 9021#"
        memory.history.undo(batch=memory.history.log(limit=1, newest_first=True)[0].batch)
        assert memory.get(kept.id) is not None
    assert run_cli("doctor", "--store", path).returncode == 0
    assert run_cli("rebuild", "--store", path, "--force", "--yes").returncode == 0
    with Memory.open(path) as memory:
        assert GATE in [record.content for record in memory.list()]
