"""Health, metrics and the description of the API."""

from __future__ import annotations

from typing import Any, Literal

from reverie import __version__
from reverie.admin.stats import count_failures
from reverie.domain.scope import EVERY_SCOPE
from reverie.interfaces.http import metrics
from reverie.interfaces.http.operations import Call, Empty, Form, OperationList

OPERATIONS = OperationList()


class Live(Form):
    """Answer of `/livez`."""

    status: Literal["ok"]
    version: str


class Ready(Form):
    """Answer of `/readyz`.

    Attributes:
        sequence: Number of the newest change.
    """

    status: Literal["ok"]
    sequence: int


@OPERATIONS.add("GET", "/livez", None, query=Empty, answer=Live)
def get_liveness(call: Call) -> Any:
    """Return that the process answers."""
    return {"status": "ok", "version": __version__}


@OPERATIONS.add("GET", "/readyz", None, query=Empty, answer=Ready)
def get_readiness(call: Call) -> Any:
    """Return the number of the newest change, if the store can be read and written."""
    call.server.check_writable()
    return {"status": "ok", "sequence": call.server.store.sequence()}


@OPERATIONS.add("GET", "/metrics", "read", answer=str, is_whole=True, media_type=metrics.MEDIA_TYPE)
def get_metrics(call: Call) -> bytes:
    """Return counters in the text format of Prometheus."""
    server = call.server
    stats = server.stats.read(server.memory.scoped(EVERY_SCOPE))
    gauges = {
        "reverie_records": ("Live records.", float(stats.records)),
        "reverie_turns": ("Turns of all sessions.", float(stats.turns)),
        "reverie_journal_sequence": ("Number of the newest change.", float(server.store.sequence())),
        "reverie_store_bytes": ("Bytes on the disk.", float(server.folder_size())),
        "reverie_background_failures": (
            "Background steps that ever failed.",
            float(sum(count_failures(server.store).values())),
        ),
    }
    return server.metrics.format(gauges).encode()
