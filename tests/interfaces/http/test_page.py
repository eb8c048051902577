"""The web page: sign-in, protection from other sites, headers, escaping, and what each view does."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from typing import Any

from starlette.testclient import TestClient

from reverie import Memory
from reverie.interfaces.http.operations import Operation
from reverie.interfaces.http.page.rendering import FOLDER, STATIC
from reverie.interfaces.http.page.site import GROUPS
from reverie.interfaces.http.server import HttpServer
from reverie.interfaces.http.tokens import RIGHTS
from tests.interfaces.http.conftest import BASE
from tests.interfaces.http.page_scene import HOSTILE, NAME, fill_memory, list_addresses

OWN = {"Sec-Fetch-Site": "same-origin"}
VIEWS = [each for group in GROUPS for each in group.VIEWS]


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


def test_a_view_needs_a_token_its_right_and_a_form_of_this_site(
    client: TestClient, server: HttpServer
) -> None:
    def use(view: Operation, headers: dict[str, str] = OWN) -> Any:
        form = {"data": {"x": ""}} if view.method == "POST" else {}
        return client.request(view.method, fill(view.path), headers=headers, follow_redirects=False, **form)

    foreign = ({}, *({"Sec-Fetch-Site": site} for site in ("cross-site", "same-site")), {"Origin": "null"})
    for view in [each for each in VIEWS if each.method == "POST"]:
        assert {use(view, headers).status_code for headers in foreign} == {403}, view.path
    for headers, status in (({"Origin": BASE}, 303), ({"Origin": f"{BASE}:81"}, 403)):
        for path in ("/theme", "/sign-out"):
            answer = client.post(path, data={"theme": "dark"}, headers=headers, follow_redirects=False)
            assert answer.status_code == status
    weak = {}
    for missing in RIGHTS:
        rights = [right for right in RIGHTS if right not in (missing, "admin")]
        weak[missing] = server.tokens.create("weak", scope="user:alice", rights=rights)[1]
    for view in [each for each in VIEWS if each.right is not None]:
        client.cookies.clear()
        assert use(view).headers["location"].startswith("/sign-in")
        sign_in(client, weak[view.right])
        refused = use(view)
        assert refused.status_code == 403, view.path
        assert "lacks the right" in Page(refused.text).text


def test_a_token_opens_the_page_until_it_is_revoked(client: TestClient, server: HttpServer) -> None:
    token, text = server.tokens.create("alice", rights=RIGHTS, origin="owner")
    assert "not valid" in sign_in(client, text[:-1] + "!").text
    signed = sign_in(client, text, next="/history")
    assert (signed.status_code, signed.headers["location"]) == (303, "/history")
    cookie = signed.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "alice" in Page(client.get("/").text).text
    server.tokens.revoke(token.id)
    assert client.get("/", follow_redirects=False).status_code == 303


def test_sign_in_leads_to_this_server_only(client: TestClient, server: HttpServer) -> None:
    _, text = server.tokens.create("alice", rights=RIGHTS, origin="owner")
    for target in ("https://evil.example", "//evil.example", "/\\evil.example", "javascript:x", "/\nx"):
        assert sign_in(client, text, next=target).headers["location"] == "/"


def test_every_answer_forbids_foreign_scripts_and_frames(client: TestClient) -> None:
    for path in ("/", "/history", "/sign-in", "/undo?batch=99", "/static/style.css"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith(
            "default-src 'none'; script-src 'self'; style-src 'self'"
        )
        assert "'unsafe-inline'" not in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_templates_trust_nothing_and_have_nothing_inline() -> None:
    for file in FOLDER.glob("templates/*.html"):
        source = file.read_text(encoding="utf-8")
        inline = r"\|\s*safe\b|autoescape|style=|\bon[a-z]+=|<style|javascript:|<script(?! src=)"
        assert not re.search(inline, source), file.name
        targets = re.findall(r'(?:src|action)="([^"{]+)', source)
        assert all(each.startswith("/") for each in targets), file.name
    assert len(STATIC["style.css"]) <= 30_000
    assert len(STATIC["page.js"]) <= 1_200


# -- what is stored is never part of the page ---------------------------------------------------------------


def assert_harmless(html: str, address: str) -> None:
    """Check that a view has no element or attribute that a stored text asked for."""
    page = Page(html)
    scripts = page.find("script")
    assert [each.get("src", "").partition("?")[0] for each in scripts] == ["/static/page.js"], address
    for tag, attributes in page.tags:
        assert tag not in ("img", "iframe", "object", "style", "base"), (address, tag)
        assert tag != "b" or [*attributes] == ["class"], (address, attributes)
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
    for path, status in (
        ("/memories/" + "0" * 12, 404),
        ("/memories?kind=<script>", 422),
        ("/undo?batch=9999", 404),
        ("/<img src=x>", 404),
    ):
        answer = client.get(path, headers={"Accept": "text/html"})
        assert answer.status_code == status, path
        assert_harmless(answer.text, path)


def test_what_is_hidden_is_made_visible(client: TestClient, memory: Memory) -> None:
    record = memory.save("pay \u202e05 to Bob").record
    for path in (f"/memories/{record.id}", "/", "/memories", "/memories?q=pay"):
        assert "pay \\u202e05 to Bob" in Page(client.get(path).text).text.replace("\n", ""), path


def test_no_time_is_an_internal_error(client: TestClient, memory: Memory) -> None:
    path = f"/memories/{memory.save('Prefers green tea').record.id}"
    far = ("9999-12-31T23:59:59-14:00", "0001-01-01T00:00+14:00")
    for day in ("0001-01-01", "9999-12-31", *far, "soon", "5"):
        assert client.get("/memories", params={"as_of": day}).status_code < 500, day
        fields = read_form(client, path, path) | {"do": "save", "valid_to": day}
        assert client.post(path, data=fields, headers=OWN).status_code < 500, day


def test_a_bound_token_sees_and_changes_its_scope_only(
    client: TestClient, memory: Memory, server: HttpServer
) -> None:
    bob = memory.scoped("user:bob").save("Bob likes opera").record
    alice = memory.scoped("user:alice").save("Alice likes jazz").record
    rights: Any = ["read", "write", "review"]
    _, token = server.tokens.create("alice", scope="user:alice", rights=rights, origin="owner")
    sign_in(client, token)
    for address in (
        "/",
        "/memories",
        "/memories?q=opera",
        "/history",
        "/conversations",
        "/settings",
        "/review",
    ):
        answer = client.get(address)
        assert answer.status_code == 200, answer.text
        assert "likes opera" not in Page(answer.text).text, address
    assert "jazz" in see(client, "/").text
    assert client.get(f"/memories/{bob.id}").status_code == 404
    assert client.post(f"/memories/{bob.id}", data={"do": "pin"}, headers=OWN).status_code == 404
    assert "opera" not in client.get("/undo?batch=1").text
    memory.session("office").add("user", "The office is in Bergen")
    office = see(client, "/conversations/office")
    assert "The office is in Bergen" in office.text
    assert not office.find("button", name="status")
    assert client.get(f"/memories/{alice.id}").status_code == 200
    assert client.get("/memories?scope=*").status_code in (403, 422)
    assert client.get("/access").status_code == 403
    assert client.get("/forget").status_code == 403


def test_a_token_is_made_shown_once_and_revoked(client: TestClient, server: HttpServer) -> None:
    made = client.post(
        "/access", data={"label": "mine", "rights": list(RIGHTS), "origin": "owner"}, headers=OWN
    )
    (text,) = re.findall(r"rvr_\w{8}_[\w-]{43}", made.text)
    assert client.get("/", follow_redirects=False).status_code == 303
    sign_in(client, text)
    again = client.get("/access")
    assert text not in again.text
    (revoke,) = (
        each["action"] for each in Page(again.text).find("form") if each["action"].endswith("/revoke")
    )
    client.post(revoke, data={"x": ""}, headers=OWN)
    assert server.tokens.authenticate(text) is None


def test_a_browser_gets_an_unknown_address_as_a_view(client: TestClient) -> None:
    answer = client.get("/nowhere", headers={"Accept": "text/html"})
    assert answer.status_code == 404
    assert "The menu leads to what there is" in Page(answer.text).text
    assert client.get("/v1/nowhere", headers={"Accept": "text/html"}).json()["status"] == 404


def read_form(client: TestClient, path: str, action: str) -> dict[str, Any]:
    """Return the fields of the form of a view whose action begins so, as a browser would send them."""
    answer = client.get(path)
    return read_fields(answer.text, action)


def read_fields(html: str, action: str) -> dict[str, Any]:
    """Return the fields of the first form whose action begins so, as a browser would send them."""
    for match in re.finditer(r"<form\b.*?</form>", html, re.DOTALL):
        form = Page(match[0])
        (about,) = form.find("form")
        if about.get("method") == "post" and about["action"].partition("?")[0] == action:
            break
    else:
        raise AssertionError(action)
    fields: dict[str, Any] = {}
    for each in form.find("input"):
        if each.get("type") in ("checkbox", "radio") and "checked" not in each:
            continue
        fields.setdefault(each.get("name", ""), []).append(each.get("value", ""))
    for name, text in re.findall(r'<textarea[^>]*name="(\w+)"[^>]*>(.*?)</textarea>', match[0], re.DOTALL):
        fields[name] = unescape(text)
    for name, options in re.findall(r'<select[^>]*name="(\w+)"[^>]*>(.*?)</select>', match[0], re.DOTALL):
        chosen = [each for each in Page(options).find("option") if "selected" in each]
        fields[name] = chosen[0].get("value", "") if chosen else ""
    return fields
