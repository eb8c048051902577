"""A memory with everything that the page shows, and texts that attack it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from reverie import Memory
from reverie.consolidation.values import Plan, PlanStep, Rejection
from reverie.domain.change import Change
from tests.factories import make_record, propose_record

HOSTILE = (
    '</textarea></title></script><script>window.hacked=1</script><img src=x onerror="window.hacked=1">'
    "\"'><svg onload=window.hacked=1> javascript:window.hacked=1 {{ 7*7 }} \u202etxt.exe\u202c end"
)
"""A text that breaks out of elements, attributes, scripts and templates, and hides characters."""

NAME = "telegram:<b onmouseover=window.hacked=1>&?#%/..\"'"
"""A name of the same sort, without control characters."""


def fill_memory(
    memory: Memory, *, text: str = "Alice drinks green tea", name: str = "telegram:1"
) -> dict[str, str]:
    """Store one thing of each sort, with a text in every field that takes any; return their ids."""
    record = memory.save(
        text,
        category="user-preferences/style",
        tags=["tea"],
        source=text[:100],
        metadata={"note": text},
        origin="owner",
    ).record
    memory.update(record.id, content=f"{text} and coffee")
    gone = memory.save(f"Old: {text}", origin="web").record
    memory.archive(gone.id, reason=text)
    memory.save(f"From outside: {text}", origin="web", source=text[:100])
    memory.scoped("user:alice/task:deploy").save(f"Deploys: {text}")
    session = memory.session(name)
    session.add("user", text, speaker=text[:50])
    session.add("assistant", f"I see: {text}")
    session.set_metadata("topic", text)
    memory.pages.write("MEMORY.md", f"# Notes\n\n{text}\n")
    memory.pages.append("HISTORY.md", text)
    memory.scratchpad.set("key", text)
    session.context("green tea")
    session.add("user", "green tea")
    session.add("assistant", f"About that: {text}")
    now = memory._clock()
    propose_record(memory, make_record(5, content=text, moment=now))
    added = make_record(6, content=text, moment=now)
    changed = memory.update(record.id, tags=["coffee"])
    steps = (
        PlanStep(
            edit=Change(before=None, after=added), why=text, sources=(memory.turns(name)[0].id, gone.id)
        ),
        PlanStep(edit=Change(before=changed, after=replace(changed, content=f"{text}, and cake")), why=text),
    )
    refused = (Rejection(what=text, why=text),)
    plan = Plan(id="a" * 12, name="dream", made_at=now, steps=steps, refused=refused, notes=(text,))
    memory.dreams.keep_plan(plan)
    return {"record": record.id, "archived": gone.id, "session": name, "plan": plan.id}


def list_addresses(ids: dict[str, str]) -> list[str]:
    """Return the addresses of all views that show what is stored."""
    addresses = Path(__file__).with_name("addresses.txt").read_text(encoding="utf-8").split()
    return [each.format(**ids | {"session": quote(ids["session"], safe="")}) for each in addresses]
