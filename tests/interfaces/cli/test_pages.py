"""The commands about pages and logs."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.interfaces.conftest import run_on_terminal

Call = Callable[..., Result]
Answer = Callable[..., Any]


@pytest.fixture(autouse=True)
def memory(call: Call) -> None:
    call("init")


def test_what_is_appended_is_printed(call: Call) -> None:
    assert call("append", "MEMORY.md", "- Staging", "runs", "on tern").output == "Added to MEMORY.md\n"
    assert call("append", "MEMORY.md", "- Never deploy on Fridays").exit_code == 0
    assert call("page").output == "- Staging runs on tern\n- Never deploy on Fridays\n"
    assert (
        call("append", "HISTORY.md", "-", "--at", "2025-01-15T10:31:00Z", input="They met.\n").exit_code == 0
    )
    assert call("page", "HISTORY.md").output == "[2025-01-15 10:31] They met.\n"


def test_pages_are_listed(call: Call, answer: Answer) -> None:
    call("append", "MEMORY.md", "four")
    call("append", "HISTORY.md", "They met.", "--at", "2025-01-15T10:31:00Z")
    lines = [line.split("\t") for line in call("pages").output.splitlines()]
    assert [line[:2] for line in lines] == [["MEMORY.md", "5 characters"], ["HISTORY.md", "1 paragraph"]]
    assert lines[1][2] == "2025-01-15T10:31:00Z"
    assert [(page["name"], page["paragraphs"], page["characters"]) for page in answer("pages")["pages"]] == [
        ("MEMORY.md", None, 5),
        ("HISTORY.md", 1, None),
    ]


def test_a_page_that_is_not_there_is_not_found(call: Call) -> None:
    call("append", "MEMORY.md", "x")
    result = call("page", "plans.md")
    assert (result.exit_code, result.output) == (
        3,
        "reverie: No page 'plans.md'. `reverie edit plans.md` creates it.\n",
    )
    assert call("page", "../plans.md").exit_code == 2


def test_a_page_is_written_from_a_file_or_a_pipe(call: Call, answer: Answer, tmp_path: Path) -> None:
    (tmp_path / "new.md").write_bytes(b"\xef\xbb\xbf# Facts\r\n- tea\r\n")
    made = answer("edit", "--from", tmp_path / "new.md", "--reason", "first")
    assert (made["outcome"], made["merged"], made["page"]["content"]) == (
        "created",
        False,
        "# Facts\n- tea\n",
    )
    assert (
        call("edit", "MEMORY.md", "--from", "-", input="- coffee\n").output
        == "Changed: MEMORY.md (9 characters)\n"
    )
    assert call("edit", "--from", "-", input="- coffee").output == "Unchanged: MEMORY.md (9 characters)\n"
    assert call("edit", "--from", tmp_path / "none.md").exit_code == 2
    endless = call("edit", "--from", "/dev/zero")
    assert (endless.exit_code, "at most 200,000 are allowed" in endless.stderr) == (2, True)


def test_what_a_record_says_is_edited_by_its_id(call: Call, answer: Answer) -> None:
    name = answer("remember", "The spare key is with Lina")["record"]["id"]
    edited = answer("edit", name, "--from", "-", input="The spare key is with Mia\n")
    assert (edited["outcome"], edited["record"]["content"]) == ("changed", "The spare key is with Mia")
    assert (
        call("edit", name, "--from", "-", input="The spare key is with Mia").output == f"Unchanged: {name}\n"
    )
    assert "--reason is for pages" in call("edit", name, "--from", "-", "--reason", "x", input="x").output
    assert call("edit", "0" * 12, "--from", "-", input="x").exit_code == 3
    assert call("edit", name, "--from", "-", input=" ").exit_code == 2
    assert "did you mean 'edit'?" in call("update", name, "x").output


def test_a_log_is_not_edited_as_a_whole(call: Call) -> None:
    for name in ("HISTORY.md", "2025-06-02.md"):
        result = call("edit", name, "--from", "-", input="x")
        assert result.exit_code == 2
        assert "`reverie append`" in result.output


def test_nobody_is_asked_where_there_is_no_terminal(call: Call) -> None:
    result = call("edit")
    assert result.exit_code == 2
    assert "--from" in result.output


@pytest.fixture
def editor(tmp_path: Path) -> Callable[[str], str]:
    """Makes an editor: a program that does something to the file it is given."""

    def made(script: str) -> str:
        file = tmp_path / "editor.sh"
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return str(file)

    return made


def test_a_page_is_edited_in_the_editor(call: Call, folder: Path, editor: Callable[[str], str]) -> None:
    call("append", "MEMORY.md", "- tea")
    adds = editor('echo "- coffee" >> "$1"; touch -d "+1 minute" "$1"')
    status, drawn = run_on_terminal("edit", "--store", folder, EDITOR=adds, VISUAL=adds)
    assert (status, drawn) == (0, "Changed: MEMORY.md (15 characters)\n")
    assert call("page").output == "- tea\n- coffee\n"
    status, drawn = run_on_terminal("edit", "--store", folder, EDITOR=editor("true"), VISUAL=editor("true"))
    assert (status, drawn) == (0, "Unchanged: MEMORY.md (15 characters)\n")
    status, drawn = run_on_terminal(
        "edit", "--store", folder, EDITOR=editor("exit 3"), VISUAL=editor("exit 3")
    )
    assert status == 2
    assert "Editing failed" in drawn
    assert call("page").output == "- tea\n- coffee\n"


def test_what_is_changed_while_the_editor_is_open_stays(
    call: Call, folder: Path, editor: Callable[[str], str], tmp_path: Path
) -> None:
    call("append", "MEMORY.md", "- tea\n- port 5432")
    other = f"{sys.executable} -c 'from reverie.interfaces.cli.main import main; main()'"
    meanwhile = editor(
        f'{other} append MEMORY.md "- by another" --store {folder} > /dev/null\n'
        'sed -i s/5432/5433/ "$1"; touch -d "+1 minute" "$1"'
    )
    status, drawn = run_on_terminal("edit", "--store", folder, EDITOR=meanwhile, VISUAL=meanwhile)
    assert status == 0
    assert "both changes were merged" in drawn
    assert call("page").output == "- tea\n- port 5433\n- by another\n"


def test_history_is_searched_and_shown(call: Call, answer: Answer) -> None:
    call("remember", "The harbour is in Oslo")
    call("append", "HISTORY.md", "They spoke of the harbour.", "--at", "2025-01-15T10:31:00Z")
    (hit,) = answer("recall", "harbour", "--in", "pages")["hits"]
    assert (hit["type"], hit["paragraph"]["page"]) == ("paragraph", "HISTORY.md")
    cells = call("recall", "harbour", "--in", "pages", "--since", "2025-01-01").output.split("\t")
    assert cells[2:5] == ["paragraph", "HISTORY.md", "2025-01-15T10:31:00Z"]
    assert len(answer("recall", "harbour")["hits"]) == 2
    assert call("recall", "harbour", "--in", "pages", "--before", "2025-01-01").exit_code == 1
    assert call("recall", "2025-01", "--in", "pages", "--literal").exit_code == 0
    shown = answer("show", hit["id"])
    assert (shown["type"], shown["paragraph"]["id"]) == ("paragraph", hit["id"])
    for option, source in (("--tag", "records"), ("--session", "turns")):
        result = call("recall", "harbour", "--in", "pages", option, "x")
        assert (result.exit_code, f"add '{source}'" in result.output) == (2, True)


def test_control_characters_in_a_page_do_not_reach_the_terminal(call: Call) -> None:
    call("edit", "--from", "-", input="bell \x1b[31m red")
    assert call("page").output == "bell \\x1b[31m red\n"
