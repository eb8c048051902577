"""Time to the first byte of every view of the web page, by the number of memories.

    python -m benchmarks.page [--records 10000] [--times 5] [--folder FOLDER]

The page is asked in this process, after the server has warmed up, so the times are those of the server alone; each is
the fastest of some, since other work only adds to them. A view answers at once, so its first byte is its last. One
record in ten is archived, one in fifty came from the web, and there is a conversation of ten turns for a hundred
records. With `--folder`, the memory is made there if there is none, and kept.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from starlette.testclient import TestClient
from tests.support.contract.factories import make_additions, make_record

from benchmarks.texts import Texts
from reverie import Memory, Settings
from reverie.consolidation.values import Plan, PlanStep
from reverie.domain.change import Change
from reverie.interfaces.http.application import build_application
from reverie.interfaces.http.page.site import GROUPS
from reverie.interfaces.http.serve import warm_up
from reverie.interfaces.http.server import HttpServer

BASE = "http://127.0.0.1"

_BATCH = 500
_ADDRESSES = (
    "/memories?q={words}",
    "/memories?kind=decision",
    "/memories?state=archived",
    "/memories?state=ended",
    "/memories?about={name}",
    "/what-if?message={words}",
    "/undo?batch={batch}",
    "/forget/preview?ids={id}",
)
"""Addresses beside the bare ones of the views."""


def fill(memory: Memory, records: int) -> None:
    """Save generated texts."""
    texts, writer, now = Texts(), memory._parts.writer, memory._clock()
    for start in range(0, records, _BATCH):
        batch = [
            make_record(
                number,
                content=(text := texts.text(number)).content,
                category=text.category,
                scope="" if number % 3 else text.scope,
                origin="web" if number % 50 == 1 else "owner",
                archived_at=None if number % 10 else now,
                moment=now,
            )
            for number in range(start, min(start + _BATCH, records))
        ]
        writer.commit(make_additions(*batch))
    for number in range(0, records, 100):
        session = memory.session(f"chat:{number}")
        session.add_many(
            [
                {"role": role, "content": texts.text(number + place).content}
                for place, role in enumerate(("user", "assistant") * 5)
            ]
        )
    session.context()
    session.add("assistant", "Noted.")
    memory.pages.write("MEMORY.md", "\n".join(texts.text(number).content for number in range(50)))


def list_addresses(memory: Memory) -> list[str]:
    """Return an address of every view that shows something."""
    record = memory.list(limit=1)[0]
    session = quote(memory.sessions(limit=1)[0].state.id, safe="")
    entry = memory.admin.prompts.list(limit=1)[0]
    step = PlanStep(edit=Change(before=record, after=replace(record, importance=0.9)), why="often used")
    memory.dreams.keep_plan(
        Plan(id=f"{len(session):012x}", name="dream", made_at=memory.now(), steps=(step,))
    )
    name = next(each.name for each in memory.subjects.list() if not each.is_category)
    examples = {
        "/memories/{id}": f"/memories/{record.id}",
        "/item/{id}": f"/item/{record.id}",
        "/compare": f"/compare?left={record.id}&right={record.id}",
        "/conversations/{id:path}": f"/conversations/{session}",
        "/why/{id:path}/{position:number}": f"/why/{session}/{entry.position}",
        "/pages/{name:path}": "/pages/MEMORY.md",
        "/forget/preview": None,
        "/undo": None,
        "/what-if": None,
    }
    views = [view.path for group in GROUPS for view in group.VIEWS if view.method == "GET"]
    bare = [address for path in views if (address := examples.get(path, path))]
    words = quote(" ".join(record.content.split()[:6]))
    return [
        *bare,
        *(
            each.format(words=words, batch=memory._store.sequence(), name=quote(name), id=record.id)
            for each in _ADDRESSES
        ),
    ]


def measure(client: TestClient, address: str, times: int) -> tuple[float, float, float, int]:
    """Return the times of the first and the fastest answer and its processor time in ms, and its bytes."""
    took, used = [], []
    for _ in range(times):
        began, spent = time.perf_counter(), time.process_time()
        answer = client.get(address)
        took.append(time.perf_counter() - began)
        used.append(time.process_time() - spent)
        assert answer.status_code == 200, (address, answer.text)
    return 1000 * took[0], 1000 * min(took), 1000 * min(used), len(answer.content)


def main() -> None:
    """Measure every view and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--files", action="store_true", help="keep readable files too")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = asked.folder or Path(name, "memory")
        is_new = not folder.exists()
        with Memory.open(folder, settings=Settings(files=asked.files)) as memory:
            spent = time.process_time()
            if is_new:
                fill(memory, asked.records)
                print(f"filled in {time.process_time() - spent:.0f} s of processor time", flush=True)
            server = HttpServer(memory)
            spent = time.process_time()
            warm_up(server)
            print(f"warm after {1000 * (time.process_time() - spent):.0f} ms of processor time", flush=True)
            application = build_application(server, host="127.0.0.1")
            with TestClient(application, base_url=BASE) as client:
                print("| view | first ms | ms | processor ms | kB |\n| :-- | --: | --: | --: | --: |")
                for address in list_addresses(memory):
                    first, took, used, size = measure(client, address, asked.times)
                    print(
                        f"| {address[:60]} | {first:,.1f} | {took:,.1f} | {used:,.1f} | {size / 1000:,.0f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
