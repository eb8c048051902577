"""HTTP server: the native API, MCP over HTTP, tokens, health and metrics.

Imports everything below, and `interfaces.mcp` when the first client speaks MCP.

Needs the packages starlette, uvicorn and pydantic, except for `tokens`.
"""
