"""The web page: sign-in, protection from other sites, headers, escaping, and what each view does."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from starlette.testclient import TestClient

from reverie import Memory
from reverie.interfaces.http.page.rendering import FOLDER
from reverie.interfaces.http.page.site import GROUPS
from reverie.interfaces.http.page.views import PageView
from reverie.interfaces.http.server import HttpServer
from reverie.interfaces.http.tokens import RIGHTS

pytest.importorskip("jinja2")

OWN = {"Sec-Fetch-Site": "same-origin"}
VIEWS = [each for group in GROUPS for each in group.VIEWS]


def name_of(value: object) -> str:
    return value.name if isinstance(value, PageView) else str(value)


def fill(path: str) -> str:
    return re.sub(r"\{\w+(:\w+)?\}", "000000000000", path)


def sign_in(client: TestClient, token: str, **options: Any) -> Any:
    return client.post("/sign-in", data={"token": token, **options}, headers=OWN, follow_redirects=False)


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
def test_a_view_needs_a_token_and_its_right(client: TestClient, server: HttpServer, view: PageView) -> None:
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
@pytest.mark.parametrize(
    "headers", [{}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "null"}]
)
def test_a_form_of_another_site_is_refused(
    client: TestClient, view: PageView, headers: dict[str, str]
) -> None:
    refused = client.post(fill(view.path), data={"x": ""}, headers=headers, follow_redirects=False)
    assert refused.status_code == 403


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
    assert views == 3
