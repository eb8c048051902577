"""The command `worker`: the background work of one memory, or of all memories of a database."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from reverie.consolidation.worker import WorkReport
from reverie.domain.errors import ReverieError, StoreIncompatible
from reverie.domain.text.timestamps import utc_now
from reverie.interfaces.cli import output
from reverie.interfaces.cli.commands.agent.mcp import log_to_stderr
from reverie.interfaces.cli.options import CommandContext, command

if TYPE_CHECKING:
    from reverie.memory import Memory
    from reverie.stores.postgres.address import PostgresAddress
    from reverie.stores.postgres.work import WorkClaim, WorkQueue

_log = logging.getLogger("reverie")

_PAUSE_S = 5.0
_BEAT_S = 10.0


@command()
@click.option("--model", metavar="NAME", help="Model to use, as provider:model.  [the setting `model`]")
@click.option("--once", is_flag=True, help="Do what is due now, and end.")
def worker(context: CommandContext, /, model: str | None, once: bool) -> None:
    """Do background work until it is stopped: dreams, and summaries of long or finished conversations.

    The memory is a folder, or one in a database. The URL of a database without memory= means all its memories, and
    any number of workers on any number of machines share their work. The work of a worker that is killed is taken
    over within a minute. Ctrl-C stops a worker after its current task.
    """
    from reverie.memory import is_database
    from reverie.stores.postgres.address import parse_postgres_url

    place = context.resolve_place()
    with log_to_stderr(debug=context.debug), _stop_on_signals() as stop:
        output.print_message(f"Working for {context.describe_place()}", quiet=context.quiet or once)
        if is_database(place) and (address := parse_postgres_url(place)).is_whole_database:
            _work_for_database(context, address, model, stop, once=once)
            return
        with context.memory(model=model) as memory:
            repeat(lambda: bool(memory.dreams.run_due().outcomes), stop, once=once)


def repeat(work: Callable[[], bool], stop: threading.Event, *, once: bool) -> None:
    """Call a function until it is stopped, with a pause after each call that found nothing to do.

    Args:
        work: Does what is due; returns whether anything was.
        stop: Event that ends it.
        once: Whether to end when nothing is due.
    """
    while not stop.is_set():
        try:
            has_worked = work()
        except ReverieError as error:
            if once or isinstance(error, StoreIncompatible):
                raise
            _log.warning("background work failed and is tried again: %s", error)
            has_worked = False
        if not has_worked:
            if once:
                return
            stop.wait(_PAUSE_S)


def _work_for_database(
    context: CommandContext, address: PostgresAddress, model: str | None, stop: threading.Event, *, once: bool
) -> None:
    from reverie.stores.postgres.work import WorkQueue

    def work() -> bool:
        claim = queue.claim()
        if claim is None:
            return False
        _work_for_claim(
            queue, claim, lambda: context.memory(model=model, store=address.build_url(claim.memory))
        )
        return True

    queue = WorkQueue(address)
    beating = threading.Thread(target=_beat, args=(queue, stop), name="reverie-heartbeat", daemon=True)
    beating.start()
    try:
        repeat(work, stop, once=once)
    finally:
        stop.set()
        beating.join()
        queue.close()


def _work_for_claim(
    queue: WorkQueue, claim: WorkClaim, open_memory: Callable[[], AbstractContextManager[Memory]]
) -> None:
    """Do what is due in a memory, and tell the queue when more will be."""
    next_at: datetime | None = None
    has_failed = False
    try:
        with open_memory() as memory:
            report: WorkReport = memory.dreams.run_due()
            has_failed = any(outcome.state == "failed" for outcome in report.outcomes)
            soon = utc_now() + timedelta(seconds=_PAUSE_S)
            if report.busy or report.outcomes:
                next_at = soon
            elif (due_at := memory.dreams.find_next_due()) is not None:
                next_at = max(due_at, soon)
    except StoreIncompatible:
        raise  # it concerns all memories of the database
    except ReverieError as error:
        _log.warning("the work of memory %r failed and is tried again: %s", claim.memory, error)
        has_failed = True
    except Exception as error:  # noqa: BLE001 - one memory must not keep a worker from the others
        _log.warning("the work of memory %r failed and is tried again", claim.memory, exc_info=error)
        has_failed = True
    queue.finish(claim, next_at, has_failed=has_failed)


def _beat(queue: WorkQueue, stop: threading.Event) -> None:
    while True:
        try:
            queue.beat()
        except ReverieError as error:
            _log.warning("the heartbeat failed: %s", error)
        if stop.wait(_BEAT_S):
            return


@contextmanager
def _stop_on_signals() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C and SIGTERM set; a second signal ends the process at once."""
    stop = threading.Event()
    before: dict[int, Any] = {}

    def handle(number: int, _: object) -> None:
        stop.set()
        signal.signal(number, before[number])

    for each in (signal.SIGINT, signal.SIGTERM):
        with suppress(ValueError):  # not in the main thread, as in tests
            before[each] = signal.signal(each, handle)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
