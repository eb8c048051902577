"""How does an agent use a memory over the Model Context Protocol? Tools, resources, prompts, transports.

Needs the package `mcp`, which is imported only by the modules here. What the tools do is in `reverie.tools`.
"""
