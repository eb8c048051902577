"""Server of the Model Context Protocol: tools, resources, prompts, transports.

Imports the root modules and `tools`.

Needs the package `mcp`, which only the modules here import.
"""
