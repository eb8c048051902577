"""LangGraph's `BaseStore` over a memory.

Items are key-value items of the memory, so each is a record that people see, change and take back. A query
finds it by its words, without embeddings. Checkpoints of threads are not stored here.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import operator
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from typing import Any

from reverie.context.retrieval import query_from_message
from reverie.domain.errors import InvalidInput, MissingExtra, ReverieError, quote_value
from reverie.domain.record import Origin
from reverie.domain.text.validation import validate_count
from reverie.integrations.core import AnyMemory, to_sync
from reverie.repositories.key_value import Item as StoredItem
from reverie.repositories.key_value import Namespace, Place, PutItem

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        InvalidNamespaceError,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        get_text_at_path,
        tokenize_path,
    )
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] not in {"langgraph", "langchain_core"}:
        raise
    raise MissingExtra("a LangGraph store needs LangGraph: pip install 'reverie[langgraph]'") from error

_log = logging.getLogger("reverie")

_WHOLE = "$"
_SWEEP_MINUTES = 5.0


class ReverieStore(BaseStore):
    """LangGraph's store over a memory: `builder.compile(store=ReverieStore(memory))`. Safe for threads.

    It behaves as LangGraph's own stores do, with three differences. An item keeps its `created_at` when it is put
    again. An expired item is not read, even before it has been swept. A search with a `query` returns only what is
    relevant to it, best first, with scores from 0 to 1.
    """

    supports_ttl = True

    def __init__(
        self,
        memory: AnyMemory,
        *,
        name: str = "langgraph",
        fields: Sequence[str] = (_WHOLE,),
        ttl: TTLConfig | None = None,
        origin: Origin = "agent",
        session: str | None = None,
    ) -> None:
        """Create a store over a memory.

        Args:
            memory: A memory, or a scope of one, outside of which nothing is seen; or their asynchronous forms.
            name: The first segment of the items' categories; stores of other names have other items.
            fields: What a search with a query reads of items that are put without `index`: paths such as
                `metadata.title` or `chapters[*].content`; `$` for the whole value.
            ttl: `default_ttl` and `sweep_interval_minutes`, in minutes, and `refresh_on_read`.
            origin: Origin of the items. Those of a `tool` or the `web` are found by search, and never put into a
                prompt unasked.
            session: The conversation in which a model puts items. After the result of a tool, an item that the
                owner did not say has the origin of the tool. None where a program puts them.

        Raises:
            InvalidInput: an argument is not of its form.
        """
        if isinstance(fields, str):
            raise InvalidInput(f"fields is {fields!r}: pass a list, such as [{fields!r}]")
        # LangGraph's own stores renew a lifetime by reading only where `refresh_on_read` is set.
        self.ttl_config = None if ttl is None else {"refresh_on_read": False, **ttl}
        self._fields = list(fields)
        plain = to_sync(memory)
        determine_origin = None if session is None else plain.session(session).determine_origin
        self._key_value = plain.key_value(name, origin=origin, determine_origin=determine_origin)
        self._sweeper: threading.Thread | None = None
        self._stop = threading.Event()

    # -- operations --------------------------------------------------------------------------------------

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run several operations. All reads see the state before, all puts are one transaction.

        Args:
            ops: The operations; of several puts of one key the last counts.

        Returns:
            The result of each, in order.

        Raises:
            InvalidNamespaceError: a label is empty, no string, or has a period or NUL.
            InvalidInput: a value is no JSON object, or an argument is not of its form; nothing was changed.
        """
        ops = list(ops)
        for op in ops:
            _check_labels(op)
        puts = [self._put_of(op) for op in ops if isinstance(op, PutOp)]
        results: list[Result] = [None] * len(ops)
        read: list[Place] = []
        if len(puts) < len(ops):
            self._read(ops, results, read)
        if read:
            self._key_value.touch(read)
        if puts:
            self._key_value.put_many(puts)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run `batch` on a worker thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _read(self, ops: Sequence[Op], results: list[Result], read: list[Place]) -> None:
        """Fill in the results of gets, searches and lists, all of one state of the memory.

        Args:
            ops: The operations.
            results: Their results.
            read: Gets the places of those items whose lifetime begins again.
        """
        with self._key_value.reading():
            for index, op in enumerate(ops):
                found: list[StoredItem] = []
                if isinstance(op, GetOp):
                    if (item := self._key_value.get(tuple(op.namespace), op.key)) is not None:
                        found, results[index] = [item], Item(**_describe(item))
                elif isinstance(op, SearchOp):
                    found = self._search(op)
                    results[index] = [SearchItem(**_describe(each), score=each.score) for each in found]
                elif isinstance(op, ListNamespacesOp):
                    results[index] = _list_namespaces(self._key_value.namespaces(), op)
                if isinstance(op, GetOp | SearchOp) and op.refresh_ttl:
                    read += [(each.namespace, each.key) for each in found if each.ttl is not None]

    def _search(self, op: SearchOp) -> list[StoredItem]:
        def accept(value: Mapping[str, Any]) -> bool:
            return all(_is_like(_get_at(value, key), each) for key, each in (op.filter or {}).items())

        namespace = tuple(op.namespace_prefix)
        validate_count(op.limit, name="limit", least=0)
        validate_count(op.offset, name="offset", least=0)
        end = op.offset + op.limit
        if op.query:
            question = query_from_message(op.query)
            return self._key_value.search(question, namespace=namespace, limit=end, where=accept)[op.offset :]
        items = (item for item in self._key_value.items(namespace) if accept(item.value))
        return list(islice(items, op.offset, end))

    def _put_of(self, op: PutOp) -> PutItem:
        ttl = None if op.ttl is None or op.value is None else _parse_minutes(op.ttl)
        texts = None if op.value is None else self._extract_texts(op.value, op.index)
        return PutItem(namespace=tuple(op.namespace), key=op.key, value=op.value, texts=texts, ttl=ttl)

    def _extract_texts(
        self, value: Mapping[str, Any], index: Sequence[str] | bool | None
    ) -> Sequence[str] | None:
        """Return what a search reads of a value; None for all of it."""
        if index is False:
            return ()
        if index is True or isinstance(index, str):
            raise InvalidInput(f"index is {index!r}: pass False, or paths such as ['metadata.title']")
        paths = self._fields if index is None else list(index)
        if _WHOLE in paths:
            return None
        return [text for path in paths for text in get_text_at_path(dict(value), tokenize_path(path))]

    # -- time to live ------------------------------------------------------------------------------------

    def sweep_ttl(self) -> int:
        """Archive expired items, which are not read any more in any case, and return how many."""
        return self._key_value.sweep()

    def start_ttl_sweeper(
        self, sweep_interval_minutes: float | None = None
    ) -> concurrent.futures.Future[None]:
        """Sweep repeatedly in a thread, if the store was given a `ttl`.

        Args:
            sweep_interval_minutes: How long to wait between two sweeps; None takes the `ttl`'s, or 5 minutes.

        Returns:
            What is done when the sweeper ends; cancelling it stops the sweeper.
        """
        future: concurrent.futures.Future[None] = concurrent.futures.Future()
        if not self.ttl_config:
            future.set_result(None)
            return future
        if self._sweeper is None or not self._sweeper.is_alive():
            self._stop = threading.Event()
            minutes = (
                sweep_interval_minutes or self.ttl_config.get("sweep_interval_minutes") or _SWEEP_MINUTES
            )
            given = (self._stop, float(minutes) * 60, future)
            self._sweeper = threading.Thread(
                target=self._sweep_periodically, args=given, name="reverie-ttl-sweeper", daemon=True
            )
            self._sweeper.start()
        future.add_done_callback(lambda done: self._stop.set() if done.cancelled() else None)
        return future

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop the sweeper, and wait until it has stopped.

        Args:
            timeout: For how many seconds to wait; None for ever.

        Returns:
            False if it has not stopped in time.
        """
        self._stop.set()
        if self._sweeper is not None:
            self._sweeper.join(timeout)
        return self._sweeper is None or not self._sweeper.is_alive()

    def _sweep_periodically(
        self, stop: threading.Event, seconds: float, future: concurrent.futures.Future[None]
    ) -> None:
        while not stop.wait(seconds):
            try:
                self.sweep_ttl()
            except ReverieError as error:  # a full disk, a lock: the next sweep may succeed
                _log.warning("the items whose time is over could not be archived: %s", error)
        if not future.done():
            future.set_result(None)


def _describe(found: StoredItem) -> dict[str, Any]:
    """Return the fields that LangGraph's items have."""
    names = ("namespace", "key", "value", "created_at", "updated_at")
    return {name: getattr(found, name) for name in names}


# -- namespaces ------------------------------------------------------------------------------------------


def _check_labels(op: Op) -> None:
    namespaces: list[Sequence[str]] = []
    if isinstance(op, ListNamespacesOp):
        for condition in op.match_conditions or ():
            if condition.match_type not in {"prefix", "suffix"}:
                raise InvalidInput(f"match_type is {condition.match_type!r}: use prefix or suffix")
            namespaces.append(condition.path)
    elif isinstance(op, GetOp | PutOp | SearchOp):
        namespaces.append(op.namespace_prefix if isinstance(op, SearchOp) else op.namespace)
    else:
        what = type(op).__name__
        raise InvalidInput(f"an operation is {what}: use GetOp, PutOp, SearchOp or ListNamespacesOp")
    for namespace in namespaces:
        for label in namespace:
            if not isinstance(label, str) or not label or "." in label or "\0" in label:
                raise InvalidNamespaceError(
                    f"namespace {namespace!r} has the label {label!r}: use strings that are not empty and have "
                    "neither a period nor NUL"
                )


def _list_namespaces(namespaces: Iterable[Namespace], op: ListNamespacesOp) -> list[Namespace]:
    if op.limit < 0 or op.offset < 0 or (op.max_depth is not None and op.max_depth < 0):
        raise InvalidInput("limit, offset or max_depth is negative: pass whole numbers from 0")
    matching = [
        each for each in namespaces if all(_is_match(each, wanted) for wanted in op.match_conditions or ())
    ]
    if op.max_depth is not None:
        matching = sorted({each[: op.max_depth] for each in matching})
    return matching[op.offset : op.offset + op.limit]


def _is_match(namespace: Namespace, wanted: MatchCondition) -> bool:
    """Whether a namespace begins or ends with a path. `*` stands for any one label."""
    path = tuple(wanted.path)
    if len(namespace) < len(path):
        return False
    start = 0 if wanted.match_type == "prefix" else len(namespace) - len(path)
    part = namespace[start : start + len(path)]
    return all(step in {"*", label} for label, step in zip(part, path, strict=True))


# -- filters ---------------------------------------------------------------------------------------------

_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
_OPERATORS = ("$eq", "$ne", *_ORDERS)


def _get_at(value: Mapping[str, Any], key: str) -> object:
    """Return what stands under a key, or at a path such as `metadata.title`; None where nothing does."""
    if key in value or "." not in key:
        return value.get(key)
    first, _, rest = key.partition(".")
    inner = value.get(first)
    return _get_at(inner, rest) if isinstance(inner, Mapping) else None


def _is_like(value: object, wanted: object) -> bool:
    if isinstance(wanted, Mapping):
        if any(str(name).startswith("$") for name in wanted):
            return all(_is_satisfied(value, name, operand) for name, operand in wanted.items())
        return isinstance(value, Mapping) and all(
            _is_like(_get_at(value, key), inner) for key, inner in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        if not isinstance(value, list) or len(value) != len(wanted):
            return False
        return all(_is_like(one, other) for one, other in zip(value, wanted, strict=True))
    return value == wanted


def _is_satisfied(value: object, name: str, operand: object) -> bool:
    if name == "$eq":
        return value == operand
    if name == "$ne":
        return value != operand
    if name not in _ORDERS:
        raise InvalidInput(f"a filter has the operator {name!r}: use {', '.join(_OPERATORS)}")
    comparable = any(isinstance(value, kind) and isinstance(operand, kind) for kind in (str, int | float))
    return comparable and _ORDERS[name](value, operand)


def _parse_minutes(count: float) -> timedelta:
    """Convert a number of minutes, which may be 0 or negative, to a duration; raise `InvalidInput`."""
    if not isinstance(count, bool):
        with suppress(TypeError, ValueError, OverflowError):
            return timedelta(minutes=count)
    raise InvalidInput(f"ttl is {quote_value(count)}: pass a number of minutes")
