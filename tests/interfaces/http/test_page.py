"""The web page: sign-in, protection from other sites, headers, escaping, and what each view does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import unescape
from html.parser import HTMLParser
from typing import Any

import click
import pytest
from starlette.testclient import TestClient

from reverie import Memory
from reverie.interfaces.cli.main import cli
from reverie.interfaces.http import application
from reverie.interfaces.http.operations import Operation
from reverie.interfaces.http.page.rendering import FOLDER, TEXTS
from reverie.interfaces.http.page.site import GROUPS
from reverie.interfaces.http.server import HttpServer
from reverie.interfaces.http.tokens import RIGHTS
from tests.interfaces.http.conftest import serve_here
from tests.interfaces.http.page_scene import HOSTILE, NAME, fill_memory, list_addresses

OWN = {"Sec-Fetch-Site": "same-origin"}
VIEWS = [each for group in GROUPS for each in group.VIEWS]


def name_of(value: object) -> str:
    return value.name if isinstance(value, Operation) else str(value)


def fill(path: str) -> str:
    return re.sub(r"\{\w+(:\w+)?\}", "000000000000", path)


def sign_in(client: TestClient, token: str, **options: Any) -> Any:
    return client.post("/sign-in", data={"token": token, **options}, headers=OWN, follow_redirects=False)


def see(client: TestClient, path: str) -> Page:
    """Return a view that is there."""
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return Page(answer.text)


class Page(HTMLParser):
    """Elements of a view: its texts, links and forms."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text += data

    def find(self, tag: str, **wanted: str) -> list[dict[str, str]]:
        return [
            attributes
            for name, attributes in self.tags
            if name == tag and all(attributes.get(key) == value for key, value in wanted.items())
        ]


@pytest.mark.parametrize("view", VIEWS, ids=name_of)
def test_a_view_needs_a_token_and_its_right(client: TestClient, server: HttpServer, view: Operation) -> None:
    weak = [right for right in RIGHTS if right not in (view.right, "admin")]
    _, token = server.tokens.create("weak", scope="user:alice", rights=weak)
    options: Any = {"headers": OWN, "follow_redirects": False} | (
        {"data": {"x": ""}} if view.method == "POST" else {}
    )
    asked = client.request(view.method, fill(view.path), **options)
    assert asked.status_code == 303
    assert asked.headers["location"].startswith("/sign-in")
    sign_in(client, token)
    refused = client.request(view.method, fill(view.path), **options)
    assert refused.status_code == 403
    assert "lacks the right" in Page(refused.text).text


@pytest.mark.parametrize("view", [each for each in VIEWS if each.method == "POST"], ids=name_of)
def test_a_form_of_another_site_is_refused(client: TestClient, view: Operation) -> None:
    for headers in (
        {},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "null"},
    ):
        refused = client.post(fill(view.path), data={"x": ""}, headers=headers, follow_redirects=False)
        assert refused.status_code == 403, headers


def test_a_form_with_the_origin_of_this_server_is_accepted(client: TestClient) -> None:
    for path in ("/theme", "/sign-out"):
        headers = {"Origin": "http://127.0.0.1"}
        assert (
            client.post(path, data={"theme": "dark"}, headers=headers, follow_redirects=False).status_code
            == 303
        )
        headers = {"Origin": "http://127.0.0.1:81"}
        assert client.post(path, data={"theme": "dark"}, headers=headers).status_code == 403


def test_a_token_opens_the_page_until_it_is_revoked(client: TestClient, server: HttpServer) -> None:
    token, text = server.tokens.create("alice", rights=RIGHTS, origin="owner")
    assert "not valid" in sign_in(client, text[:-1] + "!").text
    signed = sign_in(client, text, next="/timeline")
    assert (signed.status_code, signed.headers["location"]) == (303, "/timeline")
    cookie = signed.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "alice" in Page(client.get("/").text).text
    server.tokens.revoke(token.id)
    assert client.get("/", follow_redirects=False).status_code == 303


@pytest.mark.parametrize(
    "target", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:x", "/\nx"]
)
def test_sign_in_leads_to_this_server_only(client: TestClient, server: HttpServer, target: str) -> None:
    _, text = server.tokens.create("alice", rights=RIGHTS, origin="owner")
    assert sign_in(client, text, next=target).headers["location"] == "/"


def test_every_answer_forbids_foreign_scripts_and_frames(client: TestClient) -> None:
    for path in ("/", "/timeline", "/sign-in", "/undo?batch=99", "/static/page.css"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith(
            "default-src 'none'; script-src 'self'; style-src 'self'"
        )
        assert "'unsafe-inline'" not in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_templates_hold_no_words_and_trust_nothing() -> None:
    for file in FOLDER.glob("templates/*.html"):
        source = file.read_text(encoding="utf-8")
        bare = re.sub(r"{#.*?#}|{%.*?%}|{{.*?}}", " ", source, flags=re.DOTALL)
        assert re.findall(r"[A-Za-z]{2,}", re.sub(r"<[^>]*>", " ", bare)) == [], file.name
        assert re.findall(r'(?:title|aria-label|placeholder|alt)="[^"]*[A-Za-z]', bare) == [], file.name
        assert not re.search(r"\|\s*safe\b|autoescape|style=|\bon[a-z]+=", source), file.name


def test_no_text_has_the_name_of_a_method_of_mappings() -> None:
    def list_names(texts: Mapping[str, Any]) -> list[str]:
        inner = [each for value in texts.values() if isinstance(value, Mapping) for each in list_names(value)]
        return [*texts, *inner]

    assert {*list_names(TEXTS)}.isdisjoint(dir(dict))


def test_the_last_change_is_taken_back_with_two_clicks(client: TestClient, memory: Memory) -> None:
    memory.save("Deploys on Friday")
    page = Page(client.get("/").text)
    (link,) = [each["href"] for each in page.find("a") if each.get("href", "").startswith("/undo")]
    preview = client.get(link)
    assert "Deploys on Friday" in Page(preview.text).text
    assert memory.list()
    (form,) = [each for each in Page(preview.text).find("form") if each["action"].startswith("/undo")]
    done = client.post(form["action"], data={"x": ""}, headers=OWN)
    assert "Done." in Page(done.text).text
    assert memory.list() == []
    (again,) = {each["href"] for each in Page(done.text).find("a") if each["href"] == "/undo?batch=2"}
    client.post(again, data={"x": ""}, headers=OWN)
    assert [record.content for record in memory.list()] == ["Deploys on Friday"]


def test_the_timeline_goes_back_to_the_first_change(client: TestClient, memory: Memory) -> None:
    for number in range(45):
        memory.save(f"Host {number:03} has the address 10.0.0.{number}")
    seen, path, views = set[str](), "/timeline", 0
    while path:
        page = Page(client.get(path).text)
        seen |= set(re.findall(r"Host \d+", page.text))
        path = next((each["href"] for each in page.find("a", rel="next")), "")
        views += 1
    assert len(seen) == 45
    assert views <= 4


# -- what is stored is never part of the page ---------------------------------------------------------------


def assert_harmless(html: str, address: str) -> None:
    """Check that a view has no element or attribute that a stored text asked for."""
    page = Page(html)
    scripts = page.find("script")
    assert [each.get("src", "").partition("?")[0] for each in scripts] == ["/static/page.js"], address
    for tag, attributes in page.tags:
        assert tag not in ("img", "b", "iframe", "object", "style", "base"), (address, tag)
        assert tag != "svg" or "viewbox" in attributes, address  # charts have one, the hostile one has none
        assert not any(name.startswith("on") or name == "style" for name in attributes), (address, attributes)
        for name in ("href", "src", "action", "formaction"):
            assert attributes.get(name, "/").startswith(("/", "#")), (address, attributes)
    assert "\u202e" not in html, address
    assert "\x1b" not in html, address


def test_hostile_texts_stay_text_in_every_view(client: TestClient, memory: Memory) -> None:
    ids = fill_memory(memory, text=HOSTILE, name=NAME)
    shown = 0
    for address in list_addresses(ids):
        answer = client.get(address)
        assert answer.status_code == 200, (address, answer.text)
        assert_harmless(answer.text, address)
        shown += "{{ 7*7 }}" in Page(answer.text).text or "window.hacked" in answer.text
    assert shown >= 15
    for way, what in (("match", "window.hacked"), ("ids", ids["record"]), ("session", NAME)):
        answer = client.post("/forget/preview", data={"way": way, "what": what}, headers=OWN)
        assert answer.status_code == 200, answer.text
        assert_harmless(answer.text, way)
    for path, status in (
        ("/records/" + "0" * 12, 404),
        ("/records?kind=<script>", 422),
        ("/undo?batch=9999", 404),
    ):
        answer = client.get(path)
        assert answer.status_code == status
        assert_harmless(answer.text, path)


def test_what_is_hidden_is_made_visible(client: TestClient, memory: Memory) -> None:
    record = memory.save("pay \u202e05 to Bob").record
    assert "pay \\u202e05 to Bob" in Page(client.get(f"/records/{record.id}").text).text


# -- memories ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "day", ["0001-01-01", "9999-12-31", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00+14:00"]
)
def test_no_time_is_an_internal_error(client: TestClient, memory: Memory, day: str) -> None:
    record = memory.save("Prefers green tea").record
    for path in ("/timeline", "/records", "/inspect"):
        times = dict.fromkeys(("since", "until", "as_of", "valid_at"), day)
        for name in times:
            assert client.get(path, params={name: times[name]}).status_code < 500
    form = read_form(client.get(f"/records/{record.id}/edit").text, f"/records/{record.id}/edit")
    for name in ("valid_from", "valid_to"):
        answer = client.post(f"/records/{record.id}/edit", data={**form, name: day}, headers=OWN)
        assert answer.status_code < 500


def read_form(html: str, action: str) -> dict[str, str]:
    """Return the hidden and filled fields of the form with that action."""
    match = re.search(rf'<form method="post" action="{re.escape(action)}".*?</form>', html, re.DOTALL)
    assert match, action
    fields = {each["name"]: each.get("value", "") for each in Page(match[0]).find("input") if "name" in each}
    if area := re.search(r"<textarea[^>]*>\n(.*?)</textarea>", match[0], re.DOTALL):
        fields["content"] = unescape(area[1])
    for name, options in re.findall(r'<select name="(\w+)">(.*?)</select>', match[0], re.DOTALL):
        chosen = [each for each in Page(options).find("option") if "selected" in each]
        fields[name] = chosen[0]["value"] if chosen else ""
    return fields


def test_a_memory_is_saved_found_edited_archived_and_brought_back(client: TestClient, memory: Memory) -> None:
    saved = client.post(
        "/records/new",
        data={"content": "Alice drinks tea", "kind": "preference", "tags": "tea, drinks"},
        headers=OWN,
    )
    assert saved.url.path.startswith("/records/")
    (record,) = memory.list()
    assert (record.kind, record.tags, record.origin) == ("preference", ("tea", "drinks"), "owner")
    found = Page(client.get("/records?q=tea").text)
    assert found.find("a", href=f"/records/{record.id}")
    assert "Nothing relevant" in client.get("/records?q=submarine+welding").text

    path = f"/records/{record.id}"
    fields = read_form(client.get(f"{path}/edit").text, f"{path}/edit")
    client.post(f"{path}/edit", data={**fields, "content": "Alice drinks coffee"}, headers=OWN)
    assert memory.get(record.id).content == "Alice drinks coffee"
    fields = read_form(client.get(path).text, f"{path}/archive")
    client.post(f"{path}/archive", data={**fields, "reason": "not so"}, headers=OWN)
    assert memory.get(record.id).archive_reason == "not so"
    done = client.post(f"{path}/restore", data={"x": ""}, headers=OWN)
    assert not memory.get(record.id).archived
    undo = next(each["href"] for each in Page(done.text).find("a") if each["href"].startswith("/undo?batch"))
    client.post(undo, data={"x": ""}, headers=OWN)
    assert memory.get(record.id).archived


def test_an_edit_of_what_changed_meanwhile_loses_neither_version(client: TestClient, memory: Memory) -> None:
    record = memory.save("The server is red").record
    path = f"/records/{record.id}/edit"
    fields = read_form(client.get(path).text, path)
    memory.update(record.id, content="The server is green")
    refused = client.post(path, data={**fields, "content": "The server is blue"}, headers=OWN)
    assert refused.status_code == 412
    assert memory.get(record.id).content == "The server is green"
    assert "The server is green" in Page(refused.text).text
    again = read_form(refused.text, path)
    assert again["content"] == "The server is blue"
    client.post(path, data=again, headers=OWN)
    assert memory.get(record.id).content == "The server is blue"
    client.post(path, data={**again, "etag": "", "content": "The server is pink"}, headers=OWN)
    assert memory.get(record.id).content == "The server is blue"


def test_a_refused_form_comes_back_with_what_was_entered(client: TestClient, memory: Memory) -> None:
    entered = {"content": "Alice drinks tea", "category": "A b!", "tags": "tea, green", "etag": ""}
    answer = client.post("/records/new", data=entered, headers=OWN)
    assert answer.status_code == 422
    page = Page(answer.text)
    assert "category is 'A b!'" in page.text
    assert "Alice drinks tea" in page.text
    assert page.find("input", name="tags")[0]["value"] == "tea, green"
    assert memory.list() == []
    record = memory.save("Alice drinks coffee").record
    etag = see(client, f"/records/{record.id}/edit").find("input", name="etag")[0]["value"]
    entered |= {"kind": "fact", "importance": "0.5", "confidence": "much", "etag": etag}
    answer = client.post(f"/records/{record.id}/edit", data=entered, headers=OWN)
    assert answer.status_code == 422
    page = Page(answer.text)
    assert "confidence is 'much': give a number" in page.text
    assert "Alice drinks tea" in page.text
    assert page.find("input", name="etag")[0]["value"] == etag
    answer = client.post("/page-edit", data={"name": "My page", "content": "Tea", "etag": ""}, headers=OWN)
    assert answer.status_code == 422
    page = Page(answer.text)
    assert page.find("input", name="name")[0]["value"] == "My page"
    assert "Tea" in page.text
    assert memory.get(record.id) == record
    assert memory.pages.names() == []


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("/records?valid_at=soon", "valid_at is 'soon': give a time such as 2026-11-20 14:30."),
        ("/records?valid_at=5", "valid_at is '5': give a time such as 2026-11-20 14:30."),
        (
            "/records?as_of=soon",
            "as_of is 'soon': give a time such as 2026-11-20 14:30, or the number of a change.",
        ),
    ],
)
def test_a_time_that_cannot_be_read_is_refused_with_what_is_accepted_there(
    client: TestClient, address: str, says: str
) -> None:
    answer = client.get(address)
    assert answer.status_code == 422
    assert says in Page(answer.text).text


def test_an_edit_of_another_field_keeps_hidden_characters(client: TestClient, memory: Memory) -> None:
    record = memory.save("pay \u202e05 to Bob").record
    path = f"/records/{record.id}/edit"
    fields = read_form(client.get(path).text, path)
    client.post(path, data={**fields, "category": "money"}, headers=OWN)
    assert (memory.get(record.id).content, memory.get(record.id).category) == ("pay \u202e05 to Bob", "money")


def test_a_bound_token_sees_and_changes_its_scope_only(
    client: TestClient, memory: Memory, server: HttpServer
) -> None:
    bob = memory.scoped("user:bob").save("Bob likes opera").record
    alice = memory.scoped("user:alice").save("Alice likes jazz").record
    _, token = server.tokens.create(
        "alice", scope="user:alice", rights=["read", "write", "review"], origin="owner"
    )
    sign_in(client, token)
    for address in ("/", "/records", "/records?q=opera", "/timeline", "/sessions"):
        answer = client.get(address)
        assert answer.status_code == 200, answer.text
        assert "opera" not in Page(answer.text).text, address
    assert client.get(f"/records/{bob.id}").status_code == 404
    assert client.post(f"/records/{bob.id}/pin", data={"x": ""}, headers=OWN).status_code == 404
    assert "opera" not in client.get("/undo?batch=1").text
    memory.session("office").add("user", "The office is in Bergen")
    assert "/sessions/office" in {each.get("href") for each in see(client, "/timeline").find("a")}
    office = see(client, "/sessions/office")
    assert "The office is in Bergen" in office.text
    assert not office.find("form", action="/sessions-delete/office")
    assert client.get(f"/records/{alice.id}").status_code == 200
    assert client.get("/records?scope=*").status_code == 403
    assert client.get("/tokens").status_code == 403


# -- conversations, pages, erasure, upkeep -----------------------------------------------------------------


def test_a_conversation_is_read_ended_deleted_and_brought_back(client: TestClient, memory: Memory) -> None:
    session = memory.session("telegram:1")
    for number in range(70):
        session.add("user", f"message {number:02}")
    page = Page(client.get("/sessions/telegram:1").text)
    assert "message 69" in page.text
    assert "message 09" not in page.text
    (earlier,) = page.find("a", rel="prev")
    assert "message 00" in Page(client.get(earlier["href"]).text).text
    client.post("/sessions-status/telegram:1", data={"status": "terminated"}, headers=OWN)
    assert memory.session("telegram:1").state.status == "terminated"
    assert client.post("/sessions-delete/telegram:1", data={"name": "x"}, headers=OWN).status_code == 422
    done = Page(client.post("/sessions-delete/telegram:1", data={"name": "telegram:1"}, headers=OWN).text)
    assert memory.sessions() == []
    undo = next(each["href"] for each in done.find("a") if each["href"].startswith("/undo?batch"))
    client.post(undo, data={"x": ""}, headers=OWN)
    assert len(memory.turns("telegram:1")) == 70


def test_a_page_is_written_and_both_versions_of_a_conflict_are_shown(
    client: TestClient, memory: Memory
) -> None:
    client.post("/page-edit", data={"name": "MEMORY.md", "content": "first\r\nline", "etag": ""}, headers=OWN)
    assert memory.pages.read("MEMORY.md") == "first\nline"
    fields = read_form(client.get("/page-edit?name=MEMORY.md").text, "/page-edit")
    memory.pages.write("MEMORY.md", "theirs")
    refused = client.post("/page-edit", data={**fields, "content": "mine"}, headers=OWN)
    assert refused.status_code == 412
    assert "theirs" in Page(refused.text).text
    assert memory.pages.read("MEMORY.md") == "theirs"
    client.post("/page-edit", data=read_form(refused.text, "/page-edit"), headers=OWN)
    assert memory.pages.read("MEMORY.md") == "mine"
    new = client.post("/page-edit", data={"name": "MEMORY.md", "content": "lost?", "etag": ""}, headers=OWN)
    assert new.status_code == 412
    assert memory.pages.read("MEMORY.md") == "mine"
    client.post("/page-append", data={"name": "MEMORY.md", "text": "more"}, headers=OWN)
    assert memory.pages.read("MEMORY.md").splitlines()[-1] == "more"


def test_the_timeline_calls_an_erasure_by_its_name(client: TestClient, memory: Memory) -> None:
    memory.admin.forget(memory.save("The code name is Heron").record.id, dry_run=False)
    erased, *_ = client.get("/timeline").text.partition('class="list"')[2].split("</li>")
    assert "<h3>Erased <small>" in erased
    assert "Take back" not in erased


def test_forgetting_needs_a_preview_and_its_count(client: TestClient, memory: Memory) -> None:
    memory.save("Alice lives at 5 Harbour Street")
    memory.save("Bob lives in Leeds")
    order = {"way": "match", "what": "Harbour Street"}
    preview = client.post("/forget/preview", data=order, headers=OWN)
    fields = read_form(preview.text, "/forget")
    assert client.post("/forget", data={**fields, "count": "7"}, headers=OWN).status_code == 409
    assert client.post("/forget", data={**fields, "digest": "", "count": "1"}, headers=OWN).status_code == 409
    assert len(memory.list()) == 2
    done = client.post("/forget", data={**fields, "count": "1"}, headers=OWN)
    assert "It has been erased." in Page(done.text).text
    assert [record.content for record in memory.list()] == ["Bob lives in Leeds"]


@pytest.mark.parametrize("turns", [False, True])
def test_a_turn_is_erased_only_if_that_is_asked_for(client: TestClient, memory: Memory, turns: bool) -> None:
    said = "The code name of the harbour project is Heron"
    for name, text in (("a", said), ("b", f"Remember: {said}."), ("c", "Heron"), ("d", "I like tea")):
        session = memory.session(name)
        session.add("user", text)
        session.add("assistant", "Understood.")
    record = memory.save(said).record
    for order in ({"way": "match", "what": "Heron"}, {"way": "ids", "what": record.id}):
        box = {"turns": "yes"} if turns else {}
        preview = client.post("/forget/preview", data=order | box, headers=OWN)
        fields = read_form(preview.text, "/forget")
        body = {"match": "Heron", "turns": turns}
        shown = client.post("/v1/forget/preview", json=body).json()
        assert any(each["subject"] == "turn" for each in shown["going"]) == turns
        assert any(each["subject"] == "turn" for each in shown["left"]) != turns
    going = client.post("/v1/forget/preview", json={"ids": [record.id], "turns": turns}).json()["going"]
    done = client.post("/forget", data={**fields, "count": f"{len(going)}"}, headers=OWN)
    assert "It has been erased." in Page(done.text).text
    kept = [turn.content for name in "abcd" for turn in memory.turns(name) if turn.role == "user"]
    assert (said in kept) != turns
    assert "I like tea" in kept


def test_a_token_is_made_shown_once_and_revoked(client: TestClient, server: HttpServer) -> None:
    made = client.post(
        "/tokens", data={"label": "mine", "rights": list(RIGHTS), "origin": "owner"}, headers=OWN
    )
    (text,) = re.findall(r"rvr_\w{8}_[\w-]{43}", made.text)
    assert client.get("/", follow_redirects=False).status_code == 303
    sign_in(client, text)
    again = client.get("/tokens")
    assert text not in again.text
    (revoke,) = [
        each["action"] for each in Page(again.text).find("form") if each["action"].endswith("/revoke")
    ]
    client.post(revoke, data={"x": ""}, headers=OWN)
    assert server.tokens.authenticate(text) is None


def test_health_names_the_settings_that_differ(client: TestClient) -> None:
    page = Page(client.get("/health").text)
    assert "Everything is in order." not in page.text
    page = Page(client.post("/health", data={"x": ""}, headers=OWN).text)
    assert "Everything is in order." in page.text
    assert "files" in page.text


def test_an_empty_memory_names_a_command_that_there_is(client: TestClient) -> None:
    page = see(client, "/")
    name = re.search(r"reverie (\w+)", page.text)
    assert name is not None
    assert name[1] in cli.list_commands(click.Context(cli))
    assert page.find("a", href="/records/new")


def test_the_overview_tells_how_much_a_dream_changed(client: TestClient, memory: Memory) -> None:
    memory.save("We decided on Postgres", kind="decision", layer="episodic")
    memory.dreams.run()
    assert "File what has become knowledge: applied – 1 change" in see(client, "/").text


def test_without_its_template_engine_the_page_says_what_is_missing(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "find_spec", lambda name: None)
    with serve_here(server) as client:
        answer = client.get("/")
    assert answer.status_code == 501
    assert "[server]'" in answer.text
