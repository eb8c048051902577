"""Handlers for all requests of the protocol, with and without a handshake.

The low-level server of the `mcp` package implements the protocol. The transports are in `stdio` and in
`reverie.interfaces.http.protocol`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from reverie import __version__
from reverie.domain.errors import InvalidInput, ReverieError, StoreError
from reverie.domain.text.json_values import to_json_value
from reverie.interfaces.mcp import prompts, resources
from reverie.interfaces.mcp.handshake import INSTRUCTIONS, NAME
from reverie.interfaces.mcp.offer import ServedMemory
from reverie.interfaces.mcp.subscriptions import INTERVAL_S, SubscriptionHub
from reverie.interfaces.mcp.threads import CallThreads
from reverie.tools import Tool, ToolResult, Toolset

_Request = ServerRequestContext[Any, Any]
_log = logging.getLogger("reverie.mcp")
_T = TypeVar("_T")

_ADVICE = "Try again; if it fails again, tell the user to run `reverie doctor`."


class _Protocol(Server[Any]):
    """Server that announces, on every transport, that it reports changes of the resource list."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Return the capabilities for a connection with a handshake."""
        options = notification_options or NotificationOptions(resources_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)


class MemoryServer:
    """Server of one memory over MCP; a transport runs `protocol`."""

    def __init__(
        self, offer: ServedMemory, *, threads: CallThreads | None = None, interval: float = INTERVAL_S
    ) -> None:
        """Serve an offer.

        Args:
            offer: The served memory; the caller keeps it open and closes it.
            threads: Threads for calls; None to create them.
            interval: Seconds between checks for changes by others.
        """
        self.offer = offer
        self.threads = threads or CallThreads()
        self.changes = SubscriptionHub(offer, self.threads, interval=interval)
        tools = [to_protocol_tool(tool, text_only=offer.text_only) for tool in offer.tools]
        templates = list(resources.TEMPLATES)
        self.protocol: Server[Any] = _Protocol(
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
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=self.changes.listen,
            on_list_prompts=_build_handler(types.ListPromptsResult(prompts=[prompts.PROMPT])),
            on_get_prompt=self._get_prompt,
        )

    # -- tools -------------------------------------------------------------------------------------------

    async def _call_tool(self, ctx: _Request, params: types.CallToolRequestParams) -> types.CallToolResult:
        tools = self.offer.tools
        if params.name not in tools.names:
            known = ", ".join(tools.names) or "none"
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool {params.name[:80]!r}. Known tools: {known}.")
        result = await self._run_tool(params.name, params.arguments or {})
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=result.text)],
            structured_content=self._build_structured_content(tools.tool(params.name), result),
            is_error=result.failed,
        )

    def _build_structured_content(self, tool: Tool, result: ToolResult) -> dict[str, Any] | None:
        """Return the text once more, since some clients show a model nothing else."""
        if self.offer.text_only:
            return None
        if tool.result is not None:
            return None if result.data is None else to_json_value(result.data)
        return {"text": result.text, "trusted": result.trusted}

    async def _run_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Run a tool; return an error of the memory as a result that says what to do."""
        try:
            return await self._refresh_and_run(partial(self.offer.tools.call, name, arguments))
        except StoreError as error:
            _log.error("%s: %s", name, error)
            return ToolResult(f"The memory failed, and nothing was changed: {error}. {_ADVICE}", failed=True)
        except ReverieError as error:
            return ToolResult(f"Nothing was changed: {error}.", failed=True)
        except Exception as error:  # noqa: BLE001 - the outermost handler of a call: it is logged and reported
            _log.exception("%s failed", name)
            return ToolResult(
                f"{name} failed with {type(error).__name__}, which is a bug in Reverie. The server's log has "
                "details; continue without it.",
                failed=True,
            )

    async def _refresh_and_run(self, make: Callable[[], _T]) -> _T:
        """Import hand edits of the files and run a function, on a thread."""

        def refresh_and_make() -> _T:
            self.offer.memory._refresh_files()
            return make()

        return await self.threads.run(refresh_and_make)

    # -- resources ---------------------------------------------------------------------------------------

    async def _list_resources(
        self, ctx: _Request, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        if not _is_stateless(ctx):
            await self.changes.subscribe(
                ctx, None
            )  # the client has a list now, and is notified when it changes
        cursor = None if params is None else params.cursor
        return await self._run_on_thread(partial(resources.list_resources, self.offer, cursor))

    async def _read_resource(
        self, ctx: _Request, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        read = partial(resources.read, self.offer, str(params.uri), stateless=_is_stateless(ctx))
        return await self._run_on_thread(read)

    async def _subscribe(self, ctx: _Request, params: types.SubscribeRequestParams) -> types.EmptyResult:
        await self.changes.subscribe(ctx, str(params.uri))
        return types.EmptyResult()

    async def _unsubscribe(self, ctx: _Request, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        await self.changes.unsubscribe(ctx, str(params.uri))
        return types.EmptyResult()

    # -- prompts -----------------------------------------------------------------------------------------

    async def _get_prompt(self, ctx: _Request, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        return await self._run_on_thread(
            partial(prompts.get_prompt, self.offer, params.name, params.arguments)
        )

    async def _run_on_thread(self, make: Callable[[], _T]) -> _T:
        """Run a function on a thread; convert errors to protocol errors."""
        try:
            return await self._refresh_and_run(make)
        except MCPError:
            raise
        except InvalidInput as error:
            raise MCPError(types.INVALID_PARAMS, f"{error}.") from error
        except ReverieError as error:
            _log.error("%s", error)
            raise MCPError(types.INTERNAL_ERROR, f"The memory failed: {error}. {_ADVICE}") from error
        except Exception as error:
            _log.exception("a request failed")
            what = f"{type(error).__name__}: this is a bug in Reverie; the server's log has details."
            raise MCPError(types.INTERNAL_ERROR, what) from error


def to_protocol_tool(tool: Tool, *, text_only: bool = False) -> types.Tool:
    """Convert a tool to its form in the protocol; without a schema of structured content if `text_only`."""
    (form,) = Toolset([tool]).mcp()
    if text_only:
        del form["outputSchema"]
    return types.Tool.model_validate(form)


def _build_handler(result: _T) -> Callable[[_Request, Any], Awaitable[_T]]:
    """Return the handler of a request whose result is always the same."""

    async def handle(ctx: _Request, params: Any) -> _T:
        return result

    return handle


def _is_stateless(ctx: _Request) -> bool:
    """Whether a request came without a handshake."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
