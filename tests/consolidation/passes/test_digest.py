"""What leaves the window leaves a paragraph behind; a failed call changes nothing, and no note is lost."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from reverie.consolidation.passes.digest import (
    build_headline,
    compute_kept_count,
    digest,
    stamp_paragraph,
)
from reverie.consolidation.plan import Plan
from reverie.consolidation.planning.driver import answer_without_model, run_pass
from reverie.consolidation.planning.inputs import DigestPages, PassInput
from reverie.domain.conversation import SessionState, ToolCall, Turn
from reverie.domain.page import Page, Paragraph, validate_page, validate_paragraph
from reverie.llm.messages import ModelFailure, ModelReply, ModelRequest
from tests.factories import make_turn

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
STATE = SessionState(id="chat:1", created_at=NOW)
PAGE = Page(
    name="MEMORY.md", content="# Facts\n- Ada lives in Oslo\n- Never deploy on Fridays\n", updated_at=NOW
)


def turn(position: int, content: str, role: str = "user", **more: object) -> Turn:
    given = {"id": f"{position:012x}", "at": NOW + timedelta(minutes=position), **more}
    return make_turn(position, role=role, content=content, **given)


TURNS = [
    turn(0, "How do I deploy this? Quickly, please."),
    turn(1, "I'll help.", "assistant", tool_calls=(ToolCall(id="c", name="exec", arguments="{}"),)),
    turn(2, "SECRET OUTPUT", "tool", tool_call_id="c"),
    turn(3, "We decided on GitHub Actions. It takes 5 minutes.", "assistant"),
]


def passed(
    answer: ModelReply | ModelFailure | str | None = None,
    *,
    page: Page | None = PAGE,
    turns: list[Turn] = TURNS,
) -> tuple[Plan, list[ModelRequest]]:
    asked: list[ModelRequest] = []

    def play(ask: ModelRequest) -> ModelReply | ModelFailure:
        asked.append(ask)
        if answer is None:
            return answer_without_model(ask)
        return ModelReply(text=answer) if isinstance(answer, str) else answer

    flow = digest(PassInput(now=NOW), STATE, turns, start=4, notes=DigestPages(page=page, position=7.0))
    return run_pass(flow, play), asked


def said(entry: str = "They chose GitHub Actions.", update: str = PAGE.content) -> str:
    return json.dumps({"history_entry": entry, "memory_update": update})


def parts(plan: Plan) -> tuple[Paragraph, Page | None, SessionState]:
    values = [edit.after for edit in plan.edits]
    assert isinstance(values[0], Paragraph)
    assert isinstance(values[-1], SessionState)
    pages = [value for value in values if isinstance(value, Page)]
    validate_paragraph(values[0])
    for page in pages:
        validate_page(page)
    return values[0], pages[0] if pages else None, values[-1]


def test_how_much_stays_in_the_window() -> None:
    assert [compute_kept_count(window) for window in (1, 4, 5, 20, 50, 100)] == [2, 2, 2, 10, 10, 10]


def test_the_conversation_is_told_in_autobots_lines_without_output_of_tools() -> None:
    _, (ask,) = passed(said())
    text = ask.messages[0].content
    assert "[2026-03-01 12:01] ASSISTANT [tools: exec]: I'll help." in text
    assert "SECRET OUTPUT" not in text
    assert "Never deploy on Fridays" in text


def test_paragraph_notes_and_window_are_one_plan() -> None:
    update = "# Facts\n- Ada lives in Oslo\n- Never deploy on Fridays\n- CI is GitHub Actions\n"
    plan, _ = passed(said("2026-03-01 12:03: They chose GitHub Actions.\n\nDone.", update))
    paragraph, page, state = parts(plan)
    assert paragraph.content == "[2026-03-01 12:03] They chose GitHub Actions. Done."
    assert (paragraph.page, paragraph.position) == ("HISTORY.md", 7.0)
    assert page is not None
    assert page.content == update
    assert state.window_start == 4
    assert plan.edits[1].before == PAGE
    assert len(plan.edits) == 3


def test_a_line_that_the_model_left_out_stays_in_the_notes() -> None:
    plan, _ = passed(said(update="# Facts\n- Ada lives in Oslo\n- CI is GitHub Actions\n"))
    _, page, _ = parts(plan)
    assert page is not None
    assert "Never deploy on Fridays" in page.content
    assert "GitHub Actions" in page.content
    assert any("Never deploy" in refusal.why for refusal in plan.refused)


@pytest.mark.parametrize("update", ["", "  \n", PAGE.content, "(empty)"])
def test_an_empty_or_unchanged_update_leaves_the_notes_alone(update: str) -> None:
    plan, _ = passed(said(update=update))
    paragraph, page, _ = parts(plan)
    assert page is None
    assert paragraph.content.startswith("[2026-03-01 12:03] They chose")


def test_the_first_notes_are_begun() -> None:
    _, page, _ = parts(passed(said(update="- CI is GitHub Actions"), page=None)[0])
    assert page == Page(name="MEMORY.md", content="- CI is GitHub Actions\n", updated_at=NOW)


@pytest.mark.parametrize(
    "answer",
    [
        ModelFailure(why="too slow"), ModelReply(text=""), ModelReply(text="I summarised it."),
        ModelReply(text=said()[:40]),
        ModelReply(text=said(), finish="length"), ModelReply(text=said(""), finish="stop"), ModelReply(text="[]"),
        ModelReply(text="no", finish="refused"),
    ],
)  # fmt: skip
def test_a_failed_call_changes_nothing_so_that_the_next_one_can(answer: ModelReply | ModelFailure) -> None:
    plan, _ = passed(answer)
    assert not plan
    assert plan.failed


def test_without_a_model_the_paragraph_is_made_by_rule() -> None:
    plan, _ = passed()
    paragraph, page, state = parts(plan)
    assert paragraph.content == (
        "[2026-03-01 12:03] 3 messages, beginning with “How do I deploy this?”. We decided on GitHub Actions."
    )
    assert page is None
    assert state.window_start == 4
    assert plan.notes


def test_turns_without_words_move_the_window_and_ask_nobody() -> None:
    plan, asked = passed(said(), turns=TURNS[2:3])
    assert asked == []
    assert len(plan.edits) == 1


def test_nothing_due_is_no_plan() -> None:
    plan = run_pass(digest(PassInput(now=NOW), STATE, [], start=0, notes=DigestPages()), answer_without_model)
    assert not plan
    assert plan.skipped


def test_headlines_are_short() -> None:
    text = build_headline([turn(0, "word " * 1000), turn(1, "We agreed " + "x" * 1000, "assistant")])
    assert len(text) < 500
    assert build_headline([]) == "0 messages."


def test_a_paragraph_has_one_stamp() -> None:
    assert stamp_paragraph("[2025-01-15 10:30] Done.", NOW) == "[2026-03-01 12:00] Done."
    assert stamp_paragraph("Done.\n\nReally.", NOW) == "[2026-03-01 12:00] Done. Really."
