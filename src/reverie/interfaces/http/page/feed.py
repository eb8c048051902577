"""Changes as people read them: what each did to a memory, in a word and a text, and how it is taken back."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from reverie.admin.history.diff import serialize_change
from reverie.domain.errors import NotFound
from reverie.domain.text.timestamps import parse_time
from reverie.interfaces.http import changes
from reverie.interfaces.http.operations import Call
from reverie.interfaces.http.page.rendering import compare_texts, compare_values, quote_path
from reverie.interfaces.http.schemas import JournalQuery

_BY_PEOPLE = ("owner", "page", "http", "cli")
_LONGEST_DREAM = timedelta(hours=2)
_MOST_READ = 4  # pages of the journal
_QUIET = ("Erased", "Said again", "Perhaps outdated", "Filed anew")
_FIELD_VERBS = {
    "pinned": ("Pinned", "Unpinned"),
    "origin": ("Trusted", "Trusted"),
    "perhaps_replaced_by": ("Perhaps outdated", "Perhaps outdated"),
    "layer": ("Kept for good", "Filed anew"),
    "seen_count": ("Said again", "Said again"),
}
_OTHERS = {"turn": "Message", "session": "Conversation", "page": "Page", "paragraph": "Note"}


def describe_change(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a view shows of a change, which is an item of the journal."""
    before, after = item["before"], item["after"]
    value = after or before or {}
    calls = ", ".join(f"{each['name']}()" for each in value.get("tool_calls", ()))
    text = value.get("content") or calls or value.get("name") or value.get("id") or ""
    is_edit = bool(before and after and before.get("content", "") != after.get("content", ""))
    is_page = item["subject"] in ("page", "paragraph")
    return {
        **item,
        "verb": _name_change(item, before, after),
        "text": value.get("name") or value.get("page") or text if is_page else text,
        "text_pieces": compare_texts(before["content"], after["content"]) if is_edit and not is_page else (),
        "fields": compare_values(before, after) if before and after else [],
        "path": _find_path(item, value),
        "scope": value.get("scope", "") if item["subject"] in ("record", "session", "turn") else "",
        "can_undo": bool(before or after),
    }


def _name_change(item: Mapping[str, Any], before: Any, after: Any) -> str:
    """Return what a change did, in a word."""
    subject = item["subject"]
    if subject is None or (before is None and after is None):
        return "Erased"
    if subject != "record":
        what = "added" if before is None else "removed" if after is None else "changed"
        return f"{_OTHERS.get(subject, subject.capitalize())} {what}"
    if before is None:
        return "You added" if item["actor"] in _BY_PEOPLE and item["operation"] != "import" else "Learned"
    if after is None:
        return "Removed"
    if bool(before["archived_at"]) != bool(after["archived_at"]):
        return "Archived" if after["archived_at"] else "Restored"
    if after["content"] != before["content"]:
        return "You edited" if item["actor"] in _BY_PEOPLE else "Edited"
    if after["valid_to"] != before["valid_to"]:
        if not after["valid_to"]:
            return "True again"
        is_over = parse_time(after["valid_to"]) <= parse_time(item["at"])
        return "Replaced" if after.get("replaced_by") else "No longer true" if is_over else "Given an end"
    names = (name for name in _FIELD_VERBS if after.get(name) != before.get(name))
    verbs = _FIELD_VERBS.get(next(names, ""), ("Filed anew", "Filed anew"))
    is_set = after["layer"] == "semantic" if verbs[0] == "Kept for good" else after["pinned"]
    return verbs[0] if is_set or verbs[1] == verbs[0] else verbs[1]


def _find_path(item: Mapping[str, Any], value: Mapping[str, Any]) -> str:
    """Return the view of the changed thing; empty if it has none."""
    if item["subject"] == "record" and item["id"]:
        return f"/memories/{quote_path(item['id'])}"
    if item["subject"] in ("turn", "session") and value:
        return f"/conversations/{quote_path(value.get('session') or value['id'])}"
    if item["subject"] in ("page", "paragraph") and value:
        return f"/pages/{quote_path(value.get('name') or value['page'])}"
    return ""


def list_changes(call: Call, **query: Any) -> tuple[list[dict[str, Any]], int | None]:
    """Return changes as views show them, the newest first, and the `before` of the next ones."""
    scope = getattr(call.query, "scope", "")
    form = JournalQuery(scope=scope, newest_first=True, **query)
    page = call.numbers.show_all(changes.list_changes(call.with_query(form)).body)
    return [describe_change(item) for item in page["items"]], page["next"]


def list_recent(call: Call, *, since: datetime, limit: int) -> list[dict[str, Any]]:
    """Return the last changes of memories, the newest first; those of one dream as one item with its `batches`."""
    items: list[dict[str, Any]] = []
    before: int | None = None
    for _ in range(_MOST_READ):
        found, before = list_changes(call, limit=100, since=since, before=before)
        for item in found:
            if item["subject"] == "record":
                _add_recent(items, item)
        if before is None or len(items) >= limit:
            break
    return items[:limit]


def _add_recent(items: list[dict[str, Any]], item: dict[str, Any]) -> None:
    last = items[-1] if items else None
    if item["operation"] == "dream":
        if (
            last is None
            or "batches" not in last
            or parse_time(last["at"]) - parse_time(item["at"]) > _LONGEST_DREAM
        ):
            items.append({**item, "verb": "", "batches": set(), "number": 0})
        items[-1]["batches"].add(item["batch"])
        items[-1]["number"] += 1
    elif item["verb"] not in _QUIET:
        items.append(item)


def find_change(call: Call, number: int) -> dict[str, Any] | None:
    """Return the change of that number that the caller sees; None without one."""
    found, _ = list_changes(call, before=number + 1, limit=1)
    return found[0] if found and found[0]["sequence"] == number else None


def find_last_dream(call: Call) -> dict[str, Any] | None:
    """Return the passes of the last dream that was carried out, its changes, and its transactions while they last."""
    history = call.memory.history
    entries = [each for each in call.memory.dreams.log() if each["state"] != "waiting"]
    if not entries:
        return None
    passes = [each for each in entries if each.get("dream") == entries[-1].get("dream")]
    made = tuple(int(str(each["batch"])) for each in passes if each["batch"])
    rows = []
    for batch in made:
        with suppress(NotFound):  # it was erased
            rows += history.transaction(batch)
    has_effect = call.server.has_effect(made, history.sequence())
    return {
        "at": passes[0]["at"],
        "passes": passes,
        "changes": [describe_change(serialize_change(row)) for row in rows if row.subject == "record"],
        "batches": made if has_effect else (),
        "is_taken_back": bool(made) and not has_effect,
    }
