"""Server for the Model Context Protocol: tools, resources, prompts and transports.

Needs the package `mcp`, which is imported only by the modules here. What the tools do is in `reverie.tools`.
"""
