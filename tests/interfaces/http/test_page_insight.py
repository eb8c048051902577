"""Views of prompts, reviews and activity: what they show, what they change, and that they escape."""

from __future__ import annotations

import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from reverie import Memory
from reverie.consolidation.plan import Plan, PlanStep, Rejection
from reverie.domain.change import Change
from reverie.domain.record import Record
from tests.factories import make_record, propose_record

pytest.importorskip("jinja2")

from tests.interfaces.http.test_page import OWN, Page, see

FACT = "The spare key of the boat house hangs behind the blue shutter"
QUESTION = "Where is the spare key of the boat house?"
ATTACK = '<script>alert(1)</script>"><img src=x onerror=alert(2)>\u202e'


def send(client: TestClient, path: str, **fields: str) -> Page:
    answer = client.post(path, data=fields, headers=OWN)
    assert answer.status_code == 200, answer.text
    return Page(answer.text)


def ask(memory: Any, question: str = QUESTION, chat: str = "chat") -> None:
    session = memory.session(chat)
    session.add("user", question)
    session.context()
    session.add("assistant", "Behind the shutter.")


def propose(memory: Memory, content: str, **fields: Any) -> Record:
    record = make_record(5, content=content, **fields)
    propose_record(memory, record)
    return record


def find_links(page: Page, start: str) -> list[str]:
    return [each["href"] for each in page.find("a") if each.get("href", "").startswith(start)]


# -- prompts ---------------------------------------------------------------------------------------------


def test_why_a_line_was_in_a_prompt_is_told_after_two_clicks(client: TestClient, memory: Memory) -> None:
    fact = memory.save(FACT).record
    memory.save("Always answer in English", kind="preference")
    memory.save("The boat house burnt down", origin="web")
    ask(memory)
    overview = see(client, "/")
    (menu,) = find_links(overview, "/prompts")
    (first,) = find_links(see(client, menu), "/prompts/")
    prompt = see(client, first)
    assert QUESTION in prompt.text
    assert FACT in prompt.text
    assert "It answers the message, and it fitted the budget." in prompt.text
    assert "Words of the message in it: spare, key, boat, house." in re.sub(r"\s+", " ", prompt.text)
    assert "Always answer in English" in prompt.text
    assert "A tool, the web or an import said it" in prompt.text
    assert f"/records/{fact.id}" in [each.get("href") for each in prompt.find("a")]
    memory.update(fact.id, content="The spare key is with Ines")
    changed = see(client, first)
    assert FACT in changed.text
    assert "changed since" in changed.text


def test_the_words_of_a_message_are_found_in_other_forms_of_its_language(
    client: TestClient, memory: Memory
) -> None:
    memory.save("Die Versicherungen der beiden Wohnungen laufen im Oktober aus")
    ask(memory, "Wann endet die Versicherung für die Wohnung?")
    (first,) = find_links(see(client, "/prompts"), "/prompts/")
    shown = re.sub(r"\s+", " ", see(client, first).text)
    assert "Words of the message in it: versicherungen, wohnungen." in shown


def test_a_prompt_is_tried_with_another_budget_without_a_trace(client: TestClient, memory: Memory) -> None:
    memory.save(FACT)
    before = memory._store.sequence()
    page = see(client, "/inspect?message=Where+is+the+spare+key%3F")
    assert FACT in page.text
    assert "in the prompt" in page.text
    small = see(client, "/inspect?message=Where+is+the+spare+key%3F&hard_tokens=30&soft_tokens=10")
    assert "It did not fit the tokens." in small.text
    assert memory._store.sequence() == before
    assert memory.sessions() == []
    assert memory.admin.prompt_log() == []
    assert client.get("/inspect?message=x&session=nobody").status_code == 404
    assert client.get("/inspect?message=x&hard_tokens=-1").status_code == 422


def test_every_verdict_has_words() -> None:
    from typing import get_args

    from reverie.context.candidates import Verdict
    from reverie.context.pack import SectionName
    from reverie.interfaces.http.page.rendering import TEXTS

    texts = TEXTS["prompts"]
    unconsidered = {"archived", "floor"}
    assert set(texts["verdicts"]) == set(texts["reasons"]) == {*get_args(Verdict), *unconsidered}
    assert set(texts["sections"]) == {*get_args(SectionName), "notice"}


# -- review ----------------------------------------------------------------------------------------------


def keep_plan(memory: Memory) -> Plan:
    for text in ("We decided on Postgres", "We decided on Rust", "We decided on Linux"):
        memory.save(text, kind="decision", layer="episodic")
    plan = memory.dreams.plan("promote")
    memory.dreams.keep_plan(plan)
    return plan


def test_a_plan_is_decided_card_by_card_and_each_can_be_taken_back(
    client: TestClient, memory: Memory
) -> None:
    plan = keep_plan(memory)
    path = f"/review/{plan.id}"
    assert path in find_links(see(client, "/review"), "/review/")
    page = see(client, path)
    assert page.text.count("We decided on") >= 3
    assert [each["data-key"] for each in page.find("button") if "data-key" in each] == 3 * ["a", "s", "r"]
    accepted = send(client, path, group="0", verdict="accept")
    assert "Done." in accepted.text
    assert [record.layer for record in memory.list()].count("semantic") == 1
    rejected = send(client, path, group="1", verdict="reject", reason="not yet decided")
    assert "not yet decided" in rejected.text
    later = send(client, path, group="2", verdict="later")
    assert "for later" in later.text
    (undo,) = find_links(later, "/undo")
    send(client, undo, x="")
    assert [record.layer for record in memory.list()].count("semantic") == 0
    done = send(client, path, verdict="reject")
    assert "All of this plan is decided" in done.text
    refused = client.post(path, data={"verdict": "accept"}, headers=OWN)
    assert refused.status_code == 409
    assert client.post(path, data={"group": "x", "verdict": "accept"}, headers=OWN).status_code == 422


def test_an_outdated_card_says_so_and_changes_nothing(client: TestClient, memory: Memory) -> None:
    plan = keep_plan(memory)
    memory.update(plan.steps[0].edit.id, content="We decided on Postgres 18")
    refused = client.post(f"/review/{plan.id}", data={"group": "0", "verdict": "accept"}, headers=OWN)
    assert refused.status_code == 409
    assert see(client, f"/review/{plan.id}").text.count("waiting") == 3


def test_a_dream_is_planned_on_the_page_and_changes_nothing_yet(client: TestClient, memory: Memory) -> None:
    memory.save("We decided on Postgres", kind="decision", layer="episodic")
    page = send(client, "/review", plan="dream")
    assert "We decided on Postgres" in page.text
    assert [record.layer for record in memory.list()] == ["episodic"]


def test_the_dream_of_last_night_is_taken_back_with_two_clicks(client: TestClient, memory: Memory) -> None:
    memory.save("We decided on Postgres", kind="decision", layer="episodic")
    memory.dreams.run()
    assert [record.layer for record in memory.list()] == ["semantic"]
    overview = see(client, "/")
    take_back = [
        each["href"] for each in overview.find("a", **{"class": "button"}) if "/undo" in each["href"]
    ]
    see(client, take_back[0])
    assert "It was taken back." not in overview.text
    send(client, take_back[0], x="")
    assert [record.layer for record in memory.list()] == ["episodic"]
    for view in ("/", "/review"):
        page = see(client, view)
        assert "It was taken back." in page.text
        assert "Take this dream back" not in page.text
    assert take_back[0] not in [each["href"] for each in page.find("a")]


def test_too_many_changes_are_not_taken_back_in_part(client: TestClient, memory: Memory) -> None:
    for name in ("hosts", "rooms"):
        memory.save_many({"content": f"{name} {number} has port {number * 7}"} for number in range(501))
    batches = sorted({row.batch for row in memory.history.log(limit=2_000)})
    path = "/undo?" + "&".join(f"batch={batch}" for batch in batches)
    assert client.get(path).status_code == 422
    assert client.post(path, data={"x": ""}, headers=OWN).status_code == 422
    assert memory.stats().records == 1_002


def test_the_overview_says_what_waits(client: TestClient, memory: Memory) -> None:
    assert "waiting for your decision" not in see(client, "/").text
    keep_plan(memory)
    propose(memory, "Always pay with the company card")
    assert "2 things are waiting for your decision" in re.sub(r"\s+", " ", see(client, "/").text)


def test_a_proposal_is_accepted_on_the_page(client: TestClient, memory: Memory) -> None:
    record = propose(memory, "Always pay with the company card")
    assert "Always pay with the company card" in see(client, "/review").text
    send(client, f"/review/proposals/{record.id}", verdict="accept")
    assert [each.content for each in memory.list()] == ["Always pay with the company card"]
    assert "Nothing is proposed." in see(client, "/review").text
    again = client.post(f"/review/proposals/{record.id}", data={"verdict": "accept"}, headers=OWN)
    assert again.status_code == 404


# -- activity --------------------------------------------------------------------------------------------


def test_the_numbers_of_a_day_are_in_tables(client: TestClient, memory: Memory) -> None:
    for number in range(3):
        memory.save(f"Host {number} has the address 10.0.0.{number}")
    memory.search("host")
    memory.search("zebra stripes")
    page = see(client, "/activity?days=7")
    text = re.sub(r"\s+", "", page.text)
    today = memory._clock().date().isoformat()
    assert f"{today}11" in text
    assert f"{today}30" in text
    assert len(page.find("table")) == 4
    assert client.get("/activity?days=0").status_code == 422


# -- untrusted text --------------------------------------------------------------------------------------


def test_stored_text_is_shown_as_text_in_every_view(client: TestClient, memory: Memory) -> None:
    text = f"Spare key {ATTACK}"
    memory.save(text, tags=[ATTACK[:20]], category="home/keys")
    ask(memory, text, chat='chat"><b>x</b>')
    proposed = propose(memory, text)
    session = memory.sessions()[0].state.id
    (turn, _) = memory.turns(session)
    added = make_record(6, content=text)
    step = PlanStep(
        edit=Change(before=None, after=added), why=ATTACK + "\x1b[31m", sources=(turn.id, memory.list()[0].id)
    )
    plan = Plan(
        id="a" * 12,
        name=ATTACK,
        made_at=memory._clock(),
        steps=(step,),
        refused=(Rejection(what=ATTACK, why=ATTACK),),
        notes=(ATTACK,),
        failed=ATTACK,
    )
    memory.dreams.keep_plan(plan)
    (entry,) = memory.admin.prompt_log()
    paths = [
        "/prompts",
        *find_links(see(client, "/prompts"), "/prompts/"),
        f"/inspect?message=spare+key+{ATTACK[:25]}",
        "/review",
        f"/review/{plan.id}",
        "/activity",
    ]
    assert len(paths) == 6
    for path in paths:
        html = client.get(path).text
        page = Page(html)
        assert "\x1b" not in html
        assert "\u202e" not in html
        assert all(each.get("src", "").startswith("/static/") for each in page.find("script")), path
        assert page.find("img") == page.find("b") == [], path
        assert not any(name.startswith("on") or name == "style" for _, each in page.tags for name in each), (
            path
        )
    assert "alert(1)" in see(client, f"/review/{plan.id}").text
    assert entry.session == session
    assert proposed.content == text


def test_a_search_tells_what_it_left_out_and_why(client: TestClient, memory: Memory) -> None:
    memory.save("Alice drinks black tea", kind="preference")
    old = memory.save("Alice drinks green tea in the garden").record
    memory.archive(old.id)
    memory.save("Alice drinks tea at work", kind="fact")
    shown = see(client, "/records?q=what+tea+does+Alice+drink&kind=preference").text
    found, left = shown.split("Left out (2)")
    assert "black tea" in found
    assert "at work" not in found
    assert "A filter excludes it: kind" in " ".join(left.split())
    assert "It is archived." in left
    body = {"query": "what tea does Alice drink", "left_out": 5}
    assert [each["why"] for each in client.post("/v1/search", json=body).json()["left_out"]] == ["archived"]
    assert "left_out" not in client.post("/v1/search", json={"query": "tea"}).json()


def test_an_empty_search_tells_what_came_nearest(client: TestClient, memory: Memory) -> None:
    for number in range(120):
        memory.save(f"Alice drinks tea number {number} with honey and lemon in the winter garden")
    question = "which honey does the beekeeper of the neighbouring village sell at the market on Saturdays"
    shown = see(client, f"/records?q={question.replace(' ', '+')}").text
    assert "Nothing relevant was found" in shown
    assert "It matches too little of the question." in shown


def test_a_tried_prompt_tells_what_is_archived_or_too_far(client: TestClient, memory: Memory) -> None:
    memory.save("Alice drinks black tea", kind="fact")
    old = memory.save("Alice drinks green tea in the garden", kind="fact").record
    memory.archive(old.id)
    left = see(client, "/inspect?message=what+tea+does+Alice+drink").text.split("Left out (1)")[1]
    assert "Alice drinks green tea in the garden" in left
    assert "It is archived." in left
    for number in range(120):
        memory.save(f"Alice drinks tea number {number} with honey and lemon in the winter garden")
    question = "which honey does the beekeeper of the neighbouring village sell at the market on Saturdays"
    page = see(client, f"/inspect?message={question.replace(' ', '+')}").text
    assert "It matches too little of the message" in page


def test_a_plan_that_has_nothing_to_decide_is_not_counted_as_waiting(
    client: TestClient, memory: Memory
) -> None:
    memory.dreams.keep_plan(memory.dreams.plan("promote"))
    assert "waiting for your decision" not in see(client, "/").text
    memory.save("We decided on Rust", kind="decision", layer="episodic")
    memory.dreams.keep_plan(memory.dreams.plan("promote"))
    assert "1 thing is waiting for your decision" in " ".join(see(client, "/").text.split())


def test_changes_are_named_in_words(client: TestClient, memory: Memory) -> None:
    record = memory.save("We heat to 12 degrees", kind="project_fact").record
    memory.update(record.id, content="We heat to 10 degrees")
    memory.archive(record.id, reason="sold")
    for path in ("/timeline", f"/records/{record.id}"):
        text = see(client, path).text
        assert "Saved" in text
        assert "Edited" in text
        assert "sold" in text
    assert "project fact" in see(client, f"/records/{record.id}").text
