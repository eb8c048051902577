"""Take the pictures of the web UI in docs/images, in Chromium. `scripts/install_browser.sh` installs what it needs.

The memory is the sample memory of the web UI, with a conversation about it and a dream that waits for review.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import threading
from importlib.resources import files
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright  # type: ignore[import-not-found,unused-ignore]

from reverie import Memory, Settings
from reverie.interfaces.http.application import build_application
from reverie.interfaces.http.serve import create_web_server, open_socket
from reverie.interfaces.http.server import HttpServer

IMAGES = Path(__file__).parents[1] / "docs/images"
ASKED = "Which port has the staging database, and may I clear the route cache before I deploy?"
ANSWER = "`psql -p 5433 staging`. I know of no safe way to clear the cache; and do not deploy on Friday."
DECISIONS = ("We decided on Caddy as the proxy", "We chose PostGIS for the map")

PICTURES: tuple[tuple[str, str, Any, Any], ...] = (
    ("web-today.png", "/", {"width": 1280, "height": 900}, "light"),
    ("web-why.png", "/why/telegram:42/2", {"width": 1280, "height": 900}, "light"),
    ("web-review-phone.png", "/review", {"width": 390, "height": 844}, "dark"),
)
"""File, address, size of the window and colours of each picture; wide windows are shown in their full length."""


def fill(memory: Memory) -> None:
    """Store the sample, a conversation with an answer, an edit, and a dream that waits."""
    sample = files("reverie.interfaces.http.page").joinpath("sample.jsonl").read_text("utf-8")
    for line in map(json.loads, sample.splitlines()):
        if "role" not in line:
            memory.save(**{"origin": "owner"} | line)
    for text in DECISIONS:
        memory.save(text, kind="decision", layer="episodic", origin="owner")
    [home] = memory.list(category="personal/home")
    memory.update(home.id, content="I live in Bedminster, Bristol, and cycle to work")
    chat = memory.session("telegram:42")
    chat.add("user", "How do I give the stops of van 3 to the others?")
    chat.add("assistant", "`make replan VAN=3` inserts its open stops into the other routes.")
    chat.add("user", ASKED)
    chat.context()
    chat.add("assistant", ANSWER)
    memory.dreams.keep_plan(memory.dreams.plan("promote"))


def main() -> int:
    """Take all pictures; return an exit code."""
    program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    folder = tempfile.mkdtemp(prefix="kestrel-")
    with (
        Memory.open(folder, settings=Settings(files="none", embedder="none")) as memory,
        open_socket("127.0.0.1", 0) as sock,
        sync_playwright() as player,
    ):
        fill(memory)
        web = create_web_server(build_application(HttpServer(memory), host="127.0.0.1"))
        thread = threading.Thread(target=web.run, args=([sock],))
        thread.start()
        browser = player.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, address, size, colours in PICTURES:
            page = browser.new_page(
                base_url=f"http://127.0.0.1:{sock.getsockname()[1]}", viewport=size, color_scheme=colours
            )
            page.goto(address)
            page.screenshot(path=IMAGES / name, full_page=size["width"] > 1000)
            sys.stdout.write(f"{name}\n")
        browser.close()
        web.should_exit = True
        thread.join()
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
