"""Overview: how much there is, how it is, what happened last."""

from __future__ import annotations

from reverie.admin.stats import count_failures
from reverie.domain.scope import EVERY_SCOPE
from reverie.domain.text.json_values import to_json_value
from reverie.interfaces.http import administration, changes
from reverie.interfaces.http.operations import Call
from reverie.interfaces.http.page.timeline import build_batches, find_last_dream
from reverie.interfaces.http.page.views import Screen, ViewList, is_allowed, perform

VIEWS = ViewList()

_RECENT = 40


@VIEWS.add("GET", "/", "read")
def show_overview(call: Call) -> Screen:
    """Show the overview."""
    if is_allowed(call, "admin", is_whole=True) and not call.query.scope:
        stats = to_json_value(call.server.stats.read(call.memory.scoped(EVERY_SCOPE)))
        stats |= {"journal": call.server.store.sequence(), "failed": count_failures(call.server.store)}
    else:
        stats = perform(call, administration.get_stats)
    recent = perform(call, changes.list_changes, limit=_RECENT, newest_first=True)["items"]
    dream = find_last_dream(call) if is_allowed(call, "review", is_whole=True) else None
    return Screen(
        "overview.html",
        stats=stats,
        batches=build_batches(recent)[:10],
        dream=dream,
        waiting=_count_waiting(call) if is_allowed(call, "review") else 0,
    )


def _count_waiting(call: Call) -> int:
    """Return how many plans and proposals wait for a decision."""
    proposals = perform(call, administration.list_proposals)["items"]
    plans = call.server.plans.plans() if not call.caller.scope else []
    return len(proposals) + sum(bool(plan.groups) and not plan.decided for plan in plans)
