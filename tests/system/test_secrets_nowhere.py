"""Secrets go in by every way there is; then every byte that was left, logged or asked is looked at.

Each way gets secrets of its own, so that a find tells by which way it came. The same drive without redaction
shows that the scan would find them.
"""

from __future__ import annotations

import base64
import json
import logging
import urllib.parse
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Literal

import pytest
from click.testing import CliRunner
from evaluation.measures.synthetic_secrets import SECRETS

from reverie import InvalidInput, Memory, ReverieError, Settings
from reverie.agent import Agent
from reverie.domain.conversation import ToolCall
from reverie.integrations.agentkit import Store
from reverie.interfaces.cli.main import cli
from reverie.llm.protocol import ModelReply, ModelRequest, TokenUsage, ToolSpec
from reverie.tools import Tool, ToolResult

KINDS = (
    "openai", "anthropic", "github", "gitlab", "slack_bot", "stripe", "google", "jwt", "npm", "sendgrid",
    "openssh", "hugging_face", "telegram", "shopify", "databricks", "linear", "visa_spaced", "mastercard",
)  # fmt: skip


class Secrets:
    """Makes secrets, each with the name of the way it goes."""

    def __init__(self) -> None:
        self.made: dict[str, str] = {}

    def __call__(self, way: str, kind: str | None = None) -> str:
        number = len(self.made)
        secret = SECRETS[kind or KINDS[number % len(KINDS)]](Random(7_000 + number))
        self.made[f"{way} {number}"] = secret
        return secret

    def token(self, way: str) -> str:
        """One without a space or line end, for where a text must be one word."""
        return self(way, "github")

    def needles(self) -> Iterator[tuple[str, bytes]]:
        """Every form in which a secret, or half of one, could have been written."""
        for way, secret in self.made.items():
            lines = [line for line in secret.split("\n") if not line.startswith("-----")]
            for part in {half for line in lines for half in halves(line)}:
                raw = part.encode()
                forms = {
                    raw,
                    part.lower().encode(),
                    raw.hex().encode(),
                    urllib.parse.quote_plus(part).encode(),
                }
                forms |= {base64.b64encode(b"x" * n + raw)[4:-4] for n in range(3)}  # wherever it may begin
                forms |= {json.dumps(part)[1:-1].encode(), part.encode("utf-16-le")}
                yield from ((way, form) for form in forms)
            if "-----" not in secret and " " in secret:
                yield way, secret.replace(" ", "").encode()


def halves(text: str) -> set[str]:
    """A text, and both halves of one that is long enough to be known by half."""
    middle = len(text) // 2
    return {text, text[:middle], text[middle:]} if len(text) >= 24 else {text}


def leaks(secrets: Secrets, places: dict[str, bytes]) -> dict[str, set[str]]:
    """By which way what got where."""
    found: dict[str, set[str]] = {}
    for way, needle in secrets.needles():
        for place, data in places.items():
            if needle in data:
                found.setdefault(way, set()).add(place)
    return found


def every_byte(folder: Path) -> dict[str, bytes]:
    """What the files below a folder hold, and what those packed into archives do."""
    found: dict[str, bytes] = {}
    for file in folder.rglob("*"):
        name = str(file.relative_to(folder))
        found[f"name of {name}"] = name.encode()
        if not file.is_file():
            continue
        found[name] = file.read_bytes()
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as packed:
                found |= {f"{name}/{one}": packed.read(one) for one in packed.namelist()}
    return found


class Scripted:
    """A model that answers by a script and notes what it was asked."""

    name = "scripted:1"

    def __init__(self, replies: Sequence[ModelReply]) -> None:
        self.replies = list(replies)
        self.asked: list[ModelRequest] = []

    def answer(self, ask: ModelRequest, **_: Any) -> ModelReply:
        self.asked.append(ask)
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]

    @property
    def prompts(self) -> bytes:
        return "\n".join(
            f"{each.content}{each.tool_calls}" for ask in self.asked for each in ask.messages
        ).encode()


def reply(text: str, *calls: ToolCall) -> ModelReply:
    return ModelReply(text=text, tool_calls=calls, usage=TokenUsage())


def refused(act: Callable[[], object]) -> str:
    with pytest.raises(ReverieError) as caught:
        act()
    return f"{caught.value!r} {caught.value}"


class Drive:
    """All the ways in, one after the other."""

    def __init__(self, root: Path, settings: Settings) -> None:
        self.secrets = Secrets()
        self.root = root
        self.folder = root / "memory"
        self.settings = settings
        self.told: list[str] = []
        self.prompts: list[bytes] = []

    def run(self) -> None:
        with Memory.open(self.folder, settings=self.settings) as memory:
            self.records(memory)
            self.conversations(memory)
            self.pages(memory)
            self.files(memory)
            self.imports(memory)
            self.tools(memory)
            self.agent(memory)
            self.thinking(memory)
            if self.settings.redact_secrets:
                self.names(memory)
            memory.admin.backup(self.root / "kept" / "backup.zip")
        self.commands()

    def records(self, memory: Memory) -> None:
        s = self.secrets
        note = memory.save(
            f"the key for the build is {s('content')}",
            tags=[f"tag {s.token('tag')}"],
            source=f"mail with {s.token('source')}",
            references=[f"https://x.io/?k={s.token('reference')}"],
            metadata={"raw": s("metadata"), "db_password": s("keyed metadata", "leet")},
        ).record
        memory.save_many([{"content": f"many: {s('save_many')}", "metadata": {"x": s("save_many metadata")}}])
        Store(memory).remember_fil(
            [f"finding {s('finding')}"], [f"insight {s('insight')}"], [f"lesson {s('lesson')}"]
        )
        memory.update(note.id, content=f"now it is {s('update')}", tags=[s.token("update tag")])
        memory.archive(note.id, reason=f"because {s('archive reason')}")
        memory.restore(note.id)
        extra = memory.save("Rocky loves rock music")
        memory.save(f"Rocky loves rock music by {s('near repetition')}")
        memory.history.undo(memory.history.log(limit=1_000)[-1])
        memory.archive(extra.record.id)
        memory.save(s("nothing else"))

    def conversations(self, memory: Memory) -> None:
        s = self.secrets
        chat = memory.session("chat:1")
        chat.add("user", f"please use {s('user turn')} for it", metadata={"via": s("turn metadata")})
        call = {"id": "c1", "name": "run", "arguments": json.dumps({"token": s("arguments"), "n": 1})}
        chat.add("assistant", "", tool_calls=[call])
        chat.add("tool", f"stdout: {s('tool result')}", tool_call_id="c1")
        answer = chat.add("assistant", f"I decided to use {s('assistant turn')} from now on.", speaker="Bot")
        chat.feedback(answer.id, "down", note=f"no: {s('feedback')}")
        chat.set_metadata("title", f"about {s('session metadata')}")
        chat.working.set("build", f"log: {s('working memory')}", tags=[s.token("working tag")])
        memory.scratchpad.set("plan", f"call with {s('scratchpad')}")
        memory.consolidate_session("chat:1")
        self.told.append(chat.context(f"what was {s('asked')}?").text)

    def pages(self, memory: Memory) -> None:
        s = self.secrets
        memory.pages.write("MEMORY.md", f"# Notes\n\nkey {s('page')}\n", reason=f"with {s('page reason')}")
        memory.pages.write("MEMORY.md", f"# Notes\n\nother {s('merged page')}\n", expected="# Notes\n")
        memory.pages.append("MEMORY.md", f"line {s('page line')}")
        memory.pages.append("HISTORY.md", f"paragraph {s('history')}", source=s.token("history source"))
        memory.pages.write("MEMORY.md", f"{memory.pages.read()}\nNotes of {s.token('replaced')}\n")

    def files(self, memory: Memory) -> None:
        """What a person does in the folder while the program runs."""
        s = self.secrets
        if memory.folder is None:
            return
        kept = memory.save("A record that a person will edit", metadata={"a": "b"}).record
        memory.folder.flush()
        if self.settings.files == "records":
            record = next((self.folder / "memory").rglob(f"{kept.id}.json"))
            fields = json.loads(record.read_text())
            fields |= {
                "content": f"edited: {s('edited record')}",
                "metadata": {"password": s("edited metadata", "leet")},
            }
            record.write_text(json.dumps(fields))
            new = {"content": f"new: {s('new file')}"}
            (self.folder / "memory" / "note.json").write_text(json.dumps(new))
        else:
            (record,) = (
                each for each in self.folder.rglob("memory/records/*.md") if kept.id in each.read_text()
            )
            edited = record.read_text().replace(kept.content, f"edited: {s('edited record')}")
            record.write_text(f"{edited}- new: {s('new line')}\n")
            (record.parent / "new.md").write_text(f"- new: {s('new file')}\n")
        page = self.folder / "memory" / "MEMORY.md"
        page.write_text(f"{page.read_text()}\nby hand: {s('edited page')}\n")
        (self.folder / "memory" / "other.md").write_text(f"other: {s('new page')}\n")
        history = self.folder / "memory" / "HISTORY.md"
        history.write_text(f"{history.read_text()}\n\n[2026-02-01 10:00] by hand {s('edited history')}\n")
        talk = self.folder / "sessions"
        (session,) = [file for file in talk.iterdir() if "chat" in file.name]
        session.write_text(session.read_text().replace("I decided", f"I ({s.token('edited turn')}) decided"))
        taken = memory.folder.take_in()
        assert not taken.problems, taken.problems
        memory.folder.flush()
        page.write_text(page.read_text().replace("by hand", f"by hand {s('second edit')}"))
        memory.pages.append("MEMORY.md", "the program writes at the same time")
        memory.folder.take_in()
        memory.folder.flush()

    def imports(self, memory: Memory) -> None:
        s = self.secrets
        sources = self.root / "sources"
        sources.mkdir()
        lines = [
            {"role": "user", "content": f"imported {s('imported turn')}", "session": "old:1"},
            {
                "role": "assistant",
                "content": [{"type": "text", "text": f"part {s('imported part')}"}],
                "session": "old:1",
            },
        ]
        (sources / "chat.jsonl").write_text("\n".join(map(json.dumps, lines)))
        graph = {
            "type": "entity",
            "name": "Atlas",
            "entityType": "project",
            "observations": [f"has {s('imported graph')}"],
        }
        (sources / "memory.jsonl").write_text(json.dumps(graph) + "\n")
        memory.admin.import_from(sources / "memory.jsonl", dry_run=True)
        memory.admin.import_from(sources / "memory.jsonl")
        (sources / "notes.md").write_text(f"# Old notes\n\n- uses {s('imported notes')}\n")
        memory.admin.import_from(sources / "notes.md")

    def tools(self, memory: Memory) -> None:
        s = self.secrets
        tools = memory.tools(session="chat:3", groups=("long_term", "working", "fil", "scratchpad", "pages"))
        for name, given in (
            ("save_memory", {"content": f"tool: {s('save_memory')}", "tags": [s.token("save_memory tag")]}),
            ("save_to_working_memory", {"key": "w", "data": f"x {s('save_to_working_memory')}"}),
            ("remember", {"findings": [f"f {s('remember')}"]}),
            ("scratchpad_write", {"key": "k", "text": f"y {s('scratchpad_write')}"}),
            ("edit_memory", {"old": "# Notes", "new": f"# Notes {s.token('edit_memory')}"}),
            ("save_memory", {"content": "x", "category": f"a b {s.token('bad category')}"}),
        ):
            told = tools.call(name, given)
            assert not told.failed, told
            self.told.append(told.text)

    def agent(self, memory: Memory) -> None:
        """A turn of an agent: a tool that tells a secret, a model that repeats one."""
        s = self.secrets
        spec = ToolSpec(name="read", description="Read.", parameters={"type": "object", "properties": {}})
        tool = Tool(spec=spec, run=lambda _: ToolResult(f"it says {s('read by a tool')}"))
        call = ToolCall(id="c9", name="read", arguments="{}")
        model = Scripted([reply("", call), reply(f"done with {s('said by the model')}"), reply("fine")])
        talk = Agent(memory.session("chat:2"), model=model, tools=[tool])
        own = s("typed to the model")
        talk.turn(f"here is {own}, what does it say?")
        seen = model.prompts.count(own.encode())
        asked = len(model.asked)
        talk.turn("and now?")
        assert seen == asked, "what the user types goes to the user's model, for this turn"
        if self.settings.redact_secrets:
            later = model.asked[asked:]
            assert not any(own in each.content for ask in later for each in ask.messages)
        self.prompts.append(model.prompts.replace(own.encode(), b""))

    def thinking(self, memory: Memory) -> None:
        """A model whose answers hold secrets."""
        s = self.secrets
        finding = f"the service uses {s('extracted')}"
        texts = {"findings": [finding], "insights": [], "lessons": []}
        model = Scripted([reply(json.dumps(texts))])
        with Memory.open(self.folder, settings=self.settings, model=model) as other:
            output = f"A step that put out {s('output of a step')} and more words than fifty characters; {finding}."
            plan = other.dreams.plan("extract", output=output)
            if not plan.skipped:
                other.dreams.apply(plan)
        self.prompts.append(model.prompts)

    def names(self, memory: Memory) -> None:
        """What is found by its name cannot be replaced: it is refused, and the words do not say it."""
        s = self.secrets
        self.told += [
            refused(lambda: memory.session(s.token("session id")).add("user", "hello")),
            refused(lambda: memory.scratchpad.set(s.token("key"), "x")),
            refused(lambda: memory.save("words of mine", category=f"../{s.token('no category')}")),
            refused(lambda: memory.scoped(s.token("scope")).save("words of mine")),
            refused(lambda: memory.archive(s.token("no id"))),
            refused(lambda: memory.pages.append(f"{s.token('no page')}.md", "x")),
        ]
        memory.save("words in a category", category=f"keys/{s.token('category')}")
        logging.getLogger("reverie").warning("somebody logs %s", s("log"))

    def commands(self) -> None:
        """The command line, and what it prints."""
        s = self.secrets
        at = ["--store", str(self.folder)]
        if not self.settings.redact_secrets:
            (self.root / "off.json").write_text('{"redact_secrets": false}')
            at += ["--settings", str(self.root / "off.json")]
        ways = {
            "remember": [f"cli: {s('remember')}", "--tag", s.token("remember tag")],
            "say": ["cli:1", "user", f"cli: {s('say')}"],
            "append": ["HISTORY.md", f"cli: {s('append')}"],
            "import": [str(self.root / "sources" / "chat.jsonl"), "--origin", "import"],
        }
        for name, args in ways.items():
            done = CliRunner().invoke(cli, [name, *args, *at])
            assert done.exit_code == 0, (name, done.output)
            self.told.append(done.output)
        for args in (
            ["recall", "cli"],
            ["history"],
            ["context", "cli:1"],
            ["export", str(self.root / "kept" / "out.jsonl")],
        ):
            self.told.append(CliRunner().invoke(cli, [*args, *at]).output)


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG):
        yield caplog


def places(drive: Drive, logged: pytest.LogCaptureFixture) -> dict[str, bytes]:
    return {
        **every_byte(drive.folder),
        **every_byte(drive.root / "kept"),
        "log": logged.text.encode(),
        "answers": "\n".join(drive.told).encode(),
        "prompts": b"\n".join(drive.prompts),
    }


@pytest.mark.parametrize("files", ["pages", "records"])
def test_no_byte_of_a_secret_is_left_anywhere(
    tmp_path: Path, files: Literal["pages", "records"], logged: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "kept").mkdir()
    drive = Drive(tmp_path, Settings(files=files))
    drive.run()
    assert len(drive.secrets.made) > 60
    found = places(drive, logged)
    assert any(name.startswith("index/") for name in found)
    assert {"reverie.db", "files.db", "memory/MEMORY.md"} <= set(found)
    assert leaks(drive.secrets, found) == {}
    assert b"[redacted: " in found["reverie.db"]


@pytest.mark.parametrize("files", ["pages", "records"])
def test_the_same_scan_finds_them_where_nothing_is_redacted(
    tmp_path: Path, files: Literal["pages", "records"], logged: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "kept").mkdir()
    drive = Drive(tmp_path, Settings(redact_secrets=False, files=files))
    drive.run()
    found = leaks(drive.secrets, places(drive, logged))
    unseen = {way for way in drive.secrets.made if way not in found}
    assert {way.rpartition(" ")[0] for way in unseen} <= {"asked", "bad category", "edited turn"}, (
        "a question is stored nowhere, and the edit of a conversation is replaced"
    )


@pytest.mark.parametrize("name", ["reverie", "reverie.mcp"])
def test_no_log_of_ours_tells_one(name: str, logged: pytest.LogCaptureFixture) -> None:
    secret = Secrets().token("logged")
    with Memory.open(":memory:"):
        try:
            raise ValueError(f"it was {secret}")
        except ValueError:
            logging.getLogger(name).exception("no place for %s", secret)
    assert secret not in logged.text
    assert logged.text.count("[redacted: github token]") == 2


def test_two_saves_of_one_thing_with_other_secrets_are_one_record() -> None:
    with Memory.open(":memory:") as memory:
        one = memory.save("The build uses " + SECRETS["github"](Random(1)))
        two = memory.save("The build uses " + SECRETS["github"](Random(2)))
        assert (one.outcome, two.outcome) == ("created", "reinforced")
        assert two.record.seen_count == 2


def test_an_edit_that_puts_a_secret_back_is_written_over(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        assert memory.folder is not None
        memory.pages.write("MEMORY.md", "wifi password: hunter2x\n")
        memory.folder.flush()
        page = tmp_path / "memory" / "MEMORY.md"
        assert page.read_text() == "wifi password: [redacted: password]\n"
        page.write_text("wifi password: hunter2x\n")
        memory.folder.take_in()
        memory.folder.flush()
        assert page.read_text() == "wifi password: [redacted: password]\n"
        assert len(memory.history.log("MEMORY.md")) == 1, "nothing was changed by it"


@pytest.mark.parametrize("key", ["4539 1488 0343 6467", "password=Tr0ub4dor-and-3"])
def test_a_key_of_working_memory_that_is_a_secret_is_refused(key: str) -> None:
    with Memory.open(":memory:") as memory:
        with pytest.raises(InvalidInput, match="looks like a secret"):
            memory.scratchpad.set(key, "x")
        told = memory.tools(session="cli:1").call("save_to_working_memory", {"key": key, "data": "x"})
        assert told.failed
        assert memory.session("telegram:4539148803436467").id, "a chat's number may look like a card's"
