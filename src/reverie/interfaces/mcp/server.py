"""Handlers for all requests of the protocol, with and without a handshake.

The low-level server of the `mcp` package implements the protocol. The transports are in `stdio` and in
`reverie.interfaces.http.application`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote, unquote

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from reverie import __version__
from reverie.domain.errors import InvalidInput, ReverieError, StoreError
from reverie.domain.page import HISTORY, MEMORY, parse_daily_note_day, validate_page_name
from reverie.domain.scope import EVERY_SCOPE, parse_session_scope, validate_scope
from reverie.domain.text import escaping
from reverie.interfaces.mcp.handshake import INSTRUCTIONS, NAME
from reverie.interfaces.mcp.threads import CallThreads
from reverie.memory import Memory
from reverie.scoped import ScopedMemory
from reverie.tools import DEFAULT_GROUPS, ToolResult, Toolset, memory_tools
from reverie.tools.rendering import cut_part
from reverie.tools.toolset import to_mcp
from reverie.tools.working_memory import is_page_trusted

_Request = ServerRequestContext[Any, Any]
_log = logging.getLogger("reverie.mcp")
_T = TypeVar("_T")

TRUSTED = "reverie/trusted"
"""Name in the metadata of a result: False if it shows text of a tool, the web or an import."""

MAX_REPEATED_CHARACTERS = 4_000
"""Length up to which the text of a result is also structured content, the only part that some clients show."""

_ADVICE = "Try again; if it fails again, tell the user to run `reverie doctor`."


class _Bug(ReverieError):
    """Unexpected error in a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedMemory:
    """Memory, tools and resources that a server offers to its clients.

    Attributes:
        memory: The open memory.
        view: The scope that clients see.
        tools: The offered tools.
        text_only: Whether results of tools have no structured content.
    """

    memory: Memory
    view: ScopedMemory
    tools: Toolset
    text_only: bool = False


def create_offer(
    memory: Memory,
    *,
    scope: str = "",
    session: str | None = None,
    groups: Sequence[str] | None = None,
    read_only: bool = False,
    prefix: str = "",
    text_only: bool = False,
) -> ServedMemory:
    """Create the offer of a server.

    Args:
        memory: The open memory.
        scope: Scope that clients see; empty for the common scope.
        session: Session of the tools; None for none.
        groups: Groups of tools, as in `Memory.tools`; None for the default groups, empty for none.
        read_only: Whether to offer only tools that change nothing.
        prefix: Prefix of all tool names.
        text_only: Whether results of tools have no structured content.

    Raises:
        InvalidInput: an argument is invalid, a group does not exist, or the session belongs to a scope and
            no scope is given.
    """
    view = memory.scoped(validate_scope(scope))
    last = [] if session is None else memory.scoped(EVERY_SCOPE).turns(session, start=-1)
    session_scope = last[0].scope if last else parse_session_scope(session or "")
    if session_scope and not scope:
        raise InvalidInput(
            f"session {session!r} belongs to the scope {session_scope!r}, which is not served: "
            "give that scope too"
        )
    chosen = list(DEFAULT_GROUPS if groups is None else groups)
    tools = memory_tools(view, session=session, groups=chosen)
    if read_only:
        tools = tools.reading()
    return ServedMemory(
        memory=memory, view=view, tools=tools.prefixed(prefix) if prefix else tools, text_only=text_only
    )


class MemoryServer:
    """Server of one memory over MCP; a transport runs `protocol`."""

    def __init__(self, offer: ServedMemory, *, threads: CallThreads | None = None) -> None:
        """Serve an offer.

        Args:
            offer: The served memory; the caller keeps it open and closes it.
            threads: Threads for calls; None to create them.
        """
        self.offer = offer
        self.threads = threads or CallThreads()
        tools = [types.Tool.model_validate(to_mcp(each)) for each in offer.tools]
        templates = list(TEMPLATES)
        self.protocol: Server[Any] = Server(
            NAME,
            version=__version__,
            title=NAME.title(),
            instructions=INSTRUCTIONS,
            on_list_tools=_build_handler(types.ListToolsResult(tools=tools)),
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=_build_handler(
                types.ListResourceTemplatesResult(resource_templates=templates)
            ),
            on_read_resource=self._read_resource,
        )

    # -- tools -------------------------------------------------------------------------------------------

    async def _call_tool(self, ctx: _Request, params: types.CallToolRequestParams) -> types.CallToolResult:
        tools = self.offer.tools
        if params.name not in tools.names:
            known = ", ".join(tools.names) or "none"
            name = escaping.escape_output(params.name[:80])
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool {name!r}. Known tools: {known}.")
        result = await self._run_tool(params.name, params.arguments or {})
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=result.text)],
            structured_content=self._build_structured_content(result),
            is_error=result.failed,
            _meta={TRUSTED: result.trusted},
        )

    def _build_structured_content(self, result: ToolResult) -> dict[str, Any] | None:
        """Return a short text once more as data; None for a long one, since some clients count both."""
        if self.offer.text_only or len(result.text) > MAX_REPEATED_CHARACTERS:
            return None
        return {"text": result.text, "trusted": result.trusted}

    async def _run_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Run a tool; return an error of the memory as a result that says what to do."""
        try:
            return await self._refresh_and_run(partial(self.offer.tools.call, name, arguments))
        except _Bug as error:
            return ToolResult(f"{name} failed with {error}. Continue without it.", failed=True)
        except StoreError as error:
            _log.error("%s: %s", name, error)
            return ToolResult(f"The memory failed, and nothing was changed: {error}. {_ADVICE}", failed=True)
        except ReverieError as error:
            return ToolResult(f"Nothing was changed: {error}.", failed=True)

    async def _refresh_and_run(self, make: Callable[[], _T]) -> _T:
        """Import hand edits of the files and run a function, on a thread.

        Raises:
            _Bug: an unexpected error, which is in the log.
        """

        def refresh_and_make() -> _T:
            self.offer.memory.refresh_files()
            return make()

        try:
            return await self.threads.run(refresh_and_make)
        except (ReverieError, MCPError):
            raise
        except Exception as error:
            _log.exception("a request failed")
            what = f"{type(error).__name__}, which is a bug in Reverie; the server's log has details"
            raise _Bug(what) from error

    # -- resources ---------------------------------------------------------------------------------------

    async def _list_resources(
        self, ctx: _Request, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return await self._run_on_thread(partial(list_resources, self.offer.view))

    async def _read_resource(
        self, ctx: _Request, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS  # then there was no handshake
        return await self._run_on_thread(
            partial(read_resource, self.offer.view, str(params.uri), stateless=is_modern)
        )

    async def _run_on_thread(self, make: Callable[[], _T]) -> _T:
        """Run a function on a thread; convert errors to protocol errors."""
        try:
            return await self._refresh_and_run(make)
        except InvalidInput as error:
            raise MCPError(types.INVALID_PARAMS, f"{error}.") from error
        except _Bug as error:
            raise MCPError(types.INTERNAL_ERROR, f"{error}.") from error
        except ReverieError as error:
            _log.error("%s", error)
            raise MCPError(types.INTERNAL_ERROR, f"The memory failed: {error}. {_ADVICE}") from error


def _build_handler(result: _T) -> Callable[[_Request, Any], Awaitable[_T]]:
    """Return the handler of a request whose result is always the same."""

    async def handle(ctx: _Request, params: Any) -> _T:
        return result

    return handle


# -- resources ------------------------------------------------------------------------------------


PAGE_URI = "reverie://memory/"

LIVING_PAGE_URI = "memory://page"
"""The living page of the served scope."""

_MARKDOWN = "text/markdown"
_LIVING_PAGE = types.Resource(
    uri=LIVING_PAGE_URI,
    name="page",
    title="What is known",
    description="What this memory knows, one line for each memory, with its id.",
    mime_type=_MARKDOWN,
)

_NOT_FOUND_LEGACY = -32002  # error code of the protocol until 2025-11-25

TEMPLATES = (
    types.ResourceTemplate(
        name="page",
        title="A page or log",
        uri_template=PAGE_URI + "{name}",
        description="MEMORY.md, HISTORY.md, a daily note such as 2026-02-07.md, or another page.",
        mime_type=_MARKDOWN,
    ),
)


def list_resources(view: ScopedMemory) -> types.ListResourcesResult:
    """Return the pages and logs, and the living page."""
    listed = [
        types.Resource(
            uri=PAGE_URI + quote(name),
            name=name,
            title=name,
            description=_describe_page(name),
            mime_type=_MARKDOWN,
        )
        for name in dict.fromkeys((MEMORY, HISTORY, *view.pages.names()))
    ]
    return types.ListResourcesResult(resources=[*listed, _LIVING_PAGE])


def _describe_page(name: str) -> str:
    if name == MEMORY:
        return "The page that is part of every prompt."
    if name == HISTORY:
        return "Summaries of conversations, one paragraph each."
    return "Notes of one day." if parse_daily_note_day(name) is not None else "A page."


def read_resource(view: ScopedMemory, uri: str, *, stateless: bool) -> types.ReadResourceResult:
    """Return the page or log at a URI; a part of a long one, with the URI of the next.

    Args:
        view: The served memory.
        uri: The URI.
        stateless: Whether the connection has no handshake; then another error code means "not found".

    Raises:
        MCPError: the resource does not exist.
    """
    path, _, part = uri.partition("?part=")
    if path == LIVING_PAGE_URI:  # it has trusted records only
        return _build_contents(path, view.page(), part, trusted=True)
    name = unquote(path.removeprefix(PAGE_URI)) if uri.startswith(PAGE_URI) else ""
    try:
        validate_page_name(name)
    except InvalidInput:
        name = ""
    if not name or (name not in (MEMORY, HISTORY) and name not in view.pages.names()):
        raise MCPError(
            types.INVALID_PARAMS if stateless else _NOT_FOUND_LEGACY,
            f"Unknown resource {escaping.escape_output(uri[:300])!r}: see resources/list and resources/templates/list.",
            {"uri": uri},
        )
    return _build_contents(path, view.pages.read(name), part, trusted=is_page_trusted(view.pages, name))


def _build_contents(uri: str, text: str, part: str, *, trusted: bool) -> types.ReadResourceResult:
    """Return a part of a text, escaped, with the URI of the next part."""
    number = int(part) if part.isdecimal() and len(part) < 5 else None
    shown = "\n\n".join(filter(None, cut_part(text, number, how=f"Read {uri}?part={{}}")))
    item = types.TextResourceContents(uri=uri, mime_type=_MARKDOWN, text=shown, _meta={TRUSTED: trusted})
    return types.ReadResourceResult(contents=[item])
